/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/cgroup_wait.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"

/*
 * Removes what is left of a slot, in this order: its process ends (it was killed), its control
 * groups are removed, its id range returns to the pool, its socket and its files are removed. A
 * group that still has processes is tried again when it is empty; no job waits for anything.
 */
struct leaving {
	struct native *native;
	char *id;
	int pidfd, range;
	bool keep_log, kill, swept;
	struct watch *exit_watch;
	struct cgroup_wait *wait;
	unsigned tries;
	struct list queued; /* native.ends, while it waits for a permit */
	struct permit permit;

	/* The job's own, while there is one. */
	struct {
		bool running, kill, keep_log;
		bool busy; /* the group still has processes */
		struct err *e;
	} job;
};

static void try_remove(struct leaving *l);

static void leaving_free(struct leaving *l)
{
	list_del(&l->queued);
	permit_put(&l->permit);
	watch_free(l->exit_watch);
	cgroup_wait_free(l->wait);
	if (l->pidfd >= 0)
		(void)close(l->pidfd);
	free(l->id);
	free(l);
}

static void remove_files(const struct leaving *l)
{
	/* The last four are of slots that were made before there was a pool. */
	static const char *const parts[] = { DISK_SLOT_LAYER, "upper", "work", "work2", "local" };
	const struct diskpool *disk = l->native->spec.disk;
	autofree char *root = diskpool_path(disk, INSTANCE_SLOTS, l->id);

	seats_remove_files(l->native, l->id);
	if (!l->job.keep_log) { /* or else the next start does */
		err_free(diskpool_remove(disk, INSTANCE_SLOTS, l->id));
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		autofree char *path = xasprintf("%s/%s", root, parts[i]);

		if (file_exists(AT_FDCWD, path))
			err_free(diskpool_ops(disk)->remove(path));
	}
}

static void work(void *arg)
{
	struct leaving *l = arg;
	const struct cgroups *groups = l->native->spec.cgroups;
	autofree char *sock = instance_socket(l->id);

	if (l->job.kill)
		cgroup_kill(groups, l->id);
	l->job.e = cgroup_remove(groups, l->id);
	l->job.busy = err_is(l->job.e, ERR_UNAVAILABLE);
	if (l->job.busy)
		return;
	(void)unlinkat(l->native->spec.run_fd, sock, 0); /* or else the next start does */
	remove_files(l);
}

static void on_again(void *arg)
{
	struct leaving *l = arg;

	cgroup_wait_free(take(l->wait));
	try_remove(l);
}

static void wait_until_empty(struct leaving *l)
{
	struct native *n = l->native;
	struct cgroup_wait_spec spec = {
		.loop = n->loop,
		.inotify = n->spec.inotify,
		.cgroups = n->spec.cgroups,
		.again = on_again,
		.arg = l,
	};

	l->wait = cgroup_wait_new(&spec, l->id, l->tries++);
}

/* A range whose groups could not be removed is not used again until the daemon starts anew. */
static void groups_gone(struct leaving *l, struct err *e)
{
	if (e)
		log_warn("control group was not removed, the next start tries again", KV("err", e));
	else if (l->range != NO_RANGE)
		numbers_put(l->native->ranges, (unsigned)l->range);
	native_refill_later(l->native); /* there may have been no range left */
	l->range = NO_RANGE;
	err_free(e);
}

static void done(void *arg)
{
	struct leaving *l = arg;
	struct native *n = l->native;

	l->job.running = false;
	permit_put(&l->permit);
	if (l->job.busy) {
		err_free(take(l->job.e));
		wait_until_empty(l);
		return;
	}
	groups_gone(l, take(l->job.e));
	if (l->job.keep_log && !l->keep_log) {
		try_remove(l); /* the log was dropped meanwhile */
		return;
	}
	(void)map_take(n->leaving, l->id);
	if (l->swept)
		native_swept_one(n);
	leaving_free(l);
}

static void start_job(struct leaving *l)
{
	permit_take(&l->native->permits, &l->permit);
	l->job.running = true;
	l->job.kill = l->kill;
	l->job.keep_log = l->keep_log;
	jobs_run(&l->native->jobs, work, done, l);
}

void leave_next(struct native *n)
{
	while (!list_empty(&n->ends) &&
	       permits_left(&n->permits, false) > line_len(&n->slots.line, n->slots.n_ready)) {
		struct leaving *l = list_first(&n->ends, struct leaving, queued);

		list_del(&l->queued);
		start_job(l);
	}
}

static void try_remove(struct leaving *l)
{
	if (list_empty(&l->queued))
		list_add_tail(&l->native->ends, &l->queued);
	leave_next(l->native);
}

static void on_exit_of(void *arg, unused unsigned ready)
{
	struct leaving *l = arg;

	watch_free(take(l->exit_watch));
	(void)close(take_fd(l->pidfd));
	try_remove(l);
}

/* It is being removed already. */
static void merge(struct leaving *l, const struct leave_spec *spec)
{
	if (spec->pidfd >= 0)
		(void)close(spec->pidfd);
	if (l->range == NO_RANGE)
		l->range = spec->range;
	l->keep_log = l->keep_log && spec->keep_log;
	l->kill = l->kill || spec->kill;
	assert(!l->swept || !spec->swept);
	l->swept = l->swept || spec->swept;
}

void leave(struct native *n, const struct leave_spec *spec)
{
	struct leaving *l = map_get(n->leaving, spec->id);

	if (l) {
		merge(l, spec);
		return;
	}
	l = xnew(struct leaving);
	l->native = n;
	list_init(&l->queued);
	l->id = xstrdup(spec->id);
	l->pidfd = spec->pidfd;
	l->range = spec->range;
	l->keep_log = spec->keep_log;
	l->kill = spec->kill;
	l->swept = spec->swept;
	map_put(n->leaving, l->id, l);
	if (l->pidfd < 0) {
		try_remove(l);
		return;
	}
	if (l->kill)
		(void)syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0);
	l->exit_watch = watch_new(n->loop, l->pidfd, on_exit_of, l);
	watch_want(l->exit_watch, WATCH_READ);
}

bool leave_drop_log(struct native *n, const char *id)
{
	struct leaving *l = map_get(n->leaving, id);

	if (l)
		l->keep_log = false;
	return l;
}

void leave_abandon(struct native *n)
{
	map_each(it, n->leaving) {
		struct leaving *l = it.value;

		assert(!l->job.running);
		log_warn("sandbox does not end, the next start removes it", KV("id", l->id));
		leaving_free(l);
	}
	map_free(n->leaving);
	n->leaving = map_new(NULL);
}
