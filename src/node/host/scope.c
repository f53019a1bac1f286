/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

/*
 * systemd-run --scope registers the scope and then becomes the command that it was given. Ours is
 * cat: it ends when the daemon's end of its standard input closes, however the daemon ends, and the
 * line that it repeats tells that the scope is there.
 */
#define MOUNT "/sys/fs/cgroup"
enum {
	ANSWER_MS = 30 * 1000, /* of systemd, on a machine that is just starting */
	GONE_MS = 10 * 1000,   /* so long an ended scope of the same name may take to go away */
	STEP_MS = 50,
	CGROUP_FILE_MAX = 64 << 10,
};

struct scope {
	char *path;
	char *refusal;
	pid_t holder; /* 0: there is none */
	int pidfd;    /* of the holder, which ends when its scope is stopped */
	int hold;     /* the holder ends when this closes */
};

struct wanted {
	const char *id, *about;
	const char *name; /* of its scope, below the mount */
	int give_up_fd;
};

static char *plain_name(const char *id)
{
	return xasprintf("cay-%s", id);
}

static char *scope_name(const char *id)
{
	return xasprintf("cay.slice/cay-%s.scope", id);
}

static bool is_there(const char *place)
{
	autofree char *path = xasprintf(MOUNT "/%s", place);

	return file_exists(AT_FDCWD, path);
}

/* Only the unified hierarchy: a scope has no controllers in any other. */
static bool systemd_manages(void)
{
	struct statfs fs;

	return file_exists(AT_FDCWD, "/run/systemd/system") && !statfs(MOUNT, &fs) &&
	       (long)fs.f_type == CGROUP2_SUPER_MAGIC;
}

static char *below_scope(const char *name)
{
	return xasprintf("%s/sandboxes", name);
}

char *scope_find(const char *id)
{
	autofree char *name = scope_name(id);

	return is_there(name) ? below_scope(name) : plain_name(id);
}

static struct err *spawn(char *const *argv, int in, int out, pid_t *ret)
{
	char *const env[] = { NULL };
	posix_spawn_file_actions_t fds;
	posix_spawnattr_t attr;
	int r;

	/* A group of its own: what a terminal sends to the daemon's is not for the holder. */
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	(void)posix_spawn_file_actions_init(&fds);
	(void)posix_spawn_file_actions_adddup2(&fds, in, STDIN_FILENO);
	(void)posix_spawn_file_actions_adddup2(&fds, out, STDOUT_FILENO);
	(void)posix_spawn_file_actions_adddup2(&fds, out, STDERR_FILENO);
	r = posix_spawn(ret, argv[0], &fds, &attr, argv, env);
	(void)posix_spawn_file_actions_destroy(&fds);
	(void)posix_spawnattr_destroy(&attr);
	return r ? err_sys(r, "run %s", argv[0]) : NULL;
}

/* Until there is something to read, the time is over, or we are to give up. */
static void await(int out, int give_up_fd)
{
	struct pollfd p[] = { { out, POLLIN, 0 }, { give_up_fd, POLLIN, 0 } };
	usec deadline = clock_mono() + (usec)ANSWER_MS * 1000, now;

	while ((now = clock_mono()) < deadline &&
	       poll(p, ARRAY_LEN(p), (int)((deadline - now) / 1000) + 1) < 0 && errno == EINTR)
		;
}

static bool is_readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

/* The line that we have written, or why it never came. */
static struct err *await_line(int out, int give_up_fd, const char *program)
{
	char text[512];
	ssize_t n;

	await(out, give_up_fd);
	n = is_readable(out) ? read(out, text, sizeof(text) - 1) : -1;
	if (n < 0 && is_readable(give_up_fd))
		return err_new(ERR_CANCELED, "a signal came while %s was waited for", program);
	if (n < 0)
		return err_new(ERR_TIMEOUT, "%s has not answered for %d s", program,
			       ANSWER_MS / 1000);
	if (n && text[0] == '\n')
		return NULL;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return err_new(ERR_UNAVAILABLE, "%s", n ? text : "it exited without output");
}

/* Closing its input ends cat, but not a systemd-run that still waits for its scope. While our unit
 * is being stopped, systemd starts nothing that is ordered before it: we would wait for a scope
 * that waits for our own end. */
static void let_go(struct scope *s)
{
	if (s->hold >= 0)
		(void)close(take_fd(s->hold));
	if (s->pidfd >= 0)
		(void)close(take_fd(s->pidfd));
	if (s->holder) {
		(void)kill(s->holder, SIGKILL);
		(void)waitpid(s->holder, NULL, 0);
	}
	s->holder = 0;
}

static struct err *make_pipe(int *ret_from, int *ret_to)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(errno, "create a pipe");
	*ret_from = ends[0];
	*ret_to = ends[1];
	return NULL;
}

static struct err *start_holder(struct scope *s, int give_up_fd, char *const *argv)
{
	autoclose in = -1, out = -1, their_out = -1;
	struct err *e = make_pipe(&in, &s->hold);

	if (!e)
		e = make_pipe(&out, &their_out);
	if (!e)
		e = spawn(argv, in, their_out, &s->holder);
	if (!e) {
		s->pidfd = (int)syscall(SYS_pidfd_open, s->holder, 0);
		e = s->pidfd < 0 ? err_sys(errno, "hold process %d", (int)s->holder) : NULL;
	}
	if (their_out >= 0)
		(void)close(take_fd(their_out)); /* so that the end of the holder is ours too */
	if (!e && write(s->hold, "\n", 1) != 1)
		e = err_sys(errno, "write to %s", argv[0]);
	return e ? e : await_line(out, give_up_fd, argv[0]);
}

#define WORD(text) ((char *)(uintptr_t)(text))

static bool is_unit(const char *name)
{
	return str_ends(name, ".service") || str_ends(name, ".scope");
}

/*
 * The unit of the system's manager that this process is in, by its control group:
 * "0::/system.slice/cay.service", or "0::/user.slice/user-0.slice/session-1.scope" of a login.
 * What is below the first unit is its own business. NULL: it is in none.
 */
static char *find_own_unit(void)
{
	autofree char *text = NULL;
	char *save = NULL;

	err_free(file_read(AT_FDCWD, "/proc/self/cgroup", CGROUP_FILE_MAX, &text, NULL));
	if (!text || !str_starts(text, "0::/"))
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	for (char *part = strtok_r(text + 4, "/", &save); part; part = strtok_r(NULL, "/", &save))
		if (is_unit(part))
			return xstrdup(part);
	return NULL;
}

/* systemd-run takes properties that this release of systemd knows: all of these are old. Before:
 * when the machine stops, our own unit goes first and ends its sandboxes in order. */
static struct err *ask_systemd(struct scope *s, const struct wanted *w)
{
	autofree char *own = find_own_unit();
	autofree char *before = xasprintf("--property=Before=%s", str_or(own, "cay.service"));
	autofree char *unit = xasprintf("--unit=cay-%s.scope", w->id);
	autofree char *about = xasprintf("--description=Sandboxes of %s", w->about);
	char *const argv[] = { WORD("/usr/bin/systemd-run"),
			       WORD("--scope"),
			       WORD("--quiet"),
			       WORD("--collect"),
			       WORD("--slice=cay.slice"),
			       unit,
			       about,
			       WORD("--property=Delegate=yes"),
			       WORD("--property=TasksMax=infinity"),
			       before,
			       WORD("--property=TimeoutStopSec=30s"),
			       WORD("/bin/cat"),
			       NULL };

	return start_holder(s, w->give_up_fd, argv);
}

/* Out of the scope's own group: one with processes in it hands no controllers down. */
static struct err *place_holder(const struct scope *s, const char *name)
{
	autofree char *dir = xasprintf(MOUNT "/%s/holder", name);
	autofree char *procs = xasprintf("%s/cgroup.procs", dir);
	char pid[24];

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return err_sys(errno, "create control group %s", dir);
	(void)snprintf(pid, sizeof(pid), "%d", (int)s->holder);
	return file_write(AT_FDCWD, procs, pid);
}

/* A scope that is there has sandboxes in it, or is about to go. */
static struct err *try_scope(struct scope *s, const struct wanted *w)
{
	char *const cat[] = { WORD("/bin/cat"), NULL };
	struct err *e = is_there(w->name) ? start_holder(s, w->give_up_fd, cat) : ask_systemd(s, w);

	if (!e)
		e = place_holder(s, w->name);
	if (e)
		let_go(s);
	return e;
}

static struct err *hold_scope(struct scope *s, const struct wanted *w)
{
	usec deadline = clock_mono() + (usec)GONE_MS * 1000;
	bool was_there = is_there(w->name);
	struct err *e = try_scope(s, w);

	while (e && was_there && !err_is(e, ERR_CANCELED) && clock_mono() < deadline) {
		err_free(e);
		(void)poll(NULL, 0, STEP_MS);
		e = try_scope(s, w);
	}
	if (!e)
		s->path = below_scope(w->name);
	return err_wrap(e, "ask systemd for a scope");
}

/* What a start without a scope has left: it must not decide about this one. */
static void drop_empty(const char *plain)
{
	autofree char *path = xasprintf(MOUNT "/%s", plain);

	(void)rmdir(path); /* refused while anything is in it */
}

bool scope_is_missing(const char *id)
{
	autofree char *plain = plain_name(id);

	return systemd_manages() && is_there(plain);
}

struct err *scope_open(const char *id, const char *about, int give_up_fd, struct scope **ret)
{
	autoptr(scope) s = xnew(struct scope);
	autofree char *plain = plain_name(id), *name = scope_name(id);
	const struct wanted w = { id, about, name, give_up_fd };
	struct err *e = NULL;

	s->hold = s->pidfd = -1;
	drop_empty(plain);
	if (scope_is_missing(id))
		e = err_new(ERR_CONFLICT,
			    "sandboxes of a start without one still run; the first start after "
			    "their end gets one");
	else if (systemd_manages())
		e = hold_scope(s, &w);
	if (e && (is_there(name) || err_is(e, ERR_CANCELED)))
		return e; /* its sandboxes would be lost to us, or somebody wants us to stop */
	if (e) {
		log_warn("there is no scope for sandboxes, going on with a group of our own at the "
			 "root of the hierarchy",
			 KV("err", e));
		s->refusal = xstrdup(err_text(e));
	}
	err_free(e);
	if (!s->path)
		s->path = take(plain);
	*ret = take(s);
	return NULL;
}

void scope_free(struct scope *s)
{
	if (!s)
		return;
	let_go(s);
	free(s->path);
	free(s->refusal);
	free(s);
}

const char *scope_path(const struct scope *s)
{
	return s->path;
}

int scope_end_fd(const struct scope *s)
{
	return s->pidfd;
}

bool scope_is_systemds(const struct scope *s)
{
	return s->holder > 0;
}

const char *scope_refusal(const struct scope *s)
{
	return s->refusal;
}
