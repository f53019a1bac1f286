/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pump.h"

#include <assert.h>

#include "base/buf.h"
#include "loop/loop.h"
#include "net/conn.h"

/*
 * Each side's input becomes the other side's output; a full output pauses the input that fills it.
 */
enum {
	FLUSH_MS = 10 * 1000, /* the last bytes for a peer must make progress within this time */
};

struct pump_side {
	struct pump *pump;
	struct pump_side *other;
	struct conn *conn;
	bool closed;
};

struct pump {
	struct pump_side side[2];
	void (*done)(void *arg);
	void *arg;
	uint64_t half_open_ms;
	usec ended;          /* when a side first did; 0: both are open */
	struct timer *timer; /* created when first needed */
	uint64_t *from;      /* pump_count(); NULL: nobody wants to know */
};

void pump_free(struct pump *p)
{
	if (!p)
		return;
	conn_free(p->side[0].conn);
	conn_free(p->side[1].conn);
	timer_free(p->timer);
	free(p);
}

static void pump_done(struct pump *p)
{
	void (*done)(void *arg) = p->done;
	void *arg = p->arg;

	pump_free(p);
	done(arg);
}

static void on_data(void *arg, struct buf *in)
{
	struct pump_side *s = arg;
	struct conn *to = s->other->conn;

	if (s->pump->from)
		s->pump->from[s - s->pump->side] += in->len;
	conn_write(to, buf_head(in), in->len);
	buf_eat(in, in->len);
	if (conn_full(to))
		conn_pause(s->conn, true);
}

static void on_timer(void *arg);

/* The timer is not moved with every byte: when it fires too early, it is set again. */
static void arm(struct pump *p)
{
	usec now = clock_mono(), at = p->ended;

	if (!p->half_open_ms)
		return;
	for (int i = 0; i < 2; i++)
		at = MAX(at, conn_moved(p->side[i].conn));
	at += (usec)p->half_open_ms * 1000;
	if (!p->timer)
		p->timer = timer_new(conn_loop(p->side[0].conn), on_timer, p);
	if (at > now)
		timer_set(p->timer, (uint64_t)(at - now + 999) / 1000);
}

static void on_timer(void *arg)
{
	struct pump *p = arg;

	arm(p);
	if (!timer_armed(p->timer))
		pump_done(p);
}

static void on_eof(void *arg)
{
	struct pump_side *s = arg;
	struct pump *p = s->pump;

	conn_end(s->other->conn);
	if (p->ended)
		return;
	p->ended = clock_mono();
	arm(p);
}

static void on_drained(void *arg)
{
	struct pump_side *s = arg;

	conn_pause(s->other->conn, false);
}

/*
 * When one side breaks, the other is closed too, but only after the bytes that were on their way to
 * it.
 */
static void on_closed(void *arg, const struct err *e)
{
	struct pump_side *s = arg;

	s->closed = true;
	if (s->other->closed) {
		pump_done(s->pump);
	} else if (e) {
		conn_close_after_flush(s->other->conn);
		conn_set_stall_ms(s->other->conn, FLUSH_MS);
	}
}

void pump_count(struct pump *p, uint64_t from[2])
{
	p->from = from;
}

void pump_set_half_open_ms(struct pump *p, uint64_t ms)
{
	p->half_open_ms = ms;
}

struct pump *pump_start(struct conn *a, struct conn *b, void (*done)(void *arg), void *arg)
{
	static const struct conn_events events = {
		.data = on_data,
		.eof = on_eof,
		.drained = on_drained,
		.closed = on_closed,
	};
	struct pump *p = xnew(struct pump);

	p->done = done;
	p->arg = arg;
	p->side[0] = (struct pump_side){ .pump = p, .other = &p->side[1], .conn = a };
	p->side[1] = (struct pump_side){ .pump = p, .other = &p->side[0], .conn = b };
	for (int i = 0; i < 2; i++) {
		conn_pause(p->side[i].conn, false);
		conn_set_events(p->side[i].conn, &events, &p->side[i]);
	}
	return p;
}
