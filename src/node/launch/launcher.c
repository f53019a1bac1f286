/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/wall.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/netlink.h"
#include "node/launch/launch_priv.h"

/*
 * The launcher's own loop: it answers one request of the daemon after the other. It ends with the
 * daemon; running slots are no longer its concern, and parked slots end by themselves.
 */
enum {
	FD_KEEP = 10, /* below are the numbers that cay-init gets */
	PARKING_NICE = 10,
};

static int keep_high(int fd)
{
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_KEEP);

	if (fd >= 0)
		(void)close(fd);
	return high;
}

static struct err *setup(struct launcher *l, const struct message_setup *m)
{
	struct err *e;

	l->stage = xstrdup(m->stage);
	l->features = features_named(m->features);
	l->run_fd = keep_high(open(m->run, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (l->run_fd < 0)
		return err_sys(errno, "open %s", m->run);
	l->slots_dir = xstrdup(m->slots_dir);
	l->disk = diskpool_ops_named(m->disk);
	l->disk_limit = m->disk_limit;
	l->log_limit = m->log_limit;
	if (!l->disk)
		return err_new(ERR_UNSUPPORTED, "there is no disk pool of kind \"%s\"", m->disk);
	l->init_fd = keep_high(open(m->init, O_RDONLY | O_CLOEXEC));
	if (l->init_fd < 0)
		return err_sys(errno, "open %s", m->init);
	l->host_ns = keep_high(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
	if (l->host_ns < 0)
		return err_sys(errno, "open the host's network namespace");
	l->host_pids = keep_high(open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
	if (l->host_pids < 0)
		return err_sys(errno, "open the host's process namespace");
	e = cgroups_open(m->cgroup, true, &l->cgroups);
	if (!e)
		e = netlink_open(&l->nl);
	if (!e)
		e = root_look_at_proc(l);
	return e ? e : seccomp_compile(&l->filter);
}

/* In the child. What it does not need of the launcher closes when it becomes cay-init; the socket
 * must not outlive the launcher. */
static noreturn_fn void slot_begin(struct launcher *l, const struct message_slot *spec, int ctl)
{
	sigset_t none;

	(void)close(LAUNCH_FD);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	slot_main(l, spec, ctl);
}

static noreturn_fn void seat_begin(struct launcher *l, const struct message *m, int ctl)
{
	sigset_t none;

	(void)close(LAUNCH_FD);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	seat_main(l, &m->seat, ctl, m->fds[0]);
}

/* The mount namespace always: without one, a slot would change the root of the host. */
static uint64_t slot_namespaces(void)
{
	return CLONE_NEWNS | (wall_stands("pid-namespace") ? CLONE_NEWPID : 0) |
	       (wall_stands("ipc-namespace") ? CLONE_NEWIPC : 0) |
	       (wall_stands("uts-namespace") ? CLONE_NEWUTS : 0);
}

/* The name of the host is that of the sandbox, which a seat joins. */
static uint64_t seat_namespaces(void)
{
	return CLONE_NEWNS | (wall_stands("view-pids") ? CLONE_NEWPID : 0) |
	       (wall_stands("view-ipc") ? CLONE_NEWIPC : 0) |
	       (wall_stands("view-network") ? CLONE_NEWNET : 0);
}

static struct err *make_slot(struct launcher *l, const struct message_slot *spec,
			     struct message *answer)
{
	int ctl[2], theirs, pidfd = -1;
	struct clone_args args = {
		.flags = slot_namespaces() | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;

	if (!l->cgroups)
		return err_new(ERR_UNAVAILABLE, "launcher was not set up");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
		return err_sys(errno, "create a socket pair");
	theirs = keep_high(ctl[1]);
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (!pid) {
		(void)close(ctl[0]);
		slot_begin(l, spec, theirs);
	}
	(void)close(theirs);
	if (pid < 0) {
		(void)close(ctl[0]);
		return err_sys(errno, "create a slot");
	}
	*answer = (struct message){ .type = MESSAGE_SLOT_MADE,
				    .made = { spec->name, pid },
				    .fds = { ctl[0], pidfd },
				    .n_fds = 2 };
	return NULL;
}

static struct err *make_net(struct launcher *l, const struct message_net *spec,
			    struct message *answer)
{
	int ns;
	struct err *e = l->nl ? netns_make(l, spec, &ns)
			      : err_new(ERR_UNAVAILABLE, "launcher was not set up");

	if (e)
		return e;
	*answer = (struct message){
		.type = MESSAGE_NET_MADE, .made = { .name = spec->name }, .fds = { ns }, .n_fds = 1
	};
	return NULL;
}

/* A seat is made in a process of its own, which the launcher does not wait for. One that shares the
 * processes of its sandbox is born among them: only children enter another pid namespace. */
static struct err *make_seat(struct launcher *l, const struct message *m, struct message *answer)
{
	bool inside = m->seat.view == SEAT_SHARED || !wall_stands("view-pids");
	int ctl[2], theirs;
	struct clone_args args = { .flags = m->seat.view == SEAT_SHARED ? 0 : seat_namespaces(),
				   .exit_signal = SIGCHLD };
	pid_t pid;

	if (!l->cgroups)
		return err_new(ERR_UNAVAILABLE, "launcher was not set up");
	if (m->seat.view < 0 || m->seat.view >= SEAT_VIEW_MAX_)
		return err_new(ERR_MALFORMED, "there is no view number %d", m->seat.view);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
		return err_sys(errno, "create a socket pair");
	theirs = keep_high(ctl[1]);
	if (inside && setns(m->fds[0], CLONE_NEWPID) < 0)
		pid = -1;
	else
		pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (!pid) {
		(void)close(ctl[0]);
		seat_begin(l, m, theirs);
	}
	if (inside && setns(l->host_pids, CLONE_NEWPID) < 0)
		_exit(1); /* what it makes next would be in there too; another is started */
	(void)close(theirs);
	if (pid < 0) {
		(void)close(ctl[0]);
		return err_sys(errno, "create a seat");
	}
	*answer = (struct message){ .type = MESSAGE_SEAT_MADE,
				    .made = { m->seat.name, pid },
				    .fds = { ctl[0] },
				    .n_fds = 1 };
	return NULL;
}

static struct err *check_net(struct launcher *l, const struct message *m, struct message *answer)
{
	if (!l->nl)
		return err_new(ERR_UNAVAILABLE, "launcher was not set up");
	*answer = (struct message){ .type = MESSAGE_NET_AS_NEW, .check = m->check };
	return netns_check(l, m->fds[0]);
}

static struct err *set_peers(struct launcher *l, const struct message *m, struct message *answer)
{
	if (!l->nl)
		return err_new(ERR_UNAVAILABLE, "launcher was not set up");
	*answer = (struct message){ .type = MESSAGE_NET_PEERED, .check = { m->peers.name } };
	return netns_peers(l, m->fds[0], &m->peers);
}

static struct err *act(struct launcher *l, const struct message *m, struct message *answer)
{
	switch (m->type) {
	case MESSAGE_SETUP:
		*answer = (struct message){ .type = MESSAGE_READY };
		return setup(l, &m->setup);
	case MESSAGE_SLOT:
		return make_slot(l, &m->slot, answer);
	case MESSAGE_NET:
		return make_net(l, &m->net, answer);
	case MESSAGE_NET_CHECK:
		return check_net(l, m, answer);
	case MESSAGE_NET_PEERS:
		return set_peers(l, m, answer);
	case MESSAGE_SEAT:
		return make_seat(l, m, answer);
	case MESSAGE_READY:
	case MESSAGE_SLOT_MADE:
	case MESSAGE_NET_MADE:
	case MESSAGE_NET_AS_NEW:
	case MESSAGE_NET_PEERED:
	case MESSAGE_SEAT_MADE:
	case MESSAGE_REFUSED:
	case MESSAGE_PARKED:
	case MESSAGE_LAUNCH:
	case MESSAGE_LAUNCHED:
	case MESSAGE_FAILED:
	case MESSAGE_TYPE_MAX_:
		break;
	}
	return err_new(ERR_UNSUPPORTED, "\"%s\" is not a request", message_type_name(m->type));
}

static const char *name_in(const struct message *m)
{
	return m->type == MESSAGE_SLOT        ? m->slot.name
	       : m->type == MESSAGE_NET       ? m->net.name
	       : m->type == MESSAGE_NET_CHECK ? m->check.name
	       : m->type == MESSAGE_NET_PEERS ? m->peers.name
	       : m->type == MESSAGE_SEAT      ? m->seat.name
					      : "";
}

static struct err *serve(struct launcher *l, const struct message *m)
{
	struct message answer = { .n_fds = 0 };
	struct err *e = act(l, m, &answer), *unsent;

	if (e)
		answer = (struct message){ .type = MESSAGE_REFUSED,
					   .refused = { message_type_name(m->type), name_in(m),
							err_text(e) } };
	unsent = message_send(LAUNCH_FD, &answer);
	message_close(&answer);
	err_free(e);
	return unsent;
}

static struct err *serve_one(struct launcher *l, bool *ret_end)
{
	autoptr(arena) a = arena_new();
	enum message_got got;
	struct message m;
	struct err *e = message_recv(LAUNCH_FD, a, &m, &got);

	if (e)
		return e;
	*ret_end = got == MESSAGE_END;
	if (got != MESSAGE_ONE)
		return NULL;
	e = serve(l, &m);
	message_close(&m);
	return e;
}

static void reap(int sigfd)
{
	struct signalfd_siginfo si;

	(void)!read(sigfd, &si, sizeof(si));
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static int children_fd(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	return keep_high(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

/*
 * Parking is background work: its priority is lowered where we may raise it again when a plan
 * arrives (CAP_SYS_NICE).
 */
static void be_patient(struct launcher *l)
{
	l->nice = getpriority(PRIO_PROCESS, 0);
	if (capabilities_have(CAP_SYS_NICE))
		(void)setpriority(PRIO_PROCESS, 0, PARKING_NICE);
}

int launcher_main(void)
{
	static struct launcher l = {
		.run_fd = -1, .init_fd = -1, .host_ns = -1, .host_pids = -1, .proc = -1
	};
	int sigfd = children_fd();
	struct pollfd fds[] = { { LAUNCH_FD, POLLIN, 0 }, { sigfd, POLLIN, 0 } };
	bool end = false;

	(void)umask(022); /* files in a root are for all of its users */
	be_patient(&l);
	l.scores = capabilities_have(CAP_SYS_RESOURCE);
	(void)setsid(); /* a terminal's signals are for the daemon */
	(void)fcntl(LAUNCH_FD, F_SETFD, FD_CLOEXEC);
	while (!end) {
		autoptr(err) e = NULL;

		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			return 1;
		if (fds[1].revents)
			reap(sigfd);
		if (fds[0].revents)
			e = serve_one(&l, &end);
		if (e)
			return 1; /* the daemon is gone or sent something unreadable */
	}
	return 0;
}
