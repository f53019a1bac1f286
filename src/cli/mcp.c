/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay mcp`: MCP over standard input and output, for clients that start their servers. Every line
 * is passed on to /mcp of the server that the kubeconfig names, so there is one implementation and
 * one place that decides. Nothing but the protocol is written to standard output.
 *
 *   line → initialize: others wait for its answer
 *        → cancellation: passed on, until the request has ended
 *        → any other: up to MCP_OPEN_MAX at a time
 *   end of input → the answers that are missing → DELETE → exit
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/mcp_priv.h"
#include "loop/loop.h"
#include "net/http_client.h"

enum {
	READ_LEN = 64 * 1024,
	LAST_WORDS_MS = 3000, /* for the end of the session */
};

static const char *const scopes[] = { "session", "user", NULL };

const struct setting mcp_settings[] = {
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE", "Which server, and as whom" },
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR",
	  "Where admin.kubeconfig is, if neither --kubeconfig nor $KUBECONFIG is given" },
	{ "namespace", SETTING_TEXT, NULL, "NAME",
	  "Namespace of calls that name none (by default that of the kubeconfig's context)" },
	{ "pool", SETTING_TEXT, NULL, "NAME", "Warm pool of create_sandbox if it names none" },
	{ "scope", SETTING_CHOICE, "session", "WHOSE",
	  "Sandboxes that tools reach: those of this `session`, or all of the `user`",
	  .choices = scopes },
	{ "cleanup", SETTING_BOOL, "false", NULL,
	  "Delete the sandboxes of this session when it ends" },
	{ 0 },
};

struct stdio {
	struct mcp_bridge b;
	struct watch *watch;  /* NULL: a file, which is always ready */
	struct timer *turn;   /* for a file */
	struct timer *finish; /* until DELETE has been answered */
	struct buf in;
	bool eof, skipping; /* the rest of a line that is too long */
	bool ending;
	struct signal_watch *term, *intr;
};

void mcp_say(const char *text, size_t len)
{
	(void)fwrite(text, 1, len, stdout); /* a client that has left closes our input too */
	(void)fputc('\n', stdout);
	(void)fflush(stdout);
}

void mcp_say_error(const char *id, int code, const char *text)
{
	autoptr(json_doc) d = json_doc_new();
	autoptr(json_doc) parsed = NULL;
	struct json *o = json_obj(d), *e;
	autobuf line = { 0 };

	if (id)
		err_free(json_parse(id, strlen(id), NULL, &parsed));
	json_set_str(d, o, "jsonrpc", "2.0");
	json_set(d, o, "id", parsed ? json_copy(d, json_root(parsed)) : json_new_null(d));
	e = json_need_obj(d, o, "error");
	json_set_int(d, e, "code", code);
	json_set_str(d, e, "message", text);
	json_write(o, &line);
	mcp_say(buf_str(&line), line.len);
}

/* The only place that decides whether input is read. */
static void arm(struct stdio *s)
{
	bool wanted = !s->eof && !s->ending && !s->b.opening && s->b.n_calls < MCP_OPEN_MAX &&
		      list_empty(&s->b.waiting);

	if (s->watch)
		watch_want(s->watch, wanted ? WATCH_READ : 0);
	else if (wanted)
		timer_set(s->turn, 0);
	else
		timer_clear(s->turn);
}

static void stop(void *arg)
{
	loop_stop(((struct stdio *)arg)->b.loop);
}

/* Ends the session, and then the program. */
static void finish(struct stdio *s)
{
	if (s->ending)
		return;
	s->ending = true;
	mcp_calls_cut(&s->b);
	timer_set(s->finish, s->b.session ? LAST_WORDS_MS : 0);
	if (s->b.session)
		mcp_call_start(&s->b, MCP_CALL_DELETE, NULL, NULL);
}

static void take_line(struct stdio *s, const char *text, size_t len)
{
	const struct json_limits limits = { .max_len = MCP_LINE_MAX };
	autoptr(json_doc) d = NULL;
	autoptr(err) e = NULL;
	const struct json *of;
	const char *method;

	if (!len || text[strspn(text, " \t\r")] == '\0')
		return;
	e = json_parse(text, len, &limits, &d);
	if (e) {
		mcp_say_error(NULL, -32700, err_text(e));
		return;
	}
	method = json_get_str(json_root(d), "method");
	if (str_eq(method, "initialize")) {
		free(s->b.hello);
		s->b.hello = xstrdup(text);
		s->b.opening = true;
		mcp_call_start(&s->b, MCP_CALL_HELLO, xstrdup(text), json_root(d));
		return;
	}
	of = json_at_path(json_root(d), "params.requestId");
	if (str_eq(method, "notifications/cancelled") && of) {
		autofree char *id = json_to_text(of);

		if (!mcp_call_forget(&s->b, id, text))
			return;
	}
	mcp_call_start(&s->b, MCP_CALL_MESSAGE, xstrdup(text), json_root(d));
}

/* A line, without its end; false: there is none, or others have to be waited for. */
static bool next_line(struct stdio *s)
{
	const char *stop_at = s->in.len ? memchr(buf_head(&s->in), '\n', s->in.len) : NULL;
	size_t len = stop_at ? (size_t)(stop_at - buf_head(&s->in)) : s->in.len;
	autofree char *line = NULL;

	if (s->b.opening || s->ending || s->b.n_calls >= MCP_OPEN_MAX || !list_empty(&s->b.waiting))
		return false;
	if (!stop_at && s->in.len > MCP_LINE_MAX) {
		if (!s->skipping)
			mcp_say_error(NULL, -32700, "the line is longer than 3 MiB");
		s->skipping = true;
		buf_clear(&s->in);
	}
	if (!stop_at && !(s->eof && s->in.len))
		return false;
	line = xstrndup(buf_head(&s->in), len);
	buf_eat(&s->in, stop_at ? len + 1 : len);
	if (!s->skipping)
		take_line(s, line, len);
	s->skipping = false;
	return true;
}

static void go_on(struct stdio *s)
{
	while (next_line(s))
		;
	if (s->eof && !s->in.len && !s->b.n_calls && list_empty(&s->b.waiting) && !s->ending)
		finish(s);
	arm(s);
}

static void on_changed(struct mcp_bridge *b)
{
	struct stdio *s = container_of(b, struct stdio, b);

	if (s->ending) {
		timer_set(s->finish, 0);
		return;
	}
	go_on(s);
}

static void on_input(void *arg, unsigned ready unused)
{
	struct stdio *s = arg;
	char data[READ_LEN];
	ssize_t n = read(STDIN_FILENO, data, sizeof(data));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		s->eof = true;
	else
		buf_add(&s->in, data, (size_t)n);
	go_on(s);
}

static void on_turn(void *arg)
{
	on_input(arg, WATCH_READ);
}

static void on_signal(void *arg, int signum unused)
{
	finish(arg);
}

static void add_param(struct buf *b, const char *name, const char *value)
{
	autofree char *text = value ? url_encode(value) : NULL;

	if (text)
		buf_printf(b, "&%s=%s", name, text);
}

static char *make_path(const struct settings *set, const struct cli_server *at)
{
	autobuf b = { 0 };

	buf_printf(&b, "/mcp?scope=%s", settings_text(set, "scope"));
	add_param(&b, "namespace", str_or(settings_text(set, "namespace"), at->ns));
	add_param(&b, "pool", settings_text(set, "pool"));
	if (settings_bool(set, "cleanup"))
		add_param(&b, "cleanup", "true");
	return buf_steal(&b, NULL);
}

static struct err *stdio_start(struct stdio *s, const struct settings *set)
{
	static const struct http_limits limits = { .idle_ms = 60 * 1000 };
	autofree char *kubeconfig = NULL;
	struct err *e = cli_kubeconfig_find(settings_text(set, "kubeconfig"),
					    settings_text(set, "data-dir"), &kubeconfig);
	struct stat st;

	if (!e)
		e = cli_server_find(kubeconfig, &s->b.at);
	if (!e)
		e = loop_new(&s->b.loop);
	if (e)
		return e;
	s->b.path = make_path(set, &s->b.at);
	s->b.pool = http_pool_new(s->b.loop, &limits, MCP_OPEN_MAX);
	http_pool_set_wrap(s->b.pool, cli_server_wrap, &s->b.at);
	s->finish = timer_new(s->b.loop, stop, s);
	s->turn = timer_new(s->b.loop, on_turn, s);
	s->term = signal_watch_new(s->b.loop, SIGTERM, on_signal, s);
	s->intr = signal_watch_new(s->b.loop, SIGINT, on_signal, s);
	if (fstat(STDIN_FILENO, &st) < 0)
		return err_sys(errno, "read standard input");
	if (!S_ISREG(st.st_mode))
		s->watch = watch_new(s->b.loop, STDIN_FILENO, on_input, s);
	arm(s);
	return NULL;
}

static void stdio_done(struct stdio *s)
{
	mcp_calls_cut(&s->b);
	http_pool_free(s->b.pool);
	watch_free(s->watch);
	timer_free(s->turn);
	timer_free(s->finish);
	signal_watch_free(s->term);
	signal_watch_free(s->intr);
	loop_free(s->b.loop);
	cli_server_done(&s->b.at);
	buf_done(&s->in);
	free(s->b.path);
	free(s->b.session);
	free(s->b.version);
	free(s->b.hello);
}

int mcp_run(const struct command *c unused, const struct settings *set)
{
	struct stdio s = { .b.changed = on_changed };
	struct err *e;

	list_init(&s.b.calls);
	list_init(&s.b.waiting);
	e = stdio_start(&s, set);
	if (!e)
		loop_run(s.b.loop);
	stdio_done(&s);
	return e ? cli_fail(err_wrap(e, "mcp")) : EXIT_OK;
}
