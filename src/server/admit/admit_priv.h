/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/admit/admit.h"

/* admit.c: stores doc (taken over) over old, or ends the object if nothing holds it any more. */
must_use struct err *op_store(struct op *op, struct object *old, struct json_doc *doc);
/* Ends the object in the state of doc (taken over), whatever holds it. */
must_use struct err *op_end(struct op *op, const struct object *old, struct json_doc *doc);
/* Makes the result of a patch of old the next state of it: decodes, checks, stores. Takes tree
 * over. reports are the unknown and duplicate members of the patch itself. */
must_use struct err *op_follow(struct op *op, struct object *old, struct json_doc *tree,
			       const struct causes *reports);
bool op_holds_contents(const struct kind *k, const struct json *obj);
void op_audit(const struct op *op, const char *verb, const struct err *e);

/* namespace.c: creates what must exist, unless it does. Takes doc over. */
must_use struct err *op_need(struct admit *a, const struct kind *k, const char *ns,
			     const char *name, struct json_doc *doc);

/* quota.c: NULL when no quota stands against storing obj. */
must_use struct err *quota_allows(const struct op *op, const struct json *obj,
				  const struct json *old);
/* After an object of any kind was stored (old NULL: it is new) or removed (now NULL). */
void quota_note(const struct op *op, const struct object *old, const struct object *now);

/* policy.c: what the namespace fills in of a new Pod, and its priority. */
must_use struct err *policies_complete(struct op *op, struct json_doc *d);
/* NULL when neither LimitRanges, Pod Security nor quotas are against storing obj. */
must_use struct err *policies_allow(struct op *op, const struct json *obj, const struct json *old);
/* security.c: NULL when the level of its namespace lets a Pod in; warnings are given. */
must_use struct err *security_allows(struct op *op, const struct json *obj, const struct json *old);

/* agents.c: what the server itself says of an Agent and an Approval: who made it, who decided. old
 * is the object before, or NULL. */
void agents_settle(struct op *op, struct json_doc *d, const struct json *old);

/* runtime_class.c: a new Pod names a RuntimeClass that exists, or none. */
must_use struct err *runtime_class_exists(const struct op *op, const struct json_doc *d);

/* service_account.c: a new Pod's account exists, and gives it what it asks for of that. */
must_use struct err *service_account_admit(struct op *op, struct json_doc *d);

/*
 * track.c: who owns the fields of an object (api/apply/managed.h). A write ends with track_create()
 * or track_update(), which puts managedFields into d, unless track_known() has said what they are.
 * What the server sets between track_before() and track_after() is not the client's.
 */
struct json_doc *track_before(const struct op *op, const struct json_doc *d); /* NULL: no matter */
void track_after(struct op *op, struct json_doc *before, const struct json_doc *d); /* takes it */
void track_create(struct op *op, struct json_doc *d);
void track_update(struct op *op, struct json_doc *d, const struct object *old);
void track_known(struct op *op, struct json_doc *owners); /* takes over; no root: nobody */
void track_free(struct track *t);

/* meta.c: what the server itself decides in an object's metadata. */
must_use struct err *meta_prepare_create(struct op *op, struct json_doc *d);
must_use struct err *meta_prepare_update(struct op *op, struct json_doc *d, struct object *old);

/* namespace.c: NULL when objects may be created where op says. */
must_use struct err *namespace_open(struct op *op, const struct json_doc *d);

/*
 * definitions.c: the status of a definition, and what of it cannot be changed. old is the object
 * before, or NULL. ERR_FORBIDDEN: there are too many.
 */
must_use struct err *definition_settle(struct op *op, struct json_doc *d, const struct object *old);
/* NULL when it may be deleted: ours may not. For objects of any kind. */
must_use struct err *definition_may_go(const struct op *op, const struct object *o);
/* NULL when objects of op's kind may be created: its definition is not being deleted. */
must_use struct err *definition_open(const struct op *op);
/* After an object of any kind was stored (old NULL: it is new) or removed (now NULL). */
void definition_changed(struct op *op, const struct object *old, struct object *now);

/*
 * addresses.c: what is in use of the ranges, and the IPAddresses that record it. After an object of
 * any kind was stored (old NULL: it is new) or removed (now NULL).
 */
void addresses_note(const struct op *op, const struct object *old, const struct object *now);
/* NULL when it may be deleted: not while a Service has the address. For objects of any kind. */
must_use struct err *address_may_go(const struct op *op, const struct object *o);

/* env.c: what the hooks of a kind may ask. The result is good for as long as the operation. */
struct kind_env admit_env(const struct admit *a);

/*
 * service.c: gives a Service what the server has for it: addresses, families, node ports. What is
 * wrong is in op->causes; ERR_INTERNAL: nothing is left to give. old is the object before, or NULL.
 */
must_use struct err *service_settle(struct op *op, struct json_doc *d, const struct json *old);
