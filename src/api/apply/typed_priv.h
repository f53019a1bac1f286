/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/apply/fields.h"
#include "api/apply/typed.h"
#include "api/schema.h"
#include "json/json.h"

/* How server-side apply treats a value of this type. */
enum shape {
	SHAPE_LEAF, /* one field, whatever is in it */
	SHAPE_MAP,  /* by members */
	SHAPE_LIST, /* by keys or values */
};
/* v may be NULL or null, which have the shape that the type has. */
enum shape shape_of(const struct type *t, const struct json *v);
/* Of two values in the same place, of which either may be NULL. */
enum shape shape_of_both(const struct type *t, const struct json *a, const struct json *b);
bool is_blank(const struct json *v); /* absent, null, or an empty object or list */

const struct type *member_type(const struct type *t, const char *name);
bool is_declared(const struct type *t, const char *name);

/* The element of a list as the element of a path. NULL: done; otherwise what is wrong with it. */
const char *item_elem(struct fields_mem *mem, const struct type *list, const struct json *item,
		      struct elem *ret);

/* Members or elements by the element of their path, sorted. Those that have none are left out. */
struct entry {
	struct elem elem;
	const struct json *val;
	size_t at;   /* place in the list */
	size_t same; /* how many entries from here on have the same element */
};
struct entries {
	struct entry *list;
	size_t n;
};
struct entries entries_of(struct fields_mem *mem, const struct type *t, const struct json *v);
/* The first entry with the element, or NULL. */
const struct entry *entries_find(const struct entries *e, const struct elem *elem);
