/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "net/http.h"

struct conn;
struct loop;
struct stream;

/*
 * An HTTP server. HTTP/1.1: keep-alive, pipelining answered in order, chunked bodies in both
 * directions, Expect: 100-continue, upgrades. It rejects what llhttp accepts: a missing or second
 * Host, Transfer-Encoding in HTTP/1.0, anything but plain `chunked`, Content-Length together with
 * Transfer-Encoding, bare LF, obs-fold. A rejected head is answered with 400 and the connection is
 * closed.
 *
 * HTTP/2, if the spec asks for it: on the same port, for clients that begin with its preface or
 * negotiated "h2" in TLS. It is as strict; what HTTP/1.1 would answer with 400 is answered or
 * resets the stream. Handlers need not know which version a request has.
 *
 * A request exists from head() until its ended() has been called; its handler must answer it
 * exactly once before that. ended() means that the answer was sent or that the peer left. Code that
 * may still hold r at that time, for instance during a job, takes a reference: answering a dead
 * request is harmless.
 */
struct http_server;
struct http_request;

struct http_handler {
	/*
	 * The head has arrived. Choose how to receive the body: call http_request_buffer() to have
	 * body() called once with all of it, or http_request_stream() to get it in pieces; or
	 * answer at once.
	 */
	void (*head)(void *arg, struct http_request *r);
	/* What peer sent never became a request, and the server has answered it. NULL: never mind.
	 */
	void (*refused)(void *arg, const char *peer, int status);
};

/*
 * Wraps an accepted socket in a stream: plain, or TLS with a function from tls/. NULL means plain.
 */
typedef struct stream *(*http_wrap)(void *wrap_arg, int fd);

/* HTTP/2 for a server's spec. Only programs that name it link nghttp2. */
struct http2_protocol;
extern const struct http2_protocol http2_protocol;

struct http_server_spec {
	struct http_limits limits;
	const struct http_handler *handler;
	void *arg;
	http_wrap wrap;
	void *wrap_arg;
	const struct http2_protocol *http2; /* &http2_protocol, or NULL: HTTP/1.1 alone */
};

/* Takes ownership of listen_fd. If it is -1, connections come only through http_server_adopt(). */
must_use struct err *http_server_start(struct loop *l, int listen_fd,
				       const struct http_server_spec *spec,
				       struct http_server **ret);
/* Serves a connection that was accepted elsewhere. Takes ownership of stream. */
void http_server_adopt(struct http_server *s, struct stream *stream, const char *peer);
/* Idle connections are closed at once, the others after their current requests. */
void http_server_stop_accepting(struct http_server *s);
size_t http_server_conns(const struct http_server *s);
/* Cuts all connections, calling ended() for each request. */
void http_server_free(struct http_server *s);
AUTOPTR(http_server)

/* Keeps r's memory alive, but not its connection. */
struct http_request *http_request_ref(struct http_request *r);
void http_request_unref(struct http_request *r);
AUTOREF(http_request)

/* The request. Strings live as long as it does. */
const char *http_request_method(const struct http_request *r);
/* As sent, except that "http://host/path" has become "/path" and Host names the host. */
const char *http_request_target(const struct http_request *r);
/* Replaces target, path and query, for handlers that pass the request on: it begins with a slash.
 */
void http_request_set_target(struct http_request *r, const char *target);
const char *http_request_path(const struct http_request *r);  /* as sent, before the '?' */
const char *http_request_query(const struct http_request *r); /* after the '?', or "" */
struct http_headers *http_request_headers(struct http_request *r);
const char *http_request_header(struct http_request *r, const char *name);
const char *http_request_peer(const struct http_request *r); /* "1.2.3.4:567" */
int http_request_version(const struct http_request *r);      /* 1 or 2 */
int64_t http_request_body_len(const struct http_request *r); /* < 0: unknown */
/* Of its answer, which may be the server's own (408, 413); 0: there is none yet. Ended requests
 * have it still. */
int http_request_status(const struct http_request *r);
/* What followed the body; complete when its end has been told. The handler may trust none of it. */
const struct http_headers *http_request_trailers(const struct http_request *r);
/* For asking tls/ about the peer's certificate; NULL if r is dead. */
struct stream *http_request_conn_stream(struct http_request *r);
/*
 * False: a browser says that the request was caused by a page of another origin, which is one that
 * was not served with this scheme under the Host of the request. Whatever the browser adds to it by
 * itself proves nothing then. Other clients say nothing, and are believed.
 */
bool http_request_is_own(struct http_request *r, const char *scheme);
struct loop *http_request_loop(struct http_request *r);
/*
 * Sets the handler's own data, and the function to call once when the peer has left or the answer
 * was sent; r is dead afterwards. It is not called after http_respond_upgrade(). A peer that
 * half-closes its connection during a request counts as gone.
 */
void http_request_set_owner(struct http_request *r, void *owner, void (*ended)(void *owner));

/*
 * body(owner, r, data, len) gets all of it at once. If it exceeds max_body, the server answers 413.
 */
void http_request_buffer(struct http_request *r, size_t max_body,
			 void (*body)(void *owner, struct http_request *r, const char *data,
				      size_t len));
struct http_body_events {
	void (*data)(void *owner, struct http_request *r, const char *data, size_t len);
	void (*end)(void *owner, struct http_request *r);
};
void http_request_stream(struct http_request *r, const struct http_body_events *ev);
void http_request_pause(struct http_request *r, bool paused); /* back-pressure on a streamed body */
/* HTTP/2: a body that stands still is no failure. How long it may is the handler's concern. */
void http_request_be_patient(struct http_request *r);

struct http_body {
	const char *type; /* NULL: no Content-Type */
	const void *data;
	size_t len;
};

/*
 * A complete answer: Content-Length is set. h may be NULL. Its Connection, Content-Length,
 * Transfer-Encoding and headers with control characters are left out, but "Connection: close" is
 * obeyed by HTTP/1.1. HEAD requests get no body.
 */
void http_respond(struct http_request *r, int status, const struct http_headers *h,
		  struct http_body body);
/* Answers with a line of plain text. */
void http_respond_text(struct http_request *r, int status, const char *text);
/*
 * The answer in pieces: a negative length means that it is not known. Bytes beyond length are
 * dropped; ending before length is an abort.
 */
void http_respond_start(struct http_request *r, int status, const struct http_headers *h,
			int64_t length);
void http_respond_write(struct http_request *r, const void *p, size_t len);
bool http_respond_full(const struct http_request *r); /* stop producing until drained() */
void http_respond_on_drain(struct http_request *r, void (*drained)(void *owner));
/*
 * Copies h, to be sent by http_respond_end() after the body. Left out where a client would not
 * read them: in HTTP/1.1 unless it sent "TE: trailers" and the length is not known.
 */
void http_respond_trailers(struct http_request *r, const struct http_headers *h);
void http_respond_end(struct http_request *r);
/* Cuts the connection or, in HTTP/2, the stream: the peer must notice that the body is torn. */
void http_respond_abort(struct http_request *r);
/*
 * Sends 101 with h and gives up the connection: from now on the caller owns *ret (call
 * conn_set_events() at once) and r is dead; ended() is not called. Bytes that followed the head are
 * in conn_in() and are also passed to data(). h must contain Connection and Upgrade. *ret is NULL
 * if the peer has left, and in HTTP/2, which has no upgrades: there the answer is 501 and the
 * request ends like any other.
 */
void http_respond_upgrade(struct http_request *r, const struct http_headers *h, struct conn **ret);
