/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the server that is measured. A client of the bench is a connection of its own, so
 * this works one level below client/: what the bench costs on the same machine is in every figure.
 */
#include <sys/fsuid.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "net/http_client.h"
#include "net/stream.h"
#include "net/websocket.h"
#include "tls/tls.h"

enum {
	CONNECT_MS = 30000,
	IDLE_MS = 3600 * 1000,
	MESSAGE_MAX = 64 * 1024,
	NOBODY = 65534,
};

struct err *api_open(struct loop *l, const char *kubeconfig, struct api *ret)
{
	struct cli_server at = { 0 };
	struct err *e = cli_server_find(kubeconfig, &at);

	free(at.ns);
	free(at.prefix);
	*ret = (struct api){ .loop = l,
			     .addr = at.addr,
			     .host = at.host,
			     .name = at.name,
			     .authorization = at.authorization,
			     .tls = at.tls };
	return e;
}

void api_done(struct api *a)
{
	free(a->addr);
	free(a->host);
	free(a->name);
	free(a->authorization);
	tls_ctx_unref(a->tls);
}

static struct stream *wrap(void *arg, int fd)
{
	const struct api *a = arg;

	return a->tls ? tls_connect(a->tls, fd, a->name) : stream_plain(fd);
}

void lane_close(struct lane *l)
{
	static const struct http_limits limits = { .idle_ms = IDLE_MS };

	http_pool_free(l->pool);
	l->pool = http_pool_new(l->api->loop, &limits, 1);
	http_pool_set_wrap(l->pool, wrap, (void *)l->api);
}

void lane_init(struct lane *l, const struct api *a)
{
	*l = (struct lane){ .api = a };
	lane_close(l);
}

void lane_done(struct lane *l)
{
	http_pool_free(l->pool);
	l->pool = NULL;
}

static void on_head(void *arg, int status, struct http_headers *h unused)
{
	((struct call *)arg)->status = status;
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct call *c = arg;
	const char *end;

	buf_add(&c->body, data, len);
	while (c->line && c->body.len &&
	       (end = memchr(buf_head(&c->body), '\n', c->body.len)) != NULL) {
		size_t n = (size_t)(end - buf_head(&c->body));

		c->line(c, buf_head(&c->body), n);
		buf_eat(&c->body, n + 1);
	}
}

static void on_end(void *arg, unused struct http_headers *trailers)
{
	struct call *c = arg;

	c->x = NULL;
	c->over = true;
	if (c->done)
		c->done(c);
}

static void on_failed(void *arg, const struct err *e)
{
	struct call *c = arg;

	c->err = err_copy(e);
	on_end(c, NULL);
}

static const struct http_exchange_events events = {
	.head = on_head,
	.data = on_data,
	.end = on_end,
	.failed = on_failed,
};

static void put_headers(const struct api *a, const struct ask *ask, struct http_headers *h)
{
	http_headers_add(h, "Host", a->host);
	http_headers_add(h, "User-Agent", "cay-bench/" CAY_VERSION);
	if (a->authorization)
		http_headers_add(h, "Authorization", a->authorization);
	if (ask->body)
		http_headers_add(h, "Content-Type", str_or(ask->type, "application/json"));
	if (ask->accept)
		http_headers_add(h, "Accept", ask->accept);
	if (ask->sandbox)
		http_headers_add(h, "X-Sandbox-ID", ask->sandbox);
	if (ask->ns)
		http_headers_add(h, "X-Sandbox-Namespace", ask->ns);
}

void call_start(struct call *c, struct lane *l, const struct ask *ask)
{
	bool stranger = l->api->stranger && geteuid() == 0;
	struct http_headers h = { 0 };
	size_t len = ask->body ? strlen(ask->body) : 0;

	buf_clear(&c->body);
	err_free(take(c->err));
	c->status = 0;
	c->over = false;
	put_headers(l->api, ask, &h);
	if (stranger)
		(void)setfsuid(NOBODY); /* a socket belongs to whom its maker is then */
	c->x = http_exchange_start(l->pool,
				   &(struct http_exchange_spec){ .addr = l->api->addr,
								 .method = ask->method,
								 .target = ask->path,
								 .headers = &h,
								 .body_len = (int64_t)len,
								 .connect_ms = CONNECT_MS },
				   &events, c);
	if (stranger)
		(void)setfsuid(geteuid());
	if (len) {
		http_exchange_write(c->x, ask->body, len);
		http_exchange_end_body(c->x, NULL);
	}
	http_headers_done(&h);
}

struct websocket_dial *lane_dial(struct lane *l, const char *path,
				 const struct websocket_dial_events *ev, void *arg)
{
	static const char *const protocols[] = { "v5.channel.k8s.io", "v4.channel.k8s.io", NULL };
	struct http_headers h = { 0 };
	struct websocket_dial *d;

	put_headers(l->api, &(struct ask){ 0 }, &h);
	d = websocket_dial(l->pool,
			   &(struct websocket_dial_spec){ .addr = l->api->addr,
							  .target = path,
							  .headers = &h,
							  .protocols = protocols,
							  .max_message = MESSAGE_MAX,
							  .connect_ms = CONNECT_MS },
			   ev, arg);
	http_headers_done(&h);
	return d;
}

bool call_ok(const struct call *c)
{
	return c->over && !c->err && c->status >= 200 && c->status < 300;
}

struct err *call_error(const struct call *c)
{
	autoptr(json_doc) doc = NULL;
	const char *text = NULL;

	if (c->err)
		return err_copy(c->err);
	if (c->body.len) /* what is not JSON has no message */
		err_free(json_parse(buf_head(&c->body), c->body.len, NULL, &doc));
	text = doc ? json_get_str(json_root(doc), "message") : NULL;
	return err_new(c->status == 404 ? ERR_NOT_FOUND : ERR_UNAVAILABLE, "status %d: %s",
		       c->status, str_or(text, "no reason given"));
}

void call_done(struct call *c)
{
	if (c->x)
		http_exchange_cancel(c->x);
	c->x = NULL;
	buf_done(&c->body);
	err_free(take(c->err));
}
