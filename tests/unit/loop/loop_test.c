/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/str.h"
#include "story.h"
#include "test.h"

TEST(deferred_calls_run_to_the_last_before_the_flush)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	struct timer *t = timer_new(l, on_timer, &s);
	struct loop_flush *f = loop_add_flush(l, say_f, &s);

	story_can_defer(&s);
	timer_set(t, 1);
	is_true(timer_armed(t));
	while (!strchr(buf_str(&s.text), 't')) {
		buf_clear(&s.text);
		loop_turn(l, 100);
	}
	/* Flushes at the beginning of the turn come before t; one follows if t was due at once. */
	is_true(str_starts(strchr(buf_str(&s.text), 't'), "tdmdf"));
	is_false(timer_armed(t));
	loop_del_flush(f);
	timer_free(t);
}

static void defer_once(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, 'o');
	if (s->text.len == 1)
		deferred_call(&s->d);
}

TEST(what_a_flush_defers_is_flushed_in_the_same_turn)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	struct loop_flush *f = loop_add_flush(l, defer_once, &s);

	story_can_defer(&s);
	loop_turn(l, 0);
	is_true(str_starts(buf_str(&s.text), "odo"));
	loop_del_flush(f);
}

static void drop_both(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, 'x');
	loop_del_flush(s->other_flush);
	loop_del_flush(s->flush);
}

TEST(a_flush_hook_may_remove_itself_and_the_next)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };

	s.flush = loop_add_flush(l, drop_both, &s);
	s.other_flush = loop_add_flush(l, say_f, &s);
	loop_turn(l, 0);
	eq_str(buf_str(&s.text), "x");
	loop_del_flush(NULL);
}

static void *post_many(void *arg)
{
	struct story *s = arg;

	for (unsigned i = 0; i < 1000; i++)
		loop_post(s->loop, say_d, s);
	return NULL;
}

TEST(posts_of_all_threads_arrive)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	pthread_t threads[4];

	for (unsigned i = 0; i < 4; i++)
		is_true(!pthread_create(&threads[i], NULL, post_many, &s));
	while (s.text.len < 4000)
		loop_turn(l, 100);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	eq_int(s.text.len, 4000);
	is_false(loop_turn(l, 0));
}

TEST(posts_keep_the_order_of_their_thread)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };

	loop_post(l, say_d, &s);
	loop_post(l, say_f, &s);
	loop_post(l, say_f, &s);
	loop_turn(l, 100);
	eq_str(buf_str(&s.text), "dff");
	loop_post(l, say_f, &s); /* loop_free() runs what is left */
	loop_free(take(l));
	eq_str(buf_str(&s.text), "dfff");
}

static void *stop_it(void *arg)
{
	loop_stop(arg);
	return NULL;
}

TEST(another_thread_may_stop_the_loop)
{
	autoptr(loop) l = loop_for_test();
	pthread_t thread;

	is_true(!pthread_create(&thread, NULL, stop_it, l));
	loop_run(l);
	pthread_join(thread, NULL);
}

static void work(void *arg)
{
	((struct story *)arg)->ready = 1;
}

static void work_done(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, s->ready ? 'j' : '?');
}

TEST(a_job_works_elsewhere_and_ends_here)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };

	job_run(l, work, work_done, &s);
	while (loop_turn(l, 100))
		;
	eq_str(buf_str(&s.text), "j");
	job_run(l, work, work_done, &s);
	loop_free(take(l)); /* waits for it */
	eq_str(buf_str(&s.text), "jj");
}

static void on_signal(void *arg, int signum)
{
	buf_printf(&((struct story *)arg)->text, "%d", signum == SIGUSR1);
}

TEST(a_signal_calls_back_on_the_loop)
{
	autoptr(loop) l = loop_for_test();
	autostory s = { .loop = l };
	struct signal_watch *w = signal_watch_new(l, SIGUSR1, on_signal, &s);

	is_true(!raise(SIGUSR1));
	while (!s.text.len)
		loop_turn(l, 100);
	eq_str(buf_str(&s.text), "1");
	signal_watch_free(w);
	signal_watch_free(NULL);
}
