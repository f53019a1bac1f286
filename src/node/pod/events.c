/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/pod/pod_priv.h"

/*
 * Events are written a moment later, so that no Pod's start waits for them, and no more often than
 * a token bucket allows: what does not fit is dropped, ordinary events before warnings. Ordinary
 * ones are for whoever looks at the Pod. So nothing is written of the start of one that was made
 * ahead, whose status says the same, nor of one that is gone by then.
 */
enum {
	DELAY_MS = 50,
	BURST = 100,
	PER_SECOND = 50,
	QUEUE_MAX = 1000,
};

struct queued {
	struct list on;
	struct object *about;
	bool warning;
	const char *reason; /* static */
	char *message;
	usec at;  /* wall clock */
	usec due; /* clock_mono() */
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
	object_unref(q->about);
	free(q->message);
	free(q);
}

static bool is_of_use(const struct events *ev, const struct queued *q)
{
	const struct pod *p = map_get(ev->pods->pods, q->about->uid);

	return q->warning || !str_eq(q->about->kind->kind, "Pod") || (p && !p->gone);
}

static void write_event(const struct events *ev, const struct queued *q)
{
	const struct client_ref ref = { .kind = ev->kind, .ns = node_event_ns(q->about) };
	const struct node_event e = { .about = q->about,
				      .warning = q->warning,
				      .reason = q->reason,
				      .message = q->message,
				      .node = ev->pods->node_name,
				      .now = q->at };

	client_create(ev->pods->client, &ref, node_event_doc(&e), NULL);
}

/* Those that are due, in their order. */
static void write_until(struct events *ev, usec due)
{
	usec now = clock_mono();
	struct queued *q, *next;

	ev->tokens = MIN(ev->tokens + (double)(now - ev->filled) * PER_SECOND / 1e6, (double)BURST);
	ev->filled = now;
	list_each_safe(q, next, &ev->queue, on) {
		bool use = is_of_use(ev, q);

		if (q->due > due || (use && ev->tokens < 1))
			break;
		if (use) {
			ev->tokens -= 1;
			write_event(ev, q);
		}
		queued_free(q);
		ev->n--;
	}
	if (ev->n)
		timer_set(ev->timer, ev->tokens < 1 ? 200 : DELAY_MS);
}

static void on_timer(void *arg)
{
	write_until(arg, clock_mono());
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

void events_add(struct events *ev, struct object *about, bool warning, const char *reason,
		const char *message)
{
	struct queued *q;

	if (ev->n >= (warning ? QUEUE_MAX : QUEUE_MAX / 2))
		return;
	q = xnew(struct queued);
	q->about = object_ref(about);
	q->warning = warning;
	q->reason = reason;
	q->message = xstrdup(message);
	q->at = pods_wall(ev->pods);
	q->due = clock_mono() + DELAY_MS * 1000;
	list_add_tail(&ev->queue, &q->on);
	ev->n++;
	if (!timer_armed(ev->timer))
		timer_set(ev->timer, DELAY_MS);
}

void pod_event(struct pod *p, bool warning, const char *reason, const char *fmt, ...)
{
	autobuf text = { 0 };
	va_list ap;

	if (!warning && pod_made_ahead(p))
		return;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	events_add(p->pods->events, p->obj, warning, reason, buf_str(&text));
}

void events_flush(struct events *ev)
{
	write_until(ev, INT64_MAX);
}
