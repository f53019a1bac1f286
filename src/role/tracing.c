/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the spans of a role go.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/settings.h"
#include "client/post.h"
#include "loop/loop.h"
#include "role/tracing_priv.h"
#include "trace/trace.h"

enum {
	FLUSH_MS = 1000, /* that the end of the process may wait for a collector */
};

struct tracing {
	struct loop *loop;
	struct tracer *tracer;
	struct post *post;
};

static void on_sent(void *arg, int status)
{
	tracer_sent(((struct tracing *)arg)->tracer, status);
}

static void send_batch(void *arg, char *body, size_t len)
{
	post_send(((struct tracing *)arg)->post, body, len, on_sent, arg);
}

static void on_trouble(unused void *arg, bool trouble, int status)
{
	if (trouble)
		log_warn("spans are not taken by their collector, going on without",
			 KV("status", status));
	else
		log_info("spans are taken again");
}

static struct err *open_post(struct loop *l, const struct settings *s, struct post **ret)
{
	const char *whole = settings_text(s, "otlp-traces-endpoint");
	const char *base = settings_text(s, "otlp-endpoint");
	autofree char *url = NULL;
	size_t len;

	if (!str_empty(whole))
		return err_wrap(post_new(l, whole, ret), "--otlp-traces-endpoint");
	if (str_empty(base))
		return NULL;
	len = strlen(base);
	while (len && base[len - 1] == '/')
		len--;
	url = xasprintf("%.*s/v1/traces", (int)len, base);
	return err_wrap(post_new(l, url, ret), "--otlp-endpoint");
}

struct err *tracing_start(struct loop *l, const struct settings *s, struct tracing **ret)
{
	struct tracing *t = xnew(struct tracing);
	const struct tracer_spec spec = { .service = settings_text(s, "otel-service-name"),
					  .attributes =
						  settings_text(s, "otel-resource-attributes"),
					  .send = send_batch,
					  .trouble = on_trouble,
					  .arg = t };
	struct err *e = open_post(l, s, &t->post);

	t->loop = l;
	if (!e && t->post)
		e = err_wrap(tracer_new(l, &spec, &t->tracer), "--otel-resource-attributes");
	if (e || !t->post) {
		tracing_free(t);
		return e;
	}
	*ret = t;
	return NULL;
}

struct tracer *tracing_tracer(const struct tracing *t)
{
	return t ? t->tracer : NULL;
}

void tracing_free(struct tracing *t)
{
	usec until = clock_mono() + FLUSH_MS * 1000;

	if (!t)
		return;
	if (t->tracer)
		tracer_flush(t->tracer);
	while (t->tracer && !tracer_idle(t->tracer) && clock_mono() < until)
		(void)loop_turn(t->loop, 50);
	post_free(t->post);
	tracer_free(t->tracer);
	free(t);
}
