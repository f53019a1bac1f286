/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/guest_conn.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/wall.h"
#include "net/framed.h"
#include "node/host/instance.h"
#include "wire/peer.h"
#include "wire/wire.h"

/*
 * Frames to and from a guest that may be hostile. What it sends is checked frame by frame, and the
 * first wrong one ends the connection. What it does not read is bounded: input waits with the
 * caller, a new terminal size replaces the old one, and credit is granted when there is space, so a
 * guest that never reads runs out of it.
 */
enum {
	INPUT_FRAME = 32 * 1024,
	CREDIT_STEP = 64 * 1024,
};

struct guest_conn {
	struct framed *framed;
	const struct guest_conn_events *ev;
	void *arg;
	struct wire_peer peer;
	size_t uncredited; /* bytes of output passed on, not yet granted again */
	bool wants_room;   /* guest_conn_write() did not take everything */
	bool resized;      /* size is to be sent */
	uint16_t size[2];
};

static struct buf *out(struct guest_conn *c)
{
	return framed_out(c->framed);
}

static void kick(struct guest_conn *c)
{
	framed_kick(c->framed);
}

/* What was sent and not read counts: a guest that does not read is full. */
static bool full(struct guest_conn *c)
{
	return framed_full(c->framed) && wall_stands("guest-unsent-full");
}

/* Sends what waited for space. */
static void send_waiting(struct guest_conn *c)
{
	uint32_t more = (uint32_t)MIN(c->uncredited, (size_t)(WIRE_WINDOW - c->peer.window));

	if (c->resized && !full(c)) {
		c->resized = false;
		wire_put_u16s(out(c), WIRE_RESIZE, WIRE_NODE_STREAM, c->size, 2);
		kick(c);
	}
	if (more >= CREDIT_STEP && !full(c)) {
		c->uncredited = 0;
		wire_peer_grant(&c->peer, more);
		wire_put_u32s(out(c), WIRE_CREDIT, WIRE_NODE_STREAM, &more, 1);
		kick(c);
	}
}

static void tell_room(struct guest_conn *c)
{
	if (!c->wants_room || !c->peer.credit || full(c))
		return;
	c->wants_room = false;
	if (c->ev->room)
		c->ev->room(c->arg);
}

static struct err *on_frame(void *arg, const char *p, size_t len, size_t *ret_used)
{
	struct guest_conn *c = arg;
	struct wire_frame f;
	int have;
	struct err *e = wire_next(p, len, &f, ret_used, &have);

	if (e || !have)
		return e;
	e = wire_peer_check(&c->peer, &f);
	if (e && wall_stands("guest-protocol"))
		return e;
	err_free(e);
	if (f.type == WIRE_CREDIT)
		tell_room(c);
	else
		c->ev->frame(c->arg, &f);
	return NULL;
}

static void on_drained(void *arg)
{
	struct guest_conn *c = arg;

	send_waiting(c);
	tell_room(c);
}

static void on_closed(void *arg, struct err *e)
{
	struct guest_conn *c = arg;

	c->ev->closed(c->arg, err_wrap(e, "talk to the guest"));
}

void guest_conn_free(struct guest_conn *c)
{
	if (!c)
		return;
	framed_free(c->framed);
	free(c);
}

void guest_conn_pause(struct guest_conn *c, bool paused)
{
	framed_pause(c->framed, paused);
}

void guest_conn_start(struct guest_conn *c, const void *frame, size_t len)
{
	wire_peer_start(&c->peer);
	buf_add(out(c), frame, len);
	kick(c);
}

void guest_conn_ask_state(struct guest_conn *c)
{
	wire_peer_status(&c->peer);
	wire_put(out(c), WIRE_STATUS, 0, NULL, 0);
	kick(c);
}

/* One question at a time: a guest that does not answer is not asked again. */
bool guest_conn_ask_busy(struct guest_conn *c)
{
	if (!c->peer.tells_busy)
		return false;
	if (c->peer.busy_asked)
		return true;
	wire_peer_ask_busy(&c->peer);
	wire_put(out(c), WIRE_ASK_BUSY, 0, NULL, 0);
	kick(c);
	return true;
}

void guest_conn_signal(struct guest_conn *c, int signum)
{
	wire_put_u32s(out(c), WIRE_SIGNAL, 0, &(uint32_t){ (uint32_t)signum }, 1);
	kick(c);
}

void guest_conn_exec(struct guest_conn *c, const struct wire_start *start)
{
	wire_peer_open(&c->peer, false);
	wire_put_start(out(c), WIRE_EXEC, WIRE_NODE_STREAM, start);
	kick(c);
}

void guest_conn_exec_frame(struct guest_conn *c, const void *frame, size_t len)
{
	wire_peer_open(&c->peer, false);
	buf_add(out(c), frame, len);
	kick(c);
}

void guest_conn_attach(struct guest_conn *c, bool with_input)
{
	uint32_t flags = with_input ? WIRE_STDIN_OPEN : 0;

	wire_peer_open(&c->peer, false);
	wire_put_u32s(out(c), WIRE_ATTACH, WIRE_NODE_STREAM, &flags, 1);
	kick(c);
}

void guest_conn_dial(struct guest_conn *c, uint16_t port)
{
	wire_peer_open(&c->peer, true);
	wire_put_u16s(out(c), WIRE_DIAL, WIRE_NODE_STREAM, &port, 1);
	kick(c);
}

size_t guest_conn_write(struct guest_conn *c, const void *p, size_t len)
{
	const char *data = p;
	size_t at = 0;

	while (at < len && c->peer.credit && !full(c)) {
		size_t n = MIN(len - at, (size_t)c->peer.credit);

		n = MIN(n, (size_t)INPUT_FRAME);
		wire_put(out(c), WIRE_STDIN, WIRE_NODE_STREAM, data + at, n);
		wire_peer_input(&c->peer, (uint32_t)n);
		at += n;
	}
	c->wants_room = at < len;
	kick(c);
	return at;
}

void guest_conn_end_input(struct guest_conn *c)
{
	wire_put(out(c), WIRE_STDIN, WIRE_NODE_STREAM, NULL, 0);
	kick(c);
}

void guest_conn_resize(struct guest_conn *c, uint16_t cols, uint16_t rows)
{
	c->size[0] = cols;
	c->size[1] = rows;
	c->resized = true;
	send_waiting(c);
}

void guest_conn_passed(struct guest_conn *c, size_t len)
{
	c->uncredited += len;
	send_waiting(c);
}

struct guest_conn *guest_conn_new(const struct guest_conn_spec *spec, int fd)
{
	static const struct framed_events events = { .frame = on_frame,
						     .drained = on_drained,
						     .closed = on_closed };
	struct guest_conn *c = xnew(struct guest_conn);

	c->ev = spec->events;
	c->arg = spec->arg;
	c->framed = framed_new(spec->loop, fd, &events, c);
	wire_put_u32s(out(c), WIRE_HELLO, 0, &(uint32_t){ WIRE_VERSION }, 1);
	kick(c);
	return c;
}

struct err *guest_connect(const struct guest_conn_spec *spec, struct guest_conn **ret)
{
	autofree char *name = instance_socket(spec->id);
	autoclose fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", spec->run_fd, name);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_recode(err_sys(errno, "connect to the guest of %s", spec->id),
				  ERR_UNAVAILABLE);
	*ret = guest_conn_new(spec, take_fd(fd));
	return NULL;
}
