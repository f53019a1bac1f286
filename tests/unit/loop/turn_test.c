/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/str.h"
#include "story.h"
#include "test.h"

/* What both loops do: the one over libuv, and cay-init's own. */

static void outlast_the_turn(void *arg)
{
	usec end = clock_mono() + 5 * 1000;

	while (clock_mono() < end)
		;
	timer_set(*(struct timer **)arg, 5000);
}

TEST(a_turn_ends_in_time_though_its_callbacks_took_all_of_it)
{
	autoptr(loop) l = loop_for_test();
	struct timer *t = timer_new(l, outlast_the_turn, &t);
	usec begin = clock_mono();

	timer_set(t, 0);
	is_true(loop_turn(l, 1));
	is_true(timer_armed(t));
	is_true(clock_mono() - begin < 4 * 1000000);
	timer_free(t);
}

TEST(loop_run_ends_with_loop_stop_and_can_run_again)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	struct timer *t = timer_new(l, on_timer, &s);

	story_can_defer(&s);
	loop_stop(l);
	loop_run(l);
	timer_set(t, 0);
	loop_run(l);
	eq_str(buf_str(&s.text), "tdmd");
	timer_set(t, 0);
	loop_run(l);
	eq_str(buf_str(&s.text), "tdmdtdmd");
	timer_free(t);
}

static void free_timer(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, 't');
	timer_free(take(s->timer));
}

TEST(a_timer_may_free_itself)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };

	s.timer = timer_new(l, free_timer, &s);
	timer_set(s.timer, 1);
	while (loop_turn(l, 100))
		;
	eq_str(buf_str(&s.text), "t");
	timer_free(NULL);
}

TEST(a_timer_that_is_cleared_or_set_anew_does_not_fire_twice)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	struct timer *a = timer_new(l, say_d, &s), *b = timer_new(l, say_f, &s);
	usec start = clock_mono();

	timer_set(a, 1);
	timer_clear(a);
	is_false(timer_armed(a));
	timer_set(b, 1);
	timer_set(b, 20);
	while (loop_turn(l, 100))
		;
	eq_str(buf_str(&s.text), "f");
	is_true(clock_mono() - start >= 19000);
	timer_free(a);
	timer_free(b);
}

static void say_t_again(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, 't');
	if (s->text.len < 100)
		timer_set(s->timer, 0);
}

static void say_r(void *arg, unsigned ready unused)
{
	struct story *s = arg;

	buf_add_char(&s->text, 'r');
}

TEST(a_timer_that_sets_itself_to_0_leaves_the_loop_to_others)
{
	autostory s = { .loop = loop_for_test() };
	int fds[2];

	eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	eq_int(write(fds[1], "x", 1), 1);
	s.watch = watch_new(s.loop, fds[0], say_r, &s);
	watch_want(s.watch, WATCH_READ);
	s.timer = timer_new(s.loop, say_t_again, &s);
	timer_set(s.timer, 0);
	for (int i = 0; i < 5; i++)
		(void)loop_turn(s.loop, 100);
	is_true(timer_armed(s.timer));
	is_true(strstr(buf_str(&s.text), "tr") && strstr(buf_str(&s.text), "rt"));
	is_true(!strstr(buf_str(&s.text), "ttt"));
	watch_free(s.watch);
	timer_free(s.timer);
	(void)close(fds[0]);
	(void)close(fds[1]);
	loop_free(s.loop);
}

static void on_ready(void *arg, unsigned ready)
{
	((struct story *)arg)->ready = ready;
}

static unsigned ready_after_turn(struct story *s)
{
	s->ready = 0;
	loop_turn(s->loop, 20);
	return s->ready;
}

TEST(a_watch_reports_what_is_wanted_while_it_is_so)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	struct watch *w;
	int fds[2];

	is_true(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	w = watch_new(l, fds[0], on_ready, &s);
	watch_want(w, WATCH_READ);
	eq_int(ready_after_turn(&s), 0);
	watch_want(w, WATCH_READ | WATCH_WRITE);
	eq_int(ready_after_turn(&s), WATCH_WRITE);
	is_true(write(fds[1], "x", 1) == 1);
	eq_int(ready_after_turn(&s), WATCH_READ | WATCH_WRITE);
	watch_want(w, 0);
	eq_int(ready_after_turn(&s), 0);
	watch_want(w, WATCH_READ);
	eq_int(ready_after_turn(&s), WATCH_READ);
	eq_int(ready_after_turn(&s), WATCH_READ);
	close(fds[1]);
	eq_int(ready_after_turn(&s), WATCH_READ);
	watch_free(w);
	close(fds[0]);
}

TEST(a_watch_goes_on_reporting_an_error)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	struct watch *w;
	int fds[2];

	is_true(!pipe2(fds, O_CLOEXEC));
	w = watch_new(l, fds[1], on_ready, &s);
	watch_want(w, WATCH_READ);
	close(fds[0]);
	eq_int(ready_after_turn(&s), WATCH_READ | WATCH_WRITE);
	eq_int(ready_after_turn(&s), WATCH_READ | WATCH_WRITE);
	watch_want(w, 0);
	eq_int(ready_after_turn(&s), 0);
	watch_free(w);
	close(fds[1]);
}

static void free_watch(void *arg, unused unsigned ready)
{
	struct story *s = arg;

	buf_add_char(&s->text, 'w');
	watch_free(take(s->watch));
	close(s->fd);
}

TEST(a_watch_may_free_itself_and_its_number_be_watched_again)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };

	for (unsigned i = 0; i < 3; i++) {
		int fds[2];

		is_true(!pipe2(fds, O_CLOEXEC));
		s.fd = fds[1];
		s.watch = watch_new(l, fds[1], free_watch, &s);
		watch_want(s.watch, WATCH_WRITE);
		while (loop_turn(l, 100))
			;
		close(fds[0]);
	}
	eq_str(buf_str(&s.text), "www");
	watch_free(NULL);
}

static void free_the_other(void *arg, unused unsigned ready)
{
	struct story *s = arg;

	buf_add_char(&s->text, 'w');
	watch_free(take(s->other));
	watch_want(s->watch, 0);
}

static void free_the_one(void *arg, unused unsigned ready)
{
	struct story *s = arg;

	buf_add_char(&s->text, 'w');
	watch_want(s->other, 0);
	watch_free(take(s->watch));
}

TEST(a_watch_that_is_freed_is_not_called_though_it_was_ready_too)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	int fds[2];

	is_true(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	s.watch = watch_new(l, fds[0], free_the_other, &s);
	s.other = watch_new(l, fds[1], free_the_one, &s);
	watch_want(s.watch, WATCH_WRITE);
	watch_want(s.other, WATCH_WRITE);
	while (loop_turn(l, 100))
		;
	eq_str(buf_str(&s.text), "w");
	watch_free(s.watch);
	watch_free(s.other);
	close(fds[0]);
	close(fds[1]);
}

static void clear_timer(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, 't');
	timer_clear(s->timer);
}

TEST(a_timer_that_another_clears_does_not_fire_though_it_was_due)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	struct timer *first = timer_new(l, clear_timer, &s);
	usec due;

	s.timer = timer_new(l, say_f, &s);
	timer_set(first, 1);
	timer_set(s.timer, 1);
	for (due = clock_mono() + 3000; clock_mono() < due;)
		;
	while (loop_turn(l, 100))
		;
	eq_str(buf_str(&s.text), "t");
	timer_free(first);
	timer_free(s.timer);
}

static void post_next(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, 'p');
	if (s->text.len < 3)
		loop_post(s->loop, post_next, s);
}

TEST(what_is_posted_by_a_posted_call_comes_later)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };

	loop_post(l, post_next, &s);
	loop_post(l, say_d, &s);
	for (int i = 0; i < 10 && s.text.len < 3; i++)
		loop_turn(l, 100);
	eq_str(buf_str(&s.text), "pdp");
}
