/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <assert.h>
#include <pthread.h>

#include "base/random.h"

/*
 * Entries are kept in a row in the order of insertion; a table of slots, at most half full, finds
 * them by hash. A removed entry leaves a hole in the row and a tombstone in the table until the
 * next rebuild. Only map_put() rebuilds, which is why iteration survives removals.
 */
enum {
	SLOT_FREE = 0,
	SLOT_GONE = UINT32_MAX,
	FIRST_CAP = 4,
};

struct entry {
	uint64_t hash;
	char *key; /* NULL: a hole; owned unless the map borrows keys */
	void *value;
};

struct map {
	void (*free_value)(void *value);
	struct entry *row;
	uint32_t *slots; /* index into row, plus one; there are 2 * cap slots, a power of two */
	size_t n_row, cap, len;
	bool borrows;
};

static uint64_t seed[2];

static void seed_once(void)
{
	random_bytes(seed, sizeof(seed));
}

static inline uint64_t rotate(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

/* SipHash-1-3: one round per word, three at the end. */
static uint64_t hash_key(const char *key, size_t len)
{
	uint64_t v[4] = { seed[0] ^ 0x736f6d6570736575, seed[1] ^ 0x646f72616e646f6d,
			  seed[0] ^ 0x6c7967656e657261, seed[1] ^ 0x7465646279746573 };
	uint64_t word, last = (uint64_t)len << 56;
	size_t at;

	for (at = 0; at + 8 <= len; at += 8) {
		memcpy(&word, key + at, 8);
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	for (unsigned i = 0; at + i < len; i++)
		last |= (uint64_t)(unsigned char)key[at + i] << (8 * i);
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (unsigned i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct map *map_new(void (*free_value)(void *value))
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct map *m = xnew(struct map);

	(void)pthread_once(&once, seed_once);
	m->free_value = free_value;
	return m;
}

struct map *map_new_borrowing(void (*free_value)(void *value))
{
	struct map *m = map_new(free_value);

	m->borrows = true;
	return m;
}

static void drop_key(const struct map *m, char *key)
{
	if (!m->borrows)
		free(key);
}

void map_free(struct map *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_row; i++) {
		drop_key(m, m->row[i].key);
		if (m->row[i].key && m->free_value)
			m->free_value(m->row[i].value);
	}
	free(m->row);
	free(m->slots);
	free(m);
}

/* The slot that holds the key, or NULL. */
static uint32_t *find(const struct map *m, const char *key, uint64_t hash)
{
	size_t mask = 2 * m->cap - 1;

	if (!m->cap)
		return NULL;
	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		uint32_t s = m->slots[i];
		const struct entry *e;

		if (s == SLOT_FREE)
			return NULL;
		if (s == SLOT_GONE)
			continue;
		e = &m->row[s - 1];
		if (e->hash == hash && !strcmp(e->key, key))
			return &m->slots[i];
	}
}

static struct entry *lookup(const struct map *m, const char *key)
{
	uint32_t *slot = find(m, key, hash_key(key, strlen(key)));

	return slot ? &m->row[*slot - 1] : NULL;
}

static void place(struct map *m, size_t index)
{
	size_t mask = 2 * m->cap - 1;
	size_t i = m->row[index].hash & mask;

	while (m->slots[i] != SLOT_FREE)
		i = (i + 1) & mask;
	m->slots[i] = (uint32_t)(index + 1);
}

/*
 * Makes a row without holes and a table without tombstones, with space for as many entries again.
 */
static void rebuild(struct map *m)
{
	struct entry *old = m->row;
	size_t n_old = m->n_row, cap = FIRST_CAP;

	while (cap < 2 * m->len)
		cap *= 2;
	assert(cap < SLOT_GONE / 2);
	free(m->slots);
	m->cap = cap;
	m->slots = xnew_n(uint32_t, 2 * cap);
	m->row = xnew_n(struct entry, cap);
	m->n_row = 0;
	for (size_t i = 0; i < n_old; i++) {
		if (!old[i].key)
			continue;
		m->row[m->n_row] = old[i];
		place(m, m->n_row++);
	}
	free(old);
}

void map_put(struct map *m, const char *key, void *value)
{
	size_t len = strlen(key);
	uint64_t hash = hash_key(key, len);
	uint32_t *slot = find(m, key, hash);
	struct entry *e;
	void *old;

	if (slot) {
		e = &m->row[*slot - 1];
		old = e->value;
		e->value = value;
		if (m->borrows)
			e->key = (char *)key;
		if (m->free_value && old != value)
			m->free_value(old);
		return;
	}
	if (m->n_row == m->cap)
		rebuild(m);
	m->row[m->n_row] =
		(struct entry){ hash, m->borrows ? (char *)key : xmemdup(key, len), value };
	place(m, m->n_row++);
	m->len++;
}

static bool take_out(struct map *m, const char *key, void **ret)
{
	uint32_t *slot = find(m, key, hash_key(key, strlen(key)));
	struct entry *e;

	*ret = NULL;
	if (!slot)
		return false;
	e = &m->row[*slot - 1];
	*slot = SLOT_GONE;
	drop_key(m, take(e->key));
	m->len--;
	*ret = take(e->value);
	return true;
}

void *map_take(struct map *m, const char *key)
{
	void *value;

	(void)take_out(m, key, &value);
	return value;
}

bool map_del(struct map *m, const char *key)
{
	void *value;

	if (!take_out(m, key, &value))
		return false;
	if (m->free_value)
		m->free_value(value);
	return true;
}

void *map_get(const struct map *m, const char *key)
{
	const struct entry *e = lookup(m, key);

	return e ? e->value : NULL;
}

bool map_has(const struct map *m, const char *key)
{
	return lookup(m, key);
}

size_t map_len(const struct map *m)
{
	return m->len;
}

bool map_next(struct map_iter *it)
{
	while (it->m && it->pos < it->m->n_row) {
		const struct entry *e = &it->m->row[it->pos++];

		if (!e->key)
			continue;
		it->key = e->key;
		it->value = e->value;
		return true;
	}
	return false;
}
