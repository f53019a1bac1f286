/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "net/http_client.h"
#include "rig.h"
#include "router/router_priv.h"

/*
 * The access log: whoever answers, there is one line, with the status that the client was told. The
 * lines are read from standard error, which is a file during a test.
 */
#define LINE   "request sandbox="
#define TO_BOX "X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"
#define DOMAIN "sandbox.localhost"
#define READY                                                                   \
	"{\"status\":{\"podIPs\":[\"127.0.0.2\"],\"conditions\":[{\"type\":"    \
	"\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"2026-01-01T00:" \
	"00:00Z\"}]}}"

struct logged {
	struct rig g;
	int file, old;
};

static void logged_start(struct logged *t, const struct router_spec *spec)
{
	*t = (struct logged){ .g = { .access_log = true } };
	t->old = dup(STDERR_FILENO);
	t->file = memfd_create("log", MFD_CLOEXEC);
	rig_start(&t->g, spec);
	is_true(dup2(t->file, STDERR_FILENO) >= 0);
}

/* What was logged so far; malloc'd. */
static char *log_text(const struct logged *t)
{
	char *text = xmalloc(1 << 20);
	ssize_t n = pread(t->file, text, (1 << 20) - 1, 0);

	is_true(n >= 0);
	text[n] = '\0';
	return text;
}

static size_t n_of(const struct logged *t, const char *part)
{
	autofree char *text = log_text(t);
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, part)); p++)
		n++;
	return n;
}

static void logged_stop(struct logged *t)
{
	rig_stop(&t->g);
	is_true(dup2(t->old, STDERR_FILENO) >= 0);
	(void)close(t->old);
	(void)close(t->file);
}

/* Exactly one line, which has all of what is wanted. */
static bool is_line(struct logged *t, const char *wanted)
{
	autofree char *text = NULL, *line = NULL;

	until(t->g.l, n_of(t, LINE) >= 1);
	rig_settle(&t->g); /* a second one would come now */
	text = log_text(t);
	line = xstrndup(strstr(text, LINE), strcspn(strstr(text, LINE), "\n"));
	if (n_of(t, LINE) == 1 && strstr(line, wanted))
		return true;
	is_true(dup2(t->old, STDERR_FILENO) >= 0);
	print_error("not one line with \"%s\": %s\n", wanted, text);
	return false;
}

static struct err *refuse(void *arg, unused const struct router_ask *ask,
			  unused struct list **ret_wait)
{
	return err_new(*(enum err_code *)arg, "no");
}

static struct list undecided = { &undecided, &undecided };

static struct err *never_decides(unused void *arg, unused const struct router_ask *ask,
				 struct list **ret_wait)
{
	*ret_wait = &undecided;
	return NULL;
}

static int connected[512];

static void send_first(struct rig *g, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		connected[i] = rig_connect(g);
		rig_send(g, connected[i], "GET /first HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n",
			 g->port);
	}
}

static void let_one_wait(struct rig *g)
{
	router_set_policy(g->router, never_decides, NULL);
	send_first(g, 1);
	until(g->l, !list_empty(&undecided));
}

static void let_many_wait(struct rig *g)
{
	struct router_stats s;

	send_first(g, ARRAY_LEN(connected));
	until(g->l, (router_stats(g->router, &s), s.held == ARRAY_LEN(connected)));
}

/* One way to be answered by the router, or by the HTTP server below it. */
struct way {
	const char *what;
	int status;
	const char *sandbox;          /* as logged; NULL: the request names none */
	const char *target;           /* of a GET; NULL: raw */
	const char *more;             /* header lines, with %u for the port, or all of it if raw */
	const char *object;           /* the Sandbox box; NULL: there is none */
	enum err_code refused;        /* by the policy; 0: it lets everybody in */
	void (*before)(struct rig *); /* NULL: nothing */
	struct router_spec spec;
};

#define SMALL_KEY .pass_key = "0123456789abcdef0123456789abcdef", .pass_key_len = 32
static const char *const our_host[] = { "front.example", NULL };
static const char *const other_host[] = { "other.example", NULL };

static const struct way ways[] = {
	{ "health", 200, NULL, "/healthz", "" },
	{ "no sandbox named", 400, NULL, "/x?" ENTRY_PARAM "=secret", "" },
	{ "not our host", 421, "box", "/x", TO_BOX, .spec = { .hosts = other_host } },
	{ "unauthenticated", 401, "box", "/x", TO_BOX, READY, ERR_UNAUTHENTICATED },
	{ "forbidden", 403, "box", "/x", TO_BOX, READY, ERR_FORBIDDEN },
	{ "policy is full", 503, "box", "/x", TO_BOX, READY, ERR_EXHAUSTED },
	{ "policy is away", 500, "box", "/x", TO_BOX, READY, ERR_UNAVAILABLE },
	{ "policy broke", 500, "box", "/x", TO_BOX, READY, ERR_INVALID },
	{ "forged pass", 401, "box", "/x?" ENTRY_PARAM "=forged", "",
	  .spec = { .domain = DOMAIN, SMALL_KEY } },
	{ "too many undecided", 503, "box", "/x", TO_BOX, READY, 0, let_one_wait,
	  .spec = { .max_waiting = 1 } },
	{ "no such sandbox", 502, "box", "/x", TO_BOX },
	{ "another uid", 502, "box", "/x",
	  TO_BOX "X-Sandbox-UID: 00000000-0000-4000-8000-000000000000\r\n", READY },
	{ "suspended", 502, "box", "/x", TO_BOX, "{\"spec\":{\"operatingMode\":\"Suspended\"}}" },
	{ "held too long", 504, "box", "/x", TO_BOX, "{}", .spec = { .hold_ms = 1 } },
	{ "too many held", 503, "box", "/x", TO_BOX, "{}", 0, let_many_wait },
	{ "silent", 504, "box", "/wait", TO_BOX, READY, .spec = { .head_timeout_ms = 20 } },
	{ "nothing listens", 502, "box", "/x", "X-Sandbox-ID: box\r\nX-Sandbox-Port: 1\r\n", READY,
	  .spec = { .has_retry = true } },
	{ "body announced too large", 413, "box", NULL,
	  "POST /x HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX
	  "Content-Length: 3\r\n\r\nabc",
	  READY, .spec = { .max_body = 2 } },
	{ "body turned out too large", 413, "box", NULL,
	  "POST /x HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX
	  "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	  READY, .spec = { .max_body = 2 } },
	{ "body torn", 400, "box", NULL,
	  "POST /wait HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX
	  "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
	  READY },
	{ "URL not signed", 400, "box", NULL,
	  "POST /.cay/url HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX "\r\n", READY },
	{ "URL of nothing", 404, "box", NULL,
	  "POST /.cay/url HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX "\r\n",
	  .spec = { .domain = DOMAIN, SMALL_KEY } },
	{ "URL signed", 200, "box", NULL,
	  "POST /.cay/url HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX "\r\n", READY,
	  .spec = { .domain = DOMAIN, SMALL_KEY } },
	{ "wish too long", 413, "box", NULL,
	  "POST /.cay/url HTTP/1.1\r\nHost: f\r\nConnection: close\r\n" TO_BOX
	  "Content-Length: 5000\r\n\r\n",
	  READY, .spec = { .domain = DOMAIN, SMALL_KEY } },
	{ "no head", 400, NULL, NULL, "rubbish\r\n\r\n" },
	{ "two hosts", 400, NULL, NULL, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" },
	{ "answered by the sandbox", 201, "box", "/x", TO_BOX, READY },
	{ "answered by the sandbox to its host", 201, "box", "/x", TO_BOX, READY,
	  .spec = { .hosts = our_host } },
};

/* malloc'd */
static char *ask_by(struct rig *g, const struct way *w)
{
	bool by_host = w->spec.domain && w->target;
	autobuf b = { 0 };
	char *answer;
	int fd = rig_connect(g);

	if (w->target)
		buf_printf(&b, "GET %s HTTP/1.1\r\nConnection: close\r\nHost: ", w->target);
	if (w->target && by_host)
		buf_printf(&b, "%u-box.default." DOMAIN "\r\n", g->port);
	else if (w->target)
		buf_add_str(&b, "front.example\r\n");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	buf_printf(&b, w->more, g->port); /* one of the table above */
#pragma GCC diagnostic pop
	if (w->target)
		buf_add_str(&b, "\r\n");
	rig_send(g, fd, "%s", buf_str(&b));
	answer = rig_read(g, fd, NULL);
	(void)close(fd);
	return answer;
}

static void check_way(const struct way *w)
{
	enum err_code code = w->refused;
	autofree char *answer = NULL, *status = xasprintf("status=%d ", w->status);
	autofree char *sandbox = xasprintf(LINE "%s ", w->sandbox ? w->sandbox : "-");
	struct logged t;

	logged_start(&t, &w->spec);
	if (w->object)
		rig_sandbox(&t.g, "box", w->object);
	if (w->refused)
		router_set_policy(t.g.router, refuse, &code);
	if (w->before)
		w->before(&t.g);
	answer = ask_by(&t.g, w);
	eq_int(rig_status(answer), w->status);
	if (!is_line(&t, status) || !is_line(&t, sandbox) ||
	    (w->target && !is_line(&t, str_eq(w->target, "/healthz") ? "method=GET path=/healthz "
								     : "method=GET path=/")) ||
	    n_of(&t, ENTRY_PARAM))
		fail_msg("%s: its line is wrong", w->what);
	logged_stop(&t);
	for (size_t i = 0; i < ARRAY_LEN(connected); i++) {
		if (connected[i])
			(void)close(connected[i]);
		connected[i] = 0;
	}
}

TEST(every_answer_is_one_line_of_the_access_log)
{
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		check_way(&ways[i]);
}

TEST(the_exchange_of_a_signed_url_is_a_line_without_the_pass)
{
	static const struct router_spec spec = { .domain = DOMAIN, SMALL_KEY };
	autofree char *made = NULL, *token = NULL, *ask = NULL, *moved = NULL;
	struct logged t;
	struct way w = { .status = 303, .more = "", .spec = spec };

	logged_start(&t, &spec);
	rig_sandbox(&t.g, "box", READY);
	made = rig_ask(&t.g, "POST /.cay/url", TO_BOX, t.g.port);
	token = xstrdup(strstr(made, "\"token\":\"") + strlen("\"token\":\""));
	token[strcspn(token, "\"")] = '\0';
	until(t.g.l, n_of(&t, LINE) == 1);
	is_true(ftruncate(t.file, 0) == 0 && lseek(t.file, 0, SEEK_SET) == 0);
	ask = xasprintf("/page?" ENTRY_PARAM "=%s", token);
	w.target = ask;
	moved = ask_by(&t.g, &w);
	eq_int(rig_status(moved), 303);
	is_true(is_line(&t, LINE "box "));
	is_true(is_line(&t, "path=/page "));
	is_true(is_line(&t, "status=303 "));
	eq_int(n_of(&t, token), 0);
	logged_stop(&t);
}

TEST(a_tunnel_is_one_line_and_its_end_another)
{
	autofree char *head = NULL;
	struct logged t;
	int fd;

	logged_start(&t, NULL);
	rig_sandbox(&t.g, "box", READY);
	fd = rig_connect(&t.g);
	rig_send(
		&t.g, fd,
		"GET /upgrade HTTP/1.1\r\nHost: f\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" TO_BOX
		"\r\n",
		t.g.port);
	head = rig_read(&t.g, fd, "hello ");
	eq_int(rig_status(head), 101);
	is_true(is_line(&t, "path=/upgrade "));
	eq_int(n_of(&t, "tunnel ended"), 0);
	(void)close(fd);
	until(t.g.l, n_of(&t, "tunnel ended") == 1);
	is_true(is_line(&t, "status=101 "));
	logged_stop(&t);
}

TEST(a_client_that_leaves_is_a_line_without_status)
{
	struct logged t;

	logged_start(&t, NULL);
	rig_sandbox(&t.g, "box", READY);
	connected[0] = rig_connect(&t.g);
	rig_send(&t.g, connected[0], "GET /wait HTTP/1.1\r\nHost: f\r\n" TO_BOX "\r\n", t.g.port);
	until(t.g.l, t.g.waiting);
	(void)close(connected[0]);
	connected[0] = 0;
	is_true(is_line(&t, "status=0 "));
	logged_stop(&t);
}

/* HTTP/2 */

static void got_head(void *arg, int status, unused struct http_headers *h)
{
	*(int *)arg = status;
}

static void got_data(unused void *arg, unused const char *data, unused size_t len)
{
}

static void got_end(unused void *arg, unused struct http_headers *trailers)
{
}

static void got_failure(void *arg, unused const struct err *e)
{
	*(int *)arg = -1;
}

struct h2_ask {
	const char *method, *name, *value; /* one more header */
	size_t n;                          /* and how often */
};

static struct http_exchange *h2_start(struct logged *t, struct http_pool *pool,
				      const struct h2_ask *a, int *status)
{
	static const struct http_exchange_events events = {
		.head = got_head, .data = got_data, .end = got_end, .failed = got_failure
	};
	struct http_headers h = { 0 };
	struct http_exchange *x;
	char port[8];

	*status = 0;
	(void)snprintf(port, sizeof(port), "%u", t->g.port);
	http_headers_add(&h, "Host", "127.0.0.1");
	http_headers_add(&h, "Content-Type", "application/grpc");
	http_headers_add(&h, "X-Sandbox-ID", "box");
	http_headers_add(&h, "X-Sandbox-Port", port);
	for (size_t i = 0; i < a->n; i++)
		http_headers_add(&h, a->name, a->value);
	x = http_exchange_start(pool,
				&(struct http_exchange_spec){ .version = 2,
							      .addr = router_address(t->g.router),
							      .method = a->method,
							      .target = "/wait",
							      .headers = &h,
							      .body_len = 0 },
				&events, status);
	http_headers_done(&h);
	return x;
}

TEST(answers_by_http2_are_lines_too)
{
	static const struct {
		struct h2_ask ask;
		int told, logged; /* a call is told of its failure in the trailers */
		const char *sandbox;
	} rows[] = {
		{ { "POST", "grpc-timeout", "soon", 1 }, 200, 400, "box" },
		{ { "POST", "grpc-timeout", "1m", 1 }, 200, 504, "box" },
		{ { "GET", "X-Many", "x", 300 }, 431, 431, "-" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *wanted = xasprintf("status=%d ", rows[i].logged);
		autofree char *sandbox = xasprintf(LINE "%s ", rows[i].sandbox);
		struct http_pool *pool;
		struct logged t;
		int status;

		logged_start(&t, NULL);
		rig_sandbox(&t.g, "box", READY);
		pool = http_pool_new(t.g.l, NULL, 1);
		(void)h2_start(&t, pool, &rows[i].ask, &status);
		until(t.g.l, status);
		eq_int(status, rows[i].told);
		is_true(is_line(&t, wanted));
		is_true(is_line(&t, sandbox));
		http_pool_free(pool);
		logged_stop(&t);
	}
}

TEST(too_many_under_way_is_a_line)
{
	static const struct h2_ask plain = { .method = "GET" };
	struct http_exchange *first;
	struct http_pool *pool;
	struct logged t;
	int one, two;

	logged_start(&t, &(struct router_spec){ .max_conns = 1 });
	rig_sandbox(&t.g, "box", READY);
	pool = http_pool_new(t.g.l, NULL, 1);
	first = h2_start(&t, pool, &plain, &one);
	until(t.g.l, t.g.waiting);
	(void)h2_start(&t, pool, &plain, &two);
	until(t.g.l, two);
	eq_int(two, 503);
	is_true(is_line(&t, "status=503 "));
	http_exchange_cancel(first);
	until(t.g.l, n_of(&t, LINE) == 2);
	http_pool_free(pool);
	logged_stop(&t);
}
