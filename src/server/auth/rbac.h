/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct buf;
struct json;
struct object;
struct objects;
struct user;

/* Something that somebody wants to do. Members that do not apply are "". */
struct act {
	bool resource;
	const char *verb; /* as rules spell it */
	const char *group, *plural, *sub, *ns, *name;
	const char *path; /* of a page of the server itself */
};

/*
 * Who may do what by the stored roles and bindings, as an index that follows them: each question
 * looks at the bindings of the user and the groups who ask, and at no others.
 */
struct rbac;
struct rbac *rbac_new(const struct objects *os); /* knows what is stored; os outlives it */
void rbac_free(struct rbac *r);
AUTOPTR(rbac)
/* o was stored, or is gone. False: it is neither a role nor a binding. */
bool rbac_changed(struct rbac *r, struct object *o, bool gone);

/* Why somebody may: a binding, and the subject of it that the user is. */
struct rbac_reason {
	const struct object *binding; /* borrowed until the next change */
	char kind;                    /* 'u' for a user (or account), 'g' for a group */
	const char *subject;
};
/* ret_why may be NULL. */
bool rbac_allows(const struct rbac *r, const struct user *u, const struct act *a,
		 struct rbac_reason *ret_why);
/* "RBAC: allowed by …" */
void rbac_explain(const struct rbac_reason *why, struct buf *out);
/* For a refusal: "RBAC: …" if roles are missing that the user's bindings name; else nothing. */
void rbac_complain(const struct rbac *r, const struct user *u, const char *ns, struct buf *out);
/* Every rule that the user has in a namespace ("": everywhere). */
void rbac_each(const struct rbac *r, const struct user *u, const char *ns,
	       void (*fn)(void *arg, const struct json *rule), void *arg);
/* The rules of a role, by kind and name; ns is the binding's. NULL: there is no such role. */
const struct json *rbac_rules_of(const struct rbac *r, const struct json *ref, const char *ns);
