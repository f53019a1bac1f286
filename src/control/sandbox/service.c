/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/diff.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/pod.h"
#include "api/view_sandbox.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/pass/draft.h"
#include "control/pass/keys.h"
#include "control/sandbox/sandbox_priv.h"

/*
 * The headless Service of a Sandbox and the PVCs for its volumes (docs/reference/agent-sandbox.md
 * §3.6).
 */

/* Ports */

struct port {
	int64_t number;
	const char *protocol;
	const char *name; /* NULL: none given */
};

static bool name_taken(const struct port *ports, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(ports[i].name, name))
			return true;
	return false;
}

static size_t port_add(struct port *ports, size_t n, const struct json *p)
{
	int64_t number = json_get_int(p, "containerPort", 0);
	const char *protocol = str_or(json_get_str(p, "protocol"), "TCP");
	const char *name = str_or(json_get_str(p, "name"), NULL);
	size_t i = 0;

	if (!number)
		return n;
	while (i < n && (ports[i].number != number || !str_eq(ports[i].protocol, protocol)))
		i++;
	if (i == n)
		ports[n++] = (struct port){ number, protocol, NULL };
	if (name && !ports[i].name && !name_taken(ports, n, name))
		ports[i].name = name;
	return n;
}

static int by_number(const void *x, const void *y)
{
	const struct port *a = x, *b = y;

	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return strcmp(a->protocol, b->protocol);
}

static bool counts(const struct json *container, bool init)
{
	return !init || pod_is_sidecar(container);
}

static size_t ports_collect(const struct json *pod_spec, struct port *ret)
{
	static const char *const lists[] = { "containers", "initContainers" };
	size_t n = 0;

	for (int i = 0; i < 2; i++) {
		json_each(c, json_get(pod_spec, lists[i])) {
			if (!counts(c.val, i == 1))
				continue;
			json_each(p, json_get(c.val, "ports"))
				n = port_add(ret, n, p.val);
		}
	}
	return n;
}

static size_t ports_count(const struct json *pod_spec)
{
	size_t n = 0;

	json_each(c, json_get(pod_spec, "containers"))
		n += json_len(json_get(c.val, "ports"));
	json_each(c, json_get(pod_spec, "initContainers"))
		n += json_len(json_get(c.val, "ports"));
	return n;
}

static const char *protocol_word(const char *protocol)
{
	return str_eq(protocol, "TCP") ? "tcp" : str_eq(protocol, "UDP") ? "udp" : "sctp";
}

/* "p-8080-tcp", with -2, -3 and so on if that name is taken. */
static struct json *port_name(struct json_doc *d, const struct port *p, const struct json *out,
			      const struct port *ports, size_t n)
{
	struct json *base =
		json_new_strf(d, "p-%lld-%s", (long long)p->number, protocol_word(p->protocol));
	struct json *name = base;

	for (unsigned k = 2;; k++) {
		bool taken = name_taken(ports, n, json_str(name));

		json_each(it, out)
			taken = taken || str_eq(json_get_str(it.val, "name"), json_str(name));
		if (!taken)
			return name;
		name = json_new_strf(d, "%s-%u", json_str(base), k);
	}
}

struct json *service_ports(struct json_doc *d, const struct json *pod_spec)
{
	autofree struct port *ports = xnew_n(struct port, ports_count(pod_spec) + 1);
	size_t n = ports_collect(pod_spec, ports);
	struct json *out = json_arr(d);

	qsort(ports, n, sizeof(*ports), by_number);
	for (size_t i = 0; i < n; i++) {
		struct json *p = json_obj(d);

		json_set(d, p, "name",
			 ports[i].name ? json_new_str(d, ports[i].name)
				       : port_name(d, &ports[i], out, ports, n));
		json_set_str(d, p, "protocol", ports[i].protocol);
		json_set_int(d, p, "port", ports[i].number);
		json_set_int(d, p, "targetPort", ports[i].number);
		json_push(d, out, p);
	}
	return out;
}

/* Service */

static struct json *want_ports(struct json_doc *d, const struct object *sandbox)
{
	return service_ports(d, sandbox_view(sandbox)->blueprint.pod_spec);
}

static struct json_doc *service_build(const struct object *sandbox)
{
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, "v1", "Service"), *meta, *spec, *ports;
	char hash[9];

	name_hash(sandbox->name, hash);
	meta = draft_meta(d, root, sandbox->name, sandbox);
	json_set_str(d, json_need_obj(d, meta, "labels"), KEY_NAME_HASH, hash);
	spec = json_need_obj(d, root, "spec");
	json_set_str(d, spec, "clusterIP", "None");
	json_set_str(d, json_need_obj(d, spec, "selector"), KEY_NAME_HASH, hash);
	ports = want_ports(d, sandbox);
	if (json_len(ports))
		json_set(d, spec, "ports", ports);
	return d;
}

static bool ports_same(const struct json *have, const struct json *want)
{
	if (json_len(have) != json_len(want))
		return false;
	for (size_t i = 0; i < json_len(want); i++) {
		const struct json *h = json_at(have, i), *w = json_at(want, i);

		if (!str_eq(json_get_str(h, "name"), json_get_str(w, "name")) ||
		    !str_eq(str_or(json_get_str(h, "protocol"), "TCP"),
			    json_get_str(w, "protocol")) ||
		    !json_equal(json_get(h, "port"), json_get(w, "port")) ||
		    !json_equal(json_get(h, "targetPort"), json_get(w, "targetPort")))
			return false;
	}
	return true;
}

/* What must change about an existing Service; NULL when nothing. */
static struct json_doc *service_repair(const struct object *sandbox, const struct object *service,
				       bool adopt)
{
	autoptr(json_doc) d = json_doc_new();
	const struct json *spec = object_spec(service);
	struct json *root = json_obj(d), *want = json_obj(d), *ports = want_ports(d, sandbox),
		    *diff;
	bool fix_ports = sandbox_view(sandbox)->service == SANDBOX_SERVICE_WANTED;
	char hash[9];

	name_hash(sandbox->name, hash);
	json_set_root(d, root);
	if (!str_eq(object_label(service, KEY_NAME_HASH), hash))
		json_set_str(d, json_need_obj(d, json_need_obj(d, root, "metadata"), "labels"),
			     KEY_NAME_HASH, hash);
	if (adopt)
		draft_adopt(d, json_need_obj(d, root, "metadata"), service, sandbox);
	json_set_str(d, want, KEY_NAME_HASH, hash);
	diff = diff_strings(d, json_get(spec, "selector"), want);
	if (diff)
		json_set(d, json_need_obj(d, root, "spec"), "selector", diff);
	if (fix_ports && !ports_same(json_get(spec, "ports"), ports))
		json_set(d, json_need_obj(d, root, "spec"), "ports",
			 json_len(ports) ? ports : json_new_null(d));
	return json_len(root) ? take(d) : NULL;
}

static struct err *service_may_adopt(const struct object *sandbox, const struct object *service)
{
	const char *ip = json_get_str(object_spec(service), "clusterIP");
	char hash[9];

	name_hash(sandbox->name, hash);
	if (!adoption_allowed(service, hash))
		return err_unadoptable("service", service);
	if (!str_empty(ip) && !str_eq(ip, "None"))
		return err_new(ERR_CONFLICT,
			       "cannot adopt service \"%s\": ClusterIP is \"%s\" (expected "
			       "\"None\", field is immutable)",
			       service->name, ip);
	return NULL;
}

static void decide_existing(struct service_plan *plan, const struct object *sandbox,
			    const struct object *service, bool unset)
{
	enum ownership own = ownership_of(service, sandbox);

	plan->status = SERVICE_KEEP;
	if (own == FOREIGN) {
		plan->e = err_foreign("service", service, sandbox);
		return;
	}
	if (own == UNOWNED && unset) {
		plan->status = SERVICE_CLEAR;
		return;
	}
	if (own == UNOWNED) {
		plan->e = service_may_adopt(sandbox, service);
		if (plan->e)
			return;
	}
	plan->required = plan->exists = true;
	plan->status = SERVICE_SET;
	plan->step.doc = service_repair(sandbox, service, own == UNOWNED);
	plan->step.verb = plan->step.doc ? STEP_PATCH : STEP_NONE;
}

struct service_plan service_decide(const struct object *sandbox, const struct object *service)
{
	enum sandbox_service wish = sandbox_view(sandbox)->service;
	bool unset = wish == SANDBOX_SERVICE_UNSET, wanted = wish == SANDBOX_SERVICE_WANTED;
	struct service_plan plan = { .required = wanted };

	if (!service && wanted) {
		plan.step.verb = STEP_CREATE;
		plan.step.doc = service_build(sandbox);
	} else if (service && !unset && !wanted) {
		if (ownership_of(service, sandbox) == OWNED && !object_deleting(service))
			plan.step = (struct step){ STEP_DELETE, .uid = service->uid };
	} else if (service) {
		decide_existing(&plan, sandbox, service, unset);
	}
	return plan;
}

/* PVCs */

char *pvc_name(const struct json *vct, const char *sandbox_name)
{
	return xasprintf("%s-%s", volume_template_name(vct), sandbox_name);
}

static struct json_doc *pvc_build(const struct object *sandbox, const struct json *vct)
{
	const struct json *from = json_get(vct, "metadata");
	autofree char *name = pvc_name(vct, sandbox->name);
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, "v1", "PersistentVolumeClaim"), *meta;
	char hash[9];

	name_hash(sandbox->name, hash);
	meta = draft_meta(d, root, name, sandbox);
	json_set(d, meta, "labels", json_copy(d, json_get(from, "labels")));
	json_set_str(d, json_need_obj(d, meta, "labels"), KEY_NAME_HASH, hash);
	json_set(d, meta, "annotations", json_copy(d, json_get(from, "annotations")));
	json_set(d, root, "spec", json_copy(d, json_get(vct, "spec")));
	return d;
}

static struct json_doc *pvc_adopt(const struct object *sandbox, const struct object *pvc)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d);

	json_set_root(d, root);
	draft_adopt(d, json_need_obj(d, root, "metadata"), pvc, sandbox);
	return d;
}

struct step pvc_decide(const struct object *sandbox, const struct json *vct,
		       const struct object *pvc, struct err **ret_e)
{
	char hash[9];

	if (!pvc)
		return (struct step){ STEP_CREATE, pvc_build(sandbox, vct) };
	name_hash(sandbox->name, hash);
	switch (ownership_of(pvc, sandbox)) {
	case OWNED:
		break;
	case FOREIGN:
		*ret_e = err_foreign("PVC", pvc, sandbox);
		break;
	case UNOWNED:
		if (adoption_allowed(pvc, hash))
			return (struct step){ STEP_PATCH, pvc_adopt(sandbox, pvc) };
		*ret_e = err_unadoptable("PVC", pvc);
		break;
	}
	return (struct step){ STEP_NONE };
}
