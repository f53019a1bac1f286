/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/diff_priv.h"
#include "control/keys_priv.h"
#include "control/sandbox_priv.h"

/*
 * What a Sandbox reports (reference/api.md §3.2 and §3.4, upstream-1.0.md §3). The tables of
 * conditions are in the order of the document: the first row that fits wins.
 */
struct report {
	const struct sandbox_view *v;
	struct json_doc *d;
	struct json *conditions;
	int64_t generation;
};

static void say(struct report *r, const char *type, const char *status, const char *reason,
		const char *message)
{
	const struct condition c = { type, status, reason, message, r->generation, NULL };

	conditions_upsert(r->d, r->conditions, &c, r->v->now);
}

static const char *pod_phase(const struct object *pod)
{
	return str_or(json_get_str(object_status(pod), "phase"), "");
}

static void say_suspended(struct report *r)
{
	const struct pod_plan *pod = r->v->pod;

	if (!sandbox_suspended(r->v->sandbox))
		say(r, "Suspended", "False", "NotSuspended", "Sandbox is not suspended");
	else if (r->v->e_pod && !pod->pod)
		say(r, "Suspended", "Unknown", "PodStateUnknown",
		    "Pod state is unknown. Sandbox suspension cannot be confirmed");
	else if (!pod->pod && !pod->n_owned)
		say(r, "Suspended", "True", "PodTerminated",
		    "Pod has been terminated. Sandbox is suspended");
	else if (pod->pod && !pod->owned)
		say(r, "Suspended", "False", "PodNotOwned",
		    "Refused to delete pod because it is not owned by this sandbox");
	else
		say(r, "Suspended", "False", "PodTerminating",
		    "Pod is terminating. Sandbox is suspending");
}

/* A Pod on its way out may end in any phase; that is not the end of the work it was made for. */
static void say_finished(struct report *r)
{
	const struct object *pod = r->v->pod->owned ? r->v->pod->pod : NULL;
	const char *phase = pod ? pod_phase(pod) : "";
	bool settled = pod && (!object_deleting(pod) || conditions_get(r->conditions, "Finished"));

	if (settled && str_eq(phase, "Succeeded"))
		say(r, "Finished", "True", "PodSucceeded", "Pod completed successfully");
	else if (settled && str_eq(phase, "Failed"))
		say(r, "Finished", "True", "PodFailed", "Pod failed");
	else
		conditions_remove(r->conditions, "Finished");
}

static void say_scheduled(struct report *r)
{
	const struct object *pod = r->v->pod->owned ? r->v->pod->pod : NULL;
	const struct json *c;
	const char *status;

	if (r->v->e_pod && !r->v->pod->pod) {
		say(r, "PodScheduled", "Unknown", "PodSchedulingUnknown",
		    "Pod state is unknown. Pod scheduling cannot be determined");
		return;
	}
	if (!pod) {
		conditions_remove(r->conditions, "PodScheduled");
		return;
	}
	c = conditions_get(json_get(object_status(pod), "conditions"), "PodScheduled");
	if (!c) {
		say(r, "PodScheduled", "Unknown", "PodSchedulingUnknown",
		    "Pod has not reported a PodScheduled condition yet");
		return;
	}
	status = str_or(json_get_str(c, "status"), "Unknown");
	say(r, "PodScheduled", status,
	    str_or(json_get_str(c, "reason"),
		   str_eq(status, "True") ? "PodScheduled" : "PodSchedulingUnknown"),
	    str_or(json_get_str(c, "message"), ""));
}

/* Ready */

static void join_errors(const struct sandbox_view *v, struct buf *out)
{
	const struct err *all[] = { v->e_pvc, v->e_pod, v->e_service };
	bool first = true;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (!all[i])
			continue;
		buf_printf(out, "%s%s", first ? "" : "\n", err_text(all[i]));
		first = false;
	}
}

static bool refused(const struct sandbox_view *v)
{
	return err_is(v->e_pvc, ERR_INVALID) || err_is(v->e_pod, ERR_INVALID) ||
	       err_is(v->e_service, ERR_INVALID);
}

static bool pod_ready(const struct object *pod)
{
	return conditions_true(json_get(object_status(pod), "conditions"), "Ready");
}

/* The Pod's half of the message; true when it is all that Ready needs. */
static bool describe_pod(const struct object *pod, struct buf *out)
{
	if (!pod)
		buf_add_str(out, "Pod does not exist");
	else if (object_deleting(pod))
		buf_add_str(out, "Pod is terminating");
	else if (!str_eq(pod_phase(pod), "Running"))
		buf_printf(out, "Pod exists with phase: %s", pod_phase(pod));
	else if (!pod_ready(pod))
		buf_add_str(out, "Pod is Running but not Ready");
	else if (!json_len(json_get(object_status(pod), "podIPs")))
		buf_add_str(out, "Pod is Ready but has no podIPs yet");
	else
		buf_add_str(out, "Pod is Ready");
	return pod && str_eq(buf_str(out), "Pod is Ready");
}

static void say_dependencies(struct report *r)
{
	const struct service_plan *svc = r->v->service;
	autobuf text = { 0 };
	bool ready = describe_pod(r->v->pod->pod, &text);

	if (svc->required) {
		buf_add_str(&text, svc->exists ? "; Service Exists" : "; Service does not exist");
		ready = ready && svc->exists;
	}
	say(r, "Ready", ready ? "True" : "False",
	    ready ? "DependenciesReady" : "DependenciesNotReady", buf_str(&text));
}

static void say_ready(struct report *r)
{
	const struct sandbox_view *v = r->v;
	const struct object *pod = v->pod->pod;
	const char *phase = pod && !object_deleting(pod) ? pod_phase(pod) : "";
	autobuf text = { 0 };

	if (v->pod->n_owned > 1) {
		buf_printf(&text,
			   "multiple Pods (%zu) are controlled by this Sandbox; refusing to choose "
			   "or create a Pod",
			   v->pod->n_owned);
		say(r, "Ready", "False", "MultiplePods", buf_str(&text));
	} else if (v->e_pvc || v->e_pod || v->e_service) {
		buf_add_str(&text, "Error seen: ");
		join_errors(v, &text);
		say(r, "Ready", "False", refused(v) ? "InvalidConfiguration" : "ReconcilerError",
		    buf_str(&text));
	} else if (v->rejected) {
		return; /* stays as it was when the create was refused */
	} else if (sandbox_suspended(v->sandbox)) {
		say(r, "Ready", "False", "SandboxSuspended",
		    pod ? "Sandbox is suspending" : "Sandbox is suspended");
	} else if (str_eq(phase, "Succeeded")) {
		say(r, "Ready", "False", "PodSucceeded", "Pod completed successfully");
	} else if (str_eq(phase, "Failed")) {
		say(r, "Ready", "False", "PodFailed", "Pod failed");
	} else {
		say_dependencies(r);
	}
}

/* The other fields */

static void put_service(struct report *r, struct json *status)
{
	const struct object *sandbox = r->v->sandbox;

	if (r->v->service->status == SERVICE_KEEP || r->v->e_service)
		return;
	json_set_str(r->d, status, "service", NULL);
	json_set_str(r->d, status, "serviceFQDN", NULL);
	if (r->v->service->status != SERVICE_SET)
		return;
	json_set_str(r->d, status, "service", sandbox->name);
	json_set(r->d, status, "serviceFQDN",
		 json_new_strf(r->d, "%s.%s.svc.%s", sandbox->name, sandbox->ns,
			       r->v->cluster_domain));
}

static void put_pod(struct report *r, struct json *status)
{
	const struct object *pod = r->v->pod->pod;
	struct json *ips = json_arr(r->d);
	char hash[9];

	if (pod) {
		name_hash(r->v->sandbox->name, hash);
		json_set(r->d, status, "selector", json_new_strf(r->d, KEY_NAME_HASH "=%s", hash));
	}
	if (!r->v->pod->owned)
		pod = NULL;
	json_each(it, pod ? json_get(object_status(pod), "podIPs") : NULL)
		json_push_str(r->d, ips, str_or(json_get_str(it.val, "ip"), ""));
	json_set(r->d, status, "podIPs", json_len(ips) ? ips : NULL);
	json_set_str(r->d, status, "nodeName",
		     pod ? str_or(json_get_str(object_spec(pod), "nodeName"), NULL) : NULL);
}

static struct json *status_copy(struct json_doc *d, const struct object *sandbox)
{
	struct json *status = json_copy(d, object_status(sandbox));

	if (!status)
		status = json_obj(d);
	json_set_root(d, status);
	return status;
}

struct json_doc *sandbox_status(const struct sandbox_view *v)
{
	struct json_doc *d = json_doc_new();
	struct json *status = status_copy(d, v->sandbox);
	struct report r = { v, d, json_need_arr(d, status, "conditions"),
			    object_generation(v->sandbox) };

	say_suspended(&r);
	say_finished(&r);
	say_scheduled(&r);
	say_ready(&r);
	put_pod(&r, status);
	if (v->pod->n_owned <= 1)
		put_service(&r, status);
	return d;
}

struct json_doc *sandbox_status_expired(const struct object *sandbox, bool torn_down, usec now)
{
	struct json_doc *d = json_doc_new();
	struct json *status = status_copy(d, sandbox);
	struct json *conditions = json_need_arr(d, status, "conditions");
	const struct condition c = { "Ready",
				     "False",
				     "SandboxExpired",
				     "Sandbox has expired",
				     object_generation(sandbox),
				     NULL };

	conditions_remove(conditions, "PodScheduled");
	conditions_upsert(d, conditions, &c, now);
	if (torn_down) {
		static const char *const gone[] = { "service", "serviceFQDN", "selector", "podIPs",
						    "nodeName" };

		for (size_t i = 0; i < ARRAY_LEN(gone); i++)
			(void)json_del(status, gone[i]);
	}
	return d;
}

struct json_doc *sandbox_status_patch(const struct object *sandbox, const struct json *want)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d), *diff = diff_merge(d, object_status(sandbox), want);

	if (!diff)
		return NULL;
	if (json_len(diff) == 1 && json_get(diff, "nodeName") &&
	    !conditions_true(json_get(want, "conditions"), "Ready"))
		return NULL; /* rides along with the next write */
	json_set_root(d, root);
	json_set(d, root, "status", diff);
	return take(d);
}

bool sandbox_was_rejected(const struct object *sandbox)
{
	const struct json *c =
		conditions_get(json_get(object_status(sandbox), "conditions"), "Ready");

	return str_eq(json_get_str(c, "reason"), "InvalidConfiguration") &&
	       json_get_int(c, "observedGeneration", 0) == object_generation(sandbox);
}

static bool became(const struct json *was, const struct json *now, const char *type,
		   const char *member, const char *value)
{
	const struct json *old = conditions_get(json_get(was, "conditions"), type);
	const struct json *new = conditions_get(json_get(now, "conditions"), type);

	return str_eq(json_get_str(new, member), value) &&
	       !str_eq(json_get_str(old, member), value);
}

bool sandbox_news(const struct json *was, const struct json *now, struct sandbox_news *ret)
{
	static const struct {
		const char *condition, *member, *value;
		struct sandbox_news news;
	} rows[] = {
		{ "Ready", "reason", "MultiplePods", { "Warning", "MultiplePods", "Reconciling" } },
		{ "Finished", "reason", "PodFailed", { "Warning", "PodFailed", "Reconciling" } },
		{ "Finished",
		  "reason",
		  "PodSucceeded",
		  { "Normal", "PodSucceeded", "Reconciling" } },
		{ "Suspended", "status", "True", { "Normal", "SandboxSuspended", "Reconciling" } },
		{ "Ready", "reason", "SandboxExpired", { "Normal", "SandboxExpired", "Expiry" } },
		{ "Ready", "status", "True", { "Normal", "SandboxReady", "Reconciling" } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!became(was, now, rows[i].condition, rows[i].member, rows[i].value))
			continue;
		*ret = rows[i].news;
		ret->note = json_get_str(
			conditions_get(json_get(now, "conditions"), rows[i].condition), "message");
		return true;
	}
	return false;
}

enum expiry sandbox_expiry(const struct object *sandbox, usec now, uint64_t *ret_left_ms)
{
	const char *text = json_get_str(object_spec(sandbox), "shutdownTime");
	const struct json *ready =
		conditions_get(json_get(object_status(sandbox), "conditions"), "Ready");
	autoptr(err) e = NULL;
	usec at = 0;

	*ret_left_ms = 0;
	if (str_empty(text))
		return EXPIRY_NONE;
	e = clock_parse(text, &at);
	if (e)
		return EXPIRY_NONE;
	if (at > now) {
		*ret_left_ms =
			MAX((uint64_t)(at - now + 999) / 1000, (uint64_t)SANDBOX_EXPIRY_MIN_MS);
		return EXPIRY_NONE;
	}
	return str_eq(json_get_str(ready, "reason"), "SandboxExpired") ? EXPIRY_CLEANUP
								       : EXPIRY_MARK;
}
