/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "base/str.h"
#include "client/http_priv.h"
#include "loop/loop.h"

/*
 * Calls over libcurl's multi interface on our loop. libcurl says which sockets and what time it
 * waits for; we tell it when they are ready, and then settle(): first the bytes of streams, then
 * the ends of requests. No callback of ours runs inside libcurl, so callbacks may start and cancel
 * requests.
 *
 *   request_start() → queued → running → done()
 *                     ↑        | 429, or 503 with Retry-After
 *                     waiting ←+
 */
enum {
	MAX_RUNNING = 64,      /* streams and urgent requests do not count */
	MAX_QUEUED = 20000,    /* any more end with ERR_EXHAUSTED */
	MAX_IDLE_HANDLES = 32, /* kept for reuse */
	MAX_TRIES = 10,        /* of a request that the server tells to come back later */
	MAX_WAIT_MS = 30000,
	MAX_TOKEN = 64 * 1024,
	CONNECT_MS = 10000,
	TOKEN_CHECK_US = 1000000,
};
static const size_t max_body = 256u << 20, max_line = 16u << 20;

enum request_state {
	REQUEST_QUEUED,
	REQUEST_RUNNING,
	REQUEST_WAITING,
	REQUEST_STATE_MAX_,
};

struct transport {
	struct loop *loop;
	CURLM *multi;
	struct timer *timer;
	char *server, *agent;
	struct curl_blob ca, cert, key; /* data NULL: none */
	bool insecure;
	char *auth; /* "Authorization: Bearer ..." or NULL */
	char *token_file;
	struct timespec token_mtime;
	usec token_checked;
	struct list requests; /* all but the queued */
	struct list queued;   /* in order */
	struct list ready;    /* streams with new bytes */
	unsigned n_running, n_queued;
	CURL *idle[MAX_IDLE_HANDLES];
	unsigned n_idle;
	struct map *counts; /* label → uint64_t, owned */
};

struct request {
	struct transport *t;
	struct list link;  /* of requests or queued */
	struct list ready; /* in transport.ready */
	enum request_state state;
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
	struct transport *t;
	curl_socket_t fd;
	struct watch *watch;
};

static void settle(struct transport *t);

static void on_sock_ready(void *arg, unsigned ready)
{
	struct sock *s = arg;
	struct transport *t = s->t;
	int bits = 0, left;

	if (ready & WATCH_READ)
		bits |= CURL_CSELECT_IN;
	if (ready & WATCH_WRITE)
		bits |= CURL_CSELECT_OUT;
	(void)curl_multi_socket_action(t->multi, s->fd, bits, &left); /* may free s */
	settle(t);
}

static int on_socket(unused CURL *easy, curl_socket_t fd, int what, void *arg, void *sock)
{
	struct transport *t = arg;
	struct sock *s = sock;
	unsigned want = 0;

	if (what == CURL_POLL_REMOVE) {
		if (s)
			watch_free(s->watch);
		free(s);
		(void)curl_multi_assign(t->multi, fd, NULL);
		return 0;
	}
	if (!s) {
		s = xnew(struct sock);
		s->t = t;
		s->fd = fd;
		s->watch = watch_new(t->loop, fd, on_sock_ready, s);
		(void)curl_multi_assign(t->multi, fd, s);
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
	struct transport *t = arg;

	if (ms < 0)
		timer_clear(t->timer);
	else
		timer_set(t->timer, (uint64_t)ms);
	return 0;
}

static void on_timer(void *arg)
{
	struct transport *t = arg;
	int left;

	(void)curl_multi_socket_action(t->multi, CURL_SOCKET_TIMEOUT, 0, &left);
	settle(t);
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct request *c = arg;
	size_t len = size * n;

	if (c->in.len + len > (c->data ? max_line : max_body)) {
		c->too_large = true;
		return 0;
	}
	buf_add(&c->in, data, len);
	if (c->data && list_empty(&c->ready))
		list_add_tail(&c->t->ready, &c->ready);
	return len;
}

/* Token files are replaced while we run: bound service account tokens live for an hour. */
static void token_refresh(struct transport *t, bool now)
{
	autofree char *text = NULL;
	struct stat st;
	size_t len;
	struct err *e;

	if (!t->token_file || (!now && clock_mono() - t->token_checked < TOKEN_CHECK_US))
		return;
	t->token_checked = clock_mono();
	if (stat(t->token_file, &st) < 0 ||
	    (t->auth && st.st_mtim.tv_sec == t->token_mtime.tv_sec &&
	     st.st_mtim.tv_nsec == t->token_mtime.tv_nsec))
		return;
	e = file_read(AT_FDCWD, t->token_file, MAX_TOKEN, &text, &len);
	if (e) {
		err_free(e); /* the old token stays until it can be read again */
		return;
	}
	text[strcspn(text, " \r\n")] = 0;
	free(t->auth);
	t->auth = xasprintf("Authorization: Bearer %s", text);
	t->token_mtime = st.st_mtim;
	explicit_bzero(text, len);
}

static void request_free(struct request *c)
{
	list_del(&c->link);
	list_del(&c->ready);
	timer_free(c->timer);
	curl_slist_free_all(c->headers);
	buf_done(&c->in);
	free(c->method);
	free(c->type);
	free(c->url);
	free(c->label);
	free(c->body);
	free(c);
}

/* Takes a running request's handle back for reuse. */
static void request_stop(struct request *c)
{
	struct transport *t = c->t;

	if (!c->easy)
		return;
	(void)curl_multi_remove_handle(t->multi, c->easy);
	if (t->n_idle < MAX_IDLE_HANDLES) {
		curl_easy_reset(c->easy);
		t->idle[t->n_idle++] = c->easy;
	} else {
		curl_easy_cleanup(c->easy);
	}
	c->easy = NULL;
	curl_slist_free_all(c->headers);
	c->headers = NULL;
	list_del(&c->ready);
	if (!c->data)
		t->n_running--;
}

static void add_header(struct request *c, const char *text)
{
	struct curl_slist *more = curl_slist_append(c->headers, text);

	assert(more); /* out of memory */
	c->headers = more;
}

static void set_headers(struct request *c)
{
	autofree char *type = xasprintf("Content-Type: %s", str_or(c->type, "application/json"));

	add_header(c, "Accept: application/json");
	add_header(c, "Expect:");
	if (c->body)
		add_header(c, type);
	if (c->t->auth)
		add_header(c, c->t->auth);
	(void)curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
}

static void set_trust(struct transport *t, CURL *h)
{
	if (t->ca.data)
		(void)curl_easy_setopt(h, CURLOPT_CAINFO_BLOB, &t->ca);
	if (t->cert.data) {
		(void)curl_easy_setopt(h, CURLOPT_SSLCERT_BLOB, &t->cert);
		(void)curl_easy_setopt(h, CURLOPT_SSLKEY_BLOB, &t->key);
	}
	(void)curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, t->insecure ? 0L : 1L);
	(void)curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, t->insecure ? 0L : 2L);
	(void)curl_easy_setopt(h, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
}

/* A stream has a connection of its own: it would block other requests, and must be cut on its own.
 */
static void set_connection(struct request *c, CURL *h)
{
	if (c->data) {
		(void)curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
		(void)curl_easy_setopt(h, CURLOPT_FRESH_CONNECT, 1L);
		(void)curl_easy_setopt(h, CURLOPT_FORBID_REUSE, 1L);
	} else {
		(void)curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
		(void)curl_easy_setopt(h, CURLOPT_PIPEWAIT, 1L);
	}
	(void)curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(h, CURLOPT_TCP_KEEPIDLE, 30L);
	(void)curl_easy_setopt(h, CURLOPT_TCP_KEEPINTVL, 10L);
	(void)curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	(void)curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)c->timeout_ms);
	(void)curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(h, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR,
			       str_starts(c->url, "https:") ? "https" : "http");
}

static void request_run(struct request *c)
{
	struct transport *t = c->t;
	CURL *h = t->n_idle ? t->idle[--t->n_idle] : curl_easy_init();

	assert(h); /* out of memory */
	c->easy = h;
	c->state = REQUEST_RUNNING;
	c->too_large = false;
	c->text[0] = 0;
	buf_clear(&c->in);
	list_del(&c->link);
	list_add_tail(&t->requests, &c->link);
	if (!c->data)
		t->n_running++;
	token_refresh(t, false);
	set_headers(c);
	set_trust(t, h);
	set_connection(c, h);
	(void)curl_easy_setopt(h, CURLOPT_URL, c->url);
	(void)curl_easy_setopt(h, CURLOPT_USERAGENT, t->agent);
	(void)curl_easy_setopt(h, CURLOPT_PRIVATE, c);
	(void)curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
	(void)curl_easy_setopt(h, CURLOPT_WRITEDATA, c);
	(void)curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->text);
	if (c->body) {
		(void)curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body_len);
		(void)curl_easy_setopt(h, CURLOPT_POSTFIELDS, c->body);
	}
	if (str_eq(c->method, "HEAD"))
		(void)curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
	(void)curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, c->method);
	(void)curl_multi_add_handle(t->multi, h);
}

static void run_queued(struct transport *t)
{
	while (t->n_running < MAX_RUNNING && !list_empty(&t->queued)) {
		t->n_queued--;
		request_run(list_first(&t->queued, struct request, link));
	}
}

/* Ends and frees c; e and r as for done(). */
static void request_end(struct request *c, struct err *e, const struct reply *r)
{
	c->busy = true;
	if (c->dead)
		err_free(e);
	else
		c->done(c->arg, e, r);
	request_free(c);
}

static void on_wait_over(void *arg)
{
	struct request *c = arg;

	timer_free(take(c->timer));
	if (c->tries > MAX_TRIES) { /* there was no room in the queue */
		request_end(c,
			    err_new(ERR_EXHAUSTED, "%s: more than %d requests are waiting",
				    c->label, MAX_QUEUED),
			    NULL);
		return;
	}
	list_del(&c->link);
	list_add_head(&c->t->queued, &c->link);
	c->state = REQUEST_QUEUED;
	c->t->n_queued++;
	run_queued(c->t);
}

static void request_wait(struct request *c, uint64_t ms)
{
	c->state = REQUEST_WAITING;
	c->timer = timer_new(c->t->loop, on_wait_over, c);
	timer_set(c->timer, ms);
}

/* How long to wait when the server said "not now", or 0 when its answer stands. */
static uint64_t come_again_ms(const struct request *c, int status, uint64_t after_ms)
{
	uint64_t ms = after_ms ? after_ms : 500u << MIN(c->tries, 6u);

	if (c->tries >= MAX_TRIES || !(status == 429 || (status == 503 && after_ms)))
		return 0;
	ms = MIN(ms, (uint64_t)MAX_WAIT_MS);
	return ms + random_u64() % (ms / 10 + 1);
}

static struct err *request_failed(const struct request *c, CURLcode result)
{
	const char *why = c->text[0] ? c->text : curl_easy_strerror(result);

	if (c->too_large)
		return err_new(ERR_TOO_LARGE, "%s: the answer is too large", c->label);
	return err_new(result == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE, "%s: %s",
		       c->label, why);
}

static void request_finished(struct request *c, CURLcode result)
{
	struct reply r = { 0 };
	curl_off_t after_s = 0;
	long status = 0;
	uint64_t again_ms;

	(void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	(void)curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &after_s);
	request_stop(c);
	if (result != CURLE_OK) {
		request_end(c, request_failed(c, result), NULL);
		return;
	}
	again_ms = come_again_ms(c, (int)status, (uint64_t)MAX(after_s, (curl_off_t)0) * 1000);
	if (status == 401 && c->t->token_file && !c->fresh_token) {
		c->fresh_token = true;
		token_refresh(c->t, true);
		again_ms = 1;
	}
	if (again_ms) {
		c->tries++;
		request_wait(c, again_ms);
		return;
	}
	r.status = (int)status;
	r.body = buf_str(&c->in);
	r.len = c->in.len;
	request_end(c, NULL, &r);
}

/* New bytes of a stream. A refusal's text stays in the buffer for done(). */
static void request_feed(struct request *c)
{
	long status = 0;

	list_del(&c->ready);
	(void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200)
		return;
	c->busy = true;
	c->data(c->arg, &c->in);
	c->busy = false;
	if (c->dead) {
		request_stop(c);
		request_free(c);
	}
}

static void settle(struct transport *t)
{
	CURLMsg *m;
	int left;

	while (!list_empty(&t->ready))
		request_feed(list_first(&t->ready, struct request, ready));
	while ((m = curl_multi_info_read(t->multi, &left))) {
		struct request *c = NULL;
		CURLcode result = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		request_finished(c, result);
	}
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

struct request *request_start(struct transport *t, const struct request_spec *spec)
{
	struct request *c = xnew(struct request);

	c->t = t;
	list_init(&c->link);
	list_init(&c->ready);
	c->method = xstrdup(spec->method);
	c->type = xstrdup(spec->type);
	c->url = xasprintf("%s%s", t->server, spec->path);
	c->label = xstrdup(spec->label);
	c->body = spec->body;
	c->body_len = spec->body_len;
	c->timeout_ms = spec->timeout_ms;
	c->data = spec->data;
	c->done = spec->done;
	c->arg = spec->arg;
	count(t, c->label);
	if (c->data || spec->urgent || t->n_running < MAX_RUNNING) {
		request_run(c);
	} else if (t->n_queued < MAX_QUEUED) {
		list_add_tail(&t->queued, &c->link);
		t->n_queued++;
	} else {
		list_add_tail(&t->requests, &c->link);
		c->tries = MAX_TRIES + 1;
		request_wait(c, 0);
	}
	return c;
}

void request_cancel(struct request *c)
{
	if (!c)
		return;
	if (c->busy) {
		c->dead = true; /* whoever called us frees it */
		return;
	}
	if (c->state == REQUEST_QUEUED)
		c->t->n_queued--;
	request_stop(c);
	request_free(c);
}

static struct curl_blob blob_of(const char *pem)
{
	/* Our own copy: libcurl compares blobs to find a connection it can reuse. */
	return (struct curl_blob){ .data = xstrdup(pem),
				   .len = pem ? strlen(pem) : 0,
				   .flags = CURL_BLOB_NOCOPY };
}

struct err *transport_new(struct loop *l, const struct kubeconfig *k, const char *user_agent,
			  struct transport **ret)
{
	struct transport *t;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_new(ERR_INTERNAL, "libcurl cannot initialise itself");
	t = xnew(struct transport);
	t->loop = l;
	list_init(&t->requests);
	list_init(&t->queued);
	list_init(&t->ready);
	t->timer = timer_new(l, on_timer, t);
	t->counts = map_new(free);
	t->server = xstrdup(k->server);
	t->agent = xstrdup(str_or(user_agent, "cay"));
	t->ca = blob_of(k->ca_pem);
	t->cert = blob_of(k->cert_pem);
	t->key = blob_of(k->key_pem);
	t->insecure = k->insecure;
	t->token_file = xstrdup(k->token_file);
	if (!str_empty(k->token))
		t->auth = xasprintf("Authorization: Bearer %s", k->token);
	token_refresh(t, true);
	t->multi = curl_multi_init();
	assert(t->multi);
	(void)curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
	(void)curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, on_set_timer);
	(void)curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
	*ret = t;
	return NULL;
}

static void drop_requests(struct list *requests)
{
	struct request *c, *next;

	list_each_safe(c, next, requests, link) {
		assert(!c->busy); /* a client is not freed from its own callbacks */
		request_stop(c);
		request_free(c);
	}
}

void transport_free(struct transport *t)
{
	if (!t)
		return;
	drop_requests(&t->requests);
	drop_requests(&t->queued);
	while (t->n_idle)
		curl_easy_cleanup(t->idle[--t->n_idle]);
	(void)curl_multi_cleanup(t->multi);
	timer_free(t->timer);
	map_free(t->counts);
	if (t->auth)
		explicit_bzero(t->auth, strlen(t->auth));
	if (t->key.data)
		explicit_bzero(t->key.data, t->key.len);
	free(t->auth);
	free(t->server);
	free(t->agent);
	free(t->ca.data);
	free(t->cert.data);
	free(t->key.data);
	free(t->token_file);
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
