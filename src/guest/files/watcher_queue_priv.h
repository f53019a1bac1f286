/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "guest/files/watcher.h"

/*
 * Changes on their way to a reader, oldest first. One that only repeats what is already in the
 * queue for its path is left out: a write after a write, or after the creation of the file.
 */
enum {
	WATCH_QUEUE_MAX = 4096,
};

struct queued {
	struct list on;
	enum watch_change type;
	char *path, *old;
	uint32_t cookie; /* a name that has gone, and may turn up elsewhere: the kernel's number */
};

struct watch_queue {
	struct map *last; /* path → what the queue last says of it, borrowed */
	struct list list; /* struct queued */
	size_t n;
};

void watch_queue_init(struct watch_queue *q);
void watch_queue_done(struct watch_queue *q);
/* False: it is full. */
bool watch_queue_add(struct watch_queue *q, enum watch_change type, const char *path);
/* A name that has gone: removed, unless it turns up under the same cookie. */
bool watch_queue_gone(struct watch_queue *q, const char *path, uint32_t cookie);
/* True if it did: what was gone is now a rename. */
bool watch_queue_back(struct watch_queue *q, const char *path, uint32_t cookie);
struct queued *watch_queue_first(const struct watch_queue *q); /* NULL: it is empty */
void watch_queue_drop(struct watch_queue *q, struct queued *c);
