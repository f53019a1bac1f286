/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/meta.h"
#include "api/object.h"
#include "api/service.h"
#include "base/ip.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/draft.h"
#include "json/json.h"

/*
 * From a Service and its Pods to its EndpointSlices: a pure function. Per family, the Pods are
 * ordered by the ports that the Service's ports mean in them (a named port may be another number
 * in each) and by name, and put into slices of at most 100. A slice is called after its Service and
 * its place in that order, so that it is changed rather than replaced. A family without Pods has
 * one slice without endpoints, as on a cluster: it says that somebody has looked.
 */
struct backend {
	const struct object *pod;
	char ip[IP_TEXT_MAX];
	struct json *ports; /* in the doc */
	char *ports_text;   /* what Pods of one slice have in common; owned */
};

static struct json *ports_of(struct json_doc *d, const struct json *service_spec,
			     const struct json *pod_spec)
{
	struct json *out = json_arr(d);

	json_each(it, json_get(service_spec, "ports")) {
		int64_t number = service_target_port(it.val, pod_spec);
		struct json *p = json_obj(d);

		if (!number)
			continue;
		json_set_str(d, p, "name", str_or(json_get_str(it.val, "name"), ""));
		json_set_str(d, p, "protocol", str_or(json_get_str(it.val, "protocol"), "TCP"));
		json_set_int(d, p, "port", number);
		json_set(d, p, "appProtocol", json_copy(d, json_get(it.val, "appProtocol")));
		json_push(d, out, p);
	}
	return out;
}

static bool pod_ip(const struct object *pod, bool v6, char ret[IP_TEXT_MAX])
{
	const struct json *ips = json_get(object_status(pod), "podIPs");
	struct ip ip;

	for (size_t i = 0; i < json_len(ips); i++) {
		const char *text = json_get_str(json_at(ips, i), "ip");

		if (text && ip_parse(text, &ip) && ip_is4(&ip) != v6) {
			ip_text(&ip, ret);
			return true;
		}
	}
	return false;
}

static struct json *endpoint(struct json_doc *d, const struct object *service,
			     const struct backend *b)
{
	const struct json *spec = object_spec(b->pod);
	bool serving = conditions_true(json_get(object_status(b->pod), "conditions"), "Ready");
	bool ending = object_deleting(b->pod);
	bool all = json_get_bool(object_spec(service), "publishNotReadyAddresses", false);
	struct json *e = json_obj(d), *conditions = json_obj(d), *target = json_obj(d);

	json_push_str(d, json_need_arr(d, e, "addresses"), b->ip);
	json_set_bool(d, conditions, "ready", all || (serving && !ending));
	json_set_bool(d, conditions, "serving", serving);
	json_set_bool(d, conditions, "terminating", ending);
	json_set(d, e, "conditions", conditions);
	if (!str_empty(json_get_str(spec, "hostname")) &&
	    str_eq(json_get_str(spec, "subdomain"), service->name))
		json_set_str(d, e, "hostname", json_get_str(spec, "hostname"));
	json_set_str(d, e, "nodeName", str_or(json_get_str(spec, "nodeName"), NULL));
	json_set_str(d, target, "kind", "Pod");
	json_set_str(d, target, "namespace", b->pod->ns);
	json_set_str(d, target, "name", b->pod->name);
	json_set_str(d, target, "uid", b->pod->uid);
	json_set(d, e, "targetRef", target);
	return e;
}

static int by_ports_and_name(const void *x, const void *y)
{
	const struct backend *a = x, *b = y;
	int order = strcmp(a->ports_text, b->ports_text);

	return order ? order : strcmp(a->pod->name, b->pod->name);
}

static bool is_reserved(const char *label)
{
	return str_eq(label, LABEL_SERVICE_NAME) || str_eq(label, LABEL_MANAGED_BY) ||
	       str_eq(label, LABEL_HEADLESS);
}

static void set_labels(struct json_doc *d, struct json *meta, const struct object *service)
{
	struct json *labels = json_need_obj(d, meta, "labels");

	json_each(it, json_at_path(service->root, "metadata.labels"))
		if (!is_reserved(it.key))
			json_set(d, labels, it.key, json_copy(d, it.val));
	json_set_str(d, labels, LABEL_SERVICE_NAME, service->name);
	json_set_str(d, labels, LABEL_MANAGED_BY, SLICES_MANAGER);
	if (service_is_headless(object_spec(service)))
		json_set_str(d, labels, LABEL_HEADLESS, "");
}

/* An empty slice of a family, with the number n in it. */
static struct json *slice(struct json_doc *d, const struct object *service, bool v6, size_t n)
{
	const char *family = v6 ? "IPv6" : "IPv4";
	struct json *root = json_obj(d), *owners = json_arr(d), *meta;
	autofree char *place = xasprintf("%s/%s/%zu", service->name, family, n), *name = NULL;
	char hash[9];

	name_hash(place, hash);
	name = xasprintf("%s-%s", service->name, hash);
	json_set_str(d, root, "apiVersion", API_DISCOVERY);
	json_set_str(d, root, "kind", "EndpointSlice");
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "name", name);
	json_set_str(d, meta, "namespace", service->ns);
	set_labels(d, meta, service);
	json_push(d, owners, meta_controller_ref(d, service));
	json_set(d, meta, "ownerReferences", owners);
	json_set_str(d, root, "addressType", family);
	json_set(d, root, "endpoints", json_arr(d));
	json_set(d, root, "ports", json_arr(d));
	return root;
}

static void add_family(struct json_doc *d, struct json *out, const struct slices_of *from, bool v6)
{
	struct backend *all = xnew_n(struct backend, from->n_pods + 1);
	struct json *now = NULL;
	size_t n = 0, n_slices = 0;

	for (size_t i = 0; i < from->n_pods; i++) {
		struct backend *b = &all[n];

		if (!pod_ip(from->pods[i], v6, b->ip))
			continue;
		b->pod = from->pods[i];
		b->ports = ports_of(d, object_spec(from->service), object_spec(b->pod));
		b->ports_text = json_to_text(b->ports);
		n++;
	}
	qsort(all, n, sizeof(*all), by_ports_and_name);
	for (size_t i = 0; i < n; i++) {
		bool other = i && !str_eq(all[i].ports_text, all[i - 1].ports_text);

		if (!now || other || json_len(json_get(now, "endpoints")) == SLICE_MAX) {
			now = slice(d, from->service, v6, n_slices++);
			json_set(d, now, "ports", all[i].ports);
			json_push(d, out, now);
		}
		json_push(d, json_get(now, "endpoints"), endpoint(d, from->service, &all[i]));
	}
	if (!n)
		json_push(d, out, slice(d, from->service, v6, 0));
	for (size_t i = 0; i < n; i++)
		free(all[i].ports_text);
	free(all);
}

struct json_doc *slices_build(const struct slices_of *from)
{
	const struct json *families = json_get(object_spec(from->service), "ipFamilies");
	struct json_doc *d = json_doc_new();
	struct json *out = json_arr(d);

	json_set_root(d, out);
	json_each(it, families)
		add_family(d, out, from, str_eq(json_str(it.val), "IPv6"));
	if (!json_len(families))
		add_family(d, out, from, false);
	return d;
}
