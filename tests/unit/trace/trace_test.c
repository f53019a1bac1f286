/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "test.h"

#define TRACE   "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN_ID "00f067aa0ba902b7"

TEST(only_a_whole_traceparent_counts)
{
	static const struct {
		const char *text;
		bool good, sampled;
	} rows[] = {
		{ "00-" TRACE "-" SPAN_ID "-01", true, true },
		{ "00-" TRACE "-" SPAN_ID "-00", true, false },
		{ "00-" TRACE "-" SPAN_ID "-ff", true, true },
		{ "01-" TRACE "-" SPAN_ID "-01-later", true, true },
		{ "00-" TRACE "-" SPAN_ID "-01-later", false, false },
		{ "01-" TRACE "-" SPAN_ID "-01later", false, false },
		{ "ff-" TRACE "-" SPAN_ID "-01", false, false },
		{ "00-" TRACE "-" SPAN_ID, false, false },
		{ "00-" TRACE "-" SPAN_ID "-0", false, false },
		{ "00-" TRACE "-" SPAN_ID "-0x", false, false },
		{ "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN_ID "-01", false, false },
		{ "00-00000000000000000000000000000000-" SPAN_ID "-01", false, false },
		{ "00-" TRACE "-0000000000000000-01", false, false },
		{ "00_" TRACE "-" SPAN_ID "-01", false, false },
		{ "", false, false },
		{ NULL, false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct trace_context c = { .sampled = true };

		eq_int(trace_parent_read(rows[i].text, &c), rows[i].good);
		eq_int(trace_context_known(&c), rows[i].good);
		eq_int(c.sampled, rows[i].sampled);
	}
}

TEST(an_annotation_is_an_object_of_headers)
{
	static const char good[] = "{\"traceparent\":\"00-" TRACE "-" SPAN_ID "-01\"}";
	struct trace_context c;
	autofree char *again = NULL;

	is_true(trace_annotation_read(good, &c));
	again = trace_annotation_write(&c);
	eq_str(again, good);
	is_false(trace_annotation_read("[]", &c));
	is_false(trace_annotation_read("{\"traceparent\":1}", &c));
	is_false(trace_annotation_read("{", &c));
	is_false(trace_annotation_read(NULL, &c));
}

/* A collector that takes what it is given. */
struct rig {
	struct loop *loop;
	struct tracer *t;
	char *body; /* the last; NULL: none */
	unsigned n;
};

static void take_body(void *arg, char *body, size_t len)
{
	struct rig *r = arg;

	eq_int(strlen(body), len);
	free(r->body);
	r->body = body;
	r->n++;
}

static void rig_open(struct rig *r, const char *attributes)
{
	const struct tracer_spec spec = { "me", attributes, take_body, NULL, r };

	*r = (struct rig){ 0 };
	works(loop_new(&r->loop));
	works(tracer_new(r->loop, &spec, &r->t));
}

static void rig_close(struct rig *r)
{
	tracer_free(r->t);
	free(r->body);
	loop_free(r->loop);
}

static uint64_t metric(const struct rig *r, const char *name)
{
	autofree char *line = xasprintf("\n%s ", name);
	autobuf b = { 0 };
	const char *at;

	tracer_metrics(r->t, &b);
	at = strstr(buf_str(&b), line);
	is_true(at);
	return strtoull(at + strlen(line), NULL, 10);
}

static void make(struct rig *r, size_t n)
{
	while (n--)
		trace_end(trace_start(r->t, "s", SPAN_INTERNAL, NULL));
}

TEST(a_batch_has_resource_spans_and_their_parents)
{
	struct trace_context parent;
	struct trace_span *s;
	autoptr(json_doc) d = NULL;
	const struct json *span, *resource;
	struct rig r;

	rig_open(&r, "a=b,c=d=e");
	is_true(trace_parent_read("00-" TRACE "-" SPAN_ID "-01", &parent));
	s = trace_start(r.t, "name", SPAN_SERVER, &parent);
	trace_set(s, "k", "\"v\"");
	trace_set(s, "none", NULL);
	trace_set_int(s, "i", -5);
	trace_event(s, "e", (const struct trace_pair[]){ { "x", "y" }, { "z", NULL }, { 0 } });
	trace_failed(s);
	trace_end(s);
	eq_int(r.n, 0); /* nobody waits for it */
	tracer_flush(r.t);
	works(json_parse(r.body, strlen(r.body), NULL, &d));
	resource = json_at_path(json_at(json_get(json_root(d), "resourceSpans"), 0), "resource");
	eq_int(json_len(json_get(resource, "attributes")), 4);
	eq_str(json_get_str(json_at_path(json_at(json_get(resource, "attributes"), 3), "value"),
			    "stringValue"),
	       "d=e");
	span = json_at(
		json_get(json_at(json_get(json_at(json_get(json_root(d), "resourceSpans"), 0),
					  "scopeSpans"),
				 0),
			 "spans"),
		0);
	eq_str(json_get_str(span, "traceId"), TRACE);
	eq_str(json_get_str(span, "parentSpanId"), SPAN_ID);
	eq_int(json_get_int(span, "kind", 0), 2);
	eq_int(json_len(json_get(span, "attributes")), 2);
	eq_int(json_len(json_get(json_at(json_get(span, "events"), 0), "attributes")), 1);
	eq_int(json_get_int(json_get(span, "status"), "code", 0), 2);
	tracer_sent(r.t, 200);
	is_true(tracer_idle(r.t));
	eq_int(metric(&r, "cay_trace_spans_sent_total"), 1);
	rig_close(&r);
}

TEST(without_a_tracer_or_a_sample_there_is_no_span)
{
	struct trace_context parent;
	struct rig r;

	rig_open(&r, NULL);
	is_true(trace_parent_read("00-" TRACE "-" SPAN_ID "-00", &parent));
	is_false(trace_start(r.t, "s", SPAN_SERVER, &parent));
	is_false(trace_start(NULL, "s", SPAN_SERVER, NULL));
	trace_set(NULL, "k", "v");
	trace_failed(NULL);
	trace_end(NULL);
	is_true(tracer_idle(r.t));
	rig_close(&r);
}

TEST(what_is_too_much_is_dropped_and_counted)
{
	struct rig r;

	rig_open(&r, NULL);
	make(&r, 3000);
	eq_int(metric(&r, "cay_trace_spans_waiting"), 2048);
	eq_int(metric(&r, "cay_trace_spans_dropped_total"), 3000 - 2048);
	tracer_flush(r.t);
	eq_int(metric(&r, "cay_trace_spans_waiting"), 2048 - 512);
	make(&r, 1);
	eq_int(r.n, 1); /* one at a time */
	rig_close(&r);
}

TEST(a_batch_is_tried_again_a_few_times_if_that_may_help)
{
	static const struct {
		int status;
		bool again;
	} rows[] = { { 0, true },    { 429, true },  { 503, true },
		     { 400, false }, { 401, false }, { 500, false } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned n = 1;
		struct rig r;

		rig_open(&r, NULL);
		make(&r, 1);
		tracer_flush(r.t);
		tracer_sent(r.t, rows[i].status);
		for (; !tracer_idle(r.t) && n < 20; n++) {
			tracer_flush(r.t);
			tracer_sent(r.t, rows[i].status);
		}
		eq_int(n, rows[i].again ? 5 : 1);
		eq_int(r.n, n);
		eq_int(metric(&r, "cay_trace_spans_dropped_total"), 1);
		rig_close(&r);
	}
}

TEST(attributes_that_are_none_are_an_error)
{
	struct tracer_spec spec = { .service = "me", .attributes = "a", .send = take_body };
	struct tracer *t = NULL;
	struct loop *l;

	works(loop_new(&l));
	fails(tracer_new(l, &spec, &t), ERR_INVALID);
	spec.attributes = "=b";
	fails(tracer_new(l, &spec, &t), ERR_INVALID);
	loop_free(l);
}
