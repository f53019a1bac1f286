/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scenarios of `cay bench claim`: claims one after the other, a burst, cold Sandboxes, commands
 * through the router, and a claim with its first command. Everything is measured as a client sees
 * it: HTTPS requests and watch events.
 */
#include <assert.h>

#include "api/agents.h"
#include "api/meta.h"
#include "base/log.h"
#include "base/map.h"
#include "base/random.h"
#include "base/str.h"
#include "cli/bench_priv.h"
#include "cli/settings.h"
#include "client/client.h"
#include "loop/loop.h"
#include "net/http_client.h"

#define READY_MS 60000

/* An object that was posted and has not become Ready yet. */
struct wait {
	struct client_write write;
	double begin, end;
	bool ready, failed;
	char *sandbox; /* of a claim */
};

static void wait_free(void *p)
{
	struct wait *w = p;

	client_cancel(&w->write);
	free(w->sandbox);
	free(w);
}

static double now_us(void)
{
	return (double)clock_mono();
}

static void note_change(struct bench *b, struct object *now)
{
	struct wait *w = now ? map_get(b->waits, now->name) : NULL;

	if (!w || w->ready || !conditions_true(json_get(object_status(now), "conditions"), "Ready"))
		return;
	w->end = now_us();
	w->ready = true;
	w->sandbox = xstrdup(json_str(json_at_path(object_status(now), "sandbox.name")));
}

static void on_object(void *arg, struct object *was unused, struct object *now)
{
	note_change(arg, now);
}

static void on_pool(void *arg, struct object *was unused, struct object *now)
{
	struct bench *b = arg;

	if (now)
		b->pool_ready = json_get_int(object_status(now), "readyReplicas", 0);
}

static const struct client_watch_events object_events = { .changed = on_object };
static const struct client_watch_events pool_events = { .changed = on_pool };

/* The reply to a request, for those who wait for nothing else. */
struct reply {
	struct client_write write;
	bool done;
	struct err *e;
};

static void reply_came(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct reply *r = container_of(w, struct reply, write);

	r->e = e;
	r->done = true;
}

static struct err *create(struct bench *b, const struct kind *k, const char *ns, const char *text)
{
	struct json_doc *doc = NULL;
	struct reply reply = { .write.done = reply_came };
	struct err *e = json_parse(text, strlen(text), NULL, &doc);

	assert(!e);
	client_create(b->client, &(struct client_ref){ .kind = k, .ns = ns }, doc, &reply.write);
	(void)bench_until(b, &reply.done, READY_MS);
	client_cancel(&reply.write);
	if (!reply.done)
		return err_new(ERR_TIMEOUT, "no reply to the create of a %s within %d s", k->kind,
			       READY_MS / 1000);
	return err_wrap(reply.e, "create a %s", k->kind);
}

static void remove_object(struct bench *b, const struct kind *k, const char *ns, const char *name)
{
	struct reply reply = { .write.done = reply_came };

	client_delete(b->client, &(struct client_ref){ .kind = k, .ns = ns, .name = name }, NULL,
		      &reply.write);
	(void)bench_until(b, &reply.done,
			  READY_MS); /* what is left is deleted with the namespace */
	client_cancel(&reply.write);
	err_free(reply.e);
}

static struct err *wait_pool(struct bench *b, unsigned n)
{
	usec deadline = clock_mono() + (usec)READY_MS * 2000;

	while (b->pool_ready < (int64_t)n) {
		(void)loop_turn(b->loop, 100); /* ended by an event of the pool */
		if (clock_mono() > deadline)
			return err_new(ERR_TIMEOUT,
				       "only %lld of %u members of pool bench became ready",
				       (long long)b->pool_ready, n);
	}
	return NULL;
}

static struct err *prepare(struct bench *b)
{
	autofree char *ns = xasprintf("{\"metadata\":{\"name\":\"%s\"}}", b->ns);
	autofree char *template = xasprintf(
		"{\"metadata\":{\"name\":\"bench\"},\"spec\":{\"podTemplate\":{\"spec\":{\"containers\":[{\"name\":\"main\","
		"\"image\":\"%s\",\"command\":[\"sleep\",\"infinity\"],\"ports\":[{\"containerPort\":%d}]}]}}}}",
		settings_text(b->settings, "image"), RUNTIME_PORT);
	autofree char *pool = xasprintf(
		"{\"metadata\":{\"name\":\"bench\"},\"spec\":{\"replicas\":%u,\"sandboxTemplateRef\":{\"name\":\"bench\"}}}",
		b->pool_size);
	struct err *e = create(b, b->kinds.namespace, NULL, ns);

	if (e)
		return e;
	b->claims =
		client_watch(b->client, &(struct client_watch_spec){ b->kinds.claim, b->ns, NULL },
			     &object_events, b);
	b->sandboxes = client_watch(b->client,
				    &(struct client_watch_spec){ b->kinds.sandbox, b->ns, NULL },
				    &object_events, b);
	b->pools =
		client_watch(b->client, &(struct client_watch_spec){ b->kinds.pool, b->ns, NULL },
			     &pool_events, b);
	e = create(b, b->kinds.template, b->ns, template);
	if (!e)
		e = create(b, b->kinds.pool, b->ns, pool);
	return e ? e : wait_pool(b, b->pool_size);
}

static void posted(struct client_write *write, struct err *e, struct object *obj unused)
{
	struct wait *w = container_of(write, struct wait, write);

	if (e) {
		log_warn("object was not created; counted as a failure", KV("err", e));
		err_free(e);
		w->failed = true;
	}
}

/* Posts an object of that name and starts its clock. */
static struct wait *post(struct bench *b, const struct kind *k, const char *name)
{
	struct wait *w = xnew(struct wait);
	autofree char *text = NULL;
	struct json_doc *doc = NULL;
	struct err *e;

	if (k == b->kinds.claim)
		text = xasprintf(
			"{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\"},"
			"\"spec\":{\"warmPoolRef\":{\"name\":\"bench\"}}}",
			kind_api_version(k), k->kind, name);
	else
		text = xasprintf(
			"{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\"},\"spec\":{\"podTemplate\":{"
			"\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"%s\",\"command\":[\"sleep\",\"infinity\"]}]}}}}",
			kind_api_version(k), k->kind, name, settings_text(b->settings, "image"));
	e = json_parse(text, strlen(text), NULL, &doc);
	assert(!e);
	map_put(b->waits, name, w);
	w->begin = now_us();
	w->write.done = posted;
	client_create(b->client, &(struct client_ref){ .kind = k, .ns = b->ns }, doc, &w->write);
	return w;
}

static bool await(struct bench *b, struct wait *w)
{
	usec deadline = clock_mono() + (usec)READY_MS * 1000;

	while (!w->ready && !w->failed && clock_mono() < deadline)
		(void)loop_turn(b->loop, 100); /* ended by the watch */
	return w->ready;
}

/*
 * Posts n objects one after the other and deletes each before the next, so that pool and host stay
 * the same size.
 */
static void sequential(struct bench *b, struct samples *s, const struct kind *k, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		autofree char *name = xasprintf("%s-%zu", s->name, i);
		struct wait *w = post(b, k, name);

		if (await(b, w))
			samples_add(s, w->end - w->begin);
		else
			s->n_failed++;
		remove_object(b, k, b->ns, name);
		(void)map_del(b->waits, name);
	}
}

static void burst(struct bench *b, struct samples *s, size_t n)
{
	double begin = now_us(), last = begin;
	struct wait **waits = xnew_n(struct wait *, n);

	for (size_t i = 0; i < n; i++) {
		autofree char *name = xasprintf("%s-%zu", s->name, i);

		waits[i] = post(b, b->kinds.claim, name);
	}
	for (size_t i = 0; i < n; i++) {
		if (await(b, waits[i])) {
			samples_add(s, waits[i]->end - waits[i]->begin);
			last = MAX(last, waits[i]->end);
		} else {
			s->n_failed++;
		}
	}
	s->wall_us = last - begin;
	for (size_t i = 0; i < n; i++) {
		autofree char *name = xasprintf("%s-%zu", s->name, i);

		remove_object(b, b->kinds.claim, b->ns, name);
		(void)map_del(b->waits, name);
	}
	free(waits);
}

/* A command through the router, sent the way the published clients do it. */
struct command_reply {
	bool done;
	int status;
	struct err *e;
};

static void command_head(void *arg, int status, struct http_headers *h unused)
{
	((struct command_reply *)arg)->status = status;
}

static void command_data(void *arg unused, const char *data unused, size_t len unused)
{
}

static void command_end(void *arg)
{
	((struct command_reply *)arg)->done = true;
}

static void command_failed(void *arg, const struct err *e)
{
	struct command_reply *r = arg;

	r->e = err_copy(e);
	r->done = true;
}

static const struct http_exchange_events command_events = {
	.head = command_head,
	.data = command_data,
	.end = command_end,
	.failed = command_failed,
};

static bool run_command(struct bench *b, struct http_pool *pool, const char *sandbox)
{
	static const char body[] = "{\"command\":\"/bin/true\"}";
	struct http_headers h = { 0 };
	struct command_reply reply = { 0 };
	struct http_exchange *x;

	http_headers_add(&h, "Host", b->router);
	http_headers_add(&h, "Content-Type", "application/json");
	http_headers_add(&h, "X-Sandbox-ID", sandbox);
	http_headers_add(&h, "X-Sandbox-Namespace", b->ns);
	x = http_exchange_start(pool,
				&(struct http_exchange_spec){ .addr = b->router,
							      .method = "POST",
							      .target = "/execute",
							      .headers = &h,
							      .body_len = sizeof(body) - 1,
							      .connect_ms = 5000,
							      .head_ms = 30000 },
				&command_events, &reply);
	http_exchange_write(x, body, sizeof(body) - 1);
	http_exchange_end_body(x);
	(void)bench_until(b, &reply.done, READY_MS); /* the exchange has timeouts of its own */
	http_headers_done(&h);
	if (reply.e)
		log_warn("command did not run; counted as a failure", KV("err", reply.e));
	err_free(reply.e);
	return reply.status == 200;
}

static void commands(struct bench *b, struct http_pool *pool, struct samples *s, size_t n)
{
	struct wait *w = post(b, b->kinds.claim, "commands");

	for (size_t i = 0; await(b, w) && i < n; i++) {
		double begin = now_us();

		if (run_command(b, pool, w->sandbox))
			samples_add(s, now_us() - begin);
		else
			s->n_failed++;
	}
	remove_object(b, b->kinds.claim, b->ns, "commands");
	(void)map_del(b->waits, "commands");
}

static void first_output(struct bench *b, struct http_pool *pool, struct samples *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		autofree char *name = xasprintf("first-%zu", i);
		struct wait *w = post(b, b->kinds.claim, name);

		if (await(b, w) && run_command(b, pool, w->sandbox))
			samples_add(s, now_us() - w->begin);
		else
			s->n_failed++;
		remove_object(b, b->kinds.claim, b->ns, name);
		(void)map_del(b->waits, name);
	}
}

struct err *bench_scenarios(struct bench *b)
{
	size_t n = (size_t)settings_int(b->settings, "runs"),
	       n_burst = (size_t)settings_int(b->settings, "burst");
	autoptr(http_pool) pool = http_pool_new(b->loop, NULL, 4);
	struct err *e;

	b->waits = map_new(wait_free);
	e = prepare(b);
	if (e)
		return e;
	sequential(b,
		   bench_result(b, "claim",
				"warm claim, POST to Ready event, one client, pool refilling",
				"tls+fdatasync"),
		   b->kinds.claim, n);
	e = wait_pool(b, b->pool_size);
	if (e)
		return e;
	burst(b,
	      bench_result(b, "burst", "claims posted at the same time, POST to Ready event", NULL),
	      n_burst);
	sequential(b,
		   bench_result(b, "cold",
				"Sandbox without a pool, POST to Ready event, one client",
				"launch"),
		   b->kinds.sandbox, n);
	if (*b->router) {
		e = wait_pool(b, b->pool_size);
		if (e)
			return e;
		commands(b, pool,
			 bench_result(
				 b, "exec",
				 "/bin/true in a running sandbox, POST /execute through the router",
				 "exec"),
			 n * 2);
		first_output(b, pool,
			     bench_result(b, "first",
					  "warm claim, POST to the answer of its first command",
					  NULL),
			     n);
	}
	remove_object(b, b->kinds.namespace, NULL, b->ns);
	return NULL;
}
