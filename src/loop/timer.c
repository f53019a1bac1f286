/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "loop/loop_priv.h"

/*
 * libuv runs timers until none is due, so one that sets itself to 0 ms would keep the loop from its
 * descriptors for as long as it does. What a timer sets to 0 ms is armed after all timers instead,
 * and fires in the next turn.
 */
struct timer {
	uv_timer_t uv;
	struct deferred arm;
	void (*fn)(void *arg);
	void *arg;
};

static void arm_now(void *arg)
{
	struct timer *t = arg;

	timer_set(t, 0);
}

struct timer *timer_new(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct timer *t = xnew(struct timer);

	(void)uv_timer_init(&l->uv, &t->uv);
	deferred_init(&t->arm, l, arm_now, t);
	t->fn = fn;
	t->arg = arg;
	return t;
}

static void on_timer(uv_timer_t *h)
{
	struct timer *t = container_of(h, struct timer, uv);

	struct loop *l = t->arm.loop;

	l->in_timer = true;
	t->fn(t->arg);
	l->in_timer = false;
}

void timer_set(struct timer *t, uint64_t in_ms)
{
	deferred_cancel(&t->arm);
	if (!in_ms && t->arm.loop->in_timer) {
		(void)uv_timer_stop(&t->uv);
		deferred_call(&t->arm);
		return;
	}
	/* libuv counts from the start of the turn, which may be some work ago. */
	uv_update_time(t->uv.loop);
	(void)uv_timer_start(&t->uv, on_timer, in_ms, 0);
}

void timer_clear(struct timer *t)
{
	deferred_cancel(&t->arm);
	(void)uv_timer_stop(&t->uv);
}

bool timer_armed(const struct timer *t)
{
	return deferred_pending(&t->arm) || uv_is_active((const uv_handle_t *)&t->uv);
}

static void on_closed(uv_handle_t *h)
{
	free(container_of((uv_timer_t *)h, struct timer, uv));
}

void timer_free(struct timer *t)
{
	if (!t)
		return;
	deferred_cancel(&t->arm);
	uv_close((uv_handle_t *)&t->uv, on_closed);
}
