/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <curl/curl.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "base/str.h"
#include "client/credentials_priv.h"
#include "client/http_priv.h"
#include "loop/loop.h"

/*
 * Exchanges over libcurl's multi handles on our loop. libcurl says which sockets and what time
 * it waits for; we tell it when they are ready, and then settle(): first the bytes of streams, then
 * the ends of exchanges. No callback of ours runs inside libcurl, so callbacks may start and cancel
 * exchanges.
 *
 *   exchange_start() → queued → running → done()
 *                        ↑         | 429, or 503 with Retry-After
 *                     waiting ←----+
 */
enum {
	MAX_RUNNING = 64,      /* streams and urgent exchanges do not count */
	MAX_QUEUED = 20000,    /* any more end with ERR_EXHAUSTED */
	MAX_IDLE_HANDLES = 32, /* kept for reuse */
	MAX_TRIES = 10,        /* if the server says to come back later */
	MAX_WAIT_MS = 30000,
	CONNECT_MS = 10000,
	IDLE_S = 60, /* a connection that was idle for longer is not used again: servers end them */
};
static const size_t max_body = 256u << 20, max_line = 16u << 20;

enum exchange_state {
	EXCHANGE_QUEUED,
	EXCHANGE_RUNNING,
	EXCHANGE_WAITING,
	EXCHANGE_STATE_MAX_,
};

/*
 * Streams and requests share no connections, and each sort has a multi handle with its own. In one
 * and the same, libcurl takes an HTTP/1.1 connection that a stream is using for one that
 * multiplexes as soon as another connection to that host has done so, and sends requests into it.
 */
enum lane_kind {
	LANE_REQUESTS, /* HTTP/2 */
	LANE_STREAMS,  /* HTTP/1.1, a connection each */
	LANE_KIND_MAX_,
};

struct lane {
	struct transport *t;
	CURLM *multi;
	struct timer *timer;
};

struct transport {
	struct loop *loop;
	struct lane lanes[LANE_KIND_MAX_];
	char *server, *agent;
	struct credentials credentials;
	struct list exchanges; /* all but the queued */
	struct list queued;    /* in order */
	struct list ready;     /* streams with new bytes */
	unsigned n_running, n_queued;
	CURL *idle[MAX_IDLE_HANDLES];
	unsigned n_idle;
	struct map *counts; /* label → uint64_t, owned */
};

struct exchange {
	struct transport *t;
	struct list link;  /* in exchanges or queued */
	struct list ready; /* in transport.ready */
	enum exchange_state state;
	CURL *easy;
	struct curl_slist *headers;
	char *method, *type, *url, *label, *body;
	size_t body_len;
	uint64_t timeout_ms;
	struct buf in;
	void (*data)(void *arg, struct buf *in);
	void (*done)(void *arg, struct err *e, const struct reply *r);
	void *arg;
	struct timer *timer; /* while waiting */
	unsigned tries;
	bool too_large, fresh_token;
	bool busy, dead; /* inside its own callback; cancelled there */
	char text[CURL_ERROR_SIZE];
};

struct sock {
	struct lane *lane;
	curl_socket_t fd;
	struct watch *watch;
};

static void settle(struct transport *t);

static void on_sock_ready(void *arg, unsigned ready)
{
	struct sock *s = arg;
	struct lane *lane = s->lane;
	int bits = 0, left;

	if (ready & WATCH_READ)
		bits |= CURL_CSELECT_IN;
	if (ready & WATCH_WRITE)
		bits |= CURL_CSELECT_OUT;
	(void)curl_multi_socket_action(lane->multi, s->fd, bits, &left); /* may free s */
	settle(lane->t);
}

static int on_socket(unused CURL *easy, curl_socket_t fd, int what, void *arg, void *sock)
{
	struct lane *lane = arg;
	struct sock *s = sock;
	unsigned want = 0;

	if (what == CURL_POLL_REMOVE) {
		if (s)
			watch_free(s->watch);
		free(s);
		(void)curl_multi_assign(lane->multi, fd, NULL);
		return 0;
	}
	if (!s) {
		s = xnew(struct sock);
		s->lane = lane;
		s->fd = fd;
		s->watch = watch_new(lane->t->loop, fd, on_sock_ready, s);
		(void)curl_multi_assign(lane->multi, fd, s);
	}
	if (what & CURL_POLL_IN)
		want |= WATCH_READ;
	if (what & CURL_POLL_OUT)
		want |= WATCH_WRITE;
	watch_want(s->watch, want);
	return 0;
}

static int on_set_timer(unused CURLM *multi, long ms, void *arg)
{
	struct lane *lane = arg;

	if (ms < 0)
		timer_clear(lane->timer);
	else
		timer_set(lane->timer, (uint64_t)ms);
	return 0;
}

static void on_timer(void *arg)
{
	struct lane *lane = arg;
	int left;

	(void)curl_multi_socket_action(lane->multi, CURL_SOCKET_TIMEOUT, 0, &left);
	settle(lane->t);
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;
	size_t len = size * n;

	if (x->in.len + len > (x->data ? max_line : max_body)) {
		x->too_large = true;
		return 0;
	}
	buf_add(&x->in, data, len);
	if (x->data && list_empty(&x->ready))
		list_add_tail(&x->t->ready, &x->ready);
	return len;
}

static void exchange_free(struct exchange *x)
{
	list_del(&x->link);
	list_del(&x->ready);
	timer_free(x->timer);
	curl_slist_free_all(x->headers);
	buf_done(&x->in);
	free(x->method);
	free(x->type);
	free(x->url);
	free(x->label);
	free(x->body);
	free(x);
}

static struct lane *lane_of(const struct exchange *x)
{
	return &x->t->lanes[x->data ? LANE_STREAMS : LANE_REQUESTS];
}

/* Takes back the handle of a running exchange for reuse. */
static void exchange_stop(struct exchange *x)
{
	struct transport *t = x->t;

	if (!x->easy)
		return;
	(void)curl_multi_remove_handle(lane_of(x)->multi, x->easy);
	if (t->n_idle < MAX_IDLE_HANDLES) {
		curl_easy_reset(x->easy);
		t->idle[t->n_idle++] = x->easy;
	} else {
		curl_easy_cleanup(x->easy);
	}
	x->easy = NULL;
	curl_slist_free_all(x->headers);
	x->headers = NULL;
	list_del(&x->ready);
	if (!x->data)
		t->n_running--;
}

static void add_header(struct exchange *x, const char *text)
{
	struct curl_slist *more = curl_slist_append(x->headers, text);

	assert(more); /* out of memory */
	x->headers = more;
}

static void set_headers(struct exchange *x)
{
	autofree char *type = xasprintf("Content-Type: %s", str_or(x->type, "application/json"));

	add_header(x, "Accept: application/json");
	add_header(x, "Expect:");
	if (x->body)
		add_header(x, type);
	if (x->t->credentials.auth)
		add_header(x, x->t->credentials.auth);
	(void)curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
}

/* A stream has a connection of its own: it would block others, and must be cut on its own. */
static void set_connection(struct exchange *x, CURL *h)
{
	if (x->data) {
		(void)curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
		(void)curl_easy_setopt(h, CURLOPT_FRESH_CONNECT, 1L);
		(void)curl_easy_setopt(h, CURLOPT_FORBID_REUSE, 1L);
	} else {
		(void)curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
		(void)curl_easy_setopt(h, CURLOPT_PIPEWAIT, 1L);
		(void)curl_easy_setopt(h, CURLOPT_MAXAGE_CONN, (long)IDLE_S);
	}
	(void)curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(h, CURLOPT_TCP_KEEPIDLE, 30L);
	(void)curl_easy_setopt(h, CURLOPT_TCP_KEEPINTVL, 10L);
	(void)curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	(void)curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)x->timeout_ms);
	(void)curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(h, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR,
			       str_starts(x->url, "https:") ? "https" : "http");
}

static void exchange_run(struct exchange *x)
{
	struct transport *t = x->t;
	CURL *h = t->n_idle ? t->idle[--t->n_idle] : curl_easy_init();

	assert(h); /* out of memory */
	x->easy = h;
	x->state = EXCHANGE_RUNNING;
	x->too_large = false;
	x->text[0] = 0;
	buf_clear(&x->in);
	list_del(&x->link);
	list_add_tail(&t->exchanges, &x->link);
	if (!x->data)
		t->n_running++;
	credentials_refresh(&t->credentials, false);
	set_headers(x);
	credentials_set(&t->credentials, h);
	set_connection(x, h);
	(void)curl_easy_setopt(h, CURLOPT_URL, x->url);
	(void)curl_easy_setopt(h, CURLOPT_USERAGENT, t->agent);
	(void)curl_easy_setopt(h, CURLOPT_PRIVATE, x);
	(void)curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
	(void)curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
	(void)curl_easy_setopt(h, CURLOPT_ERRORBUFFER, x->text);
	if (x->body) {
		(void)curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body_len);
		(void)curl_easy_setopt(h, CURLOPT_POSTFIELDS, x->body);
	}
	if (str_eq(x->method, "HEAD"))
		(void)curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
	(void)curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, x->method);
	(void)curl_multi_add_handle(lane_of(x)->multi, h);
}

static void run_queued(struct transport *t)
{
	while (t->n_running < MAX_RUNNING && !list_empty(&t->queued)) {
		t->n_queued--;
		exchange_run(list_first(&t->queued, struct exchange, link));
	}
}

/* Ends and frees x; e and r as for done(). */
static void exchange_end(struct exchange *x, struct err *e, const struct reply *r)
{
	x->busy = true;
	if (x->dead)
		err_free(e);
	else
		x->done(x->arg, e, r);
	exchange_free(x);
}

static void on_wait_over(void *arg)
{
	struct exchange *x = arg;

	timer_free(take(x->timer));
	if (x->tries > MAX_TRIES) { /* there was no room in the queue */
		exchange_end(x,
			     err_new(ERR_EXHAUSTED, "%s: more than %d requests are waiting",
				     x->label, MAX_QUEUED),
			     NULL);
		return;
	}
	list_del(&x->link);
	list_add_head(&x->t->queued, &x->link);
	x->state = EXCHANGE_QUEUED;
	x->t->n_queued++;
	run_queued(x->t);
}

static void exchange_wait(struct exchange *x, uint64_t ms)
{
	x->state = EXCHANGE_WAITING;
	x->timer = timer_new(x->t->loop, on_wait_over, x);
	timer_set(x->timer, ms);
}

/* How long to wait when the server said "not now", or 0 when its answer stands. */
static uint64_t come_again_ms(const struct exchange *x, int status, uint64_t after_ms)
{
	uint64_t ms = after_ms ? after_ms : 500u << MIN(x->tries, 6u);

	if (x->tries >= MAX_TRIES || !(status == 429 || (status == 503 && after_ms)))
		return 0;
	ms = MIN(ms, (uint64_t)MAX_WAIT_MS);
	return ms + random_u64() % (ms / 10 + 1);
}

static struct err *exchange_failed(const struct exchange *x, CURLcode result)
{
	const char *why = x->text[0] ? x->text : curl_easy_strerror(result);

	if (x->too_large)
		return err_new(ERR_TOO_LARGE, "%s: the answer is too large", x->label);
	return err_new(result == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE, "%s: %s",
		       x->label, why);
}

static void exchange_finished(struct exchange *x, CURLcode result)
{
	struct reply r = { 0 };
	curl_off_t after_s = 0;
	long status = 0;
	uint64_t again_ms;

	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	(void)curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &after_s);
	exchange_stop(x);
	if (result != CURLE_OK) {
		exchange_end(x, exchange_failed(x, result), NULL);
		return;
	}
	again_ms = come_again_ms(x, (int)status, (uint64_t)MAX(after_s, (curl_off_t)0) * 1000);
	if (status == 401 && x->t->credentials.token_file && !x->fresh_token) {
		x->fresh_token = true;
		credentials_refresh(&x->t->credentials, true);
		again_ms = 1;
	}
	if (again_ms) {
		x->tries++;
		exchange_wait(x, again_ms);
		return;
	}
	r.status = (int)status;
	r.body = buf_str(&x->in);
	r.len = x->in.len;
	exchange_end(x, NULL, &r);
}

/* New bytes of a stream. A refusal's text stays in the buffer for done(). */
static void exchange_feed(struct exchange *x)
{
	long status = 0;

	list_del(&x->ready);
	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200)
		return;
	x->busy = true;
	x->data(x->arg, &x->in);
	x->busy = false;
	if (x->dead) {
		exchange_stop(x);
		exchange_free(x);
	}
}

static void take_ends(CURLM *multi)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(multi, &left))) {
		struct exchange *x = NULL;
		CURLcode result = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
		exchange_finished(x, result);
	}
}

static void settle(struct transport *t)
{
	while (!list_empty(&t->ready))
		exchange_feed(list_first(&t->ready, struct exchange, ready));
	for (size_t i = 0; i < LANE_KIND_MAX_; i++)
		take_ends(t->lanes[i].multi);
	run_queued(t);
}

static void count(struct transport *t, const char *label)
{
	uint64_t *n = map_get(t->counts, label);

	if (!n) {
		n = xnew(uint64_t);
		map_put(t->counts, label, n);
	}
	(*n)++;
}

struct exchange *exchange_start(struct transport *t, const struct exchange_spec *spec)
{
	struct exchange *x = xnew(struct exchange);

	x->t = t;
	list_init(&x->link);
	list_init(&x->ready);
	x->method = xstrdup(spec->method);
	x->type = xstrdup(spec->type);
	x->url = xasprintf("%s%s", t->server, spec->path);
	x->label = xstrdup(spec->label);
	x->body = spec->body;
	x->body_len = spec->body_len;
	x->timeout_ms = spec->timeout_ms;
	x->data = spec->data;
	x->done = spec->done;
	x->arg = spec->arg;
	count(t, x->label);
	if (x->data || spec->urgent || t->n_running < MAX_RUNNING) {
		exchange_run(x);
	} else if (t->n_queued < MAX_QUEUED) {
		list_add_tail(&t->queued, &x->link);
		t->n_queued++;
	} else {
		list_add_tail(&t->exchanges, &x->link);
		x->tries = MAX_TRIES + 1;
		exchange_wait(x, 0);
	}
	return x;
}

void exchange_cancel(struct exchange *x)
{
	if (!x)
		return;
	if (x->busy) {
		x->dead = true; /* whoever called us frees it */
		return;
	}
	if (x->state == EXCHANGE_QUEUED)
		x->t->n_queued--;
	exchange_stop(x);
	exchange_free(x);
}

static void lane_init(struct lane *lane, struct transport *t)
{
	lane->t = t;
	lane->timer = timer_new(t->loop, on_timer, lane);
	lane->multi = curl_multi_init();
	assert(lane->multi);
	(void)curl_multi_setopt(lane->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(lane->multi, CURLMOPT_SOCKETDATA, lane);
	(void)curl_multi_setopt(lane->multi, CURLMOPT_TIMERFUNCTION, on_set_timer);
	(void)curl_multi_setopt(lane->multi, CURLMOPT_TIMERDATA, lane);
}

struct err *transport_new(struct loop *l, const struct kubeconfig *k, const char *user_agent,
			  struct transport **ret)
{
	struct transport *t;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_new(ERR_INTERNAL, "libcurl cannot initialise itself");
	t = xnew(struct transport);
	t->loop = l;
	list_init(&t->exchanges);
	list_init(&t->queued);
	list_init(&t->ready);
	t->counts = map_new(free);
	t->server = xstrdup(k->server);
	t->agent = xstrdup(str_or(user_agent, "cay"));
	credentials_init(&t->credentials, k);
	for (size_t i = 0; i < LANE_KIND_MAX_; i++)
		lane_init(&t->lanes[i], t);
	*ret = t;
	return NULL;
}

static void drop_exchanges(struct list *exchanges)
{
	struct exchange *x, *next;

	list_each_safe(x, next, exchanges, link) {
		assert(!x->busy); /* a client is not freed from its own callbacks */
		exchange_stop(x);
		exchange_free(x);
	}
}

void transport_free(struct transport *t)
{
	if (!t)
		return;
	drop_exchanges(&t->exchanges);
	drop_exchanges(&t->queued);
	while (t->n_idle)
		curl_easy_cleanup(t->idle[--t->n_idle]);
	for (size_t i = 0; i < LANE_KIND_MAX_; i++) {
		(void)curl_multi_cleanup(t->lanes[i].multi);
		timer_free(t->lanes[i].timer);
	}
	map_free(t->counts);
	credentials_done(&t->credentials);
	free(t->server);
	free(t->agent);
	free(t);
	curl_global_cleanup();
}

struct loop *transport_loop(struct transport *t)
{
	return t->loop;
}

const struct map *transport_counts(const struct transport *t)
{
	return t->counts;
}
