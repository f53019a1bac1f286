/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/guest_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "test.h"
#include "wire/peer.h"
#include "wire/wire.h"

/* A hostile guest: the test has the other end of the socket. */
enum {
	PATIENCE_US = 10 * 1000000,
	UNSENT_MAX = 2 * WIRE_WINDOW,
};

struct scene {
	struct loop *loop;
	struct guest_conn *c;
	int fd; /* the guest's end */
	size_t n_output, n_room;
	enum err_code why;
	bool closed;
};

static void on_frame(void *arg, const struct wire_frame *f)
{
	struct scene *s = arg;

	if (f->type != WIRE_STDOUT)
		return;
	s->n_output += f->len;
	guest_conn_passed(s->c, f->len);
}

static void on_room(void *arg)
{
	((struct scene *)arg)->n_room++;
}

static void on_closed(void *arg, struct err *e)
{
	struct scene *s = arg;

	s->closed = true;
	s->why = err_code(e);
	err_free(e);
	guest_conn_free(take(s->c));
}

static void turns(struct scene *s, int n)
{
	for (int i = 0; i < n; i++)
		(void)loop_turn(s->loop, 0);
}

static void scene_open(struct scene *s)
{
	static const struct guest_conn_events events = { on_frame, on_room, on_closed };
	struct guest_conn_spec spec = { .events = &events, .arg = s };
	int fds[2];

	*s = (struct scene){ 0 };
	works(loop_new(&s->loop));
	eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	spec.loop = s->loop;
	s->fd = fds[1];
	s->c = guest_conn_new(&spec, fds[0]);
	turns(s, 3);
}

static void scene_done(struct scene *s)
{
	guest_conn_free(take(s->c));
	(void)close(s->fd);
	turns(s, 3);
	loop_free(s->loop);
}

/* The guest sends these bytes, as far as we read them. */
static void guest_sends(struct scene *s, struct buf *b)
{
	usec end = clock_mono() + PATIENCE_US;

	while (b->len && !s->closed) {
		ssize_t n = send(s->fd, buf_head(b), b->len, MSG_NOSIGNAL);

		is_true(clock_mono() < end);
		if (n > 0)
			buf_eat(b, (size_t)n);
		(void)loop_turn(s->loop, 0);
	}
	turns(s, 10);
}

static void guest_answers(struct scene *s)
{
	static const uint32_t ready[2] = { WIRE_VERSION, 0 }, pid = 7;
	autobuf b = { 0 };

	wire_put_u32s(&b, WIRE_READY, 0, ready, 2);
	wire_put_u32s(&b, WIRE_STARTED_OK, WIRE_NODE_STREAM, &pid, 1);
	guest_sends(s, &b);
	is_false(s->closed);
}

static void guest_grants(struct scene *s, uint32_t more)
{
	autobuf b = { 0 };

	wire_put_u32s(&b, WIRE_CREDIT, WIRE_NODE_STREAM, &more, 1);
	guest_sends(s, &b);
}

static size_t write_much(struct scene *s)
{
	static const char block[64 * 1024];
	size_t len = 0;

	for (int i = 0; i < 1000 && s->c; i++) {
		len += guest_conn_write(s->c, block, sizeof(block));
		turns(s, 1);
	}
	return len;
}

static void exec(struct scene *s)
{
	static const char *none[] = { NULL };

	guest_conn_exec(s->c, &(struct wire_start){ .argv = none, .env = none });
}

/* Frames that have come so far; the STDIN among them. */
static size_t guest_reads_input(struct scene *s)
{
	autobuf in = { 0 };
	size_t stdin_len = 0, used;
	struct wire_frame f;
	ssize_t n;
	int have;

	do {
		n = recv(s->fd, buf_reserve(&in, 65536), 65536, MSG_DONTWAIT);
		if (n > 0)
			buf_wrote(&in, (size_t)n);
		turns(s, 2);
	} while (n > 0);
	for (;;) {
		works(wire_next(buf_head(&in), in.len, &f, &used, &have));
		if (!have)
			return stdin_len;
		if (f.type == WIRE_STDIN)
			stdin_len += f.len;
		buf_eat(&in, used);
	}
}

TEST(input_stops_at_the_window_and_goes_on_with_credit)
{
	struct scene s;

	scene_open(&s);
	exec(&s);
	guest_answers(&s);
	eq_int(write_much(&s), WIRE_WINDOW);
	eq_int(guest_reads_input(&s), WIRE_WINDOW);
	eq_int(s.n_room, 0);
	guest_grants(&s, 1000);
	eq_int(s.n_room, 1);
	eq_int(write_much(&s), 1000);
	eq_int(guest_reads_input(&s), 1000);
	scene_done(&s);
}

TEST(credit_beyond_the_window_cuts_the_connection)
{
	struct scene s;

	scene_open(&s);
	exec(&s);
	guest_answers(&s);
	guest_grants(&s, UINT32_MAX);
	is_true(s.closed);
	eq_int(s.why, ERR_MALFORMED);
	scene_done(&s);
}

TEST(credit_that_is_given_back_again_and_again_does_not_pile_up)
{
	struct scene s;
	size_t sent = 0;

	scene_open(&s);
	exec(&s);
	guest_answers(&s);
	for (int i = 0; i < 100; i++) { /* it gives back what it was sent, and reads none of it */
		size_t n = write_much(&s);

		sent += n;
		if (!n || s.closed)
			break;
		guest_grants(&s, (uint32_t)n);
	}
	is_false(s.closed);
	is_true(sent <= WIRE_WINDOW + UNSENT_MAX); /* and what the socket holds */
	scene_done(&s);
}

TEST(sizes_for_a_guest_that_does_not_read_do_not_pile_up)
{
	struct scene s;

	scene_open(&s);
	exec(&s);
	guest_answers(&s);
	for (uint16_t i = 0; i < 60000; i++) {
		guest_conn_resize(s.c, i, i);
		if (i % 100 == 0)
			turns(&s, 1);
	}
	is_true(guest_reads_input(&s) == 0);
	scene_done(&s);
}

TEST(output_beyond_the_credit_cuts_the_connection)
{
	static const char block[WIRE_DATA_MAX];
	struct scene s;
	autobuf b = { 0 };

	scene_open(&s);
	exec(&s);
	guest_answers(&s);
	/* It never reads, so at some point it is granted nothing more. */
	for (int i = 0; i < 200 && !s.closed; i++) {
		wire_put(&b, WIRE_STDOUT, WIRE_NODE_STREAM, block, sizeof(block));
		guest_sends(&s, &b);
	}
	is_false(s.closed); /* what is passed on at once is granted again */
	guest_conn_pause(s.c, true);
	for (int i = 0; i < 64; i++)
		wire_put(&b, WIRE_STDOUT, WIRE_NODE_STREAM, block, sizeof(block));
	(void)send(s.fd, buf_head(&b), b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	turns(&s, 20);
	eq_int(s.n_output, 200 * sizeof(block)); /* a paused connection is not read */
	scene_done(&s);
}

TEST(frames_that_nobody_asked_for_cut_the_connection)
{
	struct scene s;
	autobuf b = { 0 };

	scene_open(&s);
	exec(&s);
	guest_answers(&s);
	wire_put(&b, WIRE_STDOUT, 2, "x", 1);
	guest_sends(&s, &b);
	is_true(s.closed);
	eq_int(s.why, ERR_MALFORMED);
	scene_done(&s);
}

TEST(a_length_that_no_frame_has_cuts_the_connection)
{
	struct scene s;
	autobuf b = { 0 };

	scene_open(&s);
	buf_add(&b, "\xff\xff\xff\xff", 4);
	guest_sends(&s, &b);
	is_true(s.closed);
	eq_int(s.why, ERR_MALFORMED);
	scene_done(&s);
}
