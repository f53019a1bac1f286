/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "guest/execute_priv.h"
#include "guest/runtime_priv.h"
#include "guest/spawn_priv.h"
#include "loop/loop.h"
#include "net/http_server.h"

/*
 * POST /execute: runs a command in the base directory and answers when it has ended, with what it
 * wrote. A caller that leaves does not stop it; its time limit does. Processes that it leaves
 * behind with its output open do not delay the answer for longer than RT_DRAIN_MS.
 */
struct execution {
	struct rt *rt;
	struct http_request *r; /* NULL: nobody waits any more */
	pid_t pid;              /* 0: reaped */
	int status;
	double limit_s;
	bool timed_out;
	struct timer *timer; /* for the time limit, then for the drain */
	struct capture {
		struct execution *x;
		int fd; /* -1: ended */
		struct watch *watch;
		struct buf text;
		uint64_t dropped;
	} out[2];
};

static const char *const out_names[] = { "stdout", "stderr" };

static void capture_close(struct capture *c)
{
	watch_free(take(c->watch));
	if (c->fd >= 0)
		(void)close(take_fd(c->fd));
}

static void execution_free(struct execution *x)
{
	for (int i = 0; i < 2; i++) {
		capture_close(&x->out[i]);
		x->rt->captured -= x->out[i].text.len;
		buf_done(&x->out[i].text);
	}
	timer_free(x->timer);
	if (x->r)
		http_request_set_owner(x->r, NULL, NULL);
	x->rt->n_commands--;
	free(x);
}

static void capture_add(struct capture *c, const char *data, size_t len)
{
	struct rt *rt = c->x->rt;
	size_t space = MIN(RT_CAPTURE_MAX - c->text.len, RT_CAPTURE_ALL - rt->captured);
	size_t n = MIN(len, space);

	buf_add(&c->text, data, n);
	rt->captured += n;
	c->dropped += len - n;
}

/* True if there may be more. */
static bool capture_read(struct capture *c)
{
	char data[16 * 1024];
	ssize_t n = read(c->fd, data, sizeof(data));

	if (n > 0)
		capture_add(c, data, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		capture_close(c);
	return n > 0;
}

/* Passes the texts on to the answer. */
static void result_take(struct execution *x, struct result *res)
{
	for (int i = 0; i < 2; i++) {
		x->rt->captured -= x->out[i].text.len;
		res->text[i] = x->out[i].text;
		x->out[i].text = (struct buf){ 0 };
	}
	res->exit_code = (int)status_code(x->status);
	if (status_signal(x->status))
		res->exit_code = -(int)status_signal(x->status);
	res->timed_out = x->timed_out;
	for (int i = 0; i < 2; i++)
		if (x->out[i].dropped)
			result_note(res, "[%s cut: %llu bytes more than can be kept]\n",
				    out_names[i], (unsigned long long)x->out[i].dropped);
	if (!x->timed_out)
		return;
	res->exit_code = 124;
	result_note(res, "Command timed out after %g seconds", x->limit_s);
}

static void finish(struct execution *x)
{
	struct result *res;

	if (x->r) {
		res = xnew(struct result);
		result_take(x, res);
		result_reply(take(x->r), res);
	}
	execution_free(x);
}

/* The only place that decides whether the execution is over. */
static void settle(struct execution *x)
{
	if (!x->pid && x->out[0].fd < 0 && x->out[1].fd < 0)
		finish(x);
}

static void on_output(void *arg, unused unsigned ready)
{
	struct capture *c = arg;

	(void)capture_read(c);
	settle(c->x);
}

static void on_timer(void *arg)
{
	struct execution *x = arg;

	if (!x->pid) {
		finish(x);
		return;
	}
	x->timed_out = true;
	(void)kill(-x->pid, SIGKILL); /* the rest happens when it is reaped */
}

static void on_exit_status(void *arg, int status)
{
	struct execution *x = arg;

	x->pid = 0;
	x->status = status;
	/* What the command wrote is in the pipes by now; a pipe holds less than this many reads. */
	for (int i = 0; i < 2; i++)
		for (int reads = 0; reads < 128 && x->out[i].fd >= 0; reads++)
			if (!capture_read(&x->out[i]))
				break;
	if (x->timed_out) {
		finish(x);
		return;
	}
	timer_set(x->timer, RT_DRAIN_MS);
	settle(x);
}

static void on_gone(void *owner)
{
	struct execution *x = owner;

	x->r = NULL;
}

static struct err *start(const struct spawn *what, int fds[2], pid_t *ret)
{
	struct spawn spec = *what;
	int p[2][2] = { { -1, -1 }, { -1, -1 } };
	struct err *e = NULL;

	if (pipe2(p[0], O_CLOEXEC) < 0 || pipe2(p[1], O_CLOEXEC) < 0)
		e = err_sys(errno, "create a pipe");
	if (!e) {
		spec.fds[1] = p[0][1];
		spec.fds[2] = p[1][1];
		e = spawn(&spec, ret);
	}
	for (int i = 0; i < 2; i++) {
		if (p[i][1] >= 0)
			(void)close(p[i][1]);
		if (e && p[i][0] >= 0)
			(void)close(p[i][0]);
		fds[i] = p[i][0];
	}
	return e;
}

static void watch_it(struct rt *rt, struct http_request *r, double limit_s, const int fds[2],
		     pid_t pid)
{
	struct execution *x = xnew(struct execution);

	x->rt = rt;
	x->r = r;
	x->pid = pid;
	x->limit_s = limit_s;
	rt->n_commands++;
	for (int i = 0; i < 2; i++) {
		struct capture *c = &x->out[i];

		c->x = x;
		c->fd = fds[i];
		c->watch = watch_new(rt->loop, c->fd, on_output, c);
		watch_want(c->watch, WATCH_READ);
	}
	children_add(rt->children, pid, on_exit_status, x);
	x->timer = timer_new(rt->loop, on_timer, x);
	timer_set(x->timer, (uint64_t)(fmin(limit_s, 1e9) * 1000));
	http_request_set_owner(r, x, on_gone);
}

static void reply_not_run(struct http_request *r, const char *reason)
{
	struct result *res = xnew(struct result);

	res->exit_code = 1;
	buf_printf(&res->text[1], "Failed to execute command: %s", reason);
	result_reply(r, res);
}

/* In Python's words, which callers of this API have learned to read. */
static void reply_errno(struct rt *rt, struct http_request *r, const struct err *e,
			const char *program)
{
	autofree char *reason = NULL;
	bool chdir_failed = str_starts(err_text(e), "chdir");

	if (err_errno(e))
		reason = xasprintf("[Errno %d] %s: '%s'", err_errno(e), strerror(err_errno(e)),
				   chdir_failed ? rt->base : program);
	else
		reason = xstrdup(err_text(e));
	reply_not_run(r, reason);
}

/* argv[0] names the program in an error. */
static void begin(struct rt *rt, struct http_request *r, const struct spawn *spec, double limit_s)
{
	autoptr(err) e = NULL;
	int fds[2];
	pid_t pid;

	e = start(spec, fds, &pid);
	if (e)
		reply_errno(rt, r, e, spec->argv[0]);
	else
		watch_it(rt, r, limit_s, fds, pid);
}

/*
 * A plain command is executed at once, because a shell would only do the same half a millisecond
 * later. What cannot be executed is the shell's business: it may be a script without an
 * interpreter, and the shell knows the usual words for everything else.
 */
static bool begin_plain(struct rt *rt, struct http_request *r, const char *command, double limit_s)
{
	struct spawn spec = { .env = rt->plain_env, .cwd = rt->base };
	autoptr(err) e = NULL;
	char **words;
	int fds[2];
	pid_t pid;

	if (!words_plain(command))
		return false;
	e = words_split(command, &words);
	if (e)
		return false;
	spec.argv = (const char *const *)words;
	e = start(&spec, fds, &pid);
	if (!e)
		watch_it(rt, r, limit_s, fds, pid);
	words_free(words);
	return !e;
}

static void run_in_shell(struct rt *rt, struct http_request *r, const char *command, double limit_s)
{
	const char *argv[] = { "/bin/sh", "-c", command, NULL };
	struct spawn spec = { .argv = argv, .env = rt->env, .cwd = rt->base };

	if (!begin_plain(rt, r, command, limit_s))
		begin(rt, r, &spec, limit_s);
}

static void run_words(struct rt *rt, struct http_request *r, const char *command, double limit_s)
{
	struct spawn spec = { .env = rt->env, .cwd = rt->base };
	autoptr(err) e = NULL;
	char **words;

	e = words_split(command, &words);
	if (e) {
		reply_not_run(r, err_text(e));
		return;
	}
	spec.argv = (const char *const *)words;
	if (words[0])
		begin(rt, r, &spec, limit_s);
	else
		reply_not_run(r, "empty command");
	words_free(words);
}

void execute_run(struct rt *rt, struct http_request *r, const char *command, double limit_s)
{
	if (rt->n_commands >= RT_COMMANDS_MAX)
		reply_message(r, 503, "More than %d commands at a time", RT_COMMANDS_MAX);
	else if (rt->words)
		run_words(rt, r, command, limit_s);
	else
		run_in_shell(rt, r, command, limit_s);
}
