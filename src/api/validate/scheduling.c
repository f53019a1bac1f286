/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* Where a Pod may run: affinity, tolerations, spread over topologies. */

enum {
	WEIGHT_MAX = 100,
};

static const char required[] = "requiredDuringSchedulingIgnoredDuringExecution";
static const char preferred[] = "preferredDuringSchedulingIgnoredDuringExecution";
static const char unknown_operator[] = "not a valid selector operator";

/* Nodes */

static void check_node_label(struct causes *c, const struct json *term, bool strict,
			     const struct path *p)
{
	static const char *const sets[] = { "In", "NotIn", NULL };
	static const char *const exists[] = { "Exists", "DoesNotExist", NULL };
	static const char *const order[] = { "Gt", "Lt", NULL };
	const char *op = str_or(json_get_str(term, "operator"), "");
	const struct json *values = json_get(term, "values");
	size_t i = 0;

	if (str_in(op, sets) && !json_len(values))
		bad_required(c, IN(p, "values"),
			     "must be specified when `operator` is 'In' or 'NotIn'");
	else if (str_in(op, exists) && json_len(values))
		bad_forbidden(c, IN(p, "values"),
			      "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
	else if (str_in(op, order) && json_len(values) != 1)
		bad_required(c, IN(p, "values"),
			     "must be specified single value when `operator` is 'Lt' or 'Gt'");
	else if (!str_in(op, sets) && !str_in(op, exists) && !str_in(op, order))
		bad_text(c, IN(p, "operator"), op, unknown_operator);
	check_qualified(c, str_or(json_get_str(term, "key"), ""), IN(p, "key"));
	json_each(it, strict ? values : NULL) {
		const char *bad = meta_bad_label_value(str_or(json_str(it.val), ""));

		if (bad)
			bad_text(c, AT(IN(p, "values"), i), json_str(it.val), bad);
		i++;
	}
}

static void check_node_field(struct causes *c, const struct json *term, const struct path *p)
{
	const char *op = str_or(json_get_str(term, "operator"), "");
	const char *key = str_or(json_get_str(term, "key"), "");
	const struct json *values = json_get(term, "values");
	size_t i = 0;

	if (!str_eq(op, "In") && !str_eq(op, "NotIn"))
		bad_text(c, IN(p, "operator"), op, unknown_operator);
	else if (json_len(values) != 1)
		bad_required(c, IN(p, "values"),
			     "must be only one value when `operator` is 'In' or 'NotIn' for node "
			     "field selector");
	if (!str_eq(key, "metadata.name")) {
		bad_text(c, IN(p, "key"), key, "not a valid field selector key");
		return;
	}
	json_each(it, values) {
		const char *bad = meta_bad_dns_subdomain(str_or(json_str(it.val), ""));

		if (bad)
			bad_text(c, AT(IN(p, "values"), i), json_str(it.val), bad);
		i++;
	}
}

static void check_node_term(struct causes *c, const struct json *term, bool strict,
			    const struct path *p)
{
	size_t i = 0;

	json_each(it, json_get(term, "matchExpressions"))
		check_node_label(c, it.val, strict, AT(IN(p, "matchExpressions"), i++));
	i = 0;
	json_each(it, json_get(term, "matchFields"))
		check_node_field(c, it.val, AT(IN(p, "matchFields"), i++));
}

void check_node_selector(struct causes *c, const struct json *selector, const struct path *up)
{
	const struct json *terms = json_get(selector, "nodeSelectorTerms");
	const struct path *p = IN(up, "nodeSelectorTerms");
	size_t i = 0;

	if (!json_len(terms))
		bad_required(c, p, "must have at least one node selector term");
	json_each(it, terms)
		check_node_term(c, it.val, true, AT(p, i++));
}

static void check_weight(struct causes *c, const struct json *term, const struct path *p)
{
	int64_t weight = json_get_int(term, "weight", 0);

	if (weight <= 0 || weight > WEIGHT_MAX)
		bad_int(c, IN(p, "weight"), weight, "must be in the range 1-100");
}

static void check_node_affinity(struct causes *c, const struct json *affinity, const struct path *p)
{
	size_t i = 0;

	if (json_get(affinity, required))
		check_node_selector(c, json_get(affinity, required), IN(p, required));
	json_each(it, json_get(affinity, preferred)) {
		const struct path *at = AT(IN(p, preferred), i++);

		check_weight(c, it.val, at);
		check_node_term(c, json_get(it.val, "preference"), false, IN(at, "preference"));
	}
}

/* Pods */

static void check_label_keys(struct causes *c, const struct json *term, const char *name,
			     const struct path *up)
{
	const struct json *keys = json_get(term, name);
	const struct path *p = IN(up, name);
	size_t i = 0;

	if (!json_len(keys))
		return;
	if (!json_get(term, "labelSelector")) {
		bad_forbidden(c, p, "must not be specified when labelSelector is not set");
		return;
	}
	json_each(it, keys)
		check_qualified(c, str_or(json_str(it.val), ""), AT(p, i++));
}

/* matchLabelKeys add expressions to the selector, which must not have them already. */
static void check_key_twins(struct causes *c, const struct json *term, const struct path *p)
{
	const struct json *keys = json_get(term, "matchLabelKeys");
	const struct json *others = json_get(term, "mismatchLabelKeys");
	autoptr(map) seen = json_len(keys) && json_len(others) ? map_new(NULL) : NULL;
	size_t i = 0;

	if (!seen)
		return;
	json_each(it, others)
		map_put(seen, str_or(json_str(it.val), ""), seen);
	json_each(it, keys) {
		const char *key = str_or(json_str(it.val), "");

		if (map_has(seen, key))
			bad_text(c, AT(IN(p, "matchLabelKeys"), i), key,
				 "exists in both matchLabelKeys and mismatchLabelKeys");
		i++;
	}
}

static void check_pod_term(struct causes *c, const struct json *term, const struct path *p)
{
	const char *topology = str_or(json_get_str(term, "topologyKey"), "");

	check_selector(c, IN(p, "labelSelector"), json_get(term, "labelSelector"));
	check_selector(c, IN(p, "namespaceSelector"), json_get(term, "namespaceSelector"));
	json_each(it, json_get(term, "namespaces")) {
		const char *bad = meta_bad_dns_label(str_or(json_str(it.val), ""));

		if (bad)
			bad_text(c, IN(p, "namespace"), json_str(it.val), bad);
	}
	check_label_keys(c, term, "matchLabelKeys", p);
	check_label_keys(c, term, "mismatchLabelKeys", p);
	check_key_twins(c, term, p);
	if (!*topology)
		bad_required(c, IN(p, "topologyKey"), "can not be empty");
	check_qualified(c, topology, IN(p, "topologyKey"));
}

static void check_pod_affinity(struct causes *c, const struct json *affinity, const struct path *p)
{
	size_t i = 0;

	json_each(it, json_get(affinity, required))
		check_pod_term(c, it.val, AT(IN(p, required), i++));
	i = 0;
	json_each(it, json_get(affinity, preferred)) {
		const struct path *at = AT(IN(p, preferred), i++);

		check_weight(c, it.val, at);
		check_pod_term(c, json_get(it.val, "podAffinityTerm"), IN(at, "podAffinityTerm"));
	}
}

/* Tolerations */

static void check_operator(struct causes *c, const struct json *t, const struct path *p)
{
	static const char *const ops[] = { "Equal", "Exists", NULL };
	static const char *const orders[] = { "Equal", "Exists", "Lt", "Gt", NULL };
	const char *op = str_or(json_get_str(t, "operator"), "Equal");
	const char *value = str_or(json_get_str(t, "value"), ""), *bad = NULL;

	if (str_eq(op, "Equal"))
		bad = meta_bad_label_value(value);
	else if (str_eq(op, "Exists"))
		bad = *value ? "value must be empty when `operator` is 'Exists'" : NULL;
	else
		bad_unsupported(c, IN(p, "operator"), op, str_in(op, orders) ? orders : ops);
	if (bad)
		bad_text(c, IN(p, "operator"), value, bad);
}

void check_tolerations(struct causes *c, const struct json *list, const struct path *p)
{
	static const char *const effects[] = { "NoSchedule", "PreferNoSchedule", "NoExecute",
					       NULL };
	size_t i = 0;

	json_each(it, list) {
		const struct path *at = AT(p, i++);
		const char *op = str_or(json_get_str(it.val, "operator"), "");
		const char *effect = str_or(json_get_str(it.val, "effect"), "");

		check_text(c, at, it.val, "key", meta_bad_qualified_name);
		if (str_empty(json_get_str(it.val, "key")) && !str_eq(op, "Exists"))
			bad_text(c, IN(at, "operator"), op,
				 "operator must be Exists when `key` is empty, which means \"match "
				 "all values and all keys\"");
		if (json_get(it.val, "tolerationSeconds") && !str_eq(effect, "NoExecute"))
			bad_text(c, IN(at, "effect"), effect,
				 "effect must be 'NoExecute' when `tolerationSeconds` is set");
		check_operator(c, it.val, at);
		check_values(c, at, it.val, "effect", effects);
	}
}

void spec_scheduling(struct pod_rules *r, const struct path *spec)
{
	const struct json *affinity = json_get(r->spec, "affinity");
	const struct path *p = IN(spec, "affinity");

	if (!affinity)
		return;
	check_node_affinity(r->causes, json_get(affinity, "nodeAffinity"), IN(p, "nodeAffinity"));
	check_pod_affinity(r->causes, json_get(affinity, "podAffinity"), IN(p, "podAffinity"));
	check_pod_affinity(r->causes, json_get(affinity, "podAntiAffinity"),
			   IN(p, "podAntiAffinity"));
}

/* Spread */

static void check_domains(struct causes *c, const struct json *t, const char *action,
			  const struct path *up)
{
	const struct json *domains = json_get(t, "minDomains");
	const struct path *p = IN(up, "minDomains");
	autofree char *why = NULL;

	if (!domains)
		return;
	if (json_int(domains, 1) <= 0)
		bad_invalid(c, p, domains, "must be greater than zero");
	if (str_eq(action, "DoNotSchedule"))
		return;
	why = xasprintf("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %.64s",
			action);
	bad_invalid(c, p, domains, why);
}

static void check_spread(struct causes *c, const struct json *t, struct map *later,
			 const struct path *at)
{
	static const char *const actions[] = { "DoNotSchedule", "ScheduleAnyway", NULL };
	static const char *const policies[] = { "Honor", "Ignore", NULL };
	const char *action = str_or(json_get_str(t, "whenUnsatisfiable"), "");
	const char *key = str_or(json_get_str(t, "topologyKey"), "");
	autofree char *both = xasprintf("{%s, %s}", key, action);
	size_t left = (size_t)(uintptr_t)map_get(later, both);

	if (json_get_int(t, "maxSkew", 0) <= 0)
		bad_int(c, IN(at, "maxSkew"), json_get_int(t, "maxSkew", 0),
			"must be greater than zero");
	if (!*key)
		bad_required(c, IN(at, "topologyKey"), "can not be empty");
	check_supported(c, at, t, "whenUnsatisfiable", actions);
	if (left > 1)
		bad_duplicate(c, IN(at, "{topologyKey, whenUnsatisfiable}"), both);
	map_put(later, both, (void *)(uintptr_t)(left - 1));
	check_domains(c, t, action, at);
	if (json_get(t, "nodeAffinityPolicy"))
		check_supported(c, at, t, "nodeAffinityPolicy", policies);
	if (json_get(t, "nodeTaintsPolicy"))
		check_supported(c, at, t, "nodeTaintsPolicy", policies);
	check_label_keys(c, t, "matchLabelKeys", at);
	check_selector(c, IN(at, "labelSelector"), json_get(t, "labelSelector"));
}

void spec_topology(struct pod_rules *r, const struct path *spec)
{
	const struct json *list = json_get(r->spec, "topologySpreadConstraints");
	autoptr(map) later = json_len(list) ? map_new(NULL) : NULL; /* how many are still to come */
	size_t i = 0;

	json_each(it, list) {
		autofree char *both =
			xasprintf("{%s, %s}", str_or(json_get_str(it.val, "topologyKey"), ""),
				  str_or(json_get_str(it.val, "whenUnsatisfiable"), ""));
		uintptr_t n = (uintptr_t)map_get(later, both);

		map_put(later, both, (void *)(n + 1));
	}
	json_each(it, list)
		check_spread(r->causes, it.val, later,
			     AT(IN(spec, "topologySpreadConstraints"), i++));
}
