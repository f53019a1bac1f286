/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/files/watcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "guest/files/watcher_queue_priv.h"
#include "guest/files/watcher_tree_priv.h"
#include "guest/runtime/path.h"
#include "guest/runtime/runtime.h"
#include "loop/loop.h"

/*
 * inotify looks at one directory at a time. In a tree, a new directory is first added and then
 * read: what was made in it before we looked is told as created. Directories are handed to the
 * kernel by descriptor, so what is watched is what was found, whatever is renamed meanwhile.
 */
enum {
	GATHER_MS = 250,
	WATCHERS_MAX = 32,
	READS = 16, /* in a turn */
	WANTED = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
		 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR,
};

struct watcher {
	struct rt *rt;
	const struct watcher_events *ev; /* NULL: not begun */
	void *arg;
	struct base base;
	bool recursive;
	int fd;
	struct watch *watch;
	struct timer *timer; /* set: changes are being gathered */
	struct watch_tree tree;
	struct watch_dir *top;
	struct watch_queue queue;
	char *failed; /* the watch is over: what is told last */
};

static unsigned n_watchers;

void watcher_free(struct watcher *w)
{
	if (!w)
		return;
	n_watchers--;
	watch_free(w->watch);
	timer_free(w->timer);
	if (w->fd >= 0)
		(void)close(w->fd);
	watch_tree_done(&w->tree);
	watch_queue_done(&w->queue);
	base_done(&w->base);
	free(w->failed);
	free(w);
}

static void fail(struct watcher *w, const char *fmt, ...) printf_like(2, 3);
static void fail(struct watcher *w, const char *fmt, ...)
{
	autobuf text = { 0 };
	va_list ap;

	if (w->failed)
		return;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	w->failed = xstrdup(buf_str(&text));
	watch_want(w->watch, 0);
}

static void overflow(struct watcher *w)
{
	fail(w, "overflow: changes were lost; list the directory and watch it again");
}

/* Tells what was gathered, as long as the reader keeps up. True if that was all. */
static bool empty_queue(struct watcher *w)
{
	struct queued *c;

	while ((c = watch_queue_first(&w->queue)) && !w->ev->full(w->arg)) {
		w->ev->change(w->arg, &(struct change){ c->type, c->path, c->old, NULL });
		watch_queue_drop(&w->queue, c);
	}
	return !c && !w->ev->full(w->arg);
}

/* May free w, as its last act. */
static void tell(struct watcher *w)
{
	if (!empty_queue(w) || !w->failed)
		return;
	w->ev->change(w->arg, &(struct change){ WATCH_ERROR, w->top->name, NULL, w->failed });
	w->ev->over(w->arg);
}

/* A directory has left the tree with all that is below: the kernel need not look there. */
static void dir_left(struct watcher *w, const struct watch_dir *d)
{
	struct watch_dir *each;

	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		list_each(each, &w->tree.buckets[i], on)
			if (watch_tree_below(each, d))
				(void)inotify_rm_watch(w->fd, each->wd);
}

/* Directories whose names have gone and did not turn up while changes were gathered. */
static void forget_gone(struct watcher *w)
{
	struct queued *c;

	list_each(c, &w->queue.list, on) {
		struct watch_dir *each;

		if (!c->cookie)
			continue;
		c->cookie = 0;
		for (size_t i = 0; i < WATCH_BUCKETS; i++)
			list_each(each, &w->tree.buckets[i], on) {
				autobuf at = { 0 };

				watch_tree_path(each, NULL, &at);
				if (each != w->top && str_eq(buf_str(&at), c->path)) {
					dir_left(w, each);
					break;
				}
			}
	}
}

static void on_timer(void *arg)
{
	struct watcher *w = arg;

	forget_gone(w);
	tell(w);
}

void watcher_drained(struct watcher *w)
{
	if (!timer_armed(w->timer))
		tell(w);
}

/* Has the kernel look at a directory. NULL: it is looked at already, or cannot be. */
static struct watch_dir *look_at(struct watcher *w, int dir, struct watch_dir *above,
				 const char *name)
{
	char path[32];
	int wd;

	if (w->tree.n >= WATCH_DIRS_MAX) {
		fail(w, "there are more than %d directories", WATCH_DIRS_MAX);
		return NULL;
	}
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	wd = inotify_add_watch(w->fd, path, WANTED);
	if (wd < 0 && errno != ENOENT && errno != EACCES)
		fail(w, "watch %s: %s", name, strerror(errno));
	return wd < 0 ? NULL : watch_tree_add(&w->tree, wd, above, name);
}

/* What is already in a directory that has turned up. */
struct fresh {
	struct watch_dir *dir;
	struct fresh *next;
};

static bool is_dir(int dir, const struct dirent *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return d->d_type == DT_DIR;
	return !fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode);
}

static void note(struct watcher *w, enum watch_change type, const struct watch_dir *d,
		 const char *name)
{
	autobuf path = { 0 };

	watch_tree_path(d, name, &path);
	if (!watch_queue_add(&w->queue, type, buf_str(&path)))
		overflow(w);
}

/* Adds the directories in one, and what else is there if told is true. */
static void read_one(struct watcher *w, struct fresh **todo, struct watch_dir *d, bool told)
{
	autobuf path = { 0 };
	int fd = -1;
	autoptr(err) e = NULL;
	const struct dirent *entry;
	DIR *dir;

	watch_tree_path(d, NULL, &path);
	e = path_open(&w->base, buf_str(&path), O_RDONLY | O_DIRECTORY, &fd);
	dir = e ? NULL : fdopendir(fd);
	while (dir && !w->failed && (entry = readdir(dir))) {
		autoclose child = -1;
		struct watch_dir *found = NULL;

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (told)
			note(w, WATCH_CREATE, d, entry->d_name);
		if (!is_dir(dirfd(dir), entry))
			continue;
		child = openat(dirfd(dir), entry->d_name,
			       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child >= 0)
			found = look_at(w, child, d, entry->d_name);
		if (found) {
			struct fresh *f = xnew(struct fresh);

			*f = (struct fresh){ found, *todo };
			*todo = f;
		}
	}
	if (dir)
		(void)closedir(dir);
	else if (fd >= 0)
		(void)close(fd);
}

/* Everything below a directory that is looked at already. */
static void read_below(struct watcher *w, struct watch_dir *d, bool told)
{
	struct fresh *todo = NULL;

	read_one(w, &todo, d, told);
	while (todo) {
		struct fresh *f = todo;

		todo = f->next;
		read_one(w, &todo, f->dir, told);
		free(f);
	}
}

static void dir_appeared(struct watcher *w, struct watch_dir *above, const char *name)
{
	autobuf path = { 0 };
	autoclose fd = -1;
	autoptr(err) e = NULL;
	struct watch_dir *d;

	watch_tree_path(above, name, &path);
	e = path_open(&w->base, buf_str(&path), O_PATH | O_DIRECTORY | O_NOFOLLOW, &fd);
	d = e ? NULL : look_at(w, fd, above, name);
	if (d)
		read_below(w, d, true);
}

/* The kernel has stopped looking at d, and says so after everything else of it. */
static void dir_ignored(struct watcher *w, struct watch_dir *d)
{
	struct watch_dir *each;

	if (d == w->top) {
		fail(w, "the directory was removed");
		return;
	}
	/* Those below are on their way out too; their paths no longer matter. */
	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		list_each(each, &w->tree.buckets[i], on)
			if (each->above == d)
				each->above = d->above;
	watch_tree_del(&w->tree, d);
}

static void moved_to(struct watcher *w, struct watch_dir *d, const struct inotify_event *v)
{
	autobuf path = { 0 }, old = { 0 };
	struct watch_dir *each, *moved = NULL;
	const struct queued *c;

	watch_tree_path(d, v->name, &path);
	/* Which directory it was is known by the path that it had. */
	list_each(c, &w->queue.list, on)
		if (c->cookie == v->cookie)
			buf_add_str(&old, c->path);
	if (!watch_queue_back(&w->queue, buf_str(&path), v->cookie)) {
		note(w, WATCH_CREATE, d, v->name);
		if (w->recursive && v->mask & IN_ISDIR)
			dir_appeared(w, d, v->name);
		return;
	}
	if (!(v->mask & IN_ISDIR))
		return;
	for (size_t i = 0; i < WATCH_BUCKETS && !moved; i++)
		list_each(each, &w->tree.buckets[i], on) {
			autobuf at = { 0 };

			watch_tree_path(each, NULL, &at);
			if (str_eq(buf_str(&at), buf_str(&old))) {
				moved = each;
				break;
			}
		}
	if (moved && !watch_tree_below(d, moved))
		watch_tree_move(moved, d, v->name);
	else if (w->recursive)
		dir_appeared(w, d, v->name);
}

static void moved_from(struct watcher *w, struct watch_dir *d, const struct inotify_event *v)
{
	autobuf path = { 0 };

	watch_tree_path(d, v->name, &path);
	if (!watch_queue_gone(&w->queue, buf_str(&path), v->cookie))
		overflow(w);
}

static void on_event(struct watcher *w, const struct inotify_event *v)
{
	const char *name = v->len ? v->name : "";
	struct watch_dir *d = watch_tree_find(&w->tree, v->wd);

	if (v->mask & IN_Q_OVERFLOW)
		overflow(w);
	if (!d)
		return;
	if (v->mask & (IN_IGNORED | IN_UNMOUNT))
		dir_ignored(w, d);
	else if (v->mask & IN_DELETE_SELF && d == w->top)
		fail(w, "the directory was removed");
	else if (v->mask & IN_MOVE_SELF && d == w->top)
		fail(w, "the directory was renamed");
	else if (v->mask & IN_MOVED_FROM)
		moved_from(w, d, v);
	else if (v->mask & IN_MOVED_TO)
		moved_to(w, d, v);
	else if (v->mask & IN_DELETE)
		note(w, WATCH_REMOVE, d, name);
	else if (v->mask & IN_MODIFY)
		note(w, WATCH_CHANGED, d, name);
	else if (v->mask & IN_ATTRIB && (*name || d == w->top))
		note(w, WATCH_CHMOD, d, name);
	else if (v->mask & IN_CREATE)
		note(w, WATCH_CREATE, d, name);
	if (v->mask & IN_CREATE && v->mask & IN_ISDIR && w->recursive)
		dir_appeared(w, d, name);
}

static bool read_events(struct watcher *w)
{
	_Alignas(struct inotify_event) char data[16 * 1024];
	ssize_t n = read(w->fd, data, sizeof(data));

	for (ssize_t at = 0; at < n && !w->failed;) {
		const struct inotify_event *v = (const void *)(data + at);

		on_event(w, v);
		at += (ssize_t)(sizeof(*v) + v->len);
	}
	return n > 0 && !w->failed;
}

static void on_readable(void *arg, unused unsigned ready)
{
	struct watcher *w = arg;

	for (int i = 0; i < READS; i++) {
		if (w->queue.n >= WATCH_QUEUE_MAX / 2) { /* too many to wait for more */
			forget_gone(w);
			(void)empty_queue(w);
		}
		if (!read_events(w))
			break;
	}
	if (!timer_armed(w->timer))
		timer_set(w->timer, w->failed ? 0 : GATHER_MS);
}

void watcher_begin(struct watcher *w, const struct watcher_events *ev, void *arg)
{
	w->ev = ev;
	w->arg = arg;
	watch_want(w->watch, WATCH_READ);
}

static struct err *open_top(struct watcher *w, const char *path)
{
	autofree char *clean = NULL, *plain = NULL;
	autoclose fd = -1;
	struct err *e = path_clean(&w->base, path, &clean);

	if (!e)
		e = path_resolve(&w->base, clean, &plain);
	if (!e)
		e = path_open(&w->base, plain, O_PATH | O_DIRECTORY, &fd);
	if (e)
		return e;
	w->top = look_at(w, fd, NULL, str_eq(plain, ".") ? "" : plain);
	if (w->top && w->recursive)
		read_below(w, w->top, false);
	if (w->failed || !w->top)
		return err_new(ERR_EXHAUSTED, "%s", w->failed ? w->failed : "it cannot be watched");
	return NULL;
}

struct err *watcher_new(struct rt *rt, const char *base, const char *path, bool recursive,
			struct watcher **ret)
{
	autoptr(watcher) w = xnew(struct watcher);
	struct err *e;

	n_watchers++;
	w->rt = rt;
	w->base.fd = -1;
	w->recursive = recursive;
	watch_tree_init(&w->tree);
	watch_queue_init(&w->queue);
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->fd < 0)
		return err_new(ERR_EXHAUSTED, "watch: %s", strerror(errno));
	w->watch = watch_new(rt->loop, w->fd, on_readable, w);
	w->timer = timer_new(rt->loop, on_timer, w);
	if (n_watchers > WATCHERS_MAX)
		return err_new(ERR_EXHAUSTED, "%d directories are watched already", WATCHERS_MAX);
	e = base_open(base, &w->base);
	if (!e)
		e = open_top(w, path);
	if (!e)
		*ret = take(w);
	return e;
}
