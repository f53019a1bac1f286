/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "net/http.h"

struct conn;
struct loop;
struct stream;

/*
 * An HTTP/1.1 server: keep-alive, pipelining answered in order, chunked both ways, Expect:
 * 100-continue, upgrades. It refuses what llhttp lets pass: no or two Host, Transfer-Encoding on
 * HTTP/1.0, anything but plain `chunked`, Content-Length beside Transfer-Encoding, bare LF,
 * obs-fold. A refused head is answered with 400 and the connection is closed.
 *
 * A request exists from head() until its ended() was called; its handler must answer it exactly
 * once before that. ended() means that the answer is sent or that the peer left; who may still
 * hold r then, for instance across a job, takes a reference: answering a dead request is harmless.
 */
struct http_server;
struct http_request;

struct http_handler {
	/*
	 * The head is there. Choose how the body comes: call http_request_buffer() to have body()
	 * called once with all of it, or http_request_stream() to get pieces; or answer at once.
	 */
	void (*head)(void *arg, struct http_request *r);
};

/* Wraps an accepted socket into a stream: plain, or TLS with what tls/ brings. NULL wrap: plain. */
typedef struct stream *(*http_wrap)(void *wrap_arg, int fd);

struct http_server_spec {
	struct http_limits limits;
	const struct http_handler *handler;
	void *arg;
	http_wrap wrap;
	void *wrap_arg;
};

/* Takes listen_fd over; -1: connections come by http_server_adopt() alone. */
must_use struct err *http_server_start(struct loop *l, int listen_fd,
				       const struct http_server_spec *spec,
				       struct http_server **ret);
/* Serves a connection that came another way. Takes stream over. */
void http_server_adopt(struct http_server *s, struct stream *stream, const char *peer);
/* Idle connections are closed at once, the others after their current request. */
void http_server_stop_accepting(struct http_server *s);
size_t http_server_conns(const struct http_server *s);
void http_server_free(
	struct http_server *s); /* cuts all connections, calling ended() for each request */
AUTOPTR(http_server)

/* Keeps r's memory, not its connection. */
struct http_request *http_request_ref(struct http_request *r);
void http_request_unref(struct http_request *r);
AUTOREF(http_request)

/* The request. Strings live as long as it does. */
const char *http_request_method(const struct http_request *r);
/* As sent, but "http://host/path" has become "/path", and Host tells the host. */
const char *http_request_target(const struct http_request *r);
const char *http_request_path(const struct http_request *r);  /* as sent, before '?' */
const char *http_request_query(const struct http_request *r); /* after '?', "" when none */
struct http_headers *http_request_headers(struct http_request *r);
const char *http_request_header(struct http_request *r, const char *name);
const char *http_request_peer(const struct http_request *r); /* "1.2.3.4:567" */
int64_t http_request_body_len(const struct http_request *r); /* < 0: chunked */
/* To ask tls/ about the peer's certificate; NULL when r is dead. */
struct stream *http_request_conn_stream(struct http_request *r);
struct loop *http_request_loop(struct http_request *r);
/*
 * The handler's own data, and who is told when the peer left or the answer is sent (once, then r is
 * dead; not after http_respond_upgrade()). A peer that half-closes amid a request counts as gone.
 */
void http_request_set_owner(struct http_request *r, void *owner, void (*ended)(void *owner));

/* body(owner, r, data, len): all of it, at once. Over max_body: answered 413 by the server. */
void http_request_buffer(struct http_request *r, size_t max_body,
			 void (*body)(void *owner, struct http_request *r, const char *data,
				      size_t len));
struct http_body_events {
	void (*data)(void *owner, struct http_request *r, const char *data, size_t len);
	void (*end)(void *owner, struct http_request *r);
};
void http_request_stream(struct http_request *r, const struct http_body_events *ev);
void http_request_pause(struct http_request *r, bool paused); /* back-pressure on a streamed body */

/*
 * The answer, whole: Content-Length is set. h may be NULL; its Connection, Content-Length,
 * Transfer-Encoding and headers with control characters are left out, but "Connection: close" is
 * obeyed. HEAD requests get no body.
 */
void http_respond(struct http_request *r, int status, const struct http_headers *h,
		  const char *type, const void *body, size_t len);
void http_respond_text(struct http_request *r, int status,
		       const char *text); /* a line of plain text */
/* The answer in pieces: length < 0 is chunked. What exceeds length is dropped; an end short of it
 * is an abort. */
void http_respond_start(struct http_request *r, int status, const struct http_headers *h,
			int64_t length);
void http_respond_write(struct http_request *r, const void *p, size_t len);
bool http_respond_full(const struct http_request *r); /* stop producing until drained() */
void http_respond_on_drain(struct http_request *r, void (*drained)(void *owner));
void http_respond_end(struct http_request *r);
void http_respond_abort(
	struct http_request *r); /* cut: the peer must notice that the body is torn */
/*
 * Sends 101 with h and gives up the connection: the caller owns *ret from now on (conn_set_events()
 * it at once) and r is dead: ended() is not called. Bytes that followed the head are in conn_in()
 * and come by data() too. h brings Connection and Upgrade. *ret is NULL when the peer has left.
 */
void http_respond_upgrade(struct http_request *r, const struct http_headers *h, struct conn **ret);
