/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "guest/execute/execute.h"
#include "guest/execute/process.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "guest/spawn/spawn.h"
#include "net/http_server.h"

/* /v1/processes: what is asked of processes, and what is said of them. */

void process_put(struct buf *out, const struct process *p)
{
	char *argv = json_dumps(p->argv, JSON_ENCODE_ANY | JSON_COMPACT);

	buf_printf(out, "{\"id\":%llu,\"state\":\"%s\",\"%s\":%s", (unsigned long long)p->id,
		   p->over ? "exited" : "running", json_is_array(p->argv) ? "argv" : "command",
		   argv ? argv : "null");
	free(argv);
	buf_printf(out, ",\"pty\":%s,\"background\":%s,\"stdin_open\":%s,\"started_at\":",
		   p->tty >= 0 ? "true" : "false", p->background ? "true" : "false",
		   p->in >= 0 && !p->input_end ? "true" : "false");
	put_time(out, p->started_at);
	buf_printf(out, ",\"output_from\":%llu,\"output_bytes\":%llu",
		   (unsigned long long)p->ring.begin, (unsigned long long)p->ring.end);
	if (p->over) {
		buf_add_str(out, ",\"ended_at\":");
		put_time(out, p->ended_at);
		buf_printf(out, ",\"exit_code\":%u,\"signal\":%u,\"timed_out\":%s",
			   status_code(p->status), status_signal(p->status),
			   p->timed_out ? "true" : "false");
	}
	buf_add_char(out, '}');
}

static void reply_process(struct http_request *r, int status, const struct process *p)
{
	autobuf body = { 0 };

	process_put(&body, p);
	reply_json(r, status, &body);
}

static void reply_complaint(struct http_request *r, const struct complaint *c)
{
	rest_error(r, 400, "INVALID_ARGUMENT", "%s%s%s: %s", c->field ? c->field : "body",
		   c->below ? "." : "", c->below ? c->below : "", c->msg);
}

/* A number of a terminal's size: 1 to 65535. */
static bool size_of(const json_t *object, const char *name, uint16_t *ret, struct complaint *bad)
{
	const json_t *v = json_object_get(object, name);

	if (json_is_integer(v) && json_integer_value(v) >= 1 && json_integer_value(v) <= 65535) {
		*ret = (uint16_t)json_integer_value(v);
		return true;
	}
	*bad = (struct complaint){ "int_type", "Input should be 1 to 65535", name, NULL, v };
	return false;
}

static bool program_read(const json_t *body, struct process_wish *w, struct complaint *bad)
{
	json_t *argv = json_object_get(body, "argv"), *command = json_object_get(body, "command");
	const char **list;
	json_t *v;
	size_t i;

	*bad = (struct complaint){ "missing", "Give either argv or command", NULL, NULL, NULL };
	if (!argv == !command)
		return false;
	if (!member_is(body, "argv", JSON_ARRAY, bad) ||
	    !member_is(body, "command", JSON_STRING, bad))
		return false;
	*bad = (struct complaint){ "string_type", "Input should be texts, one at least", "argv",
				   NULL, argv };
	json_array_foreach(argv, i, v) if (!json_is_string(v)) return false;
	if ((argv && !json_array_size(argv)) || (command && !json_is_string(command)))
		return false;
	list = xnew_n(const char *, (argv ? json_array_size(argv) : 3) + 1);
	json_array_foreach(argv, i, v) list[i] = json_string_value(v);
	if (command) {
		list[0] = "/bin/sh";
		list[1] = "-c";
		list[2] = json_string_value(command);
	}
	w->argv = list;
	w->shown = json_incref(argv ? argv : command);
	return true;
}

static bool wish_read(const json_t *body, struct process_wish *w, struct complaint *bad)
{
	const json_t *pty = json_object_get(body, "pty");

	*bad = (struct complaint){ "dict_type", "Input should be a JSON object", NULL, NULL, NULL };
	if (!json_is_object(body) || !member_is(body, "pty", JSON_OBJECT, bad))
		return false;
	w->tty = json_is_object(pty);
	if (w->tty &&
	    (!size_of(pty, "cols", &w->cols, bad) || !size_of(pty, "rows", &w->rows, bad)))
		return false;
	return member_bool(body, "stdin", &w->input, bad) &&
	       member_bool(body, "background", &w->background, bad) &&
	       member_positive(body, "timeout_seconds", &w->limit_s, bad) &&
	       setting_check(body, bad) && program_read(body, w, bad);
}

static void wish_run(struct face *f, struct http_request *r, const json_t *body,
		     struct process_wish *w)
{
	struct process *p;
	struct err *e = setting_open(f->base, f->rt->env, body, &w->setting);

	w->base = f->base;
	if (!e)
		e = process_start(f->rt, w, &p);
	setting_done(&w->setting);
	if (e)
		rest_refuse(r, e);
	else
		reply_process(r, 201, p);
}

static void on_create(void *owner, struct http_request *r, const char *data, size_t len)
{
	struct complaint bad = { "json_invalid", "Input should be JSON", NULL, NULL, NULL };
	struct process_wish wish = { 0 };
	json_error_t error;
	json_t *body = json_loadb(data, len, 0, &error);

	http_request_set_owner(r, NULL, NULL);
	if (body && wish_read(body, &wish, &bad))
		wish_run(owner, r, body, &wish);
	else
		reply_complaint(r, &bad);
	json_decref(wish.shown);
	free((void *)wish.argv);
	json_decref(body);
}

static void create(struct face *f, struct http_request *r)
{
	http_request_set_owner(r, f, NULL);
	http_request_buffer(r, RT_BODY_MAX, on_create);
}

static void list_all(struct face *f, struct http_request *r)
{
	autobuf body = { 0 };
	struct process *p;

	buf_add_str(&body, "{\"processes\":[");
	list_each(p, &f->rt->processes, on) {
		if (p->on.prev != &f->rt->processes)
			buf_add_char(&body, ',');
		process_put(&body, p);
	}
	buf_add_str(&body, "]}");
	reply_json(r, 200, &body);
}

static void respond_done(struct http_request *r)
{
	http_respond(r, 204, NULL, (struct http_body){ 0 });
}

/* 0: there is no such signal. */
static int signal_read(const json_t *v)
{
	static const struct {
		const char *name;
		int number;
	} rows[] = {
		{ "HUP", SIGHUP },     { "INT", SIGINT },   { "QUIT", SIGQUIT },
		{ "KILL", SIGKILL },   { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 },
		{ "PIPE", SIGPIPE },   { "ALRM", SIGALRM }, { "TERM", SIGTERM },
		{ "CONT", SIGCONT },   { "STOP", SIGSTOP }, { "TSTP", SIGTSTP },
		{ "WINCH", SIGWINCH }, { "ABRT", SIGABRT },
	};
	const char *name = json_string_value(v);

	if (json_is_integer(v) && json_integer_value(v) >= 1 && json_integer_value(v) < NSIG)
		return (int)json_integer_value(v);
	if (name && str_starts(name, "SIG"))
		name += 3;
	for (size_t i = 0; name && i < ARRAY_LEN(rows); i++)
		if (str_eq(name, rows[i].name))
			return rows[i].number;
	return 0;
}

/* A request about one process with a small body; the process is looked up again when it is here. */
struct small {
	struct rt *rt;
	uint64_t id;
	void (*serve)(struct process *p, struct http_request *r, const json_t *body);
};

static void serve_signal(struct process *p, struct http_request *r, const json_t *body)
{
	int signum = signal_read(json_object_get(body, "signal"));

	if (!signum) {
		rest_error(r, 400, "INVALID_ARGUMENT", "signal: Input should name a signal");
		return;
	}
	process_signal(p, signum);
	respond_done(r);
}

static void serve_resize(struct process *p, struct http_request *r, const json_t *body)
{
	struct complaint bad;
	uint16_t cols, rows;

	if (!size_of(body, "cols", &cols, &bad) || !size_of(body, "rows", &rows, &bad)) {
		reply_complaint(r, &bad);
		return;
	}
	if (p->tty < 0) {
		rest_error(r, 409, "CONFLICT", "the process has no terminal");
		return;
	}
	tty_resize(p->tty, cols, rows);
	respond_done(r);
}

static void on_small(void *owner, struct http_request *r, const char *data, size_t len)
{
	struct small *s = owner;
	struct process *p = process_find(s->rt, s->id);
	json_error_t error;
	json_t *body = json_loadb(data, len, 0, &error);

	if (!p)
		rest_error(r, 404, "NOT_FOUND", "no process %llu", (unsigned long long)s->id);
	else if (!json_is_object(body))
		rest_error(r, 400, "INVALID_ARGUMENT", "body: Input should be a JSON object");
	else
		s->serve(p, r, body);
	json_decref(body);
}

static void small(struct process *p, struct http_request *r,
		  void (*fn)(struct process *p, struct http_request *r, const json_t *body))
{
	struct small *s = xnew(struct small);

	*s = (struct small){ p->rt, p->id, fn };
	http_request_set_owner(r, s, free);
	http_request_buffer(r, RT_PIECE, on_small);
}

bool process_offset_of(struct http_request *r, uint64_t *ret)
{
	const char *last = http_request_header(r, "Last-Event-ID");
	autofree char *from = http_query_get(http_request_query(r), "from");
	autoptr(err) e = NULL;

	*ret = 0;
	if (last)
		e = parse_uint(last, INT64_MAX, ret);
	else if (from)
		e = parse_uint(from, INT64_MAX, ret);
	return !e;
}

static void output(struct process *p, struct http_request *r)
{
	uint64_t from;

	if (process_offset_of(r, &from))
		process_read(p, r, from);
	else
		rest_error(r, 400, "INVALID_ARGUMENT", "from: Input should be a number of bytes");
}

static void tell(struct process *p, struct http_request *r)
{
	reply_process(r, 200, p);
}

static void delete(struct process *p, struct http_request *r)
{
	process_delete(p);
	respond_done(r);
}

static void signal_it(struct process *p, struct http_request *r)
{
	small(p, r, serve_signal);
}

static void resize(struct process *p, struct http_request *r)
{
	small(p, r, serve_resize);
}

static const struct {
	const char *what, *method;
	void (*serve)(struct process *p, struct http_request *r);
} rows[] = {
	{ "", "GET", tell },
	{ "", "DELETE", delete },
	{ "output", "GET", output },
	{ "stdin", "POST", process_write },
	{ "signal", "POST", signal_it },
	{ "resize", "POST", resize },
	{ "attach", "GET", process_attach },
};

static void serve_one(struct rt *rt, struct http_request *r, const char *id, const char *what)
{
	const char *allow = NULL;
	struct process *p = NULL;
	uint64_t n;
	autoptr(err) e = parse_uint(id, UINT64_MAX, &n);

	if (!e)
		p = process_find(rt, n);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!str_eq(rows[i].what, what))
			continue;
		allow = *what ? rows[i].method : "GET, DELETE";
		if (!str_eq(rows[i].method, http_request_method(r)))
			continue;
		if (p)
			rows[i].serve(p, r);
		else
			rest_error(r, 404, "NOT_FOUND", "no process %s", id);
		return;
	}
	rest_no_route(r, allow);
}

void processes_serve(struct face *f, struct http_request *r, const char *tail)
{
	size_t len = strcspn(tail, "/");
	autofree char *id = xstrndup(tail, len);

	if (*id)
		serve_one(f->rt, r, id, tail[len] ? tail + len + 1 : "");
	else if (str_eq(http_request_method(r), "POST"))
		create(f, r);
	else if (str_eq(http_request_method(r), "GET"))
		list_all(f, r);
	else
		rest_no_route(r, "GET, POST");
}
