/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"

struct plan;
struct plan_image;
struct wire_start;

/*
 * The seam between Pods and whatever runs their containers. `native` (native.h) is the launcher of
 * this program; tests have a fake one. All calls and callbacks are on the loop's thread; callbacks
 * come from the loop, never from within a call.
 *
 * The life of a container's attempt:
 *
 *   reserve ── record saved by the caller ── launch ── started ─────────── exited ── ended ──
 * release └────── failed ──────────────────────┘
 *
 * The caller writes the record down before launch(), so that after a crash attach() finds whatever
 * was launched. ended() comes exactly once for every reserved or attached task that was not
 * forgotten, after the last of its processes is gone; only then does the runtime return its ids and
 * names to their pools.
 */
struct runtime;

/* What is recorded in order to find a task again. */
struct runtime_record {
	const char *id; /* also names its log; unique for all time */
	int64_t pid;
	unsigned range; /* of user and group ids */
};

/* A Pod's network. */
struct runtime_net {
	char ip[16];
};

/*
 * A place in line for a slot or a network, embedded in whoever waits. Lines are first come, first
 * served, and one thing that becomes free wakes one waiter.
 */
struct runtime_wait {
	struct list on;
	void (*ready)(struct runtime_wait *w); /* ask again; it is no longer in line */
};

struct runtime_task; /* each implementation defines its own */

struct runtime_end {
	bool oom; /* the kernel killed one of its processes because memory ran out */
};

struct runtime_events {
	/* Its command runs. */
	void (*started)(void *arg);
	/* It could not be launched, or its command could not be started. code: as a shell would
	 * return (127, 126, 128). e is the callee's. ended() follows by itself. */
	void (*failed)(void *arg, struct err *e, int code);
	/* Its command ended. ended() follows by itself. */
	void (*exited)(void *arg, int code, int signum);
	/* Nothing of it runs any more. Without failed() or exited() before, it was killed. */
	void (*ended)(void *arg, const struct runtime_end *end);
};

/* What becomes a container. */
struct runtime_launch {
	const struct plan *plan;        /* join is filled in by the runtime */
	const struct wire_start *start; /* the command */
	struct runtime_net *net;
	struct runtime_task
		*first; /* a task of the same Pod whose namespaces are shared, or NULL */
};

struct runtime_ops {
	const char *name;

	/*
	 * A network, at want_ip if that is given and free. NULL: none now; wait is put in line.
	 * A want_ip that is not available is not an error: another address is given.
	 */
	struct runtime_net *(*net_take)(void *ctx, const char *want_ip, struct runtime_wait *wait);
	/* The network of a task that has been running since before the daemon started. NULL: none.
	 */
	struct runtime_net *(*net_adopt)(void *ctx, struct runtime_task *task, const char *ip);
	/* The address returns to the pool once the last process in the network is gone. */
	void (*net_put)(void *ctx, struct runtime_net *net);

	/* A task without a plan yet. NULL: no slot now; wait is put in line. image is what the
	 * task will be launched with, most likely. */
	struct runtime_task *(*reserve)(void *ctx, const struct plan_image *image,
					struct runtime_wait *wait);
	/* Takes over a task by its record. NULL: it is gone, and its leftovers are being removed;
	 * *ret_end says what is known. */
	struct runtime_task *(*attach)(void *ctx, const struct runtime_record *r,
				       struct runtime_end *ret_end);
	/* From here on events are reported. For reserved and attached tasks alike, before launch().
	 */
	void (*watch)(struct runtime_task *t, const struct runtime_events *ev, void *arg);
	const struct runtime_record *(*record)(const struct runtime_task *t);
	/* l is read before it returns. After an error failed() is not called; the task is killed,
	 * and ended() follows. */
	must_use struct err *(*launch)(struct runtime_task *t, const struct runtime_launch *l);

	void (*signal)(struct runtime_task *t, int signum); /* to its command */
	void (*kill)(struct runtime_task *t);               /* everything in it, at once */
	/* After ended(): frees the task. keep_log: all of its directory goes but the log. */
	void (*release)(struct runtime_task *t, bool keep_log);
	/* The daemon ends: the task keeps running, nothing more is reported. Frees t. */
	void (*forget)(struct runtime_task *t);

	/* Why nothing could be made lately, or NULL. When there is trouble, all waiters in line are
	 * called so that they can report it. */
	const char *(*trouble)(void *ctx);
	/* Removes the log of a task that ended, by its record's id. */
	void (*drop_log)(void *ctx, const char *id);
	/* Before attach(): what must not be given out; each may be NULL. */
	void (*hold)(void *ctx, const struct runtime_record *r, const char *ip);
	/* After the last attach(): removes what was not attached to. keep() says which logs
	 * stay. */
	void (*sweep)(void *ctx, bool (*keep)(void *arg, const char *id), void *arg);
	void (*free)(void *ctx); /* tasks were forgotten or released before */
};

struct runtime {
	const struct runtime_ops *ops;
	void *ctx;
};
