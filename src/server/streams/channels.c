/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "net/spdy.h"
#include "net/stream.h"
#include "net/websocket.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/streams/streams_priv.h"

/*
 * WebSocket: a message is one byte, the channel, and its data; from version 5 on, the bytes 255 and
 * N end channel N. SPDY: a stream for each channel, named by its header `streamtype`; the client
 * opens them one by one after the upgrade.
 *
 * At the end comes the error channel: a JSON Status from version 4 on, before that a text in case
 * of failure. A client may be slow to read the rest of the output (it writes into a pager), and
 * closing early would lose that, so the connection is left for the client to close.
 */
enum {
	OPEN_MS = 30 * 1000, /* for the client to open its streams */
	LINGER_MS = 60 * 60 * 1000,
	MESSAGE_MAX = (1 << 20) + 1, /* what the Python client reads at most, and the channel */
	CLOSE_NORMAL = 1000,
	PROBE_AFTER_S = 60, /* of silence */
	PROBE_EVERY_S = 20,
	PROBES_MAX = 3,
	END_MARK = 255,
};

enum channels_state {
	CHANNELS_OPENING,
	CHANNELS_OPEN,
	CHANNELS_CLOSING, /* the outcome has been sent, or there is no peer to send it to */
	CHANNELS_STATE_MAX_,
};

static const unsigned channels_next[CHANNELS_STATE_MAX_] = {
	[CHANNELS_OPENING] = B(CHANNELS_OPEN) | B(CHANNELS_CLOSING),
	[CHANNELS_OPEN] = B(CHANNELS_CLOSING),
	[CHANNELS_CLOSING] = 0,
};

struct channels {
	struct channels_events ev;
	void *arg;
	struct websocket *ws; /* one of these two carries us */
	struct spdy *spdy;
	struct timer *timer;
	enum channels_state state;
	unsigned version, wanted;
	unsigned ended;             /* while opening: channels that the client ended already */
	uint32_t ids[CHANNEL_MAX_]; /* of SPDY streams; 0: not open */
};

static const char *const channel_names[CHANNEL_MAX_] = {
	[CHANNEL_STDIN] = "stdin", [CHANNEL_STDOUT] = "stdout", [CHANNEL_STDERR] = "stderr",
	[CHANNEL_ERROR] = "error", [CHANNEL_RESIZE] = "resize",
};

/* Upgrades */

static struct err *choose(const struct http_headers *h, const char *header,
			  const struct protocol *known, struct upgrade *ret)
{
	autobuf b = { 0 };

	ret->protocol = NULL;
	ret->version = 1;
	if (!http_headers_get(h, header))
		return NULL;
	for (; known->name; known++) {
		if (http_headers_has_token(h, header, known->name)) {
			ret->protocol = known->name;
			ret->version = known->version;
			return NULL;
		}
		buf_printf(&b, " %s", known->name);
	}
	return err_new(ERR_MALFORMED, "negotiate protocol: none offered in %s is spoken here:%s",
		       header, buf_str(&b));
}

struct err *upgrade_read(struct call *c, const struct protocol *ws, const struct protocol *spdy,
			 struct upgrade *ret)
{
	const struct http_headers *h = http_request_headers(c->req);

	if (http_request_body_len(c->req))
		return err_new(ERR_MALFORMED, "an upgrade request has no body");
	if (websocket_wanted(c->req)) {
		ret->transport = TRANSPORT_WEBSOCKET;
		return choose(h, "Sec-WebSocket-Protocol", ws, ret);
	}
	if (http_headers_has_token(h, "Connection", "upgrade") &&
	    http_headers_has_token(h, "Upgrade", "SPDY/3.1")) {
		ret->transport = TRANSPORT_SPDY;
		return choose(h, "X-Stream-Protocol-Version", spdy, ret);
	}
	return err_new(ERR_MALFORMED, "Upgrade request required");
}

/*
 * A session may be silent for days, so the kernel must probe whether the client's machine is still
 * there. A local socket has no such option and needs none.
 */
static void probe_peer(struct call *c)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, PROBE_AFTER_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EVERY_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, PROBES_MAX },
	};
	const struct stream *s = http_request_conn_stream(c->req);

	for (size_t i = 0; s && i < ARRAY_LEN(options); i++)
		(void)setsockopt(s->fd, options[i].level, options[i].name, &options[i].value,
				 sizeof(options[i].value));
}

/* The connection no longer belongs to the request: whoever upgraded it holds the call. */
static void request_left(struct call *c)
{
	c->req = NULL;
	c->status = STATUS_SWITCHING;
	call_unref(c);
}

struct conn *upgrade_spdy(struct call *c, const struct upgrade *u)
{
	struct http_headers h = { 0 };
	struct conn *conn;

	probe_peer(c);
	http_headers_add(&h, "Connection", "Upgrade");
	http_headers_add(&h, "Upgrade", "SPDY/3.1");
	if (u->protocol)
		http_headers_add(&h, "X-Stream-Protocol-Version", u->protocol);
	http_respond_upgrade(c->req, &h, &conn);
	http_headers_done(&h);
	if (conn)
		request_left(c);
	return conn;
}

void upgrade_plain(struct call *c, const struct http_headers *h, struct conn **ret)
{
	probe_peer(c);
	http_respond_upgrade(c->req, h, ret);
	if (*ret)
		request_left(c);
}

struct websocket *upgrade_websocket(struct call *c, const struct upgrade *u, size_t max_message)
{
	const char *const protocols[] = { u->protocol, NULL };
	const char *chosen;
	struct websocket *w;

	probe_peer(c);
	w = websocket_accept(c->req, u->protocol ? protocols : NULL, max_message, &chosen);
	if (w)
		request_left(c);
	return w;
}

struct err *channels_offered(struct call *c, struct upgrade *ret)
{
	static const struct protocol ws[] = {
		{ "v5.channel.k8s.io", 5 },
		{ "v4.channel.k8s.io", 4 },
		{ "channel.k8s.io", 1 },
		{ 0 },
	};
	/* Version 5 adds nothing to SPDY, which ends streams by itself. */
	static const struct protocol spdy[] = {
		{ "v4.channel.k8s.io", 4 }, { "v5.channel.k8s.io", 5 }, { "v3.channel.k8s.io", 3 },
		{ "v2.channel.k8s.io", 2 }, { "channel.k8s.io", 1 },    { 0 },
	};

	return upgrade_read(c, ws, spdy, ret);
}

/* States */

static void channels_enter(struct channels *ch, enum channels_state next)
{
	assert(channels_next[ch->state] & B(next));
	ch->state = next;
	switch (next) {
	case CHANNELS_OPENING:
		break;
	case CHANNELS_OPEN:
		timer_clear(ch->timer);
		break;
	case CHANNELS_CLOSING:
		channels_pause(ch, false); /* to see the client's end */
		timer_set(ch->timer, LINGER_MS);
		break;
	case CHANNELS_STATE_MAX_:
		break;
	}
}

/* The client did not open its streams in time, or does not hang up. */
static void on_timer(void *arg)
{
	struct channels *ch = arg;

	ch->ev.closed(ch->arg);
}

static bool channel_wanted(const struct channels *ch, enum channel n)
{
	return n == CHANNEL_ERROR || (ch->wanted & B(n));
}

static bool channel_is_input(enum channel n)
{
	return n == CHANNEL_STDIN || n == CHANNEL_RESIZE;
}

/* SPDY */

static enum channel channel_named(const char *name)
{
	for (unsigned n = 0; name && n < CHANNEL_MAX_; n++)
		if (str_eq(channel_names[n], name))
			return n;
	return CHANNEL_MAX_;
}

static enum channel channel_of_stream(const struct channels *ch, uint32_t id)
{
	for (unsigned n = 0; n < CHANNEL_MAX_; n++)
		if (ch->ids[n] == id)
			return n;
	return CHANNEL_MAX_;
}

static bool all_open(const struct channels *ch)
{
	for (unsigned n = 0; n < CHANNEL_MAX_; n++)
		if (channel_wanted(ch, n) && !ch->ids[n])
			return false;
	return true;
}

static void on_spdy_opened(void *arg, uint32_t id, const struct http_headers *h)
{
	struct channels *ch = arg;
	enum channel n = channel_named(http_headers_get(h, "streamtype"));

	if (ch->state != CHANNELS_OPENING || n == CHANNEL_MAX_ || !channel_wanted(ch, n) ||
	    ch->ids[n]) {
		spdy_end(ch->spdy, id); /* nothing will come on it */
		return;
	}
	ch->ids[n] = id;
	if (!all_open(ch))
		return;
	channels_enter(ch, CHANNELS_OPEN);
	ch->ev.opened(ch->arg);
	for (n = 0; n < CHANNEL_MAX_; n++)
		if ((ch->ended & B(n)) && ch->state == CHANNELS_OPEN)
			ch->ev.ended(ch->arg, n);
}

static void on_spdy_data(void *arg, uint32_t id, const char *data, size_t len)
{
	struct channels *ch = arg;
	enum channel n = channel_of_stream(ch, id);

	if (n == CHANNEL_MAX_ || !channel_is_input(n) || ch->state == CHANNELS_CLOSING)
		return;
	if (ch->state == CHANNELS_OPEN) {
		ch->ev.data(ch->arg, n, data, len);
		return;
	}
	channels_enter(
		ch,
		CHANNELS_CLOSING); /* data before all streams are open: there is no receiver yet */
	spdy_close(ch->spdy);
}

static void on_spdy_ended(void *arg, uint32_t id)
{
	struct channels *ch = arg;
	enum channel n = channel_of_stream(ch, id);

	if (n == CHANNEL_MAX_ || !channel_is_input(n))
		return;
	if (ch->state == CHANNELS_OPEN)
		ch->ev.ended(ch->arg, n);
	else
		ch->ended |= B(n);
}

static void on_drained(void *arg)
{
	struct channels *ch = arg;

	if (ch->state == CHANNELS_OPEN)
		ch->ev.drained(ch->arg);
}

static void on_spdy_closed(void *arg)
{
	struct channels *ch = arg;

	ch->ev.closed(ch->arg);
}

static const struct spdy_events spdy_events = {
	.opened = on_spdy_opened,
	.data = on_spdy_data,
	.ended = on_spdy_ended,
	.reset = on_spdy_ended,
	.drained = on_drained,
	.closed = on_spdy_closed,
};

/* WebSocket */

static void on_message(void *arg, unused bool binary, const char *data, size_t len)
{
	struct channels *ch = arg;
	unsigned n = len ? (unsigned char)data[0] : CHANNEL_MAX_;
	bool end = n == END_MARK && ch->version >= 5 && len >= 2;

	if (end)
		n = (unsigned char)data[1];
	if (ch->state != CHANNELS_OPEN || n >= CHANNEL_MAX_ || !channel_is_input(n) ||
	    !channel_wanted(ch, n))
		return;
	if (end)
		ch->ev.ended(ch->arg, n);
	else if (len > 1)
		ch->ev.data(ch->arg, n, data + 1, len - 1);
}

static void on_ws_closed(void *arg, unused uint16_t code)
{
	on_spdy_closed(arg);
}

static const struct websocket_events ws_events = {
	.message = on_message,
	.drained = on_drained,
	.closed = on_ws_closed,
};

/* Both */

static bool connect_transport(struct channels *ch, struct call *c, const struct upgrade *u)
{
	struct conn *conn;

	switch (u->transport) {
	case TRANSPORT_WEBSOCKET:
		ch->ws = upgrade_websocket(c, u, MESSAGE_MAX);
		if (!ch->ws)
			return false;
		websocket_set_events(ch->ws, &ws_events, ch);
		channels_enter(ch, CHANNELS_OPEN);
		return true;
	case TRANSPORT_SPDY:
		conn = upgrade_spdy(c, u);
		if (!conn)
			return false;
		ch->spdy = spdy_new(conn, &spdy_events, ch);
		timer_set(ch->timer, OPEN_MS);
		return true;
	case TRANSPORT_MAX_:
		break;
	}
	return false;
}

struct channels *channels_accept(struct call *c, const struct upgrade *u,
				 const struct channels_spec *spec)
{
	struct channels *ch = xnew(struct channels);

	ch->ev = *spec->ev;
	ch->arg = spec->arg;
	ch->version = u->version;
	ch->wanted = u->version >= 3 || u->transport == TRANSPORT_WEBSOCKET
			     ? spec->wanted
			     : spec->wanted & ~B(CHANNEL_RESIZE);
	ch->timer = timer_new(spec->loop, on_timer, ch);
	if (connect_transport(ch, c, u))
		return ch;
	channels_free(ch);
	return NULL;
}

static void send_message(struct channels *ch, enum channel n, const void *p, size_t len)
{
	autobuf b = { 0 };

	buf_add_char(&b, (char)n);
	buf_add(&b, p, len);
	websocket_send(ch->ws, true, buf_head(&b), b.len);
}

void channels_write(struct channels *ch, enum channel n, const void *p, size_t len)
{
	if (ch->state != CHANNELS_OPEN || !len || !channel_wanted(ch, n))
		return;
	if (ch->ws)
		send_message(ch, n, p, len);
	else
		spdy_write(ch->spdy, ch->ids[n], p, len);
}

bool channels_full(const struct channels *ch)
{
	return ch->ws ? websocket_full(ch->ws) : spdy_full(ch->spdy);
}

void channels_pause(struct channels *ch, bool paused)
{
	if (ch->ws)
		websocket_pause(ch->ws, paused);
	else
		spdy_pause(ch->spdy, paused);
}

static void write_status(struct channels *ch, const struct json *status)
{
	const char *message = json_get_str(status, "message");
	autofree char *text = NULL;

	if (ch->version >= 4)
		text = json_to_text(status);
	else if (message)
		text = xstrdup(message);
	if (text)
		channels_write(ch, CHANNEL_ERROR, text, strlen(text));
}

void channels_finish(struct channels *ch, const struct json_doc *status)
{
	if (ch->state != CHANNELS_OPEN)
		return;
	write_status(ch, json_root(status));
	channels_enter(ch, CHANNELS_CLOSING);
	if (ch->ws) {
		websocket_close(ch->ws, CLOSE_NORMAL, NULL);
		return;
	}
	for (unsigned n = 0; n < CHANNEL_MAX_; n++)
		if (ch->ids[n])
			spdy_end(ch->spdy, ch->ids[n]);
}

void channels_free(struct channels *ch)
{
	if (!ch)
		return;
	websocket_free(ch->ws);
	spdy_free(ch->spdy);
	timer_free(ch->timer);
	free(ch);
}
