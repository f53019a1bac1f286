/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/mem.h"

/*
 * A growing run of bytes with a read end and a write end. Zero-initialised, it is empty. The bytes
 * are data[off .. off+len); after buf_str() they are followed by a NUL that is not counted.
 */
struct buf {
	char *data;
	size_t off, len, cap;
};

void buf_done(struct buf *b);
#define autobuf __attribute__((cleanup(buf_done))) struct buf

static inline char *buf_head(const struct buf *b)
{
	return b->data + b->off;
}

/* Space for len bytes at the tail: write there, then call buf_wrote(). */
char *buf_reserve(struct buf *b, size_t len);
void buf_wrote(struct buf *b, size_t len);
void buf_eat(struct buf *b, size_t len); /* drops len bytes from the head */
void buf_clear(struct buf *b);           /* keeps a small allocation and frees a large one */
void buf_add(struct buf *b, const void *p, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);
void buf_add_uint(struct buf *b, uint64_t n); /* in decimal */
void buf_printf(struct buf *b, const char *fmt, ...) printf_like(2, 3);
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) printf_like(2, 0);
const char *buf_str(struct buf *b); /* NUL-terminated view */
/* NUL-terminated and malloc'd; b is empty afterwards. ret_len may be NULL. */
char *buf_steal(struct buf *b, size_t *ret_len);
