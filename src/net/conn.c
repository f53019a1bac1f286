/* SPDX-License-Identifier: Apache-2.0 */
#include "net/conn.h"

#include <assert.h>

#include "loop/loop.h"
#include "net/stream.h"

/*
 * Everything happens in conn_run(), which is started by the descriptor, the timer or a deferred
 * call: send, read, tell the owner, decide what to poll for. The functions that the owner calls
 * only change fields and schedule a run, so the writes of one turn leave together and no callback
 * comes from inside a call.
 *
 * Closing after a flush lingers: closing a socket with unread input resets the connection, and the
 * reset could overtake our last answer. So input is read and dropped until the peer ends too, for a
 * second at most.
 */
enum {
	IN_MAX = CONN_IN_MAX,
	IN_FIRST = 1000,  /* most turns bring a small request, and the allocator has this at hand */
	OUT_FIRST = 1000, /* likewise: a head, and a small body after it */
	IN_BULK = 16 * 1024, /* where the last turn brought more; a full TLS record fits */
	OUT_HIGH = 256 * 1024,
	OUT_CORK = 64 * 1024,   /* at this size output is sent before the end of the turn */
	OUT_DIRECT = 16 * 1024, /* from this size on, avoiding a copy is worth a system call */
	BUDGET = 64 * 1024,
	LINGER_MS = 1000,
};

enum conn_state {
	CONN_OPEN,
	CONN_FLUSHING,  /* no more callbacks except closed(); input is dropped */
	CONN_LINGERING, /* our end has been sent; waiting for the peer's */
	CONN_DEAD,
	CONN_STATE_MAX_,
};

static const unsigned conn_next[CONN_STATE_MAX_] = {
	[CONN_OPEN] = B(CONN_FLUSHING) | B(CONN_DEAD),
	[CONN_FLUSHING] = B(CONN_LINGERING) | B(CONN_DEAD),
	[CONN_LINGERING] = B(CONN_DEAD),
	[CONN_DEAD] = 0,
};

struct conn {
	struct loop *loop;
	struct stream *stream;
	struct watch *watch;
	struct timer *timer; /* created when first needed */
	struct conn_events ev;
	void *arg;
	struct buf in, out;
	struct buf cuts; /* uint64_t: how much was written until each conn_cut(), while unsent */
	uint64_t n_sent;
	struct err *err;
	enum conn_state state;
	unsigned polled; /* what the watch was last told */
	struct deferred run;
	bool running, freed; /* freed by a callback: destroyed when the run ends */
	bool paused, offer;  /* offer: `in` has bytes that the owner has not seen */
	bool eof, eof_told;
	bool ending, ended; /* our end: requested, sent */
	bool blocked;       /* the socket accepted less than we had */
	bool bulk;          /* the last read brought as much as a small request at least */
	bool was_full, closed_told;
	uint64_t idle_ms, stall_ms;
	size_t high;                    /* of out */
	usec moved, sent, linger_until; /* last byte in either direction; last byte out */
	usec answer_by;                 /* 0: never */
	usec armed_for;                 /* of the timer */
	usec works_since, worked;       /* in another thread; since 0: it does not, now */
};

static void conn_destroy(struct conn *c)
{
	buf_done(&c->in);
	buf_done(&c->out);
	buf_done(&c->cuts);
	free(c);
}

static void conn_enter(struct conn *c, enum conn_state next)
{
	assert(c->state < CONN_STATE_MAX_ && conn_next[c->state] & B(next));
	if (next == CONN_FLUSHING)
		c->ending = true;
	if (next == CONN_LINGERING)
		c->linger_until = clock_mono() + LINGER_MS * 1000;
	if (next == CONN_DEAD)
		buf_done(&c->out);
	c->state = next;
}

static void conn_schedule(struct conn *c)
{
	deferred_call(&c->run);
}

static bool conn_reads(const struct conn *c)
{
	switch (c->state) {
	case CONN_OPEN:
		return !c->eof && !c->paused && c->in.len < IN_MAX;
	case CONN_FLUSHING:
	case CONN_LINGERING:
		return !c->eof;
	case CONN_DEAD:
	case CONN_STATE_MAX_:
		break;
	}
	return false;
}

static bool conn_sends(const struct conn *c)
{
	return c->state != CONN_DEAD && (c->out.len || (c->ending && !c->ended));
}

/*
 * The only place that decides what we poll for. A stream in the middle of a handshake says itself
 * what it waits for. Bytes that it has already decrypted do not make the descriptor readable, so we
 * poll for writing instead: an idle socket is writable, which brings us back here in the next turn.
 */
static unsigned conn_wants(const struct conn *c)
{
	bool reads = conn_reads(c), sends = conn_sends(c);
	unsigned want;

	if (!reads && !sends)
		return 0;
	want = c->stream->ops->wants(c->stream);
	if (want)
		return want & (WATCH_READ | WATCH_WRITE);
	if (reads)
		want |= WATCH_READ;
	if (sends || (reads && c->stream->ops->pending(c->stream)))
		want |= WATCH_WRITE;
	return want;
}

usec conn_worked(const struct conn *c)
{
	return c->worked + (c->works_since ? clock_mono() - c->works_since : 0);
}

static void conn_count_work(struct conn *c)
{
	bool works = c->stream->ops->wants(c->stream) == STREAM_WORKS;

	if (works == (c->works_since != 0))
		return;
	c->worked = conn_worked(c);
	c->works_since = works ? clock_mono() : 0;
}

/*
 * After a failed write, what the peer sent earlier is still to be read, so only conn_run() changes
 * the state.
 */
static void conn_fail(struct conn *c, struct err *e)
{
	if (c->err)
		err_free(e);
	else
		c->err = e;
}

static size_t conn_send(struct conn *c, const char *p, size_t len)
{
	struct err *e = NULL;
	size_t done = 0;
	ssize_t n = 0;

	while (done < len && !c->err) {
		n = c->stream->ops->write(c->stream, p + done, len - done, &e);
		if (n < 0)
			break;
		done += (size_t)n;
	}
	if (n == STREAM_AGAIN)
		c->blocked = true;
	else if (n < 0)
		conn_fail(c, n == STREAM_FAILED
				     ? e
				     : err_new(ERR_UNAVAILABLE, "the connection is closed"));
	if (done)
		c->sent = c->moved = clock_mono();
	c->n_sent += done;
	return done;
}

/* How much of the output may be written at once: up to the next cut. */
static size_t conn_piece(struct conn *c)
{
	uint64_t cut;

	for (; c->cuts.len; buf_eat(&c->cuts, sizeof(cut))) {
		memcpy(&cut, buf_head(&c->cuts), sizeof(cut));
		if (cut > c->n_sent)
			return (size_t)(cut - c->n_sent);
	}
	return c->out.len;
}

static void conn_flush(struct conn *c)
{
	while (c->out.len && !c->blocked && !c->err)
		buf_eat(&c->out, conn_send(c, buf_head(&c->out), conn_piece(c)));
	if (c->out.len || c->err)
		return;
	if (c->ending && !c->ended)
		c->ended = c->stream->ops->shutdown(c->stream);
	if (c->ended && c->state == CONN_FLUSHING)
		conn_enter(c, CONN_LINGERING);
}

/* One read; false if nothing more can be read now. */
static bool conn_fill_once(struct conn *c, size_t *budget)
{
	size_t want = MIN(*budget, (size_t)IN_MAX - c->in.len);
	struct err *e = NULL;
	char *to;
	ssize_t n;

	if (!c->in.len)
		want = MIN(want, (size_t)(c->bulk ? IN_BULK : IN_FIRST));
	to = buf_reserve(&c->in, want);
	n = c->stream->ops->read(c->stream, to, want, &e);
	if (n == STREAM_EOF)
		c->eof = true;
	if (n == STREAM_FAILED)
		conn_fail(c, e);
	if (n <= 0)
		return false;

	c->bulk = (size_t)n >= IN_FIRST;
	*budget -= (size_t)n;
	c->moved = clock_mono();
	if (c->state == CONN_OPEN) {
		buf_wrote(&c->in, (size_t)n);
		c->offer = true;
	}
	/* A short read has emptied the socket; another read would only return EAGAIN. */
	return (size_t)n == want || c->stream->ops->pending(c->stream);
}

static void conn_fill(struct conn *c)
{
	size_t budget = BUDGET;

	if (c->state != CONN_OPEN)
		buf_clear(&c->in);
	while (budget && conn_reads(c) && conn_fill_once(c, &budget))
		;
}

/* State changes that follow from what was read and sent. */
static void conn_settle(struct conn *c)
{
	if (c->state == CONN_DEAD)
		return;
	if (c->err || (c->state == CONN_LINGERING && c->eof))
		conn_enter(c, CONN_DEAD);
	else if (c->state == CONN_OPEN && c->eof_told && c->ended)
		conn_enter(c, CONN_DEAD);
}

static bool conn_tell_data(struct conn *c)
{
	if (!c->offer || !c->in.len || c->paused)
		return false;
	if (c->state != CONN_OPEN && c->state != CONN_DEAD)
		return false;
	c->offer = false;
	c->ev.data(c->arg, &c->in);
	return true;
}

static bool conn_tell_eof(struct conn *c)
{
	if (!c->eof || c->eof_told || c->state != CONN_OPEN || (c->paused && c->in.len))
		return false;
	c->eof_told = true;
	if (c->ev.eof)
		c->ev.eof(c->arg);
	else
		conn_close_after_flush(c);
	return true;
}

static bool conn_tell_drained(struct conn *c)
{
	if (!c->was_full || c->out.len > c->high / 4 || c->state != CONN_OPEN)
		return false;
	c->was_full = false;
	if (c->ev.drained)
		c->ev.drained(c->arg);
	return true;
}

static bool conn_tell_closed(struct conn *c)
{
	if (c->state != CONN_DEAD || c->closed_told)
		return false;
	c->closed_told = true;
	c->ev.closed(c->arg, c->err);
	return true;
}

static void conn_tell(struct conn *c)
{
	while (!c->freed) {
		if (!conn_tell_data(c) && !conn_tell_eof(c) && !conn_tell_drained(c) &&
		    !conn_tell_closed(c))
			break;
		if (!c->freed)
			conn_settle(c);
	}
}

/* The earliest time at which silence has consequences; 0 if there is none. */
static usec conn_deadline(const struct conn *c)
{
	usec at = 0, stall;

	if (c->state == CONN_DEAD)
		return 0;
	if (c->state == CONN_LINGERING)
		return c->linger_until;
	if (c->idle_ms)
		at = c->moved + (usec)c->idle_ms * 1000;
	stall = c->sent + (usec)c->stall_ms * 1000;
	if (c->stall_ms && c->out.len && (!at || stall < at))
		at = stall;
	if (c->answer_by && (!at || c->answer_by < at))
		at = c->answer_by;
	return at;
}

static void conn_run(struct conn *c, bool readable);

static void conn_timer(void *arg)
{
	struct conn *c = arg;
	usec at = conn_deadline(c);

	if (at && at <= clock_mono()) {
		if (c->state != CONN_LINGERING)
			conn_fail(c, err_new(ERR_TIMEOUT,
					     "the connection was idle or stalled for too long"));
		conn_enter(c, CONN_DEAD);
	}
	conn_run(c, false);
}

/*
 * The timer is not moved with every byte or request: it may fire early, and is set again then if
 * there is still something to wait for.
 */
static void conn_arm(struct conn *c)
{
	usec at = conn_deadline(c), now;

	if (!at || (c->timer && timer_armed(c->timer) && c->armed_for <= at))
		return;
	now = clock_mono();
	c->armed_for = at;
	if (!c->timer)
		c->timer = timer_new(c->loop, conn_timer, c);
	timer_set(c->timer, at > now ? (uint64_t)(at - now + 999) / 1000 : 0);
}

static void conn_trim(struct conn *c)
{
	if (!c->in.len)
		buf_done(&c->in);
	if (!c->out.len) {
		buf_done(&c->out);
		buf_done(&c->cuts);
	}
}

/*
 * Changing what is polled for costs more than a read: skip it if the run at the end of the turn
 * will change it again.
 */
static void conn_poll(struct conn *c)
{
	unsigned want = conn_wants(c);

	if (deferred_pending(&c->run) || want == c->polled)
		return;
	watch_want(c->watch, want);
	c->polled = want;
}

static void conn_run(struct conn *c, bool readable)
{
	c->running = true;
	if (c->state != CONN_DEAD) {
		conn_flush(c);
		if (conn_reads(c) && (readable || c->err))
			conn_fill(c);
		conn_settle(c);
	}
	conn_tell(c);
	if (!c->freed) {
		conn_trim(c);
		conn_count_work(c);
		conn_arm(c);
		conn_poll(c);
	}
	c->running = false;
	if (c->freed)
		conn_destroy(c);
}

static void conn_scheduled(void *arg)
{
	conn_run(arg, false);
}

static void conn_ready(void *arg, unsigned ready)
{
	struct conn *c = arg;
	bool own = c->stream->ops->wants(c->stream);

	if (own || (ready & WATCH_WRITE))
		c->blocked = false;
	conn_run(c, own || (ready & WATCH_READ) || c->stream->ops->pending(c->stream));
}

/* The stream is ready to be used, or waits for its peer. */
static void conn_woken(void *arg)
{
	struct conn *c = arg;
	bool usable = !c->stream->ops->wants(c->stream);

	if (usable)
		c->blocked = false;
	conn_run(c, usable);
}

struct conn *conn_new(struct loop *l, struct stream *s, const struct conn_events *ev, void *arg)
{
	struct conn *c = xnew(struct conn);

	c->loop = l;
	c->stream = s;
	c->ev = *ev;
	c->arg = arg;
	c->high = OUT_HIGH;
	c->moved = c->sent = clock_mono();
	c->watch = watch_new(l, s->fd, conn_ready, c);
	if (s->ops->attach)
		s->ops->attach(s, l, conn_woken, c);
	deferred_init(&c->run, l, conn_scheduled, c);
	conn_schedule(c);
	return c;
}

void conn_free(struct conn *c)
{
	if (!c)
		return;
	assert(!c->freed);
	c->freed = true;
	deferred_cancel(&c->run);
	watch_free(c->watch);
	timer_free(c->timer);
	stream_free(c->stream);
	err_free(c->err);
	if (!c->running)
		conn_destroy(c);
}

void conn_set_events(struct conn *c, const struct conn_events *ev, void *arg)
{
	c->ev = *ev;
	c->arg = arg;
	c->offer = c->in.len > 0;
	c->eof_told = false;
	conn_schedule(c);
}

void conn_write(struct conn *c, const void *p, size_t len)
{
	size_t done = 0;

	if (c->state != CONN_OPEN || c->ending || c->err || !len)
		return;
	if (!c->out.len) {
		c->sent = clock_mono();
		if (len >= OUT_DIRECT && !c->blocked)
			done = conn_send(c, p, len);
	}
	if (done < len && !c->out.cap)
		(void)buf_reserve(&c->out, MAX(len - done, (size_t)OUT_FIRST));
	if (done < len)
		buf_add(&c->out, (const char *)p + done, len - done);
	if (c->out.len >= OUT_CORK && !c->err)
		conn_flush(c);
	if (c->out.len >= c->high)
		c->was_full = true;
	conn_schedule(c);
}

void conn_cut(struct conn *c)
{
	uint64_t here = c->n_sent + c->out.len;

	if (c->out.len)
		buf_add(&c->cuts, &here, sizeof(here));
}

bool conn_full(const struct conn *c)
{
	return c->out.len >= c->high;
}

void conn_set_high(struct conn *c, size_t high)
{
	c->high = high ? high : OUT_HIGH;
	c->was_full = c->out.len >= c->high;
}

size_t conn_unsent(const struct conn *c)
{
	return c->out.len;
}

void conn_pause(struct conn *c, bool paused)
{
	if (c->paused == paused)
		return;
	c->paused = paused;
	if (paused)
		return;
	c->offer = c->in.len > 0;
	conn_schedule(c);
}

void conn_end(struct conn *c)
{
	if (c->state != CONN_OPEN || c->ending)
		return;
	c->ending = true;
	conn_schedule(c);
}

void conn_close_after_flush(struct conn *c)
{
	if (c->state != CONN_OPEN)
		return;
	conn_enter(c, CONN_FLUSHING);
	conn_schedule(c);
}

void conn_set_idle_ms(struct conn *c, uint64_t ms)
{
	c->idle_ms = ms;
	if (ms)
		c->moved = clock_mono();
	conn_schedule(c);
}

void conn_set_stall_ms(struct conn *c, uint64_t ms)
{
	c->stall_ms = ms;
	conn_schedule(c);
}

void conn_set_answer_ms(struct conn *c, uint64_t ms)
{
	c->answer_by = ms ? clock_mono() + (usec)ms * 1000 : 0;
	if (ms)
		conn_schedule(c);
}

usec conn_moved(const struct conn *c)
{
	return c->moved;
}

struct buf *conn_in(struct conn *c)
{
	return &c->in;
}

void conn_ate(struct conn *c)
{
	conn_schedule(c);
}

struct stream *conn_stream(struct conn *c)
{
	return c->stream;
}

struct loop *conn_loop(struct conn *c)
{
	return c->loop;
}
