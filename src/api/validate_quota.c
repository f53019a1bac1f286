/* SPDX-License-Identifier: Apache-2.0 */
#include "api/members_priv.h"
#include "api/meta.h"
#include "api/quota.h"
#include "api/validate_priv.h"
#include "base/str.h"

/* The rules of ResourceQuota and PriorityClass, and of the names of resources. */

static const char *const standard_names[] = {
	"cpu",
	"memory",
	"ephemeral-storage",
	"requests.cpu",
	"requests.memory",
	"requests.storage",
	"requests.ephemeral-storage",
	"limits.cpu",
	"limits.memory",
	"limits.ephemeral-storage",
	"pods",
	"resourcequotas",
	"services",
	"replicationcontrollers",
	"secrets",
	"persistentvolumeclaims",
	"configmaps",
	"services.nodeports",
	"services.loadbalancers",
	NULL,
};

/* Of the last there are only whole ones. */
static const char *const *const whole_names = &standard_names[10];

static bool is_standard(const char *name)
{
	return str_in(name, standard_names) || str_starts(name, "hugepages-") ||
	       str_starts(name, "requests.hugepages-");
}

bool resource_is_native(const char *name)
{
	return !strchr(name, '/') || strstr(name, "kubernetes.io/");
}

bool resource_is_extended(const char *name)
{
	autofree char *in_quota = xasprintf("requests.%s", name);

	return !resource_is_native(name) && !str_starts(name, "requests.") &&
	       !meta_bad_qualified_name(in_quota);
}

bool resource_overcommits(const char *name)
{
	return resource_is_native(name) && !str_starts(name, "hugepages-");
}

bool resource_number_check(const struct json *list, const struct path *p, struct causes *c)
{
	autofree char *path = NULL;

	if (json_len(list) <= RESOURCE_NAMES_MAX)
		return true;
	path = path_text(p);
	causes_add(c, CAUSE_TOO_LONG, path, "Too many: %zu: must have at most %d items",
		   json_len(list), RESOURCE_NAMES_MAX);
	return false;
}

bool resource_name_check(const char *name, const struct path *p, struct causes *c)
{
	const char *bad = meta_bad_qualified_name(name);

	if (!bad && !strchr(name, '/') && !is_standard(name) && !str_eq(name, "storage"))
		bad = "must be a standard resource type or fully qualified";
	if (bad)
		bad_text(c, p, name, bad);
	return !bad;
}

static void check_amounts(const struct json *map, const struct path *p, struct causes *c)
{
	if (!resource_number_check(map, p, c))
		return;
	json_each(it, members((struct json *)map)) {
		int64_t milli = 0;

		(void)resource_name_check(it.key, KEY(p, it.key), c);
		if (!strchr(it.key, '/') && !is_standard(it.key))
			bad_text(c, KEY(p, it.key), it.key,
				 "must be a standard resource for quota");
		err_free(quantity_parse_milli(it.val, &milli)); /* the schema reports it */
		if (milli < 0)
			bad_invalid(c, KEY(p, it.key), it.val,
				    "must be greater than or equal to 0");
		if (milli % 1000 && (str_in(it.key, whole_names) || resource_is_extended(it.key)))
			bad_invalid(c, KEY(p, it.key), it.val, "must be an integer");
	}
}

/* What a scope can be about; NULL: it is no scope. */
static const char *const *scope_covers(const char *scope)
{
	static const char *const pods[] = { "pods", NULL };
	static const char *const compute[] = {
		"pods",       "cpu",           "memory", "requests.cpu", "requests.memory",
		"limits.cpu", "limits.memory", NULL
	};
	static const char *const claims[] = { "persistentvolumeclaims", "requests.storage", NULL };
	static const struct {
		const char *scope;
		const char *const *covers;
	} rows[] = {
		{ "Terminating", compute },
		{ "NotTerminating", compute },
		{ "BestEffort", pods },
		{ "NotBestEffort", compute },
		{ "PriorityClass", compute },
		{ "CrossNamespacePodAffinity", compute },
		{ "VolumeAttributesClass", claims },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(scope, rows[i].scope))
			return rows[i].covers;
	return NULL;
}

static bool covers_all(const char *const *covers, const struct json *hard)
{
	json_each(it, members((struct json *)hard))
		if (is_standard(it.key) && !str_in(it.key, covers))
			return false;
	return true;
}

static bool has_scope(const struct json *list, const char *member, const char *scope)
{
	json_each(it, list)
		if (str_eq(member ? json_get_str(it.val, member) : json_str(it.val), scope))
			return true;
	return false;
}

static bool contradict(const struct json *list, const char *member)
{
	return (has_scope(list, member, "BestEffort") &&
		has_scope(list, member, "NotBestEffort")) ||
	       (has_scope(list, member, "Terminating") &&
		has_scope(list, member, "NotTerminating"));
}

static void check_scopes(const struct json *spec, struct causes *c)
{
	const struct path *p = IN(IN(NULL, "spec"), "scopes");
	const struct json *scopes = json_get(spec, "scopes");

	if (!resource_number_check(scopes, p, c))
		return;
	json_each(it, scopes) {
		const char *const *covers = scope_covers(json_str(it.val));

		if (!covers)
			bad_invalid(c, p, scopes, "unsupported scope");
		else if (!covers_all(covers, json_get(spec, "hard")))
			bad_invalid(c, p, scopes, "unsupported scope applied to resource");
	}
	if (contradict(scopes, NULL))
		bad_invalid(c, p, scopes, "conflicting scopes");
}

static void check_expression(const struct json *e, const struct path *p, struct causes *c)
{
	const char *scope = json_get_str(e, "scopeName"), *how = json_get_str(e, "operator");
	const struct json *values = json_get(e, "values");

	if (scope_covers(scope) && !str_eq(scope, "PriorityClass") &&
	    !str_eq(scope, "VolumeAttributesClass") && !str_eq(how, "Exists"))
		bad_text(c, IN(p, "operator"), str_or(how, ""),
			 "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
			 "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
			 "ResourceQuotaScopeNotBestEffort or "
			 "ResourceQuotaScopeCrossNamespacePodAffinity");
	if (str_eq(how, "In") || str_eq(how, "NotIn")) {
		if (!json_len(values))
			bad_required(c, IN(p, "values"),
				     "must be at least one value when `operator` is 'In' or "
				     "'NotIn' for scope selector");
	} else if (str_eq(how, "Exists") || str_eq(how, "DoesNotExist")) {
		if (json_len(values))
			bad_invalid(c, IN(p, "values"), values,
				    "must be no value when `operator` is 'Exist' or "
				    "'DoesNotExist' for scope selector");
	} else {
		bad_text(c, IN(p, "operator"), str_or(how, ""), "not a valid selector operator");
	}
}

static void check_scope_selector(const struct json *spec, struct causes *c)
{
	const struct json *selector = json_get(spec, "scopeSelector");
	const struct json *list = json_get(selector, "matchExpressions");
	const struct path *p = IN(IN(IN(NULL, "spec"), "scopeSelector"), "matchExpressions");

	if (!resource_number_check(list, p, c))
		return;
	json_each(it, list) {
		const char *scope = json_get_str(it.val, "scopeName");
		const char *const *covers = scope_covers(scope);

		if (!covers)
			bad_text(c, IN(p, "scopeName"), str_or(scope, ""), "unsupported scope");
		else if (!covers_all(covers, json_get(spec, "hard")))
			bad_invalid(c, p, selector, "unsupported scope applied to resource");
		check_expression(it.val, p, c);
	}
	if (contradict(list, "scopeName"))
		bad_invalid(c, p, json_get(spec, "scopes"), "conflicting scopes");
}

static bool same_scopes(const struct json *a, const struct json *b)
{
	json_each(it, a)
		if (!has_scope(b, NULL, json_str(it.val)))
			return false;
	json_each(it, b)
		if (!has_scope(a, NULL, json_str(it.val)))
			return false;
	return true;
}

void validate_resource_quota(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec"), *status = json_get(obj, "status");

	check_amounts(json_get(spec, "hard"), IN(IN(NULL, "spec"), "hard"), c);
	check_scopes(spec, c);
	check_scope_selector(spec, c);
	check_amounts(json_get(status, "hard"), IN(IN(NULL, "status"), "hard"), c);
	check_amounts(json_get(status, "used"), IN(IN(NULL, "status"), "used"), c);
	if (old && json_len(json_get(spec, "scopes")) <= RESOURCE_NAMES_MAX &&
	    !same_scopes(json_get(spec, "scopes"), json_at_path(old, "spec.scopes")))
		causes_invalid(c, "spec.scopes", json_get(spec, "scopes"), "field is immutable");
}

/* PriorityClass */

const struct system_class system_classes[] = {
	{ "system-node-critical", 2000001000,
	  "Used for system critical pods that must not be moved from their current node." },
	{ "system-cluster-critical", 2000000000,
	  "Used for system critical pods that must run in the cluster, but can be moved to "
	  "another node if necessary." },
	{ 0 },
};

/* Why a class cannot have a name that is kept for the system; NULL: it is one of those. */
static char *not_system(const char *name, int64_t value, bool is_default)
{
	for (const struct system_class *s = system_classes; s->name; s++) {
		if (!str_eq(name, s->name))
			continue;
		if (value != s->value)
			return xasprintf("value of %s PriorityClass must be %lld", name,
					 (long long)s->value);
		return is_default
			       ? xasprintf("globalDefault of %s PriorityClass must be false", name)
			       : NULL;
	}
	return xasprintf("%s is not a known system priority class", name);
}

void validate_priority_class(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const policies[] = { "PreemptLowerPriority", "Never", NULL };
	const char *name = str_or(json_get_str(json_get(obj, "metadata"), "name"), "");
	const struct json *policy = json_get(obj, "preemptionPolicy");
	int64_t value = json_get_int(obj, "value", 0);

	if (!old && str_starts(name, "system-")) {
		autofree char *bad =
			not_system(name, value, json_get_bool(obj, "globalDefault", false));
		autofree char *why =
			xasprintf("priority class names with 'system-' prefix are reserved for "
				  "system use only. error: %s",
				  str_or(bad, ""));

		if (bad)
			causes_forbidden(c, "metadata.name", why);
	} else if (!old && value > PRIORITY_USER_MAX) {
		causes_forbidden(c, "value",
				 "maximum allowed value of a user defined priority is 1000000000");
	}
	if (!old)
		check_values(c, NULL, obj, "preemptionPolicy", policies);
	if (old && value != json_get_int(old, "value", 0))
		causes_forbidden(c, "value", "may not be changed in an update.");
	if (old && !json_equal(policy, json_get(old, "preemptionPolicy")))
		causes_invalid(c, "preemptionPolicy", policy, "field is immutable");
}
