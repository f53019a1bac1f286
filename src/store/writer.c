/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "store/store_priv.h"

/*
 * The thread that commits. It holds one batch at a time and keeps it until it is on disk: a failure
 * is reported once, then the same batch is retried with growing pauses.
 *
 * Its reports come over an eventfd that the loop watches, not as posted messages, so that none are
 * left behind when a store is freed.
 */
enum {
	PAUSE_MS = 100,
	PAUSE_MAX_MS = 5000,
	SHORT_MS = 500, /* how often an idle thread looks whether the disk has space again */
};

struct writer {
	struct disk *disk; /* belongs to the thread while it runs */
	pthread_t thread;
	bool running;

	pthread_mutex_t lock;
	pthread_cond_t work, told;
	const struct batch *todo; /* under lock, like everything down to `event` */
	bool stop, done;
	struct err *failed; /* not reported yet */
	unsigned failures;  /* likewise */
	bool short_of_space;
	usec took;        /* of the attempt that worked */
	struct err *last; /* the outcome of the newest attempt at todo */

	int event;
	struct watch *watch;
	void (*report)(void *arg, struct writer_report r);
	void *arg;
};

/* Called under lock, but gives it up meanwhile: whoever is woken wants it first. */
static void tell(struct writer *w)
{
	uint64_t one = 1;

	pthread_mutex_unlock(&w->lock);
	pthread_cond_signal(&w->told);
	/*
	 * This can fail only if the counter is at its maximum, and then the loop is woken anyway.
	 */
	(void)!write(w->event, &one, sizeof(one));
	pthread_mutex_lock(&w->lock);
}

static struct timespec in_ms(unsigned ms)
{
	struct timespec at;

	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += (long)(ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

/* Waits for up to pause_ms unless the writer is being stopped. Called under lock. */
static void pause_for(struct writer *w, unsigned pause_ms)
{
	struct timespec at = in_ms(pause_ms);

	while (!w->stop && pthread_cond_timedwait(&w->work, &w->lock, &at) != ETIMEDOUT)
		;
}

/* One attempt, made outside the lock. Under lock again afterwards; true if the batch is on disk. */
static bool attempt(struct writer *w)
{
	const struct batch *b = w->todo;
	usec began = clock_mono();
	struct err *e;

	pthread_mutex_unlock(&w->lock);
	e = disk_commit(w->disk, b);
	pthread_mutex_lock(&w->lock);
	w->took = clock_mono() - began;

	err_free(w->last);
	w->last = e;
	w->short_of_space = disk_short(w->disk);
	if (!e)
		return true;
	w->failures++;
	if (!w->failed)
		w->failed = err_copy(e);
	tell(w);
	return false;
}

/* Made outside the lock, like an attempt. */
static void tidy(struct writer *w)
{
	bool pressing = w->todo, was = w->short_of_space;

	pthread_mutex_unlock(&w->lock);
	disk_tidy(w->disk, pressing);
	pthread_mutex_lock(&w->lock);
	w->short_of_space = disk_short(w->disk);
	if (w->short_of_space != was)
		tell(w);
}

/* Until there is work, or until it is time to look at the disk. */
static void await_work(struct writer *w)
{
	struct timespec at = in_ms(SHORT_MS);

	if (!w->short_of_space)
		(void)pthread_cond_wait(&w->work, &w->lock);
	else if (pthread_cond_timedwait(&w->work, &w->lock, &at) == ETIMEDOUT)
		tidy(w);
}

/* Until the batch is on disk; false if the last attempt before the end failed. */
static bool work_on(struct writer *w)
{
	unsigned pause_ms = PAUSE_MS;

	while (!attempt(w)) {
		if (w->stop)
			return false;
		pause_for(w, pause_ms);
		pause_ms = MIN(pause_ms * 2, (unsigned)PAUSE_MAX_MS);
	}
	w->todo = NULL;
	w->done = true;
	tell(w);
	return true;
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->todo && !w->stop)
			await_work(w);
		if (!w->todo || !work_on(w))
			break;
		if (!w->stop) /* otherwise there may be one batch more, given while we told */
			tidy(w);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Called under lock. */
static struct writer_report take_report(struct writer *w)
{
	struct writer_report r = { .done = w->done,
				   .e = w->failed,
				   .failures = w->failures,
				   .took = w->took,
				   .short_of_space = w->short_of_space };

	w->done = false;
	w->failed = NULL;
	w->failures = 0;
	return r;
}

static void on_event(void *arg, unsigned ready unused)
{
	struct writer *w = arg;
	struct writer_report r;
	uint64_t n;

	(void)!read(w->event, &n, sizeof(n));
	pthread_mutex_lock(&w->lock);
	r = take_report(w);
	pthread_mutex_unlock(&w->lock);
	w->report(w->arg, r);
}

void writer_wait(struct writer *w)
{
	struct writer_report r;

	pthread_mutex_lock(&w->lock);
	while (!w->done && !w->failed)
		pthread_cond_wait(&w->told, &w->lock);
	r = take_report(w);
	pthread_mutex_unlock(&w->lock);
	w->report(w->arg, r);
}

/* Signals are for the loop's thread. */
static int start_thread(struct writer *w)
{
	sigset_t all, old;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&w->thread, NULL, writer_main, w);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!rc) {
		w->running = true;
		(void)pthread_setname_np(w->thread, "cay-store");
	}
	return rc;
}

struct err *writer_start(struct loop *l, struct disk *d,
			 void (*report)(void *arg, struct writer_report r), void *arg,
			 struct writer **ret)
{
	autoptr(writer) w = xnew(struct writer);
	pthread_condattr_t attr;
	int rc;

	w->disk = d;
	w->short_of_space = disk_short(d);
	w->report = report;
	w->arg = arg;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->work, &attr);
	pthread_cond_init(&w->told, NULL);
	pthread_condattr_destroy(&attr);

	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event < 0)
		return err_sys(errno, "create eventfd");
	w->watch = watch_new(l, w->event, on_event, w);
	watch_want(w->watch, WATCH_READ);
	rc = start_thread(w);
	if (rc)
		return err_sys(rc, "start store thread");
	*ret = take(w);
	return NULL;
}

void writer_give(struct writer *w, const struct batch *b)
{
	pthread_mutex_lock(&w->lock);
	assert(!w->todo);
	w->todo = b;
	pthread_mutex_unlock(&w->lock);
	pthread_cond_signal(&w->work); /* the thread that it wakes wants the lock first */
}

struct err *writer_stop(struct writer *w)
{
	struct err *e;

	if (w->running) {
		pthread_mutex_lock(&w->lock);
		w->stop = true;
		pthread_cond_signal(&w->work);
		pthread_mutex_unlock(&w->lock);
		(void)pthread_join(w->thread, NULL);
		w->running = false;
	}
	e = w->last;
	w->last = NULL;
	return e;
}

void writer_free(struct writer *w)
{
	if (!w)
		return;
	err_free(writer_stop(w));
	err_free(w->failed);
	watch_free(w->watch);
	if (w->event >= 0)
		(void)close(w->event);
	pthread_cond_destroy(&w->work);
	pthread_cond_destroy(&w->told);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
