/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/apply/fields.h"
#include "api/apply/typed.h"
#include "base/err.h"

struct causes;
struct type;

/*
 * metadata.managedFields: who owns which fields of an object, and what writes do to that. A manager
 * owns what it applied last, or what it changed by other writes; a field that a write changes is
 * taken from everybody else.
 *
 * Texts are borrowed from wherever they came from.
 */
struct manager {
	const char *name;
	bool applied;            /* operation Apply; otherwise Update */
	const char *api_version; /* that the paths are written for */
	const char *sub;         /* the subresource; "" for the object itself */
	const char *time;        /* NULL: none */
	const struct fields *set;
};

struct managed {
	struct manager *list;
	size_t n;
};

enum {
	MANAGED_ENTRIES_MAX = 1000, /* of one object, as a client may send them */
	MANAGED_UPDATERS_MAX = 10,  /* beyond that, the oldest become one */
};

/* ERR_INVALID: an entry is not valid. NULL has no managers. */
must_use struct err *managed_read(struct fields_mem *mem, const struct json *list,
				  struct managed *ret);
/* A list in Kubernetes' order; NULL: there are no managers. */
struct json *managed_write(struct json_doc *d, const struct managed *m);
/* True if a client wants ownership forgotten: it sent a list without entries, or with an empty one.
 */
bool managed_resets(const struct json *list);

/* Takes what a write has changed or removed from all managers; those left with nothing go. */
void managed_lose(struct fields_mem *mem, struct managed *m, const struct comparison *c);
/* A write of `by` that is not an apply; by->set is not looked at. */
void managed_update(struct fields_mem *mem, struct managed *m, const struct comparison *c,
		    const struct manager *by);
struct manager *managed_find(const struct managed *m, const struct manager *like);
void managed_add(struct fields_mem *mem, struct managed *m, const struct manager *entry);

/* Fields that nobody owns: what the server itself decides. */
const struct fields *managed_strip(struct fields_mem *mem, const struct fields *s);

/*
 * Server-side apply. live is the object as it is, in the version of the request, and patch what is
 * applied; neither has managedFields. m is changed into what it is afterwards.
 */
struct apply {
	struct fields_mem *mem;
	const struct type *type;
	const struct json *live, *patch;
	struct manager by; /* set is not looked at */
	bool force;        /* conflicts are won */
	const char *only;  /* of what is applied, only this member counts; NULL: all but */
	const char *never; /* this one, which the write cannot change; NULL: all */
	struct managed *m;
	struct causes *causes; /* of a conflict */
};
/* The tree afterwards, in d. ERR_CONFLICT: others own some of it. */
must_use struct err *apply_merge(const struct apply *r, struct json_doc *d, struct json **ret);
/* The fields that `by` owns after applying the patch. */
const struct fields *apply_fields(const struct apply *r);
