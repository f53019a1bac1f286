/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/list.h"
#include "client/access.h"
#include "server/streams/streams.h"

struct call;
struct conn;
struct http_headers;
struct http_request;
struct json_doc;

/* target.c: the Pod and container of a call, and the streams that outlive their request. */
enum pod_use {
	POD_USE_LOG,
	POD_USE_EXEC,
	POD_USE_ATTACH,
	POD_USE_FORWARD,
	POD_USE_MAX_,
};
/*
 * The strings of *ret live as long as the call. ERR_NOT_FOUND: no such Pod; ERR_MALFORMED: a
 * container that it does not have, several to choose from, or a Pod that is over;
 * ERR_UNAVAILABLE: no node.
 */
must_use struct err *pod_target(const struct streams *ps, struct call *c, enum pod_use use,
				struct access_target *ret);

/* The uid of the call's Pod, or of what controls it, borrowed; NULL: there is no such Pod. */
const char *pod_owner(const struct streams *ps, const struct call *c);

/* wake.c; streams_wake() is in streams.h. pod lives as long as the call. */
bool streams_wake_pod(struct streams *ps, struct call *c, const char *pod, streams_handler go);
void streams_wake_done(struct streams *ps); /* drops those that wait */

/* Whether the container's spec has a flag: "stdin", "tty". */
bool pod_container_has(const struct streams *ps, const struct call *c, const char *name,
		       const char *flag);

struct pod_stream {
	struct list link;
	struct streams *streams; /* NULL: not in the list */
	struct call *call;       /* who opened it, and what; a reference */
	/* Ends what was started, and the connection; leaves the list. */
	void (*cut)(struct pod_stream *p);
	/* Ends what was started and tells the client why, who may not go on; it leaves the list
	 * when the client has been told. NULL: it is cut. */
	void (*revoke)(struct pod_stream *p);
};
/* ERR_EXHAUSTED: too many are open. A user may have as many as are still free. */
must_use struct err *pod_stream_add(struct pod_stream *p, struct streams *ps, struct call *c);
void pod_stream_del(struct pod_stream *p);

/*
 * channels.c: the five channels of exec and attach over either transport, messages of a
 * WebSocket or streams of SPDY. Numbers are those of the WebSocket protocols.
 */
enum channel {
	CHANNEL_STDIN,
	CHANNEL_STDOUT,
	CHANNEL_STDERR,
	CHANNEL_ERROR,
	CHANNEL_RESIZE,
	CHANNEL_MAX_,
};

enum transport {
	TRANSPORT_WEBSOCKET,
	TRANSPORT_SPDY,
	TRANSPORT_MAX_,
};

/* What the client offered and we accepted. */
struct upgrade {
	enum transport transport;
	const char *protocol; /* NULL: the client named none */
	unsigned version;     /* of the channel protocol, 1 to 5 */
};
/* A row of what we speak, in our order of preference; the list ends with a NULL name. */
struct protocol {
	const char *name;
	unsigned version;
};
/* ERR_MALFORMED: it asks for no upgrade, or for none of these. NULL spdy or ws: not spoken. */
must_use struct err *upgrade_read(struct call *c, const struct protocol *ws,
				  const struct protocol *spdy, struct upgrade *ret);
/* Answers 101. NULL: refused or gone, which was answered. The call has no request afterwards. */
struct conn *upgrade_spdy(struct call *c, const struct upgrade *u);
struct websocket *upgrade_websocket(struct call *c, const struct upgrade *u, size_t max_message);

struct channels;
struct channels_events {
	/* Every channel is there (SPDY alone; with a WebSocket they are from the start). Not to be
	 * freed here, nor in ended(). */
	void (*opened)(void *arg);
	void (*data)(void *arg, enum channel n, const char *data, size_t len); /* stdin, resize */
	void (*ended)(void *arg, enum channel n); /* the client will send no more on it */
	void (*drained)(void *arg);
	void (*closed)(
		void *arg); /* the peer left, or the session is complete; free it now or later */
};
must_use struct err *channels_offered(struct call *c, struct upgrade *ret);
struct channels_spec {
	struct loop *loop;
	unsigned wanted; /* B(CHANNEL_…) besides the error channel */
	const struct channels_events *ev;
	void *arg;
};
/* Answers the call. NULL as upgrade_spdy(). */
struct channels *channels_accept(struct call *c, const struct upgrade *u,
				 const struct channels_spec *spec);
void channels_write(struct channels *ch, enum channel n, const void *p, size_t len);
bool channels_full(const struct channels *ch);
void channels_pause(struct channels *ch, bool paused);
/* The outcome: a Status (borrowed). Then closed(), when the client has read everything. */
void channels_finish(struct channels *ch, const struct json_doc *status);
void channels_free(struct channels *ch);

/* Any other protocol: h says which, and what the other side answered. *ret is NULL as above. */
void upgrade_plain(struct call *c, const struct http_headers *h, struct conn **ret);

/* pipe.c: a port of a Pod as the descriptor *ret_fd, which is the caller's. ps has an access. */
struct pod_pipe;
must_use struct err *pod_pipe_open(const struct streams *ps, const struct access_dial_spec *spec,
				   struct pod_pipe **ret, int *ret_fd);
const struct err *pod_pipe_error(const struct pod_pipe *p); /* NULL: it ended well, or not yet */
void pod_pipe_free(struct pod_pipe *p);                     /* cuts it */

/* forward_channels.c: port-forward in channels of a WebSocket. Answers the call. */
void forward_channels(struct streams *ps, struct call *c, const struct access_target *to,
		      const struct upgrade *u);
