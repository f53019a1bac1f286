/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/launch/oci_priv.h"
#include "wire/wire.h"

/*
 * The end of a slot whose plan names an OCI runtime. It completes the root, shuts itself and the
 * runtime into a jail (oci_jail.c), writes what the container shall be (oci_config.c) and lets the
 * runtime make it. The runtime leaves ("run --detach"); the slot stays, as pid 1 above the
 * container, without rights, and ends when the container's first process does. Since the slot is
 * what the daemon holds, limits, kills, measures and finds again, none of that knows which runtime
 * there is.
 *
 * cay-init gets its socket and its log as preserved descriptors. To a kernel of its own (gVisor) a
 * listening socket of the host means nothing, but a connection can be handed over: there the slot
 * accepts, and sends each connection through a socket pair.
 */
enum {
	RUN_S = 120, /* for the runtime to make the container */
	/* While the runtime runs, and after: above those of cay-init. */
	FD_CTL = WIRE_FD_LOG + 1,
	FD_SOCK,
	FD_USERNS,
	FD_HAND,
	FD_END,
	WORDS_MAX = 64,
	LOG_MAX = 64 * 1024,
	SAID_MAX = 500,
};

static const struct oci_style styles[] = {
	{ .name = "crun",
	  .global = { "--root=" OCI_STATE, "--log=file:" OCI_LOG, "--cgroup-manager=disabled" },
	  .run = { "--preserve-fds=2" } },
	{ .name = "oci",
	  .global = { "--root=" OCI_STATE, "--log=" OCI_LOG },
	  .run = { "--preserve-fds=2" },
	  .maps_twice = true },
	/* It cannot do without control groups, unless it is told that it may not have any. */
	{ .name = "runc",
	  .global = { "--root=" OCI_STATE, "--log=" OCI_LOG, "--rootless=true" },
	  .run = { "--preserve-fds=2" },
	  .maps_twice = true },
	/* The network is that of its network namespace, which is the Pod's, with the filter in it.
	 */
	{ .name = "runsc",
	  .global = { "--root=" OCI_STATE, "--log=" OCI_LOG, "--ignore-cgroups", "--network=host",
		      "--overlay2=none", "--directfs=false", "--host-uds=none" },
	  .run = { "--pass-fd=3:3", "--pass-fd=4:4" },
	  .own_kernel = true },
};

static const struct oci_style *style_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(styles); i++)
		if (str_eq(styles[i].name, name))
			return &styles[i];
	return NULL;
}

bool plan_oci_own_kernel(const struct plan_oci *oci)
{
	const struct oci_style *style = oci->program ? style_named(str_or(oci->style, "")) : NULL;

	return style && style->own_kernel;
}

static int move_to(int from, int to)
{
	return from < 0 ? 0 : dup3(from, to, O_CLOEXEC);
}

/* Nothing of the host stays open but what is named here. The runtime gets the first five. */
static struct err *place_descriptors(struct slot *s, const struct oci_style *style)
{
	int hand[2] = { -1, -1 };

	if (style->own_kernel &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, hand) < 0)
		return err_sys(errno, "create a socket pair");
	for (int i = 0; i < 2 && style->own_kernel; i++)
		hand[i] = fcntl(hand[i], F_DUPFD_CLOEXEC, FD_END);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(s->null, fd) < 0)
			return err_sys(errno, "place descriptor %d", fd);
	if (dup2(style->own_kernel ? hand[1] : s->sock, WIRE_FD_SOCKET) < 0 ||
	    dup2(s->log, WIRE_FD_LOG) < 0 || move_to(s->ctl, FD_CTL) < 0 ||
	    move_to(s->sock, FD_SOCK) < 0 || move_to(s->userns, FD_USERNS) < 0 ||
	    move_to(hand[0], FD_HAND) < 0)
		return err_sys(errno, "place descriptors");
	s->ctl = FD_CTL;
	s->sock = FD_SOCK;
	s->userns = FD_USERNS;
	(void)syscall(SYS_close_range, style->own_kernel ? FD_END : FD_HAND, ~0U, 0);
	return NULL;
}

static size_t add_words(const char **argv, size_t n, const char *const *words)
{
	while (words && *words && n < WORDS_MAX)
		argv[n++] = *words++;
	return n;
}

static noreturn_fn void exec_runtime(const struct slot *s, const struct plan_oci *oci,
				     const struct oci_style *style)
{
	static const char *const run[] = { "run", "--detach", "--bundle=" OCI_BUNDLE,
					   "--pid-file=" OCI_PID, NULL };
	static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
	static char *const env[] = { path, NULL };
	const char *argv[WORDS_MAX + 3] = { oci->program };
	sigset_t none;
	size_t n = 1;

	n = add_words(argv, n, style->global);
	n = add_words(argv, n, oci->args);
	n = add_words(argv, n, run);
	n = add_words(argv, n, style->run);
	argv[n++] = s->spec->name;
	argv[n] = NULL;
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execve(oci->program, (char *const *)(uintptr_t)argv, env);
	_exit(127);
}

/* What it said last, as one line of text. malloc'd. */
static char *last_words(void)
{
	autofree char *text = NULL;
	char *end, *line;

	err_free(file_read(AT_FDCWD, OCI_LOG, LOG_MAX, &text, NULL));
	if (!text)
		return xstrdup("it said nothing");
	end = text + strlen(text);
	while (end > text && (unsigned char)end[-1] <= ' ')
		*--end = '\0';
	line = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	return xasprintf("%.*s", SAID_MAX, *line ? line : "it said nothing");
}

/* SIGCHLD is blocked. Orphans of the runtime come to us as well. */
static struct err *await_runtime(pid_t pid, const char *program, int *ret_status)
{
	usec deadline = clock_mono() + RUN_S * 1000000LL;
	sigset_t children;

	(void)sigemptyset(&children);
	(void)sigaddset(&children, SIGCHLD);
	for (;;) {
		pid_t ended;

		while ((ended = waitpid(-1, ret_status, WNOHANG)) > 0)
			if (ended == pid)
				return NULL;
		if (clock_mono() > deadline)
			return err_new(ERR_UNAVAILABLE, "%s did not end within %d s", program,
				       RUN_S);
		(void)sigtimedwait(&children, NULL, &(const struct timespec){ .tv_sec = 1 });
	}
}

static struct err *run(const struct slot *s, const struct plan_oci *oci,
		       const struct oci_style *style)
{
	autofree char *said = NULL;
	int status = 0;
	pid_t pid = fork();
	struct err *e;

	if (!pid)
		exec_runtime(s, oci, style);
	if (pid < 0)
		return err_sys(errno, "create a process for %s", oci->program);
	e = await_runtime(pid, oci->program, &status);
	if (e)
		return e;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return NULL;
	if (WIFSIGNALED(status))
		return err_new(ERR_SYS, "%s was killed by signal %d, perhaps for want of memory",
			       oci->program, WTERMSIG(status));
	said = last_words();
	return err_new(ERR_SYS, "%s could not make the container (exit code %d): %s", oci->program,
		       WEXITSTATUS(status), said);
}

/* Of the container's first process, or of the kernel in which it is. */
static struct err *read_pid(pid_t *ret)
{
	autofree char *text = NULL;
	int64_t n = 0;
	struct err *e = file_read(AT_FDCWD, OCI_PID, 32, &text, NULL);

	if (!e) {
		text[strcspn(text, "\n")] = '\0';
		e = parse_int(text, 2, INT32_MAX, &n);
	}
	*ret = (pid_t)n;
	return err_wrap(e, "read the number of the container's first process");
}

static void reap(pid_t first)
{
	pid_t ended;

	while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
		if (ended == first)
			_exit(0); /* and with us goes everything in our namespace */
	if (ended < 0 && errno == ECHILD)
		_exit(0);
}

/* One connection of the node. If it cannot be handed over now, the node sees it close. */
static void hand_over(void)
{
	int fd = accept4(FD_SOCK, NULL, NULL, SOCK_CLOEXEC);
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char one = 1;
	struct iovec data = { &one, 1 };
	struct msghdr m = { .msg_iov = &data,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	if (fd < 0)
		return;
	control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
					 .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS };
	*(int *)(void *)CMSG_DATA(&control.head) = fd;
	(void)sendmsg(FD_HAND, &m, MSG_NOSIGNAL);
	(void)close(fd);
}

/* Its kernel makes no holes in files, so cay-init says up to where its log may go. Whatever it
 * says, it is its own log. */
static void make_hole(void)
{
	uint64_t end;
	struct stat st;

	if (recv(FD_HAND, &end, sizeof(end), MSG_DONTWAIT) != sizeof(end))
		return;
	if (!fstat(WIRE_FD_LOG, &st) && end && end <= (uint64_t)st.st_size)
		(void)fallocate(WIRE_FD_LOG, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				(off_t)end);
}

static void on_child(unused int signum)
{
}

/* For the rest of the container's life. */
static noreturn_fn void supervise(pid_t first, bool hands)
{
	struct pollfd in[] = { { hands ? FD_SOCK : -1, POLLIN, 0 },
			       { hands ? FD_HAND : -1, POLLIN, 0 } };
	struct sigaction wake = { .sa_handler = on_child };
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigaction(SIGCHLD, &wake, NULL);
	for (;;) {
		reap(first); /* SIGCHLD is blocked but while we wait */
		if (ppoll(in, ARRAY_LEN(in), NULL, &none) <= 0)
			continue;
		if (in[0].revents)
			hand_over();
		if (in[1].revents & (POLLHUP | POLLERR))
			in[1].fd = -1; /* it ends */
		else if (in[1].revents)
			make_hole();
	}
}

/* We keep nothing that could be of use to anybody, and are filtered as the container is. */
static struct err *give_up_rights(const struct slot *s, const struct oci_style *style)
{
	struct err *e;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(errno, "forbid new privileges");
	(void)close(WIRE_FD_SOCKET);
	(void)close(FD_USERNS);
	if (!style->own_kernel) {
		(void)close(WIRE_FD_LOG);
		(void)close(FD_SOCK);
	}
	e = capabilities_keep(0);
	return e ? e : seccomp_install(&s->l->filter);
}

static void block_children(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

static struct err *make_container(struct slot *s, const struct plan *plan,
				  const struct oci_style *style, pid_t *ret)
{
	struct err *e = oci_config_write(s, plan, style, OCI_BUNDLE "/config.json");

	if (!e)
		e = place_descriptors(s, style);
	if (!e && !style->own_kernel)
		e = userns_open(s, true);
	if (!e)
		e = run(s, &plan->oci, style);
	if (!e && !style->own_kernel)
		e = userns_open(s, false);
	return e ? e : read_pid(ret);
}

struct err *oci_become(struct slot *s, const struct plan *plan)
{
	const struct oci_style *style = style_named(plan->oci.style);
	pid_t first = -1;
	struct err *e;

	if (!style)
		return err_new(ERR_UNSUPPORTED, "no runtime takes commands in the style of \"%s\"",
			       str_or(plan->oci.style, ""));
	(void)umask(022);
	e = oci_jail_enter(s, plan, style);
	if (e)
		return e;
	block_children();
	e = make_container(s, plan, style, &first);
	if (!e)
		e = give_up_rights(s, style);
	if (!e)
		e = message_send(s->ctl, &(struct message){ .type = MESSAGE_LAUNCHED });
	if (e)
		return e;
	(void)close(FD_CTL);
	supervise(first, style->own_kernel);
}
