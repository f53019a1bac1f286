/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/str.h"
#include "rig.h"
#include "router/callers/pass.h"
#include "router/router_priv.h"

/* What requests by host and path show, and what becomes of it on its way. */
#define DOMAIN "sandbox.localhost"
static const struct router_spec all_ways = { .domain = DOMAIN,
					     .path_prefix = "/s",
					     .pass_key = "0123456789abcdef0123456789abcdef",
					     .pass_key_len = 32 };

/* Trusts whoever has connected, as far as it is told of anybody. */
static struct err *trusts(void *arg, const struct router_ask *ask, unused struct list **ret_wait)
{
	size_t *n_asked = arg;

	(*n_asked)++;
	return ask->caller.trusted ? NULL : err_new(ERR_UNAUTHENTICATED, "who are you");
}

struct house {
	struct rig g;
	size_t n_asked;
};

static void house_open(struct house *h, bool tell_callers)
{
	struct router_spec spec = all_ways;

	spec.tell_callers = tell_callers;
	*h = (struct house){ 0 };
	rig_start(&h->g, &spec);
	rig_ready(&h->g, "box", "127.0.0.2");
	rig_ready(&h->g, "other", "127.0.0.2");
	router_set_policy(h->g.router, trusts, &h->n_asked);
}

/* malloc'd; more: further header lines, each with its end. */
static char *ask(struct house *h, const char *line, const char *host, const char *more)
{
	int fd = rig_connect(&h->g);
	char *answer;

	rig_send(&h->g, fd, "%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", line, host,
		 more);
	answer = rig_read(&h->g, fd, NULL);
	(void)close(fd);
	return answer;
}

/* A pass for port of box, made by the router itself. */
static char *mint(struct house *h, const char *body)
{
	autofree char *more = xasprintf("X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"
					"Content-Length: %zu\r\n",
					h->g.port, strlen(body));
	int fd = rig_connect(&h->g);
	char *answer;

	rig_send(&h->g, fd,
		 "POST /.cay/url HTTP/1.1\r\nHost: localhost:7\r\nConnection: close\r\n%s\r\n%s",
		 more, body);
	answer = rig_read(&h->g, fd, NULL);
	(void)close(fd);
	return answer;
}

/* What follows the first `from`, up to one of `until`. malloc'd. */
static char *cut_out(const char *text, const char *from, const char *until)
{
	const char *at = strstr(text, from);

	if (!at)
		fail_msg("\"%s\" is not in: %s", from, text);
	at += strlen(from);
	return xstrndup(at, strcspn(at, until));
}

static char *token(struct house *h)
{
	autofree char *answer = NULL;

	router_set_policy(h->g.router, NULL, NULL);
	answer = mint(h, "");
	router_set_policy(h->g.router, trusts, &h->n_asked);
	return cut_out(answer, "\"token\":\"", "\"");
}

static bool has(const char *text, const char *part)
{
	if (!strstr(text, part))
		print_error("\"%s\" is not in: %s\n", part, text);
	return strstr(text, part);
}

TEST(who_has_connected_is_told_by_header_alone)
{
	struct house h;
	autofree char *by_header = NULL, *by_host = NULL, *by_path = NULL, *browser = NULL;
	autofree char *name = NULL, *path = NULL, *id = NULL, *fetched = NULL;

	house_open(&h, true);
	name = xasprintf("%u-box.default." DOMAIN, h.g.port);
	path = xasprintf("GET /s/default/box/%u/", h.g.port);
	id = xasprintf("X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n", h.g.port);
	fetched = xasprintf("%sSec-Fetch-Site: same-origin\r\n", id);
	by_header = ask(&h, "GET /", "localhost", id);
	by_host = ask(&h, "GET /", name, "");
	by_path = ask(&h, path, "localhost", "");
	browser = ask(&h, "GET /", "localhost", fetched);
	eq_int(rig_status(by_header), 201); /* this process is the router's own user */
	eq_int(rig_status(by_host), 401);
	eq_int(rig_status(by_path), 401);
	eq_int(rig_status(browser), 401);
	eq_int(h.n_asked, 4);
	eq_int(h.g.n_requests, 1);
	rig_stop(&h.g);
}

TEST(a_signed_url_leads_to_a_cookie_and_neither_to_the_sandbox)
{
	struct house h;
	autofree char *pass = NULL, *line = NULL, *name = NULL, *moved = NULL, *cookie = NULL;
	autofree char *more = NULL, *in = NULL, *where = NULL, *to = NULL;

	house_open(&h, false);
	pass = token(&h);
	name = xasprintf("%u-box.default." DOMAIN ":9", h.g.port);
	line = xasprintf("GET //x/y?a=1&" ENTRY_PARAM "=%s&b=2", pass);
	moved = ask(&h, line, name, "");
	eq_int(rig_status(moved), 303);
	is_true(rig_counted(&h.g, "{method=\"GET\",code=\"303\",sandbox_namespace=\"-\"} 1\n"));
	where = cut_out(moved, "Location: ", "\r");
	to = xasprintf("http://%s//x/y?a=1&b=2", name);
	eq_str(where, to);
	cookie = cut_out(moved, "Set-Cookie: ", ";");
	more = xasprintf("Cookie: a=1; %s\r\nCookie: b=2\r\n", cookie);
	in = ask(&h, "GET /?c", name, more);
	eq_int(rig_status(in), 201);
	is_true(has(in, "GET /?c\n"));
	is_true(has(in, "Cookie: a=1\n"));
	is_true(has(in, "Cookie: b=2\n"));
	is_false(strstr(in, "cay-door"));
	eq_int(h.n_asked, 0);
	rig_stop(&h.g);
}

TEST(a_bad_parameter_decides_and_a_bad_cookie_gives_way_to_a_token)
{
	struct house h;
	autofree char *name = NULL, *param = NULL, *cookie = NULL;

	house_open(&h, false);
	name = xasprintf("%u-box.default." DOMAIN, h.g.port);
	param = ask(&h, "GET /?" ENTRY_PARAM "=u1.x", name, "Authorization: Bearer t\r\n");
	eq_int(rig_status(param), 401);
	eq_int(h.n_asked, 0);
	cookie = ask(&h, "GET /", name, "Cookie: cay-door=c1.x\r\nAuthorization: Bearer t\r\n");
	is_true(has(cookie, "who are you"));
	eq_int(h.n_asked, 1);
	rig_stop(&h.g);
}

TEST(without_tls_there_are_cookies_below_localhost_only)
{
	static const struct {
		const char *domain;
		bool cookies;
	} rows[] = {
		{ "localhost", true },
		{ "a.b.localhost", true },
		{ "sandbox.example.com", false },
		{ "notlocalhost", false },
		{ "localhost.example.com", false },
	};
	const struct tls_seal_key key = { all_ways.pass_key, all_ways.pass_key_len };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct house h = { 0 };
		struct router_spec spec = all_ways;
		struct pass p = { .ns = "default",
				  .id = "box",
				  .uid = "uid-box",
				  .expires = clock_wall() / 1000000 + 60 };
		autofree char *name = NULL, *url = NULL, *cookie = NULL, *line = NULL, *more = NULL;
		autofree char *opened = NULL, *in = NULL;

		spec.domain = rows[i].domain;
		rig_start(&h.g, &spec);
		rig_ready(&h.g, "box", "127.0.0.2");
		router_set_policy(h.g.router, trusts, &h.n_asked);
		p.port = h.g.port;
		url = pass_seal(&key, PASS_URL, &p);
		cookie = pass_seal(&key, PASS_COOKIE, &p);
		name = xasprintf("%u-box.default.%s", h.g.port, rows[i].domain);
		line = xasprintf("GET /?" ENTRY_PARAM "=%s", url);
		more = xasprintf("Cookie: %s=%s\r\n", entry_cookie_name(false), cookie);
		opened = ask(&h, line, name, "");
		in = ask(&h, "GET /", name, more);
		eq_int(rig_status(opened), rows[i].cookies ? 303 : 403);
		is_true(has(opened, rows[i].cookies ? "Set-Cookie: " : "--router-tls-listen"));
		eq_int(rig_status(in), rows[i].cookies ? 201 : 401);
		rig_stop(&h.g);
	}
}

TEST(methods_that_cannot_be_redirected_go_on_without_the_parameter)
{
	struct house h;
	autofree char *pass = NULL, *line = NULL, *name = NULL, *posted = NULL, *path = NULL;
	autofree char *by_path = NULL;

	house_open(&h, false);
	pass = token(&h);
	name = xasprintf("%u-box.default." DOMAIN, h.g.port);
	line = xasprintf("POST /x?" ENTRY_PARAM "=%s", pass);
	posted = ask(&h, line, name, "Content-Length: 0\r\n");
	eq_int(rig_status(posted), 201);
	is_true(has(posted, "POST /x\n"));
	path = xasprintf("GET /s/default/box/%u?" ENTRY_PARAM "=%s", h.g.port, pass);
	by_path = ask(&h, path, "localhost", "");
	eq_int(rig_status(by_path), 201);
	is_true(has(by_path, "GET /\n"));
	is_true(has(by_path, "Content-Security-Policy: sandbox"));
	rig_stop(&h.g);
}

TEST(a_pass_goes_with_the_uid_it_was_made_for)
{
	struct house h;
	autofree char *pass = NULL, *name = NULL, *more = NULL, *before = NULL, *after = NULL;
	autofree char *ghost = NULL;

	house_open(&h, false);
	pass = token(&h);
	name = xasprintf("%u-box.default." DOMAIN, h.g.port);
	more = xasprintf("Authorization: Bearer %s\r\n", pass);
	before = ask(&h, "GET /", name, more);
	eq_int(rig_status(before), 201);
	rig_delete(&h.g, "box");
	ghost = ask(&h, "GET /", name, more);
	eq_int(rig_status(ghost), 502);
	rig_sandbox(&h.g, "box",
		    "{\"metadata\":{\"uid\":\"another\"},\"status\":{\"podIPs\":[\"127.0.0.2\"],"
		    "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}");
	after = ask(&h, "GET /", name, more);
	eq_int(rig_status(after), 403);
	eq_int(h.g.n_requests, 1);
	rig_stop(&h.g);
}

TEST(no_tunnel_hides_requests_that_a_pass_does_not_permit)
{
	static const struct {
		bool by_pass;
		const char *to, *seen;
	} rows[] = {
		{ false, "websocket", "Upgrade: websocket\n" },
		{ false, "echo", "Upgrade: echo\n" },
		{ false, "h2c", NULL },
		{ false, "H2C", NULL },
		{ false, "websocket, h2c", NULL },
		{ false, "websocket\r\nUpgrade: h2c", NULL },
		{ true, "websocket", "Upgrade: websocket\n" },
		{ true, "WebSocket", "Upgrade: WebSocket\n" },
		{ true, "h2c", NULL },
		{ true, "echo", NULL },
		{ true, "websocket, echo", NULL },
		{ true, "websocket/13", NULL },
	};
	struct house h;
	autofree char *pass = NULL;

	house_open(&h, true);
	pass = token(&h);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *more =
			xasprintf("X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"
				  "Authorization: %s %s\r\nConnection: Upgrade\r\n"
				  "HTTP2-Settings: AAMAAABk\r\nUpgrade: %s\r\n",
				  h.g.port, rows[i].by_pass ? "Bearer" : "None", pass, rows[i].to);
		autofree char *a = ask(&h, "GET /", "localhost", more);

		eq_int(rig_status(a), 201);
		is_false(strstr(a, "HTTP2-Settings"));
		if (rows[i].seen)
			is_true(has(a, rows[i].seen));
		else
			is_false(strstr(a, "Upgrade"));
	}
	rig_stop(&h.g);
}

TEST(what_is_asked_for_in_a_signed_url_is_checked)
{
	static const struct {
		const char *body;
		int status;
		const char *part;
	} rows[] = {
		{ "{}", 200, "-box.default." DOMAIN ":7/?" ENTRY_PARAM "=u1." },
		{ "{\"via\":\"path\"}", 200, "http://localhost:7/s/default/box/" },
		{ "{\"path\":\"/a/b\",\"methods\":[\"GET\"]}", 200, "/a/b?" ENTRY_PARAM },
		{ "{\"via\":\"pigeon\"}", 400, "via: host or path" },
		{ "{\"ttlSeconds\":0}", 400, "ttlSeconds: 1 to 86400" },
		{ "{\"ttlSeconds\":86401}", 400, "ttlSeconds: 1 to 86400" },
		{ "{\"ttlSeconds\":\"1h\"}", 400, "ttlSeconds: 1 to 86400" },
		{ "{\"path\":\"a\"}", 400, "path: begins with a slash" },
		{ "{\"path\":\"/a/../b\"}", 400, "path: begins with a slash" },
		{ "{\"path\":7}", 400, "path: begins with a slash" },
		{ "{\"methods\":\"GET\"}", 400, "methods: a list" },
		{ "{\"methods\":[\"get\"]}", 400, "methods: a short list" },
		{ "[]", 400, "no JSON object" },
		{ "{", 400, "detail" },
	};
	struct house h;

	house_open(&h, false);
	router_set_policy(h.g.router, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *a = mint(&h, rows[i].body);

		eq_int(rig_status(a), rows[i].status);
		is_true(has(a, rows[i].part));
	}
	is_true(rig_counted(&h.g, "{method=\"POST\",code=\"200\",sandbox_namespace=\"-\"} 3\n"));
	is_true(rig_counted(&h.g, "{method=\"POST\",code=\"400\",sandbox_namespace=\"-\"} 11\n"));
	eq_int(h.g.n_requests, 0);
	rig_stop(&h.g);
}
