/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "role/machine_priv.h"

enum {
	ANSWER_MS = 20000, /* a machine that is going down may be slow to say so */
};

static pid_t spawn_systemctl(int out)
{
	char *const argv[] = { (char[]){ "systemctl" }, (char[]){ "is-system-running" }, NULL };
	char *const env[] = { NULL };
	posix_spawn_file_actions_t fds;
	pid_t pid;
	int r;

	(void)posix_spawn_file_actions_init(&fds);
	(void)posix_spawn_file_actions_adddup2(&fds, out, STDOUT_FILENO);
	(void)posix_spawn_file_actions_addopen(&fds, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawn(&pid, "/usr/bin/systemctl", &fds, NULL, argv, env);
	(void)posix_spawn_file_actions_destroy(&fds);
	return r ? -1 : pid;
}

/* What comes until the other end is closed, the text is full, or the time is over. */
static void read_answer(int in, char *text, size_t size)
{
	usec deadline = clock_mono() + (usec)ANSWER_MS * 1000, now;
	struct pollfd p = { in, POLLIN, 0 };
	size_t len = 0;
	ssize_t n = 1;

	while (n && len + 1 < size && (now = clock_mono()) < deadline) {
		if (poll(&p, 1, (int)((deadline - now) / 1000) + 1) != 1)
			continue;
		n = read(in, text + len, size - 1 - len);
		if (n < 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
}

bool machine_is_stopping(void)
{
	autoclose in = -1, out = -1;
	char said[32];
	int ends[2];
	pid_t pid;

	if (!file_exists(AT_FDCWD, "/run/systemd/system") || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	in = ends[0];
	out = ends[1];
	pid = spawn_systemctl(out);
	(void)close(take_fd(out)); /* so that its end is the end of the answer */
	if (pid < 0)
		return false;
	read_answer(in, said, sizeof(said));
	(void)kill(pid, SIGKILL); /* it has ended, unless the time is over */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return str_eq(said, "stopping\n");
}
