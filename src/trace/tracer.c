/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "trace/trace.h"

/*
 * A span is a tree of JSON from its start on, and text from its end on. A batch is made of the
 * texts that wait:
 *
 *   {"resourceSpans":[{"resource":…,"scopeSpans":[{"scope":…,"spans":[TEXT,TEXT,…]}]}]}
 */
enum {
	WAITING_MAX = 2048, /* spans that have ended and are not under way */
	WAITING_BYTES_MAX = 4 << 20,
	OPEN_MAX = 16384, /* spans that have not ended */
	BATCH_MAX = 512,
	PARTS_MAX = 32,   /* attributes and events of a span, each */
	VALUE_MAX = 1024, /* bytes of a value */
	DELAY_MS = 500,
	TRIES_MAX = 5,
	PAUSE_MS = 500, /* after the first try; then twice that, and so on */
	ATTRIBUTES_MAX = 64,
};

struct ended {
	struct list link;
	char *text;
	size_t len;
};

struct tracer {
	struct tracer_spec spec;
	char *head; /* of every batch */
	struct timer *timer;
	struct list waiting;
	size_t n_waiting, waiting_bytes, n_open;
	bool busy;   /* a batch is under way */
	char *batch; /* it, for another try; NULL: none */
	size_t batch_len, batch_n;
	unsigned n_tries;
	bool in_trouble;
	uint64_t n_sent, n_dropped, n_failed;
};

struct trace_span {
	struct tracer *t;
	struct trace_context at;
	struct json_doc *doc;
	struct json *attributes, *events;
	usec began;
};

static struct json *key_value(struct json_doc *d, const char *key, const char *type,
			      struct json *value)
{
	struct json *kv = json_obj(d), *v = json_obj(d);

	json_set_str(d, kv, "key", key);
	json_set(d, v, type, value);
	json_set(d, kv, "value", v);
	return kv;
}

/* The beginning of a value that is too long, not cut in a character. */
static struct json *cut_text(struct json_doc *d, const char *s)
{
	size_t len = strnlen(s, VALUE_MAX + 1);

	if (len > VALUE_MAX) {
		len = VALUE_MAX;
		while (len && ((unsigned char)s[len] & 0xc0) == 0x80)
			len--;
	}
	return json_new_strn(d, s, len);
}

static struct json *text_value(struct json_doc *d, const char *key, const char *s)
{
	return key_value(d, key, "stringValue", cut_text(d, s));
}

static struct json *nanos(struct json_doc *d, usec wall)
{
	return json_new_strf(d, "%" PRId64 "000", wall);
}

/* "a=b,c=d", as OTEL_RESOURCE_ATTRIBUTES has it. */
static struct err *put_attributes(struct json_doc *d, struct json *list, const char *text)
{
	for (size_t n = 0; text && *text; n++) {
		const char *end = strchr(text, ',');
		autofree char *part = xstrndup(text, end ? (size_t)(end - text) : strlen(text));
		char *eq = strchr(part, '=');

		if (!eq || eq == part || n >= ATTRIBUTES_MAX)
			return err_new(
				ERR_INVALID,
				"\"%s\": attributes have the form KEY=VALUE,KEY=VALUE, and are %d at most",
				part, ATTRIBUTES_MAX);
		*eq = '\0';
		json_push(d, list, text_value(d, part, eq + 1));
		text = end ? end + 1 : NULL;
	}
	return NULL;
}

/* What stands before the spans of a batch. */
static struct err *make_head(const struct tracer_spec *spec, char **ret)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *resource = json_obj(d), *list;
	autobuf b = { 0 };
	struct err *e;

	json_set_root(d, resource);
	list = json_set(d, resource, "attributes", json_arr(d));
	json_push(d, list, text_value(d, "service.name", spec->service));
	json_push(d, list, text_value(d, "service.version", CAY_VERSION));
	e = put_attributes(d, list, spec->attributes);
	if (e)
		return e;
	buf_add_str(&b, "{\"resourceSpans\":[{\"resource\":");
	json_write(resource, &b);
	buf_add_str(&b, ",\"scopeSpans\":[{\"scope\":{\"name\":\"agent-sandbox-controller\"},"
			"\"spans\":[");
	*ret = buf_steal(&b, NULL);
	return NULL;
}

static void go(struct tracer *t);

static void on_timer(void *arg)
{
	go(arg);
}

struct err *tracer_new(struct loop *l, const struct tracer_spec *spec, struct tracer **ret)
{
	struct tracer *t;
	char *head = NULL;
	struct err *e = make_head(spec, &head);

	if (e)
		return e;
	t = xnew(struct tracer);
	t->spec = *spec;
	t->head = head;
	t->timer = timer_new(l, on_timer, t);
	list_init(&t->waiting);
	*ret = t;
	return NULL;
}

static void ended_free(struct ended *e)
{
	list_del(&e->link);
	free(e->text);
	free(e);
}

void tracer_free(struct tracer *t)
{
	if (!t)
		return;
	assert(!t->n_open);
	while (!list_empty(&t->waiting))
		ended_free(list_first(&t->waiting, struct ended, link));
	timer_free(t->timer);
	free(t->head);
	free(t->batch);
	free(t);
}

/* The next batch, from what waits. */
static void gather(struct tracer *t)
{
	autobuf b = { 0 };

	buf_add_str(&b, t->head);
	for (t->batch_n = 0; t->batch_n < BATCH_MAX && !list_empty(&t->waiting); t->batch_n++) {
		struct ended *e = list_first(&t->waiting, struct ended, link);

		if (t->batch_n)
			buf_add_char(&b, ',');
		buf_add(&b, e->text, e->len);
		t->n_waiting--;
		t->waiting_bytes -= e->len;
		ended_free(e);
	}
	buf_add_str(&b, "]}]}]}");
	t->n_tries = 0;
	t->batch = buf_steal(&b, &t->batch_len);
}

static void go(struct tracer *t)
{
	if (t->busy)
		return;
	if (!t->batch && !t->n_waiting)
		return;
	if (!t->batch)
		gather(t);
	t->busy = true;
	t->n_tries++;
	t->spec.send(t->spec.arg, xmemdup(t->batch, t->batch_len), t->batch_len);
}

void tracer_flush(struct tracer *t)
{
	timer_clear(t->timer);
	go(t);
}

bool tracer_idle(const struct tracer *t)
{
	return !t->busy && !t->batch && !t->n_waiting;
}

static void tell(struct tracer *t, bool trouble, int status)
{
	if (trouble == t->in_trouble)
		return;
	t->in_trouble = trouble;
	if (t->spec.trouble)
		t->spec.trouble(t->spec.arg, trouble, status);
}

/* Whether it may be taken later: nobody answered, or it was said to come again. */
static bool may_try_again(int status)
{
	return !status || status == 429 || status == 502 || status == 503 || status == 504;
}

void tracer_sent(struct tracer *t, int status)
{
	bool taken = status >= 200 && status < 300;

	t->busy = false;
	tell(t, !taken, status);
	if (!taken && may_try_again(status) && t->n_tries < TRIES_MAX) {
		t->n_failed++;
		timer_set(t->timer, (uint64_t)PAUSE_MS << (t->n_tries - 1));
		return;
	}
	if (taken)
		t->n_sent += t->batch_n;
	else
		t->n_dropped += t->batch_n;
	free(take(t->batch));
	if (t->n_waiting)
		timer_set(t->timer, t->n_waiting >= BATCH_MAX && taken ? 0 : DELAY_MS);
}

void tracer_metrics(const struct tracer *t, struct buf *b)
{
	metrics_counter(b, "cay_trace_spans_sent_total", "Spans that the collector took.",
			t ? t->n_sent : 0);
	metrics_counter(b, "cay_trace_spans_dropped_total",
			"Spans that were given up: there were too many, or nobody took them.",
			t ? t->n_dropped : 0);
	metrics_counter(b, "cay_trace_retries_total", "Batches of spans that are sent again.",
			t ? t->n_failed : 0);
	metrics_gauge(b, "cay_trace_spans_waiting", "Spans that wait to be sent.",
		      t ? t->n_waiting : 0);
}

static void set_hex(struct json_doc *d, struct json *o, const char *key, const uint8_t *p,
		    size_t len)
{
	char text[33];

	hex_encode(p, len, text);
	json_set(d, o, key, json_new_strn(d, text, 2 * len));
}

struct trace_span *trace_start(struct tracer *t, const char *name, enum span_kind kind,
			       const struct trace_context *parent)
{
	bool has_parent = parent && trace_context_known(parent);
	struct trace_span *s;
	struct json *root;

	if (!t || (has_parent && !parent->sampled))
		return NULL;
	if (t->n_open >= OPEN_MAX) {
		t->n_dropped++;
		return NULL;
	}
	s = xnew(struct trace_span);
	s->t = t;
	t->n_open++;
	s->began = clock_wall();
	s->at.sampled = true;
	if (has_parent)
		memcpy(s->at.trace, parent->trace, sizeof(s->at.trace));
	else
		random_bytes(s->at.trace, sizeof(s->at.trace));
	random_bytes(s->at.span, sizeof(s->at.span));
	s->doc = json_doc_new();
	root = json_obj(s->doc);
	json_set_root(s->doc, root);
	set_hex(s->doc, root, "traceId", s->at.trace, sizeof(s->at.trace));
	set_hex(s->doc, root, "spanId", s->at.span, sizeof(s->at.span));
	if (has_parent)
		set_hex(s->doc, root, "parentSpanId", parent->span, sizeof(parent->span));
	json_set_str(s->doc, root, "name", name);
	json_set_int(s->doc, root, "kind", kind);
	s->attributes = json_set(s->doc, root, "attributes", json_arr(s->doc));
	s->events = json_set(s->doc, root, "events", json_arr(s->doc));
	return s;
}

void trace_began(struct trace_span *s, usec wall)
{
	if (s)
		s->began = MIN(wall, s->began);
}

void trace_set(struct trace_span *s, const char *key, const char *value)
{
	if (s && value && json_len(s->attributes) < PARTS_MAX)
		json_push(s->doc, s->attributes, text_value(s->doc, key, value));
}

void trace_set_int(struct trace_span *s, const char *key, int64_t value)
{
	if (s && json_len(s->attributes) < PARTS_MAX)
		json_push(s->doc, s->attributes,
			  key_value(s->doc, key, "intValue",
				    json_new_strf(s->doc, "%" PRId64, value)));
}

void trace_event(struct trace_span *s, const char *name, const struct trace_pair pairs[])
{
	struct json *event, *list;

	if (!s || json_len(s->events) >= PARTS_MAX)
		return;
	event = json_obj(s->doc);
	json_set(s->doc, event, "timeUnixNano", nanos(s->doc, clock_wall()));
	json_set_str(s->doc, event, "name", name);
	list = json_set(s->doc, event, "attributes", json_arr(s->doc));
	for (size_t i = 0; pairs[i].key && i < PARTS_MAX; i++)
		if (pairs[i].value)
			json_push(s->doc, list, text_value(s->doc, pairs[i].key, pairs[i].value));
	json_push(s->doc, s->events, event);
}

void trace_failed(struct trace_span *s)
{
	struct json *status;

	if (!s)
		return;
	status = json_set(s->doc, json_root(s->doc), "status", json_obj(s->doc));
	json_set_int(s->doc, status, "code", 2);
}

struct trace_context trace_context_of(const struct trace_span *s)
{
	return s ? s->at : (struct trace_context){ 0 };
}

static void put_in_line(struct tracer *t, struct trace_span *s)
{
	struct ended *e;
	autobuf b = { 0 };

	json_write(json_root(s->doc), &b);
	if (t->n_waiting >= WAITING_MAX || t->waiting_bytes + b.len > WAITING_BYTES_MAX) {
		t->n_dropped++;
		return;
	}
	e = xnew(struct ended);
	e->text = buf_steal(&b, &e->len);
	list_add_tail(&t->waiting, &e->link);
	t->n_waiting++;
	t->waiting_bytes += e->len;
	if (!t->busy && !t->batch && !timer_armed(t->timer))
		timer_set(t->timer, DELAY_MS);
}

void trace_end(struct trace_span *s)
{
	struct json *root;

	if (!s)
		return;
	root = json_root(s->doc);
	json_set(s->doc, root, "startTimeUnixNano", nanos(s->doc, s->began));
	json_set(s->doc, root, "endTimeUnixNano", nanos(s->doc, MAX(clock_wall(), s->began)));
	put_in_line(s->t, s);
	s->t->n_open--;
	json_doc_free(s->doc);
	free(s);
}
