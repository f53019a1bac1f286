/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page on loopback, for a server that has none: its files and links are the same as those of
 * `cay serve`, and requests go on to the server of the kubeconfig with its credentials. Whoever
 * comes without a token that we have given out, or by a name that is not this machine's, gets
 * nothing but the files.
 */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "base/strv.h"
#include "cli/ui/ui_priv.h"
#include "client/http.h"
#include "crypto/crypto.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "net/http_proxy.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "net/websocket.h"
#include "page/page.h"

enum {
	SESSIONS_MAX = 64, /* a new one takes the place of the oldest */
	TOKEN_BYTES = 32,
	IDLE_MAX = 8, /* connections to the server that are kept */
};

struct session {
	unsigned char digest[SHA256_LEN]; /* of its token */
	int64_t expires;                  /* seconds since 1970; 0: there is none */
};

struct desk {
	struct loop *loop;
	struct http_server *http;
	struct page *page;
	struct passes passes;
	struct session sessions[SESSIONS_MAX];
	size_t next;
	char address[64];
	char *user, **groups; /* who the server says that we are */
	bool urls, audit;
	struct signal_watch *intr, *term;
};

/* Tokens */

static struct err *give_token(void *arg, const struct page_visitor *who unused, int64_t *expires,
			      char **ret)
{
	struct desk *d = arg;
	struct session *s = &d->sessions[d->next++ % SESSIONS_MAX];
	unsigned char bytes[TOKEN_BYTES];

	random_bytes(bytes, sizeof(bytes));
	*ret = base64_encode(bytes, sizeof(bytes), true);
	sha256(*ret, strlen(*ret), s->digest);
	s->expires = *expires;
	explicit_bzero(bytes, sizeof(bytes));
	return NULL;
}

static bool is_token(const struct desk *d, struct span token)
{
	unsigned char digest[SHA256_LEN];
	int64_t now = clock_wall() / 1000000;
	bool found = false;

	sha256(token.p, token.len, digest);
	for (size_t i = 0; i < SESSIONS_MAX; i++) {
		const struct session *s = &d->sessions[i];

		found |= s->expires > now && !memcmp(s->digest, digest, sizeof(digest));
	}
	return found;
}

static bool is_let_in(const struct desk *d, struct http_request *req)
{
	const char *header = http_request_header(req, "Authorization");
	autofree char *shown = NULL;
	autoptr(err) e = NULL;
	struct span token;

	if (header)
		return http_bearer(header, &token) && is_token(d, token);
	if (!websocket_wanted(req))
		return false;
	e = http_headers_take_bearer_protocol(http_request_headers(req), &shown);
	return !e && shown && is_token(d, SPAN(shown));
}

/* Requests */

static void refuse_with(struct http_request *req, struct err *e, const struct http_headers *h)
{
	int status = 0;
	autoptr(json_doc) d = status_doc(e, &status);
	autofree char *text = json_to_text(json_root(d));

	http_respond(req, status, h, (struct http_body){ "application/json", text, strlen(text) });
	err_free(e);
}

static void refuse(struct http_request *req, enum err_code code, const char *why)
{
	http_request_set_owner(req, NULL, NULL);
	refuse_with(req, err_new(code, "%s", why), NULL);
}

static void visit_page(struct desk *d, struct http_request *req)
{
	page_visit(
		d->page, req,
		&(struct page_visitor){
			.user = d->user,
			.groups = (const char *const *)d->groups,
			.from = http_request_peer(req),
			.no_link = "a session of the page makes no other; start `cay ui` again" });
}

static bool is_file(const char *path)
{
	return str_eq(path, PAGE_ROOT) || str_starts(path, PAGE_PATH);
}

static void on_head(void *arg, struct http_request *req)
{
	struct desk *d = arg;
	const char *path = http_request_path(req);

	if (!ui_host_is_ours(http_request_header(req, "Host"), d->address))
		refuse(req, ERR_FORBIDDEN, "the page is at a loopback address, or localhost");
	else if (is_file(path))
		page_visit_files(d->page, req); /* a link may be clicked anywhere */
	else if (!http_request_is_own(req, "http"))
		refuse(req, ERR_FORBIDDEN, "another page has sent this");
	else if (str_eq(path, PAGE_SESSIONS))
		page_visit_sessions(d->page, req);
	else if (!is_let_in(d, req))
		refuse(req, ERR_UNAUTHENTICATED, "Unauthorized");
	else if (str_eq(path, PAGE_SELF) || str_eq(path, PAGE_LINKS))
		visit_page(d, req);
	else if (pass_path(path))
		pass_start(&d->passes, req);
	else
		refuse(req, ERR_NOT_FOUND, "the page needs no such path");
}

static const struct http_handler handler = { .head = on_head };

/* Who we are, by the server's own account; one that does not say so is no failure. */
static void learn(struct desk *d, struct cli_server *at)
{
	static const char review[] = "{\"apiVersion\":\"authentication.k8s.io/v1\","
				     "\"kind\":\"SelfSubjectReview\"}";
	struct ui_answer self = { 0 }, page = { 0 };
	const struct json *info;
	size_t n = 0;

	err_free(ui_ask(at, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review,
			&self));
	err_free(ui_ask(at, "GET", PAGE_SELF, NULL, &page));
	info = self.body ? json_at_path(json_root(self.body), "status.userInfo") : NULL;
	d->user = xstrdup(str_or(json_get_str(info, "username"), ""));
	d->groups = xnew_n(char *, json_len(json_get(info, "groups")) + 1);
	json_each(it, json_get(info, "groups"))
		d->groups[n++] = xstrdup(str_or(json_str(it.val), ""));
	if (page.body && page.status == 200) {
		d->urls = json_get_bool(json_root(page.body), "urls", false);
		d->audit = json_get_bool(json_root(page.body), "audit", false);
	}
	json_doc_free(self.body);
	json_doc_free(page.body);
}

static void on_signal(void *arg, int signum unused)
{
	loop_stop(((struct desk *)arg)->loop);
}

static struct err *listen_on(struct desk *d, const char *addr)
{
	const struct http_server_spec spec = { .handler = &handler, .arg = d };
	int fd = -1;
	struct err *e;

	if (!ui_is_loopback(addr))
		return err_new(ERR_INVALID,
			       "--listen %s: not a loopback address such as 127.0.0.1:0; what is "
			       "served has the rights of your kubeconfig",
			       addr);
	e = net_listen(addr, &fd);
	if (!e)
		e = net_local_addr(fd, d->address, sizeof(d->address));
	return e ? e : http_server_start(d->loop, fd, &spec, &d->http);
}

static struct err *open_desk(struct desk *d, const struct settings *s, struct cli_server *at)
{
	struct err *e = loop_new(&d->loop);

	list_init(&d->passes.list);
	if (e)
		return e;
	learn(d, at);
	d->passes.at = at;
	d->passes.pool = http_pool_new(d->loop, NULL, IDLE_MAX);
	http_pool_set_wrap(d->passes.pool, cli_server_wrap, at);
	d->page = page_new(&(struct page_spec){ .files = &page_embedded,
						.version = CAY_VERSION,
						.audit = d->audit,
						.urls = d->urls,
						.proxied = true,
						.token = give_token,
						.refuse = refuse_with,
						.arg = d });
	d->intr = signal_watch_new(d->loop, SIGINT, on_signal, d);
	d->term = signal_watch_new(d->loop, SIGTERM, on_signal, d);
	return listen_on(d, settings_text(s, "listen"));
}

static struct err *show_link(struct desk *d, const struct settings *s)
{
	char code[PAGE_CODE_LEN + 1];
	autofree char *url = NULL;
	struct err *e = page_link(d->page, &(struct page_visitor){ .user = d->user }, code);

	if (e)
		return e;
	url = xasprintf("http://%s" PAGE_PATH "#code=%s", d->address, code);
	ui_show(s, url);
	(void)fprintf(stderr,
		      "cay: serving the page for %s until ^C; the link is for one use "
		      "within a minute\n",
		      d->passes.at->addr);
	return NULL;
}

struct err *ui_serve(const struct settings *s, struct cli_server *at)
{
	struct desk d = { 0 };
	struct err *e = open_desk(&d, s, at);

	if (!e)
		e = show_link(&d, s);
	if (!e)
		loop_run(d.loop);
	if (d.loop)
		passes_free(&d.passes);
	http_server_free(d.http);
	http_pool_free(d.passes.pool);
	page_free(d.page);
	signal_watch_free(d.intr);
	signal_watch_free(d.term);
	loop_free(d.loop);
	free(d.user);
	strv_free(d.groups);
	return e;
}
