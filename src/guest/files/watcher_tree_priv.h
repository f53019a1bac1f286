/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"

/*
 * The directories that a watcher has the kernel look at: the numbers that the kernel gave them, and
 * where they are. A directory that moves takes everything below along.
 */
enum {
	WATCH_DIRS_MAX = 8192,
	WATCH_BUCKETS = 256,
};

struct watch_dir {
	struct list on;          /* its bucket, by number */
	struct watch_dir *above; /* NULL: the one that is watched */
	int wd;
	char *name; /* in the one above; the path of the first from the root on */
};

struct watch_tree {
	struct list buckets[WATCH_BUCKETS];
	size_t n;
};

void watch_tree_init(struct watch_tree *t);
void watch_tree_done(struct watch_tree *t);
/* NULL: the kernel has given the number before; it is the same directory in another place. */
struct watch_dir *watch_tree_add(struct watch_tree *t, int wd, struct watch_dir *above,
				 const char *name);
struct watch_dir *watch_tree_find(const struct watch_tree *t, int wd);
void watch_tree_move(struct watch_dir *d, struct watch_dir *above, const char *name);
bool watch_tree_below(const struct watch_dir *d, const struct watch_dir *top); /* or the same */
void watch_tree_del(struct watch_tree *t, struct watch_dir *d); /* nothing is below it */
/* The path of name in d, or of d itself if name is NULL or "". */
void watch_tree_path(const struct watch_dir *d, const char *name, struct buf *out);
