/* SPDX-License-Identifier: Apache-2.0 */
#include "net/framed.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "rig.h"
#include "test.h"

/* A frame in these tests is a digit and that many bytes; the digit 0 is malformed. */
struct scene {
	struct loop *loop;
	struct framed *f;
	int fd;         /* the peer's end; -1: closed */
	struct buf got; /* frames, each followed by a space */
	const char *pause_at, *free_at;
	bool free_when_drained, keep_when_closed;
	unsigned n_drained, n_closed;
	enum err_code why;
};

static void scene_drop(struct scene *s)
{
	framed_free(take(s->f));
}

static struct err *on_frame(void *arg, const char *p, size_t len, size_t *ret_used)
{
	struct scene *s = arg;
	size_t size = (size_t)(p[0] - '0');
	struct span text = { p + 1, size };

	if (!size)
		return err_new(ERR_MALFORMED, "the frame is empty");
	if (len < 1 + size)
		return NULL;
	*ret_used = 1 + size;
	if (s->pause_at && !strncmp(s->pause_at, text.p, size))
		framed_pause(s->f, true);
	if (s->free_at && !strncmp(s->free_at, text.p, size))
		scene_drop(s);
	buf_add(&s->got, text.p, text.len); /* still valid after the free */
	buf_add_char(&s->got, ' ');
	return NULL;
}

static void on_drained(void *arg)
{
	struct scene *s = arg;

	s->n_drained++;
	if (s->free_when_drained)
		scene_drop(s);
}

static void on_closed(void *arg, struct err *e)
{
	struct scene *s = arg;

	s->n_closed++;
	s->why = err_code(e);
	err_free(e);
	if (!s->keep_when_closed)
		scene_drop(s);
}

static void scene_open(struct scene *s)
{
	static const struct framed_events events = { .frame = on_frame,
						     .drained = on_drained,
						     .closed = on_closed };
	int fds[2];

	*s = (struct scene){ .loop = rig_loop() };
	rig_pair(fds);
	s->fd = fds[1];
	s->f = framed_new(s->loop, fds[0], &events, s);
	rig_settle(s->loop);
}

static void scene_done(struct scene *s)
{
	scene_drop(s);
	if (s->fd >= 0)
		(void)close(s->fd);
	rig_settle(s->loop);
	loop_free(s->loop);
	buf_done(&s->got);
}

static void feed(struct scene *s, const char *bytes)
{
	rig_send_str(s->loop, s->fd, bytes);
	rig_settle(s->loop);
}

static void hang_up(struct scene *s)
{
	(void)close(take_fd(s->fd));
	rig_settle(s->loop);
}

/* Writes until the output is full, and more than the socket accepts. */
static size_t fill(struct scene *s)
{
	static const char block[32 * 1024];
	size_t len = 0;

	for (; len < 1024 * 1024 || !framed_full(s->f); len += sizeof(block)) {
		buf_add(framed_out(s->f), block, sizeof(block));
		framed_kick(s->f);
	}
	rig_settle(s->loop);
	return len;
}

static void peer_reads(struct scene *s, size_t len)
{
	autofree char *to = xmalloc(len);

	eq_int(rig_read_n(s->loop, s->fd, to, len), len);
	rig_settle(s->loop);
}

TEST(framed_waits_for_the_rest_of_a_frame)
{
	struct scene s;

	scene_open(&s);
	feed(&s, "3");
	feed(&s, "ab");
	eq_str(buf_str(&s.got), "");
	feed(&s, "c2de4f");
	eq_str(buf_str(&s.got), "abc de ");
	feed(&s, "ghi");
	eq_str(buf_str(&s.got), "abc de fghi ");
	scene_done(&s);
}

TEST(framed_hands_out_no_frame_while_it_is_paused)
{
	struct scene s;

	scene_open(&s);
	s.pause_at = "b";
	feed(&s, "1a1b1c");
	eq_str(buf_str(&s.got), "a b ");
	feed(&s, "1d");
	eq_str(buf_str(&s.got), "a b ");
	s.pause_at = NULL;
	framed_pause(s.f, false);
	eq_str(buf_str(&s.got), "a b "); /* not from inside the call */
	rig_settle(s.loop);
	eq_str(buf_str(&s.got), "a b c d ");
	scene_done(&s);
}

TEST(framed_reads_nothing_while_it_is_paused)
{
	struct scene s;
	usec since;

	scene_open(&s);
	framed_pause(s.f, true);
	rig_settle(s.loop);
	hang_up(&s);
	eq_int(s.n_closed, 0);
	since = clock_mono();
	(void)loop_turn(s.loop, 20);
	is_true(clock_mono() - since >= 19000); /* and it is not woken for it either */
	framed_pause(s.f, false);
	rig_settle(s.loop);
	eq_int(s.n_closed, 1);
	scene_done(&s);
}

TEST(framed_sends_at_the_end_of_the_turn)
{
	struct scene s;
	char c;

	scene_open(&s);
	buf_add_str(framed_out(s.f), "one");
	framed_kick(s.f);
	buf_add_str(framed_out(s.f), "two");
	framed_kick(s.f);
	is_true(recv(s.fd, &c, 1, MSG_PEEK) < 0 && errno == EAGAIN);
	peer_reads(&s, 6);
	eq_int(s.n_drained, 0);
	scene_done(&s);
}

TEST(framed_flush_sends_before_the_end_of_the_turn)
{
	struct scene s;
	char got[4] = "";

	scene_open(&s);
	buf_add_str(framed_out(s.f), "now");
	framed_flush(s.f);
	eq_int(recv(s.fd, got, 3, 0), 3);
	eq_str(got, "now");
	scene_done(&s);
}

TEST(framed_tells_of_a_failed_flush_from_the_loop)
{
	struct scene s;

	scene_open(&s);
	(void)close(take_fd(s.fd));
	buf_add_str(framed_out(s.f), "lost");
	framed_flush(s.f);
	eq_int(s.n_closed, 0);
	rig_settle(s.loop);
	eq_int(s.n_closed, 1);
	scene_done(&s);
}

TEST(framed_reports_when_a_full_output_has_drained)
{
	struct scene s;
	size_t len;

	scene_open(&s);
	len = fill(&s);
	is_true(framed_full(s.f));
	eq_int(s.n_drained, 0);
	peer_reads(&s, len);
	eq_int(s.n_drained, 1);
	is_false(framed_full(s.f));
	eq_int(framed_out(s.f)->len, 0);
	scene_done(&s);
}

TEST(framed_reads_on_while_its_output_is_full)
{
	struct scene s;

	scene_open(&s);
	(void)fill(&s);
	feed(&s, "1a");
	eq_str(buf_str(&s.got), "a ");
	scene_done(&s);
}

TEST(framed_may_be_freed_inside_frame)
{
	struct scene s;

	scene_open(&s);
	s.free_at = "b";
	feed(&s, "1a1b1c");
	eq_str(buf_str(&s.got), "a b ");
	is_true(rig_at_end(s.loop, s.fd));
	eq_int(s.n_closed, 0);
	scene_done(&s);
}

TEST(framed_may_be_freed_inside_frame_after_a_pause)
{
	struct scene s;

	scene_open(&s);
	s.pause_at = "a";
	s.free_at = "b";
	feed(&s, "1a1b1c");
	s.pause_at = NULL;
	framed_pause(s.f, false);
	rig_settle(s.loop);
	eq_str(buf_str(&s.got), "a b ");
	is_true(s.f == NULL);
	scene_done(&s);
}

TEST(framed_may_be_freed_inside_drained)
{
	struct scene s;
	size_t len;

	scene_open(&s);
	s.free_when_drained = true;
	len = fill(&s);
	peer_reads(&s, len);
	eq_int(s.n_drained, 1);
	is_true(s.f == NULL);
	scene_done(&s);
}

TEST(framed_calls_nobody_after_it_is_freed)
{
	struct scene s;

	scene_open(&s);
	is_true(send(s.fd, "1a", 2, MSG_NOSIGNAL) == 2);
	framed_kick(s.f);
	scene_drop(&s);
	hang_up(&s);
	eq_str(buf_str(&s.got), "");
	eq_int(s.n_closed, 0);
	scene_done(&s);
}

TEST(framed_reports_that_its_peer_closed)
{
	struct scene s;

	scene_open(&s);
	rig_send_str(s.loop, s.fd, "1a2b");
	hang_up(&s);
	eq_str(buf_str(&s.got), "a ");
	eq_int(s.n_closed, 1);
	eq_int(s.why, ERR_UNAVAILABLE);
	scene_done(&s);
}

TEST(framed_that_cannot_send_is_closed_even_if_paused)
{
	struct scene s;

	scene_open(&s);
	(void)fill(&s);
	framed_pause(s.f, true);
	hang_up(&s);
	eq_int(s.n_closed, 1);
	scene_done(&s);
}

TEST(framed_is_closed_by_a_frame_that_cannot_be_read)
{
	struct scene s;

	scene_open(&s);
	feed(&s, "1a01b");
	eq_str(buf_str(&s.got), "a ");
	eq_int(s.n_closed, 1);
	eq_int(s.why, ERR_MALFORMED);
	scene_done(&s);
}

TEST(framed_is_silent_after_closed)
{
	struct scene s;

	scene_open(&s);
	s.keep_when_closed = true;
	feed(&s, "01b");
	eq_int(s.n_closed, 1);
	framed_pause(s.f, true);
	framed_pause(s.f, false);
	framed_kick(s.f);
	feed(&s, "1b");
	hang_up(&s);
	eq_str(buf_str(&s.got), "");
	eq_int(s.n_closed, 1);
	scene_done(&s);
}

/* One turn of the loop, however many frames wait. */
TEST(framed_passes_on_a_bounded_number_of_frames_per_turn)
{
	enum {
		FRAMES = 5000,
		LEN_IN_LOG = 2,
		PER_TURN_MAX = 256,
	};
	autobuf flood = { 0 };
	struct scene s;
	size_t was = 0;
	unsigned turns = 0;

	scene_open(&s);
	for (int i = 0; i < FRAMES; i++)
		buf_add(&flood, "1x", 2);
	eq_int(send(s.fd, buf_head(&flood), flood.len, MSG_DONTWAIT), flood.len);
	for (; s.got.len < (size_t)FRAMES * LEN_IN_LOG && turns < FRAMES; turns++) {
		(void)loop_turn(s.loop, 20);
		is_true((s.got.len - was) / LEN_IN_LOG <= PER_TURN_MAX);
		was = s.got.len;
	}
	eq_int(s.got.len, FRAMES * LEN_IN_LOG);
	hang_up(&s);
	eq_int(s.n_closed, 1);
	scene_done(&s);
}

TEST(framed_may_be_freed_while_frames_wait_for_the_next_turn)
{
	autobuf flood = { 0 };
	struct scene s;

	scene_open(&s);
	for (int i = 0; i < 1000; i++)
		buf_add(&flood, "1x", 2);
	eq_int(send(s.fd, buf_head(&flood), flood.len, MSG_DONTWAIT), flood.len);
	while (!s.got.len)
		(void)loop_turn(s.loop, 20);
	is_true(s.got.len < 2000);
	scene_drop(&s);
	scene_done(&s);
}
