/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/pod/pod_priv.h"

/*
 * Events are written a moment later, so that no Pod's start waits for them, and no more often than
 * a token bucket allows: what does not fit is dropped, ordinary events before warnings.
 */
enum {
	DELAY_MS = 50,
	BURST = 100,
	PER_SECOND = 50,
	QUEUE_MAX = 1000,
};

struct queued {
	struct list on;
	struct json_doc *doc;
	char *ns;
};

struct events {
	struct pods *pods;
	const struct kind *kind;
	struct timer *timer;
	struct list queue;
	unsigned n;
	double tokens;
	usec filled;
};

static void queued_free(struct queued *q)
{
	list_del(&q->on);
	json_doc_free(q->doc);
	free(q->ns);
	free(q);
}

static void on_timer(void *arg)
{
	struct events *ev = arg;
	usec now = clock_mono();
	struct queued *q, *next;

	ev->tokens = MIN(ev->tokens + (double)(now - ev->filled) * PER_SECOND / 1e6, (double)BURST);
	ev->filled = now;
	list_each_safe(q, next, &ev->queue, on) {
		if (ev->tokens < 1)
			break;
		ev->tokens -= 1;
		client_create(ev->pods->client,
			      &(struct client_ref){ .kind = ev->kind, .ns = q->ns }, take(q->doc),
			      NULL);
		queued_free(q);
		ev->n--;
	}
	if (ev->n)
		timer_set(ev->timer, 200);
}

struct events *events_new(struct pods *ps)
{
	struct events *ev = xnew(struct events);

	ev->pods = ps;
	ev->kind = kinds_need(client_kinds(ps->client), "v1", "Event");
	ev->timer = timer_new(ps->loop, on_timer, ev);
	ev->tokens = BURST;
	ev->filled = clock_mono();
	list_init(&ev->queue);
	return ev;
}

void events_free(struct events *ev)
{
	struct queued *q, *next;

	if (!ev)
		return;
	list_each_safe(q, next, &ev->queue, on)
		queued_free(q);
	timer_free(ev->timer);
	free(ev);
}

void pod_event(struct pod *p, bool warning, const char *reason, const char *fmt, ...)
{
	struct events *ev = p->pods->events;
	autobuf text = { 0 };
	struct queued *q;
	va_list ap;

	if (ev->n >= (warning ? QUEUE_MAX : QUEUE_MAX / 2))
		return;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	q = xnew(struct queued);
	q->doc = node_event_doc(&(struct node_event){ .about = p->obj,
						      .warning = warning,
						      .reason = reason,
						      .message = buf_str(&text),
						      .node = ev->pods->node_name,
						      .now = pods_wall(ev->pods) });
	q->ns = xstrdup(node_event_ns(p->obj));
	list_add_tail(&ev->queue, &q->on);
	ev->n++;
	if (!timer_armed(ev->timer))
		timer_set(ev->timer, DELAY_MS);
}

void events_flush(struct events *ev)
{
	on_timer(ev);
}
