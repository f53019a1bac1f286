/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/ip.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/str.h"

struct plan;
struct plan_image;
struct plan_limits;
struct wire_start;

/*
 * The seam between Pods and whatever runs their containers. `native` (native.h) is the launcher of
 * this program; tests have a fake one. All calls and callbacks are on the loop's thread; callbacks
 * come from the loop, never from within a call.
 *
 * The life of a container's attempt:
 *
 *   reserve ─ (the caller saves the record) ─ launch ─┬─ starting ─ started ─ exited ─┬─ ended
 *                                                     └──────────── failed ───────────┘    │
 *                                                                                       release
 *
 * The caller writes the record down before launch(), so that after a crash attach() finds whatever
 * was launched, and once more when it is told starting(): a task without that mark has never run
 * its command. ended() comes exactly once for every reserved or attached task that was not
 * forgotten, after the last of its processes is gone; only then do its ids and names return to
 * their pools, which is the runtime's business.
 */
struct runtime;

/* What is written down to find a task again. */
struct runtime_record {
	const char *id; /* also names its log; unique for all time */
	int64_t pid;
	unsigned range; /* of user and group ids */
};

/* A Pod's network. */
struct runtime_net {
	char ip[16];
	char ip6[IP_TEXT_MAX]; /* empty: it has none */
};

/*
 * Somebody who stands in line for a slot or a network, embedded in whoever waits; all zeroes but
 * ready() and later at first. Lines are first come, first served, and one thing that becomes free
 * wakes one waiter. Those whom nobody waits for (later) stand behind all others.
 *
 * A waiter that was called asks again as soon as it can, and goes first however late it does. One
 * that no longer wants anything need not say so, whether it was called or not: it takes itself off
 * the list (list_del(&w->on)), and the next is called a moment later.
 */
struct runtime_wait {
	struct list on;                        /* not empty while it stands in line */
	void (*ready)(struct runtime_wait *w); /* ask again; it is no longer in line */
	uint64_t ticket;                       /* the runtime's: its place until it is served */
	bool later;                            /* it is made ahead: nobody waits for it */
	unsigned round;                        /* the runtime's */
};

struct runtime_task; /* each implementation defines its own */

/* What a task and a network have used since they were made; both only grow, but for memory and
 * disk, which are what they are now. What this host does not count is 0. */
struct runtime_usage {
	const char *id;        /* of the task; NULL: none is asked for */
	const char *key;       /* of seats in it; NULL: of all of the task */
	const char *ip;        /* of the network; NULL: none is asked for */
	bool brief;            /* neither memory nor disk is asked for, which take longer */
	bool known, net_known; /* it is there */
	uint64_t born;         /* of seats: another number if they began to count anew */
	int64_t cpu_usec, memory, memory_peak, disk;
	int64_t received, sent; /* bytes, as the Pod sees it */
};

struct runtime_end {
	bool oom;                   /* the kernel killed something of it for want of memory */
	struct runtime_usage usage; /* in all; only what the task has */
	struct runtime_part {
		char *key;
		struct runtime_usage usage;
	} *parts; /* of its seats, within that */
	size_t n_parts;
};
void runtime_end_done(struct runtime_end *end); /* the parts; whoever received it does that */

struct runtime_events {
	/* Its command is about to be started, which the caller writes down first. An error keeps it
	 * from being started: failed() follows with it. */
	must_use struct err *(*starting)(void *arg);
	/* An attached one is there, and has no command: start() it or kill() it. */
	void (*idle)(void *arg);
	/* Its command runs. */
	void (*started)(void *arg);
	/* It could not be launched, or its command not be started. code: as a shell would answer
	 * (127, 126, 128). ERR_UNAVAILABLE: what was to become it is gone, and another may do
	 * better. e is the callee's. ended() follows by itself. */
	void (*failed)(void *arg, struct err *e, int code);
	/* Its pid 1 does not keep to the protocol, so nothing that it says can be believed. e is
	 * the callee's. ended() follows by itself. */
	void (*broken)(void *arg, struct err *e);
	/* Its command ended, and left a message, which may be any bytes. ended() follows by itself.
	 */
	void (*exited)(void *arg, int code, int signum, struct span message);
	/* The answer to ask_busy(): how many commands the guest runs for callers of its own. */
	void (*busy)(void *arg, uint32_t n);
	/* Nothing of it runs any more. Without failed() or exited() before, it was killed. */
	void (*ended)(void *arg, const struct runtime_end *end); /* borrowed */
};

/*
 * A seat: a guest of its own within a task, for one of those who use it, with a part of the task's
 * control group to itself (node/launch/seat.c). All seats of one key in a task share that part.
 */
enum runtime_view {
	RUNTIME_VIEW_SHARED,
	RUNTIME_VIEW_READ_ONLY,
	RUNTIME_VIEW_SCRATCH,
	RUNTIME_VIEW_MAX_,
};
struct runtime_seat {
	const char *key; /* lower-case letters, digits and dashes, RUNTIME_KEY_MAX at most */
	enum runtime_view view;
	int64_t disk; /* bytes in a scratch; 0: the node's default */
};
enum {
	RUNTIME_KEY_MAX = 64,
};
/* Somebody who waits for a seat, embedded in them; list_init() on before. */
struct runtime_seat_wait {
	struct list on; /* take it off to wait no longer */
	/* Once: id as seat() gives it, or why there is none. Both are borrowed. */
	void (*done)(struct runtime_seat_wait *w, const char *id, const struct err *e);
};
struct runtime_seats_events {
	void (*began)(void *arg, const char *task, const char *key); /* the first seat of a part */
	/* Nothing runs any more in the part of key, which was ended; it stays until
	 * seats_remove(). */
	void (*spent)(void *arg, const char *task, const char *key);
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
	 * A want_ip that cannot be had is not an error: another address is given.
	 */
	struct runtime_net *(*net_take)(void *ctx, const char *want_ip, struct runtime_wait *wait);
	/* The network of a task that has been running since before the daemon started. NULL: it
	 * has none. */
	struct runtime_net *(*net_adopt)(void *ctx, struct runtime_task *task, const char *ip);
	/* The address returns to the pool once the last process in the network is gone. */
	void (*net_put)(void *ctx, struct runtime_net *net);
	/* From now on the address is given only to whoever asks for it by want_ip, who is not
	 * reached by other sandboxes until that ends, and a network that has it goes at once when
	 * it is put; or no longer. False: another has it. May be NULL. */
	bool (*net_reserve)(void *ctx, const char *ip, bool on);

	/* Before anything is made for a launch with this image. True: reserve() gives a slot now.
	 * False: wait is put in line. */
	bool (*has_slot)(void *ctx, const struct plan_image *image, struct runtime_wait *wait);
	/* A task without a plan yet. NULL: no slot now; wait is put in line. */
	struct runtime_task *(*reserve)(void *ctx, struct runtime_wait *wait);
	/* Takes over a task by what was written down of it. NULL: it is gone, and what was left of
	 * it is being removed; *ret_end says what is known. */
	struct runtime_task *(*attach)(void *ctx, const struct runtime_record *r,
				       struct runtime_end *ret_end);
	/* From here on events are told. Both for reserved and for attached tasks, before launch().
	 */
	void (*watch)(struct runtime_task *t, const struct runtime_events *ev, void *arg);
	const struct runtime_record *(*record)(const struct runtime_task *t);
	/* l is read before it returns. An error is not told by failed() as well; the task is
	 * killed then, and ended() follows. ERR_UNAVAILABLE: as with failed(). */
	must_use struct err *(*launch)(struct runtime_task *t, const struct runtime_launch *l);

	/* Starts the command of a task that is idle. Harmless if that has happened after all. */
	must_use struct err *(*start)(struct runtime_task *t, const struct wire_start *start);
	void (*signal)(struct runtime_task *t, int signum); /* to its command */
	void (*kill)(struct runtime_task *t);               /* everything in it, at once */
	/* Stops everything in a task where it is, or lets it go on. It takes a moment to stop, and
	 * none to go on; signal() and start() are for tasks that go on. One that is frozen when it
	 * is attached counts as started. ERR_UNSUPPORTED. May be NULL, and so may the next four.
	 */
	must_use struct err *(*freeze)(struct runtime_task *t, bool frozen);
	bool (*frozen)(const struct runtime_task *t); /* it has stopped */
	/* True: busy() will tell, unless the guest breaks its word. */
	bool (*ask_busy)(struct runtime_task *t);
	/* Pushes the memory of a frozen task to swap space, until *stop. False: there is none. Any
	 * thread: it takes its time. */
	bool (*page_out)(void *ctx, const char *id, const bool *stop);
	/* The host's end of a network. False: it is not known. */
	bool (*net_link)(void *ctx, const struct runtime_net *net, char ret[16]);
	/* After ended(): frees the task. keep_log: all of its directory goes but the log. */
	void (*release)(struct runtime_task *t, bool keep_log);
	/* The daemon goes: the task runs on, nothing is told any more. Frees t. */
	void (*forget)(struct runtime_task *t);

	/* Why no slots or no networks can be made, or NULL; the latest trouble if there is more
	 * than one. Everybody in line is called when there is trouble, to tell of it. */
	const char *(*trouble)(void *ctx);
	/* Fills in the rest of each. Any thread may call this and resize(): they use files. */
	void (*usage)(void *ctx, struct runtime_usage *list, size_t n);
	/* Gives a task that runs other limits of memory and processors; the others of l do not
	 * count. It may take a while, as memory may have to be freed. ERR_EXHAUSTED: more is in use
	 * than it would have. NULL: this runtime cannot. */
	must_use struct err *(*resize)(void *ctx, const char *id, const struct plan_limits *l);
	/* The log of a task that ended goes, by its record's id. */
	void (*drop_log)(void *ctx, const char *id);
	/* Before attach(): what must not be given away, each may be NULL. */
	void (*hold)(void *ctx, const struct runtime_record *r, const char *ip);
	/* After the last attach(): what no one attached to is removed. keep() tells which logs
	 * stay. */
	void (*sweep)(void *ctx, bool (*keep)(void *arg, const char *id), void *arg);
	/*
	 * Seats. All of these may be NULL, or none.
	 *
	 * A seat in a task that runs, made if it is missing: *ret_id names its guest
	 * (guest_conn.h). NULL: w->done() comes.
	 */
	must_use struct err *(*seat)(struct runtime_task *t, const struct runtime_seat *s,
				     struct runtime_seat_wait *w, const char **ret_id);
	/* Ends all that was started from seats of a key, wherever it is, and what they wrote. */
	void (*seats_end)(void *ctx, const char *key);
	/* The same for every key that keep() does not want. */
	void (*seats_keep)(void *ctx, bool (*keep)(void *arg, const char *key), void *arg);
	/* Every part that counts what is used in it: of tasks that have not ended. */
	void (*seats_each)(void *ctx, void (*fn)(void *arg, const char *task, const char *key),
			   void *arg);
	void (*seats_watch)(void *ctx, const struct runtime_seats_events *ev, void *arg);
	void (*seats_remove)(void *ctx, const char *task, const char *key); /* one that is spent */
	void (*free)(void *ctx); /* tasks were forgotten or released before */
};

struct runtime {
	const struct runtime_ops *ops;
	void *ctx;
};
