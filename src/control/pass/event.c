/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pass/event.h"

#include "api/event.h"
#include "api/object.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/pass/context.h"
#include "control/pass/item.h"
#include "control/pass/keys.h"
#include "control/pass/pass.h"

#define INSTANCE "cay"

enum {
	LATER_MS = 10,
	BATCH = 16,           /* then other work gets its turn */
	WAITING_MOST = 10000, /* more are dropped */
};

struct event_queue {
	struct context *c;
	struct list waiting; /* struct pending.link, the oldest first */
	struct list sent;    /* and not answered yet */
	size_t n_waiting;
	void (*flushed)(void *arg); /* NULL: nobody waits for that */
	void *arg;
};

struct pending {
	struct list link;
	struct event_queue *q;
	struct client_write write;
	struct json_doc *event;
	char *ns;
};

struct json_doc *event_build(const struct event_spec *s, usec now)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta;
	char stamp[CLOCK_TEXT_MAX];

	clock_format_micro(now, stamp);
	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", API_EVENT);
	json_set_str(d, root, "kind", "Event");
	meta = json_need_obj(d, root, "metadata");
	json_set(d, meta, "name", event_name(d, s->about->name));
	json_set_str(d, meta, "namespace", s->about->ns);
	json_set_str(d, root, "eventTime", stamp);
	json_set_str(d, root, "reportingController", s->who);
	json_set_str(d, root, "reportingInstance", INSTANCE);
	json_set_str(d, root, "action", s->action);
	json_set_str(d, root, "reason", s->reason);
	json_set(d, root, "regarding", event_about(d, s->about));
	json_set(d, root, "note", event_text(d, s->note));
	json_set_str(d, root, "type", s->type);
	return d;
}

static void pending_free(struct pending *e)
{
	client_cancel(&e->write);
	list_del(&e->link);
	json_doc_free(e->event);
	free(e->ns);
	free(e);
}

static void wake(struct event_queue *q, uint64_t ms)
{
	item_wake_later(q->c->chores, &(struct key){ CONTROL_EVENTS, "", "" }, ms);
}

static void settle(struct event_queue *q)
{
	void (*flushed)(void *arg) = q->flushed;

	if (!list_empty(&q->sent))
		return;
	if (q->n_waiting) {
		wake(q, 1);
	} else if (flushed) {
		q->flushed = NULL;
		flushed(q->arg);
	}
}

static void on_answer(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct pending *sent = container_of(w, struct pending, write);
	struct event_queue *q = sent->q;

	if (e)
		log_debug("event was refused, dropping it", KV("err", e));
	err_free(e);
	pending_free(sent);
	settle(q);
}

static void send_first(struct event_queue *q)
{
	struct pending *e = list_first(&q->waiting, struct pending, link);
	const struct client_ref to = { .kind = q->c->kinds.event, .ns = e->ns };

	list_del(&e->link);
	list_add_tail(&q->sent, &e->link);
	q->n_waiting--;
	client_create(q->c->client, &to, take(e->event), &e->write); /* e may be gone now */
}

static void send_all(struct event_queue *q)
{
	while (q->n_waiting)
		send_first(q);
}

void event_send(struct context *c, struct json_doc *event)
{
	struct event_queue *q = c->events;
	struct pending *e;

	if (!event)
		return;
	if (q->n_waiting == WAITING_MOST) {
		log_debug("too many events wait to be written, dropping one");
		json_doc_free(event);
		return;
	}
	e = xnew(struct pending);
	e->q = q;
	e->write.done = on_answer;
	e->event = event;
	e->ns = xstrdup(json_get_str(json_get(json_root(event), "metadata"), "namespace"));
	list_add_tail(&q->waiting, &e->link);
	if (!q->n_waiting++)
		wake(q, LATER_MS);
}

/* Those of a batch may overtake each other on their way to an API server; the next batch waits for
 * them. */
struct again event_reconcile(struct pass *p)
{
	struct event_queue *q = p->c->events;

	if (!list_empty(&q->sent))
		return again_never(); /* the last answer wakes us */
	for (unsigned n = 0; n < BATCH && q->n_waiting; n++)
		send_first(q);
	return again_never();
}

struct event_queue *event_queue_new(struct context *c)
{
	struct event_queue *q = xnew(struct event_queue);

	q->c = c;
	list_init(&q->waiting);
	list_init(&q->sent);
	return q;
}

void event_queue_flush(struct event_queue *q, void (*done)(void *arg), void *arg)
{
	send_all(q);
	q->flushed = done;
	q->arg = arg;
	settle(q);
}

void event_queue_free(struct event_queue *q)
{
	if (!q)
		return;
	send_all(q);
	while (!list_empty(&q->sent))
		pending_free(list_first(&q->sent, struct pending, link));
	free(q);
}
