/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/trim.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/mem.h"
#include "loop/jobs.h"
#include "loop/loop.h"

enum {
	BUSY_PERCENT = 5,      /* of one processor, for all threads together */
	BUSY_LOOKS = 12,       /* a process that stays busy is looked at once in so many times */
	WORTH_IDLE_KIB = 1024, /* free memory that is worth the effort when idle */
	WORTH_KIB = 8 * 1024,  /* and when not: trimming makes whoever allocates wait */
};

struct trim {
	struct timer *timer;
	struct jobs jobs;
	unsigned look_ms, n_busy;
	int64_t cpu_us;    /* that the process had used by the last look */
	bool due;          /* it has been busy since the heap was last examined */
	bool running;      /* the job, to which the following belongs as long */
	int64_t worth_kib; /* that must be free before it trims */
	int64_t rest_kib;  /* what seems to be free and cannot be given back */
};

static int64_t cpu_us(void)
{
	struct timespec t = { 0 };

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Anonymous memory that is resident and not in use, by and large: stacks and the like count too. */
static int64_t free_kib(void)
{
	const struct mallinfo2 heap = mallinfo2();
	autofree char *text = NULL;
	int64_t all = 0, resident = 0, file = 0;

	err_free(file_read(AT_FDCWD, "/proc/self/statm", 256, &text, NULL));
	if (!text || sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64, &all, &resident, &file) != 3)
		return 0;
	return (resident - file) * (sysconf(_SC_PAGESIZE) / 1024) -
	       (int64_t)((heap.uordblks + heap.hblkhd) / 1024);
}

static void work(void *arg)
{
	struct trim *t = arg;
	int64_t now = free_kib();

	t->rest_kib = MIN(t->rest_kib, now);
	if (now < t->rest_kib + t->worth_kib)
		return;
	(void)malloc_trim(0);
	t->rest_kib = free_kib();
}

static void done(void *arg)
{
	struct trim *t = arg;

	t->running = false;
}

static void on_look(void *arg)
{
	struct trim *t = arg;
	int64_t cpu = cpu_us();
	bool busy = (cpu - t->cpu_us) * 100 > (int64_t)t->look_ms * 1000 * BUSY_PERCENT;

	timer_set(t->timer, t->look_ms);
	t->cpu_us = cpu;
	t->due = t->due || busy;
	t->n_busy = busy ? t->n_busy + 1 : 0;
	if (t->running || !t->due || t->n_busy % BUSY_LOOKS)
		return;
	t->due = false;
	t->running = true;
	t->worth_kib = busy ? WORTH_KIB : WORTH_IDLE_KIB;
	jobs_run(&t->jobs, work, done, t);
}

struct trim *trim_new(struct loop *l, unsigned look_ms)
{
	struct trim *t = xnew(struct trim);

	jobs_init(&t->jobs, l, NULL, NULL);
	t->timer = timer_new(l, on_look, t);
	t->look_ms = look_ms;
	t->cpu_us = cpu_us();
	t->rest_kib = free_kib();
	timer_set(t->timer, look_ms);
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
