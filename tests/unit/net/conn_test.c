/* SPDX-License-Identifier: Apache-2.0 */
#include "net/conn.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"
#include "rig.h"
#include "test.h"

/* A connection whose events are recorded. */
struct seen {
	struct loop *l;
	struct conn *c;
	int peer;
	struct buf got;
	size_t largest; /* largest number of bytes in one data() */
	int n_data, n_eof, n_drained, n_closed;
	enum err_code why;
	bool keep, clean, free_in_data, free_in_eof;
};

static void on_data(void *arg, struct buf *in)
{
	struct seen *s = arg;

	s->n_data++;
	s->largest = MAX(s->largest, in->len);
	if (s->free_in_data) {
		conn_free(take(s->c));
		return;
	}
	if (s->keep)
		return;
	buf_add(&s->got, buf_head(in), in->len);
	buf_eat(in, in->len);
}

static void on_eof(void *arg)
{
	struct seen *s = arg;

	s->n_eof++;
	if (s->free_in_eof)
		conn_free(take(s->c));
}

static void on_drained(void *arg)
{
	((struct seen *)arg)->n_drained++;
}

static void on_closed(void *arg, const struct err *e)
{
	struct seen *s = arg;

	s->n_closed++;
	s->clean = !e;
	if (e)
		s->why = err_code(e);
	conn_free(take(s->c)); /* in the callback, as its last act */
}

static const struct conn_events events = { on_data, on_eof, on_drained, on_closed };

static void seen_init(struct seen *s)
{
	int fds[2];

	*s = (struct seen){ .l = rig_loop() };
	rig_pair(fds);
	s->peer = fds[1];
	s->c = conn_new(s->l, stream_plain(fds[0]), &events, s);
}

static void seen_done(struct seen *s)
{
	conn_free(s->c);
	if (s->peer >= 0)
		(void)close(s->peer);
	buf_done(&s->got);
	rig_settle(s->l);
	loop_free(s->l);
}

TEST(bytes_come_and_go)
{
	struct seen s;
	autofree char *back = NULL;

	seen_init(&s);
	rig_send_str(s.l, s.peer, "hello");
	until(s.l, s.got.len == 5);
	conn_write(s.c, "wor", 3);
	conn_write(s.c, "ld", 2);
	back = rig_read(s.l, s.peer, "world");
	eq_str(back, "world");
	eq_str(buf_str(&s.got), "hello");
	seen_done(&s);
}

TEST(writes_of_one_turn_leave_together)
{
	struct seen s;
	char buf[16];

	seen_init(&s);
	conn_write(s.c, "a", 1);
	conn_write(s.c, "b", 1);
	eq_int(read(s.peer, buf, sizeof(buf)), -1); /* nothing is sent before the end of the turn */
	eq_int(conn_unsent(s.c), 2);
	loop_turn(s.l, 0);
	eq_int(read(s.peer, buf, sizeof(buf)), 2);
	eq_int(conn_unsent(s.c), 0);
	seen_done(&s);
}

/* In packets, as a TLS stream would make records: one for each write. */
TEST(a_cut_separates_what_is_written)
{
	struct seen s = { .l = rig_loop() };
	char buf[100 * 1000];
	int fds[2];

	eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	s.peer = fds[1];
	s.c = conn_new(s.l, stream_plain(fds[0]), &events, &s);
	conn_cut(s.c); /* of nothing */
	conn_write(s.c, "a", 1);
	conn_write(s.c, "b", 1);
	conn_cut(s.c);
	conn_write(s.c, "c", 1);
	conn_cut(s.c);
	conn_cut(s.c);
	memset(buf, 'd', sizeof(buf));
	conn_write(s.c, buf, sizeof(buf)); /* so much that it leaves at once */
	conn_cut(s.c);
	conn_write(s.c, "e", 1);
	loop_turn(s.l, 0);
	eq_int(read(s.peer, buf, sizeof(buf)), 2);
	eq_int(read(s.peer, buf, sizeof(buf)), 1);
	eq_int(buf[0], 'c');
	eq_int(read(s.peer, buf, sizeof(buf)), sizeof(buf));
	eq_int(read(s.peer, buf, sizeof(buf)), 1);
	eq_int(buf[0], 'e');
	seen_done(&s);
}

TEST(output_above_the_high_mark_drains)
{
	struct seen s;
	size_t total = 4 * 1024 * 1024;
	char *big = xcalloc(1, total);

	seen_init(&s);
	conn_write(s.c, big, total);
	is_true(conn_full(s.c));
	rig_settle(s.l);
	eq_int(s.n_drained, 0);
	eq_int(rig_read_n(s.l, s.peer, big, total), total);
	until(s.l, s.n_drained == 1);
	is_false(conn_full(s.c));
	free(big);
	seen_done(&s);
}

TEST(reading_stops_at_the_limit)
{
	struct seen s;
	size_t total = 1024 * 1024;
	char *big = xcalloc(1, total);
	size_t sent = 0;

	seen_init(&s);
	s.keep = true;
	for (int i = 0; i < 100; i++) {
		ssize_t n = send(s.peer, big, total - sent, MSG_NOSIGNAL);

		sent += n > 0 ? (size_t)n : 0;
		loop_turn(s.l, 0);
	}
	eq_int(conn_in(s.c)->len, CONN_IN_MAX);
	is_true(sent < total);
	free(big);
	seen_done(&s);
}

TEST(a_turn_reads_no_more_than_its_budget)
{
	struct seen s;
	char *big = xcalloc(1, 150 * 1024);

	seen_init(&s);
	rig_send(s.l, s.peer, big, 150 * 1024);
	until(s.l, s.got.len == 150 * 1024);
	is_true(s.largest <= 64 * 1024);
	free(big);
	seen_done(&s);
}

TEST(paused_input_comes_after_the_pause)
{
	struct seen s;

	seen_init(&s);
	conn_pause(s.c, true);
	rig_send_str(s.l, s.peer, "later");
	(void)shutdown(s.peer, SHUT_WR);
	rig_settle(s.l);
	eq_int(s.n_data, 0);
	eq_int(s.n_eof, 0);
	conn_pause(s.c, false);
	until(s.l, s.n_eof == 1);
	eq_str(buf_str(&s.got), "later");
	seen_done(&s);
}

TEST(uneaten_input_is_offered_again)
{
	struct seen s;

	seen_init(&s);
	s.keep = true;
	rig_send_str(s.l, s.peer, "one");
	until(s.l, s.n_data == 1);
	s.keep = false;
	rig_send_str(s.l, s.peer, "two");
	until(s.l, s.n_data == 2);
	eq_str(buf_str(&s.got), "onetwo");
	seen_done(&s);
}

TEST(a_half_close_leaves_the_other_direction_open)
{
	struct seen s;
	autofree char *back = NULL;

	seen_init(&s);
	(void)shutdown(s.peer, SHUT_WR);
	until(s.l, s.n_eof == 1);
	conn_write(s.c, "still here", 10);
	conn_end(s.c);
	until(s.l, s.n_closed == 1);
	is_true(s.clean);
	back = rig_read(s.l, s.peer, NULL);
	eq_str(back, "still here");
	seen_done(&s);
}

TEST(close_after_flush_sends_all_of_it)
{
	struct seen s;
	size_t total = 1024 * 1024;
	char *big = xcalloc(1, total + 1);

	seen_init(&s);
	conn_write(s.c, big, total);
	conn_close_after_flush(s.c);
	rig_send_str(s.l, s.peer, "never read by the owner");
	eq_int(rig_read_n(s.l, s.peer, big, total + 1), total);
	eq_int(s.n_closed, 0); /* we have not ended yet */
	(void)close(s.peer);
	s.peer = -1;
	until(s.l, s.n_closed == 1);
	is_true(s.clean);
	eq_int(s.n_data, 0);
	free(big);
	seen_done(&s);
}

TEST(lingering_ends_though_the_peer_does_not)
{
	struct seen s;

	seen_init(&s);
	conn_close_after_flush(s.c);
	until(s.l, s.n_closed == 1);
	is_true(s.clean);
	seen_done(&s);
}

TEST(a_reset_is_an_error)
{
	struct seen s;
	char junk[100] = { 0 };

	seen_init(&s);
	conn_write(s.c, junk, sizeof(junk));
	loop_turn(s.l, 0);
	(void)close(s.peer); /* with unread input: a reset */
	s.peer = -1;
	until(s.l, s.n_closed == 1 || s.n_eof == 1);
	if (!s.n_closed) {
		conn_write(s.c, junk, sizeof(junk));
		until(s.l, s.n_closed == 1);
	}
	is_false(s.clean);
	seen_done(&s);
}

TEST(input_sent_before_a_failed_write_still_arrives)
{
	struct seen s;
	char junk[32 * 1024] = { 0 };

	seen_init(&s);
	rig_send_str(s.l, s.peer, "last words");
	(void)close(s.peer);
	s.peer = -1;
	conn_write(s.c, junk, sizeof(junk)); /* tried at once: fails before any read */
	until(s.l, s.n_closed == 1);
	is_false(s.clean);
	eq_str(buf_str(&s.got), "last words");
	seen_done(&s);
}

TEST(silence_times_out)
{
	struct seen s;

	seen_init(&s);
	conn_set_idle_ms(s.c, 30);
	until(s.l, s.n_closed == 1);
	eq_int(s.why, ERR_TIMEOUT);
	seen_done(&s);
}

TEST(output_that_nobody_reads_times_out)
{
	struct seen s;
	char *big = xcalloc(1, 1024 * 1024);

	seen_init(&s);
	conn_set_stall_ms(s.c, 30);
	rig_settle(s.l);
	eq_int(s.n_closed, 0);
	conn_write(s.c, big, 1024 * 1024);
	until(s.l, s.n_closed == 1);
	eq_int(s.why, ERR_TIMEOUT);
	free(big);
	seen_done(&s);
}

TEST(a_connection_may_be_freed_in_any_callback)
{
	struct seen s;

	seen_init(&s);
	s.free_in_data = true;
	rig_send_str(s.l, s.peer, "x");
	until(s.l, !s.c);
	seen_done(&s);

	seen_init(&s);
	s.free_in_eof = true;
	conn_write(s.c, "x", 1);
	(void)shutdown(s.peer, SHUT_WR);
	until(s.l, !s.c);
	seen_done(&s);
}

TEST(a_freed_connection_calls_nobody)
{
	struct seen s;

	seen_init(&s);
	eq_int(send(s.peer, "x", 1, 0), 1);
	conn_write(s.c, "y", 1); /* a run is scheduled */
	conn_free(take(s.c));
	rig_settle(s.l);
	eq_int(s.n_data + s.n_closed, 0);
	seen_done(&s);
}

TEST(a_new_owner_is_told_of_unread_input)
{
	struct seen s, other;

	seen_init(&s);
	other = (struct seen){ .l = s.l };
	s.keep = true;
	rig_send_str(s.l, s.peer, "rest");
	(void)shutdown(s.peer, SHUT_WR);
	until(s.l, s.n_eof == 1);
	conn_set_events(s.c, &events, &other);
	until(s.l, other.n_eof == 1);
	eq_str(buf_str(&other.got), "rest");
	buf_done(&other.got);
	seen_done(&s);
}

TEST(a_pipe_is_a_stream_too)
{
	struct seen s = { .l = rig_loop(), .peer = -1 };
	int fds[2];

	eq_int(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	s.c = conn_new(s.l, stream_plain(fds[0]), &events, &s);
	eq_int(write(fds[1], "piped", 5), 5);
	(void)close(fds[1]);
	until(s.l, s.n_eof == 1);
	eq_str(buf_str(&s.got), "piped");
	seen_done(&s);
}
