/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

/*
 * String → pointer. Keys are copied; values belong to the caller unless free_value is given. The
 * hash (SipHash) is seeded per process, so that peers cannot aim at one bucket. Removing the
 * current entry during iteration is allowed; adding entries is not.
 */
struct map;

struct map *map_new(void (*free_value)(void *value)); /* NULL: the map does not own the values */
/* The same without copies of keys: a key is part of its value, or lives as long in another way.
 * map_put() exchanges the key together with the value. */
struct map *map_new_borrowing(void (*free_value)(void *value));
void map_free(struct map *m);
AUTOPTR(map)

void *map_get(const struct map *m, const char *key); /* NULL: no such key */
bool map_has(const struct map *m, const char *key);
void map_put(struct map *m, const char *key, void *value); /* replaces (and frees) an old value */
void *map_take(struct map *m, const char *key); /* removes the entry without freeing the value */
bool map_del(struct map *m, const char *key);
size_t map_len(const struct map *m);

struct map_iter {
	const struct map *m;
	size_t pos;
	const char *key;
	void *value;
};
bool map_next(struct map_iter *it); /* a NULL map has no entries */
#define map_each(it, map) for (struct map_iter it = { .m = (map) }; map_next(&it);)

/* An ordered map: keys in strcmp order, with range scans. For the store and for anything listed. */
struct tree;
struct tree_place; /* where an entry is, until it is taken out */

struct tree *tree_new(void (*free_value)(void *value));
struct tree *tree_new_borrowing(void (*free_value)(void *value)); /* see map_new_borrowing() */
void tree_free(struct tree *t);
AUTOPTR(tree)
void *tree_get(const struct tree *t, const char *key);
struct tree_place *tree_put(struct tree *t, const char *key, void *value);
/* The same without a search if the place of the key is known; NULL: it is not. */
struct tree_place *tree_put_at(struct tree *t, struct tree_place *at, const char *key, void *value);
void *tree_take(struct tree *t, const char *key);
size_t tree_len(const struct tree *t);
/*
 * The first entry whose key is >= from (> from if after is set), or NULL at the end. *ret_key is
 * borrowed.
 */
void *tree_seek(const struct tree *t, const char *from, bool after, const char **ret_key);
