/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct http_headers;

/*
 * SPDY/3 header blocks: 32-bit counts and lengths, compressed with one context per direction for
 * the whole session. Every block must therefore pass through here, in order, whether or not anybody
 * wants it. No I/O.
 */
struct spdy_zip;

struct spdy_zip *spdy_zip_new(void);
void spdy_zip_free(struct spdy_zip *z);

/* False if the block is malformed or larger than 64 KiB; the context cannot be used any more. */
bool spdy_zip_read(struct spdy_zip *z, const void *p, size_t len, struct http_headers *ret);
void spdy_zip_write_empty(struct spdy_zip *z, struct buf *to); /* writes a block without headers */

/* The 1,423 bytes that both sides preload into their contexts. */
const unsigned char *spdy_dictionary(size_t *ret_len);
