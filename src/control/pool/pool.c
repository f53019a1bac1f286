/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pool/pool.h"

#include "api/view_pool.h"
#include "base/mem.h"
#include "base/random.h"
#include "control/index/index.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/event.h"
#include "control/pass/keys.h"
#include "control/pool/pool_priv.h"

/*
 * A pass over a pool, its writes and its report (docs/reference/agent-sandbox.md §5.4).
 */

/* The revision guards against a claim that has just taken the member. */
static void remove_members(struct pass *p, const struct chosen *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct object *sb = c->v[i];
		const struct client_delete_spec spec = { .uid = sb->uid,
							 .rev = sb->rev,
							 .grace_s = -1 };
		const struct write w = { .name = POOL_WRITE_REMOVE_MEMBER,
					 .to = ref_of(sb),
					 .what = "delete member",
					 .flags = WRITE_GONE_OK };

		pass_delete(p, &w, &spec);
	}
}

static void patch_members(struct pass *p, const struct chosen *c, const struct object *pool)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct write w = { .name = POOL_WRITE_PATCH_MEMBER,
					 .to = ref_of(c->v[i]),
					 .what = "patch member",
					 .flags = WRITE_GONE_OK };

		pass_patch(p, &w, member_patch(c->v[i], pool));
	}
}

static void create_members(struct pass *p, const struct pool_seen *seen, uint64_t n)
{
	const struct write w = { .name = POOL_WRITE_CREATE_MEMBER,
				 .to = { p->c->kinds.sandbox, seen->pool->ns },
				 .what = "create member" };
	const struct roster *r = seen->roster;

	/* One that is refused at once speaks for the others: a quota is used up. */
	for (uint64_t i = 0; i < n && !p->item->outcomes[POOL_WRITE_CREATE_MEMBER].n_failed; i++)
		pass_create(
			p, &w,
			member_build(seen->pool, seen->template, r->blueprint_hash, r->pod_hash));
}

static char *stalled_text(const struct pool_seen *seen, const struct pool_plan *plan)
{
	unsigned long long grace_s = seen->grace_ms / 1000;

	if (!seen->template)
		return xasprintf("SandboxTemplate \"%s\" not found; no sandboxes are made until "
				 "it exists",
				 pool_view(seen->pool)->template);
	return xasprintf("%llu/%lld sandboxes are unschedulable past the %llum%llus readiness "
			 "grace period; holding them instead of replacing (replacements would be "
			 "equally unschedulable)",
			 (unsigned long long)plan->counts.unschedulable, (long long)seen->desired,
			 grace_s / 60, grace_s % 60);
}

static void tell_progress(struct pass *p, const struct pool_seen *seen,
			  const struct pool_plan *plan)
{
	autofree char *note = NULL;
	struct event_spec spec = { seen->pool,    WHO_POOL,
				   "Normal",      "WarmPoolProgressing",
				   "Reconciling", "Warm pool is progressing again" };

	if (plan->memory.stalled == seen->memory.stalled)
		return;
	if (plan->memory.stalled) {
		note = stalled_text(seen, plan);
		spec.type = "Warning";
		spec.reason = "WarmPoolNotProgressing";
		spec.note = note;
	}
	event_send(p->c, event_build(&spec, p->now));
}

/* A write changes the roster, so what is noted about members comes first. */
static void act(struct pass *p, const struct pool_seen *seen, const struct pool_plan *plan)
{
	for (size_t i = 0; i < plan->n_fine; i++)
		member_is_fine(plan->fine[i]);
	seen->roster->memory = plan->memory;
	remove_members(p, &plan->remove);
	patch_members(p, &plan->relabel, NULL);
	patch_members(p, &plan->adopt, seen->pool);
	tell_progress(p, seen, plan);
	create_members(p, seen, plan->create);
	remove_members(p, &plan->trim);
}

/*
 * Writes the status if it has differed for a while: a claim and its refill often leave it as it
 * was, and what many members change is one write. A new generation is acknowledged at once.
 * Returns when to look again; 0: no need.
 */
static uint64_t write_status(struct pass *p, const struct pool_seen *seen,
			     const struct pool_plan *plan)
{
	struct write w = { .name = POOL_WRITE_STATUS,
			   .to = ref_of(seen->pool),
			   .flags = WRITE_QUIET };
	autoptr(json_doc) want = pool_status(seen->pool, plan->counts.active, plan->counts.ready);
	autoptr(json_doc) patch = draft_status_patch(seen->pool, json_root(want));
	usec *differs = &seen->roster->status_differs, since;

	if (!patch) {
		*differs = 0;
		return 0;
	}
	if (!*differs || *differs > p->now)
		*differs = p->now;
	since = p->now - *differs;
	if (!json_at_path(json_root(patch), "status.observedGeneration") &&
	    since < STATUS_AFTER_MS * 1000)
		return (uint64_t)(STATUS_AFTER_MS - since / 1000);
	w.to.sub = "status";
	*differs = 0;
	pass_patch(p, &w, take(patch));
	return 0;
}

static uint64_t with_jitter(uint64_t ms)
{
	return ms + (ms > 1 ? random_u64() % (ms / 2 + 1) : 0);
}

/* Once, until members can be made again. e may be NULL. */
static void tell_refusal(struct pass *p, const struct pool_seen *seen, const struct err *e)
{
	bool refused = err_is(e, ERR_FORBIDDEN);
	const struct event_spec spec = { seen->pool,     WHO_POOL,      "Warning",
					 "FailedCreate", "Reconciling", e ? err_text(e) : "" };

	if (refused && !seen->roster->refused)
		event_send(p->c, event_build(&spec, p->now));
	seen->roster->refused = refused;
}

/* For a pass that started no write. */
static struct again report(struct pass *p, const struct pool_seen *seen,
			   const struct pool_plan *plan)
{
	struct err *e = pass_take_error(p);
	uint64_t again_ms = plan->spread ? with_jitter(plan->again_ms) : plan->again_ms;
	uint64_t status_ms;

	tell_refusal(p, seen, e);
	status_ms = write_status(p, seen, plan); /* what there is, is told in any case */
	if (e)
		return again_retry(e);
	if (status_ms && (!again_ms || status_ms < again_ms))
		again_ms = status_ms;
	return again_ms ? again_after(again_ms) : again_never();
}

struct again pool_reconcile(struct pass *p)
{
	struct pool_seen seen = { 0 };
	struct again again = again_never();

	if (pool_observe(p, &seen)) {
		struct pool_plan plan = pool_decide(&seen);

		act(p, &seen, &plan);
		again = p->started ? again_wait() : report(p, &seen, &plan);
		pool_plan_done(&plan);
	}
	pool_seen_done(&seen);
	return again;
}
