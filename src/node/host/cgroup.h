/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Control groups of one instance: "<mount>/<parent>/<slot>" in every hierarchy that matters, on
 * hosts with version 2, version 1 or both. Nothing in here changes after cgroups_open(), so any
 * thread may use it.
 *
 * A name "<slot>/<part>" is a group within that of a slot, whose limits hold for it too. What is
 * done to a slot is done to its parts: usage, processes, freezing, killing and removing.
 */
enum {
	CGROUP_MEMORY = 1,
	CGROUP_CPU = 2,
	CGROUP_PIDS = 4,
	CGROUP_TREE = 8,     /* groups processes: version 2, or the named tree of an old host */
	CGROUP_FREEZER = 16, /* stops processes where they are: version 2 always does */
	CGROUP_LIMITING = CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS,
};

struct cgroups;

struct cgroup_limits {
	int64_t memory;    /* bytes; 0: none */
	int64_t cpu_milli; /* thousandths of a CPU; 0: none */
	int64_t cpu_share; /* thousandths of a CPU requested, for the weight; 0: least */
	int64_t pids;
};

/* Finds the hierarchies. parent is a path below their mounts (scope.h). make: also makes its last
 * element; without that, groups can be looked at and removed, but not made, entered or limited. */
must_use struct err *cgroups_open(const char *parent, bool make, struct cgroups **ret);
void cgroups_free(struct cgroups *c);
AUTOPTR(cgroups)
const char *cgroups_parent(const struct cgroups *c);
char *cgroups_v2_dir(const struct cgroups *c);  /* the parent in version 2, malloc'd; NULL: none */
unsigned cgroups_have(const struct cgroups *c); /* the controllers that work here */
/* What keeps a container's control groups from handing controllers down, and what to do about it;
 * NULL: nothing is known to. */
const char *cgroups_obstacle(const struct cgroups *c);
/* Whether a group is killed at once (FEATURE_CGROUP_KILL), as at first, or one process after the
 * other. Before anybody else uses it. */
void cgroups_use_kill(struct cgroups *c, bool use);
/* The limits that a group has by its files: 0 where this host has none. ERR_NOT_FOUND: there is no
 * such group. */
must_use struct err *cgroup_read_limits(const struct cgroups *c, const char *name,
					struct cgroup_limits *ret);

must_use struct err *cgroup_make(const struct cgroups *c, const char *name);
must_use struct err *cgroup_enter(const struct cgroups *c, const char *name); /* this process */
must_use struct err *cgroup_limit(const struct cgroups *c, const char *name,
				  const struct cgroup_limits *l);
/* Of all groups together: memory and pids. */
must_use struct err *cgroups_limit(const struct cgroups *c, const struct cgroup_limits *l);
int64_t cgroup_oom_kills(const struct cgroups *c, const char *name); /* 0 when unknown */

struct cgroup_usage {
	int64_t cpu_usec;
	int64_t memory_peak;
};
/* What its processes have used, those that ended among them. What this host does not count is 0.
 * False: there is no such group. */
bool cgroup_usage(const struct cgroups *c, const char *name, struct cgroup_usage *ret);
/* The memory that it has now, without file pages that have not been used lately, as a kubelet
 * counts. Of a part of a slot under version 2, which counts for whole slots alone, it is what its
 * processes have for themselves. It makes the kernel add up: not for the loop. */
int64_t cgroup_memory(const struct cgroups *c, const char *name);
/* Stops everything in it, and what is started in it later, or lets it go on. A process stops within
 * a moment, which cgroup_frozen() tells; a signal that kills is obeyed in version 2 alone.
 * ERR_UNSUPPORTED: this host has no freezer. */
must_use struct err *cgroup_freeze(const struct cgroups *c, const char *name, bool frozen);
bool cgroup_frozen(const struct cgroups *c, const char *name); /* all of it has stopped */
/* Whether what it has in memory may go to swap space, where its limits would forbid that. Nothing
 * is taken back from there. */
void cgroup_let_swap(const struct cgroups *c, const char *name, bool may);
void cgroup_each_process(const struct cgroups *c, const char *name,
			 void (*fn)(void *arg, pid_t pid), void *arg);
/* Kills what is left in it; the processes may take a moment to end. */
void cgroup_kill(const struct cgroups *c, const char *name);
/* Absent is fine. ERR_UNAVAILABLE: there still are processes. */
must_use struct err *cgroup_remove(const struct cgroups *c, const char *name);
/* Version 2: the file that changes when the last process leaves or the first one enters. malloc'd;
 * NULL: this host has no version 2 tree. */
char *cgroup_events_path(const struct cgroups *c, const char *name);
bool cgroup_populated(const struct cgroups *c, const char *name); /* version 2; false if unknown */
void cgroups_remove_parent(const struct cgroups *c);              /* if nothing is left in it */
/* The parts of a slot. path is absolute. */
void cgroup_each_below(const struct cgroups *c, const char *name,
		       void (*fn)(void *arg, const char *name, const char *path), void *arg);
/* Where a process is: "<slot>" or "<slot>/<part>", malloc'd; NULL: in none of these groups. */
char *cgroup_of(const struct cgroups *c, pid_t pid);
/* No other group had, has or will have it as long as the machine runs; 0: there is none. */
uint64_t cgroup_identity(const struct cgroups *c, const char *name);
bool cgroup_empty(const struct cgroups *c, const char *name); /* there are no processes in it */
/* Removes groups at the top of every hierarchy that are leftovers (leftover.h), and empty. */
void cgroups_sweep(const char *prefix);
/* Every group of the instance, once for each hierarchy. path is absolute. */
void cgroups_each(const struct cgroups *c,
		  void (*fn)(void *arg, const char *name, const char *path), void *arg);
/* The processes in a directory given by cgroups_each(), and in its parts. */
void cgroup_each_pid(const char *path, void (*fn)(void *arg, pid_t pid), void *arg);
