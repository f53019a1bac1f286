/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"

#include "test.h"

struct loop *loop_for_test(void)
{
	struct loop *l = NULL;

	works(loop_new(&l));
	return l;
}

void story_done(struct story *s)
{
	buf_done(&s->text);
}

void say_d(void *arg)
{
	buf_add_char(&((struct story *)arg)->text, 'd');
}

void say_f(void *arg)
{
	buf_add_char(&((struct story *)arg)->text, 'f');
}

static void defer_more(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, 'm');
	deferred_call(&s->d);
}

void story_can_defer(struct story *s)
{
	deferred_init(&s->d, s->loop, say_d, s);
	deferred_init(&s->more, s->loop, defer_more, s);
}

void on_timer(void *arg)
{
	struct story *s = arg;

	buf_add_char(&s->text, 't');
	deferred_call(&s->d);
	deferred_call(&s->more);
	loop_stop(s->loop);
}
