/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/agents.h"
#include "api/object.h"
#include "api/view_claim.h"
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "client/client.h"
#include "control/claim/claim.h"
#include "control/claim/note.h"
#include "control/control_priv.h"
#include "control/idle/idle.h"
#include "control/index/index.h"
#include "control/pace/pace.h"
#include "control/pass/item.h"
#include "control/pass/pass.h"
#include "control/reset/reset.h"
#include "control/sandbox/sandbox.h"

/*
 * The watches, and which keys a change wakes. A watch event only updates the index and queues keys;
 * their passes run later in the same turn of the loop. No pass runs before every watch has
 * delivered what existed.
 */
enum {
	POOL_LATER_MS = 10,
	BEHIND_MS = 1000,
};

/* Wakes the controller of o's owner, if that is of the given sort. */
static void wake_owner(struct control *c, const struct object *o, enum owner_type type,
		       enum control_kind kind)
{
	struct owner_view owner = { 0 };

	if (o)
		owner = owner_view_of(o);
	if (owner.type == type)
		item_wake(c->ctx.queue, kind, o->ns, owner.name);
}

/* A claim took the Sandbox from its pool. */
static bool was_adopted(const struct object *was, const struct object *now)
{
	return was && now && sandbox_view(was)->owner.type == OWNER_POOL &&
	       sandbox_view(now)->owner.type == OWNER_CLAIM;
}

/* A claim comes before what follows from it, and one pass of the pool does for many claims. o is
 * was or now. */
static void wake_sandbox_owner(struct control *c, const struct object *o, const struct object *was,
			       const struct object *now)
{
	const struct owner_view *owner = o ? &sandbox_view(o)->owner : NULL;

	if (owner && owner->type == OWNER_POOL && was_adopted(was, now))
		item_wake_later(c->ctx.queue, &(struct key){ CONTROL_POOL, o->ns, owner->name },
				POOL_LATER_MS);
	else if (owner && owner->type == OWNER_POOL)
		item_wake(c->ctx.queue, CONTROL_POOL, o->ns, owner->name);
	else if (owner && owner->type == OWNER_CLAIM && claim_cares(was, now))
		item_wake(c->ctx.queue, CONTROL_CLAIM, o->ns, owner->name);
}

/* What an adoption leaves to the Sandbox's own pass is mostly for others to read, so it has the
 * time that upstream's write-behind window gives it; a claim that ends sooner never costs it. Vary
 * the time, so that a burst of claims does not come back as one of writes. */
static void wake_sandbox(struct control *c, const struct object *was, const struct object *now)
{
	if (!now || (was && pass_tells(&c->ctx, CONTROL_SANDBOX, now)))
		return;
	if (was_adopted(was, now) && sandbox_can_wait(was, now))
		item_wake_later(c->ctx.queue, &(struct key){ CONTROL_SANDBOX, now->ns, now->name },
				BEHIND_MS / 2 + random_u64() % (BEHIND_MS / 2));
	else
		item_wake(c->ctx.queue, CONTROL_SANDBOX, now->ns, now->name);
}

/* Of the Sandboxes that an object controls. */
static void wake_idle_of(struct control *c, const struct object *claim)
{
	map_each(it, index_sandboxes_of(c->ctx.index, claim->uid))
		item_wake(c->ctx.chores, CONTROL_IDLE, claim->ns,
			  ((const struct object *)it.value)->name);
}

static void wake_idle_of_pool(struct control *c, const struct object *pool)
{
	map_each(it, index_claims_of(c->ctx.index, pool->ns, pool->name))
		wake_idle_of(c, it.value);
}

static void wake_idle(struct control *c, const struct object *was, const struct object *now)
{
	if (was && !now)
		idle_forget(c->idle, was);
	else if (idle_cares(c->idle, was, now))
		item_wake(c->ctx.chores, CONTROL_IDLE, now->ns, now->name);
}

/* What goes back, and the pool that counts on it. */
static void wake_reset(struct control *c, const struct object *was, const struct object *now)
{
	const char *lent = was ? sandbox_view(was)->lent_by : NULL;

	if (reset_cares(now))
		item_wake(c->ctx.chores, CONTROL_RESET, now->ns, now->name);
	if (lent && !now)
		item_wake(c->ctx.queue, CONTROL_POOL, was->ns, lent);
}

/* A Sandbox that is being wiped waits for the end of what it had. */
static void wake_reset_of(struct control *c, const struct object *gone)
{
	struct owner_view owner = owner_view_of(gone);
	autoptr(object) sandbox = NULL;

	if (owner.type == OWNER_SANDBOX)
		sandbox = client_get(c->ctx.client, c->ctx.kinds.sandbox, gone->ns, owner.name);
	if (sandbox && reset_cares(sandbox))
		item_wake(c->ctx.chores, CONTROL_RESET, sandbox->ns, sandbox->name);
}

/* For those who show them. */
static void count_sandbox(struct control *c, const struct object *was, const struct object *now)
{
	struct roster *r = NULL;

	c->n_changes++;
	c->n_running -= was && sandbox_view(was)->ready.is_true;
	c->n_running += now && sandbox_view(now)->ready.is_true;
	if (was_adopted(was, now))
		r = index_find_roster(c->ctx.index, was->ns, sandbox_view(was)->owner.name);
	if (r)
		r->claimed++;
}

static void sandbox_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct roster *roster = NULL;

	count_sandbox(c, was, now);
	if (index_sandbox(c->ctx.index, was, now, &roster))
		claim_call(&c->ctx, roster);
	wake_sandbox(c, was, now);
	wake_idle(c, was, now);
	wake_reset(c, was, now);
	wake_sandbox_owner(c, was, was, now);
	wake_sandbox_owner(c, now, was, now);
	agents_sandbox_changed(c, was, now);
}

static void wake_sandboxes_of(struct control *c, struct object *was, struct object *now)
{
	wake_owner(c, was, OWNER_SANDBOX, CONTROL_SANDBOX);
	wake_owner(c, now, OWNER_SANDBOX, CONTROL_SANDBOX);
	if (!now)
		wake_reset_of(c, was);
}

static void pod_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;

	index_pod(c->ctx.index, was, now);
	wake_sandboxes_of(c, was, now);
}

static void service_changed(void *arg, struct object *was, struct object *now)
{
	wake_sandboxes_of(arg, was, now);
}

/* Read by Sandbox passes, but a change of one wakes none (docs/reference/agent-sandbox.md §3.5). */
static void pvc_changed(void *arg, struct object *was, struct object *now)
{
	if (!now)
		wake_reset_of(arg, was);
}

static void queue_claims(struct control *c, const char *ns, const char *pool, bool bound_too)
{
	map_each(it, index_claims_of(c->ctx.index, ns, pool)) {
		const struct object *claim = it.value;
		const struct claim_view *v = claim_view(claim);

		if (!v->deleting && (bound_too || !v->sandbox))
			item_wake(c->ctx.queue, CONTROL_CLAIM, claim->ns, claim->name);
	}
}

static void pool_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;

	assert(any);
	c->n_changes++;
	index_pool(c->ctx.index, was, now);
	if (!was || !now || !pass_tells(&c->ctx, CONTROL_POOL, now))
		item_wake(c->ctx.queue, CONTROL_POOL, any->ns, any->name);
	if (!was || !now || pool_view(was)->generation != pool_view(now)->generation) {
		queue_claims(c, any->ns, any->name, false);
		agents_pool_changed(c, any->ns, any->name);
	}
	if (idle_policy_differs(was, now))
		wake_idle_of_pool(c, any);
}

static void template_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;
	autofree char *shadow = now && !was ? xasprintf(SHADOW_POOL "%s", now->name) : NULL;

	item_wake(c->ctx.queue, CONTROL_TEMPLATE, any->ns, any->name);
	if (shadow) /* claims that name the template itself */
		queue_claims(c, any->ns, shadow, false);
	map_each(it, index_pools_of(c->ctx.index, any->ns, any->name)) {
		const struct object *pool = it.value;

		item_wake(c->ctx.queue, CONTROL_POOL, pool->ns, pool->name);
		agents_pool_changed(c, pool->ns, pool->name);
		if (!was)
			queue_claims(c, pool->ns, pool->name, true);
		if (idle_policy_differs(was, now))
			wake_idle_of_pool(c, pool);
	}
}

static void tell_pace(struct control *c, const struct object *claim)
{
	struct roster *r = index_find_roster(c->ctx.index, claim->ns, claim_view(claim)->pool);

	pace_claim(c->pace, r && roster_low(r));
}

static void claim_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;

	assert(was || now);
	c->n_changes++;
	index_claim(c->ctx.index, was, now);
	if (was && now && idle_policy_differs(was, now))
		wake_idle_of(c, now);
	if (was && (!now || !str_eq(was->uid, now->uid)))
		claim_forget(c->notes, &c->ctx, was);
	if (!was && c->n_synced == c->n_watches)
		tell_pace(c, now);
	if (now && !(was && pass_tells(&c->ctx, CONTROL_CLAIM, now)))
		item_wake(c->ctx.queue, CONTROL_CLAIM, now->ns, now->name);
	agents_claim_changed(c, was, now);
}

static void policy_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;

	wake_owner(c, was, OWNER_TEMPLATE, CONTROL_TEMPLATE);
	wake_owner(c, now, OWNER_TEMPLATE, CONTROL_TEMPLATE);
}

static void one_synced(void *arg)
{
	struct control *c = arg;

	if (++c->n_synced < c->n_watches)
		return;
	queue_open(c->ctx.queue);
	if (!c->ctx.opt.cluster_services)
		queue_open(c->ctx.chores); /* nothing else holds it up */
}

static void (*const changed[WATCH_MAX_])(void *arg, struct object *was, struct object *now) = {
	[WATCH_TEMPLATES] = template_changed, [WATCH_POOLS] = pool_changed,
	[WATCH_CLAIMS] = claim_changed,       [WATCH_PODS] = pod_changed,
	[WATCH_SERVICES] = service_changed,   [WATCH_PVCS] = pvc_changed,
	[WATCH_POLICIES] = policy_changed,    [WATCH_SANDBOXES] = sandbox_changed,
	[WATCH_AGENTS] = agent_changed,       [WATCH_TEAM_POLICIES] = team_policy_changed,
	[WATCH_SESSIONS] = session_changed,   [WATCH_ATTACHMENTS] = attachment_changed,
	[WATCH_APPROVALS] = approval_changed, [WATCH_BUDGETS] = budget_changed,
	[WATCH_LEDGERS] = ledger_changed,
};

static bool is_wanted(const struct control *c, size_t watch)
{
	if (watch == WATCH_LEDGERS) /* they are written where something is measured */
		return c->ctx.opt.agents && c->ctx.opt.access;
	return c->ctx.opt.agents || watch < WATCH_TEAM_POLICIES || watch > WATCH_LEDGERS;
}

/* Kinds that others are looked up by come first; Sandboxes last, so that their owners are known. */
void control_watch(struct control *c)
{
	const struct kind *const kinds[WATCH_MAX_] = {
		[WATCH_TEMPLATES] = c->ctx.kinds.template,
		[WATCH_POOLS] = c->ctx.kinds.pool,
		[WATCH_CLAIMS] = c->ctx.kinds.claim,
		[WATCH_PODS] = c->ctx.kinds.pod,
		[WATCH_SERVICES] = c->ctx.kinds.service,
		[WATCH_PVCS] = c->ctx.kinds.pvc,
		[WATCH_POLICIES] = c->ctx.kinds.policy,
		[WATCH_SANDBOXES] = c->ctx.kinds.sandbox,
		[WATCH_AGENTS] = c->ctx.kinds.agent,
		[WATCH_TEAM_POLICIES] = c->ctx.kinds.team_policy,
		[WATCH_SESSIONS] = c->ctx.kinds.session,
		[WATCH_ATTACHMENTS] = c->ctx.kinds.attachment,
		[WATCH_APPROVALS] = c->ctx.kinds.approval,
		[WATCH_BUDGETS] = c->ctx.kinds.budget,
		[WATCH_LEDGERS] = c->ctx.kinds.ledger,
	};

	for (size_t i = 0; i < WATCH_MAX_; i++)
		c->n_watches += is_wanted(c, i);
	for (size_t i = 0; i < WATCH_MAX_; i++) {
		const struct client_watch_spec spec = { .kind = kinds[i] };
		const struct client_watch_events ev = { changed[i], one_synced };

		if (!is_wanted(c, i))
			continue;
		c->watches[i] = client_watch(c->ctx.client, &spec, &ev, c);
	}
}
