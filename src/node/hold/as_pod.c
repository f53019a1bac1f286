/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "api/sandbox_pod.h"
#include "api/view_sandbox.h"
#include "base/mem.h"
#include "json/json.h"
#include "node/hold/hold_priv.h"

/*
 * A Sandbox that has no Pod as policies and names see it: the labels, ports and host name that its
 * Pod would have, at the address that it will have. It is an object of this process alone, and
 * never written. It is Ready if packets to it are waited for.
 */
static void put_status(const struct holds *h, struct json_doc *d, struct json *status,
		       const struct hold *o)
{
	const struct instance *i = h->spec.instance;
	const struct ip ips[] = { instance_ip4(i, o->place), instance_ip6(i, o->place) };
	struct json *list = json_need_arr(d, status, "podIPs");
	char text[IP_TEXT_MAX];

	for (unsigned n = 0; n < (i->ip6 ? 2U : 1U); n++) {
		struct json *item = json_obj(d);

		ip_text(&ips[n], text);
		json_set_str(d, item, "ip", text);
		json_push(d, list, item);
	}
	json_set(d, status, "podIP", json_copy(d, json_at_path(list, "0.ip")));
}

struct object *hold_as_pod(const struct holds *h, const struct hold *o,
			   const struct object *sandbox)
{
	static const char *const parts[] = { "hostname", "subdomain", "initContainers",
					     "containers" };
	const struct blueprint_view *from = &sandbox_view(sandbox)->blueprint;
	const struct condition ready = { "Ready", o->awaited ? "True" : "False",
					 "Held",  "Its Sandbox has no Pod",
					 0,       NULL };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *spec, *status;

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "name", sandbox->name);
	json_set_str(d, meta, "namespace", sandbox->ns);
	sandbox_pod_labels(d, json_need_obj(d, meta, "labels"), sandbox);
	spec = json_need_obj(d, root, "spec");
	json_set_str(d, spec, "nodeName", h->spec.node_name);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		json_set(d, spec, parts[i], json_copy(d, json_get(from->pod_spec, parts[i])));
	status = json_need_obj(d, root, "status");
	put_status(h, d, status, o);
	conditions_upsert(d, json_need_arr(d, status, "conditions"), &ready, clock_wall());
	return object_new(h->kind_pod, d);
}
