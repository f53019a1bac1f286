/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/kind.h"
#include "api/object.h"
#include "client/client.h"
#include "kinds.h"
#include "net/conn.h"
#include "net/stream.h"

/* A client of one kind. */
static struct object *rig_get(void *ctx, unused const struct kind *k, const char *ns,
			      const char *name)
{
	struct rig *g = ctx;
	autofree char *key = xasprintf("%s/%s", ns, name);

	return object_ref(map_get(g->objects, key));
}

static void *rig_watch(void *ctx, unused const struct client_watch_spec *spec,
		       const struct client_watch_events *ev, void *arg)
{
	struct rig *g = ctx;

	g->ev = ev;
	g->ev_arg = arg;
	if (!g->late)
		ev->synced(arg);
	return g;
}

static void rig_watch_free(void *ctx, unused void *watch)
{
	((struct rig *)ctx)->ev = NULL;
}

enum {
	ASKED_MAX = 512,
};

static void rig_create(void *ctx, const struct client_ref *to, struct json_doc *obj,
		       struct client_write *w)
{
	struct rig *g = ctx;
	struct rig_review *rv = &g->asked[g->n_asked++];

	is_true(g->n_asked <= ASKED_MAX);
	client_waiter_init(&rv->waiter, w);
	rv->kind = to->kind;
	rv->text = json_to_text(json_root(obj));
	json_doc_free(obj);
}

void rig_guard(struct rig *g, const struct reviews_spec *spec)
{
	g->asked = xnew_n(struct rig_review, ASKED_MAX);
	g->reviews = reviews_new(g->l, g->client, spec);
	reviews_guard(g->reviews, g->router);
}

void rig_say(struct rig *g, size_t i, const char *status)
{
	struct rig_review *rv = &g->asked[i];
	autofree char *text = NULL;
	autoptr(object) o = NULL;
	struct json_doc *d = NULL;

	if (!status) {
		client_waiter_end(&rv->waiter, err_new(ERR_UNAVAILABLE, "it is away"), NULL);
		return;
	}
	text = xasprintf("{\"status\":%s}", status);
	works(json_parse(text, strlen(text), NULL, &d));
	o = object_new(rv->kind, d);
	client_waiter_end(&rv->waiter, NULL, o);
}

static const struct client_ops rig_ops = {
	.create = rig_create,
	.get = rig_get,
	.watch = rig_watch,
	.watch_free = rig_watch_free,
};

static void unref(void *o)
{
	object_unref(o);
}

void rig_sandbox(struct rig *g, const char *name, const char *json)
{
	struct json_doc *d = NULL;
	struct json *meta;
	autofree char *key = xasprintf("default/%s", name);
	autoptr(object) was = object_ref(map_get(g->objects, key));
	struct object *o;

	works(json_parse(json, strlen(json), NULL, &d));
	meta = json_need_obj(d, json_root(d), "metadata");
	json_set_str(d, meta, "name", name);
	json_set_str(d, meta, "namespace", "default");
	if (!json_get(meta, "uid"))
		json_set(d, meta, "uid", json_new_strf(d, "uid-%s", name));
	json_set(d, meta, "resourceVersion",
		 json_new_strf(d, "%llu", (unsigned long long)++g->rev));
	o = object_new(kind_named("Sandbox"), d);
	map_put(g->objects, key, o);
	if (g->ev)
		g->ev->changed(g->ev_arg, was, o);
}

void rig_ready(struct rig *g, const char *name, const char *ip)
{
	char now[CLOCK_TEXT_MAX];
	autofree char *text = NULL;

	clock_format(clock_wall(), now);
	text = xasprintf("{\"status\":{\"podIPs\":[\"%s\"],\"conditions\":[{\"type\":\"Ready\","
			 "\"status\":\"True\",\"lastTransitionTime\":\"%s\"}]}}",
			 ip, now);
	rig_sandbox(g, name, text);
}

void rig_delete(struct rig *g, const char *name)
{
	autofree char *key = xasprintf("default/%s", name);
	autoptr(object) was = map_take(g->objects, key);

	if (g->ev)
		g->ev->changed(g->ev_arg, was, NULL);
}

/* The upstream: tells what it was asked, except for some paths. */
static void on_gone(void *owner)
{
	((struct rig *)owner)->waiting = NULL;
}

static void tell(struct rig *g, struct http_request *r, const char *body, size_t len)
{
	struct http_headers h = { 0 };
	const struct http_headers *in = http_request_headers(r);
	autobuf b = { 0 };

	(void)g;
	buf_printf(&b, "%s %s\n", http_request_method(r), http_request_target(r));
	for (size_t i = 0; i < in->n; i++)
		buf_printf(&b, "%s: %s\n", in->list[i].name, in->list[i].value);
	buf_add_char(&b, '\n');
	buf_add(&b, body, len);
	http_headers_add(&h, "X-From", "upstream");
	http_headers_add(&h, "X-Secret", "hop");
	http_respond(r, 201, &h, (struct http_body){ "text/plain", buf_head(&b), b.len });
	http_headers_done(&h);
}

static void on_body(void *owner, struct http_request *r, const char *data, size_t len)
{
	tell(owner, r, data, len);
}

static void on_piece(void *owner, unused struct http_request *r, const char *data, size_t len)
{
	struct rig *g = owner;

	buf_add(&g->body, data, len);
}

static void on_body_end(void *owner, unused struct http_request *r)
{
	((struct rig *)owner)->body_ended = true;
}

static void echo_data(void *arg, struct buf *in)
{
	conn_write(arg, buf_head(in), in->len);
	buf_eat(in, in->len);
}

static void echo_eof(void *arg)
{
	conn_end(arg);
}

static void echo_closed(void *arg, unused const struct err *e)
{
	conn_free(arg);
}

static void upgrade(struct http_request *r)
{
	static const struct conn_events events = { .data = echo_data,
						   .eof = echo_eof,
						   .closed = echo_closed };
	struct http_headers h = { 0 };
	struct conn *c;

	http_headers_add(&h, "Connection", "Upgrade");
	http_headers_add(&h, "Upgrade", "websocket");
	http_headers_add(&h, "X-Origin", http_request_header(r, "Origin") ? "yes" : "no");
	http_respond_upgrade(r, &h, &c);
	http_headers_done(&h);
	conn_set_events(c, &events, c);
	conn_write(c, "hello ", 6);
}

static void on_head(void *arg, struct http_request *r)
{
	static const struct http_body_events pieces = { on_piece, on_body_end };
	struct rig *g = arg;

	g->n_requests++;
	g->version = http_request_version(r);
	free(g->timeout);
	g->timeout = xstrdup(http_request_header(r, "grpc-timeout"));
	if (str_eq(http_request_path(r), "/upgrade")) {
		upgrade(r);
		return;
	}
	if (str_eq(http_request_path(r), "/wait")) {
		g->waiting = r;
		http_request_set_owner(r, g, on_gone);
		http_request_stream(r, &pieces);
		return;
	}
	http_request_set_owner(r, g, NULL);
	http_request_buffer(r, 1 << 20, on_body);
}

void rig_start(struct rig *g, const struct router_spec *spec)
{
	static const struct http_handler handler = { .head = on_head };
	struct http_server_spec server = { .handler = &handler,
					   .arg = g,
					   .http2 = &http2_protocol };
	struct router_spec full = spec ? *spec : (struct router_spec){ 0 };
	char addr[64];
	int fd;

	*g = (struct rig){ .late = g->late, .access_log = g->access_log };
	g->objects = map_new(unref);
	works(loop_new(&g->l));
	works(net_listen("127.0.0.2:0", &fd));
	works(net_local_addr(fd, addr, sizeof(addr)));
	g->port = (uint16_t)strtoul(strrchr(addr, ':') + 1, NULL, 10);
	works(http_server_start(g->l, fd, &server, &g->server));
	g->client = client_new(&rig_ops, g, test_kinds());
	full.listen = "127.0.0.1:0";
	full.allow_loopback = true;
	full.no_access_log = !g->access_log;
	works(router_start(g->l, g->client, &full, &g->router));
}

void rig_synced(struct rig *g)
{
	g->ev->synced(g->ev_arg);
}

void rig_settle(struct rig *g)
{
	for (int i = 0; i < 10; i++)
		loop_turn(g->l, 1);
}

void rig_stop(struct rig *g)
{
	router_free(g->router);
	reviews_free(g->reviews);
	for (size_t i = 0; i < g->n_asked; i++) {
		client_waiter_done(&g->asked[i].waiter);
		free(g->asked[i].text);
	}
	free(g->asked);
	http_server_free(g->server);
	client_free(g->client);
	map_free(g->objects);
	buf_done(&g->body);
	free(g->timeout);
	rig_settle(g);
	loop_free(g->l);
}

int rig_connect(struct rig *g)
{
	int fd;

	works(net_connect(router_address(g->router), &fd));
	return fd;
}

int rig_listen(const char *addr)
{
	int fd;

	works(net_listen(addr, &fd));
	return fd;
}

void rig_send(struct rig *g, int fd, const char *fmt, ...)
{
	autobuf b = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	while (b.len) {
		ssize_t n = send(fd, buf_head(&b), b.len, MSG_NOSIGNAL);

		if (n > 0)
			buf_eat(&b, (size_t)n);
		else if (errno != EAGAIN && errno != ENOTCONN && errno != EINPROGRESS)
			return;
		loop_turn(g->l, n > 0 ? 0 : 1);
	}
}

char *rig_read(struct rig *g, int fd, const char *needle)
{
	usec end = clock_mono() + 20 * 1000000;
	autobuf b = { 0 };

	while (!needle || !strstr(buf_str(&b), needle)) {
		ssize_t n = recv(fd, buf_reserve(&b, 65536), 65536, 0);

		if (n > 0)
			buf_wrote(&b, (size_t)n);
		else if (n == 0 || (errno != EAGAIN && errno != ENOTCONN))
			break;
		else
			loop_turn(g->l, 5);
		if (clock_mono() > end)
			fail_msg("waited in vain for %s in: %s", needle ? needle : "the end",
				 buf_str(&b));
	}
	return buf_steal(&b, NULL);
}

char *rig_ask(struct rig *g, const char *head, const char *fmt, ...)
{
	autobuf b = { 0 };
	va_list ap;
	char *answer;
	int fd = rig_connect(g);

	buf_printf(&b, "%s HTTP/1.1\r\nHost: front.example\r\nConnection: close\r\n", head);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	if (!strstr(buf_str(&b), "\r\n\r\n"))
		buf_add_str(&b, "\r\n");
	rig_send(g, fd, "%s", buf_str(&b));
	answer = rig_read(g, fd, NULL);
	(void)close(fd);
	return answer;
}

int rig_status(const char *answer)
{
	return str_starts(answer, "HTTP/1.1 ") ? (int)strtol(answer + 9, NULL, 10) : 0;
}

bool rig_counted(struct rig *g, const char *part)
{
	autobuf b = { 0 };

	router_write_metrics(g->router, &b);
	if (strstr(buf_str(&b), part))
		return true;
	print_error("\"%s\" is not in: %s\n", part, buf_str(&b));
	return false;
}
