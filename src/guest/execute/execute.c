/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "guest/execute/execute_priv.h"
#include "guest/execute/words_priv.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"
#include "net/http_server.h"

/*
 * POST /execute: runs a command in the base directory and answers when it has ended, with what it
 * wrote, or tells of its output as it comes. Processes that it leaves behind with its output open
 * do not delay the end for longer than RT_DRAIN_MS.
 *
 * A caller that leaves ends its command, but not at once: clients exist that lose patience and send
 * the same request again, and for them to run it twice would be the worse. So the command waits for
 * a while, running or with its result, and a request with the same key takes it over. One whose
 * caller is still there is never taken over: two callers may well want the same thing done twice.
 */
enum {
	READ_LEN = 16 * 1024,
	WAITING_MAX = 32, /* commands whose caller has left */
};

#define WAITING_BYTES_MAX (UINT64_C(4) << 30) /* of their output */

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
		spool_done(&x->out[i].spool);
	}
	list_del(&x->on);
	timer_free(x->timer);
	timer_free(x->grace);
	if (x->r)
		http_request_set_owner(x->r, NULL, NULL);
	sse_free(x->sse);
	free(x->key);
	buf_done(&x->note);
	x->rt->n_commands--;
	free(x);
}

static bool waiting(const struct execution *x)
{
	return x->key && !x->r && !x->sse && !x->answering;
}

/* Nobody will ask for it any more: ends it, or lets it run to its end if that was asked for. */
static void forget(struct execution *x)
{
	free(take(x->key));
	timer_clear(x->grace);
	if (x->over)
		execution_free(x);
	else if (x->pid && !x->detach)
		(void)kill(-x->pid, SIGKILL); /* it is freed when it has been reaped */
}

static struct execution *oldest_waiting(struct rt *rt, unsigned *ret_n, uint64_t *ret_bytes)
{
	struct execution *x, *oldest = NULL;

	*ret_n = 0;
	*ret_bytes = 0;
	list_each(x, &rt->executions, on)
		if (waiting(x)) {
			oldest = oldest ? oldest : x;
			++*ret_n;
			*ret_bytes += x->out[0].spool.kept + x->out[1].spool.kept;
		}
	return oldest;
}

/* The caller has left before it had the whole answer. */
static void leave(struct execution *x)
{
	struct rt *rt = x->rt;
	struct execution *oldest;
	uint64_t bytes;
	unsigned n;

	if (!x->key || !rt->reattach_ms) {
		forget(x);
		return;
	}
	if (x->over || !x->detach)
		timer_set(x->grace, rt->reattach_ms);
	while ((oldest = oldest_waiting(rt, &n, &bytes)) &&
	       (n > WAITING_MAX || bytes > WAITING_BYTES_MAX))
		forget(oldest);
}

static void on_grace(void *arg)
{
	forget(arg);
}

static void on_gone(void *owner)
{
	struct execution *x = owner;

	x->r = NULL;
	leave(x);
}

void execution_answered(struct execution *x, bool sent)
{
	x->answering = false;
	x->part = 0;
	x->at = 0;
	if (sent)
		execution_free(x);
	else
		leave(x);
}

static void answer(struct execution *x, struct http_request *r)
{
	x->answering = true;
	execute_reply(x, r);
}

bool execute_take_over(struct rt *rt, struct http_request *r, struct span key)
{
	struct execution *x;

	list_each(x, &rt->executions, on)
		if (waiting(x) && x->key_len == key.len && !memcmp(x->key, key.p, key.len))
			break;
	if (&x->on == &rt->executions)
		return false;
	timer_clear(x->grace);
	if (x->over) {
		answer(x, r);
		return true;
	}
	x->r = r;
	http_request_set_owner(r, x, on_gone);
	return true;
}

/* True if there may be more. */
static bool capture_read(struct capture *c)
{
	struct execution *x = c->x;
	struct spool_place place = { x->rt->base, x->rt->output_max };
	int i = c == &x->out[1];
	char data[READ_LEN];
	ssize_t n = read(c->fd, data, sizeof(data));

	if (n > 0) {
		c->owed -= MIN(c->owed, (size_t)n);
		if (x->sse)
			sse_text(x->sse, &c->text, out_names[i], SSE_NO_ID,
				 (struct span){ data, (size_t)n });
		else
			spool_add(&c->spool, &place, data, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		capture_close(c);
	}
	return n > 0;
}

static void result_settle(struct execution *x)
{
	x->exit_code = (int)status_code(x->status);
	if (status_signal(x->status))
		x->exit_code = -(int)status_signal(x->status);
	for (int i = 0; i < 2; i++) {
		const struct spool *s = &x->out[i].spool;

		if (!spool_cut(s))
			continue;
		execute_note(x, "[%s cut: %llu of %llu bytes could be kept]\n", out_names[i],
			     (unsigned long long)s->kept, (unsigned long long)s->total);
		x->exit_code = x->exit_code ? x->exit_code : 1;
	}
	if (!x->timed_out)
		return;
	x->exit_code = 124;
	execute_note(x, "Command timed out after %g seconds", x->limit_s);
}

/* The last events of a stream. */
static void stream_end(struct execution *x)
{
	autofree char *json = xasprintf("{\"exit_code\":%d,\"timed_out\":%s,\"truncated\":false}",
					x->exit_code, x->timed_out ? "true" : "false");

	for (int i = 0; i < 2; i++)
		sse_text_end(x->sse, &x->out[i].text, out_names[i], SSE_NO_ID);
	if (x->note.len)
		sse_bytes(x->sse, "stderr", SSE_NO_ID, buf_head(&x->note), x->note.len);
	sse_event(x->sse, "exit", SSE_NO_ID, json);
	sse_end(take(x->sse));
}

static void finish(struct execution *x)
{
	x->over = true;
	timer_clear(x->timer);
	capture_close(&x->out[0]);
	capture_close(&x->out[1]);
	result_settle(x);
	if (x->sse)
		stream_end(x);
	if (x->r)
		answer(x, take(x->r));
	else
		leave(x);
}

static bool capture_over(const struct capture *c)
{
	return c->fd < 0 || (c->x->late && !c->owed);
}

/*
 * The only place that decides whether the execution is over, and what is read: nothing for a stream
 * whose reader does not keep up.
 */
static void settle(struct execution *x)
{
	unsigned want = x->sse && sse_full(x->sse) ? 0 : WATCH_READ;

	if (!x->pid && capture_over(&x->out[0]) && capture_over(&x->out[1])) {
		finish(x);
		return;
	}
	for (int i = 0; i < 2; i++)
		if (x->out[i].fd >= 0)
			watch_want(x->out[i].watch, want);
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
		x->late = true;
		settle(x);
		return;
	}
	x->timed_out = true;
	(void)kill(-x->pid, SIGKILL); /* the rest happens when it is reaped */
}

static void on_exit_status(void *arg, int status)
{
	struct execution *x = arg;
	int pending;

	x->pid = 0;
	x->status = status;
	for (int i = 0; i < 2; i++) {
		struct capture *c = &x->out[i];

		if (c->fd >= 0 && !ioctl(c->fd, FIONREAD, &pending))
			c->owed = (size_t)pending;
		/* Most often this is all there is, and the end. */
		for (int reads = 0; reads < 128 && c->fd >= 0; reads++)
			if ((x->sse && sse_full(x->sse)) || !capture_read(c))
				break;
	}
	x->late = x->timed_out;
	timer_set(x->timer, RT_DRAIN_MS);
	settle(x);
}

static void on_sse_drained(void *arg)
{
	settle(arg);
}

static void on_sse_gone(void *arg)
{
	struct execution *x = arg;

	sse_free(take(x->sse));
	leave(x);
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

static void caller_set(struct execution *x, struct http_request *r, const struct execute_wish *wish)
{
	static const struct sse_events events = { on_sse_drained, on_sse_gone };

	if (wish->stream) {
		x->sse = sse_new(r, &events, x);
		return;
	}
	if (wish->key.p) {
		x->key = xmemdup(wish->key.p, wish->key.len);
		x->key_len = wish->key.len;
	}
	x->r = r;
	http_request_set_owner(r, x, on_gone);
}

static void watch_it(struct rt *rt, struct http_request *r, const struct execute_wish *wish,
		     const int fds[2], pid_t pid)
{
	struct execution *x = xnew(struct execution);

	x->rt = rt;
	x->pid = pid;
	x->limit_s = wish->limit_s;
	x->detach = wish->detach;
	rt->n_commands++;
	list_add_tail(&rt->executions, &x->on);
	for (int i = 0; i < 2; i++) {
		struct capture *c = &x->out[i];

		c->x = x;
		c->fd = fds[i];
		spool_init(&c->spool);
		c->watch = watch_new(rt->loop, c->fd, on_output, c);
		watch_want(c->watch, WATCH_READ);
	}
	children_add(rt->children, pid, on_exit_status, x);
	x->timer = timer_new(rt->loop, on_timer, x);
	x->grace = timer_new(rt->loop, on_grace, x);
	timer_set(x->timer, (uint64_t)(fmin(x->limit_s, 1e9) * 1000));
	caller_set(x, r, wish);
}

/* In Python's words, which callers of this API have learned to read. */
static void reply_errno(struct http_request *r, bool stream, const struct err *e,
			const struct spawn *spec)
{
	autofree char *reason = NULL;
	bool chdir_failed = str_starts(err_text(e), "chdir");

	if (err_errno(e))
		reason = xasprintf("[Errno %d] %s: '%s'", err_errno(e), strerror(err_errno(e)),
				   chdir_failed ? spec->cwd : spec->argv[0]);
	else
		reason = xstrdup(err_text(e));
	execute_reply_failed(r, stream, reason);
}

static void begin(struct rt *rt, struct http_request *r, const struct spawn *what,
		  const struct execute_wish *wish)
{
	struct spawn spec = *what;
	autoptr(err) e = NULL;
	int fds[2];
	pid_t pid;

	setting_apply(&wish->setting, &spec);
	e = start(&spec, fds, &pid);
	if (e)
		reply_errno(r, wish->stream, e, &spec);
	else
		watch_it(rt, r, wish, fds, pid);
}

/*
 * A plain command is executed at once, because a shell would only do the same half a millisecond
 * later. What cannot be executed is the shell's business: it may be a script without an
 * interpreter, and the shell knows the usual words for everything else.
 */
static bool begin_plain(struct rt *rt, struct http_request *r, const struct execute_wish *wish)
{
	struct spawn spec = { .env = rt->plain_env, .cwd = rt->base };
	autoptr(err) e = NULL;
	char **words;
	int fds[2];
	pid_t pid;

	if (wish->setting.env || wish->setting.cwd || !words_plain(wish->command))
		return false;
	e = words_split(wish->command, &words);
	if (e)
		return false;
	spec.argv = (const char *const *)words;
	setting_apply(&wish->setting, &spec);
	e = start(&spec, fds, &pid);
	if (!e)
		watch_it(rt, r, wish, fds, pid);
	words_free(words);
	return !e;
}

static void run_in_shell(struct rt *rt, struct http_request *r, const struct execute_wish *wish)
{
	const char *argv[] = { "/bin/sh", "-c", wish->command, NULL };
	struct spawn spec = { .argv = argv, .env = rt->env, .cwd = rt->base };

	if (!begin_plain(rt, r, wish))
		begin(rt, r, &spec, wish);
}

static void run_words(struct rt *rt, struct http_request *r, const struct execute_wish *wish)
{
	struct spawn spec = { .env = rt->env, .cwd = rt->base };
	autoptr(err) e = NULL;
	char **words;

	e = words_split(wish->command, &words);
	if (e) {
		execute_reply_failed(r, wish->stream, err_text(e));
		return;
	}
	spec.argv = (const char *const *)words;
	if (words[0])
		begin(rt, r, &spec, wish);
	else
		execute_reply_failed(r, wish->stream, "empty command");
	words_free(words);
}

/* A command whose caller has left makes room for one whose caller is here. */
static bool room_for_one(struct rt *rt)
{
	struct execution *x;

	if (rt->n_commands < RT_COMMANDS_MAX)
		return true;
	list_each(x, &rt->executions, on)
		if (waiting(x) && x->over) {
			forget(x);
			return true;
		}
	return false;
}

void execute_run(struct rt *rt, struct http_request *r, struct execute_wish *wish)
{
	if (!room_for_one(rt))
		reply_message(r, 503, "More than %d commands at a time", RT_COMMANDS_MAX);
	else if (rt->words)
		run_words(rt, r, wish);
	else
		run_in_shell(rt, r, wish);
}
