/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct loop;

/* One inotify descriptor for everything that follows files. */
struct inotify;
/* Never NULL. *ret_why: NULL, or why the kernel tells us nothing; then everything is looked at
 * several times a second. */
struct inotify *inotify_open(struct loop *l, struct err **ret_why);
void inotify_free(struct inotify *i);
struct inotify_watch;
/* fn on every change of the file or directory, and perhaps without one: it looks for itself. */
struct inotify_watch *inotify_add(struct inotify *i, const char *path, uint32_t mask,
				  void (*fn)(void *arg, uint32_t what), void *arg);
bool inotify_is_prompt(const struct inotify_watch *w); /* the kernel tells of changes */
void inotify_del(struct inotify_watch *w);
