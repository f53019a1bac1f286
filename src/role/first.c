/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "role/first_priv.h"

/*
 * The first process of a container. Whatever is left there without a parent becomes its child: what
 * `podman exec` or a health check left in the background. A server knows its own children alone, so
 * as the first process this program runs itself once more, as a child that serves. It collects
 * every process that ends, passes signals on, and ends as that child did. With it ends the whole
 * container, so a request to stop always asks the sandboxes to stop, too.
 */
enum {
	ARGUMENTS_MAX = 2 << 20,
	BY_SIGNAL = 128, /* as a shell has it */
};

static struct err *read_arguments(char **ret_text, char ***ret_argv)
{
	size_t len, n = 0;
	struct err *e = file_read(AT_FDCWD, "/proc/self/cmdline", ARGUMENTS_MAX, ret_text, &len);

	if (e)
		return e;
	*ret_argv = xnew_n(char *, len + 1);
	for (char *at = *ret_text; at < *ret_text + len; at += strlen(at) + 1)
		(*ret_argv)[n++] = at;
	return NULL;
}

static struct err *spawn_again(const sigset_t *usual, pid_t *ret)
{
	autofree char *text = NULL;
	autofree char **argv = NULL;
	struct err *e = read_arguments(&text, &argv);
	posix_spawnattr_t attr;
	int r;

	if (e)
		return e;
	(void)posix_spawnattr_init(&attr);
	/* In a group of its own: a terminal sends ^C to ours, and it would come twice. */
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	(void)posix_spawnattr_setsigmask(&attr, usual);
	r = posix_spawn(ret, "/proc/self/exe", NULL, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	return r ? err_sys(r, "run /proc/self/exe") : NULL;
}

/* True when the server is among those that ended. */
static bool collect(pid_t server, int *ret_status)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == server) {
			*ret_status = status;
			ended = true;
		}
	return ended;
}

/* SIGUSR1 is what `cay stop --sandboxes` sends. */
static int signal_for_server(int signum)
{
	return signum == SIGTERM || signum == SIGINT ? SIGUSR1 : signum;
}

struct err *first_process_serve(int *ret_code)
{
	sigset_t all, usual;
	int signum = 0, status = 0;
	struct err *e;
	pid_t server;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &usual);
	e = spawn_again(&usual, &server);
	if (e) {
		(void)sigprocmask(SIG_SETMASK, &usual, NULL);
		return e;
	}
	while (signum != SIGCHLD || !collect(server, &status)) {
		if (sigwait(&all, &signum))
			signum = 0;
		else if (signum != SIGCHLD)
			(void)kill(server, signal_for_server(signum));
	}
	*ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : BY_SIGNAL + WTERMSIG(status);
	return NULL;
}
