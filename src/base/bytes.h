/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/mem.h"

struct buf;

/*
 * Immutable bytes with a count (atomic): what threads and owners share. data is followed by a NUL.
 */
struct bytes {
	_Atomic unsigned refs;
	size_t len;
	char data[];
};

struct bytes *bytes_new(const void *p, size_t len);
struct bytes *bytes_from_buf(struct buf *b); /* copies, then empties b */
struct bytes *bytes_ref(struct bytes *b);
void bytes_unref(struct bytes *b); /* NULL is fine */
AUTOREF(bytes)
