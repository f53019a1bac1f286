/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/mem.h"

struct buf;

/*
 * Immutable bytes with an atomic reference count, for sharing between threads and owners. A NUL
 * follows data.
 */
struct bytes {
	_Atomic unsigned refs;
	size_t len;
	char data[];
};

struct bytes *bytes_new(const void *p, size_t len);
struct bytes *bytes_from_buf(struct buf *b); /* copies b, then empties it */
struct bytes *bytes_ref(struct bytes *b);
void bytes_unref(struct bytes *b); /* NULL is fine */
AUTOREF(bytes)
