/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "node/runtime/runtime.h"

struct arena;
struct buf;

/*
 * What is recorded of a Pod that runs, in <run_dir>/state/<uid>.json: enough for a restarted daemon
 * to find its processes, and not to run anything twice. One table writes and reads it.
 */

/* How an attempt ended; reason NULL: it has not. */
struct ending {
	char *reason; /* "Completed", "Error", "OOMKilled", "StartError" */
	char *message;
	char *id; /* "cay://<task>" */
	int code, signal;
	int64_t started, finished; /* usec, wall clock */
};

struct container_record {
	const char *name;
	struct runtime_record task; /* id NULL: nothing runs */
	const char *image;          /* id of the one that the task uses */
	const char *log, *prev_log; /* tasks whose logs are kept */
	unsigned restarts;
	bool unstarted; /* its guest has not been told yet to start the command: it never ran */
	bool exited;    /* its command ended, or could not be started, as end says */
	int64_t started;
	struct ending end, last;
};

struct pod_record {
	const char *ns, *name;
	const char *ip;
	const char *sandbox, *sandbox_uid; /* that controls it; NULL: none */
	const char **pvcs;                 /* handles of persistent volumes that it mounts */
	int64_t started;
	bool shut_down; /* it was asked to end with the node */
	struct container_record *containers;
	size_t n_containers;
};

void pod_record_write(const struct pod_record *r, struct buf *out);
/* Everything in *ret is in the arena. ERR_MALFORMED. */
must_use struct err *pod_record_read(const char *text, size_t len, struct arena *a,
				     struct pod_record *ret);

/* Written atomically but not synced: after a crash of the machine none of it would be true. */
must_use struct err *pod_record_save(int run_fd, const char *uid, const struct pod_record *r);
must_use struct err *pod_record_load(int run_fd, const char *uid, struct arena *a,
				     struct pod_record *ret);
void pod_record_remove(int run_fd, const char *uid);
/* fn for the uid of each state file. */
void pod_records_each(const char *run_dir, void (*fn)(void *arg, const char *uid), void *arg);
