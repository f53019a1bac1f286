/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/meta.h"
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/index/index.h"
#include "control/pass/context.h"
#include "control/pool/pool_priv.h"
#include "control/template/blueprint.h"

/*
 * What a pass over a pool looks at: the members that changed or are not Ready. The others are only
 * counted, so that a pool of two thousand does not cost two thousand looks for each claim.
 */

static void hash_template(struct roster *r, const struct object *template)
{
	if (r->hashed_rev == template->rev)
		return;
	blueprint_hash(template, r->blueprint_hash);
	blueprint_pod_hash(template, r->pod_hash);
	r->hashed_rev = template->rev;
}

static bool is_stale(const struct pool_seen *seen, struct member *m)
{
	if (m->judged_rev != seen->template->rev) {
		m->stale = blueprint_stale(seen->template, seen->roster->blueprint_hash, m->sandbox,
					   true);
		m->judged_rev = seen->template->rev;
	}
	return m->stale;
}

/*
 * How long it has had to become Ready: since its creation; but if that was stamped by a clock
 * behind ours, not so long that it is given up as soon as it exists.
 */
static usec age_of(const struct pool_seen *seen, struct member *m)
{
	uint64_t credit_ms = seen->grace_ms - MIN(seen->grace_ms, (uint64_t)SETTLE_MS);

	if (!m->seen_at)
		m->seen_at = seen->now;
	return seen->now - MAX(m->v->created, m->seen_at - (usec)credit_ms * 1000);
}

bool pod_unplaceable(const struct object *pod)
{
	static const char *const reasons[] = { "Unschedulable", "SchedulingGated", NULL };
	struct condition_view c;

	if (!pod || object_deleting(pod))
		return false;
	c = condition_view_of(json_get(object_status(pod), "conditions"), "PodScheduled");
	return str_eq(c.status, "False") && str_in(c.reason, reasons);
}

static bool is_unplaceable(struct pass *p, const struct member *m)
{
	autoptr(object) pod =
		client_get(p->c->client, p->c->kinds.pod, m->sandbox->ns, m->v->pod_name);

	return pod_unplaceable(pod);
}

static struct member_seen see_member(struct pass *p, const struct pool_seen *seen, struct member *m)
{
	struct member_seen s = { .sandbox = object_ref(m->sandbox),
				 .member = m,
				 .deleting = m->v->deleting,
				 .ready = m->v->ready.is_true,
				 .warm = m->v->warm,
				 .taken = m->taken,
				 .age = age_of(seen, m) };

	if (seen->recreate && seen->template && !s.deleting)
		s.stale = is_stale(seen, m);
	if (!s.ready && s.age > (usec)seen->grace_ms * 1000)
		s.unplaceable = is_unplaceable(p, m);
	return s;
}

static bool belongs(const struct pool_seen *seen, const struct member *m, const char *hash)
{
	return str_eq(m->v->owner.uid, seen->pool->uid) && str_eq(m->v->pool_hash, hash);
}

/* Members that were fine stay fine until they or the template change. */
static void see_members(struct pass *p, struct pool_seen *seen, const char *hash)
{
	uint64_t rev = seen->recreate && seen->template ? seen->template->rev : 1;
	struct roster *r = seen->roster;
	struct member *m;

	if (r->fine_for != rev || !str_eq(r->fine_uid, seen->pool->uid)) {
		roster_doubt_all(r);
		r->fine_for = rev;
		free(r->fine_uid);
		r->fine_uid = xstrdup(seen->pool->uid);
	}
	seen->n_fine = r->n_fine;
	seen->members = xnew_n(struct member_seen, r->n_members - r->n_fine + 1);
	list_each(m, &r->odd, odd_link)
		if (belongs(seen, m, hash))
			seen->members[seen->n_members++] = see_member(p, seen, m);
}

static void see_orphans(struct pass *p, struct pool_seen *seen, const char *hash)
{
	const struct map *orphans = index_orphans_of(p->c->index, seen->pool->ns, hash);

	if (!orphans)
		return;
	seen->orphans = xnew_n(struct orphan_seen, map_len(orphans));
	map_each(it, orphans) {
		struct object *sb = it.value;

		seen->orphans[seen->n_orphans++] = (struct orphan_seen){
			.sandbox = object_ref(sb),
			.deleting = object_deleting(sb),
			.stale = seen->template &&
				 blueprint_stale(seen->template, seen->roster->blueprint_hash, sb,
						 true),
		};
	}
}

static void see_spares(struct pool_seen *seen, const char *hash)
{
	struct roster *r = seen->roster;
	struct member *m;

	if ((int64_t)r->n_members <= seen->desired)
		return;
	seen->spares = xnew_n(struct spare_seen, r->n_members);
	list_each(m, &r->members, link)
		if (!m->v->deleting && !m->taken && belongs(seen, m, hash))
			seen->spares[seen->n_spares++] =
				(struct spare_seen){ object_ref(m->sandbox), m->v->ready.is_true,
						     m->v->created, m->seq };
}

static void see_settings(struct pass *p, struct pool_seen *seen)
{
	const struct control_options *opt = &p->c->opt;
	const struct outcome *created = &p->out[POOL_WRITE_CREATE_MEMBER];

	seen->memory = seen->roster->memory;
	seen->n_created = created->n_ok;
	seen->n_not_created = created->n_failed;
	seen->patch_rests = pass_rests(p, POOL_WRITE_PATCH_MEMBER);
	seen->remove_rests = pass_rests(p, POOL_WRITE_REMOVE_MEMBER);
	seen->max_batch = opt->pool_max_batch;
	seen->recheck_ms = opt->pool_recheck_ms;
	seen->grace_ms = opt->pool_grace_ms;
	seen->rest_ms = opt->pool_rest_ms;
	seen->now = p->now;
}

bool pool_observe(struct pass *p, struct pool_seen *seen)
{
	struct context *c = p->c;
	const struct pool_view *v;
	char hash[9];

	seen->pool = client_get(c->client, c->kinds.pool, p->key->ns, p->key->name);
	if (!seen->pool || object_deleting(seen->pool))
		return false;
	v = pool_view(seen->pool);
	seen->desired = v->replicas;
	seen->recreate = v->recreate;
	seen->refill_off = v->refill == POOL_REFILL_OFF;
	seen->roster = index_roster(c->index, p->key->ns, p->key->name);
	seen->n_lent = (int64_t)map_len(seen->roster->returning);
	if (v->refill == POOL_REFILL_RETURNED)
		seen->n_lent += index_lent_by(c->index, p->key->ns, p->key->name);
	seen->template = client_get(c->client, c->kinds.template, p->key->ns, v->template);
	if (seen->template)
		hash_template(seen->roster, seen->template);
	name_hash(p->key->name, hash);
	see_settings(p, seen);
	see_members(p, seen, hash);
	see_orphans(p, seen, hash);
	see_spares(seen, hash);
	return true;
}

void pool_seen_done(struct pool_seen *seen)
{
	for (size_t i = 0; i < seen->n_members; i++)
		object_unref(seen->members[i].sandbox);
	for (size_t i = 0; i < seen->n_orphans; i++)
		object_unref(seen->orphans[i].sandbox);
	for (size_t i = 0; i < seen->n_spares; i++)
		object_unref(seen->spares[i].sandbox);
	free(seen->members);
	free(seen->orphans);
	free(seen->spares);
	object_unref(seen->template);
	object_unref(seen->pool);
}
