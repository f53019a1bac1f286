/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "net/http_server.h"
#include "router/callers/pass.h"
#include "router/router_priv.h"

/*
 * Signing URLs. A request by header for POST /.cay/url is not passed on: whoever may send it, and
 * so might send any other to this port of this sandbox, gets a URL that lets its bearer do the same
 * for a while. So a signed URL gives away nothing that its maker did not have, and cannot be used
 * to make another: a pass lets nobody in here.
 *
 *   {"ttlSeconds": 3600, "path": "/", "methods": ["GET"], "via": "host"}   all of it optional
 */
enum {
	ASK_MAX = 4096,
	TTL_DEFAULT_S = 3600,
	TTL_MAX_S = 24 * 3600,
	LABEL_MAX = 63, /* of a host name */
};

struct mint {
	struct router *r;
	struct http_request *req;
	struct route route;
	char *who; /* asked, for the record */
	usec began;
	int status; /* of our own answer; 0: none yet */
};

struct wish {
	struct pass pass;
	int64_t ttl;
	bool by_path;
};

bool mint_asked(struct http_request *req, const struct route *route)
{
	return route->way == ROUTER_BY_HEADER && str_eq(http_request_method(req), "POST") &&
	       str_eq(http_request_path(req), ROUTER_MINT_PATH);
}

static struct err *read_methods(const struct json *list, char *ret, size_t size)
{
	size_t len = 0;

	ret[0] = '\0';
	json_each(it, list) {
		const char *m = json_str(it.val);

		if (!m || !*m || m[strspn(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")] ||
		    len + strlen(m) + 2 > size)
			return err_new(ERR_INVALID,
				       "methods: a short list of methods in capitals, for example "
				       "[\"GET\", \"HEAD\"]");
		len += (size_t)snprintf(ret + len, size - len, "%s%s", len ? "," : "", m);
	}
	return NULL;
}

static struct err *read_path(const struct json *v, char *ret, size_t size)
{
	const char *path = json_str(v);

	ret[0] = '\0';
	if (!v)
		return NULL;
	if (!path || !pass_path_valid(path))
		return err_new(ERR_INVALID,
			       "path: begins with a slash, has less than %zu "
			       "characters, no empty part, and none that begins with "
			       "a dot",
			       size);
	if (!str_eq(path, "/"))
		memcpy(ret, path, strlen(path) + 1);
	return NULL;
}

static struct err *read_wish(const struct json *o, const struct router *r, struct wish *ret)
{
	const char *via = json_get_str(o, "via");
	const struct json *methods = json_get(o, "methods"), *ttl = json_get(o, "ttlSeconds");
	struct err *e;

	ret->ttl = json_int(ttl, ttl ? 0 : TTL_DEFAULT_S);
	if (ret->ttl < 1 || ret->ttl > TTL_MAX_S)
		return err_new(ERR_INVALID, "ttlSeconds: 1 to %d", TTL_MAX_S);
	if (json_get(o, "via") && !str_eq(via, "host") && !str_eq(via, "path"))
		return err_new(ERR_INVALID, "via: host or path");
	ret->by_path = via ? str_eq(via, "path") : !r->domain;
	if (methods && !json_is(methods, JSON_ARR))
		return err_new(ERR_INVALID, "methods: a list");
	e = read_path(json_get(o, "path"), ret->pass.path, sizeof(ret->pass.path));
	return e ? e : read_methods(methods, ret->pass.methods, sizeof(ret->pass.methods));
}

static struct err *parse_wish(const char *data, size_t len, const struct router *r,
			      struct wish *ret)
{
	autoptr(json_doc) d = NULL;
	struct err *e;

	if (!len)
		return read_wish(NULL, r, ret);
	e = json_parse(data, len, NULL, &d);
	if (e)
		return e;
	if (!json_is(json_root(d), JSON_OBJ))
		return err_new(ERR_INVALID, "the body is no JSON object");
	return read_wish(json_root(d), r, ret);
}

/* Of the Host that the client called us by: it knows how to get here. */
static void add_port(struct http_request *req, struct buf *b)
{
	const char *host = str_or(http_request_header(req, "Host"), "");
	const char *colon = strrchr(host, ':');

	if (colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")])
		buf_add_str(b, colon);
}

static struct err *add_host(const struct router *r, const struct route *to, struct buf *b)
{
	autofree char *label = xasprintf("%u-%s", to->port, to->id);

	if (!r->domain)
		return err_new(ERR_INVALID, "routing by host is off; --router-domain switches it "
					    "on");
	if (strlen(label) > LABEL_MAX)
		return err_new(ERR_INVALID,
			       "%s has more than %d characters and cannot be part of a host name; "
			       "ask for via: path",
			       label, LABEL_MAX);
	buf_printf(b, "%s.%s.%s", label, to->ns, r->domain);
	return NULL;
}

static struct err *add_url(const struct mint *m, struct http_request *req, const struct wish *w,
			   struct buf *b)
{
	const struct route *to = &m->route;
	autofree char *base = NULL;
	struct err *e;

	buf_add_str(b, to->secure ? "https://" : "http://");
	if (w->by_path) {
		if (!m->r->prefix)
			return err_new(ERR_INVALID, "routing by path is off; --router-path-prefix "
						    "switches it on");
		base = way_base(m->r->prefix, to);
		buf_printf(b, "%s%s", str_or(http_request_header(req, "Host"), "localhost"), base);
	} else {
		e = add_host(m->r, to, b);
		if (e)
			return e;
		add_port(req, b);
	}
	buf_add_str(b, *w->pass.path ? w->pass.path : "/");
	return NULL;
}

static void tell(struct http_request *req, const char *url, const char *token, int64_t expires)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	struct http_headers h = { 0 };
	char when[CLOCK_TEXT_MAX];
	autobuf body = { 0 };

	clock_format(expires * 1000000, when);
	json_set_root(d, o);
	json_set(d, o, "url", json_new_strf(d, "%s?" ENTRY_PARAM "=%s", url, token));
	json_set_str(d, o, "token", token);
	json_set_str(d, o, "expires", when);
	json_write(o, &body);
	buf_add_char(&body, '\n');
	http_headers_add(&h, "Cache-Control", "no-store");
	http_respond(req, 200, &h,
		     (struct http_body){ "application/json", buf_head(&body), body.len });
	http_headers_done(&h);
}

/* The pass for a port of a sandbox that there is, malloc'd; w->pass says all of it then. */
static struct err *seal(const struct router *r, const struct route *to, const char *peer,
			struct wish *w, char **ret)
{
	autoptr(object) sandbox = client_get(r->client, r->sandboxes, to->ns, to->id);

	if (!r->pass_key.bytes)
		return err_new(ERR_INVALID, "this router signs no URLs");
	if (!sandbox || (to->has_uid && !str_eq(to->uid, sandbox->uid)) ||
	    (!to->has_uid && sandbox_view(sandbox)->in_pool))
		return err_new(ERR_NOT_FOUND, "there is no sandbox %s in namespace %s", to->id,
			       to->ns);
	w->pass.port = to->port;
	w->pass.expires = clock_wall() / 1000000 + w->ttl;
	(void)snprintf(w->pass.ns, sizeof(w->pass.ns), "%s", to->ns);
	(void)snprintf(w->pass.id, sizeof(w->pass.id), "%s", to->id);
	(void)snprintf(w->pass.uid, sizeof(w->pass.uid), "%s", sandbox->uid);
	*ret = pass_seal(&r->pass_key, PASS_URL, &w->pass);
	log_info("signed a URL", KV("sandbox", to->id), KV("namespace", to->ns),
		 KV("port", to->port), KV("ttl_s", w->ttl), KV("peer", peer));
	return NULL;
}

static struct err *sign(const struct mint *m, struct http_request *req, struct wish *w)
{
	autofree char *token = NULL;
	autobuf url = { 0 };
	struct err *e = add_url(m, req, w, &url);

	if (!e)
		e = seal(m->r, &m->route, http_request_peer(req), w, &token);
	if (!e)
		tell(req, buf_str(&url), token, w->pass.expires);
	return e;
}

bool router_signs_urls(const struct router *r)
{
	return r->pass_key.bytes && r->domain;
}

/* With TLS where it has been set up for names that others know. */
static bool is_secure(const struct router *r)
{
	return *r->secure.address && (!*r->plain.address || !(str_eq(r->domain, "localhost") ||
							      str_ends(r->domain, ".localhost")));
}

struct err *router_sign_url(struct router *r, const struct router_url *ask, char **ret,
			    int64_t *ret_expires)
{
	struct route to = { .port = ask->port };
	struct wish w = { .ttl = ask->ttl_s };
	autofree char *token = NULL;
	autobuf url = { 0 };
	const char *colon;
	struct err *e;

	if (strlen(ask->ns) >= sizeof(to.ns) || strlen(ask->sandbox) >= sizeof(to.id))
		return err_new(ERR_NOT_FOUND, "there is no sandbox %s in namespace %s",
			       ask->sandbox, ask->ns);
	memcpy(to.ns, ask->ns, strlen(ask->ns) + 1);
	memcpy(to.id, ask->sandbox, strlen(ask->sandbox) + 1);
	to.secure = is_secure(r);
	buf_add_str(&url, to.secure ? "https://" : "http://");
	e = add_host(r, &to, &url);
	if (!e)
		e = seal(r, &to, ask->from, &w, &token);
	if (e)
		return e;
	colon = strrchr(to.secure ? r->secure.address : r->plain.address, ':');
	*ret = xasprintf("%s%s/?" ENTRY_PARAM "=%s", buf_str(&url), colon ? colon : "", token);
	*ret_expires = w.pass.expires;
	return NULL;
}

static void on_body(void *owner, struct http_request *req, const char *data, size_t len)
{
	struct mint *m = owner;
	struct wish w = { 0 };
	struct err *e = parse_wish(data, len, m->r, &w);

	if (!e)
		e = sign(m, req, &w);
	if (e) {
		m->status = err_is(e, ERR_NOT_FOUND) ? 404 : 400;
		router_answer(req, m->status, "%s", err_text(e));
	}
	err_free(e);
}

static void on_ended(void *owner)
{
	struct mint *m = owner;

	record_request(
		m->r, m->req,
		&(struct record){ .route = &m->route,
				  .entered = true,
				  .who = m->who,
				  .sub = "url",
				  .status = m->status ? m->status : http_request_status(m->req),
				  .took = clock_mono() - m->began });
	free(m->who);
	free(m);
}

void mint_answer(struct router *r, struct http_request *req, const struct route *route,
		 const char *who)
{
	struct mint *m = xnew(struct mint);

	m->r = r;
	m->req = req;
	m->route = *route;
	m->who = xstrdup(who);
	m->began = clock_mono();
	http_request_set_owner(req, m, on_ended);
	http_request_buffer(req, ASK_MAX, on_body);
}
