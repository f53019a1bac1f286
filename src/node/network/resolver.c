/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/registry.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "client/client.h"
#include "loop/loop.h"
#include "node/network/reach.h"
#include "node/network/resolver_priv.h"

/*
 * Who asks is known by the address: the packet filters let a sandbox use no other, and nobody else
 * uses one of the pool. What is sent to sandboxes carries the instance's mark, as everything that
 * the daemon sends there.
 */
enum {
	RETRY_MS = 10 * 1000,
	LOOK_US = 1000 * 1000, /* at most so often the host's file is looked at */
	FILE_MAX = 64 * 1024,
	PACKETS = 32, /* a turn */
	BACKLOG = 64,
};

/* The host's name servers */

static uint64_t stamp_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	return (uint64_t)st.st_ino ^ (uint64_t)st.st_mtim.tv_sec << 20 ^
	       (uint64_t)st.st_mtim.tv_nsec << 8 ^ (uint64_t)st.st_size << 40;
}

const struct resolv_conf *resolver_host(struct resolver *r)
{
	autofree char *text = NULL;
	usec now = clock_mono();
	uint64_t stamp;

	if (r->looked && now - r->looked < LOOK_US)
		return &r->host;
	r->looked = now;
	stamp = stamp_of(r->resolv_conf);
	if (stamp == r->host_stamp)
		return &r->host;
	r->host_stamp = stamp;
	err_free(file_read(AT_FDCWD, r->resolv_conf, FILE_MAX, &text, NULL));
	resolv_conf_read(text ? text : "", &r->host);
	log_debug("name servers of the host were read", KV("servers", r->host.n_servers));
	return &r->host;
}

void resolver_searches(struct resolver *r, struct buf *out)
{
	const struct resolv_conf *host = resolver_host(r);

	for (size_t i = 0; i < host->n_searches; i++)
		buf_printf(out, " %s", host->searches[i]);
}

/* Questions */

bool resolver_is_sandbox(const struct resolver *r, const struct sockaddr_in *from,
			 unsigned *ret_place)
{
	uint32_t place = ntohl(from->sin_addr.s_addr) - r->spec.instance->pool;

	if (from->sin_family != AF_INET || place < POOL_FIRST || place >= POOL_SIZE)
		return false;
	*ret_place = place;
	return true;
}

/* False: it has asked too much of late. */
static bool may_ask(struct asker *a)
{
	uint32_t now = (uint32_t)(clock_mono() / 1000), since = now - a->since_ms;
	uint32_t back = since > 60000 ? BURST : since * REFILL_PER_SECOND / 1000;

	if (back) {
		a->spent = (uint16_t)(a->spent > back ? a->spent - back : 0);
		a->since_ms = now;
	}
	if (a->spent >= BURST)
		return false;
	a->spent++;
	return true;
}

void resolver_reply(struct resolver *r, const struct query_from *from, const void *wire, size_t len)
{
	if (from->lookup)
		lookup_answer(from->lookup, wire, len);
	else if (from->peer)
		peer_answer(from->peer, wire, len);
	else /* one that cannot be sent now is lost, as any datagram may be */
		(void)sendto(r->udp, wire, len, MSG_DONTWAIT, (const struct sockaddr *)&from->addr,
			     sizeof(from->addr));
}

void resolver_answer(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		     const struct dns_query *q, const struct dns_answer *a)
{
	size_t max = from->peer ? UINT16_MAX : DNS_UDP_MAX;
	autobuf out = { 0 };
	struct err *e = dns_answer_write(wire, q, a, max, &out);

	if (!e)
		resolver_reply(r, from, buf_head(&out), out.len);
	else
		log_debug("no DNS answer", KV("err", e));
	err_free(e);
}

void resolver_refuse(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		     const struct dns_query *q, enum dns_code code)
{
	resolver_answer(r, from, wire, q, &(struct dns_answer){ .code = code });
}

static void pass_on(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		    size_t len, const struct dns_query *q)
{
	struct query *y = r->spec.forward ? query_new(r, from, wire, len, q) : NULL;

	if (y)
		query_pass(y);
	else
		resolver_refuse(r, from, wire, q, r->spec.forward ? DNS_SERVFAIL : DNS_REFUSED);
}

static void answer_free(struct resolver *r, const struct query_from *from, const uint8_t *wire,
			size_t len, const struct dns_query *q)
{
	autoptr(arena) arena = arena_new();
	struct dns_answer a;

	if (!names_answer(&r->names, q, arena, &a)) {
		pass_on(r, from, wire, len, q);
		return;
	}
	r->answered++;
	resolver_answer(r, from, wire, q, &a);
}

/* False: nobody knows yet who asks. */
static bool answer_internal(struct resolver *r, const struct query_from *from, const uint8_t *wire,
			    const struct dns_query *q)
{
	autoptr(arena) arena = arena_new();
	struct dns_answer a;

	if (!names_internal(&r->names, q, arena, &a))
		return false;
	r->answered++;
	resolver_answer(r, from, wire, q, &a);
	return true;
}

static bool answer_anybody(struct resolver *r, const struct query_from *from, const uint8_t *wire,
			   size_t len, const struct dns_query *q)
{
	switch (r->spec.reach ? reach_state(r->spec.reach, from->place) : REACH_FREE) {
	case REACH_FREE:
		answer_free(r, from, wire, len, q);
		return true;
	case REACH_LIMITED:
		if (!answer_internal(r, from, wire, q))
			narrow_ask(r, from, wire, len, q);
		return true;
	case REACH_UNKNOWN:
		break;
	}
	return false;
}

bool resolver_ask(struct resolver *r, const struct query_from *from, const uint8_t *wire,
		  size_t len)
{
	struct dns_query q;
	enum dns_code code;
	struct err *e;

	if (!may_ask(&r->askers[from->place])) {
		r->refused++;
		return false;
	}
	e = dns_query_read(wire, len, &q, &code);
	if (e) {
		err_free(e);
		r->refused++;
		return false;
	}
	if (code == DNS_NOERROR)
		return answer_anybody(r, from, wire, len, &q);
	resolver_refuse(r, from, wire, &q, code);
	return true;
}

static void on_udp(void *arg, unused unsigned ready)
{
	struct resolver *r = arg;
	uint8_t room[DNS_QUERY_MAX + 1];

	for (int i = 0; i < PACKETS; i++) {
		struct query_from from = { 0 };
		socklen_t len = sizeof(from.addr);
		ssize_t n = recvfrom(r->udp, room, sizeof(room), MSG_DONTWAIT,
				     (struct sockaddr *)&from.addr, &len);

		if (n < 0)
			return;
		if (resolver_is_sandbox(r, &from.addr, &from.place))
			(void)resolver_ask(r, &from, room, (size_t)n);
		else
			r->refused++;
	}
}

static void on_tcp(void *arg, unused unsigned ready)
{
	peers_accept(arg);
}

/* Its life */

static int listen_at(const struct resolver *r, int type)
{
	autoclose fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(DNS_PORT),
				  .sin_addr = { instance_addr(r->spec.instance, POOL_GATEWAY) } };
	uint32_t mark = instance_mark(r->spec.instance);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ type == SOCK_STREAM }, sizeof(int)) <
		    0 ||
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return -1;
	return take_fd(fd);
}

static void on_retry(void *arg)
{
	struct resolver *r = arg;

	if (r->udp < 0)
		r->udp = listen_at(r, SOCK_DGRAM);
	if (r->udp >= 0 && r->tcp < 0)
		r->tcp = listen_at(r, SOCK_STREAM);
	if (r->udp < 0 || r->tcp < 0) {
		if (!r->told)
			log_warn("port 53 of the gateway address cannot be used, going on without "
				 "names in sandboxes; it is tried again",
				 KV("errno", errno));
		r->told = true;
		timer_set(r->retry, RETRY_MS);
		return;
	}
	r->udp_watch = watch_new(r->spec.loop, r->udp, on_udp, r);
	watch_want(r->udp_watch, WATCH_READ);
	r->tcp_watch = watch_new(r->spec.loop, r->tcp, on_tcp, r);
	watch_want(r->tcp_watch, WATCH_READ);
}

/* What is read from the cache must be followed; each question asks it anew. */
static void ignore_change(unused void *arg, unused struct object *was, unused struct object *now)
{
}

static struct client_watch *follow(struct resolver *r, const char *version, const char *kind)
{
	static const struct client_watch_events events = { .changed = ignore_change };
	const struct client_watch_spec spec = { .kind = kinds_need(client_kinds(r->spec.client),
								   version, kind) };

	return client_watch(r->spec.client, &spec, &events, r);
}

struct err *resolver_new(const struct resolver_spec *spec, struct resolver **ret)
{
	struct resolver *r = xnew(struct resolver);

	r->spec = *spec;
	r->domain = xstrdup(spec->domain);
	r->resolv_conf = xstrdup(spec->resolv_conf);
	r->names = (struct names){ spec->client, spec->instance, r->domain,
				   spec->held,   spec->arg,      spec->outlet };
	r->udp = r->tcp = -1;
	r->askers = xnew_n(struct asker, POOL_SIZE);
	list_init(&r->queries);
	list_init(&r->peers);
	list_init(&r->lookups);
	r->watch_services = follow(r, "v1", "Service");
	r->watch_pods = follow(r, "v1", "Pod");
	r->watch_slices = follow(r, "discovery.k8s.io/v1", "EndpointSlice");
	r->retry = timer_new(spec->loop, on_retry, r);
	on_retry(r);
	*ret = r;
	return NULL;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	peers_free(r);
	lookups_drop(r);
	queries_drop(r, NULL);
	watch_free(r->udp_watch);
	watch_free(r->tcp_watch);
	timer_free(r->retry);
	if (r->udp >= 0)
		(void)close(r->udp);
	if (r->tcp >= 0)
		(void)close(r->tcp);
	client_watch_free(r->watch_services);
	client_watch_free(r->watch_pods);
	client_watch_free(r->watch_slices);
	free(r->askers);
	free(r->domain);
	free(r->resolv_conf);
	free(r);
}

void resolver_metrics(const struct resolver *r, struct buf *out)
{
	metrics_counter(out, "cay_names_answered_total",
			"Questions about names of objects that were answered.", r->answered);
	metrics_counter(out, "cay_names_forwarded_total",
			"Questions that were passed on to the host's name servers.", r->forwarded);
	metrics_counter(out, "cay_names_refused_total",
			"Questions of strangers, malformed ones and those of a flood.", r->refused);
}
