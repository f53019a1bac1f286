/* SPDX-License-Identifier: Apache-2.0 */
#include "control/control.h"

#include "api/agents.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/sandbox_pod.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/access.h"
#include "control/agent/agent.h"
#include "control/approval/approval.h"
#include "control/attachment/attachment.h"
#include "control/budget/budget.h"
#include "control/claim/claim.h"
#include "control/claim/note.h"
#include "control/cluster/cluster.h"
#include "control/control_priv.h"
#include "control/cost/cost.h"
#include "control/idle/idle.h"
#include "control/index/index.h"
#include "control/index/links.h"
#include "control/pace/pace.h"
#include "control/pass/context.h"
#include "control/pass/event.h"
#include "control/pass/pass.h"
#include "control/pool/pool.h"
#include "control/reset/reset.h"
#include "control/sandbox/sandbox.h"
#include "control/session/session.h"
#include "control/tally/tally.h"
#include "control/template/template.h"
#include "loop/loop.h"
#include "trace/trace.h"

/*
 * The controllers as one: their options, their queues, and which of them runs a key.
 */
enum {
	/* What a quota has refused is retried at least this often, because nothing wakes the key
	 * when there is room again. */
	REFUSED_MS = 10 * 1000,
	CHORES_TURN_MS = 10, /* of a turn of the loop */
};

void control_hold_time(struct control *c)
{
	context_hold_time(&c->ctx);
}

void control_step(struct control *c, uint64_t ms)
{
	context_step(&c->ctx, ms);
}

/* What a controller keeps between passes. */
static void *own_of(const struct control *c, enum control_kind kind)
{
	switch (kind) {
	case CONTROL_CLAIM:
		return c->notes;
	case CONTROL_GC:
	case CONTROL_NAMESPACE:
	case CONTROL_PVC:
	case CONTROL_DEFINITION:
	case CONTROL_ENDPOINTS:
	case CONTROL_REPLICA_SET:
	case CONTROL_DEPLOYMENT:
	case CONTROL_EVENT_EXPIRY:
		return c->cluster;
	case CONTROL_IDLE:
		return c->idle;
	case CONTROL_SESSION:
		return c->sessions;
	case CONTROL_LEDGER:
		return c->books;
	case CONTROL_RESET:
		return c->resets;
	case CONTROL_SANDBOX:
	case CONTROL_TEMPLATE:
	case CONTROL_POOL:
	case CONTROL_EVENTS:
	case CONTROL_AGENT:
	case CONTROL_ATTACHMENT:
	case CONTROL_APPROVAL:
	case CONTROL_BUDGET:
	case CONTROL_KIND_MAX_:
		break;
	}
	return NULL;
}

/* A span for a pass, by upstream's names, which continues the trace that the object names. */
static struct trace_span *span_of(const struct control *c, const struct key *key)
{
	const struct {
		const struct kind *kind;
		const char *name;
	} traced[CONTROL_KIND_MAX_] = {
		[CONTROL_SANDBOX] = { c->ctx.kinds.sandbox, "ReconcileSandbox" },
		[CONTROL_CLAIM] = { c->ctx.kinds.claim, "ReconcileSandboxClaim" },
		[CONTROL_TEMPLATE] = { c->ctx.kinds.template, "ReconcileSandboxTemplate" },
	};
	autoptr(object) o = NULL;
	struct trace_context parent;
	struct trace_span *span;

	if (!c->ctx.opt.tracer || !traced[key->kind].kind)
		return NULL;
	o = client_get(c->ctx.client, traced[key->kind].kind, key->ns, key->name);
	if (!o)
		return NULL;
	(void)trace_annotation_read(object_annotation(o, KEY_TRACE), &parent);
	span = trace_start(c->ctx.opt.tracer, traced[key->kind].name, SPAN_INTERNAL, &parent);
	if (key->kind != CONTROL_TEMPLATE)
		trace_set(span, KEY_CREATED_BY,
			  sandbox_created_by(object_label(o, KEY_CREATED_BY)));
	if (key->kind == CONTROL_SANDBOX) {
		trace_set(span, "sandbox.name", o->name);
		trace_set(span, "sandbox.namespace", o->ns);
	}
	return span;
}

static struct again run(void *arg, struct queue_item *q)
{
	static struct again (*const reconcilers[CONTROL_KIND_MAX_])(struct pass *) = {
		[CONTROL_SANDBOX] = sandbox_reconcile,
		[CONTROL_TEMPLATE] = template_reconcile,
		[CONTROL_POOL] = pool_reconcile,
		[CONTROL_CLAIM] = claim_reconcile,
		[CONTROL_RESET] = reset_reconcile,
		[CONTROL_GC] = gc_reconcile,
		[CONTROL_NAMESPACE] = namespace_reconcile,
		[CONTROL_PVC] = pvc_protection_reconcile,
		[CONTROL_DEFINITION] = definition_reconcile,
		[CONTROL_ENDPOINTS] = endpoints_reconcile,
		[CONTROL_REPLICA_SET] = replica_set_reconcile,
		[CONTROL_DEPLOYMENT] = deployment_reconcile,
		[CONTROL_EVENT_EXPIRY] = event_expiry_reconcile,
		[CONTROL_EVENTS] = event_reconcile,
		[CONTROL_IDLE] = idle_reconcile,
		[CONTROL_AGENT] = agent_reconcile,
		[CONTROL_SESSION] = session_reconcile,
		[CONTROL_ATTACHMENT] = attachment_reconcile,
		[CONTROL_APPROVAL] = approval_reconcile,
		[CONTROL_BUDGET] = budget_reconcile,
		[CONTROL_LEDGER] = ledger_reconcile,
	};
	struct control *c = arg;
	struct item *it = container_of(q, struct item, q);
	struct pass p;
	struct again again;

	c->n_passes[it->key.kind]++;
	pass_begin(&p, &c->ctx, it, own_of(c, it->key.kind));
	p.span = span_of(c, &it->key);
	again = reconcilers[it->key.kind](&p);
	if (again.how == AGAIN_RETRY && err_is(again.e, ERR_FORBIDDEN))
		again.ms = REFUSED_MS;
	if (again.e)
		trace_failed(p.span);
	trace_end(p.span);
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

static void on_woken(void *arg, const struct access_wake *w)
{
	idle_thawed(((struct control *)arg)->idle, w);
}

/* However many packets come, the first wakes it. */
static void on_knocked(void *arg, const char *ns, const char *sandbox)
{
	(void)idle_wake(((struct control *)arg)->idle, ns, sandbox, "packet");
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
	c->ctx.events = event_queue_new(&c->ctx);
	c->ctx.index = index_new();
	c->ctx.links = links_new();
	c->ctx.tally = tally_new();
	c->sessions = sessions_new();
	c->resets = resets_new(&c->ctx);
	c->notes = notes_new();
	c->pace = pace_new(l, c->ctx.opt.pace_changed, c->ctx.opt.pace_arg);
	c->ctx.queue = make_queue(c, c->ctx.opt.turn_ms);
	c->ctx.chores = make_queue(c, c->ctx.opt.turn_ms ? c->ctx.opt.turn_ms : CHORES_TURN_MS);
	c->idle = idle_new(&c->ctx);
	c->books = books_new(&c->ctx);
	if (c->ctx.opt.access) {
		access_set_woken(c->ctx.opt.access, on_woken, c);
		access_set_knocked(c->ctx.opt.access, on_knocked, c);
	}
	control_watch(c);
	if (c->ctx.opt.cluster_services)
		c->cluster = cluster_start(&c->ctx);
	*ret = c;
	return NULL;
}

bool control_synced(const struct control *c)
{
	return c->n_synced == c->n_watches && (!c->cluster || cluster_synced(c->cluster));
}

static bool add_sandbox(void *arg, struct object *sandbox)
{
	gauges_sandbox(arg, sandbox);
	return true;
}

void control_metrics(const struct control *c, struct buf *b)
{
	autoptr(gauges) gauges = gauges_new();

	client_each(c->ctx.client, c->ctx.kinds.sandbox, NULL, add_sandbox, gauges);
	tally_write(c->ctx.tally, b);
	gauges_write(gauges, c->ctx.index, b);
	pace_metrics(c->pace, b);
	idle_metrics(c->idle, b);
	books_metrics(c->books, b);
}

bool control_wake(struct control *c, const char *ns, const char *sandbox, const char *cause)
{
	return idle_wake(c->idle, ns, sandbox, cause);
}

void control_finish(struct control *c, void (*done)(void *arg), void *arg)
{
	event_queue_flush(c->ctx.events, done, arg);
}

void control_free(struct control *c)
{
	if (!c)
		return;
	if (c->ctx.opt.access) {
		access_set_woken(c->ctx.opt.access, NULL, NULL);
		access_set_knocked(c->ctx.opt.access, NULL, NULL);
	}
	event_queue_free(c->ctx.events);
	for (size_t i = 0; i < WATCH_MAX_; i++)
		client_watch_free(c->watches[i]);
	pass_forget_all(&c->ctx);
	books_free(c->books);
	resets_free(c->resets);
	cluster_free(c->cluster);
	queue_free(c->ctx.queue);
	queue_free(c->ctx.chores);
	notes_free(c->notes);
	pace_free(c->pace);
	idle_free(c->idle);
	index_free(c->ctx.index);
	links_free(c->ctx.links);
	sessions_free(c->sessions);
	tally_free(c->ctx.tally);
	for (char **d = c->label_domains; *d; d++)
		free(*d);
	free(c->label_domains);
	free(c->cluster_domain);
	free(c);
}
