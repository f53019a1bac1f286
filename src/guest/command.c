/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "guest/guest_priv.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"

/*
 * The container's command. Its output goes to the log and its exit status is kept: the node may be
 * away when it ends, and asks when it is back. A start without a command is the pause container:
 * nothing runs, and a signal that would end a process ends it.
 *
 * Its input, if it asked for one, stays open; those who attach write there (attach.c).
 */
enum {
	READS = 4,         /* per callback, of LOG_LINE bytes each */
	LAST_READS = 1024, /* more than a pipe can hold when its writer has ended */
};

static void out_close(struct command_out *o)
{
	cri_log_end(&o->guest->command.log, o->source);
	watch_free(take(o->watch));
	(void)close(take_fd(o->fd));
}

static void out_took(struct command_out *o, const char *data, size_t len)
{
	struct command *c = &o->guest->command;

	cri_log_feed(&c->log, o->source, data, len);
	if (c->message)
		message_feed(c->message, data, len);
	links_tell_output(o->guest, o->source == LOG_SOURCE_STDOUT ? WIRE_STDOUT : WIRE_STDERR,
			  data, len);
}

static void out_read(struct command_out *o, unsigned reads)
{
	char data[LOG_LINE];

	for (unsigned i = 0; i < reads && o->fd >= 0; i++) {
		ssize_t n = read(o->fd, data, sizeof(data));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			out_close(o); /* a terminal that has hung up returns EIO */
		else
			out_took(o, data, (size_t)n);
	}
}

static void on_output(void *arg, unused unsigned ready)
{
	out_read(arg, READS);
}

static void out_open(struct guest *g, enum log_source source, int fd)
{
	struct command_out *o = &g->command.out[source];

	*o = (struct command_out){ .guest = g, .fd = fd, .source = source };
	o->watch = watch_new(g->loop, fd, on_output, o);
	watch_want(o->watch, WATCH_READ);
}

static void ended(struct guest *g, uint32_t code, uint32_t signum)
{
	struct wire_state *s = &g->command.state;

	s->exited = true;
	s->exit_code = code;
	s->signal = signum;
	s->exited_at_us = (uint64_t)clock_wall();
	if (g->command.message)
		s->message = message_end(g->command.message, code != 0);
	links_end_attached(g, s);
	links_tell_exit(g, s);
	guest_settle(g);
}

/* What the command wrote is in the log before anyone hears of its end. */
static void on_exit_status(void *arg, int status)
{
	struct guest *g = arg;

	for (int i = 0; i < LOG_SOURCE_MAX_; i++)
		out_read(&g->command.out[i], LAST_READS);
	if (g->command.in >= 0)
		(void)close(take_fd(g->command.in));
	ended(g, status_code(status), status_signal(status));
}

static struct err *spawn_on_tty(struct guest *g, struct spawn *spec, pid_t *ret)
{
	struct command *c = &g->command;
	autoclose slave = -1;
	int log_copy;
	struct err *e = tty_open(spec->who->uid, &c->tty, &slave);

	if (e)
		return e;
	tty_resize(c->tty, spec->who->cols, spec->who->rows);
	spec->fds[0] = spec->fds[1] = spec->fds[2] = slave;
	spec->tty = true;
	e = spawn(spec, ret);
	log_copy = e ? -1 : fcntl(c->tty, F_DUPFD_CLOEXEC, 3);
	if (log_copy >= 0)
		out_open(g, LOG_SOURCE_STDOUT, log_copy);
	if (e)
		(void)close(take_fd(c->tty));
	return e;
}

static struct err *spawn_on_pipes(struct guest *g, struct spawn *spec, pid_t *ret)
{
	int p[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	bool with_in = spec->who->flags & WIRE_STDIN_OPEN;
	struct err *e = NULL;

	for (int i = with_in ? 0 : 1; i < 3 && !e; i++)
		if (pipe2(p[i], O_CLOEXEC) < 0)
			e = err_sys(errno, "create a pipe");
	if (!e) {
		spec->fds[0] = with_in ? p[0][0] : 0; /* our own stdin is /dev/null */
		spec->fds[1] = p[1][1];
		spec->fds[2] = p[2][1];
		e = spawn(spec, ret);
	}
	if (!e) {
		out_open(g, LOG_SOURCE_STDOUT, take_fd(p[1][0]));
		out_open(g, LOG_SOURCE_STDERR, take_fd(p[2][0]));
		g->command.in = take_fd(p[0][1]);
	}
	for (int i = 0; i < 6; i++)
		if (p[i / 2][i % 2] >= 0)
			(void)close(p[i / 2][i % 2]);
	return e;
}

static struct err *spawn_command(struct guest *g)
{
	struct command *c = &g->command;
	struct spawn spec = {
		.argv = c->start.argv,
		.env = c->start.env,
		.cwd = c->start.cwd,
		.who = &c->start,
	};
	struct err *e;
	pid_t pid;

	e = c->start.flags & WIRE_TTY ? spawn_on_tty(g, &spec, &pid)
				      : spawn_on_pipes(g, &spec, &pid);
	if (e)
		return e;
	c->state.pid = (uint32_t)pid;
	children_add(g->children, pid, on_exit_status, g);
	return NULL;
}

/* The runtime comes first: its port must answer by the time that the node hears of the start. */
struct err *command_start(struct guest *g, struct wire_start *start)
{
	struct command *c = &g->command;
	struct err *e = NULL;

	if (c->state.started) {
		wire_start_done(start);
		return err_sys(EALREADY, "start the command a second time");
	}
	c->start = *start;
	*start = (struct wire_start){ 0 };
	runtime_arm(g);
	c->message = message_new(&c->start);
	if (c->start.argv[0])
		e = spawn_command(g);
	if (e) {
		runtime_disarm(g);
		wire_start_done(&c->start);
		return e;
	}
	c->state.started = true;
	return NULL;
}

void command_signal(struct guest *g, int signum)
{
	struct wire_state *s = &g->command.state;

	if (!s->started || s->exited)
		return;
	if (s->pid)
		(void)kill(-(pid_t)s->pid, signum);
	else if (signum == SIGKILL)
		ended(g, 128 + SIGKILL, SIGKILL);
	else if (signum == SIGTERM || signum == SIGINT || signum == SIGQUIT)
		ended(g, 0, 0);
}

void command_resize(struct guest *g, uint16_t cols, uint16_t rows)
{
	if (g->command.tty >= 0)
		tty_resize(g->command.tty, cols, rows);
}
