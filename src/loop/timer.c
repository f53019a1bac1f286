/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "loop/loop_priv.h"

struct timer {
	uv_timer_t uv;
	void (*fn)(void *arg);
	void *arg;
};

struct timer *timer_new(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct timer *t = xnew(struct timer);

	(void)uv_timer_init(&l->uv, &t->uv);
	t->fn = fn;
	t->arg = arg;
	return t;
}

static void on_timer(uv_timer_t *h)
{
	struct timer *t = container_of(h, struct timer, uv);

	t->fn(t->arg);
}

void timer_set(struct timer *t, uint64_t in_ms)
{
	/* libuv counts from the start of the turn, which may be some work ago. */
	uv_update_time(t->uv.loop);
	(void)uv_timer_start(&t->uv, on_timer, in_ms, 0);
}

void timer_clear(struct timer *t)
{
	(void)uv_timer_stop(&t->uv);
}

bool timer_armed(const struct timer *t)
{
	return uv_is_active((const uv_handle_t *)&t->uv);
}

static void on_closed(uv_handle_t *h)
{
	free(container_of((uv_timer_t *)h, struct timer, uv));
}

void timer_free(struct timer *t)
{
	if (t)
		uv_close((uv_handle_t *)&t->uv, on_closed);
}
