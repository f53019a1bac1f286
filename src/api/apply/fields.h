/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct arena;
struct buf;
struct json;
struct json_doc;

/*
 * Sets of fields, as managedFields name them: a trie whose edges are the elements of paths. A set
 * is never changed once it is sealed; it lives in a fields_mem, and borrows its texts from the
 * trees that it was made of, which must live as long.
 *
 * In Kubernetes' own form (FieldsV1) an edge is a member: f: the name of a field, k: the keys of a
 * list element, v: the element of a set, i: an index. "." says that the path so far is in the set
 * itself; where nothing follows, it always is.
 */
struct fields_mem {
	struct arena *arena;
	struct json_doc *doc; /* values that had to be parsed */
};
void fields_mem_init(struct fields_mem *mem);
void fields_mem_done(struct fields_mem *mem);
#define autofields __attribute__((cleanup(fields_mem_done))) struct fields_mem

enum elem_type {
	ELEM_FIELD,
	ELEM_KEY,
	ELEM_VALUE,
	ELEM_INDEX,
	ELEM_TYPE_MAX_,
};

/* A member of a key, or the value of an ELEM_VALUE, which has no name. */
struct elem_part {
	const char *name;
	const struct json *val; /* a scalar */
};

struct elem {
	enum elem_type type;
	const char *name;              /* ELEM_FIELD */
	const struct elem_part *parts; /* ELEM_KEY: sorted by name; ELEM_VALUE: one */
	size_t n_parts;
	int64_t index; /* ELEM_INDEX */
};

struct fields_node {
	struct elem elem;
	bool member;              /* the path that ends here is in the set */
	const struct fields *sub; /* paths that go on; NULL: none */
};

struct fields {
	struct fields_node *nodes; /* sorted by elem once it is sealed */
	size_t n, cap;
};

/* Kubernetes' order: fields, keys, values, indices. */
int elem_compare(const struct elem *a, const struct elem *b);
struct elem elem_field(const char *name);

/* Building: nodes are added in any order, and the set is sealed before anybody reads it. A node
 * that is neither a member nor leads to any is left out. */
void fields_add(struct fields_mem *mem, struct fields *s, const struct fields_node *n);
void fields_seal(struct fields *s);

/* NULL is the empty set, as argument and as result. */
bool fields_empty(const struct fields *s);
const struct fields_node *fields_find(const struct fields *s, const struct elem *e);
bool fields_equal(const struct fields *s, const struct fields *t);
const struct fields *fields_union(struct fields_mem *mem, const struct fields *s,
				  const struct fields *t);
const struct fields *fields_intersection(struct fields_mem *mem, const struct fields *s,
					 const struct fields *t);
const struct fields *fields_difference(struct fields_mem *mem, const struct fields *s,
				       const struct fields *t);
/* Without a field at the top and what is below it; and nothing else but that. */
const struct fields *fields_without(struct fields_mem *mem, const struct fields *s,
				    const char *name);
const struct fields *fields_only(struct fields_mem *mem, const struct fields *s, const char *name);

/* Limits of a set that a peer sends. */
enum {
	FIELDS_NODES_MAX = 500000, /* of one set: more than an object of 3 MiB can have */
	FIELDS_PARTS_MAX = 8,      /* of one key */
	FIELDS_TEXT_MAX = 4096,    /* bytes of a key or value */
};

/* From FieldsV1. ERR_INVALID: an element cannot be read; ERR_TOO_LARGE. Elements of types that are
 * not known are left out. */
must_use struct err *fields_parse(struct fields_mem *mem, const struct json *v,
				  const struct fields **ret);
struct json *fields_print(struct json_doc *d, const struct fields *s);
/* True if s and the set in v have a path in common; v is not parsed. */
bool fields_meet(const struct fields *s, const struct json *v);

/* Calls fn for each path in the set, as text: .spec.ports[port=80,protocol="TCP"].name */
void fields_each(const struct fields *s, void (*fn)(void *arg, const char *path), void *arg);
void elem_path(const struct elem *e, struct buf *out);
