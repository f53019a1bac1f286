/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/wall.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/instance.h"
#include "node/host/oom.h"
#include "node/launch/launch_priv.h"
#include "wire/wire.h"

/*
 * A slot: parks with everything that needs no plan, takes one plan, becomes cay-init.
 *
 * The order of the last steps matters: the user namespace is entered after the last mount, the
 * capabilities fall after that, and the filter comes last. Then the slot says that it is launched,
 * and its socket, which closes on the exec, confirms it.
 */
enum {
	FD_KEEP = 10, /* our own descriptors live from here on */
};

/* While we may still say that it stays. Once a user namespace was made, this takes the kernel a
 * look at every process of the machine; so a score that is expected is set before that. */
static struct err *set_score(struct slot *s, int64_t score)
{
	if (!wall_stands("oom-score") || score == s->oom_score)
		return NULL;
	s->oom_score = score;
	return oom_score((int)score);
}

static struct err *limit(struct slot *s, const struct plan_limits *l)
{
	struct cgroup_limits limits = {
		.memory = wall_stands("memory-limit") ? l->memory : 0,
		.cpu_milli = wall_stands("cpu-limit") ? l->cpu : 0,
		.cpu_share = l->cpu_share,
		.pids = wall_stands("pids-limit") ? l->pids : 0,
	};
	struct err *e = cgroup_limit(s->l->cgroups, s->spec->name, &limits);

	return e ? e : set_score(s, l->oom_score);
}

/* The slot was parked with the limit of those that have none of their own. */
static struct err *limit_disk(struct slot *s, int64_t bytes)
{
	return bytes && wall_stands("disk-layer") ? s->l->disk->limit(s->dir_fd, bytes) : NULL;
}

/* A copy of fd that is not where cay-init gets its own; fd is closed. */
static int keep_high(int fd)
{
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_KEEP);

	if (fd >= 0)
		(void)close(fd);
	return high;
}

static struct err *open_log(struct slot *s)
{
	s->log = keep_high(openat(s->log_fd, "log", O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
	return s->log < 0 ? err_sys(errno, "open the log") : NULL;
}

/* From inside its directory: a socket address holds only 107 characters. Nobody connects before the
 * slot has said that it is launched. */
struct err *slot_open_socket(struct slot *s)
{
	autofree char *name = instance_socket(s->spec->name);
	autoclose fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	mode_t old = umask(0177);
	int r;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", name);
	r = fd < 0 ? -1 : fchdir(s->l->run_fd);
	if (!r)
		r = bind(fd, (struct sockaddr *)&a, sizeof(a));
	(void)umask(old);
	if (r < 0 || listen(fd, 128) < 0)
		return err_sys(errno, "listen at %s", name);
	if (s->stage_fd >= 0 && fchdir(s->stage_fd) < 0)
		return err_sys(errno, "enter the stage");
	s->sock = keep_high(take_fd(fd));
	return s->sock < 0 ? err_sys(errno, "keep the socket of %s", name) : NULL;
}

static struct err *slot_park(struct slot *s)
{
	const struct launcher *l = s->l;
	struct err *e;

	(void)setsid();
	e = cgroup_make(l->cgroups, s->spec->name);
	if (!e)
		e = cgroup_enter(l->cgroups, s->spec->name);
	if (!e && l->scores && s->spec->oom_score)
		e = set_score(s, s->spec->oom_score);
	if (e)
		return e;
	e = root_prepare(s);
	if (!e)
		e = userns_make(s);
	if (!e)
		e = root_mask_proc(l);
	if (!e)
		e = root_make_dir(s);
	if (!e)
		e = open_log(s);
	if (!e)
		e = slot_open_socket(s);
	/* A wrong guess costs nothing but time: the plan names its own image. */
	if (!e && s->spec->expects)
		err_free(root_mount_image(s, &s->spec->image, false));
	return e;
}

static struct err *join(int ns, bool shared)
{
	int kinds = shared ? CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS : CLONE_NEWNET;

	if (!wall_stands("network-namespace") || !setns(ns, kinds))
		return NULL;
	/* The container that had them has ended meanwhile. Without a word from us another slot is
	 * taken, with whatever the Pod has then. */
	if (shared && errno == ESRCH)
		_exit(1);
	return err_sys(errno, "enter the Pod's namespaces");
}

/* From here on we are root inside the sandbox, and without rights outside it. */
static struct err *enter_userns(struct slot *s)
{
	if (wall_stands("user-namespace") && setns(s->userns, CLONE_NEWUSER) < 0)
		return err_sys(errno, "enter the user namespace");
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(errno, "become root of the user namespace");
	if (wall_stands("no-new-privileges") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(errno, "forbid new privileges");
	/* cay-init has what its containers may have, and nothing else. */
	return wall_stands("capabilities") ? capabilities_keep(plan_capabilities()) : NULL;
}

struct err *slot_place_descriptors(const struct slot *s)
{
	sigset_t none;

	for (int fd = 0; fd < 3; fd++)
		if (dup2(s->null, fd) < 0)
			return err_sys(errno, "place descriptor %d", fd);
	if (dup2(s->sock, WIRE_FD_SOCKET) < 0 || dup2(s->log, WIRE_FD_LOG) < 0)
		return err_sys(errno, "place descriptors");
	if (syscall(SYS_close_range, WIRE_FD_LOG + 1, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
		return err_sys(errno, "mark descriptors");
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	return NULL;
}

struct err *slot_become_init(struct slot *s)
{
	static char name[] = "cay-init";
	char *const argv[] = { name, NULL };
	autofree char *log_max = xasprintf("LOG_MAX=%lld", (long long)s->l->log_limit);
	char *const env[] = { s->l->log_limit ? log_max : NULL, NULL };
	struct err *e;

	(void)umask(022);
	e = enter_userns(s);
	if (!e && s->restricted)
		e = view_restrict();
	if (!e)
		e = seccomp_install(&s->l->filter);
	if (!e)
		e = message_send(s->ctl, &(struct message){ .type = MESSAGE_LAUNCHED });
	if (e)
		return e;
	(void)syscall(SYS_execveat, s->l->init_fd, "", argv, env, AT_EMPTY_PATH);
	return err_sys(errno, "execute cay-init");
}

static struct err *set_hostname(const char *name)
{
	/* Without a namespace of our own it would be the host's name. */
	if (name && wall_stands("uts-namespace") && sethostname(name, strlen(name)) < 0)
		return err_sys(errno, "set the host name");
	return NULL;
}

/* After the limits: where the tree is mounted with nsdelegate, as systemd does, the kernel lets
 * nobody set those of the group that is the root of their own namespace. */
static struct err *hide_groups(void)
{
	if (wall_stands("cgroup-namespace") && unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(errno, "create a control group namespace");
	return NULL;
}

static struct err *slot_launch(struct slot *s, const struct plan *plan, int ns)
{
	struct err *e = limit(s, &plan->limits);

	if (!e)
		e = hide_groups();
	if (!e)
		e = limit_disk(s, plan->limits.disk);
	if (!e)
		e = join(ns, plan->join);
	if (!e)
		e = set_hostname(plan->hostname);
	if (!e)
		e = root_complete(s, plan);
	if (!e && plan->oci.program)
		return oci_become(s, plan);
	if (!e)
		e = root_pivot(s->root_fd);
	if (!e)
		e = slot_place_descriptors(s);
	return e ? e : slot_become_init(s);
}

/* If the daemon is gone, no answer is needed. */
noreturn_fn void slot_fail(const struct slot *s, struct err *e)
{
	err_free(message_send(
		s->ctl, &(struct message){ .type = MESSAGE_FAILED, .failed = { err_text(e) } }));
	_exit(1);
}

static void park(struct slot *s)
{
	struct err *e = slot_park(s);

	if (!e)
		e = message_send(s->ctl, &(struct message){ .type = MESSAGE_PARKED });
	if (e)
		slot_fail(s, err_wrap(e, "prepare a slot"));
}

void slot_main(struct launcher *l, const struct message_slot *spec, int ctl)
{
	struct slot s = { .l = l,
			  .spec = spec,
			  .ctl = ctl,
			  .userns = -1,
			  .stage_fd = -1,
			  .dir_fd = -1,
			  .log_fd = -1,
			  .root_fd = -1,
			  .sock = -1,
			  .log = -1 };
	struct arena *a = arena_new(); /* lives as long as the process */
	enum message_got got;
	struct message m;
	struct plan plan;
	struct err *e;

	park(&s);
	e = message_recv(ctl, a, &m, &got);
	if (!e && got == MESSAGE_END)
		_exit(0);                            /* the daemon is gone: we are not needed */
	(void)setpriority(PRIO_PROCESS, 0, l->nice); /* a Pod is waiting now */
	if (!e && m.type != MESSAGE_LAUNCH)
		e = err_new(ERR_MALFORMED, "slot received \"%s\" instead of \"launch\"",
			    message_type_name(m.type));
	if (!e)
		e = plan_from_fd(m.fds[0], a, &plan);
	if (!e)
		e = slot_launch(&s, &plan, m.fds[1]);
	slot_fail(&s, e);
}
