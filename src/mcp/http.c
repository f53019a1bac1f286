/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"
#include "net/http_server.h"

/*
 * Streamable HTTP: a POST carries messages and is answered with JSON. If the answer takes long and
 * the client accepts events, it becomes a stream of them, with a comment from time to time so that
 * nobody takes the connection for dead. A DELETE ends the session. There is nothing for a GET: we
 * never speak first.
 *
 * A client that leaves has not cancelled anything: so the protocol wants it, up to the version
 * without sessions. What it asked for goes on until its time is over.
 */
enum {
	QUIET_MS = 10 * 1000,
};

static const char too_many[] = "too many requests are under way, or too large ones";

struct visit {
	struct post post; /* unless it was refused before */
	struct list on;   /* mcp.visits */
	struct mcp *mcp;
	struct http_request *req; /* NULL: it was answered, or the client has left */
	struct timer *timer;
	bool posted, taken, answered, streaming, takes_json, takes_events;
	bool alone; /* of the version without sessions */
};

static void visit_free(struct visit *v)
{
	if (v->posted)
		post_done(&v->post);
	list_del(&v->on);
	timer_free(v->timer);
	if (v->req)
		http_request_set_owner(v->req, NULL, NULL);
	free(v);
}

static void on_ended(void *owner)
{
	struct visit *v = owner;

	v->req = NULL;
	if (v->timer)
		timer_clear(v->timer);
	if (!v->taken || v->answered || v->alone) /* otherwise it ends with its calls */
		visit_free(v);
}

static void respond(struct visit *v, int status, const struct http_headers *h, struct json *body)
{
	autofree char *text = body ? json_to_text(body) : NULL;

	v->answered = true;
	v->post.bytes = text ? strlen(text) : 0;
	http_respond(v->req, status, h,
		     (struct http_body){ text ? "application/json" : NULL, text,
					 text ? strlen(text) : 0 });
}

static void refuse_with(struct visit *v, int status, const char *header[2], struct json_doc *d,
			struct json *body)
{
	struct http_headers h = { 0 };

	if (header)
		http_headers_add(&h, header[0], header[1]);
	respond(v, status, &h, body);
	http_headers_done(&h);
	json_doc_free(d);
}

static void refuse(struct visit *v, int status, int code, const char *text)
{
	static const char *retry[2] = { "Retry-After", "1" };
	static const char *allow[2] = { "Allow", "POST, DELETE" };
	struct json_doc *d = json_doc_new();

	refuse_with(v, status,
		    status == 429   ? retry
		    : status == 405 ? allow
				    : NULL,
		    d, post_error(d, code, text));
}

static void stream_head(struct visit *v, struct http_headers *h)
{
	v->streaming = true;
	http_headers_add(h, "Content-Type", "text/event-stream");
	http_headers_add(h, "Cache-Control", "no-cache");
	http_respond_start(v->req, 200, h, -1);
}

static void on_quiet(void *arg)
{
	static const char comment[] = ": it goes on\n\n";
	struct visit *v = arg;
	struct http_headers h = { 0 };

	if (!v->req)
		return;
	if (!v->streaming)
		stream_head(v, &h);
	http_headers_done(&h);
	if (!http_respond_full(v->req))
		http_respond_write(v->req, comment, sizeof(comment) - 1);
	timer_set(v->timer, QUIET_MS);
}

static void add_event(struct buf *b, const struct json *message)
{
	buf_add_str(b, "event: message\ndata: ");
	json_write(message, b);
	buf_add_str(b, "\n\n");
}

/* A message before the answers: only a stream can carry it. */
static void on_tell(struct post *p, const struct json *message)
{
	struct visit *v = container_of(p, struct visit, post);
	struct http_headers h = { 0 };
	autobuf b = { 0 };

	if (!v->req || !v->takes_events)
		return;
	if (!v->streaming)
		stream_head(v, &h);
	http_headers_done(&h);
	add_event(&b, message);
	if (!http_respond_full(v->req))
		http_respond_write(v->req, buf_head(&b), b.len);
}

static void send_events(struct visit *v)
{
	autobuf b = { 0 };

	json_each(it, v->post.answers)
		add_event(&b, it.val);
	v->answered = true;
	v->post.bytes = b.len;
	http_respond_write(v->req, buf_head(&b), b.len);
	http_respond_end(v->req);
}

static void send_answers(struct visit *v)
{
	struct post *p = &v->post;
	size_t n = json_len(p->answers);
	struct http_headers h = { 0 };

	if (p->opened && p->session)
		http_headers_add(&h, "Mcp-Session-Id", p->session->id);
	if (v->streaming || (n && !p->status && !v->takes_json)) {
		if (!v->streaming)
			stream_head(v, &h);
		send_events(v);
	} else if (!n) {
		respond(v, 202, &h, NULL);
	} else {
		respond(v, p->status ? p->status : 200, &h,
			p->batch ? p->answers : json_at(p->answers, 0));
	}
	http_headers_done(&h);
}

static void on_answered(struct post *p)
{
	struct visit *v = container_of(p, struct visit, post);

	if (v->timer)
		timer_clear(v->timer);
	if (v->req)
		send_answers(v);
	else
		visit_free(v);
}

static void refuse_version(struct visit *v, const char *name, bool alone)
{
	struct json_doc *d = json_doc_new();
	struct json *a = post_error(d, RPC_BAD_VERSION, "Unsupported protocol version");
	struct json *data = json_need_obj(d, json_get(a, "error"), "data");

	json_set_str(d, data, "requested", name);
	for (size_t i = 0; mcp_versions[i]; i++)
		json_push_str(d, json_need_arr(d, data, "supported"), mcp_versions[i]);
	if (alone)
		json_push_str(d, json_need_arr(d, data, "supported"), MCP_STATELESS);
	refuse_with(v, 400, NULL, d, a);
}

/* False: refused. Without sessions only what needs none can be chosen. */
static bool check_version(struct visit *v, const struct mcp_choice *choice)
{
	const char *name = http_request_header(v->req, "MCP-Protocol-Version");
	bool alone = choice->whole_user && !choice->cleanup;
	enum mcp_version version;

	v->alone = alone && str_eq(name, MCP_STATELESS);
	if (!name || v->alone || mcp_version_find(name, &version))
		return true;
	refuse_version(v, name, alone);
	return false;
}

/* *ret is a reference, or NULL where no session was named. False: refused. */
static bool find_session(struct visit *v, const struct access_target *who, struct mcp_session **ret)
{
	const char *id = http_request_header(v->req, "Mcp-Session-Id");

	*ret = id ? mcp_session_find(v->mcp, id, who) : NULL;
	if (id && !*ret) {
		refuse(v, 404, RPC_NO_SESSION, "Session not found");
		return false;
	}
	return true;
}

/* A user may have so many requests at a time and so many bytes in them, and all together so many
 * requests. */
static bool has_room(const struct mcp *m, const char *user, size_t bytes)
{
	size_t all = 0, mine = 0;
	const struct post *p;

	list_each(p, &m->posts, on) {
		all++;
		if (!str_eq(p->caller->who.user, user))
			continue;
		mine++;
		bytes += p->bytes;
	}
	return all < MCP_POSTS_MAX && mine < MCP_POSTS_USER_MAX && bytes <= MCP_BYTES_USER_MAX;
}

static void on_body(void *owner, struct http_request *req unused, const char *data, size_t len)
{
	struct visit *v = owner;
	struct post *p = &v->post;

	v->taken = true;
	if (p->session && p->session->ended) { /* since the head came */
		refuse(v, 404, RPC_NO_SESSION, "Session not found");
		return;
	}
	list_del(&p->on); /* it does not count itself */
	if (!has_room(v->mcp, p->caller->who.user, len)) {
		refuse(v, 429, RPC_REFUSED, too_many);
		return;
	}
	list_add_tail(&v->mcp->posts, &p->on);
	p->bytes = len;
	v->timer = timer_new(v->mcp->loop, on_quiet, v);
	if (v->takes_events)
		timer_set(v->timer, QUIET_MS);
	post_take(p, data, len);
}

static bool accepts(struct http_request *req, const char *type)
{
	const char *accept = http_request_header(req, "Accept");

	return !accept || strstr(accept, type) || strstr(accept, "*/*");
}

/* What has to be right before the body is read. False: refused. */
static bool check_post(struct visit *v, const struct access_target *who)
{
	const char *type = http_request_header(v->req, "Content-Type");
	size_t len = type ? strcspn(type, "; ") : 0;

	v->takes_json = accepts(v->req, "application/json");
	v->takes_events = accepts(v->req, "text/event-stream");
	if (!v->takes_json && !v->takes_events)
		refuse(v, 406, RPC_INVALID_REQUEST,
		       "Accept must have application/json or text/event-stream");
	else if (!len || !span_eq_nocase((struct span){ type, len }, "application/json"))
		refuse(v, 415, RPC_INVALID_REQUEST, "Content-Type must be application/json");
	else if (!has_room(v->mcp, who->user, 0))
		refuse(v, 429, RPC_REFUSED, too_many);
	else
		return true;
	return false;
}

static void serve_post(struct visit *v, const struct access_target *who, struct mcp_choice *choice)
{
	struct mcp_session *session = NULL;

	if (!check_post(v, who))
		return;
	if (v->alone)
		session = mcp_session_alone(v->mcp, who, choice);
	else if (!find_session(v, who, &session))
		return;
	v->posted = true;
	v->post.answered = on_answered;
	v->post.tell = on_tell;
	v->post.session = session;
	v->post.choice = *choice;
	*choice = (struct mcp_choice){ 0 };
	v->post.routed_method = xstrdup(http_request_header(v->req, "Mcp-Method"));
	v->post.routed_name = xstrdup(http_request_header(v->req, "Mcp-Name"));
	post_init(&v->post, v->mcp, who);
	http_request_buffer(v->req, MCP_BODY_MAX, on_body);
}

static void serve_delete(struct visit *v, const struct access_target *who)
{
	struct mcp_session *session;

	if (!find_session(v, who, &session))
		return;
	if (!session) {
		refuse(v, 400, RPC_INVALID_REQUEST, "Mcp-Session-Id is missing");
		return;
	}
	mcp_session_end(session);
	mcp_session_unref(session);
	respond(v, 204, NULL, NULL);
}

/* A page of a browser has no business here, unless it comes from this machine itself. Whatever name
 * leads here (DNS rebinding): the origin is that of the page. */
static bool origin_is_ours(struct http_request *req)
{
	static const char *const hosts[] = { "localhost", "127.0.0.1", "[::1]", NULL };
	const char *origin = http_request_header(req, "Origin");
	const char *host = origin ? strstr(origin, "://") : NULL;

	if (!origin)
		return true;
	for (size_t i = 0; host && hosts[i]; i++) {
		size_t len = strlen(hosts[i]);

		if (str_starts(host + 3, hosts[i]) && (!host[3 + len] || host[3 + len] == ':'))
			return true;
	}
	return false;
}

static void serve(struct visit *v, const struct access_target *who)
{
	const char *method = http_request_method(v->req);
	struct mcp_choice choice = { 0 };
	autoptr(err) e = mcp_choice_read(http_request_query(v->req), &choice);

	if (!origin_is_ours(v->req))
		refuse(v, 403, RPC_REFUSED, "Origin is not of this machine");
	else if (!str_eq(method, "POST") && !str_eq(method, "DELETE"))
		refuse(v, 405, RPC_INVALID_REQUEST, "use POST or DELETE");
	else if (e)
		refuse(v, 400, RPC_INVALID_REQUEST, err_text(e));
	else if (!check_version(v, &choice))
		; /* it was answered */
	else if (str_eq(method, "POST"))
		serve_post(v, who, &choice);
	else
		serve_delete(v, who);
	mcp_choice_done(&choice);
}

void mcp_visit(struct mcp *m, struct http_request *req, const struct access_target *who)
{
	struct visit *v = xnew(struct visit);

	v->mcp = m;
	v->req = req;
	list_add_tail(&m->visits, &v->on);
	http_request_set_owner(req, v, on_ended);
	serve(v, who);
}

void visits_done(struct mcp *m)
{
	struct visit *v, *next;

	list_each_safe(v, next, &m->visits, on)
		visit_free(v);
}
