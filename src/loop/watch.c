/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/mem.h"
#include "loop/loop_priv.h"

struct watch {
	uv_poll_t uv;
	void (*fn)(void *arg, unsigned ready);
	void *arg;
	unsigned want;
};

struct watch *watch_new(struct loop *l, int fd, void (*fn)(void *arg, unsigned ready), void *arg)
{
	struct watch *w = xnew(struct watch);
	int r = uv_poll_init(&l->uv, &w->uv, fd);

	assert(r == 0); /* closed, watched already, or of a kind that is always ready */
	w->fn = fn;
	w->arg = arg;
	return w;
}

static void on_ready(uv_poll_t *h, int status, int events);

static void poll_again(struct watch *w)
{
	int events = 0;

	if (w->want & WATCH_READ)
		events |= UV_READABLE;
	if (w->want & WATCH_WRITE)
		events |= UV_WRITABLE;
	if (events)
		(void)uv_poll_start(&w->uv, events, on_ready);
	else
		(void)uv_poll_stop(&w->uv);
}

static void on_ready(uv_poll_t *h, int status, int events)
{
	struct watch *w = container_of(h, struct watch, uv);
	unsigned ready = 0;

	if (status < 0) {
		/* libuv stops at an error; we report it as long as the owner wants to know. */
		ready = WATCH_READ | WATCH_WRITE;
		poll_again(w);
	}
	if (events & UV_READABLE)
		ready |= WATCH_READ;
	if (events & UV_WRITABLE)
		ready |= WATCH_WRITE;
	w->fn(w->arg, ready);
}

void watch_want(struct watch *w, unsigned want)
{
	if (w->want == want)
		return;
	w->want = want;
	poll_again(w);
}

static void on_closed(uv_handle_t *h)
{
	free(container_of((uv_poll_t *)h, struct watch, uv));
}

void watch_free(struct watch *w)
{
	if (w)
		uv_close((uv_handle_t *)&w->uv, on_closed);
}
