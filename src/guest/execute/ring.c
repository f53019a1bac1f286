/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "guest/execute/ring_priv.h"

struct chunk {
	struct list on;
	uint64_t at;
	unsigned channel;
	uint32_t len;
	char data[RING_CHUNK];
};

void ring_init(struct ring *r, size_t max_bytes)
{
	*r = (struct ring){ .max_chunks = MAX(max_bytes / RING_CHUNK, (size_t)2) };
	list_init(&r->chunks);
}

static void drop_first(struct ring *r)
{
	struct chunk *c = list_first(&r->chunks, struct chunk, on);

	r->begin = c->at + c->len;
	r->n_chunks--;
	list_del(&c->on);
	free(c);
}

void ring_done(struct ring *r)
{
	while (!list_empty(&r->chunks))
		drop_first(r);
}

static bool has_space(const struct chunk *c, unsigned channel)
{
	return c->channel == channel && c->len < RING_CHUNK;
}

/* A chunk of this channel at the end that has space. */
static struct chunk *last_chunk(struct ring *r, unsigned channel)
{
	struct chunk *c = list_item(r->chunks.prev, struct chunk, on);

	if (!list_empty(&r->chunks) && has_space(c, channel))
		return c;
	if (r->n_chunks == r->max_chunks)
		drop_first(r);
	c = xmalloc(sizeof(*c));
	c->at = r->end;
	c->channel = channel;
	c->len = 0;
	r->n_chunks++;
	list_add_tail(&r->chunks, &c->on);
	return c;
}

void ring_add(struct ring *r, unsigned channel, const char *data, size_t len)
{
	while (len) {
		struct chunk *c = last_chunk(r, channel);
		size_t n = MIN(len, (size_t)(RING_CHUNK - c->len));

		memcpy(c->data + c->len, data, n);
		c->len += (uint32_t)n;
		r->end += n;
		data += n;
		len -= n;
	}
}

struct span ring_at(const struct ring *r, uint64_t at, unsigned *ret_channel)
{
	struct chunk *c;

	assert(at >= r->begin && at < r->end);
	list_each(c, &r->chunks, on)
		if (at < c->at + c->len)
			break;
	*ret_channel = c->channel;
	return (struct span){ c->data + (at - c->at), c->len - (size_t)(at - c->at) };
}
