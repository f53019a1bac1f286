/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct causes;
struct json;
struct json_doc;
struct type;
struct view_type;

/*
 * A kind: what objects of it are called, which fields they have, and what is special about them.
 * Routes, discovery, OpenAPI, Tables, CRDs and admission ask a kind for its properties, never which
 * kind it is.
 *
 * A kind is a counted value that never changes. Objects hold a reference to theirs, so a kind
 * outlives its removal from the registry (registry.h) for as long as an object of it is in
 * use. References may be taken and dropped on any thread.
 */
struct column {
	const char *name;
	const char *type; /* "string", "integer", "date" */
	const char *path; /* as in a CRD: .status.conditions[?(@.type=='Ready')].status */
	const char *help;
	int priority; /* 0: always shown; 1: only with -o wide */
	/* Computes the cell where a path cannot (a Pod's READY). NULL: use path. The cell of a
	 * "date" is a time, which the table turns into an age. */
	struct json *(*cell)(struct json_doc *d, const struct json *obj, usec now);
	const char *format; /* as in a CRD; NULL: none */
	bool plain;         /* a "date" is shown as it is */
};

/* A field that a fieldSelector may name. */
struct selectable {
	const char *label; /* its name in the selector; NULL ends the list */
	const char *path;  /* of the value in a stored object */
};

/* Where /scale finds its numbers, as paths of json_at_path(). selector: a text or a LabelSelector;
 * NULL: nowhere. */
struct kind_scale {
	const char *spec, *status, *selector;
};

/* A rule in the language of CRDs (CEL), for clusters whose own API server checks our kinds. */
struct kind_rule {
	const char *at; /* path of the schema that the rule belongs to; "": the whole object's */
	const char *rule, *message;
	bool on_create; /* oldSelf is optional: the rule also applies when there is none */
};

/* A subresource that changes a part of an object's spec, by rules of its own. */
struct kind_part {
	const char *name; /* NULL ends the list */
	/* Takes that part of what was sent over into the object as it was. */
	void (*apply)(struct json_doc *whole, const struct json *sent);
	/* In the place of the kind's own validate(). */
	void (*validate)(const struct json *obj, const struct json *old, struct causes *c);
};

/* What the hooks of a kind may know of the server that runs them. */
struct kind_env {
	const char *node_name; /* where new Pods run; NULL: they are not bound */
	/* A StorageClass, borrowed; name NULL: the default one. NULL: there is none. */
	const struct json *(*storage_class)(const struct kind_env *env, const char *name);
	const void *arg; /* storage_class()'s own */
};

enum {
	KIND_NAMESPACED = 1 << 0,
	KIND_STATUS = 1 << 1,     /* has /status, and writes to the object leave status alone */
	KIND_SCALE = 1 << 2,      /* has /scale */
	KIND_DEPRECATED = 1 << 3, /* answers carry a Warning header */
	KIND_GENERATION = 1 << 4, /* metadata.generation counts changes of spec */
	KIND_CRD = 1 << 5,        /* a custom resource: no strategic merge patch, and printed by
				     `cay manifests` */
	KIND_PROTECTED = 1 << 6,  /* built in: cannot be removed from the registry */
	KIND_OWN_STATUS = 1 << 7, /* the creator supplies the first status (a Node) */
	KIND_CONTENTS = 1 << 8,   /* holds other objects, and is removed only after they are gone */
	KIND_SHOW_DELETED = 1 << 9, /* a finished deletion answers with the object, not a Status */
	KIND_URGENT = 1 << 10,      /* writes do not queue behind others (a Lease) */
	KIND_BRIEF = 1 << 14, /* a late answer is worth nothing: it is waited for 3 s (a review) */
	KIND_MEASURED = 1 << 12, /* a stored kind seen by what it uses: only read, filled in by the
				    server when it is shown */
	KIND_ADDRESSES =
		1 << 13,         /* gets addresses and ports from the server's ranges (a Service) */
	KIND_DEFINES = 1 << 15,  /* its objects are kinds (a CustomResourceDefinition) */
	KIND_UNSERVED = 1 << 16, /* stored, but no request can name it */
	KIND_PATH_NAMES = 1 << 17,  /* any name that can be part of a path is allowed (a role) */
	KIND_LABEL_NAMES = 1 << 18, /* names are DNS labels, without dots (a Service) */
	KIND_OWN_NAMES = 1 << 21,   /* validate() has the rule for names (an IPAddress) */
	KIND_PUT_CREATES = 1 << 19, /* an update of what is not there creates it (a Lease) */
	KIND_CONDITIONAL = 1 << 20, /* an update must name the version it is made from */
	KIND_SELDOM = 1 << 11, /* many are written, few are read: kept as text alone (an Event) */
};

struct kind {
	_Atomic unsigned refs;
	const char *group, *version; /* group "" is core */
	const char *api_version;     /* both, as written in an object */
	const char *kind, *list_kind, *plural, *singular;
	const char *short_names[16]; /* ends with NULL */
	const char *categories[16];
	unsigned flags;
	const struct type *type;             /* of the whole object */
	const struct column *columns;        /* ends with a NULL name; NAME is added in front */
	const char *const *subresources;     /* besides status and scale; NULL: none */
	const struct kind_part *parts;       /* those of subresources; NULL: none */
	const struct selectable *selectable; /* besides metadata.name and .namespace; NULL: none */
	const char *const *kept;        /* names of objects that cannot be deleted; NULL: none */
	const char *kept_why;           /* what a client is told then; NULL: the usual message */
	const char *pod_template;       /* the member of spec that describes Pods; NULL: none */
	const struct kind_rule *rules;  /* ends with a NULL rule; NULL: none */
	const struct view_type *view;   /* what object_view() decodes; NULL: objects have none */
	const struct kind_scale *scale; /* KIND_SCALE; NULL: spec.replicas, status.replicas, … */
	const char *deprecation; /* the warning of a KIND_DEPRECATED one; NULL: the usual one */
	const char *help;

	/* Objects are stored as this other kind, a reference. NULL: stored as they are. */
	const struct kind *storage;
	/* In place; k is the kind that has the hook. */
	struct err *(*to_storage)(const struct kind *k, struct json_doc *d);
	struct err *(*from_storage)(const struct kind *k, struct json_doc *d);

	/*
	 * Hooks, in the order in which a write runs them. d is the object, changed in place; old is
	 * the object as it was before, NULL on create. A NULL hook does nothing.
	 */
	void (*prepare_create)(struct json_doc *d, const struct kind_env *env);
	/* Of a write to /status; NULL: whoever may write it is believed. */
	void (*validate_status)(const struct json *obj, const struct json *old, struct causes *c);
	/* What is odd about a valid object, one text at a time; old as above. NULL: nothing ever
	 * is. */
	void (*warn)(const struct json *obj, const struct json *old,
		     void (*say)(void *arg, const char *text), void *arg);
	void (*prepare_update)(struct json_doc *d, const struct json *old,
			       const struct kind_env *env); /* not of /status */
	/* Defaults that the schema cannot express (a Pod's QoS class, a Service's ports). */
	void (*defaults)(struct json_doc *d, const struct json *old);
	/* Rules that the schema cannot express. Adds to causes. */
	void (*validate)(const struct json *obj, const struct json *old, struct causes *c);
	/* The same about annotations of ours, whatever else has changed; not of /status. No CRD
	 * has rules about them. */
	void (*validate_notes)(const struct json *obj, const struct json *old, struct causes *c);
	/* Why an object that is valid cannot be created; NULL: it can. */
	const char *(*forbid_create)(const struct json *obj);
	/* Of an update in this version, beside what the stored version's validate() says, on both
	 * as they are stored; what is sent is not validated by itself then. */
	void (*validate_change)(const struct json *obj, const struct json *old, struct causes *c);
	/* Why a change that is valid is not allowed, not of /status; NULL: it is. */
	const char *(*forbid_update)(const struct json *obj, const struct json *old,
				     const struct kind_env *env);
	/* Runs when the object is marked as being deleted. */
	void (*prepare_delete)(struct json_doc *d);
	/* How many seconds it may take to stop; asked is the request's value, < 0 for none.
	 * NULL: objects of this kind do not run, and are removed at once. */
	int64_t (*grace)(const struct json *obj, int64_t asked);

	/* Called with arg after the last reference is gone: whatever the members point at may be
	 * freed then. NULL: it is static. */
	void (*release)(void *arg);
	void *arg;
};

/* A counted copy of like, which takes its own reference to like->storage. */
struct kind *kind_new(const struct kind *like);
/* Counting does not change a kind, so these take a pointer to const. */
const struct kind *kind_ref(const struct kind *k); /* NULL stays NULL */
void kind_unref(const struct kind *k);             /* NULL is fine */

const struct kind *kind_storage(const struct kind *k); /* k itself when it is stored */
/* "v1" or "agents.x-k8s.io/v1beta1" */
const char *kind_api_version(const struct kind *k);
bool kind_has_subresource(const struct kind *k, const char *name); /* status and scale included */
/* The path in a stored object of what a fieldSelector calls label; NULL: not selectable. */
const char *kind_selectable(const struct kind *k, const char *label);
