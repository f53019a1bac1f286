/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/http_head_priv.h"
#include "net/http_server.h"

/*
 * The server's files: http_server.c accepts; http_request.c is what handlers call, for either
 * version. HTTP/1.1: http_conn.c moves one connection from request to request, http_answer.c writes
 * answers. HTTP/2 is in http2_conn.c and http2_stream.c, and reached only through the spec of a
 * server.
 */
struct http_server {
	struct loop *loop;
	struct http_server_spec spec;
	int fd; /* -1: no longer accepting */
	struct watch *watch;
	struct timer *retry; /* for when the process ran out of descriptors */
	struct list conns;   /* struct http_link.all */
	struct list idle;    /* struct http_link.idle, longest idle first */
	size_t n_conns;
	bool stopping;
	usec date_at; /* the second that date is for */
	char date[40];
};

struct http_link;

struct http_link_ops {
	void (*close)(struct http_link *k); /* at once; the owners of its requests are told */
	/* The server is stopping: the connection ends after the requests that it has. No callbacks.
	 */
	void (*stop)(struct http_link *k);
};

/* What the server knows of a connection, whichever version of HTTP it speaks. */
struct http_link {
	const struct http_link_ops *ops;
	struct http_server *server; /* NULL: cut or given away */
	struct conn *conn;          /* NULL likewise */
	struct list all, idle;
	char peer[64];
};

/* Adds a connection to the server's, as an idle one. Takes ownership of c. */
void http_link_init(struct http_link *k, struct http_server *s, struct conn *c, const char *peer);
/* The server has one connection fewer. What k->conn is or was is up to the caller. */
void http_link_forget(struct http_link *k);
/* A connection that may be closed for others, from now on or no longer. */
void http_link_set_idle(struct http_link *k, bool idle);
/* Tells the handler of an answer to what never became a request. */
void http_link_refused(struct http_link *k, int status);

/*
 * HTTP/2 as http_conn.c sees it; http_server.h has the one there is. adopt() serves c from now on,
 * beginning with its unread input.
 */
struct http2_protocol {
	void (*adopt)(struct http_server *s, struct conn *c, const char *peer);
};

enum http_conn_state {
	HTTP_CONN_IDLE, /* no byte of the next head has arrived */
	HTTP_CONN_HEAD,
	HTTP_CONN_REQUEST, /* conn->req is being served */
	HTTP_CONN_SKIP,    /* answered before its body was read: the rest is skipped */
	HTTP_CONN_CLOSING, /* the last answer is being flushed */
	HTTP_CONN_STATE_MAX_,
};

struct http_conn {
	struct http_link link;
	struct http_request *req; /* HTTP_CONN_REQUEST and HTTP_CONN_SKIP */
	enum http_conn_state state;
	unsigned refs; /* the server's and those of running callbacks */
	struct deferred kick;
	bool stepping, cut;
	bool known;    /* that it speaks HTTP/1.1 */
	bool progress; /* body bytes have arrived since the timer was last set */
	size_t scanned;
	struct timer *timer;
	usec deadline, armed_for;
	usec worked;  /* conn_worked(), as far as the deadline allows for it */
	bool overdue; /* the deadline has passed, and unread input gets its turn */
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

struct http_answer_head {
	int status;
	const struct http_headers *headers; /* the handler's; NULL: none */
	const char *type;                   /* NULL: no Content-Type beside those */
	int64_t length;                     /* < 0: unknown */
};

/* What the version of HTTP does for a request. http_request.c calls these in the right order only.
 */
struct http_request_ops {
	int version;
	/* The handler wants the body: a client that waits for permission to send it gets that. */
	void (*allow)(struct http_request *r);
	/* Looks at the request again later in this turn. */
	void (*kick)(struct http_request *r);
	/* Headers that contradict the framing are left out. */
	void (*start)(struct http_request *r, const struct http_answer_head *a);
	/* Never nothing, and never more than announced. */
	void (*write)(struct http_request *r, const void *p, size_t len);
	bool (*full)(const struct http_request *r);
	/* r->answer is HTTP_ANSWER_DONE already, and r->trailers are to be sent. */
	void (*end)(struct http_request *r);
	void (*abort)(struct http_request *r);
	/* Gives the connection away, which ends the request; NULL: this version cannot. */
	struct conn *(*upgrade)(struct http_request *r, const struct http_headers *h);
	struct stream *(*stream)(struct http_request *r);
};

struct http_request {
	const struct http_request_ops *ops; /* NULL: dead */
	int version;
	unsigned refs;
	struct loop *loop;
	struct deferred drop; /* drops the connection's reference */
	struct http_head head;
	char *path, *query; /* query points into path's block */
	char peer[64];
	void *owner;
	void (*ended)(void *owner);

	enum http_body_mode mode;
	void (*body)(void *owner, struct http_request *r, const char *data, size_t len);
	struct http_body_events body_ev;
	struct buf buffered;
	size_t max_body;
	bool body_done, body_told, paused, patient;

	enum http_answer_state answer;
	int status; /* of the answer */
	bool no_body;
	int64_t answer_left;          /* < 0: unknown */
	struct http_headers trailers; /* of the answer */
	void (*drained)(void *owner);

	/* HTTP/1.1 alone. */
	struct http_conn *hc; /* NULL: dead */
	size_t skipped;
	uint64_t body_left; /* unless chunked */
	bool chunked, close;
};

/* Fills in r, which is all zero and begins a block of memory that free() will release. */
void http_request_init(struct http_request *r, const struct http_request_ops *ops,
		       struct http_link *k);
void http_request_from_head(struct http_request *r); /* r->head is complete */
/* The body is complete, or as much of it as was buffered. */
void http_request_tell_end(struct http_request *r);
/*
 * The request is dead from here on. Its memory lasts until the end of the turn, for callers up the
 * stack that still hold it.
 */
void http_request_end(struct http_request *r, bool tell);
bool http_status_has_no_body(int status);

void http_conn_new(struct http_server *s, struct stream *stream, const char *peer);
void http_conn_close(struct http_conn *hc); /* at once; the request's owner is told */
/* Looks at the connection again later in this turn. */
void http_conn_kick(struct http_conn *hc);
/* Gives the connection away; the server forgets it. */
struct conn *http_conn_detach(struct http_conn *hc);

extern const struct http_request_ops http1_request_ops;
/* A plain text answer to a head that never became a request; the connection is closed after it. */
void http_answer_refuse(struct http_conn *hc, int status);
const char *http_server_date(struct http_server *s);
