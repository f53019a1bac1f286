/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h> /* mallopt(), of glibc */
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/parse.h"
#include "guest/guest_priv.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"
#include "wire/wire.h"

/*
 * cay-init: pid 1 of a sandbox. The launcher starts it with /dev/null on 0, 1 and 2, the private
 * socket (listening) and the log file on the descriptors that wire.h names. When the command has
 * ended, the node reads its exit status and kills the sandbox. It exits by itself only where no
 * node is connected and the host asked it to end: then the machine is being shut down.
 *
 * Where an OCI runtime has made the container, some things are left to do, which its environment
 * names: FILTER is a file with the system call filter, FILES how many files a program may have open
 * unless it asks for more, and HANDED says that the socket brings connections instead of listening
 * for them, and takes wishes for holes in the log.
 */
enum {
	FILTER_MAX = 4096, /* instructions: the kernel takes no more */
};

static void on_term(void *arg, bool from_outside)
{
	struct guest *g = arg;

	g->asked_to_end = g->asked_to_end || from_outside;
	command_signal(g, SIGTERM);
	guest_settle(g);
}

void guest_settle(struct guest *g)
{
	const struct wire_state *s = &g->command.state;

	if (g->asked_to_end && (!s->started || s->exited) && !g->n_links)
		loop_stop(g->loop);
}

/*
 * Uses the system call, because libc does not let us touch the two signals that it uses itself.
 * These too may have been ignored when we were started, and every program inside would inherit
 * that.
 */
static void reset_signal(int signum)
{
	const struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} standard = { 0 };

	(void)syscall(SYS_rt_sigaction, signum, &standard, NULL,
		      sizeof(standard.mask)); /* fails for the signals that cannot be caught */
}

/* Before anything else: no descriptor may leak into a child, and nobody inside may inspect us. */
static void shut_in(void)
{
	(void)fcntl(WIRE_FD_SOCKET, F_SETFD, FD_CLOEXEC);
	(void)fcntl(WIRE_FD_LOG, F_SETFD, FD_CLOEXEC);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	for (int signum = 1; signum < NSIG; signum++)
		reset_signal(signum);
	(void)signal(SIGPIPE, SIG_IGN);
}

/* Return memory early: there are thousands of us on a host. musl does so by itself. */
static void be_small(void)
{
#ifdef __GLIBC__
	(void)mallopt(M_TRIM_THRESHOLD, 64 * 1024);
	(void)mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	(void)mallopt(M_TOP_PAD, 16 * 1024);
#endif
}

/* Set by the slot that became us. */
static void limit_log(struct cri_log *log)
{
	const char *text = getenv("LOG_MAX");

	if (text)
		err_free(parse_uint(text, UINT64_MAX, &log->max));
}

/* The same program that a slot installs before it becomes us. False: it must not go on. */
static bool install_filter(const char *path)
{
	static struct sock_filter program[FILTER_MAX];
	autoclose fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, program, sizeof(program));
	struct sock_fprog filter = { .filter = program };

	if (n <= 0 || n == sizeof(program) || (size_t)n % sizeof(program[0]))
		return false;
	filter.len = (unsigned short)((size_t)n / sizeof(program[0]));
	return !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}

static void limit_files(void)
{
	const char *text = getenv("FILES");
	struct rlimit files;
	uint64_t soft = 0;

	if (!text || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	err_free(parse_uint(text, UINT32_MAX, &soft));
	if (soft && soft < files.rlim_max)
		files.rlim_cur = (rlim_t)soft;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

int main(void)
{
	const char *filter = getenv("FILTER");
	bool handed = getenv("HANDED") != NULL;
	struct guest *g;
	autoptr(err) e = NULL;

	shut_in();
	limit_files();
	if (filter && !install_filter(filter))
		return 1;
	be_small();
	spawn_setup();
	g = xnew(struct guest);
	g->command.tty = g->command.in = -1;
	for (int i = 0; i < LOG_SOURCE_MAX_; i++)
		g->command.out[i].fd = -1;
	cri_log_init(&g->command.log, WIRE_FD_LOG);
	limit_log(&g->command.log);
	if (handed)
		g->command.log.helper = WIRE_FD_SOCKET;
	e = loop_new(&g->loop);
	if (!e)
		e = children_new(g->loop, on_term, g, &g->children);
	if (e)
		return 1; /* there is nowhere to report it; the node sees that we ended */
	links_start(g, WIRE_FD_SOCKET, handed);
	loop_run(g->loop);
	return 0;
}
