/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/protobuf_priv.h"

bool pb_varint(struct pb_reader *r, uint64_t *ret)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
		unsigned char c = *r->p++;

		n |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80)) {
			*ret = n;
			return true;
		}
	}
	return false;
}

bool pb_fixed(struct pb_reader *r, size_t size, uint64_t *ret)
{
	*ret = 0;
	if ((size_t)(r->end - r->p) < size)
		return false;
	for (size_t i = 0; i < size; i++)
		*ret |= (uint64_t)r->p[i] << (8 * i);
	r->p += size;
	return true;
}

bool pb_item(struct pb_reader *r, struct pb_item *it)
{
	uint64_t tag, len;

	if (!pb_varint(r, &tag))
		return false;
	*it = (struct pb_item){ .number = (uint32_t)tag >> 3, .wire = tag & 7 };
	if (!it->number || tag >> 32)
		return false;
	switch (it->wire) {
	case PB_VARINT:
		return pb_varint(r, &it->n);
	case PB_I64:
		return pb_fixed(r, 8, &it->n);
	case PB_I32:
		return pb_fixed(r, 4, &it->n);
	case PB_LEN:
		if (!pb_varint(r, &len) || len > (uint64_t)(r->end - r->p))
			return false;
		it->bytes = (struct pb_reader){ r->p, r->p + len };
		r->p += len;
		return true;
	case PB_GROUP:
	case PB_GROUP_END:
		return true;
	}
	return false;
}

bool pb_skip(struct pb_reader *r, const struct pb_item *it)
{
	struct pb_item inner;
	size_t depth = it->wire == PB_GROUP;

	if (it->wire == PB_GROUP_END)
		return false;
	while (depth) {
		if (r->p == r->end || !pb_item(r, &inner))
			return false;
		if (inner.wire == PB_GROUP)
			depth++;
		else if (inner.wire == PB_GROUP_END)
			depth--;
	}
	return true;
}

bool pb_parts(struct pb_reader r, const char *wires, struct pb_parts *ret)
{
	size_t known = strlen(wires);
	struct pb_item it;

	*ret = (struct pb_parts){ 0 };
	while (r.p < r.end) {
		if (!pb_item(&r, &it))
			return false;
		if (it.number > known) {
			if (!pb_skip(&r, &it))
				return false;
			continue;
		}
		if ((int)it.wire != wires[it.number - 1] - '0')
			return false;
		if (it.wire == PB_LEN)
			ret->bytes[it.number] = it.bytes;
		else
			ret->n[it.number] = (int64_t)it.n;
	}
	return true;
}

size_t pb_varint_write(unsigned char to[PB_VARINT_MAX], uint64_t n)
{
	size_t len = 0;

	for (; n >= 0x80; n >>= 7)
		to[len++] = (unsigned char)(n | 0x80);
	to[len++] = (unsigned char)n;
	return len;
}
