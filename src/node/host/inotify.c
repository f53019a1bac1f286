/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/inotify.h"

#include <errno.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
#include "loop/loop.h"

/*
 * One inotify descriptor for the whole node: a user has only 128 of them. Watches of the same file
 * share a number; a watcher learns only that something changed, and looks for itself.
 */
struct inotify_watch {
	struct list on;
	struct inotify *i;
	int wd;
	void (*fn)(void *arg, uint32_t what);
	void *arg;
	uint32_t hit;
};

struct inotify {
	int fd;
	struct watch *watch;
	struct list watches;
};

static void mark(struct inotify *i, const struct inotify_event *e)
{
	struct inotify_watch *w;

	list_each(w, &i->watches, on)
		if (w->wd == e->wd || (e->mask & IN_Q_OVERFLOW))
			w->hit |= e->mask;
}

/* A callback may remove any watch, so start over after each. */
static void call_hit(struct inotify *i)
{
	struct inotify_watch *w;
	bool again = true;

	while (again) {
		again = false;
		list_each(w, &i->watches, on) {
			uint32_t what = w->hit;

			if (!what)
				continue;
			w->hit = 0;
			again = true;
			w->fn(w->arg, what);
			break;
		}
	}
}

static void on_ready(void *arg, unused unsigned ready)
{
	_Alignas(struct inotify_event) char room[16 * 1024];
	struct inotify *i = arg;
	ssize_t n = read(i->fd, room, sizeof(room));

	for (char *at = room; n > 0 && at < room + n;) {
		const struct inotify_event *e = (const void *)at;

		mark(i, e);
		at += sizeof(*e) + e->len;
	}
	call_hit(i);
}

struct err *inotify_open(struct loop *l, struct inotify **ret)
{
	struct inotify *i = xnew(struct inotify);

	list_init(&i->watches);
	i->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (i->fd < 0) {
		free(i);
		return err_sys(errno, "open inotify");
	}
	i->watch = watch_new(l, i->fd, on_ready, i);
	watch_want(i->watch, WATCH_READ);
	*ret = i;
	return NULL;
}

void inotify_free(struct inotify *i)
{
	struct inotify_watch *w, *next;

	if (!i)
		return;
	list_each_safe(w, next, &i->watches, on)
		free(w);
	watch_free(i->watch);
	(void)close(i->fd);
	free(i);
}

struct inotify_watch *inotify_add(struct inotify *i, const char *path, uint32_t mask,
				  void (*fn)(void *arg, uint32_t what), void *arg)
{
	int wd = inotify_add_watch(i->fd, path, mask | IN_MASK_ADD);
	struct inotify_watch *w;

	if (wd < 0)
		return NULL;
	w = xnew(struct inotify_watch);
	w->i = i;
	w->wd = wd;
	w->fn = fn;
	w->arg = arg;
	list_add_tail(&i->watches, &w->on);
	return w;
}

void inotify_del(struct inotify_watch *w)
{
	struct inotify_watch *other;
	bool shared = false;

	if (!w)
		return;
	list_del(&w->on);
	list_each(other, &w->i->watches, on)
		shared = shared || other->wd == w->wd;
	if (!shared)
		(void)inotify_rm_watch(w->i->fd, w->wd);
	free(w);
}
