/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct http_request;
struct sse;

/* An answer in events (text/event-stream), at the pace of whoever reads it. */
struct sse_events {
	void (*drained)(void *arg); /* sse_full() no longer holds */
	void (*gone)(void *arg);    /* the reader has left: call sse_free() */
};

/* Answers r. A comment is sent whenever nothing else has been for 15 s. */
struct sse *sse_new(struct http_request *r, const struct sse_events *ev, void *arg);
bool sse_full(const struct sse *s);
enum {
	SSE_NO_ID = -1,
};
void sse_event(struct sse *s, const char *name, int64_t id, const char *json);
/* {"text": …}, or {"base64": …} if the bytes are not UTF-8. */
void sse_bytes(struct sse *s, const char *name, int64_t id, const char *data, size_t len);
void sse_end(struct sse *s);  /* after the last event; frees s */
void sse_free(struct sse *s); /* cuts the answer short, unless the reader has left */

/* The bytes at the end of data that begin a character whose rest has not arrived: at most 3. */
size_t utf8_unfinished(const char *data, size_t len);

/* Bytes of one output on their way into events, none of which splits a character. */
struct sse_text {
	char held[4];
	unsigned n_held;
};
/*
 * Sends what is whole and holds the rest. end is the offset after these bytes, or SSE_NO_ID; the
 * id of an event is the offset of the byte that follows it.
 */
void sse_text(struct sse *s, struct sse_text *t, const char *name, int64_t end, struct span piece);
/* Sends what is held, which nothing will complete any more. */
void sse_text_end(struct sse *s, struct sse_text *t, const char *name, int64_t end);
