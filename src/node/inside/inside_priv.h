/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "node/inside/inside.h"

#define SEAT_PART "a-" /* begins the part of a seat in a task's group, before its key */

/* caller.c: where the process is that connected this socket, "task" or "task/part", malloc'd; NULL:
 * it has ended, or is in no sandbox of ours. */
char *caller_group(const struct inside_spec *spec, int fd);

/* holder.c: whether one of its first 1024 descriptors is the other end of this connected socket. */
bool holds_other_end(pid_t pid, int fd);
