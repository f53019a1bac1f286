/* SPDX-License-Identifier: Apache-2.0 */
#include "api/defaults_priv.h"
#include "api/kind_priv.h"
#include "api/meta.h"
#include "api/service.h"
#include "base/parse.h"
#include "base/str.h"

enum {
	AFFINITY_S = 10800,
};

/*
 * Defaults that Kubernetes applies to the built-in kinds and that their schemas do not carry.
 */

void defaults_str(struct json_doc *d, struct json *obj, const char *key, const char *value)
{
	const struct json *v = json_get(obj, key);

	if (json_is(obj, JSON_OBJ) && (!v || str_eq(json_str(v), "")))
		json_set_str(d, obj, key, value);
}

void defaults_absent(struct json_doc *d, struct json *obj, const char *key, const char *value)
{
	if (json_is(obj, JSON_OBJ) && !json_get(obj, key))
		json_set_str(d, obj, key, value);
}

void defaults_int(struct json_doc *d, struct json *obj, const char *key, int64_t value)
{
	if (json_is(obj, JSON_OBJ) && !json_get(obj, key))
		json_set_int(d, obj, key, value);
}

void defaults_obj(struct json_doc *d, struct json *obj, const char *key)
{
	if (json_is(obj, JSON_OBJ) && !json_get(obj, key))
		json_set(d, obj, key, json_obj(d));
}

struct json *defaults_need_obj(struct json_doc *d, struct json *obj, const char *key)
{
	const struct json *v = json_get(obj, key);

	return !v || json_is(v, JSON_OBJ) ? json_need_obj(d, obj, key) : NULL;
}

void defaults_quantities(struct json_doc *d, struct json *map)
{
	enum {
		MANY = 64
	}; /* longer lists of resources are left as they were written */
	struct {
		const char *key;
		struct json *val;
	} fixed[MANY];
	size_t n = 0;

	if (!json_is(map, JSON_OBJ) || json_len(map) > MANY)
		return;
	json_each(it, map) {
		struct json *text = quantity_canonical_milli(d, it.val);

		if (text && !json_equal(text, it.val)) {
			fixed[n].key = it.key;
			fixed[n++].val = text;
		}
	}
	while (n--)
		json_set(d, map, fixed[n].key, fixed[n].val);
}

static struct json *spec_of(struct json_doc *d)
{
	return defaults_need_obj(d, json_root(d), "spec");
}

void defaults_namespace(struct json_doc *d, const struct json *old)
{
	struct json *root = json_root(d), *spec = spec_of(d);

	label_namespace(d);
	if (old || !spec)
		return;
	if (!json_get(spec, "finalizers"))
		json_push_str(d, json_need_arr(d, spec, "finalizers"), "kubernetes");
	json_set_str(d, json_need_obj(d, root, "status"), "phase", "Active");
}

static bool no_port(const struct json *v)
{
	return !v || str_eq(json_str(v), "") || (json_is(v, JSON_INT) && json_int(v, 1) == 0);
}

static void defaults_service_ports(struct json_doc *d, struct json *ports)
{
	json_each(it, ports) {
		defaults_str(d, it.val, "protocol", "TCP");
		if (json_get(it.val, "port") && no_port(json_get(it.val, "targetPort")))
			json_set(d, it.val, "targetPort", json_copy(d, json_get(it.val, "port")));
	}
}

static void defaults_affinity(struct json_doc *d, struct json *spec)
{
	const char *affinity;

	defaults_str(d, spec, "sessionAffinity", "None");
	affinity = json_get_str(spec, "sessionAffinity");
	if (str_eq(affinity, "None"))
		(void)json_del(spec, "sessionAffinityConfig");
	if (str_eq(affinity, "ClientIP") &&
	    !json_at_path(spec, "sessionAffinityConfig.clientIP.timeoutSeconds"))
		json_set_int(d,
			     json_need_obj(d, json_need_obj(d, spec, "sessionAffinityConfig"),
					   "clientIP"),
			     "timeoutSeconds", AFFINITY_S);
}

/* Addresses, families and node ports are the server's to give (server/admit/service.c). */
void defaults_service(struct json_doc *d, const struct json *old)
{
	struct json *spec = spec_of(d);

	if (!spec)
		return;
	defaults_str(d, spec, "type", "ClusterIP");
	defaults_affinity(d, spec);
	defaults_service_ports(d, json_get(spec, "ports"));
	if (service_is_reachable_from_outside(spec))
		defaults_str(d, spec, "externalTrafficPolicy", "Cluster");
	if (service_is_external(spec))
		(void)json_del(spec, "internalTrafficPolicy");
	else
		defaults_absent(d, spec, "internalTrafficPolicy", "Cluster");
	if (str_eq(json_get_str(spec, "type"), "LoadBalancer") &&
	    !json_get(spec, "allocateLoadBalancerNodePorts"))
		json_set_bool(d, spec, "allocateLoadBalancerNodePorts", true);
	if (!old)
		json_set(d, json_need_obj(d, json_root(d), "status"), "loadBalancer", json_obj(d));
}

/* Of the two ways to name a data source, the one that is absent follows the other. */
static void defaults_source(struct json_doc *d, struct json *spec, const char *from, const char *to)
{
	static const char *const names[] = { "apiGroup", "kind", "name" };
	const struct json *source = json_get(spec, from);
	struct json *copy;

	if (!json_is(source, JSON_OBJ) || json_get(spec, to) ||
	    !str_empty(json_get_str(source, "namespace")))
		return;
	copy = json_set(d, spec, to, json_obj(d));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (json_get(source, names[i]))
			json_set(d, copy, names[i], json_copy(d, json_get(source, names[i])));
}

/* A reference always says its group, if only that it is none. */
static void defaults_group(struct json_doc *d, struct json *ref)
{
	if (json_is(ref, JSON_OBJ) && !json_get(ref, "apiGroup"))
		json_set(d, ref, "apiGroup", json_new_null(d));
}

void defaults_persistent_volume_claim(struct json_doc *d, const struct json *old)
{
	struct json *spec = spec_of(d), *resources = json_get(spec, "resources");

	if (!spec)
		return;
	defaults_source(d, spec, "dataSource", "dataSourceRef");
	defaults_source(d, spec, "dataSourceRef", "dataSource");
	defaults_group(d, json_get(spec, "dataSource"));
	defaults_group(d, json_get(spec, "dataSourceRef"));
	defaults_str(d, spec, "volumeMode", "Filesystem");
	defaults_quantities(d, json_get(resources, "requests"));
	defaults_quantities(d, json_get(resources, "limits"));
	if (!old)
		json_set_str(d, json_need_obj(d, json_root(d), "status"), "phase", "Pending");
}

void defaults_persistent_volume(struct json_doc *d, const struct json *old)
{
	struct json *spec = spec_of(d);

	if (!spec)
		return;
	defaults_str(d, spec, "persistentVolumeReclaimPolicy", "Retain");
	defaults_str(d, spec, "volumeMode", "Filesystem");
	defaults_quantities(d, json_get(spec, "capacity"));
	if (json_is(json_get(spec, "hostPath"), JSON_OBJ))
		defaults_str(d, json_get(spec, "hostPath"), "type", "");
	if (!old)
		json_set_str(d, json_need_obj(d, json_root(d), "status"), "phase", "Pending");
}

void defaults_storage_class(struct json_doc *d, unused const struct json *old)
{
	defaults_absent(d, json_root(d), "reclaimPolicy", "Delete");
	defaults_absent(d, json_root(d), "volumeBindingMode", "Immediate");
}

/* stringData is for writing only: it becomes data. */
void defaults_secret(struct json_doc *d, unused const struct json *old)
{
	struct json *root = json_root(d), *text = json_get(root, "stringData"), *data;

	defaults_str(d, root, "type", "Opaque");
	data = json_is(text, JSON_OBJ) ? defaults_need_obj(d, root, "data") : NULL;
	if (!data)
		return;
	json_each(it, text) {
		autofree char *coded = NULL;

		if (!json_is(it.val, JSON_STR))
			continue;
		coded = base64_encode(json_str(it.val), json_str_len(it.val), false);
		json_set_str(d, data, it.key, coded);
	}
	json_del(root, "stringData");
}

static void defaults_policy_ports(struct json_doc *d, struct json *rules)
{
	json_each(rule, rules)
		json_each(port, json_get(rule.val, "ports"))
			defaults_str(d, port.val, "protocol", "TCP");
}

void defaults_network_policy(struct json_doc *d, unused const struct json *old)
{
	struct json *spec = spec_of(d), *types;

	if (!spec)
		return;
	defaults_obj(d, spec, "podSelector");
	defaults_policy_ports(d, json_get(spec, "ingress"));
	defaults_policy_ports(d, json_get(spec, "egress"));
	if (json_len(json_get(spec, "policyTypes")))
		return;
	types = json_set(d, spec, "policyTypes", json_arr(d));
	json_push_str(d, types, "Ingress");
	if (json_len(json_get(spec, "egress")))
		json_push_str(d, types, "Egress");
}

void defaults_ingress_class(struct json_doc *d, unused const struct json *old)
{
	struct json *params = json_at_path(json_root(d), "spec.parameters");

	if (json_is(params, JSON_OBJ) && !json_get(params, "scope"))
		json_set_str(d, params, "scope", "Cluster");
}

void defaults_ingress(struct json_doc *d, const struct json *old)
{
	if (!old)
		json_set(d, json_need_obj(d, json_root(d), "status"), "loadBalancer", json_obj(d));
}

/* The members of coordinated elections are dropped, as where that feature is off. */
void defaults_lease(struct json_doc *d, unused const struct json *old)
{
	struct json *spec = json_need_obj(d, json_root(d), "spec");

	(void)json_del(spec, "strategy");
	(void)json_del(spec, "preferredHolder");
}

/* Go writes a list or a time that is not set as null. Decoding removes it; it comes back behind all
 * else, so that what is stored does not depend on how it was read. */
static void null_if_absent(struct json_doc *d, const char *name)
{
	const struct json *v = json_get(json_root(d), name);

	if (v && !json_is(v, JSON_NULL))
		return;
	(void)json_del(json_root(d), name);
	(void)json_set(d, json_root(d), name, json_new_null(d));
}

void defaults_role(struct json_doc *d, unused const struct json *old)
{
	null_if_absent(d, "rules");
}

void defaults_event(struct json_doc *d, unused const struct json *old)
{
	defaults_obj(d, json_root(d), "source");
	defaults_obj(d, json_root(d), "involvedObject");
	null_if_absent(d, "firstTimestamp");
	null_if_absent(d, "lastTimestamp");
	null_if_absent(d, "eventTime");
}

/* Lists without elements are null, and topology is a field of an older version. */
void defaults_endpoint_slice(struct json_doc *d, unused const struct json *old)
{
	static const char *const lists[] = { "endpoints", "ports" };
	struct json *root = json_root(d);

	json_each(it, json_get(root, "endpoints")) {
		defaults_obj(d, it.val, "conditions");
		(void)json_del(it.val, "deprecatedTopology");
	}
	json_each(it, json_get(root, "ports")) {
		defaults_absent(d, it.val, "protocol", "TCP");
		defaults_absent(d, it.val, "name", "");
	}
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (!json_len(json_get(root, lists[i]))) {
			(void)json_del(root,
				       lists[i]); /* its place is the end, whatever was sent */
			json_set(d, root, lists[i], json_new_null(d));
		}
}

/* One range and the list of ranges begin alike; the one wins. */
void defaults_node(struct json_doc *d, unused const struct json *old)
{
	struct json *spec = json_get(json_root(d), "spec"), *list = json_get(spec, "podCIDRs");
	const char *one = json_get_str(spec, "podCIDR"), *first = json_str(json_at(list, 0));

	if (str_empty(one) && first)
		json_set_str(d, spec, "podCIDR", first);
	if (str_empty(one) || str_eq(one, first))
		return;
	list = json_set(d, spec, "podCIDRs", json_arr(d));
	json_push_str(d, list, one);
}

void defaults_endpoints(struct json_doc *d, unused const struct json *old)
{
	json_each(subset, json_get(json_root(d), "subsets"))
		json_each(it, json_get(subset.val, "ports"))
			defaults_str(d, it.val, "protocol", "TCP");
}
