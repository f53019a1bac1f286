/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/patch.h"
#include "base/err.h"
#include "base/list.h"

struct kinds;
struct loop;

/*
 * How controllers, node and router reach objects: the same calls whether the objects are in this
 * process's store or behind a kube-apiserver's HTTPS. A client belongs to one loop and its thread.
 *
 * Reads come from a cache that follows a watch: the store itself in one process, an informer over
 * HTTP. A kind must be watched before it can be read. By the time a write's done() is called, the
 * cache holds its outcome, so a pass that done() wakes up sees its own writes.
 */
struct client;

/* Which object; for a create, in which namespace. */
struct client_ref {
	const struct kind *kind;
	const char *ns, *name; /* ns is NULL or "" for kinds without namespaces */
	const char *sub;       /* NULL, "status", "finalize", or one of these */
};

/*
 * Subs that no path has, for merge patches alone. An API server takes the status of an object and
 * the rest of it in two requests, a store in this process in one write.
 *
 * The status and the rest: one write in this process. Over HTTPS the status comes first, with the
 * preconditions of the patch, then the rest, which depends on the uid alone; the write ends with
 * the second, or with the first that fails.
 */
#define CLIENT_WHOLE "*"
/* The rest, and the status where it costs no second request: for a status that somebody else keeps
 * right in any case. */
#define CLIENT_AT_ONCE "+"

/*
 * A write or sync under way, embedded in whoever waits for its end. Everything but done is
 * zero before the first use. It stays in place until done() has been called or client_cancel() has;
 * after that, and from within done(), it may be freed or used for the next call.
 *
 * done() may be called before the call that started it returns; in process it always is, except for
 * a sync. e (NULL: it worked) becomes done()'s own; obj is borrowed, and NULL on error, after a
 * sync, and after a delete that left nothing.
 *
 * Wherever a struct client_write is expected, NULL means that nobody waits. An error that nobody
 * waits for, because of that or after a cancel, is logged at debug and dropped.
 */
struct client_write {
	void (*done)(struct client_write *w, struct err *e, struct object *obj);
	struct list on; /* client/'s own: of the waiter of a request under way */
};

/* done() will not be called; the write itself may still take effect. Fine when nothing is under way
 * and after client_free(). */
void client_cancel(struct client_write *w);

struct client_watch_spec {
	const struct kind *kind;
	const char *ns;             /* NULL: all */
	const char *label_selector; /* NULL: all */
};
struct client_watch_events {
	/*
	 * was NULL: new; now NULL: deleted (was is the last state). In process this is called from
	 * within the write, so it may only note the change and queue a key: no writes from here.
	 */
	void (*changed)(void *arg, struct object *was, struct object *now);
	/* Everything that existed has been reported. May be NULL; may be called from within
	 * client_watch(). */
	void (*synced)(void *arg);
};

struct client_delete_spec {
	const char *uid;         /* precondition, NULL: none */
	uint64_t rev;            /* precondition, 0: none */
	const char *propagation; /* "Background", "Foreground", "Orphan"; NULL: default */
	int64_t grace_s;         /* < 0: default */
};

/* A transport. Each function has the contract of the client_ function of its name; delete_ always
 * gets a spec. */
struct client_ops {
	struct object *(*get)(void *ctx, const struct kind *k, const char *ns, const char *name);
	void (*each)(void *ctx, const struct kind *k, const char *ns,
		     bool (*fn)(void *arg, struct object *o), void *arg);
	void *(*watch)(void *ctx, const struct client_watch_spec *spec,
		       const struct client_watch_events *ev, void *arg);
	void (*watch_free)(void *ctx, void *watch);
	void (*create)(void *ctx, const struct client_ref *to, struct json_doc *obj,
		       struct client_write *w);
	void (*update)(void *ctx, const struct client_ref *to, struct json_doc *obj,
		       struct client_write *w);
	void (*patch)(void *ctx, const struct client_ref *to, enum patch_type how,
		      struct json_doc *patch, struct client_write *w);
	void (*delete_)(void *ctx, const struct client_ref *to,
			const struct client_delete_spec *spec, struct client_write *w);
	void (*sync)(void *ctx, struct client_write *w);
	void (*free)(void *ctx); /* ends every waiter that is left with client_waiter_done() */
};
struct client *client_new(const struct client_ops *ops, void *ctx, struct kinds *kinds);
/* Not from its own callbacks. Writes that are still under way end without done(). */
void client_free(struct client *c);
AUTOPTR(client)
/* The registry that the client's kinds come from; it outlives the client. */
struct kinds *client_kinds(struct client *c);
/* For a transport's own extras: ctx when the client runs over these ops, else NULL. */
void *client_transport(struct client *c, const struct client_ops *ops);

/*
 * For transports: who waits for the end of a request. Each request under way has one, from before
 * it has any effect; it does not move. client_cancel() needs no help from the transport.
 */
struct client_waiter {
	struct list writes; /* client_write.on: one, or none when nobody waits (any more) */
};
void client_waiter_init(struct client_waiter *at, struct client_write *w);
/* Calls done(), which may free anything of its own. e is taken over, obj is borrowed. */
void client_waiter_end(struct client_waiter *at, struct err *e, struct object *obj);
void client_waiter_done(struct client_waiter *at); /* ends it without done() */

/* From the cache: a new reference, or NULL. ns is NULL or "" for kinds without namespaces. */
struct object *client_get(struct client *c, const struct kind *k, const char *ns, const char *name);
/* Every cached object of the kind (in ns unless NULL), borrowed, until fn returns false. No writes
 * from fn. */
void client_each(struct client *c, const struct kind *k, const char *ns,
		 bool (*fn)(void *arg, struct object *o), void *arg);

struct client_watch;
struct client_watch *client_watch(struct client *c, const struct client_watch_spec *spec,
				  const struct client_watch_events *ev, void *arg);
void client_watch_free(struct client_watch *w);

/* Documents are taken over in all of these; nothing in the ref may point into them. A document
 * without apiVersion or kind gets those of the ref. generateName
 * works. ERR_EXISTS, ERR_INVALID, ERR_FORBIDDEN ... */
void client_create(struct client *c, const struct client_ref *to, struct json_doc *obj,
		   struct client_write *w);
/* Guarded by metadata.resourceVersion in obj when it is there: ERR_CONFLICT. CLIENT_WHOLE and
 * CLIENT_AT_ONCE are refused: ERR_INVALID. */
void client_update(struct client *c, const struct client_ref *to, struct json_doc *obj,
		   struct client_write *w);
/* A metadata.resourceVersion or uid in a merge patch is a precondition: ERR_CONFLICT. */
void client_patch(struct client *c, const struct client_ref *to, enum patch_type how,
		  struct json_doc *patch, struct client_write *w);
/* spec NULL: defaults. */
void client_delete(struct client *c, const struct client_ref *to,
		   const struct client_delete_spec *spec, struct client_write *w);
/* Ends, without error, once all writes that ended before are durable. For callers that are about to
 * destroy what an object stood for. */
void client_sync(struct client *c, struct client_write *w);
