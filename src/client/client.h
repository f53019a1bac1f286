/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/patch.h"
#include "base/err.h"

struct kinds;
struct loop;

/*
 * How controllers, node and router reach objects: the same calls whether the objects are in this
 * process's store or behind a kube-apiserver's HTTPS. One loop's thread.
 *
 * Reads come from a cache that follows a watch: the store itself in one process, an informer over
 * HTTP. A kind must be watched before it can be read. Writes end in done(), which may come before
 * the call returns (in process it always does). Over HTTP the cache already holds the outcome of a
 * write when its done() is called, so a pass that is woken by done() sees its own writes.
 */
struct client;

/* e (NULL: fine) becomes the callee's; obj is borrowed and NULL on error (and for a delete that
 * left nothing). */
typedef void (*client_done)(void *arg, struct err *e, struct object *obj);

struct client_watch_spec {
	const struct kind *kind;
	const char *ns;             /* NULL: all */
	const char *label_selector; /* NULL: all */
};
struct client_watch_events {
	/*
	 * was NULL: new; now NULL: deleted (was is the last state). Comes from within the write in
	 * one process, so it may only note the change and queue a key: no writes from here.
	 */
	void (*changed)(void *arg, struct object *was, struct object *now);
	void (*synced)(void *arg); /* all that existed was told; may be NULL; may come from within
				      client_watch() */
};

struct client_delete_spec {
	const char *uid;         /* precondition, NULL: none */
	uint64_t rev;            /* precondition, 0: none */
	const char *propagation; /* "Background", "Foreground", "Orphan"; NULL: default */
	int64_t grace_s;         /* < 0: default */
};

struct client_ops {
	struct object *(*get)(void *ctx, const struct kind *k, const char *ns, const char *name);
	void (*each)(void *ctx, const struct kind *k, const char *ns,
		     bool (*fn)(void *arg, struct object *o), void *arg);
	void *(*watch)(void *ctx, const struct client_watch_spec *spec,
		       const struct client_watch_events *ev, void *arg);
	void (*watch_free)(void *ctx, void *watch);
	void (*fetch)(void *ctx, const struct kind *k, const char *ns, const char *name,
		      client_done done, void *arg);
	void (*create)(void *ctx, const struct kind *k, const char *ns, struct json_doc *obj,
		       client_done done, void *arg);
	void (*update)(void *ctx, const struct kind *k, struct json_doc *obj, const char *sub,
		       client_done done, void *arg);
	void (*patch)(void *ctx, const struct kind *k, const char *ns, const char *name,
		      const char *sub, enum patch_type how, struct json_doc *patch,
		      client_done done, void *arg);
	void (*delete_)(void *ctx, const struct kind *k, const char *ns, const char *name,
			const struct client_delete_spec *spec, client_done done, void *arg);
	void (*sync)(void *ctx, void (*fn)(void *arg), void *arg);
	void (*free)(void *ctx);
};
struct client *client_new(const struct client_ops *ops, void *ctx, struct kinds *kinds);
/* Not from its own callbacks. Over HTTP, writes still under way end without done(). */
void client_free(struct client *c);
AUTOPTR(client)
/* The registry that the client's kinds come from; it outlives the client. */
struct kinds *client_kinds(struct client *c);
/* For a transport's own extras: ctx when the client runs over these ops, else NULL. */
void *client_transport(struct client *c, const struct client_ops *ops);

/* From the cache: a new reference, or NULL. ns is NULL or "" for kinds without one. */
struct object *client_get(struct client *c, const struct kind *k, const char *ns, const char *name);
/* Every cached object of the kind (in ns unless NULL), borrowed, until fn answers false. No writes
 * from fn. */
void client_each(struct client *c, const struct kind *k, const char *ns,
		 bool (*fn)(void *arg, struct object *o), void *arg);

struct client_watch;
struct client_watch *client_watch(struct client *c, const struct client_watch_spec *spec,
				  const struct client_watch_events *ev, void *arg);
void client_watch_free(struct client_watch *w);

/* From the source, past the cache. ERR_NOT_FOUND. */
void client_fetch(struct client *c, const struct kind *k, const char *ns, const char *name,
		  client_done done, void *arg);
/* The doc is taken over in all of these. generateName works. ERR_EXISTS, ERR_INVALID, ERR_FORBIDDEN
 * ... */
void client_create(struct client *c, const struct kind *k, const char *ns, struct json_doc *obj,
		   client_done done, void *arg);
/* Guarded by metadata.resourceVersion in obj when it is there: ERR_CONFLICT. sub: NULL or "status".
 */
void client_update(struct client *c, const struct kind *k, struct json_doc *obj, const char *sub,
		   client_done done, void *arg);
/* A metadata.resourceVersion or uid in a merge patch is a precondition: ERR_CONFLICT. */
void client_patch(struct client *c, const struct kind *k, const char *ns, const char *name,
		  const char *sub, enum patch_type how, struct json_doc *patch, client_done done,
		  void *arg);
void client_delete(struct client *c, const struct kind *k, const char *ns, const char *name,
		   const struct client_delete_spec *spec, client_done done,
		   void *arg); /* spec NULL: defaults */
/* fn once all writes that ended before are durable. For those who destroy what an object stood for.
 */
void client_sync(struct client *c, void (*fn)(void *arg), void *arg);
