/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/decode.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/options.h"
#include "api/patch.h"
#include "api/registry.h"
#include "api/schema.h"
#include "api/table.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http.h"
#include "server/server.h"
#include "store/store.h"
#include "tls/tls.h"

struct call;
struct client;
struct http_request;
struct http_server;
struct tokens;

enum {
	BODY_MAX = DECODE_LEN_MAX,
	WATCHES_PER_USER = 1000,
};

/* keys.c: what data_dir holds besides the store. */
struct keys {
	struct tls_pair ca, server, admin;
	char *sa_key; /* signs service-account tokens */
};
must_use struct err *keys_load(struct keys *k, const char *data_dir, const char *listen,
			       const char *const *sans);
must_use struct err *keys_write_kubeconfig(const struct keys *k, const char *data_dir,
					   const char *address);
void keys_done(struct keys *k);

/* lock.c: one server a data directory. */
must_use struct err *lock_take(const char *data_dir, const char *address, int *ret_fd);
void lock_tell(int fd, const char *address); /* the address, once it is known */

struct server_counts {
	uint64_t requests, failures, writes, watches_started;
	size_t watches;
};

/* The built-in kinds that the server itself works with. */
struct server_kinds {
	const struct kind *namespace, *service_account, *pod, *event;
};

struct server {
	struct loop *loop;
	struct kinds *registry;
	struct kinds_watch registry_watch;
	struct server_kinds kinds;
	char *data_dir, *listen, *address, *node_name;
	int lock_fd;
	struct keys keys;
	struct store *store;
	struct tls_ctx *tls;
	struct http_server *http;
	struct access *access; /* NULL: none yet */
	struct tokens *tokens;
	struct list locals;   /* struct local_watch: watches of this process */
	struct list watchers; /* struct watcher: watches over HTTP */
	struct list streams;  /* struct pod_stream: connections into Pods */
	size_t n_streams;
	struct list waiters;      /* struct waiter: POSTs with wait=Ready */
	struct map *user_watches; /* user → number of watches over HTTP */
	struct map *documents;    /* path → struct bytes: OpenAPI, made once per … */
	uint64_t documents_of;    /* … kinds_version() */
	struct server_counts counts;
	bool ready;
};

/* Who asks. */
struct user {
	const char *name, *uid;
	const char *const *groups; /* NULL-terminated */
	const char *sa_ns;         /* the namespace of a service account, else NULL */
};
extern const struct user user_anonymous;
bool user_in(const struct user *u, const char *group);

/* route.c: what a request is about, read from method and path alone. */
enum verb {
	VERB_GET,
	VERB_LIST,
	VERB_WATCH,
	VERB_CREATE,
	VERB_UPDATE,
	VERB_PATCH,
	VERB_DELETE,
	VERB_DELETE_COLLECTION,
	VERB_MAX_,
};
const char *verb_name(enum verb v); /* as authorisation and discovery spell it */

struct route {
	bool resource; /* an object or a collection; otherwise a page of the server itself */
	enum verb verb;
	const char *group, *version, *plural; /* as asked; perhaps not served */
	const char *ns, *name, *sub;          /* "" where there is none */
	const struct kind *kind;              /* NULL: not served */
	const char *path;                     /* decoded, without a slash at the end */
};
struct err *route_read(struct call *c, struct route *ret);

/* Subresources: what they are in discovery and who handles them. A kind says which it has. */
struct subresource {
	const char *name;
	const char *group, *version, *kind; /* of its representation; NULL: those of the object */
	unsigned verbs;                     /* B(VERB_…) */
	/* True: called with the head alone; the handler deals with body and answer (upgrades). */
	bool raw;
	void (*handle)(struct call *c);
};
extern const struct subresource subresources[]; /* ends with a NULL name */
const struct subresource *subresource_find(const struct kind *k, const char *name);

/* call.c: one API request, from its head to its answer. */
struct call {
	unsigned refs;
	struct server *s;
	struct http_request *req; /* NULL once the peer has left or the answer is complete */
	struct arena *arena;      /* of this request */
	struct user user;
	struct route route;
	const struct kind *kind; /* a reference to route.kind, which may go while this waits */
	const char *method, *query;
	const char *body;
	size_t body_len;
	struct causes causes;        /* details of an ERR_INVALID */
	struct http_headers headers; /* of the answer: warnings, an ETag */
	usec started;
};
struct call *call_new(struct server *s, struct http_request *req);
struct call *call_ref(struct call *c);
void call_unref(struct call *c);
AUTOREF(call)
const char *call_query(struct call *c, const char *name); /* decoded, in the arena; NULL: absent */
bool call_query_true(struct call *c, const char *name);   /* there, and neither 0 nor false */
void call_warn(void *arg, const char *text);              /* a Warning header; arg is the call */
/* Answers. All take over what they are given. */
void call_fail(struct call *c, struct err *e);
void call_reply_text(struct call *c, int status, const char *type, struct buf *text);
void call_reply_json(struct call *c, int status, struct json_doc *d);
void call_reply_bytes(struct call *c, int status, struct bytes *text);
/* What is derived from the kinds: it carries their version as an ETag, and is not sent again to a
 * client that has it. Here the text stays the caller's. */
void call_reply_document(struct call *c, const char *type, const char *text);
/* An object or Status, once everything written until now is durable. */
void call_reply_durably(struct call *c, int status, struct bytes *text);
/* The body for the decode stage, by Content-Type. ERR_MEDIA_TYPE: it is none that is read. */
must_use struct err *call_body(struct call *c, struct decode_input *ret);
/* Parameters and body as the options of the request. */
struct options_input call_options(struct call *c);
/* What options_read() said, e (may be NULL): the answer's details are about those options. */
must_use struct err *call_options_end(struct call *c, enum options_of of, struct err *e);

/* status.c: errors as Kubernetes tells them. The only place that knows numbers. */
enum {
	STATUS_OK = 200,
	STATUS_CREATED = 201,
	STATUS_NOT_MODIFIED = 304,
};
int status_of(enum err_code code);
struct status_about {
	const struct kind *kind; /* NULL: no details */
	const char *name;
	const struct causes *causes;
};
struct json_doc *status_failure(const struct err *e, const struct status_about *about);
struct json_doc *status_success(const struct object *gone);
must_use struct err *err_absent(const struct kind *k, const char *name)
	__attribute__((returns_nonnull));
must_use struct err *err_present(const struct kind *k, const char *name);
must_use struct err *err_changed(const struct kind *k, const char *name, const char *why);
must_use struct err *err_forbidden(const struct kind *k, const char *name, const char *why);
must_use struct err *err_invalid(const struct kind *k, const char *name, const struct causes *c);

/* auth.c, tokens.c, authz.c */
must_use struct err *authenticate(struct call *c);
must_use struct err *authorise(const struct call *c);
struct tokens *tokens_new(struct server *s);
void tokens_free(struct tokens *t);
must_use struct err *token_check(struct call *c, const char *token, struct user *ret);
void handle_token(struct call *c); /* POST serviceaccounts/NAME/token */

/* object keys in the store: pods/NS/NAME, sandboxes.agents.x-k8s.io/NS/NAME, nodes/NAME */
void key_prefix(struct buf *b, const struct kind *k, const char *ns); /* ns "" or NULL: all */
char *key_of(const struct kind *k, const char *ns, const char *name); /* malloc'd */
const struct kind *key_kind(const struct kinds *ks, const char *key); /* NULL: not served */
/* The decoded form, a new reference. NULL: its kind is not served (any more). */
struct object *entry_object(const struct server *s, struct store_entry *e);
struct object *find_object(const struct server *s, const struct kind *k, const char *ns,
			   const char *name); /* borrowed until the next write; NULL: none */
/* For store_open(); arg is the server. A value whose kind is not served stays without a tag: nobody
 * sees it, and nobody touches it. */
struct err *decode_value(void *arg, const char *key, struct bytes *value, uint64_t rev,
			 void **ret_tag);
/* Warns of what the store holds of kinds that are not served. */
void unknown_report(const struct server *s);
/* A kind came or went: its objects are decoded, or left alone from now on. */
void kind_changed(void *arg, const struct kind *k, bool added);

/* admit.c, admit_meta.c, remove.c: an operation on one object, from HTTP or from this process. */
struct op {
	struct server *s;
	const char *user;
	const struct kind *kind;     /* as asked for, perhaps not the stored version */
	const char *ns, *name, *sub; /* "" where there is none */
	bool dry_run;
	bool external; /* over HTTP: conditions that a real API server makes */
	enum strictness unknown;
	void (*warn)(void *arg, const char *text);
	void *warn_arg;

	struct causes causes;  /* of an ERR_INVALID */
	const char *absent_ns; /* the ERR_NOT_FOUND is about this namespace */
	struct object *result; /* the state after, as stored; a reference */
	bool removed;          /* the object is gone */
};
void op_done(struct op *op);
#define autoop __attribute__((cleanup(op_done))) struct op
/* The object that in holds, as op wants it read: the way to a doc for the next two. */
must_use struct err *op_decode(struct op *op, const struct decode_input *in, struct json_doc **ret);
must_use struct err *op_create(struct op *op, struct json_doc *doc); /* takes doc over */
must_use struct err *op_update(struct op *op, struct json_doc *doc); /* takes doc over */
/* reports (may be NULL) are what was odd about the patch itself. */
must_use struct err *op_patch(struct op *op, enum patch_type how, const struct json *patch,
			      const struct causes *reports);
must_use struct err *op_delete(struct op *op, const struct delete_options *o);
/* Removes it whatever finalizers it has: for the end of a namespace. */
must_use struct err *op_remove(struct op *op);
/* Within admit: stores doc (taken over) over old, or ends the object if nothing holds it any more.
 */
must_use struct err *op_store(struct op *op, struct object *old, struct json_doc *doc);
bool has_contents(const struct kind *k, const struct json *obj);
void op_audit(const struct op *op, const char *verb, const struct err *e);
/* admit_meta.c */
must_use struct err *meta_prepare_create(struct op *op, struct json_doc *d);
must_use struct err *meta_prepare_update(struct op *op, struct json_doc *d, struct object *old);

/* render.c: how an object is shown. */
enum shape {
	SHAPE_OBJECT,
	SHAPE_TABLE,
	SHAPE_PARTIAL,
	SHAPE_MAX_,
};
struct render {
	const struct kind *kind; /* the version to show */
	enum shape shape;
	enum table_include include;
	const char *version; /* of meta.k8s.io */
};
must_use struct err *render_of(struct call *c, struct render *ret); /* by Accept */
must_use struct err *render_add(const struct render *r, struct object *o, struct buf *out);
must_use struct err *render_text(const struct render *r, struct object *o, struct bytes **ret);
/* A row of the Table at d's root. */
must_use struct err *render_list_table(const struct render *r, struct object *o,
				       struct json_doc *d);
/* media types of an Accept header, by preference; fn answers true to choose one */
bool accept_each(const char *accept, bool (*fn)(void *arg, struct span type, struct span params),
		 void *arg);
bool accept_param(struct span params, const char *name, const char *value);

/* filter.c: what a list or watch selects. */
struct selector;
struct filter {
	struct selector *labels, *fields; /* owned; NULL: all */
	struct buf prefix;                /* of keys */
	bool exact;                       /* prefix is one whole key */
};
must_use struct err *filter_init(struct filter *f, struct call *c, const struct list_options *o);
bool filter_matches(const struct filter *f, const struct object *o);
void filter_done(struct filter *f);

/* Handlers: each answers its call. */
void handle_get(struct call *c);
void handle_list(struct call *c);
void handle_watch(struct call *c);
void handle_create(struct call *c);
void handle_update(struct call *c);
void handle_patch(struct call *c);
void handle_delete(struct call *c);
void handle_delete_collection(struct call *c);
void handle_status(struct call *c);
void handle_scale(struct call *c);
void handle_page(struct call *c);     /* pages.c: everything that is not a resource */
void page_openapi_v2(struct call *c); /* openapi_v2.c */
/* discovery.c: /api, /apis and below. False: there is no such page. */
bool discovery_page(struct call *c);
/* http.c: what net/ calls. */
extern const struct http_handler server_http_handler;
/* Fills in what a call says of an operation. */
must_use struct err *op_of_call(struct call *c, struct op *ret);
/* Ends a write: errors at once, success after the commit. */
void finish_write(struct call *c, struct op *op, int status, struct err *e);

/* wait.c: a POST that answers when the object is Ready. */
must_use struct err *wait_read(struct call *c, uint64_t *ret_s); /* 0: does not wait */
void wait_ready(struct call *c, struct object *o, uint64_t wait_s);
void waiters_free(struct server *s);

/* watch.c */
void watchers_free(struct server *s);
void watchers_end(struct server *s, const struct kind *k); /* those of this kind */

/* local_client.c: changes for the watches of this process. */
void locals_changed(struct server *s, const struct store_event *ev);

/* namespace.c */
must_use struct err *namespaces_bootstrap(struct server *s);
/* NULL when objects may be created in ns. */
must_use struct err *namespace_open(const struct server *s, const struct kind *k, const char *ns,
				    const char *name);
