/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "node/inside/inside_priv.h"
#include "test.h"

/* A process that has keep among its descriptors, unless that is -1, and nothing else of ours. */
static pid_t start(int keep)
{
	char name[] = "sleep", time[] = "infinity";
	char *const argv[] = { name, time, NULL };
	posix_spawn_file_actions_t files;
	pid_t pid;

	eq_int(posix_spawn_file_actions_init(&files), 0);
	if (keep >= 0)
		eq_int(posix_spawn_file_actions_adddup2(&files, keep, 30), 0);
	eq_int(posix_spawnp(&pid, name, &files, NULL, argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&files);
	return pid;
}

static void end(pid_t pid)
{
	is_true(!kill(pid, SIGKILL));
	is_true(waitpid(pid, NULL, 0) == pid);
}

TEST(only_who_has_the_other_end_holds_it)
{
	int ours[2], others[2];
	pid_t with, without, with_another;

	if (geteuid() != 0)
		skip_because("needs root: it enters the network namespace of a socket");
	is_true(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ours));
	is_true(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others));
	with = start(ours[1]);
	without = start(-1);
	with_another = start(others[1]);
	is_true(holds_other_end(getpid(), ours[0]));
	is_true(holds_other_end(with, ours[0]));
	is_false(holds_other_end(with, ours[1]));
	is_false(holds_other_end(without, ours[0]));
	is_false(holds_other_end(with_another, ours[0]));
	(void)close(ours[1]);
	is_false(holds_other_end(getpid(), ours[0]));
	is_true(holds_other_end(with, ours[0]));
	end(with);
	is_false(holds_other_end(with, ours[0]));
	end(without);
	end(with_another);
	(void)close(ours[0]);
	(void)close(others[0]);
	(void)close(others[1]);
}

TEST(what_is_no_connection_is_held_by_nobody)
{
	autoclose lone = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	autoclose inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	is_false(holds_other_end(getpid(), lone));
	is_false(holds_other_end(getpid(), inet));
	is_false(holds_other_end(getpid(), -1));
}
