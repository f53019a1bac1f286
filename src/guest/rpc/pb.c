/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/arena.h"
#include "guest/rpc/pb_priv.h"

/*
 * A message is a run of fields, each with a key: its number and how it is encoded. Fields that the
 * table does not have, or has with another encoding, are passed over, as the format demands. Depth
 * is that of the tables, which never contain themselves.
 */
enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2,
	WIRE_FIXED32 = 5,
};

/* One field as it was found. */
struct found {
	uint32_t number;
	unsigned wire;
	uint64_t value;
	struct span bytes;
};

static struct err *torn(void)
{
	return err_new(ERR_MALFORMED, "the message ends in the middle of a field");
}

static struct err *take_varint(struct span *in, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t byte;

		if (!in->len)
			return torn();
		byte = (uint8_t)*in->p;
		in->p++;
		in->len--;
		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = v;
			return NULL;
		}
	}
	return err_new(ERR_MALFORMED, "a number of the message has more than 64 bits");
}

static struct err *take_bytes(struct span *in, uint64_t len, struct span *ret)
{
	if (len > in->len)
		return torn();
	*ret = (struct span){ in->p, (size_t)len };
	in->p += len;
	in->len -= (size_t)len;
	return NULL;
}

static struct err *take_field(struct span *in, struct found *ret)
{
	uint64_t key;
	struct err *e = take_varint(in, &key);

	if (e)
		return e;
	*ret = (struct found){ .number = (uint32_t)(key >> 3), .wire = key & 7 };
	if (!ret->number || key >> 3 > 0x1fffffff)
		return err_new(ERR_MALFORMED, "field numbers are from 1 to 536870911");
	if (ret->wire == WIRE_VARINT)
		return take_varint(in, &ret->value);
	if (ret->wire == WIRE_FIXED64)
		return take_bytes(in, 8, &ret->bytes);
	if (ret->wire == WIRE_FIXED32)
		return take_bytes(in, 4, &ret->bytes);
	if (ret->wire != WIRE_BYTES)
		return err_new(ERR_MALFORMED, "field %u has encoding %u, which is not supported",
			       ret->number, ret->wire);
	e = take_varint(in, &ret->value);
	return e ? e : take_bytes(in, ret->value, &ret->bytes);
}

static struct err *text_of(struct arena *a, const struct pb_field *f, struct span s, char **ret)
{
	if (!utf8_valid(s.p, s.len))
		return err_new(ERR_MALFORMED, "%s: not UTF-8", f->name);
	if (s.len && memchr(s.p, 0, s.len))
		return err_new(ERR_INVALID, "%s: text with a NUL character", f->name);
	*ret = arena_strndup(a, s.p ? s.p : "", s.len);
	return NULL;
}

static struct err *list_add(struct arena *a, const struct pb_field *f, struct pb_strings *l,
			    struct span s)
{
	char *text;
	struct err *e = text_of(a, f, s, &text);

	if (e)
		return e;
	if (l->n == PB_LIST_MAX)
		return err_new(ERR_TOO_LARGE, "%s: more than %d entries", f->name, PB_LIST_MAX);
	if (l->n == l->space) {
		size_t space = l->space ? l->space * 2 : 8;
		char **list = arena_new_n(a, char *, space);

		if (l->n)
			memcpy(list, l->list, l->n * sizeof(*list));
		l->list = list;
		l->space = space;
	}
	l->list[l->n++] = text;
	return NULL;
}

/* An entry of a map is a message with the fields 1 and 2, either of which may be left out. */
static struct err *map_add(struct arena *a, const struct pb_field *f, struct pb_strings *l,
			   struct span entry)
{
	struct span pair[2] = { { "", 0 }, { "", 0 } };
	struct found got;
	struct err *e = NULL;

	while (!e && entry.len) {
		e = take_field(&entry, &got);
		if (!e && got.number <= 2 && got.wire == WIRE_BYTES)
			pair[got.number - 1] = got.bytes;
	}
	for (int i = 0; i < 2 && !e; i++)
		e = list_add(a, f, l, pair[i]);
	return e;
}

static unsigned wire_of(enum pb_type type)
{
	return type <= PB_ENUM ? WIRE_VARINT : WIRE_BYTES;
}

static struct err *store(const struct pb_field *f, const struct found *got, struct arena *a,
			 char *to)
{
	switch (f->type) {
	case PB_INT32:
	case PB_ENUM:
		*(int32_t *)(void *)to = (int32_t)got->value;
		return NULL;
	case PB_UINT32:
		*(uint32_t *)(void *)to = (uint32_t)got->value;
		return NULL;
	case PB_BOOL:
		*(bool *)to = got->value != 0;
		return NULL;
	case PB_STRING:
		return text_of(a, f, got->bytes, (char **)(void *)to);
	case PB_BYTES:
		*(struct span *)(void *)to = got->bytes;
		return NULL;
	case PB_MESSAGE: /* of several, later fields override earlier ones */
		return f->of->size ? pb_decode(f->of, got->bytes, a, to) : NULL;
	case PB_STRINGS:
		return list_add(a, f, (struct pb_strings *)(void *)to, got->bytes);
	case PB_MAP:
		return map_add(a, f, (struct pb_strings *)(void *)to, got->bytes);
	case PB_BLOBS:
	case PB_MESSAGES:
	case PB_TYPE_MAX_:
		break;
	}
	return NULL;
}

static const struct pb_field *field_of(const struct pb_message *m, const struct found *got)
{
	for (const struct pb_field *f = m->fields; f && f->name; f++)
		if (f->number == got->number)
			return wire_of(f->type) == got->wire ? f : NULL;
	return NULL;
}

struct err *pb_decode(const struct pb_message *m, struct span data, struct arena *a, void *ret)
{
	char *base = ret;
	struct err *e = NULL;

	while (!e && data.len) {
		const struct pb_field *f;
		struct found got;

		e = take_field(&data, &got);
		f = e ? NULL : field_of(m, &got);
		if (!f)
			continue;
		if (f->seen != PB_UNSEEN)
			*(uint32_t *)(void *)(base + f->seen) = f->number;
		e = store(f, &got, a, base + f->at);
	}
	return e;
}

void pb_put_varint(struct buf *out, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		buf_add_char(out, (char)(v | 0x80));
	buf_add_char(out, (char)v);
}

void pb_put_int(struct buf *out, uint32_t number, int64_t v)
{
	if (!v)
		return;
	pb_put_varint(out, (uint64_t)number << 3 | WIRE_VARINT);
	pb_put_varint(out, (uint64_t)v);
}

void pb_put_head(struct buf *out, uint32_t number, size_t len)
{
	pb_put_varint(out, (uint64_t)number << 3 | WIRE_BYTES);
	pb_put_varint(out, len);
}

void pb_put_bytes(struct buf *out, uint32_t number, const void *p, size_t len)
{
	pb_put_head(out, number, len);
	buf_add(out, p, len);
}

void pb_put_text(struct buf *out, uint32_t number, const char *s)
{
	if (*s)
		pb_put_bytes(out, number, s, strlen(s));
}
