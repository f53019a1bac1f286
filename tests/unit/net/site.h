/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "net/http_server.h"

struct conn;
struct loop;

/* A server of both versions whose answers depend on the path, and one client. */
struct site {
	struct loop *l;
	struct http_server *server;
	char addr[64];
	int fd;                    /* the client */
	struct http_request *held; /* set by /hold, /stream and /slow */
	struct buf streamed;
	int n_heads, n_ended, n_body_ends, n_drained;
	bool pause_pieces;
	char *trailer;   /* X-Sum, after the body of /stream */
	const char *big; /* what /big answers, with its length */
	size_t big_len;
	struct conn *upgraded;
	struct http_headers extra;
};

void site_init(struct site *s, const struct http_limits *limits); /* NULL: the defaults */
/* The server's streams are made by wrap(arg, fd). */
void site_init_wrapped(struct site *s, const struct http_limits *limits, http_wrap wrap, void *arg);
void site_done(struct site *s);
void site_expect(struct site *s, const char *needle); /* reads until it comes; otherwise fails */
int site_status(const char *answer);                  /* 0: no answer at all */
