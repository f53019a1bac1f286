/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "guest/execute/execute.h"
#include "guest/execute/process.h"
#include "guest/execute/ws_priv.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "guest/spawn/spawn.h"
#include "net/http_server.h"

/*
 * Processes over WebSocket. GET /v1/processes/ID/attach is one of any number of readers and
 * writers, each with a place in the ring of the output; it comes and goes, and the process stays.
 * GET /v1/exec starts a process that belongs to the connection: it waits for a slow reader, and is
 * killed with its group when the client leaves.
 */
enum {
	WORDS_MAX = 1024, /* of a command, and variables */
};

struct attached {
	struct ws *ws;
	struct process *p; /* NULL: it is forgotten, or about to be */
	bool reads;        /* it is among the readers of p; otherwise it is its sink */
	struct process_reader rd;
	struct process_writer w;
	uint64_t at; /* in the ring */
};

/* As Kubernetes says it, so that its clients understand; and the plain numbers. */
static void put_status(struct buf *out, const struct process *p)
{
	unsigned code = status_code(p->status);

	if (code)
		buf_printf(out,
			   "{\"metadata\":{},\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\","
			   "\"message\":\"command terminated with exit code %u\",\"details\":"
			   "{\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"%u\"}]},",
			   code, code);
	else
		buf_add_str(out, "{\"metadata\":{},\"status\":\"Success\",");
	buf_printf(out, "\"exit_code\":%u,\"signal\":%u,\"timed_out\":%s}", code,
		   status_signal(p->status), p->timed_out ? "true" : "false");
}

/* Takes it off the process, which goes on. */
static void detach(struct attached *a)
{
	list_del(&a->w.on);
	if (a->reads)
		process_reader_del(&a->rd);
	a->p = NULL;
}

/* The end of the process is the last thing that is said. */
static void finish(struct attached *a, const struct process *p)
{
	autobuf status = { 0 };

	put_status(&status, p);
	ws_send(a->ws, WS_STATUS, buf_head(&status), status.len);
	ws_end(a->ws, WS_NORMAL, "");
	detach(a);
	free(a);
}

static void skip(struct attached *a)
{
	autobuf json = { 0 };
	uint64_t to = a->p->ring.begin;

	buf_printf(&json, "{\"dropped\":{\"from\":%llu,\"to\":%llu}}", (unsigned long long)a->at,
		   (unsigned long long)to);
	ws_send(a->ws, WS_NOTICE, buf_head(&json), json.len);
	a->at = to;
}

static void push(struct process_reader *rd)
{
	struct attached *a = container_of(rd, struct attached, rd);
	const struct ring *ring = &a->p->ring;

	while (!ws_full(a->ws)) {
		struct span piece;
		unsigned channel;

		if (a->at < ring->begin)
			skip(a);
		if (a->at == ring->end)
			break;
		piece = ring_at(ring, a->at, &channel);
		a->at += piece.len;
		ws_send(a->ws, channel == PROCESS_STDERR ? WS_STDERR : WS_STDOUT, piece.p,
			piece.len);
	}
	if (a->p->over && a->at == ring->end && !ws_full(a->ws))
		finish(a, a->p);
}

static void drop(struct process_reader *rd)
{
	struct attached *a = container_of(rd, struct attached, rd);

	list_del(&a->w.on);
	ws_end(a->ws, WS_INTERNAL, "the process was deleted");
	free(a);
}

/* Input is read from the client only while the process takes it. */
static void settle(struct process_writer *w)
{
	struct attached *a = container_of(w, struct attached, w);

	ws_pause(a->ws, w->p && w->p->in >= 0 && w->p->input.len >= PROCESS_INPUT_MAX);
}

static bool dimension(json_t *v, uint16_t *ret)
{
	json_int_t n = json_integer_value(v);

	*ret = (uint16_t)n;
	return n >= 1 && n <= UINT16_MAX;
}

static bool resize(const struct process *p, const char *data, size_t len)
{
	json_error_t error;
	json_t *size = json_loadb(data, len, 0, &error);
	uint16_t cols, rows;
	bool fits = dimension(json_object_get(size, "Width"), &cols) &&
		    dimension(json_object_get(size, "Height"), &rows);

	if (fits && p->tty >= 0)
		tty_resize(p->tty, cols, rows);
	json_decref(size);
	return fits;
}

/* Lets go of the process as if the client had left, and says why. */
static void refuse(struct attached *a, const char *reason);

static void on_message(void *arg, unsigned channel, const char *data, size_t len)
{
	struct attached *a = arg;

	if (channel == WS_STDIN) {
		process_input(a->p, data, len); /* what has no open input is dropped */
		settle(&a->w);
	} else if (channel == WS_RESIZE) {
		if (!resize(a->p, data, len))
			refuse(a, "resize: {\"Width\",\"Height\"} from 1 to 65535");
	} else if (channel == WS_CLOSE_CHANNEL) {
		if (len == 1 && data[0] == WS_STDIN)
			process_input_end(a->p);
	} else {
		refuse(a, "channels of a client are 0, 4 and 255");
	}
}

static void on_drained(void *arg)
{
	struct attached *a = arg;

	if (a->reads)
		push(&a->rd);
	else
		process_drained(a->p);
}

static void let_go(struct attached *a)
{
	struct process *p = a->p;
	bool owned = !a->reads;

	detach(a);
	if (owned) {
		p->sink = NULL;
		process_delete(p);
	}
	free(a);
}

static void on_gone(void *arg)
{
	let_go(arg);
}

static void refuse(struct attached *a, const char *reason)
{
	ws_end(a->ws, WS_POLICY, reason);
	let_go(a);
}

static const struct ws_events events = { on_message, on_drained, on_gone };

static void writer_begin(struct attached *a, struct process *p)
{
	a->p = p;
	a->w.p = p;
	a->w.settle = settle;
	list_add_tail(&p->writers, &a->w.on);
}

void process_attach(struct process *p, struct http_request *r)
{
	struct attached *a;
	uint64_t from;

	if (!ws_check(r))
		return;
	if (!process_offset_of(r, &from)) {
		rest_error(r, 400, "INVALID_ARGUMENT", "from: Input should be a number of bytes");
		return;
	}
	a = xnew(struct attached);
	a->reads = true;
	a->rd.push = push;
	a->rd.drop = drop;
	a->ws = ws_accept(r, &events, a);
	if (!a->ws) {
		free(a);
		return;
	}
	a->at = MIN(from, p->ring.end);
	writer_begin(a, p);
	process_reader_add(p, &a->rd);
	push(&a->rd);
}

static bool on_full(void *arg)
{
	return ws_full(((struct attached *)arg)->ws);
}

static void on_output(void *arg, enum process_channel channel, const char *data, size_t len)
{
	struct attached *a = arg;

	ws_send(a->ws, channel == PROCESS_STDERR ? WS_STDERR : WS_STDOUT, data, len);
}

static void on_over(void *arg, const struct process *p)
{
	finish(arg, p);
}

/* {"env", "cwd"} of the query, as the requests of the other APIs have them. */
static json_t *surroundings(const char *query)
{
	json_t *body = json_object(), *env = json_object();
	autofree char *cwd = http_query_get(query, "cwd");
	char *text;

	for (size_t i = 0; i < WORDS_MAX && (text = http_query_nth(query, "env", i)); i++) {
		char *value = strchr(text, '=');

		if (value)
			*value++ = '\0';
		(void)json_object_set_new(env, text, json_string(value ? value : ""));
		free(text);
	}
	(void)json_object_set_new(body, "env", env);
	if (cwd)
		(void)json_object_set_new(body, "cwd", json_string(cwd));
	return body;
}

static bool flag(const char *query, const char *name)
{
	autofree char *text = http_query_get(query, name);

	return str_eq(text, "true") || str_eq(text, "1");
}

static uint16_t size_of(const char *query, const char *name)
{
	autofree char *text = http_query_get(query, name);
	uint64_t n = 0;

	if (text)
		err_free(parse_uint(text, UINT16_MAX, &n));
	return (uint16_t)n;
}

/* The words of the command, in an array that ends with NULL. */
static char **words_of(const char *query, json_t *shown)
{
	char **words = xnew_n(char *, WORDS_MAX + 1);

	for (size_t i = 0; i < WORDS_MAX && (words[i] = http_query_nth(query, "command", i)); i++)
		(void)json_array_append_new(shown, json_string(words[i]));
	return words;
}

static void words_done(char **words)
{
	for (char **w = words; *w; w++)
		free(*w);
	free(words);
}

static bool too_many(const char *query, const char *name)
{
	autofree char *beyond = http_query_nth(query, name, WORDS_MAX);

	return beyond;
}

/* What is not cannot be told on. */
static bool is_utf8(const char *query, const char *name)
{
	for (size_t i = 0; i < WORDS_MAX; i++) {
		autofree char *text = http_query_nth(query, name, i);

		if (!text)
			return true;
		if (!utf8_valid(text, strlen(text)))
			return false;
	}
	return true;
}

static struct err *wish_open(struct face *f, const char *query, struct process_wish *w)
{
	json_t *body = surroundings(query);
	struct complaint bad;
	struct err *e = NULL;

	if (!w->argv[0])
		e = err_new(ERR_INVALID, "command: Give a word at least");
	else if (too_many(query, "command") || too_many(query, "env"))
		e = err_new(ERR_INVALID, "command and env: %d of each at most", WORDS_MAX);
	else if (!is_utf8(query, "env") || !is_utf8(query, "cwd"))
		e = err_new(ERR_INVALID, "%s: must be UTF-8",
			    is_utf8(query, "env") ? "cwd" : "env");
	else if (!setting_check(body, &bad))
		e = err_new(ERR_INVALID, "env: a name is not empty and has no '='");
	else
		e = setting_open(f->base, f->rt->env, body, &w->setting);
	json_decref(body);
	return e;
}

/* Starts it before the upgrade, so that what cannot start is an answer; then nothing can fail. */
static void exec_run(struct face *f, struct http_request *r, struct process_wish *w)
{
	struct attached *a = w->sink_arg;
	struct process *p;
	struct err *e = process_start(f->rt, w, &p);

	if (e) {
		free(a);
		rest_refuse(r, e);
		return;
	}
	a->ws = ws_accept(r, &events, a);
	if (a->ws) {
		writer_begin(a, p);
		return;
	}
	p->sink = NULL;
	process_delete(p);
	free(a);
}

static void exec_serve(struct face *f, struct http_request *r, struct process_wish *w)
{
	static const struct process_sink sink = { on_full, on_output, on_over };
	struct attached *a;
	struct err *e = wish_open(f, http_request_query(r), w);

	if (e) {
		rest_refuse(r, e);
		return;
	}
	a = xnew(struct attached);
	list_init(&a->w.on);
	w->sink = &sink;
	w->sink_arg = a;
	exec_run(f, r, w);
}

void exec_ws_serve(struct face *f, struct http_request *r, unused const char *tail)
{
	const char *query = http_request_query(r);
	struct process_wish w = { .base = f->base, .unlisted = true };
	char **words;

	if (!ws_check(r)) /* a GET that asks for anything else starts nothing */
		return;
	w.shown = json_array();
	words = words_of(query, w.shown);
	w.argv = (const char *const *)words;
	w.tty = flag(query, "tty");
	w.input = w.tty || flag(query, "stdin");
	w.cols = size_of(query, "cols");
	w.rows = size_of(query, "rows");
	exec_serve(f, r, &w);
	setting_done(&w.setting);
	words_done(words);
	json_decref(w.shown);
}
