/* SPDX-License-Identifier: Apache-2.0 */
#include "control/claim/claim.h"

#include "api/view_sandbox.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim/claim_priv.h"
#include "control/claim/note.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/tally/tally.h"
#include "trace/trace.h"

/*
 * A pass over a claim, and its report (docs/reference/agent-sandbox.md §6.3).
 *
 * A warm claim takes two passes: the first patches a member so that it is the claim's, the second
 * writes the claim's status and annotations in one patch. In one process both run in one turn of
 * the loop and end in one commit.
 */
#define MISSING_RECHECK_MS 60000
#define LAG_RECHECK_MS     200

/* Writes the status if it differs. A conflict is dropped: its cause wakes us. */
static void write_status(struct pass *p, const struct object *claim, const struct json_doc *want,
			 struct json_doc *event)
{
	struct write w = { .name = CLAIM_WRITE_STATUS,
			   .to = ref_of(claim),
			   .event = event,
			   .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *patch = claim_status_patch(claim, json_root(want));

	w.to.sub = "status";
	if (patch)
		pass_patch(p, &w, patch);
	else
		json_doc_free(event);
}

/* Reports that the claim has expired; the next pass acts on it. */
static struct again report_expiry(struct pass *p, const struct object *claim,
				  struct json_doc *status)
{
	if (pass_rests(p, CLAIM_WRITE_STATUS))
		return again_retry(take(p->out[CLAIM_WRITE_STATUS].e));
	claim_mark_expired(status, claim, p->now);
	write_status(p, claim, status,
		     claim_event(p, claim, "ClaimExpired", "Claim Expired", "Claim expired"));
	return again_after(1);
}

static struct again report_expiry_alone(struct pass *p, const struct object *claim)
{
	autoptr(json_doc) status = draft_status(claim);

	return report_expiry(p, claim, status);
}

/* The claim outlives the deletion of its Sandbox, and reports it. */
static struct again report_expired(struct pass *p, const struct claim_seen *seen,
				   const struct claim_plan *plan)
{
	const struct claim_facts facts = { seen->claim, plan->sandbox, &plan->trouble, true,
					   p->now };
	autoptr(json_doc) want = claim_status(&facts);
	struct err *e;

	write_status(p, seen->claim, want, NULL);
	e = p->started ? NULL : pass_take_error(p);
	return e ? again_retry(e) : again_never();
}

/* When the claim's next pass is due: after an error, or when it expires. */
static struct again again_for(struct pass *p, struct trouble *trouble, uint64_t left_ms)
{
	static const enum claim_write retried[] = { CLAIM_WRITE_STATUS, CLAIM_WRITE_UNASSIGN };

	switch (trouble->kind) {
	case TROUBLE_TEMPLATE:
	case TROUBLE_POOL:
		return again_after(left_ms ? MIN(left_ms, (uint64_t)MISSING_RECHECK_MS)
					   : MISSING_RECHECK_MS);
	case TROUBLE_LAG:
		return again_after(LAG_RECHECK_MS);
	case TROUBLE_CONFLICT:
	case TROUBLE_OTHER:
		return again_retry(take(trouble->e));
	case TROUBLE_NONE:
	case TROUBLE_METADATA:
	case TROUBLE_ENV:
	case TROUBLE_NOT_OWNED:
	case TROUBLE_VCT:
		break;
	}
	for (size_t i = 0; i < ARRAY_LEN(retried); i++)
		if (pass_rests(p, retried[i]))
			return again_retry(take(p->out[retried[i]].e));
	return left_ms ? again_after(left_ms) : again_never();
}

/* One span for the whole way of a claim, from the first sight to Ready. */
static void trace_way(struct pass *p, const struct object *claim, const struct object *sandbox,
		      usec first_seen)
{
	struct trace_context parent = trace_context_of(p->span);
	struct trace_span *span;

	if (!p->span)
		return;
	span = trace_start(p->c->opt.tracer, "SandboxClaimReady", SPAN_INTERNAL, &parent);
	trace_began(span, first_seen);
	trace_set(span, "sandboxclaim.name", claim->name);
	trace_set(span, "sandboxclaim.namespace", claim->ns);
	trace_set(span, "sandbox.name", sandbox ? sandbox->name : NULL);
	trace_set(span, "launch_type", sandbox && sandbox_view(sandbox)->warm ? "warm" : "cold");
	trace_end(span);
}

/*
 * Writes the status and the annotations that differ. Nothing is left for a pass after that, so the
 * end of the write wakes nobody, and neither does the change if it is seen from within the write.
 */
static void write_report(struct pass *p, const struct claim_seen *seen,
			 const struct claim_plan *plan, const struct json *want)
{
	struct note *note = notes_need(p->own, seen->claim, p->now);
	struct claim_stamps s = { .claim = seen->claim,
				  .sandbox = plan->sandbox,
				  .first_seen = note->first_seen,
				  .observability = !p->c->opt.no_observability_annotations };
	struct write w = { .name = CLAIM_WRITE_STATUS,
			   .to = ref_of(seen->claim),
			   .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };
	autofree char *trace = NULL;
	struct json_doc *patch;

	s.ready = condition_view_of(json_get(want, "conditions"), "Ready").is_true;
	if (s.ready && !note->ready_at && !claim_view(seen->claim)->ready.is_true)
		note->ready_at = p->now;
	s.ready_at = note->ready_at;
	if (p->span && str_empty(claim_view(seen->claim)->trace)) {
		const struct trace_context at = trace_context_of(p->span);

		trace = trace_annotation_write(&at);
		s.trace = trace;
	}
	patch = claim_report(want, &s);
	if (!patch)
		return;
	w.to.sub = CLIENT_WHOLE;
	if (s.ready && s.ready_at && str_empty(claim_view(seen->claim)->first_ready))
		claim_counts(&w, tally_first_ready(seen->claim, plan->sandbox, note->first_seen,
						   note->began));
	if (w.worked)
		trace_way(p, seen->claim, plan->sandbox, note->first_seen);
	pass_patch(p, &w, patch);
}

static struct again report_living(struct pass *p, const struct claim_seen *seen,
				  struct claim_plan *plan)
{
	const struct claim_view *claim = claim_view(seen->claim);
	const struct claim_facts facts = { seen->claim, plan->sandbox, &plan->trouble, false,
					   p->now };
	autoptr(json_doc) want = claim_status(&facts);
	struct condition_view finished =
		condition_view_of(json_get(json_root(want), "conditions"), "Finished");
	usec ends = claim_expires_at(claim, &finished);
	uint64_t left_ms = ends > p->now ? (uint64_t)(ends - p->now + 999) / 1000 : 0;

	if (ends && !left_ms)
		return report_expiry(p, seen->claim, want);
	if (plan->trouble.kind == TROUBLE_LAG && claim->sandbox)
		return again_for(p, &plan->trouble, left_ms);
	write_report(p, seen, plan, json_root(want));
	return again_for(p, &plan->trouble, left_ms);
}

/* For a pass that started no write. */
static struct again report(struct pass *p, const struct claim_seen *seen, struct claim_plan *plan)
{
	switch (plan->step) {
	case CLAIM_STEP_NONE:
		return again_never();
	case CLAIM_STEP_WAIT:
		return again_after(plan->wait_ms);
	case CLAIM_STEP_EXPIRE:
		return report_expiry_alone(p, seen->claim);
	case CLAIM_STEP_DELETE:
		return again_retry(pass_take_error(p));
	case CLAIM_STEP_REPORT:
	case CLAIM_STEP_ADOPT:
	case CLAIM_STEP_CREATE:
	case CLAIM_STEP_UNASSIGN:
	case CLAIM_STEP_FOLLOW:
	case CLAIM_STEP_CLEAN_UP:
		break;
	}
	return plan->expired ? report_expired(p, seen, plan) : report_living(p, seen, plan);
}

struct again claim_reconcile(struct pass *p)
{
	struct claim_seen seen = { 0 };
	struct again again = again_never();

	if (claim_observe(p, &seen)) {
		struct claim_plan plan = claim_decide(&seen);

		claim_act(p, &seen, &plan);
		again = p->started ? again_wait() : report(p, &seen, &plan);
		claim_plan_done(&plan);
	}
	claim_seen_done(&seen);
	return again;
}

void claim_call(struct context *c, struct roster *r)
{
	const struct waiter *w = roster_call(r);

	if (w)
		item_wake(c->queue, CONTROL_CLAIM, w->ns, w->name);
}

void claim_pass_on(struct context *c, const struct object *claim)
{
	struct roster *r = index_find_roster(c->index, claim->ns, claim_view(claim)->pool);

	if (r)
		claim_call(c, r);
}

/* If an adoption under way still wins, the Sandbox is deleted with the claim, its owner. */
void claim_forget(struct notes *notes, struct context *c, const struct object *claim)
{
	struct note *note = notes_get(notes, claim->uid);
	bool called = note && note->waiter.called;

	if (!note)
		return;
	(void)note_release(note, c->index);
	notes_forget(notes, claim->uid);
	if (called)
		claim_pass_on(c, claim);
}
