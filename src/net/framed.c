/* SPDX-License-Identifier: Apache-2.0 */
#include "net/framed.h"

#include <assert.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "loop/loop.h"

/*
 * The descriptor starts the reading. Everything else happens in one deferred call at the end of the
 * turn: frames left over from a pause, sending, and deciding what to poll for. The functions that
 * the owner calls only change fields and request that call.
 *
 * A turn passes on FRAMES_MAX frames; the rest waits for the next turn, and nothing more is read
 * until then. So a peer that floods us with tiny frames does not keep the loop from the others.
 */
enum {
	OUT_HIGH = 256 * 1024,
	OUT_LOW = 64 * 1024,
	READ_MIN = 512,
	READ_MAX = 64 * 1024, /* per callback */
	FRAMES_MAX = 128,     /* per turn */
};

struct framed {
	const struct framed_events *ev;
	void *arg;
	struct loop *loop;
	int fd;
	struct watch *watch;
	struct timer *next_turn; /* made when it is needed first */
	struct deferred settle;
	struct buf in, out;
	bool paused;
	bool resting;     /* this turn's frames were passed on, and there are more */
	bool was_full;    /* drained() is due */
	bool over;        /* closed() was called */
	bool busy, freed; /* freed by a callback: destroyed when it returns */
};

static void destroy(struct framed *f)
{
	buf_done(&f->in);
	buf_done(&f->out);
	free(f);
}

static void enter(struct framed *f)
{
	f->busy = true;
}

static void leave(struct framed *f)
{
	f->busy = false;
	if (f->freed)
		destroy(f);
}

/* The only place that decides what is polled for. */
static void poll_for(struct framed *f)
{
	unsigned want = 0;

	if (!f->paused && !f->resting)
		want |= WATCH_READ;
	if (f->out.len)
		want |= WATCH_WRITE;
	watch_want(f->watch, want);
}

/* Takes ownership of e. */
static void fail(struct framed *f, struct err *e)
{
	f->over = true;
	deferred_cancel(&f->settle);
	if (f->next_turn)
		timer_clear(f->next_turn);
	watch_want(f->watch, 0);
	f->ev->closed(f->arg, e);
}

static void on_next_turn(void *arg)
{
	struct framed *f = arg;

	f->resting = false;
	deferred_call(&f->settle);
}

static void rest(struct framed *f)
{
	f->resting = true;
	if (!f->next_turn)
		f->next_turn = timer_new(f->loop, on_next_turn, f);
	timer_set(f->next_turn, 0);
}

/* Passes on complete frames, until the owner pauses or frees the connection. */
static struct err *take_frames(struct framed *f)
{
	unsigned n = 0;

	while (f->in.len && !f->paused && !f->resting) {
		size_t used = 0;
		struct err *e;

		if (n++ == FRAMES_MAX) {
			rest(f);
			break;
		}
		e = f->ev->frame(f->arg, buf_head(&f->in), f->in.len, &used);

		if (f->freed) {
			err_free(e);
			return NULL;
		}
		if (e)
			return e;
		if (!used)
			break;
		buf_eat(&f->in, used);
	}
	if (!f->in.len)
		buf_done(&f->in);
	return NULL;
}

/*
 * Reserves as much space as there are bytes: most frames are short, and an idle connection should
 * be small.
 */
static struct err *read_some(struct framed *f)
{
	int waiting = 0;
	size_t want;
	ssize_t n;

	(void)ioctl(f->fd, FIONREAD, &waiting); /* only a hint */
	want = MIN((size_t)MAX(waiting, READ_MIN), (size_t)READ_MAX);
	n = recv(f->fd, buf_reserve(&f->in, want), want, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return NULL;
	if (n < 0)
		return err_sys(errno, "read from peer");
	if (n == 0)
		return err_new(ERR_UNAVAILABLE, "the peer closed the connection");
	buf_wrote(&f->in, (size_t)n);
	return NULL;
}

static struct err *send_some(struct framed *f)
{
	ssize_t n;

	if (!f->out.len)
		return NULL;
	n = send(f->fd, buf_head(&f->out), f->out.len, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return err_sys(errno, "write to peer");
	if (n > 0)
		buf_eat(&f->out, (size_t)n);
	if (!f->out.len)
		buf_done(&f->out);
	return NULL;
}

static void tell_drained(struct framed *f)
{
	if (!f->was_full || f->out.len >= OUT_LOW)
		return;
	f->was_full = false;
	if (f->ev->drained)
		f->ev->drained(f->arg);
}

static void on_settle(void *arg)
{
	struct framed *f = arg;
	struct err *e;

	enter(f);
	e = take_frames(f);
	if (!e && !f->freed)
		e = send_some(f);
	if (e) {
		fail(f, e);
	} else if (!f->freed) {
		poll_for(f);
		tell_drained(f);
	}
	leave(f);
}

static void on_ready(void *arg, unsigned ready)
{
	struct framed *f = arg;
	struct err *e = NULL;

	enter(f);
	if ((ready & WATCH_READ) && !f->paused && !f->resting)
		e = read_some(f);
	if (e)
		fail(f, e);
	else if (!f->freed)
		deferred_call(&f->settle);
	leave(f);
}

struct framed *framed_new(struct loop *l, int fd, const struct framed_events *ev, void *arg)
{
	struct framed *f = xnew(struct framed);

	f->ev = ev;
	f->arg = arg;
	f->loop = l;
	f->fd = fd;
	f->watch = watch_new(l, fd, on_ready, f);
	deferred_init(&f->settle, l, on_settle, f);
	deferred_call(&f->settle);
	return f;
}

void framed_free(struct framed *f)
{
	if (!f)
		return;
	assert(!f->freed);
	f->freed = true;
	deferred_cancel(&f->settle);
	watch_free(f->watch);
	timer_free(f->next_turn);
	(void)close(f->fd);
	if (!f->busy)
		destroy(f);
}

struct buf *framed_out(struct framed *f)
{
	return &f->out;
}

void framed_kick(struct framed *f)
{
	if (!f->over)
		deferred_call(&f->settle);
}

void framed_flush(struct framed *f)
{
	if (!f->over)
		err_free(send_some(f)); /* met again at the end of the turn */
	framed_kick(f);
}

bool framed_full(struct framed *f)
{
	if (f->out.len < OUT_HIGH)
		return false;
	f->was_full = true;
	return true;
}

void framed_pause(struct framed *f, bool paused)
{
	f->paused = paused;
	framed_kick(f);
}
