/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "client/client.h"
#include "client/http.h"

struct buf;
struct json;
struct loop;
struct map;

/*
 * What the files of the HTTPS transport share: exchanges (transport.c), caches (cache.c) and
 * informers (informer.c). The meanings of refusals (status.c) are in http.h.
 */

/* "/apis/GROUP/VERSION[/namespaces/NS]/PLURAL[/NAME][/SUB]", malloc'd. */
char *http_path(const struct client_ref *to);
/* An object as an API server sent it; takes doc over. managedFields are dropped: nobody here reads
 * them, and they make up half of an object. */
struct object *http_object(const struct kind *k, struct json_doc *doc);

/* Exchanges: requests over libcurl, at most 64 at once, not counting streams. */
struct transport;
struct exchange;

struct reply {
	int status;
	const char *body; /* borrowed; NUL follows */
	size_t len;
};

struct exchange_spec {
	const char *method;
	const char *path;  /* with the query */
	const char *label; /* what it is counted as and what errors call it */
	char *body;        /* taken over; NULL: none */
	size_t body_len;
	const char *type; /* NULL: application/json */
	uint64_t timeout_ms;
	bool urgent; /* does not queue behind others */
	/* For a stream, on a connection of its own: the bytes of a 200 answer as they come; eat
	 * what is used. NULL: the whole body is passed to done(). */
	void (*data)(void *arg, struct buf *in);
	/* Called once, from the loop, unless the exchange is cancelled; it is freed afterwards. e
	 * becomes done()'s own and means that there was no answer; r is NULL then. */
	void (*done)(void *arg, struct err *e, const struct reply *r);
	void *arg;
};

must_use struct err *transport_new(struct loop *l, const struct kubeconfig *k,
				   const char *user_agent, struct transport **ret);
void transport_free(struct transport *t); /* running exchanges end without done() */
AUTOPTR(transport)
struct loop *transport_loop(struct transport *t);
const struct map *transport_counts(const struct transport *t); /* label → uint64_t */
struct exchange *exchange_start(struct transport *t, const struct exchange_spec *spec);
void exchange_cancel(struct exchange *x); /* also from its own callbacks */

/*
 * A cache: the objects of one kind (in one namespace, with some labels) as last seen, by key
 * "ns/name". Only newer states get in, wherever they come from; what our own delete removed stays
 * removed. tell() is called for every change.
 */
struct cache;
struct cache *cache_new(void (*tell)(void *arg, struct object *was, struct object *now), void *arg);
void cache_free(struct cache *c);
AUTOPTR(cache)
struct object *cache_get(struct cache *c, const char *ns, const char *name); /* borrowed */
/* False when fn stopped it. */
bool cache_each(struct cache *c, const char *ns, bool (*fn)(void *arg, struct object *o),
		void *arg);
void cache_put(struct cache *c, struct object *o); /* unless the cached one is as new */
/* A watch's DELETED: o is the last state, at the revision of its deletion. */
void cache_del(struct cache *c, struct object *o);
/* Our own delete left nothing of this uid: any later news of it is old. */
void cache_bury(struct cache *c, const char *ns, const char *name, const char *uid);
/* A fresh list: begin, every item, end. What was not in it and is not newer is gone. */
void cache_list_begin(struct cache *c);
void cache_list_item(struct cache *c, struct object *o);
void cache_list_end(struct cache *c, uint64_t list_rev);
size_t cache_len(const struct cache *c);

/* An informer: a cache that follows list and watch, and the listeners told of its changes. */
struct informer;
struct listener;
struct informer *informer_new(struct transport *t, const struct client_watch_spec *spec);
void informer_free(struct informer *i);
AUTOPTR(informer)
bool informer_is(const struct informer *i, const struct client_watch_spec *spec);
const struct kind *informer_kind(const struct informer *i);
bool informer_covers_all(const struct informer *i); /* no namespace, no selector */
struct cache *informer_cache(struct informer *i);
struct listener *informer_listen(struct informer *i, const struct client_watch_events *ev,
				 void *arg);
/* True: that was the last one. Safe inside a listener's own callback. */
bool informer_unlisten(struct informer *i, struct listener *l);
bool informer_busy(const struct informer *i); /* inside a callback: free it later */
/* The answer to a write of ours: the cache holds it (or forgets it) from now on. */
void informer_wrote(struct informer *i, struct object *o);
void informer_deleted(struct informer *i, const char *ns, const char *name, const char *uid);

/* The transport: informers, and writes under way. */
enum {
	MAX_INFORMERS = 64,
};
struct http_client {
	struct transport *t;
	struct informer *informers[MAX_INFORMERS];
	size_t n;
	struct list ops; /* of http_write.c; under way */
};
/* For struct client_ops; ctx is a struct http_client. */
void http_create(void *ctx, const struct client_ref *to, struct json_doc *obj,
		 struct client_write *w);
void http_update(void *ctx, const struct client_ref *to, struct json_doc *obj,
		 struct client_write *w);
void http_patch(void *ctx, const struct client_ref *to, enum patch_type how, struct json_doc *patch,
		struct client_write *w);
void http_delete(void *ctx, const struct client_ref *to, const struct client_delete_spec *spec,
		 struct client_write *w);
void http_writes_forget(struct http_client *h); /* they end without done() */
