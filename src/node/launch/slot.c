/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "node/host/cgroup.h"
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
	CAPS = 64,    /* bits of a set of capabilities */
};

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

/* A user namespace needs a process to be born in; it is held by its descriptor afterwards. */
static struct err *make_userns(struct slot *s)
{
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	struct err *e;

	if (pid < 0)
		return err_sys(errno, "make a user namespace");
	if (!pid)
		for (;;)
			(void)pause();
	e = open_userns(s, pid);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return e;
}

static struct err *slot_park(struct slot *s)
{
	const struct launcher *l = s->l;
	struct err *e;

	(void)setsid();
	e = cgroup_make(l->cgroups, s->spec->name);
	if (!e)
		e = cgroup_enter(l->cgroups, s->spec->name);
	if (e)
		return e;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(errno, "make a control group namespace");
	e = root_prepare(s);
	if (!e)
		e = make_userns(s);
	if (!e)
		e = root_make_dir(s);
	/* A wrong guess costs nothing but time: the plan names its own image. */
	if (!e && s->spec->expects)
		err_free(root_mount_image(s, &s->spec->image, false));
	return e;
}

static struct err *limit(struct slot *s, const struct plan_limits *l)
{
	struct cgroup_limits limits = {
		.memory = l->memory,
		.cpu_milli = l->cpu,
		.cpu_share = l->cpu_share,
		.pids = l->pids,
	};

	return cgroup_limit(s->l->cgroups, s->spec->name, &limits);
}

static struct err *open_log(struct slot *s, int *ret)
{
	*ret = openat(s->dir_fd, "log", O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	return *ret < 0 ? err_sys(errno, "open the log") : NULL;
}

/* Through the directory's descriptor: a socket address has room for 107 characters only. */
static struct err *open_socket(struct slot *s, int *ret)
{
	autoclose fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	mode_t old;
	int r;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s.sock", s->l->run_fd,
		       s->spec->name);
	(void)unlink(a.sun_path); /* left by an earlier life of this name */
	old = umask(0177);
	r = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&a, sizeof(a));
	(void)umask(old);
	if (r < 0 || listen(fd, 128) < 0)
		return err_sys(errno, "listen at %s.sock", s->spec->name);
	*ret = take_fd(fd);
	return NULL;
}

static struct err *join(int ns, bool shared)
{
	if (setns(ns, shared ? CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS : CLONE_NEWNET) < 0)
		return err_sys(errno, "enter the Pod's namespaces");
	return NULL;
}

/* cay-init has what its containers may have, and nothing else. */
static struct err *drop_capabilities(void)
{
	uint64_t keep = plan_capabilities();
	cap_t caps = cap_init();
	int r = caps ? 0 : -1;

	for (cap_value_t v = 0; v < CAPS && !r; v++) {
		if (keep >> v & 1) {
			r = cap_set_flag(caps, CAP_PERMITTED, 1, &v, CAP_SET);
			if (!r)
				r = cap_set_flag(caps, CAP_EFFECTIVE, 1, &v, CAP_SET);
		} else if (prctl(PR_CAPBSET_DROP, v, 0, 0, 0) < 0 && errno == EINVAL) {
			break; /* the kernel knows no more */
		}
	}
	if (!r)
		r = cap_set_proc(caps);
	(void)cap_free(caps);
	return r < 0 ? err_sys(errno, "drop capabilities") : NULL;
}

static void set_rlimits(void)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t soft, hard;
	} rows[] = {
		{ RLIMIT_NOFILE, 1024, 1 << 20 },
		{ RLIMIT_CORE, 0, 0 },
		{ RLIMIT_MEMLOCK, 8 << 20, 8 << 20 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rlimit now, want;

		if (getrlimit(rows[i].what, &now) < 0)
			continue;
		want.rlim_max = MIN(now.rlim_max, rows[i].hard);
		want.rlim_cur = MIN(want.rlim_max, rows[i].soft);
		(void)setrlimit(rows[i].what, &want); /* only ever lower */
	}
}

/* From here on we are the sandbox's root, and nobody outside it. */
static struct err *enter_userns(struct slot *s)
{
	if (setns(s->userns, CLONE_NEWUSER) < 0)
		return err_sys(errno, "enter the user namespace");
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(errno, "become the sandbox's root");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(errno, "forbid new privileges");
	return drop_capabilities();
}

static struct err *place_descriptors(int sock, int log)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	if (null < 0)
		return err_sys(errno, "open /dev/null");
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return err_sys(errno, "place descriptor %d", fd);
	if (dup2(sock, WIRE_FD_SOCKET) < 0 || dup2(log, WIRE_FD_LOG) < 0)
		return err_sys(errno, "place descriptors");
	if (syscall(SYS_close_range, WIRE_FD_LOG + 1, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
		return err_sys(errno, "mark descriptors");
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	return NULL;
}

static struct err *become_init(struct slot *s)
{
	static char name[] = "cay-init";
	char *const argv[] = { name, NULL };
	char *const env[] = { NULL };
	struct err *e;

	(void)umask(022);
	set_rlimits();
	e = enter_userns(s);
	if (!e)
		e = seccomp_install(&s->l->filter);
	if (!e)
		e = message_send(s->ctl, &(struct message){ .type = MESSAGE_LAUNCHED });
	if (e)
		return e;
	(void)syscall(SYS_execveat, s->l->init_fd, "", argv, env, AT_EMPTY_PATH);
	return err_sys(errno, "execute cay-init");
}

static struct err *slot_launch(struct slot *s, const struct plan *plan, int ns)
{
	autoclose log = -1, sock = -1, log_high = -1, sock_high = -1;
	struct err *e = limit(s, &plan->limits);

	if (!e)
		e = open_log(s, &log);
	if (!e)
		e = open_socket(s, &sock);
	if (!e)
		e = join(ns, plan->join);
	if (e)
		return e;
	log_high = fcntl(log, F_DUPFD_CLOEXEC, FD_KEEP);
	sock_high = fcntl(sock, F_DUPFD_CLOEXEC, FD_KEEP);
	if (plan->hostname && sethostname(plan->hostname, strlen(plan->hostname)) < 0)
		return err_sys(errno, "set the host name");
	e = root_enter(s, plan);
	if (!e)
		e = place_descriptors(sock_high, log_high);
	return e ? e : become_init(s);
}

/* A daemon that is gone needs no answer. */
static noreturn_fn void fail(const struct slot *s, struct err *e)
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
		fail(s, err_wrap(e, "prepare a slot"));
}

void slot_main(struct launcher *l, const struct message_slot *spec, int ctl)
{
	struct slot s = { .l = l,
			  .spec = spec,
			  .ctl = ctl,
			  .userns = -1,
			  .stage_fd = -1,
			  .dir_fd = -1,
			  .root_fd = -1 };
	struct arena *a = arena_new(); /* goes with the process */
	enum message_got got;
	struct message m;
	struct plan plan;
	struct err *e;

	park(&s);
	e = message_recv(ctl, a, &m, &got);
	if (!e && got == MESSAGE_END)
		_exit(0);                            /* the daemon went away: nobody needs us */
	(void)setpriority(PRIO_PROCESS, 0, l->nice); /* somebody waits now */
	if (!e && m.type != MESSAGE_LAUNCH)
		e = err_new(ERR_MALFORMED, "slot was told \"%s\" instead of \"launch\"",
			    message_type_name(m.type));
	if (!e)
		e = plan_from_fd(m.fds[0], a, &plan);
	if (!e)
		e = slot_launch(&s, &plan, m.fds[1]);
	fail(&s, e);
}
