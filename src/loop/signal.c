/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/mem.h"
#include "loop/loop_priv.h"

struct signal_watch {
	uv_signal_t uv;
	void (*fn)(void *arg, int signum);
	void *arg;
};

static void on_signal(uv_signal_t *h, int signum)
{
	struct signal_watch *s = container_of(h, struct signal_watch, uv);

	s->fn(s->arg, signum);
}

struct signal_watch *signal_watch_new(struct loop *l, int signum, void (*fn)(void *arg, int signum),
				      void *arg)
{
	struct signal_watch *s = xnew(struct signal_watch);
	int r = uv_signal_init(&l->uv, &s->uv);

	s->fn = fn;
	s->arg = arg;
	if (r == 0)
		r = uv_signal_start(&s->uv, on_signal, signum);
	assert(r == 0); /* SIGKILL and SIGSTOP cannot be watched */
	return s;
}

static void on_closed(uv_handle_t *h)
{
	free(container_of((uv_signal_t *)h, struct signal_watch, uv));
}

void signal_watch_free(struct signal_watch *s)
{
	if (s)
		uv_close((uv_handle_t *)&s->uv, on_closed);
}
