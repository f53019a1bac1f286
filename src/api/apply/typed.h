/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct fields;
struct fields_mem;
struct json;
struct json_doc;
struct type;

/*
 * Trees seen through their type, as server-side apply sees them: which fields a tree has, how two
 * differ, the merge of one into another, and a tree without some of its fields. Objects and maps
 * are looked into, and so are lists with keys and sets; whatever is atomic is one field.
 *
 * A walk is as deep as the trees, whose depth the decode stage limits.
 */

/* The fields that a tree sets. */
const struct fields *typed_fields(struct fields_mem *mem, const struct json *v,
				  const struct type *t);

struct comparison {
	const struct fields *added, *modified, *removed;
};
/* What next changes in was. Trees that share memory are equal at a glance. */
struct comparison typed_compare(struct fields_mem *mem, const struct json *was,
				const struct json *next, const struct type *t);

/* The merge of patch into live, in d: lists in Kubernetes' order. Both must have been checked. */
struct json *typed_merge(struct fields_mem *mem, struct json_doc *d, const struct json *live,
			 const struct json *patch, const struct type *t);

/* v without the items in gone, in d; NULL: nothing is left. A member of which nothing is left is
 * null: it is still there for whoever owns it. */
struct json *typed_remove(struct fields_mem *mem, struct json_doc *d, const struct json *v,
			  const struct fields *gone, const struct type *t);

/* A copy of v without such nulls; those that patch has stay. */
struct json *typed_settle(struct json_doc *d, const struct json *v, const struct json *patch);

/* s with the named fields on the way to its members, which are not members otherwise. */
const struct fields *typed_named(struct fields_mem *mem, const struct fields *s,
				 const struct type *t);

/* ERR_INVALID: what keeps the tree from being applied: members that the type does not have, list
 * elements without keys or with the same ones, wrong types. */
must_use struct err *typed_check(struct fields_mem *mem, const struct json *v,
				 const struct type *t);

/* What Go writes for an object of a built-in kind that nobody has filled in; {} for others. */
struct json *typed_zero(struct json_doc *d, const struct type *t);
