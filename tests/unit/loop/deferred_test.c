/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "loop/loop.h"
#include "test.h"

/* Deferred calls on a real loop: what ran is written down, one letter per call. */
struct scene {
	struct loop *loop;
	struct buf ran;
	struct deferred a, b;
	unsigned n_left; /* how often a asks for itself again */
};

static void run_a(void *arg)
{
	struct scene *s = arg;

	buf_add_char(&s->ran, 'a');
	if (s->n_left) {
		s->n_left--;
		deferred_call(&s->a);
	}
}

static void run_b(void *arg)
{
	buf_add_char(&((struct scene *)arg)->ran, 'b');
}

static void cancel_b(void *arg)
{
	struct scene *s = arg;

	buf_add_char(&s->ran, 'c');
	deferred_cancel(&s->b);
}

static void scene_open(struct scene *s, void (*a)(void *arg))
{
	*s = (struct scene){ 0 };
	works(loop_new(&s->loop));
	deferred_init(&s->a, s->loop, a, s);
	deferred_init(&s->b, s->loop, run_b, s);
}

static void scene_ends(struct scene *s, const char *ran)
{
	(void)loop_turn(s->loop, 0);
	eq_str(buf_str(&s->ran), ran);
	loop_free(s->loop);
	eq_str(buf_str(&s->ran), ran); /* nothing was left for the end */
	buf_done(&s->ran);
}

TEST(a_deferred_runs_once_however_often_it_is_asked_for)
{
	struct scene s;

	scene_open(&s, run_a);
	is_false(deferred_pending(&s.a));
	deferred_call(&s.a);
	deferred_call(&s.b);
	deferred_call(&s.a); /* keeps its place before b */
	is_true(deferred_pending(&s.a));
	scene_ends(&s, "ab");
	is_false(deferred_pending(&s.a));
}

TEST(a_deferred_that_is_cancelled_does_not_run)
{
	struct scene s;

	scene_open(&s, run_a);
	deferred_call(&s.a);
	deferred_call(&s.b);
	deferred_cancel(&s.a);
	is_false(deferred_pending(&s.a));
	deferred_cancel(&s.a);
	scene_ends(&s, "b");
}

TEST(a_deferred_that_was_cancelled_can_be_asked_for_again)
{
	struct scene s;

	scene_open(&s, run_a);
	deferred_call(&s.a);
	deferred_call(&s.b);
	deferred_cancel(&s.a);
	deferred_call(&s.a);
	scene_ends(&s, "ba");
}

TEST(cancelling_a_deferred_that_is_all_zero_does_nothing)
{
	struct deferred d = { 0 };

	is_false(deferred_pending(&d));
	deferred_cancel(&d);
}

TEST(a_deferred_that_asks_for_itself_runs_again_in_the_same_turn_after_the_others)
{
	struct scene s;

	scene_open(&s, run_a);
	s.n_left = 2;
	deferred_call(&s.a);
	deferred_call(&s.b);
	scene_ends(&s, "abaa");
}

TEST(a_deferred_may_cancel_another_that_is_pending)
{
	struct scene s;

	scene_open(&s, cancel_b);
	deferred_call(&s.a);
	deferred_call(&s.b);
	scene_ends(&s, "c");
}

struct owner {
	struct deferred d;
	struct buf *ran;
};

static void free_owner(void *arg)
{
	struct owner *o = arg;

	buf_add_char(o->ran, 'o');
	free(o);
}

TEST(a_deferred_may_free_its_owner)
{
	struct scene s;
	struct owner *o = xnew(struct owner);

	scene_open(&s, run_a);
	o->ran = &s.ran;
	deferred_init(&o->d, s.loop, free_owner, o);
	deferred_call(&o->d);
	deferred_call(&s.a);
	scene_ends(&s, "oa");
}

TEST(freeing_the_loop_runs_what_is_pending)
{
	struct scene s;

	scene_open(&s, run_a);
	deferred_call(&s.a);
	loop_free(s.loop);
	eq_str(buf_str(&s.ran), "a");
	buf_done(&s.ran);
}
