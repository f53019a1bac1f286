/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct kind;
struct map;
struct object;

/*
 * Who owns whom: a node for each uid that exists or that an object names as an owner, linked in
 * both directions. Nodes are borrowed until the index next changes.
 */
struct gc_node {
	const struct kind *kind; /* a reference; NULL: no object of this uid is known */
	char *ns, *name;         /* in one block */
	struct gc_node **owners; /* as the object names them, each once */
	size_t n_owners;
	struct map *deps; /* uid → struct gc_node of an object that names it; NULL: none yet */
	char uid[];
};

struct gc_index;
/* touched() is called for each known object that a change may concern. It must not change the
 * index. */
struct gc_index *gc_index_new(void (*touched)(void *arg, const struct gc_node *n), void *arg);
void gc_index_free(struct gc_index *ix);

/* The object is new, or names other owners than before. Touches the owners that it had. */
void gc_index_put(struct gc_index *ix, const struct object *o);
/* The object is gone. Touches its owners and its dependents. */
void gc_index_del(struct gc_index *ix, const char *uid);
/* Objects of the kind can no longer be seen, which says nothing about whether they exist: no object
 * is touched. */
void gc_index_drop_kind(struct gc_index *ix, const struct kind *k);
/* Touches every object that names an owner which is not known. */
void gc_index_doubt(struct gc_index *ix);

const struct gc_node *gc_index_get(const struct gc_index *ix, const char *uid); /* NULL: none */
