/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session at our own standard input and output. Our descriptors are shared with whoever started
 * us, so they are not made non-blocking: where it can be done they are opened anew for that, which
 * keeps a reader that stands still (a pager) from holding up signals too. A side that is full holds
 * the other back.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "cli/sandbox/sandbox_priv.h"
#include "loop/loop.h"

enum {
	CHUNK = 32 * 1024,
};

struct attach;

struct outlet {
	struct attach *a;
	int fd;              /* ours alone if there is a watch */
	struct watch *watch; /* NULL: writes block */
	struct buf unsent;
};

struct attach {
	struct remote *r;
	struct session *session;
	const struct session_spec *spec;
	struct outlet out[2];
	int in;                 /* -1: none, or it has ended */
	int in_flags;           /* of standard input, to restore; -1: it is as it was */
	struct watch *in_watch; /* NULL: a file, which is always ready */
	struct timer *in_timer; /* for a file */
	struct signal_watch *winch;
	struct err *e;
	int code;
	bool over, drained;
};

static void attach_end(struct attach *a, struct err *e, int code)
{
	if (a->over) {
		err_free(e);
		return;
	}
	a->over = true;
	a->e = e;
	a->code = code;
}

/* A description of our own of fd, so that it can be non-blocking; -1: there is none. */
static int open_anew(int fd, int flags)
{
	char path[32];
	struct stat st;

	if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || isatty(fd)))
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Output */

/* The only place that decides whether we read from the session. */
static void attach_flow(struct attach *a)
{
	a->drained = !a->out[0].unsent.len && !a->out[1].unsent.len;
	session_pause(a->session, !a->drained);
}

/* Who read our output has left: we end as a program that SIGPIPE ends. */
static void outlet_failed(struct outlet *o, int errnum)
{
	buf_clear(&o->unsent);
	attach_end(o->a, errnum == EPIPE ? NULL : err_sys(errnum, "write the output"),
		   EXIT_SIGNALED + SIGPIPE);
}

static void outlet_flush(struct outlet *o)
{
	while (o->unsent.len) {
		ssize_t n = write(o->fd, buf_head(&o->unsent), o->unsent.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && o->watch)
			break;
		if (n < 0) {
			outlet_failed(o, errno);
			break;
		}
		buf_eat(&o->unsent, (size_t)n);
	}
	if (o->watch)
		watch_want(o->watch, o->unsent.len ? WATCH_WRITE : 0);
	attach_flow(o->a);
}

static void on_writable(void *arg, unsigned ready unused)
{
	outlet_flush(arg);
}

static void outlet_open(struct outlet *o, struct attach *a, int fd)
{
	int own = open_anew(fd, O_WRONLY);

	o->a = a;
	o->fd = own >= 0 ? own : fd;
	if (own >= 0)
		o->watch = watch_new(remote_loop(a->r), own, on_writable, o);
}

static void outlet_close(struct outlet *o)
{
	if (o->watch) {
		watch_free(o->watch);
		(void)close(o->fd);
	}
	buf_done(&o->unsent);
}

static void on_output(void *arg, int fd, const char *p, size_t len)
{
	struct outlet *o = &((struct attach *)arg)->out[fd - 1];

	buf_add(&o->unsent, p, len);
	outlet_flush(o);
}

/* Input */

static void input_close(struct attach *a)
{
	watch_free(take(a->in_watch));
	timer_clear(a->in_timer);
	if (a->in > STDIN_FILENO)
		(void)close(a->in);
	if (a->in_flags >= 0)
		(void)fcntl(STDIN_FILENO, F_SETFL, a->in_flags); /* it is not ours alone */
	a->in = a->in_flags = -1;
}

static void input_end(struct attach *a)
{
	input_close(a);
	session_end_input(a->session);
}

/* The only place that decides whether we read from our input. */
static void input_flow(struct attach *a)
{
	bool wanted = a->in >= 0 && !a->over && !session_full(a->session);

	if (a->in_watch)
		watch_want(a->in_watch, wanted ? WATCH_READ : 0);
	else if (wanted)
		timer_set(a->in_timer, 0);
	else
		timer_clear(a->in_timer);
}

static void input_read(struct attach *a)
{
	char chunk[CHUNK];
	ssize_t n;

	if (a->in < 0 || a->over)
		return;
	n = read(a->in, chunk, sizeof(chunk));
	if (n > 0)
		session_write(a->session, chunk, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		input_end(a); /* a terminal that is gone has ended, too */
	input_flow(a);
}

static void on_readable(void *arg, unsigned ready unused)
{
	input_read(arg);
}

static void on_in_timer(void *arg)
{
	input_read(arg);
}

static void input_open(struct attach *a)
{
	struct stat st;
	int own;

	a->in = a->in_flags = -1;
	a->in_timer = timer_new(remote_loop(a->r), on_in_timer, a);
	if (!a->spec->in || fstat(STDIN_FILENO, &st) < 0)
		return;
	own = open_anew(STDIN_FILENO, O_RDONLY);
	a->in = own >= 0 ? own : STDIN_FILENO;
	if (own < 0 && !S_ISSOCK(st.st_mode) && !S_ISFIFO(st.st_mode) && !isatty(STDIN_FILENO))
		return; /* a file */
	if (own < 0)    /* of another user, or a socket: there is no way around changing it */
		a->in_flags = fcntl(STDIN_FILENO, F_GETFL);
	a->in_watch = watch_new(remote_loop(a->r), a->in, on_readable, a);
}

/* The terminal */

static void tell_size(struct attach *a)
{
	struct winsize size;

	if (a->spec->tty && (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 ||
			     ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0))
		session_resize(a->session, size.ws_col, size.ws_row);
}

static void on_winch(void *arg, int signum unused)
{
	tell_size(arg);
}

/* The session */

static void on_drained(void *arg)
{
	struct attach *a = arg;

	if (!a->winch && a->spec->tty) { /* it has just begun */
		a->winch = signal_watch_new(remote_loop(a->r), SIGWINCH, on_winch, a);
		tell_size(a);
	}
	if (a->spec->in && a->in < 0)
		session_end_input(a->session); /* there was no input from the start */
	input_flow(a);
}

static void on_ended(void *arg, struct err *e, int code)
{
	attach_end(arg, e, code);
}

static void attach_done(struct attach *a)
{
	term_cooked();
	signal_watch_free(a->winch);
	input_close(a);
	timer_free(a->in_timer);
	session_free(a->session);
	outlet_close(&a->out[0]);
	outlet_close(&a->out[1]);
}

/* What the command wrote last may still be waiting for our reader. */
static struct err *finish_output(struct attach *a)
{
	attach_flow(a);
	return remote_until(a->r, &a->drained, 0);
}

struct err *attach_run(struct remote *r, const struct session_spec *spec, uint64_t timeout_ms,
		       int *ret_code)
{
	static const struct session_events events = { on_output, on_drained, on_ended };
	struct attach a = { .r = r, .spec = spec };
	struct err *e;

	outlet_open(&a.out[0], &a, STDOUT_FILENO);
	outlet_open(&a.out[1], &a, STDERR_FILENO);
	input_open(&a);
	if (spec->tty && spec->in)
		(void)term_raw(); /* not a terminal: then there is nothing to change */
	a.session = session_start(r, spec, &events, &a);
	if (spec->more)
		remote_warm(r); /* the session has taken the idle one */
	e = remote_until(r, &a.over, timeout_ms);
	if (!e)
		e = finish_output(&a);
	if (!e)
		e = take(a.e);
	err_free(a.e);
	*ret_code = a.code;
	attach_done(&a);
	return e;
}

int attach_exit(struct remote *r, struct err *e, int code)
{
	bool late = err_is(e, ERR_TIMEOUT), no_program = err_is(e, ERR_UNSUPPORTED);

	if (!e)
		return code;
	if (err_is(e, ERR_CANCELED) && remote_signal(r)) {
		err_free(e);
		return EXIT_SIGNALED + remote_signal(r);
	}
	code = cli_fail(e);
	return late ? EXIT_TIMEOUT : no_program ? EXIT_NO_PROGRAM : code;
}
