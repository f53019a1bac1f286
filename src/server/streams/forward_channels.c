/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "net/http.h"
#include "net/http_server.h"
#include "net/websocket.h"
#include "server/call/call.h"
#include "server/streams/streams_priv.h"

/*
 * Port-forward in the channels of a WebSocket, without SPDY: the query names the ports, port i has
 * the channels 2i for its bytes and 2i+1 for an error, and each begins with the number of the port,
 * low byte first. Every port is dialled at once, and once only: a further connection is another
 * WebSocket. Version 4 knows no half-close. Version 5 adds that of exec, the bytes 255 and N,
 * which clients of ours use.
 */
enum {
	PORTS_MAX = 32,
	MESSAGE_MAX = (1 << 20) + 1, /* what the Python client reads at most, and the channel */
	END_MARK = 255,
	CLOSE_NORMAL = 1000,
};

struct lane {
	struct ports *p;
	unsigned char channel; /* of data; the next one is for errors */
	uint16_t port;
	struct access_session *session; /* NULL: over */
	bool full;                      /* the target takes no more for now */
	bool spoke;                     /* it has sent something */
};

struct ports {
	struct pod_stream stream;
	struct streams *streams;
	struct call *call; /* holds the strings of to */
	struct access_target to;
	struct websocket *ws;
	unsigned version;
	size_t n;
	struct lane lanes[PORTS_MAX];
};

static void ports_free(struct ports *p)
{
	pod_stream_del(&p->stream);
	for (size_t i = 0; i < p->n; i++)
		if (p->lanes[i].session)
			access_cancel(p->lanes[i].session);
	websocket_free(p->ws);
	call_unref(p->call);
	free(p);
}

static void ports_cut(struct pod_stream *s)
{
	ports_free(container_of(s, struct ports, stream));
}

/* The only place that decides whether we read. */
static void ports_flow(struct ports *p)
{
	bool full = false;

	for (size_t i = 0; i < p->n; i++)
		full |= p->lanes[i].session && p->lanes[i].full;
	websocket_pause(p->ws, full);
}

static void send_on(struct ports *p, unsigned char channel, const void *data, size_t len)
{
	autobuf b = { 0 };

	buf_add_char(&b, (char)channel);
	buf_add(&b, data, len);
	websocket_send(p->ws, true, buf_head(&b), b.len);
}

/* The last lane that ends closes the connection. */
static void lane_end(struct lane *l)
{
	struct ports *p = l->p;

	l->session = NULL;
	for (size_t i = 0; i < p->n; i++)
		if (p->lanes[i].session) {
			ports_flow(p);
			return;
		}
	websocket_close(p->ws, CLOSE_NORMAL, NULL);
}

static void lane_fail(struct lane *l, const struct err *e)
{
	autofree char *text = xasprintf("error forwarding port %u to pod %s: %s", l->port,
					l->p->to.pod, err_text(e));

	send_on(l->p, l->channel + 1, text, strlen(text));
}

static void on_output(void *arg, unused int fd, const char *data, size_t len)
{
	struct lane *l = arg;

	l->spoke = true;
	send_on(l->p, l->channel, data, len);
	if (websocket_full(l->p->ws))
		access_pause(l->session, true);
}

static void on_input_drained(void *arg)
{
	struct lane *l = arg;

	l->full = false;
	ports_flow(l->p);
}

static void on_session_ended(void *arg, const struct err *e, unused int code, unused int signal)
{
	struct lane *l = arg;

	if (e && !l->spoke)
		lane_fail(l, e);
	lane_end(l);
}

/* The target could not even be dialled: the lane has an end like any other. */
static void lane_dial(struct lane *l)
{
	static const struct access_events events = {
		.output = on_output,
		.drained = on_input_drained,
		.ended = on_session_ended,
	};
	const struct access_dial_spec spec = { .to = l->p->to, .port = l->port };
	unsigned char number[2] = { l->port & 0xff, (unsigned char)(l->port >> 8) };
	autoptr(err) e = NULL;

	send_on(l->p, l->channel, number, sizeof(number));
	send_on(l->p, l->channel + 1, number, sizeof(number));
	e = access_dial(l->p->streams->access, &spec, &events, l, &l->session);
	if (e)
		lane_fail(l, e);
}

/* The client */

static void on_message(void *arg, unused bool binary, const char *data, size_t len)
{
	struct ports *p = arg;
	unsigned channel = len ? (unsigned char)data[0] : 1;
	bool end = channel == END_MARK && p->version >= 5 && len >= 2;
	struct lane *l;

	if (end)
		channel = (unsigned char)data[1];
	l = channel % 2 == 0 && channel / 2 < p->n ? &p->lanes[channel / 2] : NULL;
	if (!l || !l->session)
		return;
	if (end) {
		access_end_input(l->session);
		return;
	}
	if (len > 1)
		access_write(l->session, data + 1, len - 1);
	l->full = access_full(l->session);
	if (l->full)
		ports_flow(p);
}

static void on_drained(void *arg)
{
	struct ports *p = arg;

	for (size_t i = 0; i < p->n; i++)
		if (p->lanes[i].session)
			access_pause(p->lanes[i].session, false);
}

static void on_closed(void *arg, unused uint16_t code)
{
	ports_free(arg);
}

/* The whole */

/* One value of the query: "80" or "80,443". */
static struct err *read_ports(struct ports *p, const char *text)
{
	struct span rest = SPAN(text);

	while (rest.p) {
		struct span one = span_cut(rest, ',', &rest);
		autofree char *word = xstrndup(one.p, one.len);
		struct err *e;
		int64_t port;

		e = parse_int(word, 1, UINT16_MAX, &port);
		if (e)
			return err_recode(err_wrap(e, "ports: \"%s\"", word), ERR_MALFORMED);
		if (p->n == PORTS_MAX)
			return err_new(ERR_MALFORMED, "ports: at most %d at a time", PORTS_MAX);
		p->lanes[p->n] = (struct lane){ .p = p,
						.channel = (unsigned char)(2 * p->n),
						.port = (uint16_t)port };
		p->n++;
	}
	return NULL;
}

static struct err *read_query(struct ports *p)
{
	const char *query = http_request_query(p->call->req);
	struct err *e = NULL;

	for (size_t i = 0; !e; i++) {
		autofree char *text = http_query_nth(query, "ports", i);

		if (!text)
			break;
		e = read_ports(p, text);
	}
	if (!e && !p->n)
		e = err_new(ERR_MALFORMED, "ports: the query must name at least one port");
	return e;
}

static void ports_open(struct ports *p)
{
	static const struct websocket_events events = {
		.message = on_message,
		.drained = on_drained,
		.closed = on_closed,
	};
	bool any = false;

	websocket_set_events(p->ws, &events, p);
	for (size_t i = 0; i < p->n; i++) {
		lane_dial(&p->lanes[i]);
		any |= p->lanes[i].session != NULL;
	}
	if (!any)
		websocket_close(p->ws, CLOSE_NORMAL, NULL);
}

void forward_channels(struct streams *ps, struct call *c, const struct access_target *to,
		      const struct upgrade *u)
{
	struct ports *p = xnew(struct ports);
	struct err *e;

	p->stream.cut = ports_cut;
	p->streams = ps;
	p->call = call_ref(c);
	p->to = *to;
	p->version = u->version;
	e = read_query(p);
	if (!e)
		e = pod_stream_add(&p->stream, ps, c);
	if (e)
		call_fail(c, e);
	else
		p->ws = upgrade_websocket(c, u, MESSAGE_MAX);
	if (p->ws)
		ports_open(p);
	else
		ports_free(p);
}
