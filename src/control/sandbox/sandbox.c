/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/sandbox.h"

#include "api/meta.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/index/index.h"
#include "control/pass/context.h"
#include "control/pass/event.h"
#include "control/pass/keys.h"
#include "control/pass/pass.h"
#include "control/sandbox/sandbox_priv.h"
#include "trace/trace.h"

/*
 * The Sandbox controller: a Sandbox becomes a Pod, PVCs for its volumes and a Service.
 *
 * One pass: observe, decide, act, report. Nothing is carried over in memory, so any pass may be the
 * first after a crash. A pass that started a write does not report: the pass that the write's end
 * wakes does, and it sees the effect.
 */

enum {
	/* A start that takes longer is reported before it is complete. */
	QUIET_MS = 100,
	QUIET_AHEAD_MS = 30 * 1000, /* of a member of a pool, which nobody waits for */
};

static void seen_done(struct sandbox_seen *seen)
{
	object_unref(seen->tracked);
	object_unref(seen->service);
	for (size_t i = 0; i < seen->n_owned; i++)
		object_unref(seen->owned[i]);
	for (size_t i = 0; i < seen->n_pvcs; i++)
		object_unref(seen->pvcs[i]);
	free(seen->owned);
	free(seen->pvcs);
}

static void see_pods(struct pass *p, struct sandbox_seen *seen)
{
	const struct object *sb = seen->sandbox;
	const struct map *pods = index_pods_of(p->c->index, sb->uid);
	const char *tracked = sandbox_view(sb)->pod_name;
	char hash[9];

	seen->tracked = client_get(p->c->client, p->c->kinds.pod, sb->ns, tracked);
	if (!pods)
		return;
	name_hash(sb->name, hash);
	seen->owned = xnew_n(struct object *, map_len(pods));
	map_each(it, pods) {
		struct object *pod = it.value;

		if (str_eq(object_label(pod, KEY_NAME_HASH), hash) || str_eq(pod->name, tracked))
			seen->owned[seen->n_owned++] = object_ref(pod);
	}
}

static void see_pvcs(struct pass *p, struct sandbox_seen *seen)
{
	const struct object *sb = seen->sandbox;
	const struct json *templates = sandbox_view(sb)->blueprint.volume_templates;

	seen->pvcs = xnew_n(struct object *, json_len(templates) + 1);
	json_each(it, templates) {
		autofree char *name = pvc_name(it.val, sb->name);

		seen->pvcs[seen->n_pvcs++] =
			client_get(p->c->client, p->c->kinds.pvc, sb->ns, name);
	}
}

static void observe(struct pass *p, const struct object *sb, struct sandbox_seen *seen)
{
	*seen = (struct sandbox_seen){ .sandbox = sb };
	seen->service = client_get(p->c->client, p->c->kinds.service, sb->ns, sb->name);
	see_pods(p, seen);
	see_pvcs(p, seen);
}

/* What a pool's members do as they should is told by the status of the pool. */
static struct json_doc *news(struct pass *p, const struct object *sb, const struct sandbox_news *n)
{
	const struct event_spec spec = { sb,        WHO_SANDBOX, n->type,
					 n->reason, n->action,   str_or(n->note, n->reason) };

	if (p->c->opt.no_sandbox_events || (sandbox_view(sb)->in_pool && str_eq(n->type, "Normal")))
		return NULL;
	return event_build(&spec, p->now);
}

/* Takes the step's doc over. */
static void step_do(struct pass *p, struct step *s, const struct write *w)
{
	switch (s->verb) {
	case STEP_NONE:
		break;
	case STEP_CREATE:
		pass_create(p, w, take(s->doc));
		break;
	case STEP_PATCH:
		pass_patch(p, w, take(s->doc));
		break;
	case STEP_DELETE:
		pass_delete_uid(p, w, s->uid);
		break;
	}
}

static void act_pvcs(struct pass *p, const struct object *sb, struct sandbox_plan *plan)
{
	static const char *const texts[4] = { NULL, "failed to create PVC", "failed to adopt PVC" };
	const struct json *templates = sandbox_view(sb)->blueprint.volume_templates;

	for (size_t i = 0; i < plan->n_pvcs; i++) {
		autofree char *name = pvc_name(json_at(templates, i), sb->name);
		const struct write w = { .name = SANDBOX_WRITE_PVC,
					 .to = { p->c->kinds.pvc, sb->ns, name },
					 .what = texts[plan->pvcs[i].verb] };

		step_do(p, &plan->pvcs[i], &w);
	}
}

static void act_pod(struct pass *p, const struct object *sb, struct sandbox_pod_plan *plan)
{
	static const char *const texts[4] = { NULL, "failed to create pod", "failed to update pod",
					      "failed to delete pod" };
	bool create = plan->step.verb == STEP_CREATE;
	struct write w = { .name = create ? SANDBOX_WRITE_CREATE_POD : SANDBOX_WRITE_POD,
			   .to = { p->c->kinds.pod, sb->ns,
				   plan->pod ? plan->pod->name : sb->name } };

	w.what = texts[plan->step.verb];
	if (create) {
		autofree char *note = xasprintf("Created Pod \"%s\"", sb->name);
		const struct sandbox_news n = { "Normal", "SandboxPodCreated", "PodCreation",
						note };

		w.event = news(p, sb, &n);
	}
	if (plan->step.verb == STEP_DELETE)
		w.flags = WRITE_GONE_OK | WRITE_CONFLICT_OK;
	step_do(p, &plan->step, &w);
}

static void act_service(struct pass *p, const struct object *sb, struct service_plan *plan)
{
	static const char *const texts[4] = { NULL, "failed to create service",
					      "failed to update service",
					      "failed to delete service" };
	struct write w = { .name = SANDBOX_WRITE_SERVICE,
			   .to = { p->c->kinds.service, sb->ns, sb->name } };

	w.what = texts[plan->step.verb];
	if (plan->step.verb == STEP_DELETE)
		w.flags = WRITE_GONE_OK | WRITE_CONFLICT_OK;
	step_do(p, &plan->step, &w);
}

static void forget_pod_name(struct pass *p, const struct object *sb)
{
	const struct write w = { .name = SANDBOX_WRITE_FORGET_POD,
				 .to = ref_of(sb),
				 .flags = WRITE_GONE_OK };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d);

	json_set_root(d, root);
	json_set(d, json_need_obj(d, json_need_obj(d, root, "metadata"), "annotations"),
		 KEY_POD_NAME, json_new_null(d));
	pass_patch(p, &w, d);
}

/* A Pod that could not be created is news too, but only the first time. */
static struct json_doc *failure_news(struct pass *p, const struct object *sb,
				     const struct json *want)
{
	struct condition_view now = condition_view_of(json_get(want, "conditions"), "Ready");
	const struct err *e = p->out[SANDBOX_WRITE_CREATE_POD].e;
	struct sandbox_news n = { "Warning", "SandboxPodCreateFailed", "PodCreation", NULL };

	if (!e || str_eq(sandbox_view(sb)->ready.reason, now.reason))
		return NULL;
	n.note = err_text(e);
	return news(p, sb, &n);
}

/* Takes want over. flags: of the write; tell: in Events too. */
static void report(struct pass *p, const struct object *sb, struct json_doc *want, unsigned flags,
		   bool tell)
{
	struct write w = { .name = SANDBOX_WRITE_STATUS,
			   .to = ref_of(sb),
			   .flags = flags | WRITE_GONE_OK };
	struct json_doc *patch = sandbox_status_patch(sb, json_root(want));
	struct sandbox_news n;

	w.to.sub = "status";
	if (patch) {
		if (tell)
			w.event = failure_news(p, sb, json_root(want));
		if (tell && !w.event && sandbox_news(object_status(sb), json_root(want), &n))
			w.event = news(p, sb, &n);
		pass_patch(p, &w, patch);
	}
	json_doc_free(want);
}

static const struct err *either(const struct err *a, const struct err *b)
{
	return a ? a : b;
}

/* An object of that name exists that the cache does not show yet. */
static bool cache_lags(const struct pass *p)
{
	return err_is(p->out[SANDBOX_WRITE_CREATE_POD].e, ERR_EXISTS) ||
	       err_is(p->out[SANDBOX_WRITE_PVC].e, ERR_EXISTS) ||
	       err_is(p->out[SANDBOX_WRITE_SERVICE].e, ERR_EXISTS);
}

/* Says when to come back. Refusals that only a change of the spec can cure are not retried. */
static struct again again_for(struct pass *p, const struct sandbox_facts *f, uint64_t left_ms)
{
	const struct err *all[] = { f->e_pvc, f->e_pod, f->e_service,
				    p->out[SANDBOX_WRITE_FORGET_POD].e,
				    p->out[SANDBOX_WRITE_STATUS].e };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i] && !err_is(all[i], ERR_INVALID))
			return again_retry(err_copy(all[i]));
	return left_ms ? again_after(left_ms) : again_never();
}

static struct trace_span *part_of(struct pass *p, const char *name)
{
	struct trace_context at = trace_context_of(p->span);

	return p->span ? trace_start(p->c->opt.tracer, name, SPAN_INTERNAL, &at) : NULL;
}

/* What upstream tells of the Pod that a pass has found, or makes. */
static void tell_of_pod(struct trace_span *s, const struct object *sb,
			const struct sandbox_pod_plan *plan)
{
	const struct object *pod = plan->pod;
	const char *phase = pod ? json_get_str(object_status(pod), "phase") : NULL;

	if (pod || plan->step.verb == STEP_CREATE)
		trace_event(s, pod ? "ExistingPodStatusObserved" : "NewPodStatusObserved",
			    (const struct trace_pair[]){ { "pod.Name", pod ? pod->name : sb->name },
							 { "pod.Phase", str_or(phase, "") },
							 { 0 } });
}

static void act(struct pass *p, const struct object *sb, struct sandbox_plan *plan)
{
	struct trace_span *span = part_of(p, "reconcilePVCs");

	act_pvcs(p, sb, plan);
	trace_end(span);
	if (plan->pod.forget_name)
		forget_pod_name(p, sb);
	span = part_of(p, "reconcilePod");
	tell_of_pod(span, sb, &plan->pod);
	act_pod(p, sb, &plan->pod);
	trace_end(span);
	act_service(p, sb, &plan->service);
}

/*
 * How long the report can still wait, in ms. A Pod that is started at once reports that it is
 * Ready a few milliseconds after its creation, and one write then says all of it.
 */
static uint64_t quiet_ms(struct pass *p, const struct sandbox_facts *f)
{
	uint64_t most = sandbox_view(f->sandbox)->in_pool ? QUIET_AHEAD_MS : QUIET_MS;
	uint64_t ms;

	if (!sandbox_says_little(f)) {
		p->item->quiet_since = 0;
		return 0;
	}
	if (!p->item->quiet_since)
		p->item->quiet_since = p->now;
	ms = (uint64_t)MAX(p->now - p->item->quiet_since, (usec)0) / 1000;
	return most - MIN(ms, most);
}

/* For a pass that started no write. */
static struct again report_living(struct pass *p, const struct object *sb,
				  const struct sandbox_plan *plan, uint64_t left_ms)
{
	const struct sandbox_facts f = {
		.sandbox = sb,
		.pod = &plan->pod,
		.service = &plan->service,
		.e_pvc = either(plan->e_pvc, p->out[SANDBOX_WRITE_PVC].e),
		.e_pod = either(plan->pod.e, either(p->out[SANDBOX_WRITE_CREATE_POD].e,
						    p->out[SANDBOX_WRITE_POD].e)),
		.e_service = either(plan->service.e, p->out[SANDBOX_WRITE_SERVICE].e),
		.rejected = plan->held,
		.cluster_domain = p->c->opt.cluster_domain,
		.now = p->now,
	};
	uint64_t quiet;

	quiet = quiet_ms(p, &f);
	if (quiet)
		return again_after(left_ms ? MIN(left_ms, quiet) : quiet);
	report(p, sb, sandbox_status(&f), WRITE_QUIET, true);
	return again_for(p, &f, left_ms);
}

static struct again reconcile_living(struct pass *p, const struct object *sb, uint64_t left_ms)
{
	struct sandbox_seen seen;
	struct sandbox_plan plan;
	struct again again;

	if (cache_lags(p))
		return again_retry(pass_take_error(p));
	observe(p, sb, &seen);
	plan = sandbox_decide(&seen);
	act(p, sb, &plan);
	again = p->started ? again_wait() : report_living(p, sb, &plan, left_ms);
	sandbox_plan_done(&plan);
	seen_done(&seen);
	return again;
}

/* Expiry was reported; now everything is deleted, perhaps the Sandbox too. */
static void tear_down(struct pass *p, const struct object *sb, const struct sandbox_seen *seen)
{
	for (size_t i = 0; i < seen->n_owned; i++) {
		const struct write w = { .name = SANDBOX_WRITE_POD,
					 .to = ref_of(seen->owned[i]),
					 .what = "failed to delete pod",
					 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };

		if (!object_deleting(seen->owned[i]))
			pass_delete_uid(p, &w, seen->owned[i]->uid);
	}
	if (seen->service && ownership_of(seen->service, sb) == OWNED &&
	    !object_deleting(seen->service)) {
		const struct write w = { .name = SANDBOX_WRITE_SERVICE,
					 .to = ref_of(seen->service),
					 .what = "failed to delete service",
					 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };

		pass_delete_uid(p, &w, seen->service->uid);
	}
	if (sandbox_view(sb)->delete_at_shutdown) {
		const struct client_delete_spec spec = { .uid = sb->uid,
							 .propagation = "Background",
							 .grace_s = -1 };
		const struct write w = { .name = SANDBOX_WRITE_DELETE,
					 .to = ref_of(sb),
					 .flags = WRITE_GONE_OK };

		pass_delete(p, &w, &spec);
	}
}

static struct again reconcile_expired(struct pass *p, const struct object *sb)
{
	struct sandbox_seen seen;
	struct err *e;

	observe(p, sb, &seen);
	tear_down(p, sb, &seen);
	seen_done(&seen);
	if (p->started)
		return again_wait();
	e = pass_take_error(p);
	if (e)
		return again_retry(e);
	if (!sandbox_view(sb)->delete_at_shutdown)
		report(p, sb, sandbox_status_expired(sb, true, p->now), WRITE_QUIET, false);
	return again_never();
}

struct again sandbox_reconcile(struct pass *p)
{
	autoptr(object) sb =
		client_get(p->c->client, p->c->kinds.sandbox, p->key->ns, p->key->name);
	uint64_t left_ms = 0;

	if (!sb || object_deleting(sb))
		return again_never();
	switch (sandbox_expiry(sb, p->now, &left_ms)) {
	case EXPIRY_NONE:
		return reconcile_living(p, sb, left_ms);
	case EXPIRY_MARK:
		if (pass_rests(p, SANDBOX_WRITE_STATUS))
			return again_retry(pass_take_error(p));
		report(p, sb, sandbox_status_expired(sb, false, p->now), 0,
		       !sandbox_view(sb)->delete_at_shutdown);
		return again_after(1);
	case EXPIRY_CLEANUP:
		return reconcile_expired(p, sb);
	}
	return again_never();
}
