/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/streams/streams_priv.h"

/*
 * exec and attach: a session of the node on one side, channels of the client on the other. Either
 * side that is full holds the other back. Over a WebSocket the session starts before the upgrade,
 * so that a refusal is an ordinary answer; over SPDY it must wait for the client's streams, and a
 * refusal is sent on the error channel. When a client leaves, what it started is ended.
 *
 * attach to a container with a terminal or an open input is a session with its command. Of any
 * other it follows the log from now on.
 */
enum {
	ARGS_MAX = 4096,
	RESIZE_MAX = 1024,   /* bytes of a size that is not complete */
	COMMAND_SHOWN = 256, /* bytes of it in a message */
	SIGNALED = 128,      /* added to the number of the signal that ended a program */
};

enum exec_state {
	EXEC_OPENING,
	EXEC_RUNNING,
	EXEC_CLOSING, /* the session is over and the client has been told */
	EXEC_STATE_MAX_,
};

static const unsigned exec_next[EXEC_STATE_MAX_] = {
	[EXEC_OPENING] = B(EXEC_RUNNING) | B(EXEC_CLOSING),
	[EXEC_RUNNING] = B(EXEC_CLOSING),
	[EXEC_CLOSING] = 0,
};

struct exec {
	struct pod_stream stream;
	struct streams *streams;
	struct call *call; /* holds the strings of spec */
	bool attach;
	bool follow; /* attach: the log */
	struct access_exec_spec spec;
	unsigned wanted; /* channels */
	enum exec_state state;
	struct access_session *session; /* NULL unless it runs */
	struct channels *channels;
	struct buf sizes; /* of the resize channel, unread */
};

static void exec_enter(struct exec *x, enum exec_state next)
{
	assert(exec_next[x->state] & B(next));
	x->state = next;
}

static void exec_free(struct exec *x)
{
	pod_stream_del(&x->stream);
	if (x->session)
		access_cancel(x->session);
	channels_free(x->channels);
	buf_done(&x->sizes);
	call_unref(x->call);
	free(x);
}

static void exec_cut(struct pod_stream *p)
{
	exec_free(container_of(p, struct exec, stream));
}

/* How it ended, as a Status */

static struct json_doc *status_success_brief(void)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d);

	json_set_root(d, o);
	(void)json_set(d, o, "metadata", json_obj(d));
	json_set_str(d, o, "status", "Success");
	return d;
}

static struct json_doc *status_of_exit(const struct exec *x, int code)
{
	struct json_doc *d = status_success_brief();
	struct json *o = json_root(d), *cause = json_obj(d);
	struct json *causes = json_arr(d);
	autobuf command = { 0 };
	size_t shown;

	if (!code)
		return d;
	for (size_t i = 0; x->spec.argv[i] && command.len < COMMAND_SHOWN; i++)
		buf_printf(&command, "%s%s", i ? " " : "", x->spec.argv[i]);
	shown = utf8_prefix(buf_str(&command), MIN(command.len, (size_t)COMMAND_SHOWN));
	json_set_str(d, o, "status", "Failure");
	(void)json_set(d, o, "message",
		       json_new_strf(d,
				     "command terminated with non-zero exit code: error executing "
				     "command [%.*s], exit code %d",
				     (int)shown, buf_str(&command), code));
	json_set_str(d, o, "reason", "NonZeroExitCode");
	json_set_str(d, cause, "reason", "ExitCode");
	(void)json_set(d, cause, "message", json_new_strf(d, "%d", code));
	json_push(d, causes, cause);
	(void)json_set(d, json_need_obj(d, o, "details"), "causes", causes);
	return d;
}

static void exec_finish(struct exec *x, struct json_doc *status)
{
	exec_enter(x, EXEC_CLOSING);
	channels_finish(x->channels, status);
	json_doc_free(status);
}

/* A command that was killed must not look like one that ended well. */
static void exec_revoke(struct pod_stream *p)
{
	struct exec *x = container_of(p, struct exec, stream);
	autoptr(err) e = err_new(ERR_FORBIDDEN, "the right to be here is no longer there");

	if (x->state != EXEC_RUNNING) {
		if (x->state != EXEC_CLOSING)
			exec_cut(p);
		return;
	}
	access_cancel(take(x->session));
	exec_finish(x, status_failure(e, NULL));
}

/* The session */

static void on_output(void *arg, int fd, const char *data, size_t len)
{
	struct exec *x = arg;

	if (x->state != EXEC_RUNNING)
		return;
	channels_write(x->channels, fd == 2 && !x->spec.tty ? CHANNEL_STDERR : CHANNEL_STDOUT, data,
		       len);
	if (channels_full(x->channels))
		access_pause(x->session, true);
}

static void on_input_drained(void *arg)
{
	struct exec *x = arg;

	if (x->state == EXEC_RUNNING)
		channels_pause(x->channels, false);
}

static void on_session_ended(void *arg, const struct err *e, int code, int signal)
{
	struct exec *x = arg;

	x->session = NULL;
	if (e)
		exec_finish(x, status_failure(e, NULL));
	else if (x->attach)
		exec_finish(x, status_success_brief());
	else
		exec_finish(x, status_of_exit(x, signal ? SIGNALED + signal : code));
}

static const struct access_events session_events = {
	.output = on_output,
	.drained = on_input_drained,
	.ended = on_session_ended,
};

static struct err *exec_start(struct exec *x)
{
	struct access *a = x->streams->access;
	struct access_log_spec follow = { .to = x->spec.to, .follow = true, .tail = 0 };
	struct err *e;

	if (!a)
		return err_new(ERR_UNAVAILABLE, "reach pod %s: no node runs it", x->spec.to.pod);
	if (x->follow)
		e = access_logs(a, &follow, &session_events, x, &x->session);
	else
		e = access_exec(a, &x->spec, &session_events, x, &x->session);
	if (err_is(e, ERR_UNAVAILABLE)) /* it does not run: retrying at once does not help */
		e = err_wrap(err_recode(e, ERR_MALFORMED), "container not found (\"%s\")",
			     x->spec.to.container);
	if (!e)
		exec_enter(x, EXEC_RUNNING);
	return e;
}

/* The client */

static void on_opened(void *arg)
{
	struct exec *x = arg;
	autoptr(err) e = exec_start(x);

	if (e)
		exec_finish(x, status_failure(e, NULL));
}

static void resize(struct exec *x, const char *text, size_t len)
{
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse(text, len, NULL, &d);
	int64_t cols, rows;

	if (e)
		return; /* a wrong size is no reason to end a session */
	cols = json_get_int(json_root(d), "Width", 0);
	rows = json_get_int(json_root(d), "Height", 0);
	if (cols > 0 && cols <= UINT16_MAX && rows > 0 && rows <= UINT16_MAX)
		access_resize(x->session, (uint16_t)cols, (uint16_t)rows);
}

/* Flat objects one after the other, which end where the first brace closes. */
static void on_sizes(struct exec *x, const char *data, size_t len)
{
	const char *end;

	buf_add(&x->sizes, data, MIN(len, (size_t)RESIZE_MAX));
	while (x->sizes.len && (end = memchr(buf_head(&x->sizes), '}', x->sizes.len))) {
		size_t size = (size_t)(end + 1 - buf_head(&x->sizes));

		resize(x, buf_head(&x->sizes), size);
		buf_eat(&x->sizes, size);
	}
	if (x->sizes.len > RESIZE_MAX)
		buf_clear(&x->sizes);
}

static void on_data(void *arg, enum channel n, const char *data, size_t len)
{
	struct exec *x = arg;

	if (x->state != EXEC_RUNNING || x->follow)
		return;
	if (n == CHANNEL_RESIZE) {
		on_sizes(x, data, len);
		return;
	}
	access_write(x->session, data, len);
	if (access_full(x->session))
		channels_pause(x->channels, true);
}

static void on_input_ended(void *arg, enum channel n)
{
	struct exec *x = arg;

	if (n == CHANNEL_STDIN && x->state == EXEC_RUNNING && !x->follow)
		access_end_input(x->session);
}

static void on_output_drained(void *arg)
{
	struct exec *x = arg;

	if (x->state == EXEC_RUNNING)
		access_pause(x->session, false);
}

static void on_closed(void *arg)
{
	exec_free(arg);
}

static const struct channels_events channel_events = {
	.opened = on_opened,
	.data = on_data,
	.ended = on_input_ended,
	.drained = on_output_drained,
	.closed = on_closed,
};

/* The request */

static struct err *read_command(struct exec *x)
{
	struct arena *a = x->call->arena;
	const char **argv = arena_new_n(a, const char *, ARGS_MAX + 1);
	struct span rest = SPAN(x->call->query);
	size_t n = 0, len;

	while (rest.p) {
		struct span value, pair = span_cut(rest, '&', &rest);
		autofree char *text = NULL;
		struct err *e;

		if (!span_eq(span_cut(pair, '=', &value), "command"))
			continue;
		if (n == ARGS_MAX)
			return err_new(ERR_MALFORMED, "command: more than %d words", ARGS_MAX);
		e = url_decode(value.p ? value.p : "", value.len, true, &text, &len);
		if (e)
			return err_recode(err_wrap(e, "read command"), ERR_MALFORMED);
		argv[n++] = arena_strdup(a, text);
	}
	if (!n)
		return err_new(ERR_MALFORMED, "command: at least one word is needed");
	x->spec.argv = argv;
	return NULL;
}

static struct err *read_channels(struct exec *x)
{
	static const struct {
		const char *name;
		enum channel n;
	} rows[] = {
		{ "stdin", CHANNEL_STDIN },
		{ "stdout", CHANNEL_STDOUT },
		{ "stderr", CHANNEL_STDERR },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (call_query_true(x->call, rows[i].name))
			x->wanted |= B(rows[i].n);
	if (!x->wanted)
		return err_new(ERR_MALFORMED,
			       "you must specify at least 1 of stdin, stdout, stderr");
	x->spec.tty = call_query_true(x->call, "tty");
	if (x->spec.tty)
		x->wanted = (x->wanted & ~B(CHANNEL_STDERR)) | B(CHANNEL_RESIZE);
	x->spec.stdin_open = x->wanted & B(CHANNEL_STDIN);
	if (!x->attach)
		return NULL;
	x->spec.attach = true;
	x->follow = !pod_container_has(x->streams, x->call, x->spec.to.container, "stdin") &&
		    !pod_container_has(x->streams, x->call, x->spec.to.container, "tty");
	if (x->spec.stdin_open &&
	    !pod_container_has(x->streams, x->call, x->spec.to.container, "stdin"))
		return err_new(ERR_MALFORMED,
			       "stdin: the command of container %s takes no input; set its stdin, "
			       "or use exec",
			       x->spec.to.container);
	return NULL;
}

static struct err *exec_read(struct exec *x, struct upgrade *ret)
{
	struct err *e;

	e = pod_target(x->streams, x->call, x->attach ? POD_USE_ATTACH : POD_USE_EXEC, &x->spec.to);
	if (!e)
		e = read_channels(x);
	if (!e && !x->attach)
		e = read_command(x);
	if (!e)
		e = channels_offered(x->call, ret);
	if (!e)
		e = pod_stream_add(&x->stream, x->streams, x->call);
	return e;
}

static void exec_handle(struct streams *ps, struct call *c, bool attach)
{
	struct exec *x = xnew(struct exec);
	struct upgrade u;
	struct err *e;

	x->stream.cut = exec_cut;
	x->stream.revoke = exec_revoke;
	x->streams = ps;
	x->call = call_ref(c);
	x->attach = attach;
	e = exec_read(x, &u);
	if (!e && u.transport == TRANSPORT_WEBSOCKET)
		e = exec_start(x);
	if (e)
		call_fail(c, e);
	else
		x->channels = channels_accept(c, &u,
					      &(struct channels_spec){
						      .loop = ps->loop,
						      .wanted = x->wanted,
						      .ev = &channel_events,
						      .arg = x,
					      });
	if (!x->channels)
		exec_free(x);
}

void streams_exec(struct streams *ps, struct call *c)
{
	if (!streams_wake(ps, c, streams_exec))
		exec_handle(ps, c, false);
}

void streams_attach(struct streams *ps, struct call *c)
{
	if (!streams_wake(ps, c, streams_attach))
		exec_handle(ps, c, true);
}
