/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct rt;

/*
 * Tells of changes in a directory, or in the whole tree below it. Changes are gathered for a
 * quarter of a second, and what happened to a file several times in that time is told once. A
 * reader who does not keep up is not held in memory: the watch ends and says so.
 */
struct watcher;

enum watch_change {
	WATCH_CREATE = 1, /* the numbers of watcher.v1 */
	WATCH_CHANGED,
	WATCH_REMOVE,
	WATCH_RENAME,
	WATCH_CHMOD,
	WATCH_ERROR, /* the last one */
	WATCH_CHANGE_MAX_,
};

struct change {
	enum watch_change type;
	const char *path; /* from the root of all files on, without a slash in front */
	const char *old;  /* WATCH_RENAME: where it was; otherwise NULL */
	const char *text; /* WATCH_ERROR: what is the matter; otherwise NULL */
};

struct watcher_events {
	bool (*full)(void *arg); /* no change is told at the moment; watcher_drained() goes on */
	void (*change)(void *arg, const struct change *c);
	void (*over)(void *arg); /* after WATCH_ERROR: free the watcher */
};

/*
 * ERR_FORBIDDEN: the path leaves the base. ERR_NOT_FOUND or ENOTDIR: it is no directory.
 * ERR_EXHAUSTED: too many watches, or directories in this one.
 */
must_use struct err *watcher_new(struct rt *rt, const char *base, const char *path, bool recursive,
				 struct watcher **ret);
/* Changes are told from the next turn on, and are kept until then. */
void watcher_begin(struct watcher *w, const struct watcher_events *ev, void *arg);
void watcher_drained(struct watcher *w);
void watcher_free(struct watcher *w);
AUTOPTR(watcher)
