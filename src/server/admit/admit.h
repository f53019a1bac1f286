/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/options.h"
#include "api/patch.h"
#include "api/schema.h"
#include "base/err.h"
#include "server/call/status.h"

struct json;
struct json_doc;
struct kind;
struct loop;
struct object;
struct objects;
struct ranges;
struct quotas;
struct op;
struct track;
struct user;

/*
 * An operation on one object, from HTTP or from this process: the same defaults, checks and errors.
 * It is decided and in memory before the call returns; nothing can change in between. A write that
 * changes nothing writes nothing and keeps the resourceVersion.
 */
struct admit {
	struct objects *objects;
	const char *node_name; /* new Pods are bound to it; NULL: they are not bound */
	struct ranges *ranges; /* of what Services get */
	struct quotas *quotas; /* what namespaces may use; NULL: nothing is limited */
	uint64_t n_writes;
	/* Whether somebody may store what is otherwise fine; old is NULL on create. */
	struct err *(*guard)(void *arg, const struct op *op, const struct json *obj,
			     const struct json *old);
	void *guard_arg;
};

struct op {
	struct admit *admit;
	const char *user;
	const struct user *who;      /* over HTTP; NULL: this process, which nothing guards */
	const struct kind *kind;     /* as asked for, perhaps not the stored version */
	const char *ns, *name, *sub; /* "" where there is none */
	struct write_options options;
	bool external; /* over HTTP: the conditions of a real API server apply */
	/* Who owns what is written, by name and by the subresource that the write was made through;
	 * NULL: this process, whose ownership is recorded only where it takes something. */
	const char *manager, *manager_sub;
	void (*warn)(void *arg, const char *text);
	/* For the record of this write: a constant key, of which the last text counts. NULL: there
	 * is no record. */
	void (*note)(void *arg, const char *key, const char *text);
	void *warn_arg; /* of both */

	struct causes causes;  /* of an ERR_INVALID */
	enum details details;  /* what the details of an error name */
	const char *absent_ns; /* the ERR_NOT_FOUND is about this namespace */
	struct object *result; /* the state after, as stored; a reference */
	bool patches;          /* what is written was made from the object itself */
	bool removed;          /* the object is gone */
	bool created;          /* by an apply or an update */
	struct track *track;   /* what this operation knows of owners; NULL: nothing yet */
};
void op_done(struct op *op);
#define autoop __attribute__((cleanup(op_done))) struct op
/* Decodes the object in `in` for op: makes the doc for the next two. */
must_use struct err *op_decode(struct op *op, const struct decode_input *in, struct json_doc **ret);
must_use struct err *op_create(struct op *op, struct json_doc *doc); /* takes doc over */
must_use struct err *op_update(struct op *op, struct json_doc *doc); /* takes doc over */
/* reports (may be NULL) are the unknown and duplicate members of the patch itself. */
must_use struct err *op_patch(struct op *op, enum patch_type how, const struct json *patch,
			      const struct causes *reports);
/* Server-side apply of what was decoded from the body, which need not be a whole object. */
must_use struct err *op_apply(struct op *op, const struct json *patch);
must_use struct err *op_delete(struct op *op, const struct delete_options *o);

/* The quotas of all namespaces, and what is in use of them. */
struct quotas *quotas_new(struct admit *a, struct loop *l);
void quotas_free(struct quotas *q);
/* Counts what is stored. */
void quotas_known(struct admit *a);
/* Reads from what is stored what is in use of the ranges, and puts in order what records it: an
 * IPAddress for each address of a Service, and the ServiceCIDR of this server. */
void addresses_bootstrap(struct admit *a);
/* Creates the namespaces that always exist, and their service accounts. */
must_use struct err *namespaces_bootstrap(struct admit *a);
/* Registers the kinds of stored definitions. */
void definitions_load(struct admit *a);
/* Defines our own kinds, as they are now. */
must_use struct err *definitions_bootstrap(struct admit *a);
/* Creates the roles and bindings that Kubernetes has from the start, and gives those that exist
 * what they lack of it, unless they say that they are left alone. */
must_use struct err *roles_bootstrap(struct admit *a);
/* Gives every aggregated ClusterRole the rules of those that its selectors choose. */
void roles_aggregate(struct admit *a);
/* Creates the PriorityClasses that Kubernetes has from the start. */
must_use struct err *priority_classes_bootstrap(struct admit *a);
/* Creates a RuntimeClass for each name, unless there is one. names: NULL-terminated, or NULL. */
must_use struct err *runtime_classes_bootstrap(struct admit *a, const char *const *names);
