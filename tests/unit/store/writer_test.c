/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fixture.h"

/*
 * The thread that commits, held where it tells of a batch: it has given up its lock there, and the
 * loop may give it the next batch and end the store before it goes on. Replaces write() for the
 * whole test program.
 */
static struct {
	pid_t loop;                /* the thread that ends the store */
	atomic_bool armed, inside; /* the next report is to be held; one is */
	atomic_bool ending;        /* the store is about to be freed */
} hold;

static bool sleeps(pid_t tid)
{
	char path[64], text[512], *end;
	FILE *f;
	size_t n;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "re");
	is_true(f != NULL);
	n = fread(text, 1, sizeof(text) - 1, f);
	(void)fclose(f);
	text[n] = '\0';
	end = strrchr(text, ')');
	return end && end[2] == 'S';
}

/* On its way to the end the loop's thread sleeps nowhere but where it waits for this one. */
static void stay(void)
{
	atomic_store(&hold.inside, true);
	while (!atomic_load(&hold.ending) || !sleeps(hold.loop))
		(void)sched_yield();
}

ssize_t write(int fd, const void *p, size_t len)
{
	ssize_t n = syscall(SYS_write, fd, p, len);

	if (syscall(SYS_gettid) != hold.loop && atomic_exchange(&hold.armed, false))
		stay();
	return n;
}

TEST(a_batch_given_while_the_writer_tells_of_the_last_is_not_lost_at_the_end)
{
	struct synced first = { 0 };
	struct fixture f;

	hold.loop = (pid_t)syscall(SYS_gettid);
	fixture_init(&f, true);
	works(fixture_open(&f, NULL));
	atomic_store(&hold.armed, true);
	works(put(f.store, "k/1", "one", 0));
	store_sync(f.store, on_synced, &first);
	(void)loop_turn(f.loop, 0); /* the first batch is the writer's */
	works(put(f.store, "k/2", "two", 0));
	while (!first.called || !atomic_load(&hold.inside))
		(void)loop_turn(f.loop, 10);
	works(first.e);
	(void)loop_turn(f.loop, 0); /* the second one too, and it has not looked yet */
	atomic_store(&hold.ending, true);
	fixture_close(&f);
	works(fixture_open(&f, NULL));
	eq_str(value_of(f.store, "k/1"), "one");
	eq_str(value_of(f.store, "k/2"), "two");
	fixture_done(&f);
}
