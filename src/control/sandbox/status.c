/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/pod.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/pass/draft.h"
#include "control/pass/keys.h"
#include "control/sandbox/sandbox_priv.h"

/*
 * What a Sandbox reports (docs/reference/agent-sandbox.md §3.2 and §3.4). Each condition is decided
 * in the order of that document: the first case that fits wins.
 */
struct report {
	const struct sandbox_facts *f;
	struct json_doc *d;
	struct json *conditions;
	int64_t generation;
};

static void say(struct report *r, const char *type, const char *status, const char *reason,
		const char *message)
{
	const struct condition c = { type, status, reason, message, r->generation, NULL };

	conditions_upsert(r->d, r->conditions, &c, r->f->now);
}

static const char *pod_phase(const struct object *pod)
{
	return str_or(json_get_str(object_status(pod), "phase"), "");
}

static struct condition_view pod_condition(const struct object *pod, const char *type)
{
	return condition_view_of(json_get(object_status(pod), "conditions"), type);
}

static void say_suspended(struct report *r)
{
	const struct sandbox_pod_plan *pod = r->f->pod;

	if (!sandbox_view(r->f->sandbox)->suspended)
		say(r, "Suspended", "False", "NotSuspended", "Sandbox is not suspended");
	else if (r->f->e_pod && !pod->pod)
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

/* A Pod that failed as a whole says why: its node refused it, or its deadline is over. */
static void say_over(struct report *r, const char *type, const char *status,
		     const struct object *pod)
{
	const char *reason = json_get_str(object_status(pod), "reason");
	const char *message = json_get_str(object_status(pod), "message");
	bool failed = str_eq(pod_phase(pod), "Failed");
	autobuf text = { 0 };

	buf_add_str(&text, failed ? "Pod failed" : "Pod completed successfully");
	if (failed && !str_empty(reason))
		buf_printf(&text, ": %s", reason);
	if (failed && !str_empty(message))
		buf_printf(&text, ": %s", message);
	say(r, type, status, failed ? "PodFailed" : "PodSucceeded", buf_str(&text));
}

/* The phase in which a Pod is deleted says nothing about how its work ended. */
static void say_finished(struct report *r)
{
	const struct object *pod = r->f->pod->owned ? r->f->pod->pod : NULL;
	const char *phase = pod ? pod_phase(pod) : "";
	bool settled = pod && (!object_deleting(pod) || conditions_get(r->conditions, "Finished"));

	if (settled && pod_phase_over(phase))
		say_over(r, "Finished", "True", pod);
	else
		conditions_remove(r->conditions, "Finished");
}

static void say_scheduled(struct report *r)
{
	const struct object *pod = r->f->pod->owned ? r->f->pod->pod : NULL;
	struct condition_view c;

	if (r->f->e_pod && !r->f->pod->pod) {
		say(r, "PodScheduled", "Unknown", "PodSchedulingUnknown",
		    "Pod state is unknown. Pod scheduling cannot be determined");
		return;
	}
	if (!pod) {
		conditions_remove(r->conditions, "PodScheduled");
		return;
	}
	c = pod_condition(pod, "PodScheduled");
	if (!c.tree) {
		say(r, "PodScheduled", "Unknown", "PodSchedulingUnknown",
		    "Pod has not reported a PodScheduled condition yet");
		return;
	}
	say(r, "PodScheduled", str_or(c.status, "Unknown"),
	    str_or(c.reason, c.is_true ? "PodScheduled" : "PodSchedulingUnknown"),
	    str_or(c.message, ""));
}

/* Ready */

static void join_errors(const struct sandbox_facts *f, struct buf *out)
{
	const struct err *all[] = { f->e_pvc, f->e_pod, f->e_service };
	bool first = true;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (!all[i])
			continue;
		buf_printf(out, "%s%s", first ? "" : "\n", err_text(all[i]));
		first = false;
	}
}

static bool refused(const struct sandbox_facts *f)
{
	return err_is(f->e_pvc, ERR_INVALID) || err_is(f->e_pod, ERR_INVALID) ||
	       err_is(f->e_service, ERR_INVALID);
}

/* The Pod's half of the message; true when it is all that Ready needs. */
static bool describe_pod(const struct object *pod, struct buf *out)
{
	bool ready = false;

	if (!pod) {
		buf_add_str(out, "Pod does not exist");
	} else if (object_deleting(pod)) {
		buf_add_str(out, "Pod is terminating");
	} else if (!str_eq(pod_phase(pod), "Running")) {
		buf_printf(out, "Pod exists with phase: %s", pod_phase(pod));
	} else if (!pod_condition(pod, "Ready").is_true) {
		buf_add_str(out, "Pod is Running but not Ready");
	} else if (!json_len(json_get(object_status(pod), "podIPs"))) {
		buf_add_str(out, "Pod is Ready but has no podIPs yet");
	} else {
		buf_add_str(out, "Pod is Ready");
		ready = true;
	}
	return ready;
}

static void say_dependencies(struct report *r)
{
	const struct service_plan *svc = r->f->service;
	autobuf text = { 0 };
	bool ready = describe_pod(r->f->pod->pod, &text);

	if (svc->required) {
		buf_add_str(&text, svc->exists ? "; Service Exists" : "; Service does not exist");
		ready = ready && svc->exists;
	}
	if (!ready && r->f->pod->pod && !object_deleting(r->f->pod->pod))
		pod_trouble(r->f->pod->pod, &text);
	say(r, "Ready", ready ? "True" : "False",
	    ready ? "DependenciesReady" : "DependenciesNotReady", buf_str(&text));
}

static void say_ready(struct report *r)
{
	const struct sandbox_facts *f = r->f;
	const struct object *pod = f->pod->pod;
	const char *phase = pod && !object_deleting(pod) ? pod_phase(pod) : "";
	autobuf text = { 0 };

	if (f->pod->n_owned > 1) {
		buf_printf(&text,
			   "multiple Pods (%zu) are controlled by this Sandbox; refusing to choose "
			   "or create a Pod",
			   f->pod->n_owned);
		say(r, "Ready", "False", "MultiplePods", buf_str(&text));
	} else if (f->e_pvc || f->e_pod || f->e_service) {
		buf_add_str(&text, "Error seen: ");
		join_errors(f, &text);
		say(r, "Ready", "False", refused(f) ? "InvalidConfiguration" : "ReconcilerError",
		    buf_str(&text));
	} else if (f->rejected) {
		return; /* stays as it was when the create was refused */
	} else if (sandbox_view(f->sandbox)->suspended) {
		say(r, "Ready", "False", "SandboxSuspended",
		    pod ? "Sandbox is suspending" : "Sandbox is suspended");
	} else if (pod_phase_over(phase)) {
		say_over(r, "Ready", "False", pod);
	} else {
		say_dependencies(r);
	}
}

/* The other fields */

static void put_service(struct report *r, struct json *status)
{
	const struct object *sandbox = r->f->sandbox;

	if (r->f->service->status == SERVICE_KEEP || r->f->e_service)
		return;
	json_set_str(r->d, status, "service", NULL);
	json_set_str(r->d, status, "serviceFQDN", NULL);
	if (r->f->service->status != SERVICE_SET)
		return;
	json_set_str(r->d, status, "service", sandbox->name);
	json_set(r->d, status, "serviceFQDN",
		 json_new_strf(r->d, "%s.%s.svc.%s", sandbox->name, sandbox->ns,
			       r->f->cluster_domain));
}

static void put_pod(struct report *r, struct json *status)
{
	const struct object *pod = r->f->pod->pod;
	struct json *ips = json_arr(r->d);
	char hash[9];

	if (pod) {
		name_hash(r->f->sandbox->name, hash);
		json_set(r->d, status, "selector", json_new_strf(r->d, KEY_NAME_HASH "=%s", hash));
	}
	if (!r->f->pod->owned)
		pod = NULL;
	json_each(it, pod ? json_get(object_status(pod), "podIPs") : NULL)
		json_push_str(r->d, ips, str_or(json_get_str(it.val, "ip"), ""));
	json_set(r->d, status, "podIPs", json_len(ips) ? ips : NULL);
	json_set_str(r->d, status, "nodeName",
		     pod ? str_or(json_get_str(object_spec(pod), "nodeName"), NULL) : NULL);
}

struct json_doc *sandbox_status(const struct sandbox_facts *f)
{
	struct json_doc *d = draft_status(f->sandbox);
	struct json *status = json_root(d);
	struct report r = { f, d, json_need_arr(d, status, "conditions"),
			    sandbox_view(f->sandbox)->generation };

	say_suspended(&r);
	say_finished(&r);
	say_scheduled(&r);
	say_ready(&r);
	put_pod(&r, status);
	if (f->pod->n_owned <= 1)
		put_service(&r, status);
	return d;
}

bool sandbox_says_little(const struct sandbox_facts *f)
{
	const struct object *pod = f->pod->owned ? f->pod->pod : NULL;

	if (f->e_pvc || f->e_pod || f->e_service || f->rejected || f->pod->n_owned != 1)
		return false;
	return pod && !object_deleting(pod) &&
	       !json_len(json_get(object_status(pod), "conditions")) &&
	       !json_len(json_get(object_status(f->sandbox), "conditions"));
}

struct json_doc *sandbox_status_expired(const struct object *sandbox, bool torn_down, usec now)
{
	struct json_doc *d = draft_status(sandbox);
	struct json *status = json_root(d);
	struct json *conditions = json_need_arr(d, status, "conditions");
	const struct condition c = { "Ready",
				     "False",
				     "SandboxExpired",
				     "Sandbox has expired",
				     sandbox_view(sandbox)->generation,
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
	autoptr(json_doc) d = draft_status_patch(sandbox, want);
	const struct json *diff = d ? json_get(json_root(d), "status") : NULL;

	if (json_len(diff) == 1 && json_get(diff, "nodeName") &&
	    !conditions_true(json_get(want, "conditions"), "Ready"))
		return NULL; /* it is written along with the next change */
	return take(d);
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
	const struct sandbox_view *v = sandbox_view(sandbox);
	usec at = v->shutdown_at;

	*ret_left_ms = 0;
	if (!at)
		return EXPIRY_NONE;
	if (at > now) {
		*ret_left_ms =
			MAX((uint64_t)(at - now + 999) / 1000, (uint64_t)SANDBOX_EXPIRY_MIN_MS);
		return EXPIRY_NONE;
	}
	return sandbox_says_expired(v) ? EXPIRY_CLEANUP : EXPIRY_MARK;
}
