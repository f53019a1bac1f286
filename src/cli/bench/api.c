/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the server that is measured. A client of the bench is a connection of its own, so
 * this works one level below client/: what the bench costs on the same machine is in every figure.
 */
#include <netdb.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "client/http.h"
#include "net/http_client.h"
#include "net/stream.h"
#include "tls/tls.h"

enum {
	CONNECT_MS = 30000,
	IDLE_MS = 3600 * 1000,
};

/* "localhost:6443" → "127.0.0.1:6443"; connections are made to addresses only. */
static struct err *resolve(const char *host, const char *port, char **ret)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	char text[NI_MAXHOST];
	int r = getaddrinfo(host, port, &hints, &found);

	if (!r)
		r = getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), NULL, 0,
				NI_NUMERICHOST);
	if (!r)
		*ret = xasprintf(found->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", text, port);
	if (found)
		freeaddrinfo(found);
	return r ? err_new(ERR_UNAVAILABLE, "find the address of %s: %s", host, gai_strerror(r))
		 : NULL;
}

/* "https://[::1]:6443/" → "[::1]:6443", and "::1" and "6443" */
static struct err *split_server(const char *server, struct api *a, char **ret_port)
{
	struct span rest = SPAN(server), host;
	const char *colon;

	if (!str_starts(server, "https://"))
		return err_new(ERR_INVALID,
			       "the kubeconfig's server %s does not begin with https://", server);
	rest = SPAN(server + strlen("https://"));
	host = span_cut(rest, '/', &rest);
	a->host = xstrndup(host.p, host.len);
	colon = strrchr(a->host, ':');
	if (a->host[0] == '[' && strchr(a->host, ']')) {
		a->name = xstrndup(a->host + 1, (size_t)(strchr(a->host, ']') - a->host) - 1);
		colon = strchr(strchr(a->host, ']'), ':');
	} else {
		a->name = colon ? xstrndup(a->host, (size_t)(colon - a->host)) : xstrdup(a->host);
	}
	*ret_port = xstrdup(colon ? colon + 1 : "443");
	return NULL;
}

struct err *api_open(struct loop *l, const char *kubeconfig, struct api *ret)
{
	struct kubeconfig k = { 0 };
	autofree char *port = NULL;
	struct err *e = cli_kubeconfig_read(kubeconfig, &k);

	*ret = (struct api){ .loop = l };
	if (!e)
		e = split_server(k.server, ret, &port);
	if (!e)
		e = resolve(ret->name, port, &ret->addr);
	if (!e && k.token)
		ret->authorization = xasprintf("Bearer %s", k.token);
	if (!e)
		e = tls_client_ctx(&(struct tls_client_spec){ .ca_pem = k.ca_pem,
							      .cert_pem = k.cert_pem,
							      .key_pem = k.key_pem,
							      .insecure = k.insecure },
				   &ret->tls);
	kubeconfig_done(&k);
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

static void on_end(void *arg)
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
	on_end(c);
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
	if (ask->sandbox)
		http_headers_add(h, "X-Sandbox-ID", ask->sandbox);
	if (ask->ns)
		http_headers_add(h, "X-Sandbox-Namespace", ask->ns);
}

void call_start(struct call *c, struct lane *l, const struct ask *ask)
{
	struct http_headers h = { 0 };
	size_t len = ask->body ? strlen(ask->body) : 0;

	buf_clear(&c->body);
	err_free(take(c->err));
	c->status = 0;
	c->over = false;
	put_headers(l->api, ask, &h);
	c->x = http_exchange_start(l->pool,
				   &(struct http_exchange_spec){ .addr = l->api->addr,
								 .method = ask->method,
								 .target = ask->path,
								 .headers = &h,
								 .body_len = (int64_t)len,
								 .connect_ms = CONNECT_MS },
				   &events, c);
	if (len) {
		http_exchange_write(c->x, ask->body, len);
		http_exchange_end_body(c->x);
	}
	http_headers_done(&h);
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
