/* SPDX-License-Identifier: Apache-2.0 */
#include "api/defaults_priv.h"
#include "api/meta.h"
#include "api/rbac.h"
#include "api/validate_priv.h"
#include "base/str.h"

/*
 * Defaults and rules of roles and bindings. What the rules say is not compared with anything that
 * exists: a role may name resources, and a binding may name a role, that come later.
 */
static const char *const group_values[] = { GROUP_RBAC, NULL };

/* Roles */

static void check_rule(struct causes *c, const struct path *p, const struct json *rule,
		       bool namespaced)
{
	const struct json *urls = json_get(rule, "nonResourceURLs");
	bool groups = json_len(json_get(rule, "apiGroups"));
	bool resources = json_len(json_get(rule, "resources"));

	if (!json_len(json_get(rule, "verbs")))
		bad_required(c, IN(p, "verbs"), "verbs must contain at least one value");
	if (json_len(urls)) {
		if (namespaced)
			bad_invalid(c, IN(p, "nonResourceURLs"), urls,
				    "namespaced rules cannot apply to non-resource URLs");
		if (groups || resources || json_len(json_get(rule, "resourceNames")))
			bad_invalid(c, IN(p, "nonResourceURLs"), urls,
				    "rules cannot apply to both regular resources and "
				    "non-resource URLs");
		return;
	}
	if (!groups)
		bad_required(c, IN(p, "apiGroups"),
			     "resource rules must supply at least one api group");
	if (!resources)
		bad_required(c, IN(p, "resources"),
			     "resource rules must supply at least one resource");
}

static void check_rules(const struct json *obj, bool namespaced, struct causes *c)
{
	size_t i = 0;

	json_each(it, json_get(obj, "rules"))
		check_rule(c, AT(IN(NULL, "rules"), i++), it.val, namespaced);
}

void validate_role(const struct json *obj, unused const struct json *old, struct causes *c)
{
	check_rules(obj, true, c);
}

void validate_cluster_role(const struct json *obj, unused const struct json *old, struct causes *c)
{
	const struct json *aggregation = json_get(obj, "aggregationRule");
	const struct json *list = json_get(aggregation, "clusterRoleSelectors");
	const struct path *p = IN(IN(NULL, "aggregationRule"), "clusterRoleSelectors");
	size_t i = 0;

	check_rules(obj, false, c);
	if (aggregation && !json_len(list))
		bad_required(c, p,
			     "at least one clusterRoleSelector required if aggregationRule is "
			     "non-nil");
	json_each(it, list) {
		const struct path *at = AT(p, i++);
		size_t faults = c->n;

		check_selector(c, at, it.val);
		if (c->n != faults)
			bad_invalid(c, at, NULL, "invalid label selector.");
	}
}

/* Bindings */

void defaults_binding(struct json_doc *d, unused const struct json *old)
{
	struct json *root = json_root(d);

	defaults_str(d, json_get(root, "roleRef"), "apiGroup", GROUP_RBAC);
	json_each(it, json_get(root, "subjects")) {
		const char *kind = str_or(json_get_str(it.val, "kind"), "");

		if (str_eq(kind, "User") || str_eq(kind, "Group"))
			defaults_str(d, it.val, "apiGroup", GROUP_RBAC);
	}
}

static void check_account(struct causes *c, const struct path *p, const struct json *subject,
			  bool namespaced)
{
	static const char *const none[] = { "", NULL };
	const char *group = json_get_str(subject, "apiGroup");

	check_text(c, p, subject, "name", meta_bad_dns_subdomain);
	if (!str_empty(group))
		bad_unsupported(c, IN(p, "apiGroup"), group, none);
	if (!namespaced && str_empty(json_get_str(subject, "namespace")))
		bad_required(c, IN(p, "namespace"), NULL);
}

static void check_subject(struct causes *c, const struct path *p, const struct json *subject,
			  bool namespaced)
{
	static const char *const kinds[] = { "ServiceAccount", "User", "Group", NULL };
	const char *kind = str_or(json_get_str(subject, "kind"), "");
	const char *group = str_or(json_get_str(subject, "apiGroup"), "");

	if (str_empty(json_get_str(subject, "name")))
		bad_required(c, IN(p, "name"), NULL);
	if (!str_in(kind, kinds))
		bad_unsupported(c, IN(p, "kind"), kind, kinds);
	else if (str_eq(kind, "ServiceAccount"))
		check_account(c, p, subject, namespaced);
	else if (!str_eq(group, GROUP_RBAC))
		bad_unsupported(c, IN(p, "apiGroup"), group, group_values);
}

static void check_ref(struct causes *c, const struct json *ref, const char *const *kinds)
{
	const struct path *p = IN(NULL, "roleRef");
	const char *group = str_or(json_get_str(ref, "apiGroup"), "");
	const char *kind = str_or(json_get_str(ref, "kind"), "");

	if (!str_eq(group, GROUP_RBAC))
		bad_unsupported(c, IN(p, "apiGroup"), group, group_values);
	if (!str_in(kind, kinds))
		bad_unsupported(c, IN(p, "kind"), kind, kinds);
	if (str_empty(json_get_str(ref, "name")))
		bad_required(c, IN(p, "name"), NULL);
	else
		check_text(c, p, ref, "name", meta_bad_path_name);
}

/* The value is written as the struct of Kubernetes' own, which has no names of JSON. */
static void check_same_ref(struct causes *c, const struct json *ref, const struct json *was)
{
	static const char *const members[][2] = { { "apiGroup", "APIGroup" },
						  { "kind", "Kind" },
						  { "name", "Name" } };
	autoptr(json_doc) d = NULL;
	struct json *shown;

	if (!was || json_equal(ref, was))
		return;
	d = json_doc_new();
	shown = json_obj(d);
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		json_set_str(d, shown, members[i][1], str_or(json_get_str(ref, members[i][0]), ""));
	bad_invalid(c, IN(NULL, "roleRef"), shown, "cannot change roleRef");
}

static void check_binding(const struct json *obj, const struct json *old, const char *const *kinds,
			  struct causes *c)
{
	const struct json *ref = json_get(obj, "roleRef");
	bool namespaced = str_eq(kinds[0], "Role");
	size_t i = 0;

	check_ref(c, ref, kinds);
	json_each(it, json_get(obj, "subjects"))
		check_subject(c, AT(IN(NULL, "subjects"), i++), it.val, namespaced);
	check_same_ref(c, ref, json_get(old, "roleRef"));
}

void validate_role_binding(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const kinds[] = { "Role", "ClusterRole", NULL };

	check_binding(obj, old, kinds, c);
}

void validate_cluster_role_binding(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const kinds[] = { "ClusterRole", NULL };

	check_binding(obj, old, kinds, c);
}
