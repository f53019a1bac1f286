/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/wall.h"
#include "node/host/numbers.h"
#include "node/launch/launch_priv.h"

/*
 * The user namespace of a slot, and what its processes may use up of the kernel.
 *
 * The kernel counts inotify instances, pending signals, POSIX timers, message queues and locked
 * memory per user, and once more for the owner of each user namespace around that user. A namespace
 * made by root would charge every sandbox to root of the host: one could take it all. So the owner
 * is the first id of the slot's range, which nothing outside the sandbox has. That id has no rights
 * in a namespace around it; an owner commands its namespace only from outside.
 *
 * A namespace also remembers the resource limits of its creator as the limit of all its users
 * together: they are set before it is made.
 */
enum {
	FD_KEEP = 10, /* our own descriptors live from here on */
	HOLDER_STACK = 32 * 1024,
};

static const struct {
	const char *name;
	__rlimit_resource_t what;
	rlim_t soft, hard;
} resource_limits[] = {
	{ "open files", RLIMIT_NOFILE, 1024, 1 << 16 },
	{ "locked memory", RLIMIT_MEMLOCK, 8 << 20, 8 << 20 },
	{ "pending signals", RLIMIT_SIGPENDING, 4096, 4096 }, /* POSIX timers too */
	{ "message queues", RLIMIT_MSGQUEUE, 819200, 819200 },
	{ "nice", RLIMIT_NICE, 0, 0 },
	{ "real-time priority", RLIMIT_RTPRIO, 0, 0 },
};

/* In sys/user of proc: limits of one user namespace. A kernel may be too old for some. */
static const struct {
	const char *name, *max;
} counters[] = {
	{ "max_inotify_instances", "128" }, { "max_inotify_watches", "65536" },
	{ "max_fanotify_groups", "0" },     { "max_fanotify_marks", "0" },
	{ "max_user_namespaces", "0" },     { "max_pid_namespaces", "0" },
	{ "max_mnt_namespaces", "0" },      { "max_net_namespaces", "0" },
	{ "max_ipc_namespaces", "0" },      { "max_uts_namespaces", "0" },
	{ "max_cgroup_namespaces", "0" },   { "max_time_namespaces", "0" },
};

/* The limit that a service manager gave us may already be 0: then it is raised. */
static struct err *limit_core(void)
{
	/* Not 0: with that, a core pattern that names a program would still start it, on the
	 * host. 1 means never, and the filter keeps it at 1. */
	const struct rlimit never = { 1, 1 };

	if (setrlimit(RLIMIT_CORE, &never) < 0)
		return err_sys(errno, "set the limit of core files to 1; "
				      "start cay with a limit above 0 (LimitCORE=)");
	return NULL;
}

struct err *resources_limit(void)
{
	if (!wall_stands("rlimits"))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(resource_limits); i++) {
		struct rlimit now, want;

		if (getrlimit(resource_limits[i].what, &now) < 0)
			return err_sys(errno, "read the limit of %s", resource_limits[i].name);
		want.rlim_max = MIN(now.rlim_max, resource_limits[i].hard); /* only ever lower */
		want.rlim_cur = MIN(want.rlim_max, resource_limits[i].soft);
		if (setrlimit(resource_limits[i].what, &want) < 0)
			return err_sys(errno, "set the limit of %s", resource_limits[i].name);
	}
	return limit_core();
}

/* In the namespace, where we have every capability. Returns an error number. Through the proc of
 * the slot: below that of the host, names of all sandboxes would lie in the same hash chains. */
static int limit_counters(int proc)
{
	autoclose dir = -1;

	if (!wall_stands("ucounts"))
		return 0;
	dir = openat(proc, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno;
	for (size_t i = 0; i < ARRAY_LEN(counters); i++) {
		autoclose fd = openat(dir, counters[i].name, O_WRONLY | O_CLOEXEC);
		size_t len = strlen(counters[i].max);
		ssize_t n;

		if (fd < 0 && errno == ENOENT)
			continue;
		n = fd < 0 ? -1 : write(fd, counters[i].max, len);
		if (n < 0)
			return errno;
		if ((size_t)n != len)
			return EIO; /* part of a number is another limit */
	}
	return 0;
}

/* The first process of the namespace. It stops when all is set, and ends if something failed. Its
 * memory is the slot's, which waits meanwhile. */
static int holder_main(void *arg)
{
	int errnum = limit_counters(*(const int *)arg);

	if (errnum)
		_exit(errnum);
	for (;;)
		(void)kill(getpid(), SIGSTOP);
}

static struct err *await_holder(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, WUNTRACED) < 0)
		if (errno != EINTR)
			return err_sys(errno, "wait for the user namespace");
	if (WIFSTOPPED(status))
		return NULL;
	return err_sys(WIFEXITED(status) ? WEXITSTATUS(status) : EIO,
		       "limit what the user namespace may use");
}

static struct err *map_ids(pid_t pid, const char *file, uint32_t base)
{
	char path[64], map[64];

	(void)snprintf(path, sizeof(path), "proc/%d/%s", (int)pid, file);
	(void)snprintf(map, sizeof(map), "0 %u %d", base, ID_RANGE);
	return file_write(AT_FDCWD, path, map);
}

static struct err *open_userns(struct slot *s, pid_t pid)
{
	struct err *e = map_ids(pid, "uid_map", s->spec->base);
	autoclose fd = -1;
	char path[64];

	if (!e)
		e = map_ids(pid, "gid_map", s->spec->base);
	if (e)
		return e;
	(void)snprintf(path, sizeof(path), "proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	s->userns = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_KEEP);
	return s->userns < 0 ? err_sys(errno, "open the user namespace") : NULL;
}

/* The effective id of its creator owns a namespace. The capabilities stay: some hosts let only
 * CAP_SYS_ADMIN create one. */
static struct err *become_owner(const struct slot *s)
{
	uid_t owner = wall_stands("userns-owner") ? s->spec->base : 0;

	if (setresuid((uid_t)-1, owner, (uid_t)-1) < 0)
		return err_sys(errno, "become the owner of the user namespace");
	return capabilities_raise();
}

/* It shares our memory, so that nothing is copied for the moment that it lives: until it has
 * stopped, we do nothing but wait for that. */
static struct err *clone_holder(int proc, pid_t *ret)
{
	static _Alignas(16) char stack[HOLDER_STACK];
	pid_t pid = clone(holder_main, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER | SIGCHLD,
			  &proc);

	if (pid < 0)
		return err_sys(errno, "create a user namespace");
	*ret = pid;
	return await_holder(pid);
}

/* Creating a user namespace takes a process; afterwards its descriptor holds it. */
struct err *userns_make(struct slot *s)
{
	autoclose proc = openat(s->stage_fd, "proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err *e = proc < 0 ? err_sys(errno, "open proc") : resources_limit();
	pid_t pid = -1;

	if (!e)
		e = become_owner(s);
	if (!e)
		e = clone_holder(proc, &pid);
	if (!e && setresuid((uid_t)-1, 0, (uid_t)-1) < 0)
		e = err_sys(errno, "become root again");
	if (!e)
		e = open_userns(s, pid);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	return e;
}

static struct err *await_end(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(errno, "wait for a process in the user namespace");
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return NULL;
	return err_sys(WIFEXITED(status) ? WEXITSTATUS(status) : EIO,
		       "limit the namespaces of the user namespace");
}

/* A runtime makes them on its way to the container; the container makes none. What was made stays.
 */
struct err *userns_open(struct slot *s, bool open_)
{
	static const char *const names[] = { "max_mnt_namespaces", "max_pid_namespaces" };
	pid_t pid = wall_stands("ucounts") ? fork() : 0;

	if (!wall_stands("ucounts"))
		return NULL;
	if (pid < 0)
		return err_sys(errno, "create a process for the user namespace");
	if (pid)
		return await_end(pid);
	if (setns(s->userns, CLONE_NEWUSER) < 0)
		_exit(errno);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[64];
		struct err *e;

		(void)snprintf(path, sizeof(path), "/proc/sys/user/%s", names[i]);
		e = file_write(AT_FDCWD, path, open_ ? "16" : "0");
		if (e)
			_exit(EIO);
	}
	_exit(0);
}
