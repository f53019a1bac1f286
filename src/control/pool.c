/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/meta.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "control/blueprint_priv.h"
#include "control/control_priv.h"
#include "control/diff_priv.h"
#include "control/event_priv.h"
#include "control/keys_priv.h"
#include "control/pool_priv.h"

/*
 * The SandboxWarmPool controller (reference/api.md §5.4). A pass looks at the members that changed
 * or are not Ready, and counts the others; what must change is collected first and written after,
 * because a write changes the roster.
 *
 * Creates go in rounds of 1, 2, 4, 8 and so on; a round that fails starts the count over.
 */
struct chosen {
	struct object **v;
	size_t n, cap;
};

static void choose(struct chosen *c, struct object *o)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 8;
		c->v = xrealloc(c->v, c->cap * sizeof(*c->v));
	}
	c->v[c->n++] = object_ref(o);
}

static void chosen_done(struct chosen *c)
{
	for (size_t i = 0; i < c->n; i++)
		object_unref(c->v[i]);
	free(c->v);
}

struct pool_view {
	struct pass *p;
	const struct object *pool;
	struct object *template; /* NULL: missing */
	struct roster *roster;
	bool recreate;
	char hash[9];
	struct pool_seen seen;
	struct chosen remove, relabel, adopt;
};

static void view_done(struct pool_view *v)
{
	object_unref(v->template);
	chosen_done(&v->remove);
	chosen_done(&v->relabel);
	chosen_done(&v->adopt);
}

static void hash_template(struct pool_view *v)
{
	struct roster *r = v->roster;

	if (r->hashed_rev == v->template->rev)
		return;
	blueprint_hash(v->template, r->blueprint_hash);
	blueprint_pod_hash(v->template, r->pod_hash);
	r->hashed_rev = v->template->rev;
}

static bool is_stale(struct pool_view *v, struct member *m)
{
	if (m->judged_rev != v->template->rev) {
		m->stale =
			blueprint_stale(v->template, v->roster->blueprint_hash, m->sandbox, true);
		m->judged_rev = v->template->rev;
	}
	return m->stale;
}

/*
 * When its time began: its creation, but if that is by another clock which is behind ours, not so
 * long ago that it is given up as soon as it is made.
 */
static usec born(struct pool_view *v, struct member *m)
{
	uint64_t grace_ms = v->p->c->opt.pool_grace_ms;
	uint64_t credit_ms = grace_ms - MIN(grace_ms, (uint64_t)SETTLE_MS);

	if (!m->seen_at)
		m->seen_at = v->p->now;
	return MAX(m->created, m->seen_at - (usec)credit_ms * 1000);
}

static enum fate judge(struct pool_view *v, struct member *m)
{
	struct control *c = v->p->c;
	struct member_seen seen = { .deleting = m->deleting,
				    .ready = m->ready,
				    .age = v->p->now - born(v, m),
				    .grace_ms = c->opt.pool_grace_ms };
	autoptr(object) pod = NULL;

	if (v->recreate && v->template && !m->deleting)
		seen.stale = is_stale(v, m);
	if (!m->ready && seen.age > (usec)seen.grace_ms * 1000) {
		pod = client_get(
			c->client, v->p->c->kinds.pod, m->sandbox->ns,
			str_or(object_annotation(m->sandbox, KEY_POD_NAME), m->sandbox->name));
		seen.pod = pod;
	}
	return member_fate(&seen, v->recreate);
}

static void see_young(struct pool_view *v, struct member *m)
{
	usec left = (usec)v->p->c->opt.pool_grace_ms * 1000 - (v->p->now - born(v, m));
	uint64_t ms = (uint64_t)MAX(left, (usec)0) / 1000 + GRACE_SLACK_MS;

	if (!v->seen.grace_left_ms || ms < v->seen.grace_left_ms)
		v->seen.grace_left_ms = ms;
}

static void see_member(struct pool_view *v, struct member *m)
{
	enum fate fate = judge(v, m);

	if (fate == FATE_TERMINATING || fate == FATE_STALE || fate == FATE_STUCK)
		v->seen.terminating++;
	else
		v->seen.active++;
	switch (fate) {
	case FATE_TERMINATING:
		return;
	case FATE_STALE:
	case FATE_STUCK:
		if (!m->taken)
			choose(&v->remove, m->sandbox);
		return;
	case FATE_YOUNG:
		see_young(v, m);
		break;
	case FATE_HELD:
		v->seen.unschedulable++;
		break;
	case FATE_ACTIVE:
		v->seen.ready++;
		break;
	}
	if (fate == FATE_ACTIVE && m->warm)
		member_is_fine(m);
	else if (!m->warm && !m->taken)
		choose(&v->relabel, m->sandbox);
}

/* Members that were fine stay so until they change, or what they are measured by does. */
static void see_members(struct pool_view *v)
{
	uint64_t rev = v->recreate && v->template ? v->template->rev : 1;
	struct roster *r = v->roster;
	struct member *m, *tmp;

	if (r->fine_for != rev || !str_eq(r->fine_uid, v->pool->uid)) {
		roster_doubt_all(r);
		r->fine_for = rev;
		free(r->fine_uid);
		r->fine_uid = xstrdup(v->pool->uid);
	}
	v->seen.active = v->seen.ready = r->n_fine;
	list_each_safe(m, tmp, &r->odd, odd_link)
		if (str_eq(m->owner_uid, v->pool->uid) && str_eq(m->pool_hash, v->hash))
			see_member(v, m);
}

static void see_orphans(struct pool_view *v)
{
	map_each(it, index_orphans_of(v->p->c->index, v->pool->ns, v->hash)) {
		struct object *sb = it.value;

		if (object_deleting(sb))
			continue;
		if (v->template &&
		    blueprint_stale(v->template, v->roster->blueprint_hash, sb, true))
			choose(&v->remove, sb);
		else
			choose(&v->adopt, sb);
	}
}

static void observe(struct pool_view *v)
{
	const struct json *spec = object_spec(v->pool);
	struct control *c = v->p->c;

	name_hash(v->pool->name, v->hash);
	v->roster = index_roster(c->index, v->pool->ns, v->pool->name);
	v->template =
		client_get(c->client, v->p->c->kinds.template, v->pool->ns, pool_template(v->pool));
	if (v->template)
		hash_template(v);
	v->recreate = str_eq(json_get_str(json_get(spec, "updateStrategy"), "type"), "Recreate");
	v->seen = (struct pool_seen){ .desired = json_get_int(spec, "replicas", 1),
				      .template_found = v->template,
				      .max_batch = c->opt.pool_max_batch,
				      .burst = v->roster->burst,
				      .recheck_ms = c->opt.pool_recheck_ms };
	see_members(v);
	see_orphans(v);
}

/* Acting */

static struct json_doc *member_patch(const struct object *sb, const struct object *new_owner)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");

	json_set_root(d, root);
	json_set_str(d, json_need_obj(d, meta, "labels"), KEY_LAUNCH_TYPE, "warm");
	if (new_owner) {
		const struct json *have =
			json_get(json_get(sb->root, "metadata"), "ownerReferences");
		struct json *owners = json_arr(d);

		json_each(it, have)
			json_push(d, owners, json_copy(d, it.val));
		json_push(d, owners, meta_controller_ref(d, new_owner));
		json_set(d, meta, "ownerReferences", owners);
	}
	json_set(d, meta, "resourceVersion",
		 json_copy(d, json_get(json_get(sb->root, "metadata"), "resourceVersion")));
	return d;
}

/* The revision guards against a claim that has just taken it. */
static void remove_members(struct pass *p, const struct chosen *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct object *sb = c->v[i];
		const struct client_delete_spec spec = { .uid = sb->uid,
							 .rev = sb->rev,
							 .grace_s = -1 };
		const struct write w = {
			SLOT_REMOVE, p->c->kinds.sandbox,     sb->ns,
			sb->name,    .what = "delete member", .flags = WRITE_GONE_OK
		};

		pass_delete(p, &w, &spec);
	}
}

static void patch_members(struct pool_view *v)
{
	struct chosen *lists[] = { &v->relabel, &v->adopt };

	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t i = 0; i < lists[k]->n; i++) {
			const struct object *sb = lists[k]->v[i];
			const struct write w = {
				SLOT_SELF, v->p->c->kinds.sandbox, sb->ns,
				sb->name,  .what = "patch member", .flags = WRITE_GONE_OK
			};

			pass_patch(v->p, &w, member_patch(sb, k ? v->pool : NULL));
		}
}

static void create_members(struct pool_view *v, uint64_t n)
{
	const struct write w = { SLOT_CHILD, v->p->c->kinds.sandbox, v->pool->ns,
				 .what = "create member" };

	for (uint64_t i = 0; i < n; i++)
		pass_create(v->p, &w,
			    member_build(v->pool, v->template, v->roster->blueprint_hash,
					 v->roster->pod_hash));
}

/* Those not Ready go first, then the newest. */
static int by_worth(const void *x, const void *y)
{
	const struct member *a = *(struct member *const *)x, *b = *(struct member *const *)y;

	if (a->ready != b->ready)
		return a->ready ? 1 : -1;
	if (a->created != b->created)
		return a->created > b->created ? -1 : 1;
	return a->seq > b->seq ? -1 : a->seq < b->seq;
}

static void remove_excess(struct pool_view *v, uint64_t n)
{
	autofree struct member **all = NULL;
	struct chosen victims = { 0 };
	struct member *m;
	size_t n_all = 0;

	if (!n)
		return;
	all = xnew_n(struct member *, v->roster->n_members + 1);
	list_each(m, &v->roster->members, link)
		if (!m->deleting && !m->taken && str_eq(m->owner_uid, v->pool->uid) &&
		    str_eq(m->pool_hash, v->hash))
			all[n_all++] = m;
	qsort(all, n_all, sizeof(*all), by_worth);
	for (size_t i = 0; i < n_all && i < n; i++)
		choose(&victims, all[i]->sandbox);
	remove_members(v->p, &victims);
	chosen_done(&victims);
}

static void tell_progress(struct pool_view *v, bool stalled)
{
	autofree char *note = NULL;
	struct event_spec spec = { v->pool,       WHO_POOL,
				   "Normal",      "WarmPoolProgressing",
				   "Reconciling", "Warm pool is progressing again" };

	if (stalled == v->roster->stalled)
		return;
	v->roster->stalled = stalled;
	if (stalled) {
		unsigned long long grace_s = v->p->c->opt.pool_grace_ms / 1000;

		note = v->template
			       ? xasprintf(
					 "%llu/%lld sandboxes are unschedulable past the %llum%llus "
					 "readiness grace period; holding them instead of replacing "
					 "(replacements would be equally unschedulable)",
					 (unsigned long long)v->seen.unschedulable,
					 (long long)v->seen.desired, grace_s / 60, grace_s % 60)
			       : xasprintf(
					 "SandboxTemplate \"%s\" not found; no sandboxes are made "
					 "until it exists",
					 pool_template(v->pool));
		spec.type = "Warning";
		spec.reason = "WarmPoolNotProgressing";
		spec.note = note;
	}
	event_send(v->p->c, event_build(&spec, v->p->now));
}

/* Status is written when it differs, and not all the time: 0, or when to come back for it. */
static uint64_t report(struct pool_view *v)
{
	const struct write w = { SLOT_STATUS, v->p->c->kinds.pool, v->pool->ns, v->pool->name,
				 "status",    .flags = WRITE_QUIET };
	autoptr(json_doc) want = pool_status(v->pool, v->seen.active, v->seen.ready);
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d);
	struct json *diff = diff_merge(d, object_status(v->pool), json_root(want));
	usec since = v->p->now - v->roster->status_at;

	if (!diff || (!json_get(diff, "observedGeneration") && since >= 0 &&
		      since < STATUS_EVERY_MS * 1000)) {
		json_doc_free(d);
		return diff ? (uint64_t)(STATUS_EVERY_MS - since / 1000) : 0;
	}
	json_set_root(d, root);
	json_set(d, root, "status", diff);
	v->roster->status_at = v->p->now;
	pass_patch(v->p, &w, d);
	return 0;
}

static uint64_t with_jitter(uint64_t ms)
{
	return ms + (ms > 1 ? random_u64() % (ms / 2 + 1) : 0);
}

/* A round that went well doubles the next; one that did not starts over. */
static void pace(struct pool_view *v)
{
	const struct outcome *out = &v->p->out[SLOT_CHILD];

	if (out->n_failed)
		v->roster->burst = 1;
	else if (out->n_ok && v->roster->burst < v->p->c->opt.pool_max_batch)
		v->roster->burst = MAX(v->roster->burst, 1u) * 2;
	v->seen.burst = v->roster->burst;
}

/*
 * A claim goes before the refill that it causes: after a member was taken, creates wait a moment, a
 * little longer with each further one, so that a burst of claims does not share the machine with as
 * many cold starts. The wait has an end, and a pool that runs low does not wait at all: a claim
 * that finds members on their way waits for them.
 */
static void rest(struct pool_view *v)
{
	struct roster *r = v->roster;
	usec ms = (usec)v->p->c->opt.pool_rest_ms * 1000, now = v->p->now;

	if (v->seen.active < r->was_active && v->seen.desired >= (int64_t)r->was_active) {
		if (!r->rest_from)
			r->rest_from = now;
		r->rest_until = MIN(now + ms, r->rest_from + REST_MAX * ms);
	}
	r->was_active = v->seen.active;
	if (r->rest_until > now && (int64_t)v->seen.active * REST_LOW > v->seen.desired)
		v->seen.rest_left_ms = (uint64_t)(r->rest_until - now) / 1000 + 1;
	else
		r->rest_from = r->rest_until = 0;
}

static struct again act(struct pool_view *v)
{
	struct pool_plan plan;
	uint64_t again_ms;
	struct err *e;

	remove_members(v->p, &v->remove);
	patch_members(v);
	if (v->p->started)
		return again_wait();
	pace(v);
	rest(v);
	plan = pool_decide(&v->seen);
	tell_progress(v, plan.stalled);
	if (!plan.create)
		v->roster->burst = 1;
	create_members(v, plan.create);
	remove_excess(v, plan.remove);
	if (v->p->started)
		return again_wait();
	e = pass_take_error(v->p);
	if (e)
		return again_retry(e);
	if (plan.again_ms == v->seen.grace_left_ms)
		plan.again_ms = with_jitter(plan.again_ms);
	again_ms = report(v);
	if (!again_ms || (plan.again_ms && plan.again_ms < again_ms))
		again_ms = plan.again_ms;
	return again_ms ? again_after(again_ms) : again_never();
}

struct again pool_reconcile(struct pass *p)
{
	autoptr(object) pool = client_get(p->c->client, p->c->kinds.pool, p->key->ns, p->key->name);
	struct pool_view v = { .p = p, .pool = pool };
	struct again again;

	if (!pool || object_deleting(pool))
		return again_never();
	observe(&v);
	again = act(&v);
	view_done(&v);
	return again;
}
