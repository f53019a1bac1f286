/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim/claim_priv.h"
#include "control/claim/note.h"
#include "control/index/index.h"
#include "control/pass/context.h"
#include "control/pass/event.h"
#include "control/pass/keys.h"
#include "control/tally/tally.h"
#include "trace/trace.h"

/*
 * The writes of a claim's plan. A member that a claim is adopting is marked as taken until the
 * patch has ended, so that other claims pick other members meanwhile.
 */

struct json_doc *claim_event(struct pass *p, const struct object *claim, const char *reason,
			     const char *action, const char *note)
{
	const struct event_spec spec = { claim, WHO_CLAIM, "Normal", reason, action, note };

	return p->c->opt.no_claim_events ? NULL : event_build(&spec, p->now);
}

static void count(struct context *c, void *mark)
{
	tally_count(c->tally, mark, context_now(c));
}

static void drop(void *mark)
{
	tally_mark_free(mark);
}

void claim_counts(struct write *w, struct tally_mark *mark)
{
	w->worked = count;
	w->arg = mark;
	w->drop_arg = drop;
}

static void tell(struct pass *p, const char *what, const char *sandbox)
{
	trace_event(p->span, what,
		    (const struct trace_pair[]){ { "sandbox.name", sandbox }, { 0 } });
}

static void act_adopt(struct pass *p, const struct object *claim, struct claim_plan *plan)
{
	const struct object *member = plan->member;
	autofree char *text = xasprintf("Adopted warm pool Sandbox \"%s\"", member->name);
	struct write w = {
		.name = CLAIM_WRITE_ADOPT,
		.to = ref_of(member),
		.event = claim_event(p, claim, "SandboxAdopted", "Adoption", text),
	};
	struct note *note = notes_need(p->own, claim, p->now);
	struct member *m = index_member(p->c->index, member->ns, member->name);

	if (m)
		m->taken = true;
	free(note->reserved);
	note->reserved = xstrdup(member->name);
	w.to.sub = CLIENT_AT_ONCE; /* the Sandbox's own pass brings the status after, if need be */
	claim_counts(&w, tally_adopted(claim, member));
	tell(p, "SandboxAdopted", member->name);
	pass_patch(p, &w, take(plan->doc));
}

static void act_create(struct pass *p, const struct claim_seen *seen, struct claim_plan *plan)
{
	const struct object *claim = seen->claim;
	autofree char *text = xasprintf("Created Sandbox \"%s\"", claim->name);
	struct write w = {
		.name = CLAIM_WRITE_CREATE,
		.to = { p->c->kinds.sandbox, claim->ns, claim->name },
		.event = claim_event(p, claim, "SandboxProvisioned", "Provisioning", text),
	};

	claim_counts(&w, tally_created(claim, seen->template));
	tell(p, "SandboxCreated", claim->name);
	pass_create(p, &w, take(plan->doc));
}

/* In line until the next member of its pool gets an address. */
static void act_wait(struct pass *p, const struct claim_seen *seen)
{
	struct note *note = notes_need(p->own, seen->claim, p->now);
	struct roster *r = index_roster(p->c->index, seen->pool->ns, seen->pool->name);

	roster_wait(r, &note->waiter);
}

static void act_unassign(struct pass *p, const struct object *claim, struct claim_plan *plan)
{
	const struct write w = { .name = CLAIM_WRITE_UNASSIGN,
				 .to = ref_of(claim),
				 .what = "reference cleanup failed",
				 .flags = WRITE_GONE_OK };

	pass_patch(p, &w, take(plan->doc));
}

static void act_follow(struct pass *p, struct claim_plan *plan)
{
	const struct write w = { .name = CLAIM_WRITE_FOLLOW,
				 .to = ref_of(plan->sandbox),
				 .what = "failed to update sandbox metadata",
				 .flags = WRITE_GONE_OK };

	if (plan->doc)
		pass_patch(p, &w, take(plan->doc));
}

static void act_clean_up(struct pass *p, const struct object *sandbox)
{
	const struct client_delete_spec spec = { .uid = sandbox->uid, .grace_s = -1 };
	const struct write w = { .name = CLAIM_WRITE_CLEAN_UP,
				 .to = ref_of(sandbox),
				 .flags = WRITE_GONE_OK };

	pass_delete(p, &w, &spec);
}

static void act_delete(struct pass *p, const struct object *claim)
{
	const struct claim_view *v = claim_view(claim);
	autofree char *text = xasprintf("Deleting Claim (ShutdownPolicy=%s)", v->shutdown_policy);
	bool foreground = v->on_shutdown == CLAIM_DELETE_FOREGROUND;
	const struct client_delete_spec spec = { .uid = claim->uid,
						 .propagation = foreground ? "Foreground" : NULL,
						 .grace_s = -1 };
	const struct write w = { .name = CLAIM_WRITE_DELETE,
				 .to = ref_of(claim),
				 .event = claim_event(p, claim, "ClaimExpired", "Deleting", text),
				 .flags = WRITE_GONE_OK };

	pass_delete(p, &w, &spec);
}

static void act_drop_policy(struct pass *p, const struct object *policy)
{
	const struct write w = { .name = CLAIM_WRITE_LEGACY_POLICY,
				 .to = ref_of(policy),
				 .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };

	if (pass_rests(p, CLAIM_WRITE_LEGACY_POLICY))
		log_warn("cannot delete a claim's old network policy, leaving it",
			 KV("policy", policy->name), KV("namespace", policy->ns),
			 KV("err", p->out[CLAIM_WRITE_LEGACY_POLICY].e));
	else
		pass_delete_uid(p, &w, policy->uid);
}

static void act_step(struct pass *p, const struct claim_seen *seen, struct claim_plan *plan)
{
	switch (plan->step) {
	case CLAIM_STEP_NONE:
	case CLAIM_STEP_REPORT:
	case CLAIM_STEP_EXPIRE:
		break;
	case CLAIM_STEP_ADOPT:
		act_adopt(p, seen->claim, plan);
		break;
	case CLAIM_STEP_CREATE:
		act_create(p, seen, plan);
		break;
	case CLAIM_STEP_WAIT:
		act_wait(p, seen);
		break;
	case CLAIM_STEP_UNASSIGN:
		act_unassign(p, seen->claim, plan);
		break;
	case CLAIM_STEP_FOLLOW:
		act_follow(p, plan);
		break;
	case CLAIM_STEP_CLEAN_UP:
		act_clean_up(p, plan->sandbox);
		break;
	case CLAIM_STEP_DELETE:
		act_delete(p, seen->claim);
		break;
	}
}

void claim_act(struct pass *p, const struct claim_seen *seen, struct claim_plan *plan)
{
	struct note *note = notes_get(p->own, seen->claim->uid);
	bool called = note && note->waiter.called;

	if (note) {
		note->conflicts = plan->conflicts;
		waiter_leave(&note->waiter);
	}
	if (called && plan->step != CLAIM_STEP_ADOPT && plan->step != CLAIM_STEP_WAIT)
		claim_pass_on(p->c, seen->claim);
	if (plan->drop_policy)
		act_drop_policy(p, seen->legacy_policy);
	act_step(p, seen, plan);
}
