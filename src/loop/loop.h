/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

/*
 * The event loop over libuv. A thread runs one loop; everything here except loop_post() and
 * loop_stop() is for that thread alone. Nothing blocks on a loop: work that blocks is a job.
 *
 * cay-init has one thread and a smaller loop, epoll.c, in which loop_post() and loop_stop() too are
 * for the thread of the loop alone.
 *
 * A turn: I/O and timers call their callbacks; then deferred calls run until none is left,
 * including those that deferred calls ask for; then the flush hooks run (the store hands its batch
 * to its writer there); then the loop sleeps. So work that belongs together ends in one flush.
 */
struct loop;

must_use struct err *loop_new(struct loop **ret);
void loop_free(struct loop *l); /* everything on it must have been freed before */
AUTOPTR(loop)
void loop_run(struct loop *l);  /* until loop_stop() */
void loop_stop(struct loop *l); /* from any thread (epoll.c: its own), or from a signal callback */
/* One turn that sleeps wait_ms at most, for tests. False when nothing is left that could happen. */
bool loop_turn(struct loop *l, unsigned wait_ms);

/*
 * A call later in this same turn, embedded in its owner. Calls run in the order in which they were
 * asked for. fn may ask for itself again, cancel others and free its own deferred.
 */
struct deferred {
	struct list on; /* the loop's list while it is pending */
	struct loop *loop;
	void (*fn)(void *arg);
	void *arg;
};
void deferred_init(struct deferred *d, struct loop *l, void (*fn)(void *arg), void *arg);
void deferred_call(struct deferred *d); /* changes nothing while a call is pending */
/* Before the owner is freed. Does nothing when no call is pending, or for one that is all zero. */
void deferred_cancel(struct deferred *d);
bool deferred_pending(const struct deferred *d);

struct loop_flush;
struct loop_flush *loop_add_flush(struct loop *l, void (*fn)(void *arg), void *arg);
void loop_del_flush(struct loop_flush *f);
/* From any thread (epoll.c: its own): fn runs on the loop's thread in a coming turn. */
void loop_post(struct loop *l, void (*fn)(void *arg), void *arg);

/*
 * Readiness of descriptors: one watch per fd, and none for regular files, which are always ready.
 * The fd becomes non-blocking and stays the caller's, who closes it after watch_free().
 */
enum {
	WATCH_READ = 1,
	WATCH_WRITE = 2
};
struct watch;
struct watch *watch_new(struct loop *l, int fd, void (*fn)(void *arg, unsigned ready), void *arg);
/* 0: nothing is reported. An error is reported as READ|WRITE, a hang-up as whatever is wanted. */
void watch_want(struct watch *w, unsigned want);
void watch_free(struct watch *w);
AUTOPTR(watch)

/* Timers on the monotonic clock; one shot, re-armed by timer_set(). One that sets itself to 0 ms
 * fires once in each turn. */
struct timer;
struct timer *timer_new(struct loop *l, void (*fn)(void *arg), void *arg);
void timer_set(struct timer *t, uint64_t in_ms);
void timer_clear(struct timer *t);
bool timer_armed(const struct timer *t);
void timer_free(struct timer *t);
AUTOPTR(timer)

/* A job: work() on a pool thread, then done() on the loop. Jobs cannot be cancelled; free arg in
 * done(). */
void job_run(struct loop *l, void (*work)(void *arg), void (*done)(void *arg), void *arg);

/*
 * The same for work that computes for a millisecond or so and never waits: it has threads of its
 * own, so jobs that wait for a disk do not hold it up.
 */
void job_run_short(struct loop *l, void (*work)(void *arg), void (*done)(void *arg), void *arg);

/* Signals of this process. */
struct signal_watch;
struct signal_watch *signal_watch_new(struct loop *l, int signum, void (*fn)(void *arg, int signum),
				      void *arg);
void signal_watch_free(struct signal_watch *s);

/*
 * Child processes: posix_spawn-like, no fork of this process's memory. fds[i] becomes descriptor i
 * of the child; -1 is /dev/null for 0..2 and absent above. exited() is called once, then the child
 * is freed.
 */
struct child_spec {
	const char *const *argv;
	const char *const *env; /* NULL: ours */
	const int *fds;
	unsigned n_fds;
	const char *cwd; /* NULL: ours */
	bool tied;       /* see child_main() */
};
struct child;
must_use struct err *child_spawn(struct loop *l, const struct child_spec *spec,
				 void (*exited)(void *arg, int status, int term_signal), void *arg,
				 struct child **ret);
void child_kill(struct child *c, int signum);
/*
 * A tied child is killed when the thread that started it ends, however that comes. It asks for that
 * itself: our own program is started once more and becomes the child, so its main() has to call
 * this before all else. Returns if this process is no such child. A program that cannot be executed
 * is CHILD_NO_PROGRAM as the status of the child, not an error of child_spawn().
 */
void child_main(int argc, char **argv);
enum {
	CHILD_NO_PROGRAM = 127,
};
