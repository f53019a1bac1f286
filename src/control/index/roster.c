/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/index/roster_priv.h"

/*
 * Pools and their members. A Sandbox is a member of the pool that controls it, and keeps its place
 * in the order however often it changes.
 */

void roster_drop(void *p)
{
	struct roster *r = p;

	while (!list_empty(&r->waiting))
		list_del(r->waiting.next);
	while (!list_empty(&r->called))
		list_del(r->called.next);
	map_free(r->nodes);
	map_free(r->returning);
	free(r->fine_uid);
	free(r->key);
	free(r);
}

struct roster *index_roster(struct index *ix, const char *ns, const char *pool)
{
	autofree char *key = xasprintf("%s/%s", ns, pool);
	struct roster *r = map_get(index_rosters(ix), key);

	if (r)
		return r;
	r = xnew(struct roster);
	list_init(&r->members);
	list_init(&r->ready);
	list_init(&r->waiting);
	list_init(&r->called);
	list_init(&r->odd);
	r->nodes = map_new(free);
	r->returning = map_new(NULL);
	r->key = xstrdup(key);
	map_put(index_rosters(ix), key, r);
	return r;
}

struct roster *index_find_roster(struct index *ix, const char *ns, const char *pool)
{
	autofree char *key = xasprintf("%s/%s", ns, pool);

	return map_get(index_rosters(ix), key);
}

void index_drop_roster(struct index *ix, const char *ns, const char *pool)
{
	autofree char *key = xasprintf("%s/%s", ns, pool);
	struct roster *r = map_get(index_rosters(ix), key);

	if (!r)
		return;
	r->wanted = false;
	r->desired = 0;
	r->memory.stalled = false;
	roster_note_dry(r);
	if (!r->n_members)
		(void)map_del(index_rosters(ix), key);
}

void roster_return_begins(struct roster *r, const char *name)
{
	map_put(r->returning, name, r);
}

void roster_return_ends(struct roster *r, const char *name)
{
	(void)map_del(r->returning, name);
}

static void member_leave(struct index *ix, const char *key, struct member *m)
{
	struct roster *r = m->roster;

	(void)map_del(index_members(ix), key);
	if (!r->n_members && !r->wanted)
		(void)map_del(index_rosters(ix), r->key);
}

struct member *index_member(struct index *ix, const char *ns, const char *name)
{
	autofree char *key = xasprintf("%s/%s", ns, name);

	return map_get(index_members(ix), key);
}

static void member_leave_node(struct member *m)
{
	if (m->node)
		m->node->n--;
	m->node = NULL;
}

static void member_join_node(struct member *m, const char *node)
{
	struct node_count *count;

	if (str_empty(node))
		return;
	count = map_get(m->roster->nodes, node);
	if (!count) {
		count = xnew(struct node_count);
		map_put(m->roster->nodes, node, count);
	}
	count->n++;
	m->node = count;
}

static void member_doubt(struct member *m)
{
	if (!list_empty(&m->odd_link))
		return;
	m->roster->n_fine--;
	list_add_tail(&m->roster->odd, &m->odd_link);
}

void member_is_fine(struct member *m)
{
	list_del(&m->odd_link);
	m->roster->n_fine++;
}

void roster_doubt_all(struct roster *r)
{
	struct member *m;

	list_each(m, &r->members, link)
		member_doubt(m);
}

size_t roster_waiting(const struct roster *r)
{
	const struct waiter *w;
	size_t n = 0;

	list_each(w, &r->waiting, link)
		n++;
	return n;
}

bool roster_dry(const struct roster *r)
{
	return r->wanted && r->desired > 0 && !r->n_ready;
}

usec roster_dry_time(const struct roster *r, usec mono)
{
	return r->dry_time + (r->dry_since ? mono - r->dry_since : 0);
}

void roster_note_dry(struct roster *r)
{
	bool dry = roster_dry(r);

	if (dry == !!r->dry_since)
		return;
	r->dry_time = roster_dry_time(r, clock_mono());
	r->dry_since = dry ? clock_mono() : 0;
	r->dry_times += dry;
}

static void leave_ready(struct member *m)
{
	if (list_empty(&m->ready_link))
		return;
	list_del(&m->ready_link);
	m->roster->n_ready--;
	roster_note_dry(m->roster);
}

bool roster_low(struct roster *r)
{
	int64_t quarters = r->low ? 3 : 2;

	r->low = (int64_t)r->n_ready * 4 < r->desired * quarters;
	return r->low;
}

void member_drop(void *p)
{
	struct member *m = p;

	member_doubt(m);
	list_del(&m->odd_link);
	member_leave_node(m);
	list_del(&m->link);
	leave_ready(m);
	m->roster->n_members--;
	object_unref(m->sandbox);
	free(m);
}

static bool older(const struct member *a, const struct member *b)
{
	return a->v->created != b->v->created ? a->v->created < b->v->created : a->seq < b->seq;
}

/* New members are nearly always the youngest, so the place is found from the end. */
static void member_line_up(struct member *m)
{
	struct list *at = m->roster->members.prev;

	while (at != &m->roster->members && older(m, list_item(at, struct member, link)))
		at = at->prev;
	list_add_head(at, &m->link);
}

static void member_line_up_ready(struct member *m)
{
	struct list *at = m->roster->ready.prev;

	while (at != &m->roster->ready && older(m, list_item(at, struct member, ready_link)))
		at = at->prev;
	list_add_head(at, &m->ready_link);
	m->roster->n_ready++;
	roster_note_dry(m->roster);
}

static bool can_be_had(const struct sandbox_view *v)
{
	return v->adoptable && v->networked && !v->deleting;
}

/* Takes on the Sandbox's new state; was is the one before, NULL for a new member. True when a
 * waiting claim may want the member now. */
static bool member_update(struct member *m, const struct sandbox_view *was, struct object *now)
{
	const struct sandbox_view *v = sandbox_view(now);
	bool could = was && can_be_had(was), was_ready = was && was->ready.is_true;

	member_doubt(m);
	object_unref(m->sandbox);
	m->sandbox = object_ref(now);
	m->v = v;
	m->judged_rev = m->fresh_rev = 0;
	member_leave_node(m);
	member_join_node(m, v->node_name);
	leave_ready(m);
	if (!can_be_had(v))
		return false;
	if (v->ready.is_true)
		member_line_up_ready(m);
	return !could || (v->ready.is_true && !was_ready);
}

static struct member *member_new(struct index *ix, struct object *now, const char *key)
{
	struct member *m = xnew(struct member);

	m->sandbox = object_ref(now);
	m->v = sandbox_view(now);
	m->roster = index_roster(ix, now->ns, m->v->owner.name);
	m->roster->n_members++;
	m->seq = index_next_seq(ix);
	list_init(&m->ready_link);
	list_add_tail(&m->roster->odd, &m->odd_link);
	member_line_up(m);
	map_put(index_members(ix), key, m);
	return m;
}

static bool is_member_of(const struct member *m, const struct object *now)
{
	return str_eq(m->v->owner.uid, sandbox_view(now)->owner.uid);
}

bool member_follow(struct index *ix, struct object *was, struct object *now,
		   struct roster **ret_roster)
{
	const struct object *any = now ? now : was;
	autofree char *key = xasprintf("%s/%s", any->ns, any->name);
	struct member *m = map_get(index_members(ix), key);
	const struct sandbox_view *before = NULL;
	bool belongs = now && sandbox_view(now)->in_pool;

	if (m && (!belongs || !is_member_of(m, now))) {
		member_leave(ix, key, m);
		m = NULL;
	}
	if (!belongs)
		return false;
	if (m)
		before = m->v;
	else
		m = member_new(ix, now, key);
	*ret_roster = m->roster;
	return member_update(m, before, now);
}

/* Waiting */

void roster_wait(struct roster *r, struct waiter *w)
{
	struct list *at = r->waiting.prev;

	while (at != &r->waiting && list_item(at, struct waiter, link)->since > w->since)
		at = at->prev;
	list_add_head(at, &w->link);
}

struct waiter *roster_call(struct roster *r)
{
	struct waiter *w;

	if (list_empty(&r->waiting))
		return NULL;
	w = list_first(&r->waiting, struct waiter, link);
	list_del(&w->link);
	list_add_tail(&r->called, &w->link);
	w->called = true;
	return w;
}

void waiter_leave(struct waiter *w)
{
	list_del(&w->link);
	w->called = false;
}

bool roster_ahead(const struct roster *r, const struct waiter *w)
{
	const struct waiter *first;

	if (w->called)
		return false;
	if (!list_empty(&r->called))
		return true;
	if (list_empty(&r->waiting))
		return false;
	first = list_first(&r->waiting, struct waiter, link);
	return first != w && first->since <= w->since;
}

/* Picking */

static unsigned node_weight(const struct member *m)
{
	return m->node ? m->node->n : 0;
}

static unsigned heaviest(const struct roster *r)
{
	unsigned most = 0;

	map_each(it, r->nodes)
		most = MAX(most, ((struct node_count *)it.value)->n);
	return most;
}

static struct member *pick_ready(struct roster *r, bool (*fits)(void *, struct member *), void *arg)
{
	unsigned most = heaviest(r);
	struct member *m, *best = NULL;

	list_each(m, &r->ready, ready_link) {
		if (m->taken || (best && node_weight(m) <= node_weight(best)) || !fits(arg, m))
			continue;
		best = m;
		if (node_weight(m) == most)
			break;
	}
	return best;
}

enum pick roster_pick(struct roster *r, bool (*fits)(void *arg, struct member *m), void *arg,
		      struct member **ret)
{
	struct member *m, *best = pick_ready(r, fits, arg);
	bool pending = false;

	if (best) {
		*ret = best;
		return PICK_MEMBER;
	}
	list_each(m, &r->members, link) {
		if (m->taken || m->v->deleting || !m->v->adoptable ||
		    (m->v->ready.is_true && m->v->networked) || !fits(arg, m))
			continue;
		if (!m->v->networked)
			pending = true;
		else if (!best || node_weight(m) > node_weight(best))
			best = m;
	}
	if (best)
		*ret = best;
	return best ? PICK_MEMBER : pending ? PICK_PENDING : PICK_NONE;
}
