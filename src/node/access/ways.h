/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/mem.h"

struct access;
struct diskpool;
struct inotify;
struct loop;
struct pods;

/*
 * The ways into the Pods of this node, as client/access.h offers them: exec and ports through the
 * container's guest, logs from the file that the guest writes.
 *
 * On the loop's thread; log files are read by jobs.
 */
struct ways;

struct ways_spec {
	struct loop *loop;
	struct pods *pods;
	struct inotify *inotify;     /* reports that a followed log has grown */
	int run_fd;                  /* of the guests' sockets */
	const struct diskpool *disk; /* of the logs; outlives the ways */
};

struct ways *ways_new(const struct ways_spec *spec);
struct access *ways_access(struct ways *w); /* borrowed */
void ways_settle(struct ways *w);           /* turns the loop until nothing is read */
void ways_free(struct ways *w);             /* after every session of it */
AUTOPTR(ways)
