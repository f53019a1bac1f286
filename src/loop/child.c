/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "loop/loop_priv.h"

/*
 * Child processes by posix_spawn(), which shares our memory with the child until it executes and so
 * costs the same for a small parent and a large one. The child gets the descriptors it was given
 * and no others, default signal dispositions and an empty signal mask. We hold it by a pidfd, which
 * becomes readable when it exits: SIGCHLD and other people's children are none of our business.
 */
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct child {
	int pidfd;
	struct watch *watch;
	void (*exited)(void *arg, int status, int term_signal);
	void *arg;
};

/*
 * The actions that put fds[i] at descriptor i. A descriptor given may stand where another has to
 * go, so all of them are first copied to numbers beyond the last; these copies end with the exec.
 */
struct plan {
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attrs;
	int *copies;
	unsigned n_copies;
};

static void plan_done(struct plan *p)
{
	for (unsigned i = 0; i < p->n_copies; i++)
		if (p->copies[i] >= 0)
			close(p->copies[i]);
	free(p->copies);
	(void)posix_spawn_file_actions_destroy(&p->actions);
	(void)posix_spawnattr_destroy(&p->attrs);
}

static struct err *plan_fd(struct plan *p, const struct child_spec *spec, unsigned i)
{
	int fd = i < spec->n_fds ? spec->fds[i] : -1;
	int from = (int)MAX(spec->n_fds, 3u), r;

	if (fd < 0 && i < 3)
		r = posix_spawn_file_actions_addopen(&p->actions, (int)i, "/dev/null", O_RDWR, 0);
	else if (fd < 0)
		r = posix_spawn_file_actions_addclose(&p->actions, (int)i);
	else {
		p->copies[i] = fcntl(fd, F_DUPFD_CLOEXEC, from);
		if (p->copies[i] < 0)
			return err_sys(errno, "copy descriptor %d", fd);
		r = posix_spawn_file_actions_adddup2(&p->actions, p->copies[i], (int)i);
	}
	return r ? err_sys(r, "plan descriptor %u", i) : NULL;
}

static struct err *plan_fds(struct plan *p, const struct child_spec *spec)
{
	unsigned n = MAX(spec->n_fds, 3u);
	struct err *e;
	int r;

	p->copies = xnew_n(int, n);
	p->n_copies = n;
	for (unsigned i = 0; i < n; i++)
		p->copies[i] = -1;
	for (unsigned i = 0; i < n; i++) {
		e = plan_fd(p, spec, i);
		if (e)
			return e;
	}
	r = posix_spawn_file_actions_addclosefrom_np(&p->actions, (int)n);
	if (!r && spec->cwd)
		r = posix_spawn_file_actions_addchdir_np(&p->actions, spec->cwd);
	return r ? err_sys(r, "plan descriptors") : NULL;
}

static void plan_signals(struct plan *p)
{
	sigset_t all, none;

	sigfillset(&all);
	sigemptyset(&none);
	(void)posix_spawnattr_setsigdefault(&p->attrs, &all);
	(void)posix_spawnattr_setsigmask(&p->attrs, &none);
	(void)posix_spawnattr_setflags(&p->attrs, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

/* "/proc/self/exe tied-child PID PROGRAM ARGS...", with the process that it is tied to. */
#define TIED "tied-child"
enum {
	TIED_PID = 2,
	TIED_ARGS = 3,
};

void child_main(int argc, char **argv)
{
	char parent[16];

	if (argc <= TIED_ARGS || !str_eq(argv[1], TIED))
		return;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(parent, sizeof(parent), "%d", (int)getppid());
	if (str_eq(parent, argv[TIED_PID])) /* or it was gone before we asked */
		(void)execvp(argv[TIED_ARGS], argv + TIED_ARGS);
	_exit(CHILD_NO_PROGRAM);
}

static const char **tied_argv(const char *const *argv, const char *pid)
{
	const char **tied;
	size_t n = 0;

	while (argv[n])
		n++;
	tied = xnew_n(const char *, TIED_ARGS + n + 1);
	tied[0] = "/proc/self/exe";
	tied[1] = TIED;
	tied[TIED_PID] = pid;
	memcpy(tied + TIED_ARGS, argv, n * sizeof(*argv));
	return tied;
}

static struct err *spawn(const struct child_spec *spec, pid_t *ret)
{
	__attribute__((cleanup(plan_done))) struct plan p = { 0 };
	autofree char *pid = xasprintf("%d", (int)getpid());
	autofree const char **tied = spec->tied ? tied_argv(spec->argv, pid) : NULL;
	char *const *argv = (char *const *)(tied ? tied : spec->argv);
	char *const *env = spec->env ? (char *const *)spec->env : environ;
	struct err *e;
	int r;

	(void)posix_spawn_file_actions_init(&p.actions);
	(void)posix_spawnattr_init(&p.attrs);
	plan_signals(&p);
	e = plan_fds(&p, spec);
	if (e)
		return err_wrap(e, "start %s", spec->argv[0]);
	r = posix_spawnp(ret, argv[0], &p.actions, &p.attrs, argv, env);
	return r ? err_sys(r, "start %s", spec->argv[0]) : NULL;
}

static void on_exit_ready(void *arg, unused unsigned ready)
{
	struct child *c = arg;
	siginfo_t info = { 0 };
	bool signaled;
	int r;

	do
		r = waitid((idtype_t)P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOHANG);
	while (r < 0 && errno == EINTR);
	if (r == 0 && info.si_pid == 0)
		return; /* not yet */
	signaled = r == 0 && (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED);
	watch_free(c->watch);
	close(c->pidfd);
	c->pidfd = -1;
	if (c->exited) /* somebody else reaped it when r < 0: all we know is that it ended */
		c->exited(c->arg,
			  signaled ? 0
			  : r < 0  ? -1
				   : info.si_status,
			  signaled ? info.si_status : 0);
	free(c);
}

struct err *child_spawn(struct loop *l, const struct child_spec *spec,
			void (*exited)(void *arg, int status, int term_signal), void *arg,
			struct child **ret)
{
	struct child *c;
	struct err *e;
	pid_t pid;
	long pidfd;

	e = spawn(spec, &pid);
	if (e)
		return e;
	/* It cannot be reaped by anyone but us, so its number is still its own. */
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		e = err_sys(errno, "hold process %d", (int)pid);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0); /* it is dying: this is short */
		return e;
	}
	c = xnew(struct child);
	c->pidfd = (int)pidfd;
	c->exited = exited;
	c->arg = arg;
	c->watch = watch_new(l, c->pidfd, on_exit_ready, c);
	watch_want(c->watch, WATCH_READ);
	*ret = c;
	return NULL;
}

void child_kill(struct child *c, int signum)
{
	if (c->pidfd >= 0) /* it may have ended already, and that is fine */
		(void)syscall(SYS_pidfd_send_signal, c->pidfd, signum, NULL, 0);
}
