/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/cgroup_wait.h"
#include "node/host/inotify.h"
#include "node/host/numbers.h"
#include "test.h"

TEST(a_number_given_back_is_the_last_to_come_again)
{
	autoptr(numbers) s = numbers_new(10, 3);
	unsigned v;

	is_true(numbers_take(s, &v));
	eq_int(v, 10);
	numbers_put(s, v);
	is_true(numbers_take(s, &v));
	eq_int(v, 11);
	is_true(numbers_reserve(s, 12));
	is_false(numbers_reserve(s, 12));
	is_false(numbers_reserve(s, 13));
	is_false(numbers_reserve(s, 9));
	is_true(numbers_take(s, &v));
	eq_int(v, 10);
	is_false(numbers_take(s, &v));
}

/* What the kernel has of the limits in one directory, if its hierarchy has the controller. */
static void check_limits(void *arg, unused const char *name, const char *path)
{
	static const struct {
		const char *file, *text;
	} rows[] = {
		{ "memory.max", "67108864\n" },  { "memory.limit_in_bytes", "67108864\n" },
		{ "cpu.max", "50000 100000\n" }, { "cpu.cfs_quota_us", "50000\n" },
		{ "cpu.shares", "102\n" },       { "pids.max", "10\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *file = xasprintf("%s/%s", path, rows[i].file), *text = NULL;

		if (access(file, F_OK) < 0)
			continue;
		works(file_read(AT_FDCWD, file, 4096, &text, NULL));
		eq_str(text, rows[i].text);
		++*(int *)arg;
	}
}

static void on_again(void *arg)
{
	*(bool *)arg = true;
}

TEST(a_control_group_is_made_removed_and_waited_for)
{
	struct err *why = NULL;
	autoptr(cgroups) c = NULL;
	autofree char *events = NULL;
	struct cgroup_wait_spec spec = { .again = on_again };
	struct cgroup_wait *w;
	bool again = false;
	int checked = 0;
	char parent[16] = "cay-test-";

	if (geteuid() != 0) {
		skip_because("needs root: it makes control groups");
		return;
	}
	random_hex(parent + 9, 6);
	works(cgroups_open(parent, true, &c));
	works(cgroup_make(c, "one"));
	works(cgroup_limit(
		c, "one",
		&(struct cgroup_limits){
			.memory = 64 << 20, .cpu_milli = 500, .cpu_share = 100, .pids = 10 }));
	cgroups_each(c, check_limits, &checked);
	is_true(checked > 0 || !cgroups_have(c));
	is_false(cgroup_populated(c, "one"));
	events = cgroup_events_path(c, "one");
	is_true(!events || str_ends(events, "/one/cgroup.events"));
	works(loop_new(&spec.loop));
	spec.inotify = inotify_open(spec.loop, &why);
	works(why);
	spec.cgroups = c;
	spec.arg = &again;
	w = cgroup_wait_new(&spec, "one", 0); /* it is empty: told after the shortest delay */
	while (!again)
		(void)loop_turn(spec.loop, 50);
	cgroup_wait_free(w);
	works(cgroup_remove(c, "one"));
	works(cgroup_remove(c, "one"));
	cgroups_remove_parent(c);
	inotify_free(spec.inotify);
	(void)loop_turn(spec.loop, 0);
	loop_free(spec.loop);
}

static void note_name(void *arg, const char *name, unused const char *path)
{
	(void)snprintf(arg, 16, "%s", name);
}

/* A process that is in the group before this returns. */
static pid_t sleeper_in(const struct cgroups *c, const char *name)
{
	int ready[2];
	char one = 0;
	pid_t pid;

	is_true(!pipe(ready));
	pid = fork();
	if (!pid) {
		struct err *e = cgroup_enter(c, name);

		(void)!write(ready[1], &one, 1);
		(void)pause();
		_exit(e ? 1 : 0);
	}
	is_true(read(ready[0], &one, 1) == 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
	return pid;
}

TEST(what_is_done_to_a_group_is_done_to_its_parts)
{
	autoptr(cgroups) c = NULL;
	char parent[16] = "cay-test-", name[16] = "";
	autofree char *at = NULL, *nowhere = NULL;
	struct cgroup_usage u;
	uint64_t first;
	pid_t pid;

	if (geteuid() != 0) {
		skip_because("needs root: it makes control groups");
		return;
	}
	random_hex(parent + 9, 6);
	works(cgroups_open(parent, true, &c));
	works(cgroup_make(c, "one"));
	works(cgroup_make(c, "one/a-x"));
	cgroup_each_below(c, "one", note_name, name);
	eq_str(name, "a-x");
	is_true(cgroup_usage(c, "one/a-x", &u));
	first = cgroup_identity(c, "one/a-x");
	is_true(first != 0);
	pid = sleeper_in(c, "one/a-x");
	is_false(cgroup_empty(c, "one"));
	is_false(cgroup_empty(c, "one/a-x"));
	at = cgroup_of(c, pid);
	eq_str(at, "one/a-x");
	nowhere = cgroup_of(c, getpid());
	is_true(!nowhere);
	fails(cgroup_remove(c, "one"), ERR_UNAVAILABLE);
	cgroup_kill(c, "one");
	eq_int(waitpid(pid, NULL, 0), pid);
	is_true(cgroup_empty(c, "one"));
	works(cgroup_remove(c, "one/a-x"));
	works(cgroup_make(c, "one/a-x"));
	is_true(cgroup_identity(c, "one/a-x") != first);
	works(cgroup_remove(c, "one"));
	is_false(cgroup_usage(c, "one/a-x", &u));
	eq_int(cgroup_identity(c, "one/a-x"), 0);
	cgroups_remove_parent(c);
}
