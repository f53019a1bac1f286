/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <yyjson.h>

#include "json/json.h"

/*
 * A struct json is a yyjson_mut_val and never anything else; only the name differs. A list is a
 * ring whose owner points at the last element; an object is such a ring of key, value, key, value,
 * whose owner points at the last key.
 *
 * Two containers may point at the same ring as long as nobody changes it. A mark in the tag, in
 * bits that yyjson leaves alone, says who may.
 */
enum {
	/* The ring is part of a frozen doc, the value itself is ours: json_own() replaces the ring
	 * by a copy, in which containers are lent in turn. */
	LENT = 0x20,
	/* The value is part of a frozen doc: whoever changes it did not come here by json_own(). */
	FROZEN = 0x40,
	MARKS = LENT | FROZEN,
};

struct json_doc {
	_Atomic unsigned refs;
	unsigned n_keeps;
	yyjson_mut_val *root;
	yyjson_mut_doc *pool; /* what building takes values and text from; NULL: it is frozen */
	size_t mem;
	struct json_doc **keeps; /* references to docs whose memory this one uses */
};

static inline yyjson_mut_val *val_of(const struct json *v)
{
	return (yyjson_mut_val *)v;
}

static inline struct json *json_of(yyjson_mut_val *v)
{
	return (struct json *)v;
}

/* A list or an object with members: those alone have a ring. */
static inline bool has_ring(const yyjson_mut_val *v)
{
	return yyjson_mut_is_ctn((yyjson_mut_val *)v) && unsafe_yyjson_get_len((void *)v);
}

/* How many values are in its ring. */
static inline size_t ring_len(const yyjson_mut_val *v)
{
	size_t n = unsafe_yyjson_get_len((void *)v);

	return unsafe_yyjson_get_type((void *)v) == YYJSON_TYPE_OBJ ? 2 * n : n;
}

/* A doc with a copy of what was read. */
struct json_doc *json_doc_from(yyjson_doc *read);
