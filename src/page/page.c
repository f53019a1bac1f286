/* SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strv.h"
#include "json/json.h"
#include "net/http_server.h"
#include "page/page_priv.h"

/*
 * The routes below /cay/v1/page: who is in, links, what a link's code is exchanged for, and URLs
 * of ports of sandboxes. Errors are told as the API tells them.
 */
struct page *page_new(const struct page_spec *spec)
{
	struct page *p = xnew(struct page);

	p->spec = *spec;
	p->plain = xnew_n(char *, spec->files->n + 1);
	links_init(&p->links);
	attempts_init(&p->attempts);
	return p;
}

void page_free(struct page *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->spec.files->n; i++)
		free(p->plain[i]);
	free(p->plain);
	links_done(&p->links);
	attempts_done(&p->attempts);
	free(p);
}

/* Answers */

struct more {
	const char *name, *value; /* a header */
};

static void reply(struct http_request *req, int status, const struct json *body)
{
	autofree char *text = json_to_text(body);
	struct http_headers h = { 0 };

	http_headers_add(&h, "Cache-Control", "no-store");
	http_headers_add(&h, "X-Content-Type-Options", "nosniff");
	http_respond(req, status, &h, (struct http_body){ "application/json", text, strlen(text) });
	http_headers_done(&h);
	explicit_bzero(text, strlen(text)); /* there may be a token in it */
}

/* Takes e over. Returns the status. */
static int fail(const struct page *p, struct http_request *req, struct err *e,
		const struct more *more)
{
	autoptr(http_request) keep = http_request_ref(req);
	struct http_headers h = { 0 };

	http_headers_add(&h, "Cache-Control", "no-store");
	http_headers_add(&h, "X-Content-Type-Options", "nosniff");
	if (more)
		http_headers_add(&h, more->name, more->value);
	p->spec.refuse(req, e, &h);
	http_headers_done(&h);
	return http_request_status(req);
}

static void refuse_method(const struct page *p, struct http_request *req, const char *allowed)
{
	(void)fail(p, req, err_new(ERR_METHOD, "use %s", allowed),
		   &(struct more){ "Allow", allowed });
}

static void set_time(struct json_doc *d, struct json *o, int64_t seconds)
{
	char when[CLOCK_TEXT_MAX];

	clock_format((usec)seconds * 1000000, when);
	json_set_str(d, o, "expirationTimestamp", when);
}

static void record(const struct page *p, const struct page_record *r)
{
	if (p->spec.record)
		p->spec.record(p->spec.arg, r);
}

/* Who is in */

static void show_self(const struct page *p, struct http_request *req,
		      const struct page_visitor *who)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *user, *groups;

	json_set_str(d, o, "version", p->spec.version);
	user = json_need_obj(d, o, "user");
	json_set_str(d, user, "username", who->user);
	groups = json_need_arr(d, user, "groups");
	for (size_t i = 0; who->groups && who->groups[i]; i++)
		if (!p->spec.shows || p->spec.shows(p->spec.arg, who->groups[i]))
			json_push_str(d, groups, who->groups[i]);
	json_set_bool(d, o, "urls", p->spec.url || p->spec.urls);
	json_set_bool(d, o, "audit", p->spec.audit);
	json_set_bool(d, o, "proxied", p->spec.proxied);
	reply(req, 200, o);
}

/* Links */

struct err *page_link(struct page *p, const struct page_visitor *who, char ret[PAGE_CODE_LEN + 1])
{
	if (!p->spec.files->n)
		return err_new(ERR_NOT_FOUND, "this cay was built without its page: build it again "
					      "where Node.js and npm are installed");
	if (who->no_link)
		return err_new(ERR_FORBIDDEN, "%s", who->no_link);
	return links_add(&p->links, who, clock_mono(), ret);
}

static void make_link(struct page *p, struct http_request *req, const struct page_visitor *who)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	char code[PAGE_CODE_LEN + 1];
	struct err *e = page_link(p, who, code);
	int status = 201;

	if (e) {
		status = fail(p, req, e, NULL);
	} else {
		json_set_str(d, o, "code", code);
		set_time(d, o, clock_wall() / 1000000 + PAGE_LINK_S);
		(void)json_set(d, o, "path", json_new_strf(d, PAGE_PATH "#code=%s", code));
		reply(req, 201, o);
		explicit_bzero(code, sizeof(code));
	}
	record(p, &(struct page_record){ who->user, who->from, "links", status });
}

/* Sessions */

static struct err *read_body(const char *data, size_t len, struct json_doc **ret)
{
	const struct json_limits limits = { .max_len = BODY_LIMIT, .max_depth = 4 };
	struct err *e = json_parse(data, len, &limits, ret);

	if (!e && !json_is(json_root(*ret), JSON_OBJ)) {
		json_doc_free(take(*ret));
		e = err_new(ERR_MALFORMED, "the body must be a JSON object");
	}
	return e;
}

/* *ret_user: whose link it was, malloc'd; it stays NULL if there is none. */
static struct err *exchange(struct page *p, const char *data, size_t len, struct json_doc *d,
			    char **ret_user)
{
	autoptr(json_doc) body = NULL;
	autoptr(link) k = NULL;
	autofree char *token = NULL;
	int64_t expires = clock_wall() / 1000000 + PAGE_SESSION_S;
	struct page_visitor who;
	const char *code;
	struct err *e = read_body(data, len, &body);

	if (e)
		return e;
	code = json_get_str(json_root(body), "code");
	if (!code)
		return err_new(ERR_MALFORMED, "code: missing; it is the one of a link's fragment");
	k = links_take(&p->links, code, clock_mono());
	if (!k)
		return err_new(ERR_UNAUTHENTICATED, "this link was used, is older than a minute, "
						    "or never was one; `cay ui` makes another");
	*ret_user = xstrdup(k->user);
	who = (struct page_visitor){ .user = k->user,
				     .groups = (const char *const *)k->groups,
				     .expires = k->expires };
	if (k->expires)
		expires = MIN(expires, k->expires);
	e = p->spec.token(p->spec.arg, &who, &expires, &token);
	if (e)
		return e;
	json_set_str(d, json_root(d), "token", token);
	set_time(d, json_root(d), expires);
	explicit_bzero(token, strlen(token));
	return NULL;
}

/* One of too many wrong ones is not recorded. */
static bool refuse_session(struct page *p, struct http_request *req, struct err *e, int *ret_status)
{
	char seconds[16];
	int after = 0;

	if (attempts_failed(&p->attempts, http_request_peer(req), clock_mono(), &after)) {
		*ret_status = fail(p, req, e, NULL);
		return true;
	}
	err_free(e);
	(void)snprintf(seconds, sizeof(seconds), "%d", after);
	(void)fail(p, req, err_new(ERR_EXHAUSTED, "too many wrong links; try again later"),
		   &(struct more){ "Retry-After", seconds });
	return false;
}

static void on_session(void *owner, struct http_request *req, const char *data, size_t len)
{
	struct page *p = owner;
	autoptr(http_request) keep = http_request_ref(req);
	autoptr(json_doc) d = json_doc_new();
	autofree char *user = NULL;
	int status = 201;
	struct err *e;

	json_set_root(d, json_obj(d));
	e = exchange(p, data, len, d, &user);
	if (!e)
		reply(req, 201, json_root(d));
	else if (!refuse_session(p, req, e, &status))
		return;
	record(p, &(struct page_record){ user, http_request_peer(req), "sessions", status });
}

void page_visit_sessions(struct page *p, struct http_request *req)
{
	http_request_set_owner(req, p, NULL);
	if (!str_eq(http_request_method(req), "POST"))
		refuse_method(p, req, "POST");
	else
		http_request_buffer(req, BODY_LIMIT, on_session);
}

/* URLs of ports */

struct url_visit {
	struct page *page;
	struct page_visitor who; /* owned */
	char *user, *account_ns, *from, **groups;
};

static void url_visit_free(void *owner)
{
	struct url_visit *v = owner;

	free(v->user);
	free(v->account_ns);
	free(v->from);
	strv_free(v->groups);
	free(v);
}

static struct url_visit *url_visit_new(struct page *p, const struct page_visitor *who)
{
	struct url_visit *v = xnew(struct url_visit);

	v->page = p;
	v->user = xstrdup(who->user);
	v->account_ns = who->account_ns ? xstrdup(who->account_ns) : NULL;
	v->from = xstrdup(str_or(who->from, ""));
	v->groups = strv_copy(who->groups);
	v->who = (struct page_visitor){ .user = v->user,
					.groups = (const char *const *)v->groups,
					.account_ns = v->account_ns,
					.from = v->from,
					.expires = who->expires };
	return v;
}

static struct err *read_port(const struct json *o, struct page_port *ret)
{
	int64_t port = json_get_int(o, "port", 0);

	ret->ns = json_get_str(o, "namespace");
	ret->sandbox = json_get_str(o, "sandbox");
	if (str_empty(ret->ns))
		return err_new(ERR_INVALID, "namespace: required, that of the sandbox");
	if (str_empty(ret->sandbox))
		return err_new(ERR_INVALID, "sandbox: required, its name");
	if (port < 1 || port > UINT16_MAX)
		return err_new(ERR_INVALID, "port: 1 to %d", UINT16_MAX);
	ret->port = (uint16_t)port;
	return NULL;
}

static struct err *make_url(const struct url_visit *v, const char *data, size_t len,
			    struct json_doc *d)
{
	const struct page_spec *spec = &v->page->spec;
	autoptr(json_doc) body = NULL;
	autofree char *url = NULL;
	struct page_port to;
	int64_t expires = 0;
	struct err *e = read_body(data, len, &body);

	if (!e)
		e = read_port(json_root(body), &to);
	if (!e)
		e = spec->url(spec->arg, &v->who, &to, &url, &expires);
	if (e)
		return e;
	json_set_root(d, json_obj(d));
	json_set_str(d, json_root(d), "url", url);
	set_time(d, json_root(d), expires);
	return NULL;
}

static void on_url(void *owner, struct http_request *req, const char *data, size_t len)
{
	const struct url_visit *v = owner;
	autoptr(json_doc) d = json_doc_new();
	struct err *e = make_url(v, data, len, d);

	if (e)
		(void)fail(v->page, req, e, NULL);
	else
		reply(req, 201, json_root(d));
}

static void begin_url(struct page *p, struct http_request *req, const struct page_visitor *who)
{
	if (!p->spec.url) {
		(void)fail(p, req, err_new(ERR_NOT_FOUND, "no router here signs URLs"), NULL);
		return;
	}
	http_request_set_owner(req, url_visit_new(p, who), url_visit_free);
	http_request_buffer(req, BODY_LIMIT, on_url);
}

void page_visit(struct page *p, struct http_request *req, const struct page_visitor *who)
{
	const char *path = http_request_path(req), *method = http_request_method(req);

	http_request_set_owner(req, NULL, NULL);
	if (str_eq(path, PAGE_SELF)) {
		if (str_eq(method, "GET") || str_eq(method, "HEAD"))
			show_self(p, req, who);
		else
			refuse_method(p, req, "GET, HEAD");
	} else if (!str_eq(method, "POST")) {
		refuse_method(p, req, "POST");
	} else if (str_eq(path, PAGE_LINKS)) {
		make_link(p, req, who);
	} else {
		begin_url(p, req, who);
	}
}
