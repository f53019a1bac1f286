/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"
#include "test.h"

/* Removals of slots that never existed: each takes a permit for a moment, and nothing else. */
struct host {
	struct native n;
	struct cgroups *groups;
	char dir[32];
};

static void on_refill(void *arg unused)
{
}

static void on_freed(void *arg)
{
	leave_next(arg);
}

static void open_host(struct host *h, unsigned permits)
{
	*h = (struct host){ .dir = "/tmp/cay-leave-XXXXXX" };
	is_true(mkdtemp(h->dir) != NULL);
	works(loop_new(&h->n.loop));
	works(cgroups_open("cay-leave-test", false, &h->groups));
	h->n.spec.cgroups = h->groups;
	h->n.spec.disk = diskpool_open_plain(h->dir);
	h->n.spec.run_fd = open(h->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	h->n.leaving = map_new(NULL);
	h->n.ranges = numbers_new(0, 1);
	h->n.refill = timer_new(h->n.loop, on_refill, NULL);
	list_init(&h->n.ends);
	jobs_init(&h->n.jobs, h->n.loop, NULL, NULL);
	permits_init(&h->n.permits, h->n.loop, on_freed, &h->n);
	h->n.permits.full = permits;
	slots_init(&h->n);
}

static void close_host(struct host *h)
{
	h->n.ending = true;
	while (map_len(h->n.leaving) || h->n.jobs.n)
		(void)loop_turn(h->n.loop, 100);
	h->n.slots.n_ready = 0;
	slots_done(&h->n);
	permits_done(&h->n.permits);
	timer_free(h->n.refill);
	numbers_free(h->n.ranges);
	map_free(h->n.leaving);
	diskpool_free((struct diskpool *)h->n.spec.disk);
	cgroups_free(h->groups);
	(void)close(h->n.spec.run_fd);
	(void)loop_turn(h->n.loop, 0);
	loop_free(h->n.loop);
	works(file_remove_tree(AT_FDCWD, h->dir));
}

static void remove_slot(struct host *h, const char *id)
{
	leave(&h->n, &(struct leave_spec){ .id = id, .pidfd = -1, .range = NO_RANGE });
}

static void on_called(struct runtime_wait *w unused)
{
}

TEST(removals_take_the_permits_that_there_are)
{
	struct host h;

	open_host(&h, 2);
	remove_slot(&h, "a");
	remove_slot(&h, "b");
	remove_slot(&h, "c");
	eq_int(permits_left(&h.n.permits, false), 0);
	is_false(list_empty(&h.n.ends)); /* the third waits until one of them is over */
	close_host(&h);
}

TEST(removals_leave_a_permit_to_each_launch_that_is_about_to_begin)
{
	struct runtime_wait pod = { .ready = on_called };
	struct host h;

	open_host(&h, 2);
	list_init(&pod.on);
	is_false(line_ask(&h.n.slots.line, &pod));
	h.n.slots.n_ready = 1; /* a slot for the Pod that waits */
	remove_slot(&h, "a");
	remove_slot(&h, "b");
	eq_int(permits_left(&h.n.permits, false), 1);
	is_false(list_empty(&h.n.ends));
	line_leave(&h.n.slots.line, &pod);
	leave_next(&h.n);
	is_true(list_empty(&h.n.ends));
	close_host(&h);
}
