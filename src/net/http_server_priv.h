/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/http_head_priv.h"
#include "net/http_server.h"

/*
 * The server's three files: http_server.c accepts, http_conn.c moves one connection from request to
 * request, http_answer.c writes answers.
 */
struct http_server {
	struct loop *loop;
	struct http_server_spec spec;
	int fd; /* -1: no longer accepting */
	struct watch *watch;
	struct timer *retry; /* when the process was out of descriptors */
	struct list conns;   /* struct http_conn.link */
	struct list idle;    /* struct http_conn.idle_link: no request, longest first */
	size_t n_conns;
	bool stopping;
	usec date_at; /* the second that date tells */
	char date[40];
};

enum http_conn_state {
	HTTP_CONN_IDLE, /* nothing of the next head has come */
	HTTP_CONN_HEAD,
	HTTP_CONN_REQUEST, /* conn->req is being served */
	HTTP_CONN_SKIP,    /* answered before its body was read: the rest is dropped */
	HTTP_CONN_CLOSING, /* the last answer is being flushed */
	HTTP_CONN_STATE_MAX_,
};

struct http_conn {
	struct http_server *server; /* NULL: cut or given away */
	struct conn *conn;          /* NULL: cut or given away */
	struct list link, idle_link;
	struct http_request *req; /* HTTP_CONN_REQUEST and HTTP_CONN_SKIP */
	enum http_conn_state state;
	unsigned refs; /* the server's, callbacks under way */
	struct deferred kick;
	bool stepping, cut;
	bool progress; /* body bytes came since the timer was last set */
	size_t scanned;
	struct timer *timer;
	usec deadline, armed_for;
	char peer[64];
};

enum http_body_mode {
	HTTP_BODY_UNSET,
	HTTP_BODY_BUFFER,
	HTTP_BODY_STREAM,
	HTTP_BODY_MODE_MAX_,
};

enum http_answer_state {
	HTTP_ANSWER_NONE,
	HTTP_ANSWER_STARTED,
	HTTP_ANSWER_DONE,
	HTTP_ANSWER_STATE_MAX_,
};

struct http_request {
	unsigned refs;
	struct http_conn *hc; /* NULL: dead */
	struct loop *loop;
	struct deferred drop; /* of the connection's reference */
	struct http_head head;
	char *path, *query; /* query points into path's block */
	char peer[64];
	void *owner;
	void (*ended)(void *owner);

	enum http_body_mode mode;
	void (*body)(void *owner, struct http_request *r, const char *data, size_t len);
	struct http_body_events body_ev;
	struct buf buffered;
	size_t max_body, skipped;
	uint64_t body_left; /* unless chunked */
	bool body_done, body_told, paused;

	enum http_answer_state answer;
	bool chunked, no_body, close;
	int64_t answer_left; /* < 0: until the end */
	void (*drained)(void *owner);
};

struct http_conn *http_conn_new(struct http_server *s, struct stream *stream, const char *peer);
void http_conn_close(struct http_conn *hc); /* at once; the request is told */
/* Looks at the connection again, later in this turn. */
void http_conn_kick(struct http_conn *hc);
/* Gives the connection away; its server forgets it. */
struct conn *http_conn_detach(struct http_conn *hc);

/* A plain text answer for heads that never became requests; the connection closes after it. */
void http_answer_refuse(struct http_conn *hc, int status);
const char *http_server_date(struct http_server *s);
void http_server_conn_gone(struct http_server *s); /* one connection fewer */
