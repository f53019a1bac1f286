/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/map.h"
#include "base/random.h"

/*
 * The ordered map is a skip list: every entry is in the list of level 0, one in four of those in
 * level 1, and so on. A search runs along the highest level and steps down where the next key would
 * be too far. Heights come from a seeded random generator, so that no order of insertion is a bad
 * one.
 */
enum {
	LEVELS = 16, /* only one entry in 4^16 would be higher */
};

struct tree_place {
	void *value;
	const char *key; /* stored behind next[] in the same block, unless the tree borrows keys */
	unsigned height;
	struct tree_place *next[];
};

struct tree {
	void (*free_value)(void *value);
	uint64_t dice;
	size_t len;
	unsigned height; /* levels in use */
	bool borrows;
	struct tree_place *first[LEVELS];
};

struct tree *tree_new(void (*free_value)(void *value))
{
	struct tree *t = xnew(struct tree);

	t->free_value = free_value;
	t->dice = random_u64() | 1;
	return t;
}

struct tree *tree_new_borrowing(void (*free_value)(void *value))
{
	struct tree *t = tree_new(free_value);

	t->borrows = true;
	return t;
}

void tree_free(struct tree *t)
{
	struct tree_place *n, *next;

	if (!t)
		return;
	for (n = t->first[0]; n; n = next) {
		next = n->next[0];
		if (t->free_value)
			t->free_value(n->value);
		free(n);
	}
	free(t);
}

static struct tree_place *following(const struct tree *t, const struct tree_place *n,
				    unsigned level)
{
	return n ? n->next[level] : t->first[level];
}

/*
 * The first node whose key is >= key (> key if after is set), or NULL. before[i] becomes the last
 * node of level i that precedes it, NULL meaning the head of the list; before may be NULL.
 */
static struct tree_place *search(const struct tree *t, const char *key, bool after,
				 struct tree_place **before)
{
	struct tree_place *at = NULL, *next, *checked = NULL;

	for (unsigned level = t->height; level-- > 0;) {
		while ((next = following(t, at, level)) && next != checked) {
			int order = strcmp(next->key, key);

			if (order > 0 || (order == 0 && !after)) {
				checked = next; /* seen again one level down: already compared */
				break;
			}
			at = next;
		}
		if (before)
			before[level] = at;
	}
	return following(t, at, 0);
}

static unsigned draw_height(struct tree *t)
{
	unsigned height = 1;
	uint64_t x;

	t->dice ^= t->dice << 13;
	t->dice ^= t->dice >> 7;
	t->dice ^= t->dice << 17;
	for (x = t->dice >> 16; height < LEVELS && (x & 3) == 0; x >>= 2)
		height++;
	return height;
}

static struct tree_place *node_new(struct tree *t, const char *key, void *value)
{
	unsigned height = draw_height(t);
	size_t links = sizeof(struct tree_place) + height * sizeof(struct tree_place *);
	size_t key_size = t->borrows ? 0 : strlen(key) + 1;
	struct tree_place *n = xmalloc(links + key_size);

	n->value = value;
	n->height = height;
	n->key = t->borrows ? key : memcpy((char *)n + links, key, key_size);
	return n;
}

static void replace_value(struct tree *t, struct tree_place *n, const char *key, void *value)
{
	void *old = n->value;

	n->value = value;
	if (t->borrows)
		n->key = key;
	if (t->free_value && old != value)
		t->free_value(old);
}

struct tree_place *tree_put(struct tree *t, const char *key, void *value)
{
	struct tree_place *before[LEVELS] = { 0 };
	struct tree_place *n = search(t, key, false, before);

	if (n && !strcmp(n->key, key)) {
		replace_value(t, n, key, value);
		return n;
	}
	n = node_new(t, key, value);
	t->height = MAX(t->height, n->height);
	for (unsigned i = 0; i < n->height; i++) {
		struct tree_place **link = before[i] ? &before[i]->next[i] : &t->first[i];

		n->next[i] = *link;
		*link = n;
	}
	t->len++;
	return n;
}

struct tree_place *tree_put_at(struct tree *t, struct tree_place *at, const char *key, void *value)
{
	if (!at)
		return tree_put(t, key, value);
	assert(!strcmp(at->key, key));
	replace_value(t, at, key, value);
	return at;
}

void *tree_take(struct tree *t, const char *key)
{
	struct tree_place *before[LEVELS] = { 0 };
	struct tree_place *n = search(t, key, false, before);
	void *value;

	if (!n || strcmp(n->key, key) != 0)
		return NULL;
	for (unsigned i = 0; i < n->height; i++) {
		struct tree_place **link = before[i] ? &before[i]->next[i] : &t->first[i];

		assert(*link == n);
		*link = n->next[i];
	}
	while (t->height && !t->first[t->height - 1])
		t->height--;
	t->len--;
	value = n->value;
	free(n);
	return value;
}

void *tree_get(const struct tree *t, const char *key)
{
	const struct tree_place *n = search(t, key, false, NULL);

	return n && !strcmp(n->key, key) ? n->value : NULL;
}

size_t tree_len(const struct tree *t)
{
	return t->len;
}

void *tree_seek(const struct tree *t, const char *from, bool after, const char **ret_key)
{
	const struct tree_place *n = search(t, from, after, NULL);

	if (!n)
		return NULL;
	if (ret_key)
		*ret_key = n->key;
	return n->value;
}
