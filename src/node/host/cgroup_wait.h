/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/mem.h"

struct cgroups;
struct inotify;
struct loop;

/*
 * Calls back once when it is worth trying again to remove a control group that still had processes:
 * when the kernel reports that it is empty (version 2), and in any case after a delay that grows
 * with the number of attempts, for hosts without version 2 and for events that got lost.
 */
struct cgroup_wait;

struct cgroup_wait_spec {
	struct loop *loop;
	struct inotify *inotify;
	const struct cgroups *cgroups;
	void (*again)(void *arg); /* may free the wait */
	void *arg;
};

struct cgroup_wait *cgroup_wait_new(const struct cgroup_wait_spec *spec, const char *name,
				    unsigned tries);
void cgroup_wait_free(struct cgroup_wait *w);
AUTOPTR(cgroup_wait)
