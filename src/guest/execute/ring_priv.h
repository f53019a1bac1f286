/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/str.h"

/*
 * The last bytes that a process wrote, and on which channel. Bytes are counted from 0 over all
 * channels together, in the order in which they were read; the oldest make room. The limit is one
 * of memory: an output of single bytes on alternating channels is kept for a shorter while.
 */
enum {
	RING_CHUNK = 4000, /* with its head and malloc's about a page */
};

struct ring {
	struct list chunks; /* oldest first */
	size_t n_chunks, max_chunks;
	uint64_t begin, end; /* the bytes that are kept */
};

void ring_init(struct ring *r, size_t max_bytes);
void ring_done(struct ring *r);
void ring_add(struct ring *r, unsigned channel, const char *data, size_t len);
/* Some of the bytes from at on, which is kept: those that lie together. */
struct span ring_at(const struct ring *r, uint64_t at, unsigned *ret_channel);
