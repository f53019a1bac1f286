/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "role/machine_priv.h"

enum {
	ANSWER_MS = 20000, /* a machine that is going down may be slow to say so */
};

/* By a shell, whose status is the answer: systemctl has one status for all states but "running". */
static pid_t ask(void)
{
	static const char script[] =
		"[ \"$(systemctl is-system-running 2>/dev/null)\" = stopping ]";
	char *const argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)(uintptr_t)script,
			       NULL };
	char *const env[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };
	pid_t pid;

	return posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, env) ? -1 : pid;
}

bool machine_is_stopping(void)
{
	pid_t pid = file_exists(AT_FDCWD, "/run/systemd/system") ? ask() : -1;
	autoclose fd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { fd, POLLIN, 0 };
	int status = 1;

	if (pid < 0)
		return false;
	if (poll(&p, 1, ANSWER_MS) != 1)
		(void)kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}
