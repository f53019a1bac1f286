/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct buf;

/* What the server and client sides of HTTP/1.1 share: header lists and parsing of targets. */
struct http_header {
	char *name, *value;
};

struct http_headers {
	struct http_header *list;
	size_t n;
	struct http_text *text; /* what the list points into */
};

void http_headers_done(struct http_headers *h);
/* Copies both. */
void http_headers_add(struct http_headers *h, const char *name, const char *value);
/* Replaces all headers of that name. */
void http_headers_set(struct http_headers *h, const char *name, const char *value);
void http_headers_del(struct http_headers *h, const char *name);
/* The first one; case does not matter in names. */
const char *http_headers_get(const struct http_headers *h, const char *name);
/* Searches comma-separated lists. */
bool http_headers_has_token(const struct http_headers *h, const char *name, const char *token);
/* Bytes of a body that is passed on. -1: the end of the stream is its end. */
int64_t http_headers_length(const struct http_headers *h);
/*
 * False if it contains characters that would end its line, or its name is not a token. Such a
 * header is never sent.
 */
bool http_header_valid(const struct http_header *h);
/*
 * Removes Connection, Keep-Alive, TE, Trailer, Transfer-Encoding, Upgrade, Proxy-* and whatever
 * Connection names.
 */
void http_headers_del_hop_by_hop(struct http_headers *h);

/*
 * The decoded value of a query parameter, malloc'd; NULL if it is absent. query does not include
 * the '?'.
 */
char *http_query_get(const char *query, const char *name);
char *http_query_nth(const char *query, const char *name, size_t n); /* of several, from 0 on */
const char *http_reason(int status);
/*
 * The token of a header "Bearer TOKEN", whose first word may be in capitals or not. False: header
 * is NULL, or something else, or there is no token.
 */
bool http_bearer(const char *header, struct span *ret);

/* Limits for every parser here. Zero means the default. */
struct http_limits {
	size_t max_head;           /* 64 KiB for the start line and headers together */
	size_t max_headers;        /* 100 */
	size_t max_body;           /* 3 MiB; applies only to buffered bodies */
	uint64_t head_ms;          /* 32 s to send a head, as a kube-apiserver gives */
	uint64_t idle_ms;          /* 120 s between requests */
	size_t max_conns;          /* 4096 per server */
	size_t max_conns_per_peer; /* by its address; 0: no limit of its own */
	size_t max_out;            /* unsent bytes at which an answer is full; 256 KiB */
	bool one_request;          /* of a connection to a server; HTTP/1.1 alone */
};
void http_limits_fill(struct http_limits *l); /* replaces zeros by the defaults */
