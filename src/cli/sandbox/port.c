/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay port`: ports of a sandbox on our loopback address. Each connection that is accepted is a
 * WebSocket of its own to the API server, so one that breaks takes no other with it. A message is
 * one byte, the channel, and its data: 0 for bytes, 1 for an error; each channel begins with the
 * number of the port in two bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/sandbox/port_priv.h"
#include "cli/sandbox/sandbox_priv.h"
#include "client/http.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/stream.h"

enum {
	CHANNEL_DATA,
	CHANNEL_ERROR,
	END_MARK = 255,
	PREFIX_LEN = 2,
	LINKS_MAX = 256, /* connections at a time; others wait to be accepted */
	PORTS_MAX = 32,
};

const struct setting port_settings[] = {
	{ "address", SETTING_TEXT, "127.0.0.1", "ADDRESS", "Address to listen on" },
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

static const char *const protocols[] = { "v5.channel.k8s.io", "v4.channel.k8s.io", NULL };

struct forwarder {
	struct remote *r;
	struct named target;
	struct list links;
	size_t n_links;
	struct door {
		struct forwarder *f;
		int fd;
		struct watch *watch;
		uint16_t remote;
	} doors[PORTS_MAX];
	size_t n_doors;
	bool never;
};

/* A connection of a local client, and its way into the sandbox. */
struct link {
	struct list on;
	struct forwarder *f;
	uint16_t port;
	struct conn *conn;
	struct websocket_dial *dial;
	struct websocket *ws;
	bool half_close, ended;
	unsigned seen[2]; /* bytes of each channel's prefix */
};

/* "8000", "8000:80" (local:remote), ":80" (any local port) */
struct err *port_parse(const char *text, struct port_pair *ret)
{
	const char *colon = strchr(text, ':');
	autofree char *left = xstrndup(text, colon ? (size_t)(colon - text) : strlen(text));
	int64_t local = 0, remote = 0;
	struct err *e = NULL;

	if (*left || !colon)
		e = parse_int(left, 0, UINT16_MAX, &local);
	remote = local;
	if (!e && colon)
		e = parse_int(colon + 1, 1, UINT16_MAX, &remote);
	if (!e && !remote)
		e = err_new(ERR_INVALID, "port 0 of a sandbox cannot be reached");
	if (e)
		return err_recode(
			err_wrap(e, "port \"%s\": use PORT, LOCAL:REMOTE or :REMOTE", text),
			ERR_INVALID);
	*ret = (struct port_pair){ (uint16_t)local, (uint16_t)remote };
	return NULL;
}

static void doors_flow(struct forwarder *f)
{
	for (size_t i = 0; i < f->n_doors; i++)
		watch_want(f->doors[i].watch, f->n_links < LINKS_MAX ? WATCH_READ : 0);
}

static void link_free(struct link *l)
{
	struct forwarder *f = l->f;

	list_del(&l->on);
	f->n_links--;
	websocket_dial_cancel(l->dial);
	websocket_free(l->ws);
	conn_free(l->conn);
	free(l);
	doors_flow(f);
}

static void link_fail(struct link *l, struct err *e)
{
	(void)cli_fail(err_wrap(e, "port: connection to port %u", l->port));
	link_free(l);
}

/* To the sandbox */

static void send_on(struct link *l, unsigned channel, const void *p, size_t len)
{
	autobuf b = { 0 };

	buf_add_char(&b, (char)channel);
	buf_add(&b, p, len);
	websocket_send(l->ws, true, buf_head(&b), b.len);
}

static void link_flow(struct link *l)
{
	conn_pause(l->conn, !l->ws || websocket_full(l->ws));
}

static void on_conn_data(void *arg, struct buf *in)
{
	struct link *l = arg;

	if (!l->ws)
		return; /* paused: it is offered again */
	send_on(l, CHANNEL_DATA, buf_head(in), in->len);
	buf_clear(in);
	link_flow(l);
}

static void on_conn_eof(void *arg)
{
	static const char which[] = { CHANNEL_DATA };
	struct link *l = arg;

	l->ended = true;
	if (!l->ws)
		return; /* told when it opens */
	if (l->half_close)
		send_on(l, END_MARK, which, sizeof(which));
	else
		link_free(l); /* version 4 has no other way to say so */
}

static void on_conn_drained(void *arg)
{
	struct link *l = arg;

	if (l->ws)
		websocket_pause(l->ws, false);
}

static void on_conn_closed(void *arg, const struct err *e unused)
{
	link_free(arg);
}

/* From the sandbox */

static void on_message(void *arg, bool binary unused, const char *data, size_t len)
{
	struct link *l = arg;
	unsigned channel = len ? (unsigned char)data[0] : CHANNEL_ERROR + 1;

	if (channel > CHANNEL_ERROR)
		return;
	for (data++, len--; len && l->seen[channel] < PREFIX_LEN; data++, len--)
		l->seen[channel]++;
	if (!len)
		return;
	if (channel == CHANNEL_ERROR) {
		link_fail(l, err_new(ERR_UNAVAILABLE, "%.*s", (int)MIN(len, (size_t)1000), data));
		return;
	}
	conn_write(l->conn, data, len);
	if (conn_full(l->conn))
		websocket_pause(l->ws, true);
}

static void on_ws_drained(void *arg)
{
	link_flow(arg);
}

static void on_ws_closed(void *arg, uint16_t code unused)
{
	struct link *l = arg;

	websocket_free(take(l->ws));
	conn_pause(l->conn, false);
	conn_close_after_flush(l->conn); /* on_conn_closed() follows */
}

static void on_opened(void *arg, struct websocket *w, const char *protocol)
{
	static const struct websocket_events events = {
		.message = on_message,
		.drained = on_ws_drained,
		.closed = on_ws_closed,
	};
	struct link *l = arg;

	l->dial = NULL;
	l->ws = w;
	l->half_close = str_eq(protocol, protocols[0]);
	websocket_set_events(w, &events, l);
	link_flow(l);
	if (l->ended)
		on_conn_eof(l);
}

static void on_refused(void *arg, int status, struct span body)
{
	struct link *l = arg;

	l->dial = NULL;
	link_fail(l, status_err_text(body.p, body.len, status, "reach the sandbox"));
}

static void on_failed(void *arg, const struct err *e)
{
	struct link *l = arg;

	l->dial = NULL;
	link_fail(l, err_copy(e));
}

static void link_start(struct door *d, int fd)
{
	static const struct conn_events conn_events = {
		.data = on_conn_data,
		.eof = on_conn_eof,
		.drained = on_conn_drained,
		.closed = on_conn_closed,
	};
	static const struct websocket_dial_events dial_events = {
		.opened = on_opened,
		.refused = on_refused,
		.failed = on_failed,
	};
	struct forwarder *f = d->f;
	autofree char *pod = path_pods(f->target.ns, f->target.pod);
	autofree char *path = xasprintf("%s/portforward?ports=%u", pod, d->remote);
	struct link *l = xnew(struct link);

	l->f = f;
	l->port = d->remote;
	list_add_tail(&f->links, &l->on);
	f->n_links++;
	l->conn = conn_new(remote_loop(f->r), stream_plain(fd), &conn_events, l);
	conn_pause(l->conn, true);
	l->dial = remote_dial(f->r, path, protocols, &dial_events, l);
}

static void on_knock(void *arg, unsigned ready unused)
{
	struct door *d = arg;
	int fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		link_start(d, fd);
	doors_flow(d->f);
}

/* The command */

static struct err *door_open(struct forwarder *f, const char *address, const struct port_pair *p)
{
	autofree char *addr =
		xasprintf(strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, p->local);
	struct door *d = &f->doors[f->n_doors];
	struct err *e;

	*d = (struct door){ .f = f, .remote = p->remote };
	e = net_listen(addr, &d->fd);
	if (e)
		return err_wrap(e, "listen on %s (:%u takes any free port)", addr, p->remote);
	d->watch = watch_new(remote_loop(f->r), d->fd, on_knock, d);
	f->n_doors++;
	return NULL;
}

static struct err *print_doors(const struct forwarder *f, const char *format)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *ports = json_need_arr(d, o, "ports");
	bool text = str_eq(format, "text");

	json_set_root(d, o);
	for (size_t i = 0; i < f->n_doors; i++) {
		struct json *one = json_obj(d);
		char addr[64];
		struct err *e = net_local_addr(f->doors[i].fd, addr, sizeof(addr));

		if (e)
			return e;
		if (text)
			(void)printf("%s -> %s:%u\n", addr, f->target.sandbox, f->doors[i].remote);
		json_set_str(d, one, "address", addr);
		json_set_int(d, one, "port", f->doors[i].remote);
		json_push(d, ports, one);
	}
	if (!text)
		cli_print(o, format);
	(void)fflush(stdout);
	return NULL;
}

static struct err *open_doors(struct forwarder *f, const struct settings *s)
{
	struct err *e = NULL;

	for (size_t i = 1; !e && i < settings_n_args(s); i++) {
		struct port_pair p = { 0 };

		e = port_parse(settings_arg(s, i), &p);
		if (!e)
			e = door_open(f, settings_text(s, "address"), &p);
	}
	return e;
}

static void forwarder_done(struct forwarder *f)
{
	struct link *l, *next;

	list_each_safe(l, next, &f->links, on)
		link_free(l);
	for (size_t i = 0; i < f->n_doors; i++) {
		watch_free(f->doors[i].watch);
		(void)close(f->doors[i].fd);
	}
	named_done(&f->target);
}

int port_run(const struct command *c unused, const struct settings *s)
{
	autoptr(remote) r = NULL;
	struct forwarder f = { 0 };
	struct err *e = NULL;

	list_init(&f.links);
	if (settings_n_args(s) < 2 || settings_n_args(s) > PORTS_MAX + 1)
		e = err_new(ERR_INVALID, "it needs a name and 1 to %d ports: cay port NAME 8000",
			    PORTS_MAX);
	if (!e)
		e = remote_open(s, &r);
	f.r = r;
	if (!e)
		e = named_find(r, settings_arg(s, 0), &f.target);
	if (!e)
		e = open_doors(&f, s);
	if (!e) {
		doors_flow(&f);
		e = print_doors(&f, settings_text(s, "output"));
	}
	if (!e) {
		remote_catch(r);
		e = remote_until(r, &f.never, 0); /* until a signal ends it */
	}
	forwarder_done(&f);
	if (err_is(e, ERR_CANCELED))
		err_free(take(e));
	return e ? cli_fail(err_wrap(e, "port")) : EXIT_OK;
}
