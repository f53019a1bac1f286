/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/session_priv.h"
#include "loop/loop.h"
#include "net/framed.h"

/*
 * A link is a connection from the node on the private socket. Frames are read one after the other
 * and answered into the connection's output, which is sent once at the end of the turn.
 *
 * The peer is checked: the socket's path is not in the sandbox, and a process of the sandbox that
 * reached it anyway would have a pid that we can see. The node's pid is not visible from here, so
 * it is 0.
 */
enum {
	LINK_ACCEPTS = 16, /* per callback */
};

struct link {
	struct list on_guest;
	struct guest *guest;
	struct framed *framed;
	struct list sessions; /* struct session */
	bool greeted;
	bool stuffed; /* paused because a session has too much pending input */
};

struct buf *link_out(struct link *l)
{
	return framed_out(l->framed);
}

bool link_full(struct link *l)
{
	return framed_full(l->framed);
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

/* If a process does not read its input and the node ignores credit, we stop reading. */
static void check_stuffed(struct link *l)
{
	struct session *s;

	l->stuffed = false;
	list_each(s, &l->sessions, on_link)
		if (s->input.len > SESSION_INPUT_MAX)
			l->stuffed = true;
	framed_pause(l->framed, l->stuffed);
}

void link_kick(struct link *l)
{
	if (l->stuffed)
		check_stuffed(l);
	framed_kick(l->framed);
}

void links_tell_exit(struct guest *g, const struct wire_state *s)
{
	struct link *l;

	list_each(l, &g->links, on_guest) {
		if (!l->greeted)
			continue;
		wire_put_ended(link_out(l), s);
		link_kick(l);
	}
}

void links_tell_output(struct guest *g, enum wire_type type, const char *data, size_t len)
{
	struct link *l;
	struct session *s, *next;

	list_each(l, &g->links, on_guest) {
		bool any = false;

		list_each_safe(s, next, &l->sessions, on_link) {
			if (!s->attach)
				continue;
			any = true;
			if (!attach_output(s, type, data, len))
				attach_end(s, 0, 0);
		}
		if (any)
			link_kick(l);
	}
}

/*
 * Sent at once: on another link the node is about to hear of the exit, and then it kills the
 * sandbox, us included.
 */
void links_end_attached(struct guest *g, const struct wire_state *state)
{
	struct link *l;
	struct session *s, *next;

	list_each(l, &g->links, on_guest) {
		bool any = false;

		list_each_safe(s, next, &l->sessions, on_link) {
			if (!s->attach)
				continue;
			any = true;
			attach_end(s, state->exit_code, state->signal);
		}
		if (any)
			framed_flush(l->framed);
	}
}

static struct err *on_hello(struct link *l, const struct wire_frame *f)
{
	uint32_t version, ready[2] = { WIRE_VERSION, WIRE_TELLS_BUSY };
	struct err *e = wire_u32s_read(f, &version, 1);

	if (e)
		return e;
	if (!version)
		return err_new(ERR_UNSUPPORTED,
			       "the node announced protocol version 0; versions begin with 1");
	l->greeted = true;
	if (l->guest->command.state.started)
		ready[1] |= WIRE_STARTED;
	wire_put_u32s(link_out(l), WIRE_READY, 0, ready, 2);
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
		wire_put_failed(link_out(l), f->stream, err_errno(e), err_text(e));
	else
		wire_put_u32s(link_out(l), WIRE_STARTED_OK, f->stream, &l->guest->command.state.pid,
			      1);
	err_free(e);
	return NULL;
}

static struct err *stream_is_new(struct link *l, uint32_t id)
{
	if (!id || session_find(l, id))
		return err_new(ERR_MALFORMED, "stream %u is 0 or already open", id);
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

static struct err *on_attach(struct link *l, const struct wire_frame *f)
{
	uint32_t flags;
	struct err *e = stream_is_new(l, f->stream);

	if (!e)
		e = wire_u32s_read(f, &flags, 1);
	if (!e)
		attach_open(l, f->stream, flags);
	return e;
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

	if (!s)
		return NULL;
	session_input(s, f->payload, f->len);
	check_stuffed(l);
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
		return err_new(ERR_MALFORMED, "signal %u is not between 1 and 64", signum);
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
		return err_new(ERR_MALFORMED, "the first frame is not a hello");
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
	case WIRE_ATTACH:
		return on_attach(l, f);
	case WIRE_STATUS:
		wire_put_state(link_out(l), &l->guest->command.state);
		return NULL;
	case WIRE_ASK_BUSY:
		wire_put_u32s(link_out(l), WIRE_BUSY, 0, &(uint32_t){ runtime_busy(l->guest) }, 1);
		return NULL;
	case WIRE_READY:
	case WIRE_STARTED_OK:
	case WIRE_FAILED:
	case WIRE_STDOUT:
	case WIRE_STDERR:
	case WIRE_EXITED:
	case WIRE_STATE:
	case WIRE_BUSY:
	case WIRE_TYPE_MAX_:
		break;
	}
	return err_new(ERR_MALFORMED, "frame type %d is not one that the node sends", (int)f->type);
}

static struct err *on_bytes(void *arg, const char *p, size_t len, size_t *ret_used)
{
	struct wire_frame f;
	int have;
	struct err *e = wire_next(p, len, &f, ret_used, &have);

	return e || !have ? e : on_frame(arg, &f);
}

/* Sessions that paused because the link was full continue. */
static void on_drained(void *arg)
{
	struct link *l = arg;
	struct session *s, *next;

	list_each_safe(s, next, &l->sessions, on_link)
		session_settle(s);
}

/* There is nobody to report the reason to. */
static void on_closed(void *arg, struct err *e)
{
	struct link *l = arg;
	struct guest *g = l->guest;
	struct session *s, *next;

	err_free(e);
	list_each_safe(s, next, &l->sessions, on_link)
		session_orphan(s);
	list_del(&l->on_guest);
	framed_free(l->framed);
	free(l);
	g->n_links--;
	guest_settle(g);
	accept_settle(g);
}

static bool from_outside(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && !peer.pid;
}

static void link_new(struct guest *g, int fd)
{
	static const struct framed_events events = { .frame = on_bytes,
						     .drained = on_drained,
						     .closed = on_closed };
	struct link *l = xnew(struct link);

	l->guest = g;
	list_init(&l->sessions);
	l->framed = framed_new(g->loop, fd, &events, l);
	list_add_tail(&g->links, &l->on_guest);
	g->n_links++;
	g->asked_to_end = false; /* this node will end us; an earlier signal was for the command */
}

/* Whoever sends us a connection has accepted it outside. */
static int receive_link(int from)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char one;
	struct iovec data = { &one, 1 };
	struct msghdr m = { .msg_iov = &data,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(from, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
		return -1;
	if (m.msg_controllen && control.head.cmsg_level == SOL_SOCKET &&
	    control.head.cmsg_type == SCM_RIGHTS)
		fd = *(const int *)(const void *)CMSG_DATA(&control.head);
	if (fd >= 0)
		(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static int next_link(const struct guest *g)
{
	return g->handed ? receive_link(g->listen_fd)
			 : accept4(g->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void on_accept(void *arg, unused unsigned ready)
{
	struct guest *g = arg;

	for (int i = 0; i < LINK_ACCEPTS && g->n_links < GUEST_LINKS_MAX; i++) {
		int fd = next_link(g);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
			watch_want(g->accepting, 0); /* until a link is closed */
			return;
		}
		if (fd < 0)
			break;
		if (g->handed || from_outside(fd))
			link_new(g, fd);
		else
			(void)close(fd);
	}
	accept_settle(g);
}

void links_start(struct guest *g, int fd, bool handed)
{
	list_init(&g->links);
	g->listen_fd = fd;
	g->handed = handed;
	g->accepting = watch_new(g->loop, fd, on_accept, g);
	accept_settle(g);
}
