/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/guest_conn.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "loop/loop.h"
#include "wire/wire.h"

/*
 * Frames to and from a guest. The guest is not to be trusted: code in the sandbox may have got hold
 * of it, so what it sends is bounded, and a frame that cannot be read ends the connection.
 */
enum {
	READ = 64 * 1024, /* a callback */
	LOW = 64 * 1024,  /* below this much queued output, drained() is told */
};

struct guest_conn {
	struct loop *loop;
	const struct guest_conn_events *ev;
	void *arg;
	int fd;
	struct watch *watch;
	struct buf in, out;
	bool paused, kicked, was_full, freed, busy;
};

/* The only place that decides what is polled for. */
static void settle(struct guest_conn *c)
{
	unsigned want = 0;

	if (!c->paused)
		want |= WATCH_READ;
	if (c->out.len)
		want |= WATCH_WRITE;
	watch_want(c->watch, want);
}

static void destroy(void *arg)
{
	struct guest_conn *c = arg;

	buf_done(&c->in);
	buf_done(&c->out);
	free(c);
}

void guest_conn_free(struct guest_conn *c)
{
	if (!c || c->freed)
		return;
	c->freed = true;
	watch_free(take(c->watch));
	(void)close(take_fd(c->fd));
	if (!c->kicked && !c->busy)
		destroy(c);
}

static void closed(struct guest_conn *c, struct err *e)
{
	watch_want(c->watch, 0);
	c->ev->closed(c->arg, e);
}

static struct err *send_some(struct guest_conn *c)
{
	while (c->out.len) {
		ssize_t n = send(c->fd, buf_head(&c->out), c->out.len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return err_sys(errno, "write to the guest");
		buf_eat(&c->out, (size_t)n);
	}
	if (!c->out.len)
		buf_done(&c->out);
	return NULL;
}

static void flush(struct guest_conn *c)
{
	struct err *e = send_some(c);

	if (e) {
		closed(c, e);
		return;
	}
	settle(c);
	if (c->was_full && c->out.len < LOW) {
		c->was_full = false;
		if (c->ev->drained)
			c->ev->drained(c->arg);
	}
}

static void on_kick(void *arg)
{
	struct guest_conn *c = arg;

	c->kicked = false;
	if (c->freed)
		destroy(c);
	else
		flush(c);
}

void guest_conn_kick(struct guest_conn *c)
{
	if (c->out.len >= LOW)
		c->was_full = true;
	if (c->kicked)
		return;
	c->kicked = true;
	loop_defer(c->loop, on_kick, c);
}

/* Every whole frame. False: the connection is over or was freed by its owner. */
static bool take_frames(struct guest_conn *c)
{
	while (!c->freed && !c->paused) {
		struct wire_frame f;
		size_t used;
		int have;
		struct err *e = wire_next(buf_head(&c->in), c->in.len, &f, &used, &have);

		if (e) {
			closed(c, e);
			return false;
		}
		if (!have)
			break;
		c->ev->frame(c->arg, &f);
		if (!c->freed)
			buf_eat(&c->in, used);
	}
	if (!c->freed && !c->in.len)
		buf_done(&c->in);
	return !c->freed;
}

static bool read_some(struct guest_conn *c)
{
	ssize_t n = recv(c->fd, buf_reserve(&c->in, READ), READ, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		closed(c, n ? err_sys(errno, "read from the guest")
			    : err_new(ERR_UNAVAILABLE, "read from the guest: it closed"));
		return false;
	}
	buf_wrote(&c->in, (size_t)n);
	return take_frames(c);
}

static void on_ready(void *arg, unsigned ready)
{
	struct guest_conn *c = arg;
	bool alive = true;

	c->busy = true;
	if ((ready & WATCH_READ) && !c->paused)
		alive = read_some(c);
	if (alive && !c->freed && (ready & WATCH_WRITE))
		flush(c);
	c->busy = false;
	if (c->freed && !c->kicked)
		destroy(c);
}

static void on_resume(void *arg)
{
	struct guest_conn *c = arg;

	c->kicked = false;
	if (c->freed) {
		destroy(c);
		return;
	}
	c->busy = true;
	if (take_frames(c))
		flush(c);
	c->busy = false;
	if (c->freed && !c->kicked)
		destroy(c);
}

void guest_conn_pause(struct guest_conn *c, bool paused)
{
	if (c->paused == paused)
		return;
	c->paused = paused;
	settle(c);
	if (!paused && !c->kicked) {
		c->kicked = true;
		loop_defer(c->loop, on_resume, c);
	}
}
struct buf *guest_conn_out(struct guest_conn *c)
{
	return &c->out;
}

struct err *guest_connect(const struct guest_conn_spec *spec, struct guest_conn **ret)
{
	autoclose fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	uint32_t version = WIRE_VERSION;
	struct guest_conn *c;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s.sock", spec->run_fd,
		       spec->id);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_recode(err_sys(errno, "connect to the guest of %s", spec->id),
				  ERR_UNAVAILABLE);
	c = xnew(struct guest_conn);
	c->loop = spec->loop;
	c->ev = spec->events;
	c->arg = spec->arg;
	c->fd = take_fd(fd);
	c->watch = watch_new(spec->loop, c->fd, on_ready, c);
	wire_put_u32s(&c->out, WIRE_HELLO, 0, &version, 1);
	guest_conn_kick(c);
	*ret = c;
	return NULL;
}
