/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/macros.h"
#include "base/mem.h"

/*
 * An arena: memory that is freed all at once. There is one for each request, each pass and each
 * decoded object. Nothing in it is freed alone. An arena must not be shared between threads.
 */
struct arena;

struct arena *arena_new(void);
/* Has room for so many bytes from the beginning: arena_used() of one that was filled like it. */
struct arena *arena_new_sized(size_t size);
size_t arena_used(const struct arena *a); /* bytes that were handed out; NULL: 0 */
void arena_free(struct arena *a);
AUTOPTR(arena)

void *arena_alloc(struct arena *a, size_t len);     /* zeroed, aligned for anything */
char *arena_strdup(struct arena *a, const char *s); /* NULL if s is NULL */
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_printf(struct arena *a, const char *fmt, ...) printf_like(2, 3);
#define arena_new_of(a, type)   ((type *)arena_alloc((a), sizeof(type)))
#define arena_new_n(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (n)))
