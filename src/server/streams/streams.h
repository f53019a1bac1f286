/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

struct access;
struct call;
struct err;
struct http_pool;
struct tls_ctx;
struct loop;
struct objects;

/* Streams into Pods: exec, attach, portforward, log. */
struct streams {
	const struct objects *objects;
	struct loop *loop;
	struct access
		*access;  /* how they reach Pods; NULL: there is no node, and they answer 503 */
	struct list open; /* struct pod_stream */
	size_t n_open;
	/* See server_set_wake(). */
	bool (*wake)(void *arg, const char *ns, const char *pod);
	void *wake_arg;
	/* ERR_FORBIDDEN: not for this user, though they may make the call. NULL: for everybody. */
	struct err *(*may_wake)(void *arg, const struct call *c, const char *pod);
	void *may_wake_arg;
	struct list waking; /* calls that wait for that: struct waking */
	size_t n_waking;
	/* Of the proxy, made when it is needed. */
	struct http_pool *proxy_pool;
	struct tls_ctx *proxy_tls;
};
void streams_init(struct streams *ps, const struct objects *objects, struct loop *l);
void streams_done(struct streams *ps); /* cuts every stream */
/* Cuts the streams that use the previous one. */
void streams_set_access(struct streams *ps, struct access *a);
void streams_cut(struct streams *ps); /* every stream */
/* Those whose users may not open them any more. */
void streams_recheck(struct streams *ps, bool (*may)(void *arg, const struct call *c), void *arg);

/*
 * kubectl reads a Pod before it goes into it, and says in a header what it is about to do: the
 * subresource that it will ask for, or NULL. If the Pod's Sandbox sleeps, streams_wake() has the
 * call wait until it is awake, and go() answers it then; false: there is nothing to wait for.
 */
const char *streams_announced(const struct call *c);
typedef void (*streams_handler)(struct streams *ps, struct call *c);
bool streams_wake(struct streams *ps, struct call *c, streams_handler go);

/* Answer a call. All but the log deal with the whole connection. */
void streams_log(struct streams *ps, struct call *c);
void streams_exec(struct streams *ps, struct call *c);
void streams_attach(struct streams *ps, struct call *c);
void streams_forward(struct streams *ps, struct call *c);
void streams_proxy(struct streams *ps, struct call *c);
