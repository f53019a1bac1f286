/* SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "page/page_priv.h"
#include "rig.h"
#include "test.h"

/* "<title>page</title>\n" and "run();\n" */
static const unsigned char index_gz[] = { 31,  139, 8,   0,   0,   0,   0,  0,  2,  3,   179, 41,
					  201, 44,  201, 73,  181, 43,  72, 76, 79, 181, 209, 135,
					  176, 185, 0,   104, 112, 159, 58, 20, 0,  0,   0 };
static const unsigned char script_gz[] = { 31, 139, 8,   0,   0,   0,   0,   0,   2,
					   3,  43,  42,  205, 211, 208, 180, 230, 2,
					   0,  186, 183, 11,  21,  7,   0,   0,   0 };
static const struct page_file some[] = {
	{ "assets/main-1.js", "text/javascript", "\"s\"", script_gz, sizeof(script_gz), 7 },
	{ "assets/torn.js", "text/javascript", "\"t\"", script_gz, sizeof(script_gz), 6 },
	{ "index.html", "text/html", "\"i\"", index_gz, sizeof(index_gz), 20 },
	{ "licences.txt", "text/plain", "\"l\"", script_gz, sizeof(script_gz), 7 },
};
static const struct page_files files = { some, ARRAY_LEN(some) };
static const struct page_files none = { NULL, 0 };

TEST(a_path_is_a_file_a_view_or_nothing)
{
	static const struct {
		const char *method, *path;
		int status;
		const char *file;
		bool immutable;
	} rows[] = {
		{ "GET", "/ui", 308 },
		{ "HEAD", "/ui", 308 },
		{ "GET", "/ui/", 200, "index.html" },
		{ "GET", "/ui/index.html", 200, "index.html" },
		{ "GET", "/ui/licences.txt", 200, "licences.txt" },
		{ "GET", "/ui/assets/main-1.js", 200, "assets/main-1.js", true },
		{ "HEAD", "/ui/assets/main-1.js", 200, "assets/main-1.js", true },
		{ "GET", "/ui/sandboxes", 200, "index.html" },
		{ "GET", "/ui/sandboxes/default/box", 200, "index.html" },
		{ "GET", "/ui/sandboxes/default/a.box", 200, "index.html" },
		{ "GET", "/ui/assets", 200, "index.html" },
		{ "GET", "/ui/assets/", 404 },
		{ "GET", "/ui/assets/main-2.js", 404 },
		{ "GET", "/ui/assets/main", 404 },
		{ "GET", "/ui/assets/../index.html", 404 },
		{ "GET", "/ui/favicon.ico", 404 },
		{ "GET", "/ui/.env", 404 },
		{ "POST", "/ui/", 405 },
		{ "POST", "/ui", 405 },
		{ "DELETE", "/ui/assets/main-1.js", 405 },
		{ "OPTIONS", "/ui/", 405 },
		{ "TRACE", "/ui/", 405 },
		{ "get", "/ui/", 405 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct file_answer a = files_find(&files, rows[i].method, rows[i].path);

		if (a.status != rows[i].status ||
		    !str_eq(a.file ? a.file->path : NULL, rows[i].file) ||
		    a.immutable != rows[i].immutable)
			fail_msg("%s %s: %d %s", rows[i].method, rows[i].path, a.status,
				 a.file ? a.file->path : "nothing");
	}
	eq_int(files_find(&none, "GET", "/ui/").status, 404);
}

TEST(gzip_is_for_those_who_say_so)
{
	static const char *const yes[] = { "gzip", "GZIP",       "br, gzip",        "gzip;q=0.1",
					   "*",    "gzip ; q=1", "deflate,*;q=0.5", "*;q=0,gzip" };
	static const char *const no[] = { "",      "br",    "gzip;q=0",   "gzip; q=0.000",
					  "*;q=0", "xgzip", "gzip;q=0,*", "identity" };

	is_false(accepts_gzip(NULL));
	for (size_t i = 0; i < ARRAY_LEN(yes); i++)
		if (!accepts_gzip(yes[i]))
			fail_msg("%s", yes[i]);
	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		if (accepts_gzip(no[i]))
			fail_msg("%s", no[i]);
}

TEST(an_etag_is_known_weak_or_strong_alone_or_in_a_list)
{
	is_true(etag_known("\"a\"", "\"a\""));
	is_true(etag_known("W/\"a\"", "\"a\""));
	is_true(etag_known("\"b\", W/\"a\"", "\"a\""));
	is_true(etag_known("*", "\"a\""));
	is_false(etag_known(NULL, "\"a\""));
	is_false(etag_known("", "\"a\""));
	is_false(etag_known("a", "\"a\""));
	is_false(etag_known("\"ab\"", "\"a\""));
}

/* A server with the page and nothing else, whose visitor is always the same. */
struct place {
	struct loop *l;
	struct http_server *server;
	struct page *page;
	struct page_visitor who;
	int fd;
	int n_records, last_status;
	int64_t asked_until;
};

static void on_head(void *arg, struct http_request *r)
{
	struct place *p = arg;
	const char *path = http_request_path(r);

	if (str_eq(path, PAGE_SESSIONS))
		page_visit_sessions(p->page, r);
	else if (str_starts(path, PAGE_SELF))
		page_visit(p->page, r, &p->who);
	else
		page_visit_files(p->page, r);
}

static bool shows(void *arg unused, const char *group)
{
	return !str_starts(group, "cay:");
}

static struct err *token(void *arg, const struct page_visitor *who, int64_t *expires, char **ret)
{
	struct place *p = arg;

	p->asked_until = *expires;
	*ret = xasprintf("token-of-%s-%s", who->user, who->groups[0]);
	return NULL;
}

static struct err *url(void *arg unused, const struct page_visitor *who, const struct page_port *to,
		       char **ret, int64_t *ret_expires)
{
	if (str_eq(to->sandbox, "none"))
		return err_new(ERR_NOT_FOUND, "there is no sandbox none");
	*ret = xasprintf("http://%u-%s.%s.x/?%s", to->port, to->sandbox, to->ns, who->user);
	*ret_expires = 60;
	return NULL;
}

static void record(void *arg, const struct page_record *r)
{
	struct place *p = arg;

	p->n_records++;
	p->last_status = r->status;
}

static void refuse(struct http_request *r, struct err *e, const struct http_headers *h)
{
	static const struct {
		enum err_code code;
		int status;
	} rows[] = { { ERR_UNAUTHENTICATED, 401 }, { ERR_FORBIDDEN, 403 }, { ERR_NOT_FOUND, 404 },
		     { ERR_METHOD, 405 },          { ERR_EXHAUSTED, 429 }, { ERR_MALFORMED, 400 } };
	autofree char *text = NULL;
	int status = 422;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (err_is(e, rows[i].code))
			status = rows[i].status;
	text = xasprintf("%d: %s", status, err_text(e));
	http_respond(r, status, h, (struct http_body){ "text/plain", text, strlen(text) });
	err_free(e);
}

static const struct http_handler handler = { .head = on_head };

static void place_init(struct place *p, const struct page_files *f)
{
	static const char *const groups[] = { "devs", "cay:key:1:2", NULL };

	*p = (struct place){ .l = rig_loop(),
			     .fd = -1,
			     .who = { .user = "ann", .groups = groups } };
	works(http_server_start(
		p->l, -1, &(struct http_server_spec){ .handler = &handler, .arg = p }, &p->server));
	p->page = page_new(&(struct page_spec){ .files = f,
						.version = "1",
						.audit = true,
						.shows = shows,
						.token = token,
						.url = url,
						.record = record,
						.refuse = refuse,
						.arg = p });
}

static void place_done(struct place *p)
{
	http_server_free(p->server);
	page_free(p->page);
	loop_free(p->l);
}

/* The whole answer to a request on a connection of its own; malloc'd. */
static char *ask(struct place *p, const char *method, const char *path, const char *more)
{
	autofree char *text = xasprintf("%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s\r\n",
					method, path, more);
	char *answer;
	int fds[2];

	rig_pair(fds);
	http_server_adopt(p->server, stream_plain(fds[0]), "1.2.3.4:5");
	rig_send_str(p->l, fds[1], text);
	answer = rig_read(p->l, fds[1], NULL);
	(void)close(fds[1]);
	return answer;
}

static char *post(struct place *p, const char *path, const char *body)
{
	autofree char *more = xasprintf("Content-Length: %zu\r\n\r\n%s", strlen(body), body);
	char *head =
		xasprintf("POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s", path, more);
	char *answer;
	int fds[2];

	rig_pair(fds);
	http_server_adopt(p->server, stream_plain(fds[0]), "1.2.3.4:5");
	rig_send_str(p->l, fds[1], head);
	answer = rig_read(p->l, fds[1], NULL);
	(void)close(fds[1]);
	free(head);
	return answer;
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no %s in: %s", part, text);
}

TEST(a_file_comes_with_its_guards_packed_or_not)
{
	struct place p;
	autofree char *plain = NULL, *packed = NULL, *same = NULL, *torn = NULL, *head = NULL;

	place_init(&p, &files);
	plain = ask(&p, "GET", "/ui/a/b", "");
	has(plain, "HTTP/1.1 200 OK\r\n");
	has(plain, "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; ");
	has(plain, "\r\nX-Frame-Options: DENY\r\n");
	has(plain, "\r\nCross-Origin-Resource-Policy: same-origin\r\n");
	has(plain, "\r\nCache-Control: no-cache\r\n");
	has(plain, "\r\nETag: W/\"i\"\r\n");
	has(plain, "\r\n\r\n<title>page</title>\n");
	packed = ask(&p, "GET", "/ui/assets/main-1.js", "Accept-Encoding: gzip\r\n");
	has(packed, "\r\nContent-Encoding: gzip\r\n");
	has(packed, "\r\nContent-Length: 27\r\n");
	has(packed, "immutable");
	same = ask(&p, "GET", "/ui/", "If-None-Match: W/\"i\"\r\n");
	has(same, "HTTP/1.1 304 ");
	has(same, "\r\nReferrer-Policy: no-referrer\r\n");
	torn = ask(&p, "GET", "/ui/assets/torn.js", "");
	has(torn, "HTTP/1.1 500 ");
	head = ask(&p, "HEAD", "/ui/", "");
	has(head, "\r\nContent-Length: 20\r\n");
	is_true(str_ends(head, "\r\n\r\n"));
	place_done(&p);
}

TEST(a_program_without_the_page_says_so)
{
	struct place p;
	autofree char *text = NULL, *link = NULL;

	place_init(&p, &none);
	text = ask(&p, "GET", "/ui/", "");
	has(text, "HTTP/1.1 404 ");
	has(text, "built without its page");
	link = post(&p, PAGE_LINKS, "");
	has(link, "HTTP/1.1 404 ");
	place_done(&p);
}

TEST(a_link_becomes_a_session_that_its_credential_outlives)
{
	struct place p;
	autofree char *self = NULL, *made = NULL, *body = NULL, *in = NULL, *again = NULL;
	char code[PAGE_CODE_LEN + 1];
	const char *at;

	place_init(&p, &files);
	p.who.expires = clock_wall() / 1000000 + 600;
	self = ask(&p, "GET", PAGE_SELF, "");
	has(self, "\"username\":\"ann\",\"groups\":[\"devs\"]}");
	has(self, "\"urls\":true,\"audit\":true,\"proxied\":false");
	has(self, "\r\nCache-Control: no-store\r\n");
	made = post(&p, PAGE_LINKS, "");
	has(made, "HTTP/1.1 201 ");
	at = strstr(made, "#code=");
	is_true(at);
	(void)snprintf(code, sizeof(code), "%s", at + strlen("#code="));
	body = xasprintf("{\"code\":\"%s\"}", code);
	in = post(&p, PAGE_SESSIONS, body);
	has(in, "HTTP/1.1 201 ");
	has(in, "\"token\":\"token-of-ann-devs\"");
	eq_int(p.asked_until, p.who.expires);
	again = post(&p, PAGE_SESSIONS, body);
	has(again, "HTTP/1.1 401 ");
	eq_int(p.last_status, 401);
	eq_int(p.n_records, 3);
	place_done(&p);
}

TEST(who_may_not_have_a_link_is_told_why)
{
	struct place p;
	autofree char *no = NULL;

	place_init(&p, &files);
	p.who.no_link = "agents use their tokens";
	no = post(&p, PAGE_LINKS, "");
	has(no, "HTTP/1.1 403 ");
	has(no, "\r\n\r\n403: agents use their tokens");
	has(no, "\r\nCache-Control: no-store\r\n");
	place_done(&p);
}

TEST(wrong_sessions_are_refused_and_limited)
{
	static const struct {
		const char *body;
		const char *status;
	} rows[] = {
		{ "", "400" },
		{ "{", "400" },
		{ "[]", "400" },
		{ "{}", "400" },
		{ "{\"code\":1}", "400" },
		{ "{\"code\":\"x\"}", "401" },
		{ "{\"code\":[[[[[1]]]]]}", "400" },
	};
	autofree char *big = xmalloc(BODY_LIMIT + 2), *huge = NULL, *get = NULL, *last = NULL;
	autofree char *good = NULL, *in = NULL;
	char code[PAGE_CODE_LEN + 1];
	struct place p;

	place_init(&p, &files);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *answer = post(&p, PAGE_SESSIONS, rows[i].body);

		if (strncmp(answer + strlen("HTTP/1.1 "), rows[i].status, 3) != 0)
			fail_msg("%s: %s", rows[i].body, answer);
	}
	memset(big, ' ', BODY_LIMIT + 1);
	big[BODY_LIMIT + 1] = '\0';
	huge = post(&p, PAGE_SESSIONS, big);
	has(huge, "HTTP/1.1 413 ");
	get = ask(&p, "GET", PAGE_SESSIONS, "");
	has(get, "HTTP/1.1 405 ");
	has(get, "\r\nAllow: POST\r\n");
	for (size_t i = 0; i < FAILURES_MAX; i++)
		free(post(&p, PAGE_SESSIONS, "{\"code\":\"x\"}"));
	last = post(&p, PAGE_SESSIONS, "{\"code\":\"x\"}");
	has(last, "HTTP/1.1 429 ");
	has(last, "\r\nRetry-After: ");
	eq_int(p.last_status, 401); /* it was not recorded */
	/* Others may have the same address: whoever has a right one is let in. */
	works(page_link(p.page, &p.who, code));
	good = xasprintf("{\"code\":\"%s\"}", code);
	in = post(&p, PAGE_SESSIONS, good);
	has(in, "HTTP/1.1 201 ");
	eq_int(p.last_status, 201);
	place_done(&p);
}

TEST(a_url_is_made_for_a_port_that_is_one)
{
	static const struct {
		const char *body, *answer;
	} rows[] = {
		{ "{\"namespace\":\"n\",\"sandbox\":\"b\",\"port\":80}",
		  "\"url\":\"http://80-b.n.x/?ann\"" },
		{ "{\"namespace\":\"n\",\"sandbox\":\"b\",\"port\":0}", "port: 1 to 65535" },
		{ "{\"namespace\":\"n\",\"sandbox\":\"b\",\"port\":65536}", "port: 1 to 65535" },
		{ "{\"namespace\":\"n\",\"sandbox\":\"b\",\"port\":\"80\"}", "port: 1 to 65535" },
		{ "{\"sandbox\":\"b\",\"port\":80}", "namespace: required" },
		{ "{\"namespace\":\"n\",\"port\":80}", "sandbox: required" },
		{ "{\"namespace\":\"n\",\"sandbox\":\"none\",\"port\":80}",
		  "404: there is no sandbox" },
		{ "nonsense", "400: " },
	};
	struct place p;

	place_init(&p, &files);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *answer = post(&p, PAGE_URLS, rows[i].body);

		has(answer, rows[i].answer);
	}
	place_done(&p);
}
