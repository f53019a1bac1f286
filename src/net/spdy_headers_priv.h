/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct http_headers;

/*
 * SPDY/3 header blocks: 32-bit counts and lengths, compressed with one context a direction for the
 * whole session. So every block must pass through here, in order, whether anybody wants it or not.
 * No I/O.
 */
struct spdy_zip;

struct spdy_zip *spdy_zip_new(void);
void spdy_zip_free(struct spdy_zip *z);

/* False: the block is malformed or over 64 KiB, and the context cannot be used any more. */
bool spdy_zip_read(struct spdy_zip *z, const void *p, size_t len, struct http_headers *ret);
void spdy_zip_write_empty(struct spdy_zip *z, struct buf *to); /* a block without headers */

/* The 1,423 bytes that both sides have seen before the first. */
const unsigned char *spdy_dictionary(size_t *ret_len);
