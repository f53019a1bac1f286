/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pump.h"

#include <sys/socket.h>
#include <unistd.h>

#include "net/conn.h"
#include "net/stream.h"
#include "rig.h"
#include "test.h"

/* Two peers with a pump between them. */
struct pipe_rig {
	struct loop *l;
	struct pump *p;
	int a, b;
	int n_done;
};

static void on_done(void *arg)
{
	struct pipe_rig *r = arg;

	r->n_done++;
	r->p = NULL;
}

static void nothing(unused void *arg, unused struct buf *in)
{
}

static void closed(unused void *arg, unused const struct err *e)
{
}

static void rig_init(struct pipe_rig *r, const char *early)
{
	static const struct conn_events none = { .data = nothing, .closed = closed };
	int left[2], right[2];
	struct conn *a, *b;

	*r = (struct pipe_rig){ .l = rig_loop() };
	rig_pair(left);
	rig_pair(right);
	r->a = left[1];
	r->b = right[1];
	a = conn_new(r->l, stream_plain(left[0]), &none, NULL);
	b = conn_new(r->l, stream_plain(right[0]), &none, NULL);
	rig_send_str(r->l, r->a, early);
	until(r->l, conn_in(a)->len == strlen(early));
	r->p = pump_start(a, b, on_done, r);
}

static void rig_done(struct pipe_rig *r)
{
	pump_free(r->p);
	if (r->a >= 0)
		(void)close(r->a);
	(void)close(r->b);
	rig_settle(r->l);
	loop_free(r->l);
}

TEST(a_pump_carries_both_directions_and_sends_buffered_input_first)
{
	struct pipe_rig r;
	autofree char *there = NULL, *back = NULL;

	rig_init(&r, "early ");
	rig_send_str(r.l, r.a, "bird");
	there = rig_read(r.l, r.b, "early bird");
	rig_send_str(r.l, r.b, "worm");
	back = rig_read(r.l, r.a, "worm");
	eq_str(there, "early bird");
	eq_str(back, "worm");
	rig_done(&r);
}

TEST(a_pump_passes_half_closes_on)
{
	struct pipe_rig r;
	autofree char *there = NULL, *back = NULL;

	rig_init(&r, "");
	rig_send_str(r.l, r.a, "question");
	(void)shutdown(r.a, SHUT_WR);
	there = rig_read(r.l, r.b, NULL);
	eq_str(there, "question");
	eq_int(r.n_done, 0);
	rig_send_str(r.l, r.b, "answer");
	(void)shutdown(r.b, SHUT_WR);
	back = rig_read(r.l, r.a, NULL);
	eq_str(back, "answer");
	until(r.l, r.n_done == 1);
	rig_done(&r);
}

TEST(a_pump_slows_the_fast_side)
{
	struct pipe_rig r;
	size_t piece = 64 * 1024, total = 8 * 1024 * 1024, sent = 0, got = 0;
	char *big = xcalloc(1, piece);

	rig_init(&r, "");
	for (int i = 0; i < 500; i++) {
		ssize_t n = send(r.a, big, piece, MSG_NOSIGNAL | MSG_DONTWAIT);

		sent += n > 0 ? (size_t)n : 0;
		loop_turn(r.l, 0);
	}
	is_true(sent < total); /* it stops because nobody reads */
	while (got < sent)
		got += rig_read_n(r.l, r.b, big, MIN(piece, sent - got));
	eq_int(got, sent);
	rig_send_str(r.l, r.a, "on");
	eq_int(rig_read_n(r.l, r.b, big, 2), 2);
	free(big);
	rig_done(&r);
}

TEST(a_broken_side_closes_the_other)
{
	struct pipe_rig r;
	autofree char *there = NULL;

	rig_init(&r, "");
	rig_send_str(r.l, r.b, "unread");
	rig_settle(r.l);
	rig_send_str(r.l, r.a, "last words");
	(void)close(take_fd(r.a)); /* with unread input: a reset */
	there = rig_read(r.l, r.b, NULL);
	eq_str(there, "last words");
	(void)shutdown(r.b, SHUT_WR);
	until(r.l, r.n_done == 1);
	rig_done(&r);
}

TEST(a_pump_that_is_half_open_and_silent_is_cut)
{
	struct pipe_rig r;
	autofree char *there = NULL;

	rig_init(&r, "");
	pump_set_half_open_ms(r.p, 20);
	rig_send_str(r.l, r.a, "bye");
	(void)close(take_fd(r.a));
	there = rig_read(r.l, r.b, NULL);
	eq_str(there, "bye");
	until(r.l, r.n_done == 1); /* although b never ends */
	rig_done(&r);
}

TEST(a_pump_that_is_silent_stays_while_both_sides_are_open)
{
	struct pipe_rig r;
	autofree char *there = NULL;
	usec later;

	rig_init(&r, "");
	pump_set_half_open_ms(r.p, 20);
	later = clock_mono() + 100 * 1000;
	until(r.l, clock_mono() > later);
	rig_send_str(r.l, r.a, "still here");
	there = rig_read(r.l, r.b, "still here");
	eq_str(there, "still here");
	rig_done(&r);
}

TEST(a_pump_that_is_half_open_stays_while_bytes_move)
{
	enum {
		MS = 100,
	};
	struct pipe_rig r;
	usec end, last;
	char c;

	rig_init(&r, "");
	pump_set_half_open_ms(r.p, MS);
	(void)shutdown(r.a, SHUT_WR);
	last = clock_mono();
	end = last + 4 * MS * 1000;
	while (r.p && clock_mono() < end) {
		usec sent = clock_mono();

		(void)send(r.b, ".", 1, MSG_NOSIGNAL);
		until(r.l, !r.p || recv(r.a, &c, 1, MSG_DONTWAIT) == 1);
		if (r.p)
			last = sent;
	}
	until(r.l, r.n_done == 1);
	is_true(clock_mono() - last >= MS * 1000); /* before `end`, on a slow machine */
	rig_done(&r);
}
