/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/cgroup_root.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "test.h"

/* Where version 2 is mounted; NULL: nowhere, or we may not make groups there. */
static const char *v2_mount(void)
{
	static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		autofree char *file = xasprintf("%s/cgroup.controllers", places[i]);

		if (file_exists(AT_FDCWD, file) && !access(places[i], W_OK))
			return places[i];
	}
	return NULL;
}

static char *procs_of(const char *group)
{
	autofree char *path = xasprintf("%s/cgroup.procs", group);
	char *text = NULL;

	works(file_read(AT_FDCWD, path, 1 << 20, &text, NULL));
	return text;
}

enum {
	/* Bytes that an exiting child has to give back while it is still listed. */
	HEAVY = 128 << 20,
};

/* A process in the group that has children without end, each of which exits at once and takes a
 * while to do so. It has begun when this returns. */
static pid_t spawn_restless(const char *group)
{
	autofree char *path = xasprintf("%s/cgroup.procs", group);
	int begun[2];
	char c = 0;
	pid_t pid;

	is_true(!pipe(begun));
	pid = fork();
	is_true(pid >= 0);
	if (!pid) {
		struct err *e = file_write(AT_FDCWD, path, "0");

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
		memset(xmalloc(HEAVY), 1, HEAVY);
		(void)!write(begun[1], "x", e ? 0 : 1);
		(void)close(begun[1]);
		for (;;) {
			pid_t child = fork();

			if (!child)
				_exit(0);
			(void)waitpid(child, NULL, 0);
		}
	}
	(void)close(begun[1]);
	is_true(read(begun[0], &c, 1) == 1);
	(void)close(begun[0]);
	return pid;
}

static void remove_group(const char *path)
{
	while (rmdir(path) < 0) /* those that were killed leave in a moment */
		is_true(errno == EBUSY);
}

TEST(processes_of_a_root_move_into_its_group_init)
{
	const char *mount = v2_mount();
	autofree char *group = NULL, *init = NULL, *left = NULL, *there = NULL;
	char name[] = "cay-test-00000000";
	pid_t pids[3];

	if (geteuid() != 0 || !mount) {
		skip_because("needs root and a writable cgroup2: it makes control groups");
		return;
	}
	random_hex(name + 9, 8);
	group = xasprintf("%s/%s", mount, name);
	init = xasprintf("%s/init", group);
	is_true(!mkdir(group, 0755));
	works(cgroup_root_clear(group));
	is_true(!file_exists(AT_FDCWD, init)); /* there was nobody to move */

	for (size_t i = 0; i < ARRAY_LEN(pids); i++)
		pids[i] = spawn_restless(group);
	works(cgroup_root_clear(group));
	left = procs_of(group);
	eq_str(left, "");
	there = procs_of(init);
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		autofree char *pid = xasprintf("%d\n", (int)pids[i]);

		is_true(strstr(there, pid));
		(void)kill(pids[i], SIGKILL);
		is_true(waitpid(pids[i], NULL, 0) == pids[i]);
	}
	remove_group(init);
	remove_group(group);
}

TEST(the_root_of_the_whole_hierarchy_keeps_its_processes)
{
	const char *mount = v2_mount();
	autofree char *type = mount ? xasprintf("%s/cgroup.type", mount) : NULL;
	autofree char *init = mount ? xasprintf("%s/init", mount) : NULL;

	if (!mount || file_exists(AT_FDCWD, type) || file_exists(AT_FDCWD, init)) {
		skip_because(
			"needs the root of the whole hierarchy of cgroup2, without a group init");
		return;
	}
	works(cgroup_root_clear(mount));
	is_true(!file_exists(AT_FDCWD, init));
}

TEST(what_is_no_control_group_is_left_alone)
{
	works(cgroup_root_clear("/nonexistent"));
	works(cgroup_root_clear("/tmp"));
}
