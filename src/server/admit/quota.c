/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/policy/ledger.h"

/*
 * Quotas: the ledger is asked before a write and told after it. What it says is written into the
 * status of the quotas once in a while, so that a burst of a thousand objects is not a thousand
 * writes more. Nobody decides by the status.
 */
enum {
	PAUSE_MS = 250, /* between two writes of a status */
};

struct quotas {
	struct admit *admit;
	struct ledger *ledger;
	struct deferred flush;
	struct timer *pause; /* runs: statuses were written lately */
	struct timer *recount;
};

static struct err *write_status(struct quotas *q, const struct object *o, struct json_doc *status)
{
	autoop op = { .admit = q->admit,
		      .user = "system:cay:quota",
		      .kind = o->kind,
		      .ns = o->ns,
		      .name = o->name,
		      .sub = "status" };
	struct json_doc *d;

	if (json_equal(object_status(o), json_root(status))) {
		json_doc_free(status);
		return NULL;
	}
	d = object_next(o);
	(void)json_set(d, json_root(d), "status", json_move(d, status, json_root(status)));
	return op_update(&op, d);
}

/* False: it has to be tried again. Takes o and status over. */
static bool write_one(struct quotas *q, struct object *quota, struct json_doc *status)
{
	autoptr(object) o = quota;
	struct err *e = write_status(q, o, status);

	if (!e)
		return true;
	log_debug("status of a quota was not written, trying again", KV("namespace", o->ns),
		  KV("name", o->name), KV("err", e));
	ledger_stale_again(q->ledger, o->ns, o->name);
	err_free(e);
	return false;
}

static void on_flush(void *arg)
{
	struct quotas *q = arg;
	struct json_doc *status;
	struct object *o;
	bool good = true;

	if (timer_armed(q->pause))
		return;
	while (good && (o = ledger_next_stale(q->ledger, &status))) {
		timer_set(q->pause, PAUSE_MS);
		good = write_one(q, o, status);
	}
}

/* A Pod that does not go away ceases to count at some time. */
static void arm_recount(struct quotas *q)
{
	usec at = ledger_deadline(q->ledger), in = at - clock_wall();

	if (at == INT64_MAX)
		timer_clear(q->recount);
	else
		timer_set(q->recount, in > 0 ? (uint64_t)in / 1000 + 1000 : 1000);
}

static void on_recount(void *arg)
{
	struct quotas *q = arg;

	ledger_recount(q->ledger, clock_wall());
	arm_recount(q);
	deferred_call(&q->flush);
}

struct quotas *quotas_new(struct admit *a, struct loop *l)
{
	struct quotas *q = xnew(struct quotas);

	q->admit = a;
	q->ledger = ledger_new(a->objects);
	q->pause = timer_new(l, on_flush, q);
	q->recount = timer_new(l, on_recount, q);
	deferred_init(&q->flush, l, on_flush, q);
	return q;
}

void quotas_free(struct quotas *q)
{
	if (!q)
		return;
	deferred_cancel(&q->flush);
	timer_free(q->pause);
	timer_free(q->recount);
	ledger_free(q->ledger);
	free(q);
}

void quotas_known(struct admit *a)
{
	if (a->quotas)
		on_recount(a->quotas);
}

struct err *quota_allows(const struct op *op, const struct json *obj, const struct json *old)
{
	const struct quotas *q = op->admit->quotas;
	const struct ledger_write w = {
		.kind = kind_storage(op->kind), .ns = op->ns, .sub = op->sub, .obj = obj, .old = old
	};
	autofree char *why = q ? ledger_refuses(q->ledger, &w) : NULL;

	if (!why)
		return NULL;
	return err_forbidden(op->kind, json_get_str(json_get(obj, "metadata"), "name"), why);
}

void quota_note(const struct op *op, const struct object *old, const struct object *now)
{
	struct quotas *q = op->admit->quotas;
	usec before;

	if (!q)
		return;
	before = ledger_deadline(q->ledger);
	ledger_note(q->ledger, old, now);
	if (ledger_deadline(q->ledger) != before)
		arm_recount(q);
	if (ledger_is_stale(q->ledger))
		deferred_call(&q->flush);
}
