/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <yyjson.h>

#include "json/json.h"

/*
 * A struct json is a yyjson_mut_val and never anything else; only the name differs. A list is a
 * ring whose owner points at the last element; an object is such a ring of key, value, key, value,
 * whose owner points at the last key.
 */
struct json_doc {
	yyjson_mut_doc *tree;
	yyjson_alc alloc; /* counts bytes, and aborts when memory runs out */
	size_t mem;
};

static inline yyjson_mut_val *val_of(const struct json *v)
{
	return (yyjson_mut_val *)v;
}

static inline struct json *json_of(yyjson_mut_val *v)
{
	return (struct json *)v;
}

/* A doc with a copy of what was read. */
struct json_doc *json_doc_from(yyjson_doc *read);
