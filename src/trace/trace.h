/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

struct buf;
struct loop;

/* Where in a trace one is. All zero: in none. */
struct trace_context {
	uint8_t trace[16], span[8];
	bool sampled;
};
enum {
	TRACE_PARENT_MAX = 56,
};
bool trace_context_known(const struct trace_context *c);
/* From a traceparent header. False: it is none that counts, and *ret is all zero. */
bool trace_parent_read(const char *text, struct trace_context *ret);
void trace_parent_write(const struct trace_context *c, char ret[TRACE_PARENT_MAX]);
/* The same as an annotation has it: a JSON object of the headers. */
bool trace_annotation_read(const char *text, struct trace_context *ret);
char *trace_annotation_write(const struct trace_context *c); /* malloc'd */

/*
 * Makes spans and has them sent. send() is given the body of a request, which becomes its own, and
 * calls tracer_sent() once it has ended: with the HTTP status, or 0 if there was no answer.
 */
struct tracer;
struct tracer_spec {
	const char *service;    /* service.name */
	const char *attributes; /* of the resource, "key=value,key=value"; NULL: none */
	void (*send)(void *arg, char *body, size_t len);
	/* Spans are not taken, or are taken again. May be NULL. */
	void (*trouble)(void *arg, bool trouble, int status);
	void *arg;
};
/* ERR_INVALID: the attributes are none. */
must_use struct err *tracer_new(struct loop *l, const struct tracer_spec *spec,
				struct tracer **ret);
void tracer_sent(struct tracer *t, int status);
void tracer_flush(struct tracer *t);                        /* sends what waits, now */
bool tracer_idle(const struct tracer *t);                   /* nothing waits or is under way */
void tracer_metrics(const struct tracer *t, struct buf *b); /* t may be NULL */
void tracer_free(struct tracer *t);
AUTOPTR(tracer)

enum span_kind {
	SPAN_INTERNAL = 1,
	SPAN_SERVER = 2,
};

/* name and keys are constants. Everything takes a NULL span: of a tracer that is NULL, or of a
 * caller who wants none. */
struct trace_span;
struct trace_span *
trace_start(struct tracer *t, const char *name, enum span_kind kind,
	    const struct trace_context *parent);   /* all zero, or NULL: a new trace */
void trace_began(struct trace_span *s, usec wall); /* earlier than it was started */
void trace_set(struct trace_span *s, const char *key, const char *value); /* NULL value: none */
void trace_set_int(struct trace_span *s, const char *key, int64_t value);
/* pairs end with a NULL key; a NULL value is left out. */
struct trace_pair {
	const char *key, *value;
};
void trace_event(struct trace_span *s, const char *name, const struct trace_pair pairs[]);
void trace_failed(struct trace_span *s);
struct trace_context trace_context_of(const struct trace_span *s); /* all zero for NULL */
void trace_end(struct trace_span *s);
