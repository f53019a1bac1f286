/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message on its way to the server: a POST, answered with JSON or with events.
 *
 * A server that was started again does not know the session. Then the client's own initialize is
 * sent once more, and after it the message, which the server has not looked at. A connection that
 * was refused is tried again for a while. What may have been received is never sent twice.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/mcp_priv.h"
#include "loop/loop.h"
#include "net/http_client.h"

enum {
	CONNECT_MS = 10 * 1000,
	RETRY_MS = 250,
	RETRY_FOR_US = 30 * 1000 * 1000,
	REPEAT_MS = 200, /* of a cancellation, which may overtake its request */
};

struct mcp_call {
	struct list on; /* bridge.calls or bridge.waiting */
	struct mcp_bridge *b;
	enum mcp_call_type type;
	char *text, *id;
	char *session; /* that it was sent in; NULL: none */
	/* Of a request without a session, which tells it in headers too; NULL: it has one. */
	char *version, *method, *name;
	char *cancellation; /* the client does not want the answer */
	struct http_exchange *x;
	struct timer *timer;
	usec began;
	int status;
	bool events, again;
	struct buf in;
};

static void send_now(struct mcp_call *c);

static void call_free(struct mcp_call *c)
{
	list_del(&c->on);
	if (c->x)
		http_exchange_cancel(c->x);
	timer_free(c->timer);
	buf_done(&c->in);
	free(c->text);
	free(c->id);
	free(c->session);
	free(c->version);
	free(c->method);
	free(c->name);
	free(c->cancellation);
	free(c);
}

static bool wants_answer(const struct mcp_call *c)
{
	return c->id && !c->cancellation && c->type != MCP_CALL_AGAIN;
}

/* The session is open again, or cannot be opened. */
static void opened_again(struct mcp_bridge *b)
{
	static const char ready[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

	if (b->session)
		mcp_call_start(b, MCP_CALL_MESSAGE, xstrdup(ready), NULL);
	while (!list_empty(&b->waiting)) {
		struct mcp_call *c = list_first(&b->waiting, struct mcp_call, on);

		list_del(&c->on);
		list_add_tail(&b->calls, &c->on);
		b->n_calls++;
		if (b->session) {
			send_now(c);
			continue;
		}
		if (wants_answer(c))
			mcp_say_error(c->id, -32603, "the session has ended, and no other begins");
		b->n_calls--;
		call_free(c);
	}
}

static void end(struct mcp_call *c)
{
	struct mcp_bridge *b = c->b;
	bool again = c->type == MCP_CALL_AGAIN;

	if (again || c->type == MCP_CALL_HELLO)
		b->opening = false;
	b->n_calls--;
	call_free(c);
	if (again)
		opened_again(b);
	b->changed(b);
}

static void fail(struct mcp_call *c, const char *text)
{
	if (wants_answer(c))
		mcp_say_error(c->id, -32603, text);
	end(c);
}

/* One answer of the server, as a line; a null id becomes that of the request. */
static void pass_on(struct mcp_call *c, const char *text, size_t len)
{
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse(text, len, NULL, &d);
	autobuf line = { 0 };
	autoptr(json_doc) id = NULL;
	struct json *root;

	if (!wants_answer(c))
		return;
	if (e) {
		mcp_say_error(c->id, -32603, "the server's answer is not JSON");
		return;
	}
	root = json_root(d);
	if (json_is(json_get(root, "id"), JSON_NULL)) {
		err_free(json_parse(c->id, strlen(c->id), NULL, &id));
		json_set(d, root, "id", json_copy(d, json_root(id)));
	}
	json_write(root, &line);
	mcp_say(buf_str(&line), line.len);
}

/* "event: message\ndata: {…}\n\n" and comments: what is complete. */
static void take_events(struct mcp_call *c)
{
	const char *stop;

	while (c->in.len && (stop = memmem(buf_head(&c->in), c->in.len, "\n\n", 2)) != NULL) {
		size_t len = (size_t)(stop - buf_head(&c->in));
		struct span rest = { buf_head(&c->in), len };
		autobuf data = { 0 };

		while (rest.p) {
			struct span line = span_cut(rest, '\n', &rest);

			if (line.len > 5 && !memcmp(line.p, "data:", 5))
				buf_add(&data, line.p + 5, line.len - 5);
		}
		if (data.len)
			pass_on(c, buf_str(&data), data.len);
		buf_eat(&c->in, len + 2);
	}
}

static void on_head(void *arg, int status, struct http_headers *h)
{
	struct mcp_call *c = arg;
	const char *type = http_headers_get(h, "Content-Type");
	const char *session = http_headers_get(h, "Mcp-Session-Id");

	c->status = status;
	c->events = type && str_starts(type, "text/event-stream");
	if (session && status == 200) {
		free(c->b->session);
		c->b->session = xstrdup(session);
	}
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct mcp_call *c = arg;

	if (c->in.len + len > MCP_ANSWER_MAX) {
		http_exchange_cancel(take(c->x));
		fail(c, "the server's answer is too large");
		return;
	}
	buf_add(&c->in, data, len);
	if (c->events)
		take_events(c);
}

/* The version that was agreed on, for the header of all that follows. */
static void note_version(struct mcp_call *c)
{
	autoptr(json_doc) d = NULL;
	const char *version;

	err_free(json_parse(buf_str(&c->in), c->in.len, NULL, &d));
	version = json_str(json_at_path(json_root(d), "result.protocolVersion"));
	if (version) {
		free(c->b->version);
		c->b->version = xstrdup(version);
	}
}

/* The session is gone: begins anew, and then sends this once more. */
static void begin_again(struct mcp_call *c)
{
	struct mcp_bridge *b = c->b;

	c->again = true;
	buf_clear(&c->in);
	if (b->session && !str_eq(b->session, c->session)) { /* somebody else has begun anew */
		send_now(c);
		return;
	}
	free(take(b->session));
	b->n_calls--;
	list_del(&c->on);
	list_add_tail(&b->waiting, &c->on);
	if (b->opening)
		return;
	b->opening = true;
	mcp_call_start(b, MCP_CALL_AGAIN, xstrdup(b->hello), NULL);
}

static void refused(struct mcp_call *c)
{
	autofree char *text = NULL;
	autoptr(json_doc) d = NULL;

	err_free(json_parse(buf_str(&c->in), c->in.len, NULL, &d));
	if (json_get(json_root(d), "error")) {
		pass_on(c, buf_str(&c->in), c->in.len);
		end(c);
		return;
	}
	text = xasprintf("the server answers with status %d: %s", c->status,
			 str_or(json_get_str(json_root(d), "message"), "no reason given"));
	fail(c, text);
}

static void on_end(void *arg, unused struct http_headers *trailers)
{
	struct mcp_call *c = arg;

	c->x = NULL;
	if (c->status == 404 && c->type == MCP_CALL_MESSAGE && !c->version && c->b->hello &&
	    !c->again) {
		begin_again(c);
		return;
	}
	if (c->type == MCP_CALL_DELETE) {
		end(c);
		return;
	}
	if (c->status >= 300) {
		refused(c);
		return;
	}
	if (c->type == MCP_CALL_HELLO || c->type == MCP_CALL_AGAIN)
		note_version(c);
	if (!c->events && c->in.len)
		pass_on(c, buf_str(&c->in), c->in.len);
	end(c);
}

static void on_failed(void *arg, const struct err *e)
{
	struct mcp_call *c = arg;
	autofree char *text = NULL;
	autoptr(err) why = NULL;

	c->x = NULL;
	if (err_errno(e) == ECONNREFUSED && c->type != MCP_CALL_DELETE && !c->cancellation &&
	    clock_mono() - c->began < RETRY_FOR_US) {
		timer_set(c->timer, RETRY_MS);
		return;
	}
	why = cli_server_refused(&c->b->at, err_copy(e));
	text = xasprintf("the server cannot be reached, or was lost during the call: %s",
			 err_text(why));
	fail(c, text);
}

static void add_headers(const struct mcp_call *c, struct http_headers *h)
{
	const struct mcp_bridge *b = c->b;
	bool opens = c->type == MCP_CALL_HELLO || c->type == MCP_CALL_AGAIN;

	http_headers_add(h, "Host", b->at.host);
	http_headers_add(h, "User-Agent", "cay-mcp/" CAY_VERSION);
	http_headers_add(h, "Accept", "application/json, text/event-stream");
	if (c->text)
		http_headers_add(h, "Content-Type", "application/json");
	if (b->at.authorization)
		http_headers_add(h, "Authorization", b->at.authorization);
	if (c->version) {
		http_headers_add(h, "MCP-Protocol-Version", c->version);
		http_headers_add(h, "Mcp-Method", c->method);
		if (c->name)
			http_headers_add(h, "Mcp-Name", c->name);
		return;
	}
	if (!opens && b->session)
		http_headers_add(h, "Mcp-Session-Id", b->session);
	if (!opens && b->version)
		http_headers_add(h, "MCP-Protocol-Version", b->version);
}

static void send_now(struct mcp_call *c)
{
	static const struct http_exchange_events events = {
		.head = on_head, .data = on_data, .end = on_end, .failed = on_failed
	};
	struct mcp_bridge *b = c->b;
	struct http_headers h = { 0 };
	size_t len = c->text ? strlen(c->text) : 0;

	free(c->session);
	c->session = xstrdup(b->session);
	add_headers(c, &h);
	c->x = http_exchange_start(b->pool,
				   &(struct http_exchange_spec){
					   .addr = b->at.addr,
					   .method = c->type == MCP_CALL_DELETE ? "DELETE" : "POST",
					   .target = b->path,
					   .headers = &h,
					   .body_len = (int64_t)len,
					   .connect_ms = CONNECT_MS },
				   &events, c);
	http_headers_done(&h);
	if (len) {
		http_exchange_write(c->x, c->text, len);
		http_exchange_end_body(c->x, NULL);
	}
}

/* Time to send it, or to send its cancellation once more. */
static void on_timer(void *arg)
{
	struct mcp_call *c = arg;

	if (!c->cancellation) {
		send_now(c);
		return;
	}
	mcp_call_start(c->b, MCP_CALL_MESSAGE, xstrdup(c->cancellation), NULL);
	timer_set(c->timer, REPEAT_MS);
}

/* For a header: plain where that survives the way, otherwise wrapped. malloc'd; NULL: none. */
static char *header_text(const char *text)
{
	size_t len = text ? strlen(text) : 0;
	autofree char *inner = NULL;
	bool plain = len && text[0] != ' ' && text[len - 1] != ' ' && !str_starts(text, "=?");

	for (size_t i = 0; i < len; i++)
		plain = plain && text[i] >= ' ' && text[i] <= '~';
	if (!text || plain)
		return xstrdup(text);
	inner = base64_encode(text, len, false);
	return xasprintf("=?base64?%s?=", inner);
}

/* The id of a request, as JSON; NULL: it has none, or one that is not valid. */
static char *id_of(const struct json *msg)
{
	const struct json *id = json_get(msg, "id");

	if (!json_get(msg, "method") || (!json_is(id, JSON_STR) && !json_is(id, JSON_INT)))
		return NULL;
	return json_to_text(id);
}

static void read_message(struct mcp_call *c, const struct json *msg)
{
	const struct json *params = json_get(msg, "params");
	const char *name = json_get_str(params, "name");
	const char *version =
		json_get_str(json_get(params, "_meta"), "io.modelcontextprotocol/protocolVersion");

	c->id = id_of(msg);
	if (!version || c->type != MCP_CALL_MESSAGE)
		return;
	c->version = header_text(version);
	c->method = header_text(json_get_str(msg, "method"));
	c->name = header_text(name ? name : json_get_str(params, "uri"));
}

void mcp_call_start(struct mcp_bridge *b, enum mcp_call_type type, char *text,
		    const struct json *msg)
{
	struct mcp_call *c = xnew(struct mcp_call);

	c->b = b;
	c->type = type;
	c->text = text;
	read_message(c, msg);
	c->began = clock_mono();
	c->timer = timer_new(b->loop, on_timer, c);
	b->n_calls++;
	list_add_tail(&b->calls, &c->on);
	send_now(c);
}

bool mcp_call_forget(struct mcp_bridge *b, const char *id, const char *notification)
{
	struct mcp_call *c;

	list_each(c, &b->calls, on) {
		if (!str_eq(c->id, id) || c->cancellation)
			continue;
		if (c->x && !c->version) {
			c->cancellation = xstrdup(notification);
			timer_set(c->timer, REPEAT_MS);
			return true;
		}
		end(c); /* it was not sent yet, or its connection is all that it has */
		return false;
	}
	return true;
}

void mcp_calls_cut(struct mcp_bridge *b)
{
	while (!list_empty(&b->calls))
		call_free(list_first(&b->calls, struct mcp_call, on));
	while (!list_empty(&b->waiting))
		call_free(list_first(&b->waiting, struct mcp_call, on));
	b->n_calls = 0;
}
