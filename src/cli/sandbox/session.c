/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec over a WebSocket, as an API server speaks it: a message is one byte, the channel, and its
 * data. From version 5 on the bytes 255 and 0 say that the input has ended. The last thing on the
 * error channel is a Status, which tells how the command ended; a connection that ends without it
 * was cut.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/sandbox/sandbox_priv.h"
#include "client/http.h"
#include "loop/loop.h"

enum {
	CHANNEL_STDIN,
	CHANNEL_STDOUT,
	CHANNEL_STDERR,
	CHANNEL_ERROR,
	CHANNEL_RESIZE,
	END_MARK = 255,
	STATUS_MAX = 64 * 1024,
	TEXT_MAX = 64 * 1024, /* of session_run() */
};

static const char *const protocols[] = { "v5.channel.k8s.io", "v4.channel.k8s.io", NULL };

struct session {
	struct session_events ev;
	void *arg;
	struct websocket_dial *dial; /* until it is open */
	struct websocket *ws;        /* afterwards; NULL: over */
	struct deferred ready;       /* calls drained() for the first time */
	bool ends_input;             /* the protocol can tell the end of the input */
	bool needs_end;              /* the command waits for that: a terminal has ^D */
	bool over;
};

/* Nothing more is told; what remains is freed later. */
static void session_end(struct session *s, struct err *e, int code)
{
	if (s->over) {
		err_free(e);
		return;
	}
	s->over = true;
	s->ev.ended(s->arg, e, code);
}

/* NonZeroExitCode has the code among its causes. */
static bool exit_code(const struct json *status, int *ret)
{
	int64_t code = 0;

	json_each(it, json_at_path(status, "details.causes")) {
		struct err *e;

		if (!str_eq(json_get_str(it.val, "reason"), "ExitCode"))
			continue;
		e = parse_int(str_or(json_get_str(it.val, "message"), ""), 0, 255, &code);
		if (e) {
			err_free(e);
			return false;
		}
		*ret = (int)code;
		return true;
	}
	return false;
}

/* Servers say in words only that there is no such program. */
static struct err *not_started(const struct json *status)
{
	static const char *const words[] = { "No such file or directory",
					     "no such file or directory",
					     "executable file not found", NULL };
	struct err *e = status_err(status, 500, "run the command");

	for (size_t i = 0; words[i]; i++)
		if (strstr(err_text(e), words[i]))
			return err_recode(e, ERR_UNSUPPORTED);
	return e;
}

static void on_status(struct session *s, const char *text, size_t len)
{
	autoptr(json_doc) doc = NULL;
	struct err *e = json_parse(text, len, &(struct json_limits){ .max_len = STATUS_MAX }, &doc);
	const struct json *status = json_root(doc);
	int code = 0;

	if (e)
		session_end(s, err_wrap(e, "read how the command ended"), 0);
	else if (str_eq(json_get_str(status, "status"), "Success") || exit_code(status, &code))
		session_end(s, NULL, code);
	else
		session_end(s, not_started(status), 0);
}

static void on_message(void *arg, bool binary unused, const char *data, size_t len)
{
	struct session *s = arg;

	if (!len || s->over)
		return;
	switch ((unsigned char)data[0]) {
	case CHANNEL_STDOUT:
	case CHANNEL_STDERR:
		if (len > 1)
			s->ev.output(s->arg, data[0], data + 1, len - 1);
		break;
	case CHANNEL_ERROR:
		if (len > 1)
			on_status(s, data + 1, len - 1);
		break;
	default: /* the end of a channel, or one of a later version */
		break;
	}
}

static void on_drained(void *arg)
{
	struct session *s = arg;

	if (!s->over && s->ev.drained)
		s->ev.drained(s->arg);
}

static void on_closed(void *arg, uint16_t code)
{
	struct session *s = arg;

	session_end(s,
		    err_new(ERR_UNAVAILABLE,
			    "the connection was cut before the command ended (WebSocket code %u)",
			    code),
		    0);
}

static void on_opened(void *arg, struct websocket *w, const char *protocol)
{
	static const struct websocket_events events = {
		.message = on_message,
		.drained = on_drained,
		.closed = on_closed,
	};
	struct session *s = arg;

	s->dial = NULL;
	s->ws = w;
	s->ends_input = str_eq(protocol, protocols[0]);
	websocket_set_events(w, &events, s);
	if (s->needs_end && !s->ends_input)
		session_end(s,
			    err_new(ERR_UNACCEPTABLE,
				    "the server speaks only %s, which cannot tell a command that "
				    "its input has ended; this needs %s",
				    protocol, protocols[0]),
			    0);
	else
		deferred_call(&s->ready);
}

static void on_refused(void *arg, int status, struct span body)
{
	struct session *s = arg;

	s->dial = NULL;
	session_end(s, status_err_text(body.p, body.len, status, "run the command"), 0);
}

static void on_failed(void *arg, const struct err *e)
{
	struct session *s = arg;

	s->dial = NULL;
	session_end(s, err_wrap(err_copy(e), "run the command"), 0);
}

static char *exec_path(const struct session_spec *spec)
{
	autofree char *pod = path_pods(spec->ns, spec->pod);
	autobuf b = { 0 };

	buf_printf(&b, "%s/exec?stdout=true&stderr=%s", pod, spec->tty ? "false" : "true");
	if (spec->in)
		buf_add_str(&b, "&stdin=true");
	if (spec->tty)
		buf_add_str(&b, "&tty=true");
	if (spec->container) {
		autofree char *name = url_encode(spec->container);

		buf_printf(&b, "&container=%s", name);
	}
	for (size_t i = 0; spec->argv[i]; i++) {
		autofree char *word = url_encode(spec->argv[i]);

		buf_printf(&b, "&command=%s", word);
	}
	return buf_steal(&b, NULL);
}

struct session *session_start(struct remote *r, const struct session_spec *spec,
			      const struct session_events *ev, void *arg)
{
	static const struct websocket_dial_events events = {
		.opened = on_opened,
		.refused = on_refused,
		.failed = on_failed,
	};
	struct session *s = xnew(struct session);
	autofree char *path = exec_path(spec);

	s->needs_end = spec->in && !spec->tty;
	s->ev = *ev;
	s->arg = arg;
	deferred_init(&s->ready, remote_loop(r), on_drained, s);
	s->dial = remote_dial(r, path, protocols, &events, s);
	return s;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	deferred_cancel(&s->ready);
	websocket_dial_cancel(s->dial);
	websocket_free(s->ws);
	free(s);
}

bool session_full(const struct session *s)
{
	return !s->ws || websocket_full(s->ws);
}

static void send_on(struct session *s, unsigned channel, const void *p, size_t len)
{
	autobuf b = { 0 };

	if (!s->ws || s->over)
		return;
	buf_add_char(&b, (char)channel);
	buf_add(&b, p, len);
	websocket_send(s->ws, true, buf_head(&b), b.len);
}

void session_write(struct session *s, const void *p, size_t len)
{
	send_on(s, CHANNEL_STDIN, p, len);
}

void session_end_input(struct session *s)
{
	static const char which[] = { CHANNEL_STDIN };

	if (s->ends_input)
		send_on(s, END_MARK, which, sizeof(which));
}

void session_resize(struct session *s, unsigned cols, unsigned rows)
{
	autofree char *text = xasprintf("{\"Width\":%u,\"Height\":%u}", cols, rows);

	send_on(s, CHANNEL_RESIZE, text, strlen(text));
}

void session_pause(struct session *s, bool paused)
{
	if (s->ws)
		websocket_pause(s->ws, paused);
}

/* A short command whose output is wanted as text */

struct short_run {
	struct buf text[2];
	struct err *e;
	int code;
	bool over;
};

static void on_text(void *arg, int fd, const char *p, size_t len)
{
	struct buf *b = &((struct short_run *)arg)->text[fd - 1];

	buf_add(b, p, MIN(len, TEXT_MAX - b->len));
}

static void on_end(void *arg, struct err *e, int code)
{
	struct short_run *run = arg;

	run->e = e;
	run->code = code;
	run->over = true;
}

struct err *session_run(struct remote *r, const struct session_spec *spec, int *ret_code,
			char **ret_out, char **ret_err)
{
	static const struct session_events events = { .output = on_text, .ended = on_end };
	struct short_run run = { 0 };
	autoptr(session) s = session_start(r, spec, &events, &run);
	struct err *e = remote_until(r, &run.over, 0);

	if (!e)
		e = take(run.e);
	if (!e) {
		*ret_code = run.code;
		if (ret_out)
			*ret_out = buf_steal(&run.text[0], NULL);
		if (ret_err)
			*ret_err = buf_steal(&run.text[1], NULL);
	}
	buf_done(&run.text[0]);
	buf_done(&run.text[1]);
	return e;
}
