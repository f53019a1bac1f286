/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "net/http.h"
#include "net/spdy.h"
#include "net/websocket.h"
#include "server/call/call.h"
#include "server/streams/streams_priv.h"

/*
 * Port-forward: SPDY, on the connection or inside the messages of a WebSocket, which this is about,
 * or channels of a WebSocket (forward_channels.c). For each connection
 * that the client accepts it opens two streams with the same `requestid`: `error` and `data`. The
 * second of them makes us dial.
 *
 * Any byte on an error stream makes clients give up the whole tunnel. So it says only that the
 * target could not be reached; a connection that breaks later just ends. SPDY as spoken here has no
 * flow control: one target that reads nothing holds back the input of all.
 */
enum {
	MESSAGE_MAX = 1 << 20,
	ID_LEN_MAX = 32,
};

struct forward {
	struct pod_stream stream;
	struct streams *streams;
	struct call *call; /* holds the strings of to */
	struct access_target to;
	const char *owner; /* whose Pod it is, as the call has it; NULL: that does not matter */
	struct spdy *spdy;
	struct list pairs;
};

struct pair {
	struct list link;
	struct forward *f;
	char id[ID_LEN_MAX + 1];
	uint16_t port;
	uint32_t error, data;           /* streams; 0: not open yet */
	struct access_session *session; /* NULL: not dialled */
	bool full;                      /* the target takes no more for now */
	bool spoke;                     /* it has sent something */
};

/* The only place that decides whether we read. */
static void forward_flow(struct forward *f)
{
	struct pair *p;
	bool full = false;

	list_each(p, &f->pairs, link)
		full |= p->full;
	spdy_pause(f->spdy, full);
}

static void pair_free(struct pair *p)
{
	list_del(&p->link);
	if (p->session)
		access_cancel(p->session);
	free(p);
}

/* Both streams end; text, if any, says why. */
static void pair_end(struct pair *p, const char *text)
{
	struct forward *f = p->f;

	if (text)
		spdy_write(f->spdy, p->error, text, strlen(text));
	spdy_end(f->spdy, p->data);
	spdy_end(f->spdy, p->error);
	pair_free(p);
	forward_flow(f);
}

static void pair_fail(struct pair *p, const struct err *e)
{
	autofree char *text = xasprintf("error forwarding port %u to pod %s: %s", p->port,
					p->f->to.pod, err_text(e));

	pair_end(p, text);
}

static void on_output(void *arg, unused int fd, const char *data, size_t len)
{
	struct pair *p = arg;

	p->spoke = true;
	spdy_write(p->f->spdy, p->data, data, len);
	if (spdy_full(p->f->spdy))
		access_pause(p->session, true);
}

static void on_input_drained(void *arg)
{
	struct pair *p = arg;

	p->full = false;
	forward_flow(p->f);
}

static void on_session_ended(void *arg, const struct err *e, unused int code, unused int signal)
{
	struct pair *p = arg;

	p->session = NULL;
	if (e && !p->spoke)
		pair_fail(p, e);
	else
		pair_end(p, NULL);
}

static const struct access_events session_events = {
	.output = on_output,
	.drained = on_input_drained,
	.ended = on_session_ended,
};

/* A Sandbox may have another Pod by now, if it has slept. Another Sandbox's Pod of the name is not
 * what the client was let into. */
static bool is_still_meant(const struct forward *f)
{
	const char *owner = f->owner ? pod_owner(f->streams, f->call) : NULL;

	return !f->owner || !owner || str_eq(owner, f->owner);
}

static void pair_dial(struct pair *p)
{
	struct access *a = p->f->streams->access;
	const struct access_dial_spec spec = { .to = p->f->to, .port = p->port };
	autoptr(err) e = NULL;

	if (!a)
		e = err_new(ERR_UNAVAILABLE, "no node runs it");
	else if (!is_still_meant(p->f))
		e = err_new(ERR_NOT_FOUND, "it is gone, and this is another one of its name");
	else
		e = access_dial(a, &spec, &session_events, p, &p->session);
	if (e)
		pair_fail(p, e);
}

/* Streams */

static struct pair *pair_of_request(struct forward *f, const char *id)
{
	struct pair *p;

	list_each(p, &f->pairs, link)
		if (str_eq(p->id, id))
			return p;
	return NULL;
}

static struct pair *pair_of_stream(struct forward *f, uint32_t data)
{
	struct pair *p;

	list_each(p, &f->pairs, link)
		if (p->data == data)
			return p;
	return NULL;
}

static struct pair *pair_new(struct forward *f, const char *id, uint16_t port)
{
	struct pair *p = xnew(struct pair);

	p->f = f;
	p->port = port;
	(void)snprintf(p->id, sizeof(p->id), "%s", id);
	list_add_tail(&f->pairs, &p->link);
	return p;
}

/* The pair that a new stream belongs to; NULL: its headers make no sense. */
static struct pair *pair_for(struct forward *f, const struct http_headers *h)
{
	const char *id = http_headers_get(h, "requestid");
	const char *port_text = http_headers_get(h, "port");
	struct pair *p;
	int64_t port;
	struct err *e;

	if (str_empty(id) || strlen(id) > ID_LEN_MAX || !port_text)
		return NULL;
	e = parse_int(port_text, 1, UINT16_MAX, &port);
	if (e) {
		err_free(e);
		return NULL;
	}
	p = pair_of_request(f, id);
	if (!p)
		return pair_new(f, id, (uint16_t)port);
	return p->port == port ? p : NULL;
}

static void on_opened(void *arg, uint32_t id, const struct http_headers *h)
{
	struct forward *f = arg;
	const char *type = http_headers_get(h, "streamtype");
	bool error = str_eq(type, "error");
	struct pair *p = error || str_eq(type, "data") ? pair_for(f, h) : NULL;
	uint32_t *slot;

	if (!p) {
		spdy_end(f->spdy, id);
		return;
	}
	slot = error ? &p->error : &p->data;
	if (*slot) {
		spdy_end(f->spdy, id); /* its place is taken */
		return;
	}
	*slot = id;
	if (p->error && p->data)
		pair_dial(p);
}

static void on_data(void *arg, uint32_t id, const char *data, size_t len)
{
	struct forward *f = arg;
	struct pair *p = pair_of_stream(f, id);

	if (!p)
		return;
	if (!p->session) {
		pair_end(p, NULL); /* data before the error stream is open */
		return;
	}
	access_write(p->session, data, len);
	p->full = access_full(p->session);
	if (p->full)
		forward_flow(f);
}

static void on_ended(void *arg, uint32_t id)
{
	struct pair *p = pair_of_stream(arg, id);

	if (p && p->session)
		access_end_input(p->session);
}

static void on_reset(void *arg, uint32_t id)
{
	struct forward *f = arg;
	struct pair *p, *next;

	list_each_safe(p, next, &f->pairs, link) {
		if (p->data != id && (p->data || p->error != id))
			continue; /* an error stream may go alone once the data stream is there */
		pair_end(p, NULL);
		return;
	}
}

static void on_drained(void *arg)
{
	struct forward *f = arg;
	struct pair *p;

	list_each(p, &f->pairs, link)
		if (p->session)
			access_pause(p->session, false);
}

/* The whole */

static void forward_free(struct forward *f)
{
	struct pair *p, *next;

	pod_stream_del(&f->stream);
	list_each_safe(p, next, &f->pairs, link)
		pair_free(p);
	spdy_free(f->spdy);
	call_unref(f->call);
	free(f);
}

static void forward_cut(struct pod_stream *p)
{
	forward_free(container_of(p, struct forward, stream));
}

static void on_closed(void *arg)
{
	forward_free(arg);
}

static const struct spdy_events spdy_events = {
	.opened = on_opened,
	.data = on_data,
	.ended = on_ended,
	.reset = on_reset,
	.drained = on_drained,
	.closed = on_closed,
};

static struct err *forward_read(struct forward *f, struct upgrade *ret)
{
	static const struct protocol ws[] = {
		{ "SPDY/3.1+portforward.k8s.io", 1 },
		{ "v5.channel.k8s.io", 5 },
		{ "v4.channel.k8s.io", 4 },
		{ 0 },
	};
	static const struct protocol spdy[] = { { "portforward.k8s.io", 1 }, { 0 } };
	const char *owner = pod_owner(f->streams, f->call);
	struct err *e;

	f->owner = owner ? arena_strdup(f->call->arena, owner) : NULL;
	e = pod_target(f->streams, f->call, POD_USE_FORWARD, &f->to);
	if (!e)
		e = upgrade_read(f->call, ws, spdy, ret);
	if (!e && !ret->protocol)
		e = err_new(ERR_MALFORMED, "negotiate protocol: the client offers none");
	if (!e && ret->version < 4)
		e = pod_stream_add(&f->stream, f->streams, f->call);
	return e;
}

static struct spdy *forward_upgrade(struct forward *f, const struct upgrade *u)
{
	struct websocket *w;
	struct conn *c;

	switch (u->transport) {
	case TRANSPORT_WEBSOCKET:
		w = upgrade_websocket(f->call, u, MESSAGE_MAX);
		return w ? spdy_new_websocket(w, &spdy_events, f) : NULL;
	case TRANSPORT_SPDY:
		c = upgrade_spdy(f->call, u);
		return c ? spdy_new(c, &spdy_events, f) : NULL;
	case TRANSPORT_MAX_:
		break;
	}
	return NULL;
}

static void forward_handle(struct streams *ps, struct call *c)
{
	struct forward *f = xnew(struct forward);
	struct upgrade u;
	struct err *e;

	f->stream.cut = forward_cut;
	f->streams = ps;
	f->call = call_ref(c);
	list_init(&f->pairs);
	e = forward_read(f, &u);
	if (e)
		call_fail(c, e);
	else if (u.version >= 4)
		forward_channels(ps, c, &f->to, &u);
	else
		f->spdy = forward_upgrade(f, &u);
	if (!f->spdy)
		forward_free(f);
}

void streams_forward(struct streams *ps, struct call *c)
{
	if (!streams_wake(ps, c, streams_forward))
		forward_handle(ps, c);
}
