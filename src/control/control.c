/* SPDX-License-Identifier: Apache-2.0 */
#include "control/control.h"

#include <assert.h>

#include "api/object.h"
#include "api/registry.h"
#include "api/view_claim.h"
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim/claim.h"
#include "control/claim/note.h"
#include "control/cluster/cluster.h"
#include "control/index/index.h"
#include "control/pass/control_state.h"
#include "control/pass/keys.h"
#include "control/pool/pool.h"
#include "control/sandbox/sandbox.h"
#include "control/template/template.h"
#include "loop/loop.h"

/*
 * The watches, and which keys a change wakes. A watch event only updates the index and queues keys;
 * their passes run later in the same turn of the loop. No pass runs before every watch has
 * delivered what existed.
 */
enum {
	CHORES_TURN_MS = 10, /* of a turn of the loop */
};

usec control_now(const struct control *c)
{
	return clock_wall() + c->skew;
}

void control_step(struct control *c, uint64_t ms)
{
	c->skew += (usec)ms * 1000;
	queue_step(c->queue, ms);
	queue_step(c->chores, ms);
}

/* Wakes the controller of o's owner, if that is of the given sort. */
static void wake_owner(struct control *c, const struct object *o, enum owner_type type,
		       enum control_kind kind)
{
	struct owner_view owner = { 0 };

	if (o)
		owner = owner_view_of(o);
	if (owner.type == type)
		item_wake(c->queue, kind, o->ns, owner.name);
}

static void queue_waiting(struct control *c, struct roster *r)
{
	struct waiter *w, *tmp;

	list_each_safe(w, tmp, &r->waiting, link) {
		list_del(&w->link);
		item_wake(c->queue, CONTROL_CLAIM, w->ns, w->name);
	}
}

/* o is was or now. */
static void wake_sandbox_owner(struct control *c, const struct object *o, const struct object *was,
			       const struct object *now)
{
	const struct owner_view *owner = o ? &sandbox_view(o)->owner : NULL;

	if (owner && owner->type == OWNER_POOL)
		item_wake(c->queue, CONTROL_POOL, o->ns, owner->name);
	else if (owner && owner->type == OWNER_CLAIM && claim_cares(was, now))
		item_wake(c->queue, CONTROL_CLAIM, o->ns, owner->name);
}

static void sandbox_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;
	struct roster *roster = NULL;

	if (index_sandbox(c->index, was, now, &roster))
		queue_waiting(c, roster);
	item_wake(c->queue, CONTROL_SANDBOX, any->ns, any->name);
	wake_sandbox_owner(c, was, was, now);
	wake_sandbox_owner(c, now, was, now);
}

static void wake_sandboxes_of(struct control *c, struct object *was, struct object *now)
{
	wake_owner(c, was, OWNER_SANDBOX, CONTROL_SANDBOX);
	wake_owner(c, now, OWNER_SANDBOX, CONTROL_SANDBOX);
}

static void pod_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;

	index_pod(c->index, was, now);
	wake_sandboxes_of(c, was, now);
}

static void service_changed(void *arg, struct object *was, struct object *now)
{
	wake_sandboxes_of(arg, was, now);
}

static void pvc_changed(void *arg unused, struct object *was unused, struct object *now unused)
{
	/* Read by Sandbox passes, but a change of one wakes nobody (docs/reference/agent-sandbox.md
	 * §3.5). */
}

static void queue_claims(struct control *c, const struct object *pool, bool bound_too)
{
	map_each(it, index_claims_of(c->index, pool->ns, pool->name)) {
		const struct object *claim = it.value;
		const struct claim_view *v = claim_view(claim);

		if (!v->deleting && (bound_too || !v->sandbox))
			item_wake(c->queue, CONTROL_CLAIM, claim->ns, claim->name);
	}
}

static void pool_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;

	index_pool(c->index, was, now);
	item_wake(c->queue, CONTROL_POOL, any->ns, any->name);
	if (!was || !now || pool_view(was)->generation != pool_view(now)->generation)
		queue_claims(c, any, false);
}

static void template_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;

	item_wake(c->queue, CONTROL_TEMPLATE, any->ns, any->name);
	map_each(it, index_pools_of(c->index, any->ns, any->name)) {
		const struct object *pool = it.value;

		item_wake(c->queue, CONTROL_POOL, pool->ns, pool->name);
		if (!was)
			queue_claims(c, pool, true);
	}
}

/* The member that it was adopting is free again; if the patch still wins, the Sandbox is deleted
 * with the claim, its owner. */
static void forget_claim(struct control *c, const struct object *claim)
{
	struct note *note = notes_get(c->notes, claim->uid);
	struct member *m =
		note && note->reserved ? index_member(c->index, claim->ns, note->reserved) : NULL;

	if (m)
		m->taken = false;
	notes_forget(c->notes, claim->uid);
}

static void claim_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;

	assert(any);
	index_claim(c->index, was, now);
	if (was && (!now || !str_eq(was->uid, now->uid)))
		forget_claim(c, was);
	item_wake(c->queue, CONTROL_CLAIM, any->ns, any->name);
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

	if (++c->n_synced == WATCH_MAX_)
		queue_open(c->queue);
}

static void (*const changed[WATCH_MAX_])(void *arg, struct object *was, struct object *now) = {
	[WATCH_TEMPLATES] = template_changed, [WATCH_POOLS] = pool_changed,
	[WATCH_CLAIMS] = claim_changed,       [WATCH_PODS] = pod_changed,
	[WATCH_SERVICES] = service_changed,   [WATCH_PVCS] = pvc_changed,
	[WATCH_POLICIES] = policy_changed,    [WATCH_SANDBOXES] = sandbox_changed,
};

static struct again run(void *arg, struct queue_item *q)
{
	static struct again (*const reconcilers[CONTROL_KIND_MAX_])(struct pass *) = {
		[CONTROL_SANDBOX] = sandbox_reconcile,
		[CONTROL_TEMPLATE] = template_reconcile,
		[CONTROL_POOL] = pool_reconcile,
		[CONTROL_CLAIM] = claim_reconcile,
		[CONTROL_GC] = gc_reconcile,
		[CONTROL_NAMESPACE] = namespace_reconcile,
		[CONTROL_EVENT_EXPIRY] = event_expiry_reconcile,
	};
	struct item *it = container_of(q, struct item, q);
	struct pass p;
	struct again again;

	pass_begin(&p, arg, it);
	again = reconcilers[it->key.kind](&p);
	if (p.started) {
		err_free(take(again.e)); /* the pass after the writes reports it */
		again = again_wait();
	}
	pass_end(&p);
	return again;
}

static char **copy_domains(const char *const *from)
{
	static const char *const ours[] = { "sandbox.users.io", NULL };
	size_t n = 0;
	char **to;

	if (!from)
		from = ours;
	while (from[n])
		n++;
	to = xnew_n(char *, n + 1);
	for (size_t i = 0; i < n; i++)
		to[i] = xstrdup(from[i]);
	return to;
}

static void options_fill(struct control *c, const struct control_options *o)
{
	if (o)
		c->opt = *o;
	c->cluster_domain = xstrdup(str_or(c->opt.cluster_domain, "cluster.local"));
	c->label_domains = copy_domains(c->opt.label_domains);
	c->opt.cluster_domain = c->cluster_domain;
	c->opt.label_domains = (const char *const *)c->label_domains;
	if (!c->opt.pool_max_batch)
		c->opt.pool_max_batch = 300;
	if (!c->opt.pool_grace_ms)
		c->opt.pool_grace_ms = 5 * 60 * 1000;
	if (!c->opt.pool_recheck_ms)
		c->opt.pool_recheck_ms = 60 * 1000;
	if (!c->opt.claim_grace_ms)
		c->opt.claim_grace_ms = 2000;
}

static void find_kinds(struct control *c)
{
	const struct kinds *ks = client_kinds(c->client);

	c->kinds = (struct control_kinds){
		.sandbox = kinds_need(ks, API_SANDBOX, "Sandbox"),
		.template = kinds_need(ks, API_EXTENSIONS, "SandboxTemplate"),
		.pool = kinds_need(ks, API_EXTENSIONS, "SandboxWarmPool"),
		.claim = kinds_need(ks, API_EXTENSIONS, "SandboxClaim"),
		.pod = kinds_need(ks, "v1", "Pod"),
		.service = kinds_need(ks, "v1", "Service"),
		.pvc = kinds_need(ks, "v1", "PersistentVolumeClaim"),
		.policy = kinds_need(ks, API_NETWORK_POLICY, "NetworkPolicy"),
		.event = kinds_need(ks, API_EVENT, "Event"),
	};
}

static struct queue *make_queue(struct control *c, uint64_t turn_ms)
{
	return queue_new(&(struct queue_spec){ .loop = c->loop,
					       .item_size = sizeof(struct item),
					       .turn_ms = turn_ms,
					       .run = run,
					       .item_init = item_init,
					       .item_done = item_done,
					       .slowed = item_slowed,
					       .arg = c });
}

/* Kinds that others are looked up by come first; Sandboxes last, so that their owners are known. */
static void watch_all(struct control *c)
{
	const struct kind *const kinds[WATCH_MAX_] = {
		[WATCH_TEMPLATES] = c->kinds.template, [WATCH_POOLS] = c->kinds.pool,
		[WATCH_CLAIMS] = c->kinds.claim,       [WATCH_PODS] = c->kinds.pod,
		[WATCH_SERVICES] = c->kinds.service,   [WATCH_PVCS] = c->kinds.pvc,
		[WATCH_POLICIES] = c->kinds.policy,    [WATCH_SANDBOXES] = c->kinds.sandbox,
	};

	for (size_t i = 0; i < WATCH_MAX_; i++) {
		const struct client_watch_spec spec = { .kind = kinds[i] };
		const struct client_watch_events ev = { changed[i], one_synced };

		c->watches[i] = client_watch(c->client, &spec, &ev, c);
	}
}

struct err *control_start(struct loop *l, struct client *client, const struct control_options *o,
			  struct control **ret)
{
	struct control *c = xnew(struct control);

	c->loop = l;
	c->client = client;
	find_kinds(c);
	list_init(&c->running);
	options_fill(c, o);
	c->index = index_new();
	c->notes = notes_new();
	c->queue = make_queue(c, 0);
	c->chores = make_queue(c, CHORES_TURN_MS);
	watch_all(c);
	if (c->opt.cluster_services)
		c->cluster = cluster_start(c);
	*ret = c;
	return NULL;
}

bool control_synced(const struct control *c)
{
	return c->n_synced == WATCH_MAX_ && (!c->cluster || cluster_synced(c->cluster));
}

void control_free(struct control *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < WATCH_MAX_; i++)
		client_watch_free(c->watches[i]);
	pass_forget_all(c);
	cluster_free(c->cluster);
	queue_free(c->queue);
	queue_free(c->chores);
	notes_free(c->notes);
	index_free(c->index);
	for (char **d = c->label_domains; *d; d++)
		free(*d);
	free(c->label_domains);
	free(c->cluster_domain);
	free(c);
}
