/* SPDX-License-Identifier: Apache-2.0 */
#include "outlet/outlet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "api/cay/cay.h"
#include "api/registry.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "client/client.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "outlet/outlet_priv.h"
#include "tls/tls.h"

/*
 * Its life. What it sends to sandboxes carries the instance's mark, and so does the socket that it
 * listens on, by which the packet filter knows it from any other that may listen on this port.
 */
enum {
	PORT = 80,
	BACKLOG = 64,
	RETRY_MS = 10 * 1000,
	CONNS_MAX = 640, /* more than requests: some rest */
	CONNS_EACH_MAX = 40,
	HEAD_MAX = 16 * 1024,
	OUT_MAX = 64 * 1024,
};

static int listen_at(const struct outlet *o)
{
	autoclose fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	if (fd < 0 || inet_pton(AF_INET, o->address, &at.sin_addr) != 1 ||
	    setsockopt(fd, SOL_SOCKET, SO_MARK, &o->spec.mark, sizeof(o->spec.mark)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) < 0 ||
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0)
		return -1;
	return take_fd(fd);
}

static void on_retry(void *arg)
{
	static const struct http_handler handler = { .head = outlet_head };
	struct outlet *o = arg;
	struct err *e;
	int fd = listen_at(o);

	if (fd < 0) {
		if (!o->told)
			log_warn("port 80 of the gateway address cannot be used, going on without "
				 "the outlet; it is tried again",
				 KV("errno", errno));
		o->told = true;
		timer_set(o->retry, RETRY_MS);
		return;
	}
	e = http_server_start(
		o->spec.loop, fd,
		&(struct http_server_spec){ .limits = { .max_head = HEAD_MAX,
							.max_conns = CONNS_MAX,
							.max_conns_per_peer = CONNS_EACH_MAX,
							.max_out = OUT_MAX },
					    .handler = &handler,
					    .arg = o },
		&o->server);
	if (e)
		log_warn("the outlet cannot be served, going on without it", KV("err", e));
	err_free(e);
}

/* What is read from the cache must be followed; each request asks it anew. */
static void ignore_change(unused void *arg, unused struct object *was, unused struct object *now)
{
}

static struct client_watch *follow(struct outlet *o, const struct kind *k)
{
	static const struct client_watch_events events = { .changed = ignore_change };

	return client_watch(o->spec.client, &(struct client_watch_spec){ .kind = k }, &events, o);
}

struct err *outlet_new(const struct outlet_spec *spec, struct outlet **ret)
{
	autoptr(outlet) o = xnew(struct outlet);
	const struct kinds *kinds = client_kinds(spec->client);
	struct err *e;

	o->spec = *spec;
	o->address = xstrdup(spec->address);
	e = tls_client_ctx(&(struct tls_client_spec){ .ca_pem = spec->ca_pem }, &o->tls);
	if (e)
		return e;
	o->visitors = map_new(visitor_forget);
	o->pool = http_pool_new(spec->loop, &(struct http_limits){ .max_out = OUT_MAX }, 0);
	o->credential = kinds_need(kinds, API_CAY, "Credential");
	o->secret = kinds_need(kinds, "v1", "Secret");
	o->watch_credentials = follow(o, o->credential);
	o->watch_secrets = follow(o, o->secret);
	o->retry = timer_new(spec->loop, on_retry, o);
	on_retry(o);
	*ret = take(o);
	return NULL;
}

void outlet_free(struct outlet *o)
{
	if (!o)
		return;
	http_server_free(o->server); /* ends every request */
	http_pool_free(o->pool);
	timer_free(o->retry);
	client_watch_free(o->watch_credentials);
	client_watch_free(o->watch_secrets);
	map_free(o->visitors);
	tls_ctx_unref(o->tls);
	free(o->address);
	free(o);
}

void outlet_stats(const struct outlet *o, struct outlet_stats *ret)
{
	*ret = o->stats;
}
