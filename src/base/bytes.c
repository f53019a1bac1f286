/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/buf.h"

struct bytes *bytes_new(const void *p, size_t len)
{
	struct bytes *b = xmalloc(sizeof(*b) + len + 1);

	atomic_init(&b->refs, 1);
	b->len = len;
	if (len)
		memcpy(b->data, p, len);
	b->data[len] = '\0';
	return b;
}

struct bytes *bytes_from_buf(struct buf *b)
{
	struct bytes *copy = bytes_new(b->len ? buf_head(b) : NULL, b->len);

	buf_clear(b);
	return copy;
}

struct bytes *bytes_ref(struct bytes *b)
{
	if (b)
		atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

void bytes_unref(struct bytes *b)
{
	unsigned had;

	if (!b)
		return;
	had = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
	assert(had > 0);
	if (had == 1)
		free(b);
}
