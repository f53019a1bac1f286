/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/mem.h"
#include "control/pool/pool_priv.h"

/*
 * The policy of warm pools (docs/reference/agent-sandbox.md §5.4): which members to give up on,
 * how many to make or remove, and when. All of it is pure: the same observations give the same
 * plan.
 *
 * Creates go in rounds of 1, 2, 4, 8 and so on; a round that fails starts the count over.
 */

static void choose(struct chosen *c, struct object *o)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 8;
		c->v = xrealloc(c->v, c->cap * sizeof(*c->v));
	}
	c->v[c->n++] = o;
}

void pool_plan_done(struct pool_plan *plan)
{
	free(plan->remove.v);
	free(plan->relabel.v);
	free(plan->adopt.v);
	free(plan->trim.v);
	free(plan->fine);
}

static uint64_t sooner(uint64_t a, uint64_t b) /* 0 is never */
{
	return !a ? b : !b ? a : MIN(a, b);
}

/* How many may be made now. However many a pool asks for, the number of members that are not Ready
 * is limited. */
static uint64_t room(const struct pool_counts *c)
{
	uint64_t pending = c->active - MIN(c->ready, c->active) + c->terminating;
	uint64_t limit = MAX(MIN(c->max_batch, c->burst), (uint64_t)1);

	return pending >= PENDING_MAX ? 0 : MIN(limit, PENDING_MAX - pending);
}

struct pool_scale pool_scale(const struct pool_counts *c)
{
	uint64_t want = c->desired > 0 ? (uint64_t)c->desired : 0;
	uint64_t total = c->active + c->terminating + (uint64_t)c->lent;
	struct pool_scale plan = { .again_ms = c->grace_left_ms };

	if (c->refill_off)
		; /* members go, and none come */
	else if (c->template_found && total < want && c->rest_left_ms)
		plan.again_ms = sooner(plan.again_ms, c->rest_left_ms);
	else if (c->template_found && total < want)
		plan.create = MIN(want - total, room(c));
	if (c->active > want)
		plan.remove = MIN(c->active - want, c->max_batch);
	plan.stalled = c->unschedulable || (!c->template_found && want);
	if (plan.stalled)
		plan.again_ms = sooner(plan.again_ms, c->recheck_ms);
	return plan;
}

enum fate member_fate(const struct member_seen *m, uint64_t grace_ms, bool recreate)
{
	if (m->deleting)
		return FATE_TERMINATING;
	if (recreate && m->stale)
		return FATE_STALE;
	if (m->ready)
		return FATE_ACTIVE;
	if (m->age <= (usec)grace_ms * 1000)
		return FATE_YOUNG;
	return m->unplaceable ? FATE_HELD : FATE_STUCK;
}

/* How long until its time to become Ready is up. */
static void count_young(const struct pool_seen *seen, const struct member_seen *m,
			struct pool_counts *c)
{
	usec left = (usec)seen->grace_ms * 1000 - m->age;

	c->grace_left_ms =
		sooner(c->grace_left_ms, (uint64_t)MAX(left, (usec)0) / 1000 + GRACE_SLACK_MS);
}

static void decide_member(const struct pool_seen *seen, const struct member_seen *m,
			  struct pool_plan *plan)
{
	enum fate fate = member_fate(m, seen->grace_ms, seen->recreate);
	struct pool_counts *c = &plan->counts;

	if (fate == FATE_TERMINATING || fate == FATE_STALE || fate == FATE_STUCK) {
		c->terminating++;
		if (fate != FATE_TERMINATING && !m->taken)
			choose(&plan->remove, m->sandbox);
		return;
	}
	c->active++;
	c->ready += fate == FATE_ACTIVE;
	c->unschedulable += fate == FATE_HELD;
	if (fate == FATE_YOUNG)
		count_young(seen, m, c);
	if (fate == FATE_ACTIVE && m->warm)
		plan->fine[plan->n_fine++] = m->member;
	else if (!m->warm && !m->taken)
		choose(&plan->relabel, m->sandbox);
}

static void decide_members(const struct pool_seen *seen, struct pool_plan *plan)
{
	plan->counts.active = plan->counts.ready = seen->n_fine;
	plan->fine = xnew_n(struct member *, seen->n_members + 1);
	for (size_t i = 0; i < seen->n_members; i++)
		decide_member(seen, &seen->members[i], plan);
	for (size_t i = 0; i < seen->n_orphans; i++) {
		const struct orphan_seen *o = &seen->orphans[i];

		if (!o->deleting)
			choose(o->stale ? &plan->remove : &plan->adopt, o->sandbox);
	}
}

/* A round that went well doubles the next; one that did not starts over. */
static void decide_pace(const struct pool_seen *seen, struct pool_memory *m)
{
	if (seen->n_not_created)
		m->burst = 1;
	else if (seen->n_created && m->burst < seen->max_batch)
		m->burst = MAX(m->burst, 1u) * 2;
}

/*
 * A claim comes before the refill that it causes: after a member was taken, creates wait a moment,
 * and a little longer with each further one, so that a burst of claims does not compete with as
 * many cold starts. The wait is bounded, and a pool that runs low does not wait at all: a claim
 * that finds members on their way waits for them.
 */
static uint64_t decide_rest(const struct pool_seen *seen, uint64_t active, struct pool_memory *m)
{
	usec rest = (usec)seen->rest_ms * 1000, now = seen->now;

	if (active < m->was_active && seen->desired >= (int64_t)m->was_active) {
		if (!m->rest_from)
			m->rest_from = now;
		m->rest_until = MIN(now + rest, m->rest_from + REST_MAX * rest);
	}
	m->was_active = active;
	if (m->rest_until > now && (int64_t)active * REST_LOW > seen->desired)
		return (uint64_t)(m->rest_until - now) / 1000 + 1;
	m->rest_from = m->rest_until = 0;
	return 0;
}

/* Members that are not Ready are removed first, then the newest. */
static int by_worth(const void *x, const void *y)
{
	const struct spare_seen *a = x, *b = y;

	if (a->ready != b->ready)
		return a->ready ? 1 : -1;
	if (a->created != b->created)
		return a->created > b->created ? -1 : 1;
	return a->seq > b->seq ? -1 : a->seq < b->seq;
}

static void decide_trim(const struct pool_seen *seen, uint64_t n, struct pool_plan *plan)
{
	autofree struct spare_seen *all = NULL;

	if (!n || !seen->n_spares)
		return;
	all = xnew_n(struct spare_seen, seen->n_spares);
	memcpy(all, seen->spares, seen->n_spares * sizeof(*all));
	qsort(all, seen->n_spares, sizeof(*all), by_worth);
	for (size_t i = 0; i < seen->n_spares && i < n; i++)
		choose(&plan->trim, all[i].sandbox);
}

static void decide_scale(const struct pool_seen *seen, struct pool_plan *plan)
{
	struct pool_counts *c = &plan->counts;
	struct pool_scale scale;

	decide_pace(seen, &plan->memory);
	c->burst = plan->memory.burst;
	c->rest_left_ms = decide_rest(seen, c->active, &plan->memory);
	scale = pool_scale(c);
	plan->create = scale.create;
	decide_trim(seen, scale.remove, plan);
	plan->again_ms = scale.again_ms;
	plan->spread = scale.again_ms && scale.again_ms == c->grace_left_ms;
	plan->memory.stalled = scale.stalled;
	if (!plan->create)
		plan->memory.burst = 1;
}

struct pool_plan pool_decide(const struct pool_seen *seen)
{
	struct pool_plan plan = { .memory = seen->memory,
				  .counts = { .desired = seen->desired,
					      .template_found = seen->template,
					      .refill_off = seen->refill_off,
					      .lent = seen->n_lent,
					      .max_batch = seen->max_batch,
					      .recheck_ms = seen->recheck_ms } };

	decide_members(seen, &plan);
	if ((plan.remove.n && !seen->remove_rests) ||
	    (plan.relabel.n + plan.adopt.n && !seen->patch_rests))
		return plan; /* numbers are right once these writes have ended */
	decide_scale(seen, &plan);
	return plan;
}
