/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct loop;

/* One inotify descriptor for everything that follows files. */
struct inotify;
must_use struct err *inotify_open(struct loop *l, struct inotify **ret);
void inotify_free(struct inotify *i);
struct inotify_watch;
/* fn on every change of the file or directory. NULL when it cannot be watched. */
struct inotify_watch *inotify_add(struct inotify *i, const char *path, uint32_t mask,
				  void (*fn)(void *arg, uint32_t what), void *arg);
void inotify_del(struct inotify_watch *w);
