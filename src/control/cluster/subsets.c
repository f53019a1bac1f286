/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "api/service.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/cluster_priv.h"
#include "json/json.h"

/*
 * The older kind Endpoints, from the slices of the Service's first family: Pods with the same ports
 * are one subset. It has no terminating endpoints, and at most a thousand.
 */
enum {
	ADDRESSES_MAX = 1000,
};

static struct json *subset_for(struct json_doc *d, struct json *subsets, const struct json *ports)
{
	struct json *made = json_obj(d), *list = json_arr(d);

	json_each(it, ports) {
		struct json *p = json_copy(d, it.val);

		if (str_empty(json_get_str(p, "name")))
			(void)json_del(p, "name");
		json_push(d, list, p);
	}
	json_each(it, subsets)
		if (json_equal(json_get(it.val, "ports"), json_len(list) ? list : NULL))
			return it.val;
	if (json_len(list))
		json_set(d, made, "ports", list);
	json_push(d, subsets, made);
	return made;
}

static void add_endpoint(struct json_doc *d, struct json *subset, const struct json *endpoint)
{
	static const char *const same[] = { "hostname", "nodeName", "targetRef" };
	bool ready = json_bool(json_at_path(endpoint, "conditions.ready"), false);
	struct json *at = json_obj(d);

	json_set(d, at, "ip", json_copy(d, json_at_path(endpoint, "addresses.0")));
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		json_set(d, at, same[i], json_copy(d, json_get(endpoint, same[i])));
	json_push(d, json_need_arr(d, subset, ready ? "addresses" : "notReadyAddresses"), at);
}

static bool counts(const struct json *endpoint)
{
	return json_bool(json_at_path(endpoint, "conditions.ready"), false) ||
	       !json_bool(json_at_path(endpoint, "conditions.terminating"), false);
}

static void set_meta(struct json_doc *d, struct json *root, const struct object *service)
{
	struct json *meta = json_need_obj(d, root, "metadata"), *owners = json_arr(d), *labels;

	json_set_str(d, meta, "name", service->name);
	json_set_str(d, meta, "namespace", service->ns);
	labels = json_copy(d, json_at_path(service->root, "metadata.labels"));
	labels = json_set(d, meta, "labels", json_len(labels) ? labels : json_obj(d));
	json_set_str(d, labels, LABEL_ENDPOINTS_BY, ENDPOINTS_MANAGER);
	if (service_is_headless(object_spec(service)))
		json_set_str(d, labels, LABEL_HEADLESS, "");
	json_push(d, owners, meta_controller_ref(d, service));
	json_set(d, meta, "ownerReferences", owners);
}

struct json_doc *subsets_build(const struct object *service, const struct json *slices)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *subsets = json_arr(d);
	const char *family = json_get_str(json_at(slices, 0), "addressType");
	size_t n = 0;

	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", "v1");
	json_set_str(d, root, "kind", "Endpoints");
	set_meta(d, root, service);
	json_each(slice, slices) {
		if (!str_eq(json_get_str(slice.val, "addressType"), family))
			continue;
		json_each(it, json_get(slice.val, "endpoints"))
			if (counts(it.val) && n++ < ADDRESSES_MAX)
				add_endpoint(d,
					     subset_for(d, subsets, json_get(slice.val, "ports")),
					     it.val);
	}
	if (json_len(subsets))
		json_set(d, root, "subsets", subsets);
	return d;
}
