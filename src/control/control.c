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
#include "control/pass/context.h"
#include "control/pass/pass.h"
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

enum {
	WATCH_TEMPLATES,
	WATCH_POOLS,
	WATCH_CLAIMS,
	WATCH_PODS,
	WATCH_SERVICES,
	WATCH_PVCS,
	WATCH_POLICIES,
	WATCH_SANDBOXES,
	WATCH_MAX_,
};

/* What notes and rosters hold besides what the watches tell (when a claim was first seen, who is
 * waiting) may be lost in a crash without harm. */
struct control {
	struct context ctx;
	struct loop *loop;
	char *cluster_domain;
	char **label_domains; /* NULL-terminated */
	struct notes *notes;
	struct cluster *cluster; /* NULL: somebody else's business */
	struct client_watch *watches[WATCH_MAX_];
	unsigned n_synced;
};

void control_step(struct control *c, uint64_t ms)
{
	context_step(&c->ctx, ms);
}

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

static void queue_waiting(struct control *c, struct roster *r)
{
	struct waiter *w, *tmp;

	list_each_safe(w, tmp, &r->waiting, link) {
		list_del(&w->link);
		item_wake(c->ctx.queue, CONTROL_CLAIM, w->ns, w->name);
	}
}

/* o is was or now. */
static void wake_sandbox_owner(struct control *c, const struct object *o, const struct object *was,
			       const struct object *now)
{
	const struct owner_view *owner = o ? &sandbox_view(o)->owner : NULL;

	if (owner && owner->type == OWNER_POOL)
		item_wake(c->ctx.queue, CONTROL_POOL, o->ns, owner->name);
	else if (owner && owner->type == OWNER_CLAIM && claim_cares(was, now))
		item_wake(c->ctx.queue, CONTROL_CLAIM, o->ns, owner->name);
}

static void sandbox_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;
	struct roster *roster = NULL;

	if (index_sandbox(c->ctx.index, was, now, &roster))
		queue_waiting(c, roster);
	item_wake(c->ctx.queue, CONTROL_SANDBOX, any->ns, any->name);
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

	index_pod(c->ctx.index, was, now);
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
	map_each(it, index_claims_of(c->ctx.index, pool->ns, pool->name)) {
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

	index_pool(c->ctx.index, was, now);
	item_wake(c->ctx.queue, CONTROL_POOL, any->ns, any->name);
	if (!was || !now || pool_view(was)->generation != pool_view(now)->generation)
		queue_claims(c, any, false);
}

static void template_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;

	item_wake(c->ctx.queue, CONTROL_TEMPLATE, any->ns, any->name);
	map_each(it, index_pools_of(c->ctx.index, any->ns, any->name)) {
		const struct object *pool = it.value;

		item_wake(c->ctx.queue, CONTROL_POOL, pool->ns, pool->name);
		if (!was)
			queue_claims(c, pool, true);
	}
}

static void claim_changed(void *arg, struct object *was, struct object *now)
{
	struct control *c = arg;
	struct object *any = now ? now : was;

	assert(any);
	index_claim(c->ctx.index, was, now);
	if (was && (!now || !str_eq(was->uid, now->uid)))
		claim_forget(c->notes, c->ctx.index, was);
	item_wake(c->ctx.queue, CONTROL_CLAIM, any->ns, any->name);
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
		queue_open(c->ctx.queue);
}

static void (*const changed[WATCH_MAX_])(void *arg, struct object *was, struct object *now) = {
	[WATCH_TEMPLATES] = template_changed, [WATCH_POOLS] = pool_changed,
	[WATCH_CLAIMS] = claim_changed,       [WATCH_PODS] = pod_changed,
	[WATCH_SERVICES] = service_changed,   [WATCH_PVCS] = pvc_changed,
	[WATCH_POLICIES] = policy_changed,    [WATCH_SANDBOXES] = sandbox_changed,
};

/* What a controller keeps between passes. */
static void *own_of(const struct control *c, enum control_kind kind)
{
	switch (kind) {
	case CONTROL_CLAIM:
		return c->notes;
	case CONTROL_GC:
	case CONTROL_NAMESPACE:
	case CONTROL_EVENT_EXPIRY:
		return c->cluster;
	case CONTROL_SANDBOX:
	case CONTROL_TEMPLATE:
	case CONTROL_POOL:
	case CONTROL_KIND_MAX_:
		break;
	}
	return NULL;
}

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
	struct control *c = arg;
	struct item *it = container_of(q, struct item, q);
	struct pass p;
	struct again again;

	pass_begin(&p, &c->ctx, it, own_of(c, it->key.kind));
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
		c->ctx.opt = *o;
	c->cluster_domain = xstrdup(str_or(c->ctx.opt.cluster_domain, "cluster.local"));
	c->label_domains = copy_domains(c->ctx.opt.label_domains);
	c->ctx.opt.cluster_domain = c->cluster_domain;
	c->ctx.opt.label_domains = (const char *const *)c->label_domains;
	if (!c->ctx.opt.pool_max_batch)
		c->ctx.opt.pool_max_batch = 300;
	if (!c->ctx.opt.pool_grace_ms)
		c->ctx.opt.pool_grace_ms = 5 * 60 * 1000;
	if (!c->ctx.opt.pool_recheck_ms)
		c->ctx.opt.pool_recheck_ms = 60 * 1000;
	if (!c->ctx.opt.claim_grace_ms)
		c->ctx.opt.claim_grace_ms = 2000;
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
		[WATCH_TEMPLATES] = c->ctx.kinds.template, [WATCH_POOLS] = c->ctx.kinds.pool,
		[WATCH_CLAIMS] = c->ctx.kinds.claim,       [WATCH_PODS] = c->ctx.kinds.pod,
		[WATCH_SERVICES] = c->ctx.kinds.service,   [WATCH_PVCS] = c->ctx.kinds.pvc,
		[WATCH_POLICIES] = c->ctx.kinds.policy,    [WATCH_SANDBOXES] = c->ctx.kinds.sandbox,
	};

	for (size_t i = 0; i < WATCH_MAX_; i++) {
		const struct client_watch_spec spec = { .kind = kinds[i] };
		const struct client_watch_events ev = { changed[i], one_synced };

		c->watches[i] = client_watch(c->ctx.client, &spec, &ev, c);
	}
}

struct err *control_start(struct loop *l, struct client *client, const struct control_options *o,
			  struct control **ret)
{
	struct control *c = xnew(struct control);

	c->loop = l;
	c->ctx.client = client;
	c->ctx.kinds = context_kinds(client_kinds(client));
	list_init(&c->ctx.running);
	options_fill(c, o);
	c->ctx.index = index_new();
	c->notes = notes_new();
	c->ctx.queue = make_queue(c, 0);
	c->ctx.chores = make_queue(c, CHORES_TURN_MS);
	watch_all(c);
	if (c->ctx.opt.cluster_services)
		c->cluster = cluster_start(&c->ctx);
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
	pass_forget_all(&c->ctx);
	cluster_free(c->cluster);
	queue_free(c->ctx.queue);
	queue_free(c->ctx.chores);
	notes_free(c->notes);
	index_free(c->ctx.index);
	for (char **d = c->label_domains; *d; d++)
		free(*d);
	free(c->label_domains);
	free(c->cluster_domain);
	free(c);
}
