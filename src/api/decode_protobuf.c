/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode_priv.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * Bodies in Kubernetes' protobuf, as kubectl's `create` commands and typed Go clients send them,
 * into the tree that the same object has in JSON:
 *
 *   "k8s\0"  Unknown { 1: TypeMeta { 1: apiVersion, 2: kind }, 2: the object's bytes }
 *
 * What JSON inlines is a message of its own here. Go writes members that are not pointers even when
 * they are empty; those that its JSON would omit are dropped when the tree is read as its type. A
 * member without a number in the table is refused (ERR_MEDIA_TYPE): nothing is lost silently.
 */
enum {
	DEPTH_MAX = 32,
	VALUES_MAX = 100000,
};

enum wire {
	WIRE_VARINT = 0,
	WIRE_I64 = 1,
	WIRE_LEN = 2,
	WIRE_I32 = 5,
};

struct reader {
	const unsigned char *p, *end;
};

struct item {
	uint64_t number;
	enum wire wire;
	uint64_t n;          /* WIRE_VARINT, WIRE_I64 */
	struct reader bytes; /* WIRE_LEN */
};

struct decoding {
	struct json_doc *d;
	unsigned depth;
	size_t values;
};

static struct err *broken(void)
{
	return err_new(ERR_MALFORMED, "read protobuf: body is cut off or not well-formed");
}

static bool read_varint(struct reader *r, uint64_t *ret)
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

static bool read_fixed(struct reader *r, size_t size, uint64_t *ret)
{
	*ret = 0;
	if ((size_t)(r->end - r->p) < size)
		return false;
	for (size_t i = 0; i < size; i++)
		*ret |= (uint64_t)r->p[i] << (8 * i);
	r->p += size;
	return true;
}

static bool read_item(struct reader *r, struct item *it)
{
	uint64_t tag, len;

	if (!read_varint(r, &tag))
		return false;
	it->number = tag >> 3;
	it->wire = tag & 7;
	switch (it->wire) {
	case WIRE_VARINT:
		return read_varint(r, &it->n);
	case WIRE_I64:
		return read_fixed(r, 8, &it->n);
	case WIRE_I32:
		return read_fixed(r, 4, &it->n);
	case WIRE_LEN:
		if (!read_varint(r, &len) || len > (uint64_t)(r->end - r->p))
			return false;
		it->bytes = (struct reader){ r->p, r->p + len };
		r->p += len;
		return true;
	}
	return false;
}

/* The members of a message, or of the one that is inlined in t under that number. */
struct message {
	const struct type *type;
	uint64_t inlined; /* 0: it is t itself */
};
static struct err *decode_message(struct decoding *x, struct reader r, struct message m,
				  struct json *obj);

static struct err *text_of(struct decoding *x, struct reader r, struct json **ret)
{
	const char *s = (const char *)r.p;
	size_t len = (size_t)(r.end - r.p);

	if (!utf8_valid(s, len) || memchr(s, '\0', len))
		return err_new(ERR_MALFORMED, "read protobuf: a string is not UTF-8 text");
	*ret = json_new_strn(x->d, s, len);
	return NULL;
}

/* A message in which only one member matters: a Quantity's text. */
static struct err *quantity_of(struct decoding *x, struct reader r, struct json **ret)
{
	struct item it;

	*ret = NULL;
	while (r.p < r.end) {
		if (!read_item(&r, &it))
			return broken();
		if (it.number == 1 && it.wire == WIRE_LEN)
			return text_of(x, it.bytes, ret);
	}
	return NULL;
}

static struct err *int_or_string_of(struct decoding *x, struct reader r, struct json **ret)
{
	struct reader text = { 0 };
	int64_t number = 0, type = 0;
	struct item it;

	while (r.p < r.end) {
		if (!read_item(&r, &it))
			return broken();
		if (it.number == 1 && it.wire == WIRE_VARINT)
			type = (int64_t)it.n;
		if (it.number == 2 && it.wire == WIRE_VARINT)
			number = (int64_t)it.n;
		if (it.number == 3 && it.wire == WIRE_LEN)
			text = it.bytes;
	}
	if (type == 1)
		return text_of(x, text, ret);
	*ret = json_new_int(x->d, number);
	return NULL;
}

/* An empty message is Go's zero time, which is absent in the tree. */
static struct err *time_of(struct decoding *x, struct reader r, bool micro, struct json **ret)
{
	int64_t seconds = 0, nanos = 0;
	bool any = r.p < r.end;
	char text[CLOCK_TEXT_MAX];
	struct item it;

	*ret = NULL;
	while (r.p < r.end) {
		if (!read_item(&r, &it))
			return broken();
		if (it.number == 1 && it.wire == WIRE_VARINT)
			seconds = (int64_t)it.n;
		if (it.number == 2 && it.wire == WIRE_VARINT)
			nanos = (int64_t)it.n;
	}
	if (!any)
		return NULL;
	if (seconds < -62135596800LL || seconds > 253402300799LL || nanos < 0 || nanos > 999999999)
		return err_new(ERR_MALFORMED, "read protobuf: a time is out of range");
	(micro ? clock_format_micro : clock_format)(seconds * 1000000 + nanos / 1000, text);
	*ret = json_new_str(x->d, text);
	return NULL;
}

/* Raw JSON in a message: managedFields, RawExtension. */
static struct err *any_of(struct decoding *x, struct reader r, struct json **ret)
{
	static const struct json_limits limits = { .max_depth = DEPTH_MAX };
	autoptr(json_doc) raw = NULL;
	struct item it;
	struct err *e = NULL;

	while (!e && r.p < r.end) {
		if (!read_item(&r, &it))
			return broken();
		if (it.number != 1 || it.wire != WIRE_LEN || it.bytes.p == it.bytes.end)
			continue;
		json_doc_free(take(raw));
		e = json_parse((const char *)it.bytes.p, (size_t)(it.bytes.end - it.bytes.p),
			       &limits, &raw);
	}
	if (!e)
		*ret = json_copy(x->d, json_root(raw));
	return e;
}

static struct err *value_of(struct decoding *x, const struct item *it, const struct type *t,
			    struct json **ret);

/* A list that is the value of a map is a message of its elements. */
static struct err *list_of(struct decoding *x, struct reader r, const struct type *t,
			   struct json **ret)
{
	struct json *list = json_arr(x->d), *value;
	struct err *e = NULL;
	struct item it;

	while (!e && r.p < r.end) {
		if (!read_item(&r, &it))
			return broken();
		value = NULL;
		if (it.number == 1)
			e = value_of(x, &it, t->elem, &value);
		if (!e && value)
			json_push(x->d, list, value);
	}
	*ret = list;
	return e;
}

static struct err *message_of(struct decoding *x, struct reader r, const struct type *t,
			      struct json **ret)
{
	autofree char *b64 = NULL;

	switch (t->kind) {
	case TYPE_STRING:
		return text_of(x, r, ret);
	case TYPE_BYTES:
		b64 = base64_encode(r.p, (size_t)(r.end - r.p), false);
		*ret = json_new_str(x->d, b64);
		return NULL;
	case TYPE_QUANTITY:
		return quantity_of(x, r, ret);
	case TYPE_INT_OR_STRING:
		return int_or_string_of(x, r, ret);
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
		return time_of(x, r, t->kind == TYPE_MICRO_TIME, ret);
	case TYPE_OBJECT:
		*ret = json_obj(x->d);
		return decode_message(x, r, (struct message){ t }, *ret);
	case TYPE_ANY:
		return any_of(x, r, ret);
	case TYPE_LIST:
		return list_of(x, r, t, ret);
	case TYPE_BOOL:
	case TYPE_INT32:
	case TYPE_INT64:
	case TYPE_NUMBER:
	case TYPE_MAP:
	case TYPE_KIND_MAX_:
		break;
	}
	return broken();
}

static struct err *value_of(struct decoding *x, const struct item *it, const struct type *t,
			    struct json **ret)
{
	double real;

	if (++x->values > VALUES_MAX)
		return err_new(ERR_TOO_LARGE, "read protobuf: more than %d values", VALUES_MAX);
	if (it->wire == WIRE_LEN)
		return message_of(x, it->bytes, t, ret);
	switch (t->kind) {
	case TYPE_BOOL:
		*ret = json_new_bool(x->d, it->n != 0);
		return NULL;
	case TYPE_INT32:
		*ret = json_new_int(x->d, (int32_t)it->n);
		return NULL;
	case TYPE_INT64:
		*ret = json_new_int(x->d, (int64_t)it->n);
		return NULL;
	case TYPE_NUMBER:
		memcpy(&real, &it->n, sizeof(real));
		*ret = json_new_real(x->d, real);
		return it->wire == WIRE_I64 && real == real && real - real == 0 ? NULL : broken();
	case TYPE_STRING:
	case TYPE_INT_OR_STRING:
	case TYPE_QUANTITY:
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
	case TYPE_BYTES:
	case TYPE_OBJECT:
	case TYPE_MAP:
	case TYPE_LIST:
	case TYPE_ANY:
	case TYPE_KIND_MAX_:
		break;
	}
	return broken();
}

/* One entry of a map is a message of key and value; both may be left out when empty. */
static struct err *decode_entry(struct decoding *x, struct reader r, const struct type *t,
				struct json *obj)
{
	struct json *key = NULL, *value = NULL;
	struct item it;
	struct err *e = NULL;

	while (!e && r.p < r.end) {
		if (!read_item(&r, &it))
			return broken();
		if (it.number == 1 && it.wire == WIRE_LEN)
			e = text_of(x, it.bytes, &key);
		else if (it.number == 2)
			e = value_of(x, &it, t->elem, &value);
	}
	if (e)
		return e;
	if (!value && (t->elem->kind == TYPE_STRING || t->elem->kind == TYPE_BYTES))
		value = json_new_str(x->d, "");
	if (value)
		(void)json_set(x->d, obj, key ? json_str(key) : "", value);
	return NULL;
}

static struct err *decode_field(struct decoding *x, const struct item *it, const struct field *f,
				struct json *obj)
{
	struct json *value = NULL;
	struct err *e;

	if (f->type->kind == TYPE_MAP)
		return it->wire == WIRE_LEN ? decode_entry(x, it->bytes, f->type,
							   json_need_obj(x->d, obj, f->name))
					    : broken();
	if (f->type->kind == TYPE_LIST) {
		e = value_of(x, it, f->type->elem, &value);
		if (!e && value)
			json_push(x->d, json_need_arr(x->d, obj, f->name), value);
		return e;
	}
	e = value_of(x, it, f->type, &value);
	if (!e && value)
		(void)json_set(x->d, obj, f->name, value);
	return e;
}

static const struct field *field_of(struct message m, uint64_t number)
{
	for (const struct field *f = m.type->fields; f && f->name; f++)
		if (f->pb > 0 && (uint64_t)f->pb == number && (uint64_t)f->pb_in == m.inlined)
			return f;
	return NULL;
}

static bool is_inlined(struct message m, uint64_t number)
{
	for (const struct field *f = m.type->fields; f && f->name && !m.inlined; f++)
		if (f->pb_in > 0 && (uint64_t)f->pb_in == number)
			return true;
	return false;
}

static struct err *decode_member(struct decoding *x, const struct item *it, struct message m,
				 struct json *obj)
{
	const struct field *f = field_of(m, it->number);

	if (f)
		return decode_field(x, it, f, obj);
	if (is_inlined(m, it->number) && it->wire == WIRE_LEN)
		return decode_message(x, it->bytes, (struct message){ m.type, it->number }, obj);
	return err_new(ERR_MEDIA_TYPE,
		       "member %llu of %s is not known in protobuf; send application/json",
		       (unsigned long long)it->number, m.type->name ? m.type->name : "this object");
}

static struct err *decode_message(struct decoding *x, struct reader r, struct message m,
				  struct json *obj)
{
	struct item it;
	struct err *e = NULL;

	if (++x->depth > DEPTH_MAX)
		return err_new(ERR_MALFORMED, "read protobuf: nested more than %d levels deep",
			       DEPTH_MAX);
	while (!e && r.p < r.end) {
		if (!read_item(&r, &it))
			return broken();
		e = decode_member(x, &it, m, obj);
	}
	x->depth--;
	return e;
}

static const struct field meta_fields[] = {
	{ .name = "apiVersion", .type = &type_string, .pb = 1 },
	{ .name = "kind", .type = &type_string, .pb = 2 },
	{ 0 },
};
static const struct type type_meta = { TYPE_OBJECT, "TypeMeta", meta_fields };

/* The envelope: *ret_raw is the object within it. */
static struct err *open_envelope(struct decoding *x, struct reader r, struct json *root,
				 struct reader *ret_raw)
{
	struct item it;
	struct err *e = NULL;

	while (!e && r.p < r.end) {
		if (!read_item(&r, &it))
			return broken();
		if (it.number == 1 && it.wire == WIRE_LEN)
			e = decode_message(x, it.bytes, (struct message){ &type_meta }, root);
		else if (it.number == 2 && it.wire == WIRE_LEN)
			*ret_raw = it.bytes;
	}
	return e;
}

struct err *decode_protobuf(const char *data, size_t len, const struct type *t,
			    struct json_doc **ret)
{
	autoptr(json_doc) d = json_doc_new();
	struct decoding x = { .d = d };
	struct json *root = json_obj(d);
	struct reader raw = { 0 },
		      all = { (const unsigned char *)data, (const unsigned char *)data + len };
	struct err *e;

	json_set_root(d, root);
	if (len < 4 || memcmp(data, "k8s", 4) != 0)
		return broken();
	all.p += 4;
	e = open_envelope(&x, all, root, &raw);
	if (!e)
		e = decode_message(&x, raw, (struct message){ t }, root);
	if (!e)
		*ret = take(d);
	return e;
}
