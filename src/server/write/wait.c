/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "base/bytes.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/read/render.h"
#include "server/write/write_priv.h"
#include "store/store.h"

/*
 * POST …?wait=Ready, an extension of ours: the answer comes when the Ready condition of the new
 * object is True, with the object as it is then, or after timeoutSeconds (30) in its current state.
 * The object is followed through a watch, so that what is shown is committed.
 */
enum {
	WAIT_S = 30,
	WAIT_MAX_S = 600,
};

struct waiter {
	struct list link; /* of waiters->list */
	const struct objects *objects;
	struct call *call;
	struct object *last; /* the newest committed state */
	struct store_watch *watch;
	struct timer *timer;
};

static void waiter_free(struct waiter *w)
{
	list_del(&w->link);
	store_watch_free(w->watch);
	timer_free(w->timer);
	object_unref(w->last);
	call_unref(w->call);
	free(w);
}

void waiters_init(struct waiters *ws, const struct objects *objects, struct loop *l)
{
	*ws = (struct waiters){ .objects = objects, .loop = l };
	list_init(&ws->list);
}

void waiters_done(struct waiters *ws)
{
	struct waiter *w, *next;

	list_each_safe(w, next, &ws->list, link)
		waiter_free(w);
}

/* Answers with e, or with the object. Frees the waiter. */
static void answer(struct waiter *w, struct err *e)
{
	struct bytes *text = NULL;
	struct render how;

	if (!e && w->call->req)
		e = render_of(w->call, &how);
	if (e)
		call_fail(w->call, e);
	else if (w->call->req && !(e = render_text(&how, w->last, &text)))
		call_reply_bytes(w->call, STATUS_CREATED, text);
	else if (e)
		call_fail(w->call, e);
	waiter_free(w);
}

static bool is_ready(const struct object *o)
{
	return conditions_true(json_get(object_status(o), "conditions"), "Ready");
}

/* False: its kind is not served any more. */
static bool next_state(struct waiter *w, struct store_entry *en)
{
	struct object *o = objects_of_entry(w->objects, en);

	if (!o)
		return false;
	object_unref(w->last);
	w->last = o;
	return true;
}

static void on_wake(void *arg)
{
	struct waiter *w = arg;
	struct store_event ev;
	bool have = true;
	struct err *e;

	for (;;) {
		e = store_watch_next(w->watch, &ev, &have);
		if (e || !have)
			break;
		if (ev.type == STORE_DELETED || !next_state(w, ev.entry))
			e = err_absent(w->call->kind, w->last->name);
		if (e)
			break;
	}
	if (e || !w->call->req || is_ready(w->last))
		answer(w, e);
}

static void on_timeout(void *arg)
{
	struct waiter *w = arg;

	/* What is not committed is not shown. */
	if (w->last->rev > store_committed_rev(w->objects->store))
		answer(w, err_new(ERR_UNAVAILABLE, "wait for Ready: the write is not on disk yet"));
	else
		answer(w, NULL);
}

struct err *wait_read(struct call *c, uint64_t *ret_s)
{
	const char *wait = call_query(c, "wait");

	*ret_s = 0;
	if (str_empty(wait))
		return NULL;
	if (!str_eq(wait, "Ready"))
		return err_new(ERR_MALFORMED,
			       "wait: Unsupported value: \"%s\": supported values: \"Ready\"",
			       wait);
	*ret_s = WAIT_S;
	return call_query_uint(c, "timeoutSeconds", WAIT_MAX_S, ret_s);
}

void wait_ready(struct waiters *ws, struct call *c, struct object *o, uint64_t wait_s)
{
	autofree char *key = key_of(o->kind, o->ns, o->name);
	struct waiter *w = xnew(struct waiter);
	struct err *e;

	w->objects = ws->objects;
	w->call = call_ref(c);
	w->last = object_ref(o);
	list_add_tail(&ws->list, &w->link);
	e = store_watch_new(ws->objects->store, key, o->rev - 1, (struct store_wake){ on_wake, w },
			    &w->watch);
	if (e) {
		answer(w, e);
		return;
	}
	w->timer = timer_new(ws->loop, on_timeout, w);
	timer_set(w->timer, wait_s * 1000);
}
