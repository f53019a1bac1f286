/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/inside/inside.h"

#define SEAT_PART "a-" /* begins the part of a seat in a task's group, before its key */

/* caller.c: where the process is that connected this socket, "task" or "task/part", malloc'd; NULL:
 * it has ended, or is in no sandbox of ours. */
char *caller_group(const struct cgroups *c, int fd);
