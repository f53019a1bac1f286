/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Gives everything in a directory to a group, as fsGroup asks: the group owns it and may read and
 * write it (read, if readonly), and what is made in a directory later is the group's too.
 *
 * The tree may be an attacker's, and change meanwhile. Nothing but what is in it is touched: links
 * are not followed, mounts are not crossed, and whatever is changed is held by a descriptor.
 * Regular files lose their set-id bits, as they do by any change of owner.
 */
struct regroup {
	gid_t gid;
	bool readonly;
	/* Of the thread that does it: how many were looked at, for whoever waits, who may also have
	 * it stop. */
	_Atomic uint64_t n;
	_Atomic bool stop;
};

enum {
	REGROUP_DEPTH = 256,         /* levels of directories */
	REGROUP_ENTRIES = 100000000, /* a tree that grows faster than the walk has no end */
};

/* Whether the directory itself is as it would be afterwards; it is changed last. */
bool regroup_done(int dir_fd, const struct regroup *r);
/* Blocks, for as long as it takes. ERR_TOO_LARGE: there is no end of it. ERR_CANCELED: stop. */
must_use struct err *regroup(int dir_fd, struct regroup *r);
