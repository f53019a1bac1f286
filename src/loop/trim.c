/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/trim.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/mem.h"
#include "loop/jobs.h"
#include "loop/loop.h"

enum {
	LOOK_MS = 5000,
	CALM_KIB = 1024, /* less growth between two looks than this is none */
	WORTH_KIB = 8 * 1024,
};

struct trim {
	struct timer *timer;
	struct jobs jobs;
	int64_t was_kib; /* at the last look */
	int64_t low_kib; /* the least since the last trim, or what that left */
	bool running;
};

static int64_t resident_kib(void)
{
	autofree char *text = NULL;
	int64_t all = 0, resident = 0;

	err_free(file_read(AT_FDCWD, "/proc/self/statm", 256, &text, NULL));
	if (!text || sscanf(text, "%" SCNd64 " %" SCNd64, &all, &resident) != 2)
		return 0;
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void work(unused void *arg)
{
	(void)malloc_trim(0);
}

static void done(void *arg)
{
	struct trim *t = arg;

	t->running = false;
	t->was_kib = t->low_kib = resident_kib();
}

static void on_look(void *arg)
{
	struct trim *t = arg;
	int64_t now = resident_kib();
	bool calm = now <= t->was_kib + CALM_KIB;

	timer_set(t->timer, LOOK_MS);
	t->was_kib = now;
	t->low_kib = MIN(t->low_kib, now);
	if (t->running || !calm || now < t->low_kib + WORTH_KIB)
		return;
	t->running = true;
	jobs_run(&t->jobs, work, done, t);
}

struct trim *trim_new(struct loop *l)
{
	struct trim *t = xnew(struct trim);

	jobs_init(&t->jobs, l, NULL, NULL);
	t->timer = timer_new(l, on_look, t);
	t->was_kib = t->low_kib = resident_kib();
	timer_set(t->timer, LOOK_MS);
	return t;
}

void trim_free(struct trim *t)
{
	if (!t)
		return;
	timer_free(t->timer);
	jobs_wait(&t->jobs);
	free(t);
}
