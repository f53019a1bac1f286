/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/spawn/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "wire/wire.h"

/*
 * A process starts as a vfork: the child borrows our memory until it execs, so nothing is copied,
 * and it reports a failed step by writing it there. Meanwhile it makes only calls that change the
 * process and not the memory: system calls, raw where glibc would want to tell other threads.
 *
 * Code in the sandbox with the same ids cannot inspect the borrowed memory: we are not dumpable. It
 * can stop the child in the few microseconds between the change of ids and the exec, and us with
 * it; but then it has stopped its own sandbox.
 */
enum {
	STACK_LEN = 32 * 1024,
	CAPS = 64, /* bits of keep_caps */
};

static char child_stack[STACK_LEN] __attribute__((aligned(64)));
static uint64_t bounding;          /* capabilities that we could pass on */
static struct rlimit nofile_given; /* ours is raised; children get the original limit */

struct birth {
	const struct spawn *spec;
	char path[PATH_MAX];
	const char *step; /* "exec", "chdir": the step that failed, with errnum */
	int errnum;
};

void spawn_setup(void)
{
	struct rlimit more;

	for (int cap = 0; cap < CAPS; cap++) {
		int has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);

		if (has < 0)
			break; /* the kernel knows no higher ones */
		bounding |= (uint64_t)has << cap;
	}
	(void)getrlimit(RLIMIT_NOFILE, &nofile_given);
	more = nofile_given;
	more.rlim_cur = MIN(more.rlim_max, (rlim_t)4096);
	if (more.rlim_cur > nofile_given.rlim_cur)
		(void)setrlimit(RLIMIT_NOFILE, &more);
}

/* Nothing is inheritable or ambient, as with container runtimes: root has its capabilities because
 * it is root, and whoever is no longer root has none. */
static int caps_set(uint64_t keep)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	for (int i = 0; i < 2; i++) {
		uint32_t bits = (uint32_t)(keep >> (32 * i));

		data[i] = (struct __user_cap_data_struct){ .effective = bits, .permitted = bits };
	}
	return syscall(SYS_capset, &head, data) < 0 ? errno : 0;
}

static int bounding_shrink(uint64_t keep)
{
	for (int cap = 0; cap < CAPS; cap++)
		if ((bounding & ~keep) >> cap & 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return errno;
	return 0;
}

static int ids_set(const struct wire_start *who, const char **ret_step)
{
	*ret_step = "setgroups";
	if (syscall(SYS_setgroups, (size_t)who->n_groups, who->groups) < 0)
		return errno;
	*ret_step = "setgid";
	if (syscall(SYS_setresgid, who->gid, who->gid, who->gid) < 0)
		return errno;
	*ret_step = "setuid";
	if (syscall(SYS_setresuid, who->uid, who->uid, who->uid) < 0)
		return errno;
	return 0;
}

static void limits_set(const struct wire_start *who)
{
	struct rlimit r = nofile_given;

	if (who->nofile)
		r.rlim_cur = r.rlim_max = MIN((rlim_t)who->nofile, nofile_given.rlim_max);
	(void)setrlimit(RLIMIT_NOFILE, &r); /* at most what we were given: cannot fail */
}

int identity_assume(const struct wire_start *who, const char **ret_step)
{
	uint64_t caps = who->keep_caps & bounding;
	int errnum;

	limits_set(who);
	*ret_step = "drop capabilities";
	errnum = bounding_shrink(caps);
	if (!errnum)
		errnum = ids_set(who, ret_step);
	if (errnum)
		return errnum;
	*ret_step = "set capabilities";
	return caps_set(who->uid ? 0 : caps);
}

/*
 * Puts descriptors 0 to 2 in place and closes everything else on exec. Sources are above 2 or
 * already in place.
 */
static int fds_set(const int fds[3])
{
	for (int i = 0; i < 3; i++) {
		if (fds[i] == i && fcntl(i, F_SETFD, 0) < 0)
			return errno;
		if (fds[i] != i && dup2(fds[i], i) < 0)
			return errno;
	}
	/* A kernel or filter without this call does no harm: all of ours are CLOEXEC. */
	(void)syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
	return 0;
}

static const char *env_path(const char *const *env)
{
	for (; env && *env; env++)
		if (str_starts(*env, "PATH="))
			return *env + strlen("PATH=");
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/* Returns only on failure, with the most informative errno. */
static int exec_on_path(struct birth *b)
{
	const struct spawn *s = b->spec;
	struct span rest = SPAN(env_path(s->env));
	int errnum = ENOENT;

	while (rest.p) {
		struct span dir = span_cut(rest, ':', &rest);
		size_t name_len = strlen(s->argv[0]);

		if (dir.len + name_len + 2 > sizeof(b->path))
			continue;
		memcpy(b->path, dir.p, dir.len);
		if (dir.len)
			b->path[dir.len++] = '/';
		memcpy(b->path + dir.len, s->argv[0], name_len + 1);
		(void)execve(b->path, (char *const *)s->argv, (char *const *)s->env);
		if (errno == EACCES)
			errnum = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			return errno;
	}
	return errnum;
}

static int exec_now(struct birth *b)
{
	const struct spawn *s = b->spec;

	b->step = "exec";
	if (!*s->argv[0])
		return ENOENT;
	if (!strchr(s->argv[0], '/'))
		return exec_on_path(b);
	(void)execve(s->argv[0], (char *const *)s->argv, (char *const *)s->env);
	return errno;
}

static int become(struct birth *b)
{
	const struct spawn *s = b->spec;
	int errnum;

	b->step = "set descriptors";
	errnum = fds_set(s->fds);
	if (errnum)
		return errnum;
	b->step = "setsid";
	if (setsid() < 0)
		return errno;
	b->step = "take terminal";
	if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
		return errno;
	(void)umask(022);
	if (s->who)
		errnum = identity_assume(s->who, &b->step);
	if (errnum)
		return errnum;
	b->step = "chdir";
	if ((s->cwd_fd > 2 ? fchdir(s->cwd_fd) : chdir(*s->cwd ? s->cwd : "/")) < 0)
		return errno;
	return exec_now(b);
}

static int child_main(void *arg)
{
	struct birth *b = arg;
	sigset_t none;

	/* The only disposition that we changed; we have no handlers. */
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	b->errnum = become(b);
	_exit(127);
}

static struct err *birth_error(const struct birth *b)
{
	const struct spawn *s = b->spec;

	if (str_eq(b->step, "exec"))
		return err_sys(b->errnum, "exec \"%s\"", s->argv[0]);
	if (str_eq(b->step, "chdir"))
		return err_sys(b->errnum, "chdir \"%s\"", s->cwd);
	return err_sys(b->errnum, "%s", b->step);
}

struct err *spawn(const struct spawn *s, pid_t *ret)
{
	struct birth b = { .spec = s };
	pid_t pid =
		clone(child_main, child_stack + STACK_LEN, CLONE_VM | CLONE_VFORK | SIGCHLD, &b);

	if (pid < 0)
		return err_sys(errno, "start a process");
	if (b.errnum)
		return birth_error(&b); /* the dead child is reaped with the orphans */
	*ret = pid;
	return NULL;
}
