/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/wall.h"
#include "node/host/cgroup.h"
#include "node/host/instance.h"
#include "node/host/oom.h"
#include "node/launch/launch_priv.h"

/*
 * A seat: a cay-init in a sandbox that runs already, for one of those who use it. What it starts is
 * in its control group from the first instruction on, because that is where it is itself; and it
 * sees the files of the sandbox in one of three ways.
 *
 *   shared      all namespaces are the sandbox's: it is one more process of it
 *   read-only   its own mounts, processes, IPC and network; all mounts are read-only (view.c)
 *   scratch     the same, but an overlay over the sandbox's files takes what is written
 *
 * The user namespace is the sandbox's in any case, so that files have the owners that they have
 * there. A view has no process of the sandbox in its proc, and a network with nothing but itself in
 * it: what runs in the sandbox would otherwise write for it, be it by a service or by a debugger.
 *
 * The socket is bound last, after the group was entered: whoever can be reached is in its group.
 */
enum {
	FD_KEEP = 10, /* our own descriptors live from here on */
};

static int keep_high(int fd)
{
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_KEEP);

	if (fd >= 0)
		(void)close(fd);
	return high;
}

/* By its number, and then it must still be the process of the pidfd: numbers are used again. */
static struct err *open_userns(struct slot *s, int pid, int sandbox)
{
	struct pollfd p = { sandbox, POLLIN, 0 };
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	s->userns = keep_high(open(path, O_RDONLY | O_CLOEXEC));
	if (s->userns < 0 || poll(&p, 1, 0) != 0)
		return err_new(ERR_UNAVAILABLE, "the sandbox has ended");
	return NULL;
}

/* The kernel's choice when memory is out is the same as among the sandbox's own processes. */
static struct err *copy_score(int pid)
{
	autofree char *text = NULL;
	char path[64];
	int64_t score;
	struct err *e;

	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	e = file_read(AT_FDCWD, path, 32, &text, NULL);
	if (e)
		return e;
	text[strcspn(text, "\n")] = '\0';
	e = parse_int(text, -1000, 1000, &score);
	if (e)
		return e;
	return wall_stands("oom-score") ? oom_score((int)score) : NULL;
}

/* The directory of the sandbox's seats, and no socket of one that has died. */
static struct err *make_way(const struct slot *s)
{
	autofree char *name = instance_socket(s->spec->name), *dir = xstrdup(name);
	char *slash = strrchr(dir, '/');

	if (!slash)
		return err_new(ERR_MALFORMED, "a seat's name has no slash: %s", dir);
	*slash = '\0';
	if (mkdirat(s->l->run_fd, dir, 0700) < 0 && errno != EEXIST)
		return err_sys(errno, "create %s", dir);
	if (unlinkat(s->l->run_fd, name, 0) < 0 && errno != ENOENT)
		return err_sys(errno, "remove the old socket %s", name);
	return NULL;
}

static struct err *enter_group(const struct slot *s, const char *group)
{
	struct err *e;

	if (!wall_stands("seat-group"))
		return NULL;
	e = cgroup_make(s->l->cgroups, group);
	return e ? e : cgroup_enter(s->l->cgroups, group);
}

static struct err *enter_sandbox(int sandbox)
{
	if (setns(sandbox,
		  CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP) < 0)
		return err_sys(errno, "enter the sandbox");
	return chdir("/") < 0 ? err_sys(errno, "enter the sandbox's root") : NULL;
}

/* Nobody in a sandbox can put something else there; but if somebody did, it must not be opened. */
static struct err *open_null(struct slot *s)
{
	struct stat st;

	s->null = keep_high(open("/dev/null", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	if (s->null < 0 || fstat(s->null, &st) < 0)
		return err_sys(errno, "open the device null");
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		return err_new(ERR_CONFLICT, "/dev/null of the sandbox is something else");
	s->log = fcntl(s->null, F_DUPFD_CLOEXEC, FD_KEEP);
	return s->log < 0 ? err_sys(errno, "copy a descriptor") : NULL;
}

static struct err *seat_become(struct slot *s, const struct message_seat *spec, int sandbox)
{
	struct err *e = open_userns(s, spec->pid, sandbox);

	if (!e)
		e = copy_score(spec->pid);
	if (!e)
		e = enter_group(s, spec->group);
	if (!e)
		e = resources_limit();
	if (!e)
		e = make_way(s);
	if (!e)
		e = slot_open_socket(s);
	if (!e)
		e = spec->view == SEAT_SHARED ? enter_sandbox(sandbox)
					      : view_enter(s, spec, sandbox);
	if (!e)
		e = open_null(s);
	if (!e)
		e = slot_place_descriptors(s);
	return e ? e : slot_become_init(s);
}

void seat_main(struct launcher *l, const struct message_seat *spec, int ctl, int sandbox)
{
	const struct message_slot as_slot = { .name = spec->name, .base = spec->base };
	struct slot s = { .l = l,
			  .spec = &as_slot,
			  .ctl = ctl,
			  .userns = -1,
			  .stage_fd = -1,
			  .dir_fd = -1,
			  .log_fd = -1,
			  .root_fd = -1,
			  .restricted = spec->view == SEAT_READ_ONLY,
			  .sock = -1,
			  .log = -1,
			  .null = -1 };

	/* Whoever is in the sandbox may see us from here on, and inspects nothing. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)setsid();
	(void)setpriority(PRIO_PROCESS, 0, l->nice);
	slot_fail(&s, seat_become(&s, spec, keep_high(sandbox)));
}
