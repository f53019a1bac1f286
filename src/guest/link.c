/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/session_priv.h"
#include "loop/loop.h"

/*
 * A link is a connection of the node on the private socket. Frames are read one after the other and
 * answered into one output buffer, which is sent once at the end of the turn.
 *
 * Who is at the other end: the socket's path is not in the sandbox, and a process of the sandbox
 * that got hold of it all the same would be a pid that we can see. The node's cannot be seen: 0.
 */
enum {
	LINK_HIGH = 256 * 1024, /* output beyond this stops the sessions */
	LINK_READ = 64 * 1024,  /* bytes a callback */
	LINK_ACCEPTS = 16,      /* a callback */
};

struct link {
	struct list on_guest;
	struct guest *guest;
	int fd;
	struct watch *watch;
	struct buf in, out;
	struct list sessions; /* struct session */
	struct deferred kick;
	bool greeted, dead;
	bool held_back; /* some session waits for the output to drain */
};

struct buf *link_out(struct link *l)
{
	return &l->out;
}

bool link_full(struct link *l)
{
	if (l->out.len < LINK_HIGH)
		return false;
	l->held_back = true;
	return true;
}

struct guest *link_guest(struct link *l)
{
	return l->guest;
}

struct list *link_sessions(struct link *l)
{
	return &l->sessions;
}

static void accept_settle(struct guest *g)
{
	watch_want(g->accepting, g->n_links < GUEST_LINKS_MAX ? WATCH_READ : 0);
}

static void link_free(struct link *l)
{
	buf_done(&l->in);
	buf_done(&l->out);
	free(l);
}

/* May be called from anywhere below a callback of l: it is freed at the end of the turn. */
static void link_close(struct link *l)
{
	struct session *s, *next;

	if (l->dead)
		return;
	l->dead = true;
	list_each_safe(s, next, &l->sessions, on_link)
		session_orphan(s);
	watch_free(take(l->watch));
	(void)close(take_fd(l->fd));
	list_del(&l->on_guest);
	l->guest->n_links--;
	accept_settle(l->guest);
	deferred_call(&l->kick);
}

/* A session whose process does not take its input, from a node that ignores credit, stops us. */
static bool stuffed(const struct link *l)
{
	struct session *s;

	list_each(s, &l->sessions, on_link)
		if (s->input.len > SESSION_INPUT_MAX)
			return true;
	return false;
}

/* The only place that decides what a link polls for. */
static void link_settle(struct link *l)
{
	unsigned want = stuffed(l) ? 0 : WATCH_READ;

	if (l->out.len)
		want |= WATCH_WRITE;
	watch_want(l->watch, want);
}

static void link_send(struct link *l)
{
	ssize_t n = send(l->fd, buf_head(&l->out), l->out.len, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		link_close(l);
		return;
	}
	if (n > 0)
		buf_eat(&l->out, (size_t)n);
	if (!l->out.len)
		buf_done(&l->out);
}

/* Sessions that paused because the link was full go on. */
static void sessions_resume(struct link *l)
{
	struct session *s, *next;

	l->held_back = false;
	list_each_safe(s, next, &l->sessions, on_link)
		session_settle(s);
}

static void on_kick(void *arg)
{
	struct link *l = arg;

	if (l->out.len && !l->dead)
		link_send(l);
	if (l->dead) {
		deferred_cancel(&l->kick);
		link_free(l);
		return;
	}
	if (l->held_back && !link_full(l))
		sessions_resume(l);
	link_settle(l);
}

void link_kick(struct link *l)
{
	deferred_call(&l->kick);
}

void links_tell_exit(struct guest *g, const struct wire_state *s)
{
	struct link *l;

	list_each(l, &g->links, on_guest) {
		if (!l->greeted)
			continue;
		wire_put_exited(&l->out, 0, s->exit_code, s->signal, s->oom);
		link_kick(l);
	}
}

static struct err *on_hello(struct link *l, const struct wire_frame *f)
{
	uint32_t version, ready[2] = { WIRE_VERSION, 0 };
	struct err *e = wire_u32s_read(f, &version, 1);

	if (e)
		return e;
	if (!version)
		return err_new(ERR_UNSUPPORTED, "speak version 0");
	l->greeted = true;
	if (l->guest->command.state.started)
		ready[1] |= WIRE_STARTED;
	wire_put_u32s(&l->out, WIRE_READY, 0, ready, 2);
	return NULL;
}

static struct err *on_start(struct link *l, const struct wire_frame *f)
{
	struct wire_start start;
	struct err *e = wire_start_read(f, &start);

	if (e)
		return e;
	e = command_start(l->guest, &start);
	if (e)
		wire_put_failed(&l->out, f->stream, err_errno(e), err_text(e));
	else
		wire_put_u32s(&l->out, WIRE_STARTED_OK, f->stream, &l->guest->command.state.pid, 1);
	err_free(e);
	return NULL;
}

static struct err *stream_is_new(struct link *l, uint32_t id)
{
	if (!id || session_find(l, id))
		return err_new(ERR_MALFORMED, "open stream %u", id);
	return NULL;
}

static struct err *on_exec(struct link *l, const struct wire_frame *f)
{
	struct wire_start start;
	struct err *e = stream_is_new(l, f->stream);

	if (!e)
		e = wire_start_read(f, &start);
	if (e)
		return e;
	exec_open(l, f->stream, &start);
	wire_start_done(&start);
	return NULL;
}

static struct err *on_dial(struct link *l, const struct wire_frame *f)
{
	uint16_t port;
	struct err *e = stream_is_new(l, f->stream);

	if (!e)
		e = wire_u16s_read(f, &port, 1);
	if (!e)
		dial_open(l, f->stream, port);
	return e;
}

/* Frames for a stream that has just ended are late, not wrong. */
static struct err *on_stdin(struct link *l, const struct wire_frame *f)
{
	struct session *s = session_find(l, f->stream);

	if (s)
		session_input(s, f->payload, f->len);
	return NULL;
}

static struct err *on_resize(struct link *l, const struct wire_frame *f)
{
	struct session *s = session_find(l, f->stream);
	uint16_t size[2];
	struct err *e = wire_u16s_read(f, size, 2);

	if (e)
		return e;
	if (!f->stream)
		command_resize(l->guest, size[0], size[1]);
	else if (s)
		session_resize(s, size[0], size[1]);
	return NULL;
}

static struct err *on_signal(struct link *l, const struct wire_frame *f)
{
	struct session *s = session_find(l, f->stream);
	uint32_t signum;
	struct err *e = wire_u32s_read(f, &signum, 1);

	if (e)
		return e;
	if (!signum || signum > 64)
		return err_new(ERR_MALFORMED, "send signal %u", signum);
	if (!f->stream)
		command_signal(l->guest, (int)signum);
	else if (s)
		session_signal(s, (int)signum);
	return NULL;
}

static struct err *on_credit(struct link *l, const struct wire_frame *f)
{
	struct session *s = session_find(l, f->stream);
	uint32_t more;
	struct err *e = wire_u32s_read(f, &more, 1);

	if (!e && s)
		session_credit(s, more);
	return e;
}

static struct err *on_frame(struct link *l, const struct wire_frame *f)
{
	if (!l->greeted && f->type != WIRE_HELLO)
		return err_new(ERR_MALFORMED, "begin without hello");
	switch (f->type) {
	case WIRE_HELLO:
		return on_hello(l, f);
	case WIRE_START:
		return on_start(l, f);
	case WIRE_EXEC:
		return on_exec(l, f);
	case WIRE_STDIN:
		return on_stdin(l, f);
	case WIRE_RESIZE:
		return on_resize(l, f);
	case WIRE_SIGNAL:
		return on_signal(l, f);
	case WIRE_CREDIT:
		return on_credit(l, f);
	case WIRE_DIAL:
		return on_dial(l, f);
	case WIRE_STATUS:
		wire_put_state(&l->out, &l->guest->command.state);
		return NULL;
	case WIRE_READY:
	case WIRE_STARTED_OK:
	case WIRE_FAILED:
	case WIRE_STDOUT:
	case WIRE_STDERR:
	case WIRE_EXITED:
	case WIRE_STATE:
	case WIRE_TYPE_MAX_:
		break;
	}
	return err_new(ERR_MALFORMED, "take frame %d from the node", (int)f->type);
}

/* Every whole frame of the input. False: one could not be read, and the link is closed. */
static bool take_frames(struct link *l)
{
	struct wire_frame f;
	size_t used;
	int have;

	for (;;) {
		autoptr(err) e = wire_next(buf_head(&l->in), l->in.len, &f, &used, &have);

		if (!e && !have)
			return true;
		if (!e)
			e = on_frame(l, &f);
		if (e) {
			link_close(l);
			return false;
		}
		buf_eat(&l->in, used);
	}
}

static void link_read(struct link *l)
{
	int waiting = 0;
	size_t want;
	ssize_t n;

	(void)ioctl(l->fd, FIONREAD, &waiting);
	want = MIN((size_t)MAX(waiting, 512), (size_t)LINK_READ);
	n = recv(l->fd, buf_reserve(&l->in, want), want, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		link_close(l);
		return;
	}
	buf_wrote(&l->in, (size_t)n);
	if (take_frames(l) && !l->in.len)
		buf_done(&l->in);
}

static void on_ready(void *arg, unsigned ready)
{
	struct link *l = arg;

	if (ready & WATCH_READ)
		link_read(l);
	if (!l->dead)
		link_kick(l); /* sends, too */
}

static bool from_outside(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && !peer.pid;
}

static void link_new(struct guest *g, int fd)
{
	struct link *l = xnew(struct link);

	l->guest = g;
	l->fd = fd;
	list_init(&l->sessions);
	l->watch = watch_new(g->loop, fd, on_ready, l);
	deferred_init(&l->kick, g->loop, on_kick, l);
	list_add_tail(&g->links, &l->on_guest);
	g->n_links++;
	link_settle(l);
}

static void on_accept(void *arg, unused unsigned ready)
{
	struct guest *g = arg;

	for (int i = 0; i < LINK_ACCEPTS && g->n_links < GUEST_LINKS_MAX; i++) {
		int fd = accept4(g->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
			watch_want(g->accepting, 0); /* until a link is closed */
			return;
		}
		if (fd < 0)
			break;
		if (from_outside(fd))
			link_new(g, fd);
		else
			(void)close(fd);
	}
	accept_settle(g);
}

void links_start(struct guest *g, int listen_fd)
{
	list_init(&g->links);
	g->listen_fd = listen_fd;
	g->accepting = watch_new(g->loop, listen_fd, on_accept, g);
	accept_settle(g);
}
