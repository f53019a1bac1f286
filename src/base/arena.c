/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>

/*
 * An arena is a chain of blocks. Small requests are served from the newest block. A request for
 * more than a quarter of a block gets a block of its own, linked in behind the newest, so that the
 * space left in the newest is not lost.
 */
enum {
	FIRST_BLOCK = 960, /* with its header still a size that the allocator has at hand */
	LARGEST_BLOCK = 64 * 1024,
};

struct block {
	struct block *next;
	size_t used, cap;
	_Alignas(max_align_t) char data[];
};

struct arena {
	struct block *head;
	size_t next_cap;
};

struct arena *arena_new(void)
{
	struct arena *a = xnew(struct arena);

	a->next_cap = FIRST_BLOCK;
	return a;
}

void arena_free(struct arena *a)
{
	struct block *b, *next;

	if (!a)
		return;
	for (b = a->head; b; b = next) {
		next = b->next;
		free(b);
	}
	free(a);
}

static struct block *block_new(size_t cap)
{
	struct block *b = xcalloc(1, sizeof(*b) + cap);

	b->cap = cap;
	return b;
}

struct arena *arena_new_sized(size_t size)
{
	struct arena *a = arena_new();

	if (size)
		a->head = block_new(size);
	return a;
}

size_t arena_used(const struct arena *a)
{
	size_t used = 0;

	for (const struct block *b = a ? a->head : NULL; b; b = b->next)
		used += b->used;
	return used;
}

static void *alloc_alone(struct arena *a, size_t len)
{
	struct block *b = block_new(len);

	b->used = len;
	if (a->head) {
		b->next = a->head->next;
		a->head->next = b;
	} else {
		a->head = b;
	}
	return b->data;
}

void *arena_alloc(struct arena *a, size_t len)
{
	const size_t align = _Alignof(max_align_t);
	struct block *b = a->head;
	void *p;

	len = (MAX(len, (size_t)1) + align - 1) & ~(align - 1);
	if (!b || b->cap - b->used < len) {
		if (len > a->next_cap / 4)
			return alloc_alone(a, len);
		b = block_new(a->next_cap);
		b->next = a->head;
		a->head = b;
		a->next_cap = MIN(a->next_cap * 2, (size_t)LARGEST_BLOCK);
	}
	p = b->data + b->used;
	b->used += len;
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	char *copy;

	if (!s)
		return NULL;
	len = strnlen(s, len);
	copy = arena_alloc(a, len + 1);
	memcpy(copy, s, len);
	return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *s;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0)
		len = 0;
	s = arena_alloc(a, (size_t)len + 1);
	va_start(ap, fmt);
	(void)vsnprintf(s, (size_t)len + 1, fmt, ap);
	va_end(ap);
	return s;
}
