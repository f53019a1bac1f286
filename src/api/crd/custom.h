/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "json/json.h"

struct causes;
struct decode_walk;
struct place;
struct type;

/*
 * The structural schema of one version of a CustomResourceDefinition, made ready for use: what
 * objects of it may contain, what is filled in, and what is wrong with one. It never changes.
 *
 * What an object costs has a limit, whatever its schema and its contents are: both are written by
 * strangers. Recursion is as deep as the schema.
 */
struct custom;

enum {
	CUSTOM_NODES_MAX = 32768,         /* schemas inside one schema */
	CUSTOM_PATTERNS_MAX = 256 * 1024, /* what its patterns take, as in regex_size() */
	CUSTOM_STEPS_MAX = 5 * 1000000,   /* that checking one object may take: about 0.15 s */
};

/* Borrows schema, the value of openAPIV3Schema; what crd_validate() accepts works. ERR_TOO_LARGE:
 * it has more parts than CUSTOM_NODES_MAX; ERR_MALFORMED, ERR_TOO_LARGE: a pattern is no regular
 * expression. */
must_use struct err *custom_new(const struct json *schema, struct custom **ret);
void custom_free(struct custom *c); /* NULL is fine */
AUTOPTR(custom)
const struct json *custom_schema(const struct custom *c);
/* The same as a table of types, for walks that do not ask what is valid. */
const struct type *custom_as_type(const struct custom *c);
size_t custom_nodes(const struct custom *c);

/* Members that the schema does not know are reported to w and removed, and nulls where null is not
 * allowed are removed. v is the object, or what is at `at` in it. */
void custom_prune(struct decode_walk *w, struct json *v, const struct custom *c,
		  const struct place *at);
void custom_default(struct json_doc *d, struct json *v, const struct custom *c);
/* What is the same as in old (may be NULL) is not looked at: an object that was accepted by an
 * earlier schema can be changed elsewhere. */
void custom_validate(const struct json *v, const struct custom *c, const struct json *old,
		     struct causes *causes);
/* The same for a default, which is at path in a definition. */
struct custom_at {
	const char *path;
	size_t *steps; /* the allowance, shared by all defaults */
};
void custom_validate_at(const struct json *v, const struct custom *c, const struct custom_at *at,
			struct causes *causes);
/* Would pruning leave v as it is? */
bool custom_is_pruned(const struct json *v, const struct custom *c);
