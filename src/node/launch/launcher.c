/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "node/host/cgroup.h"
#include "node/host/netlink.h"
#include "node/launch/launch.h"
#include "node/node.h"

/*
 * The launcher's own loop: one request after the other from the daemon, each answered. It ends with
 * the daemon; slots that run are not its concern any more, slots that are parked end by themselves.
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

static struct err *setup(struct launcher *l, const struct json *m)
{
	const char *init = json_get_str(m, "init"), *run = json_get_str(m, "run");
	struct err *e;

	l->stage = xstrdup(json_get_str(m, "stage"));
	l->run_fd = keep_high(open(run, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (l->run_fd < 0)
		return err_sys(errno, "open %s", run);
	l->roots = xstrdup(json_get_str(m, "roots"));
	l->init_fd = keep_high(open(init, O_RDONLY | O_CLOEXEC));
	if (l->init_fd < 0)
		return err_sys(errno, "open %s", init);
	l->host_ns = keep_high(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
	if (l->host_ns < 0)
		return err_sys(errno, "open the host's network namespace");
	e = cgroups_open(json_get_str(m, "cgroup"), true, &l->cgroups);
	if (!e)
		e = netlink_open(&l->nl);
	return e ? e : seccomp_compile(&l->filter);
}

/* In the child everything of the launcher but what slots need is closed. */
static noreturn_fn void slot_begin(struct launcher *l, struct slot_spec *spec)
{
	sigset_t none;

	(void)close(LAUNCH_FD);
	netlink_free(take(l->nl));
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	slot_main(l, spec);
}

static struct err *make_slot(struct launcher *l, const struct json *m, struct json_doc *reply,
			     int *ret_fds)
{
	struct slot_spec spec = { .base = (uint32_t)json_get_int(m, "base", 0),
				  .image = json_get(m, "image") };
	int ctl[2], pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
		return err_sys(errno, "make a socket pair");
	spec.name = xstrdup(json_get_str(m, "name"));
	spec.ctl = keep_high(ctl[1]);
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (!pid) {
		(void)close(ctl[0]);
		slot_begin(l, &spec);
	}
	free(spec.name);
	(void)close(spec.ctl);
	if (pid < 0) {
		(void)close(ctl[0]);
		return err_sys(errno, "make a slot");
	}
	ret_fds[0] = ctl[0];
	ret_fds[1] = pidfd;
	json_set_int(reply, json_root(reply), "pid", pid);
	return NULL;
}

static struct err *make_net(struct launcher *l, const struct json *m, int *ret_fd)
{
	struct in_addr addr, gw;

	if (inet_pton(AF_INET, str_or(json_get_str(m, "addr"), ""), &addr) != 1 ||
	    inet_pton(AF_INET, str_or(json_get_str(m, "gw"), ""), &gw) != 1)
		return err_new(ERR_MALFORMED, "read the addresses of a network");
	return netns_make(l, json_get_str(m, "name"), addr.s_addr, gw.s_addr, ret_fd);
}

static struct err *serve(struct launcher *l, const struct json *m)
{
	autoptr(json_doc) reply = json_doc_new();
	const char *op = json_get_str(m, "op");
	struct launch_msg out = { .n_fds = 0 };
	struct err *e = NULL;

	json_set_root(reply, json_obj(reply));
	json_set_str(reply, json_root(reply), "op", op);
	json_set_str(reply, json_root(reply), "name", json_get_str(m, "name"));
	if (str_eq(op, "setup")) {
		e = setup(l, m);
	} else if (str_eq(op, "slot")) {
		e = make_slot(l, m, reply, out.fds);
		out.n_fds = e ? 0 : 2;
	} else if (str_eq(op, "net")) {
		e = make_net(l, m, out.fds);
		out.n_fds = e ? 0 : 1;
	} else {
		e = err_new(ERR_UNSUPPORTED, "do \"%s\"", str_or(op, ""));
	}
	if (e)
		json_set_str(reply, json_root(reply), "error", err_text(e));
	err_free(e);
	e = launch_send_json(LAUNCH_FD, json_root(reply), out.fds, out.n_fds);
	launch_msg_close(&out);
	return e;
}

static struct err *serve_one(struct launcher *l, struct launch_msg *m, bool *ret_end)
{
	autoptr(json_doc) doc = NULL;
	struct err *e;
	bool again;

	e = launch_recv(LAUNCH_FD, m, &again);
	if (e || again)
		return e;
	launch_msg_close(m); /* requests carry none */
	*ret_end = !m->len;
	if (*ret_end)
		return NULL;
	e = json_parse(m->text, m->len, NULL, &doc);
	return e ? e : serve(l, json_root(doc));
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
 * Parking is work for a lull: it steps back behind what runs, where we may step forward again when
 * a plan comes (CAP_SYS_NICE).
 */
static void be_patient(struct launcher *l)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t can = CAP_CLEAR;

	if (caps)
		(void)cap_get_flag(caps, CAP_SYS_NICE, CAP_EFFECTIVE, &can);
	(void)cap_free(caps);
	l->nice = getpriority(PRIO_PROCESS, 0);
	if (can == CAP_SET)
		(void)setpriority(PRIO_PROCESS, 0, PARKING_NICE);
}

int launcher_main(unused int argc, unused char **argv)
{
	static struct launch_msg m;
	static struct launcher l = { .run_fd = -1, .init_fd = -1, .host_ns = -1 };
	int sigfd = children_fd();
	struct pollfd fds[] = { { LAUNCH_FD, POLLIN, 0 }, { sigfd, POLLIN, 0 } };
	bool end = false;

	(void)umask(022); /* what is made in a root is for its users */
	be_patient(&l);
	(void)setsid(); /* a terminal's signals are for the daemon */
	(void)fcntl(LAUNCH_FD, F_SETFD, FD_CLOEXEC);
	while (!end) {
		autoptr(err) e = NULL;

		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			return 1;
		if (fds[1].revents)
			reap(sigfd);
		if (fds[0].revents)
			e = serve_one(&l, &m, &end);
		if (e)
			return 1; /* the daemon is gone or speaks nonsense */
	}
	return 0;
}
