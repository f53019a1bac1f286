/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/inotify.h"

#include <errno.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
#include "loop/loop.h"

/*
 * One inotify descriptor for the whole node: a user has only 128 of them, and something else may
 * have taken them all. Watches of the same file share a number; a watcher learns only that
 * something changed, and looks for itself. Whoever the kernel does not tell, because there is no
 * descriptor or no watch left, is called every so often instead; for a directory, only if it has
 * changed since.
 */
enum {
	POLL_MS = 250,
	NOT_WATCHED = -1,
};

struct inotify_watch {
	struct list on;
	struct inotify *i;
	int wd;          /* NOT_WATCHED: called by the timer */
	char *path;      /* NOT_WATCHED, of a directory */
	struct stat was; /* when it was last looked at */
	void (*fn)(void *arg, uint32_t what);
	void *arg;
	uint32_t hit;
};

struct inotify {
	int fd; /* -1: there is none */
	struct watch *watch;
	struct timer *look;
	struct list watches;
};

static void mark(struct inotify *i, const struct inotify_event *e)
{
	struct inotify_watch *w;

	list_each(w, &i->watches, on)
		if (w->wd != NOT_WATCHED && (w->wd == e->wd || (e->mask & IN_Q_OVERFLOW)))
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

static bool has_changed(struct inotify_watch *w)
{
	struct stat now = { 0 };
	bool changed;

	if (!w->path)
		return true;
	(void)stat(w->path, &now); /* one that is gone has changed too */
	changed = now.st_ino != w->was.st_ino || now.st_size != w->was.st_size ||
		  now.st_mtim.tv_sec != w->was.st_mtim.tv_sec ||
		  now.st_mtim.tv_nsec != w->was.st_mtim.tv_nsec;
	w->was = now;
	return changed;
}

static void on_look(void *arg)
{
	struct inotify *i = arg;
	struct inotify_watch *w;
	bool any = false;

	list_each(w, &i->watches, on) {
		if (w->wd != NOT_WATCHED)
			continue;
		any = true;
		if (has_changed(w))
			w->hit |= IN_MODIFY;
	}
	if (any)
		timer_set(i->look, POLL_MS);
	call_hit(i);
}

struct inotify *inotify_open(struct loop *l, struct err **ret_why)
{
	struct inotify *i = xnew(struct inotify);

	*ret_why = NULL;
	list_init(&i->watches);
	i->look = timer_new(l, on_look, i);
	i->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (i->fd < 0) {
		*ret_why = err_sys(errno, "open inotify");
		return i;
	}
	i->watch = watch_new(l, i->fd, on_ready, i);
	watch_want(i->watch, WATCH_READ);
	return i;
}

static void watch_done(struct inotify_watch *w)
{
	free(w->path);
	free(w);
}

void inotify_free(struct inotify *i)
{
	struct inotify_watch *w, *next;

	if (!i)
		return;
	list_each_safe(w, next, &i->watches, on)
		watch_done(w);
	watch_free(i->watch);
	timer_free(i->look);
	if (i->fd >= 0)
		(void)close(i->fd);
	free(i);
}

struct inotify_watch *inotify_add(struct inotify *i, const char *path, uint32_t mask,
				  void (*fn)(void *arg, uint32_t what), void *arg)
{
	int wd = i->fd < 0 ? NOT_WATCHED : inotify_add_watch(i->fd, path, mask | IN_MASK_ADD);
	struct inotify_watch *w = xnew(struct inotify_watch);

	w->i = i;
	w->wd = wd < 0 ? NOT_WATCHED : wd;
	w->fn = fn;
	w->arg = arg;
	list_add_tail(&i->watches, &w->on);
	if (w->wd != NOT_WATCHED)
		return w;
	w->path = mask & IN_MOVED_TO ? xstrdup(path) : NULL;
	(void)has_changed(w);
	if (!timer_armed(i->look))
		timer_set(i->look, POLL_MS);
	return w;
}

bool inotify_is_prompt(const struct inotify_watch *w)
{
	return w && w->wd != NOT_WATCHED;
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
	if (!shared && w->wd != NOT_WATCHED)
		(void)inotify_rm_watch(w->i->fd, w->wd);
	watch_done(w);
}
