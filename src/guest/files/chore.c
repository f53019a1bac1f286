/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/files/chore_priv.h"
#include "guest/runtime/runtime.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"

/*
 * The runtime has one thread, and waiting for a disk would hold everybody up; a fork of a process
 * as small as this one takes a fraction of a millisecond. It closes everything else at once, so
 * that a connection which we close meanwhile is closed.
 */
struct running {
	struct chore chore;
	int errnum;
};

static void on_exit_status(void *arg, int status)
{
	struct running *c = arg;
	struct chore chore = c->chore;

	free(c);
	chore.done(chore.arg, WIFEXITED(status) ? WEXITSTATUS(status) : EINTR);
}

static void on_posted(void *arg)
{
	struct running *c = arg;
	struct chore chore = c->chore;
	int errnum = c->errnum;

	free(c);
	chore.done(chore.arg, errnum);
}

void chore_run(struct rt *rt, const struct chore *what, int fd, const char *name)
{
	struct running *c = xnew(struct running);
	pid_t pid;

	c->chore = *what;
	pid = fork();
	if (pid == 0) {
		if (fd && dup2(fd, 0) < 0)
			_exit(errno);
		(void)syscall(SYS_close_range, 1u, ~0u, 0);
		_exit(what->work(0, name));
	}
	if (pid > 0) {
		children_add(rt->children, pid, on_exit_status, c);
		return;
	}
	c->errnum = what->work(fd, name); /* no process can be had: then everybody waits */
	loop_post(rt->loop, on_posted, c);
}
