/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct http_headers;
struct http_request;

/* Answers. */
void reply_json(struct http_request *r, int status, struct buf *body);
void reply_message(struct http_request *r, int status, const char *fmt, ...) printf_like(3, 4);
/* 403, 404 or 500, depending on e, which is freed. failed is like "File upload failed". */
void reply_error(struct http_request *r, struct err *e, const char *absent, const char *failed);

/* rest.c: errors below /v1. */
void rest_error(struct http_request *r, int status, const char *code, const char *fmt, ...)
	printf_like(4, 5);
void rest_refuse(struct http_request *r,
		 struct err *e); /* the status that fits e, which is freed */
void rest_no_route(struct http_request *r, const char *allow); /* 405; allow NULL: 404 */
void put_time(struct buf *out, int64_t at);                    /* "2026-01-02T03:04:05Z" */

enum reply_next {
	REPLY_MORE,
	REPLY_END,
	REPLY_TORN, /* there should be more, but it cannot be read */
};
struct reply_ops {
	enum reply_next (*more)(void *arg, struct buf *out); /* adds about RT_PIECE */
	void (*done)(void *arg); /* called once, whether or not everything was sent */
};
struct reply_head {
	int status;
	const struct http_headers *headers;
	int64_t length;
};
/* Sends what ops produce, at the pace of the peer. Without a head it is JSON of unknown length. */
void reply_stream(struct http_request *r, const struct reply_head *head,
		  const struct reply_ops *ops, void *arg);
