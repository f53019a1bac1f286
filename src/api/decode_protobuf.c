/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode_priv.h"
#include "api/encode.h"
#include "api/protobuf_priv.h"
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
 * they are empty; those that its JSON would omit are dropped when the tree is read as its type.
 *
 * A number that the table does not know is skipped, as a kube-apiserver does: it is how older
 * servers read newer clients, and there is no way to report it that a client would see. A number
 * that comes with another wire type than its own is an error, also as in Go. What is given twice is
 * merged if it is a message, and otherwise the last one counts.
 */
enum {
	DEPTH_MAX = 64, /* a schema is one level for each of its own, as JSON has two */
	VALUES_MAX = 100000,
};

struct decoding {
	struct json_doc *d;
	unsigned depth;
	size_t values;
	/* Go sorts the keys of a map. Whoever does not may have given one twice. */
	const struct json *map; /* the last one that got an entry */
	const char *key;        /* of that entry */
	bool unsorted;
};

static struct err *broken(void)
{
	return err_new(ERR_MALFORMED, "read protobuf: body is cut off or not well-formed");
}

static struct err *count_value(struct decoding *x)
{
	if (++x->values <= VALUES_MAX)
		return NULL;
	return err_new(ERR_TOO_LARGE, "read protobuf: more than %d values", VALUES_MAX);
}

/* The members of a message, or of the one that is inlined in t under that number. */
struct message {
	const struct type *type;
	uint64_t inlined; /* 0: it is t itself */
};
static struct err *decode_message(struct decoding *x, struct pb_reader r, struct message m,
				  struct json *obj);

static struct err *text_of(struct decoding *x, struct pb_reader r, struct json **ret)
{
	const char *s = (const char *)r.p;
	size_t len = (size_t)(r.end - r.p);

	if (!utf8_valid(s, len) || memchr(s, '\0', len))
		return err_new(ERR_MALFORMED, "read protobuf: a string is not UTF-8 text");
	*ret = json_new_strn(x->d, s, len);
	return NULL;
}

/* Without a text it is 0. */
static struct err *quantity_of(struct decoding *x, struct pb_reader r, struct json **ret)
{
	struct pb_parts p;

	if (!pb_parts(r, "2", &p))
		return broken();
	if (p.bytes[1].p == p.bytes[1].end) {
		*ret = json_new_str(x->d, "0");
		return NULL;
	}
	return text_of(x, p.bytes[1], ret);
}

static struct err *int_or_string_of(struct decoding *x, struct pb_reader r, struct json **ret)
{
	struct pb_parts p;

	if (!pb_parts(r, "002", &p))
		return broken();
	if (p.n[1] == 1)
		return text_of(x, p.bytes[3], ret);
	*ret = json_new_int(x->d, (int32_t)p.n[2]);
	return NULL;
}

/* An empty message is Go's zero time, which is absent in the tree, and so is that time itself. */
static struct err *time_of(struct decoding *x, struct pb_reader r, bool micro, struct json **ret)
{
	static const int64_t zero_s = -62135596800LL, last_s = 253402300799LL;
	char text[CLOCK_TEXT_MAX];
	struct pb_parts p;
	int64_t nanos;

	*ret = NULL;
	if (r.p == r.end)
		return NULL;
	if (!pb_parts(r, "00", &p))
		return broken();
	nanos = (int32_t)p.n[2];
	if (p.n[1] < zero_s || p.n[1] > last_s || nanos < 0 || nanos > 999999999)
		return err_new(ERR_MALFORMED, "read protobuf: a time is out of range");
	if (p.n[1] == zero_s && !(micro && nanos))
		return NULL;
	(micro ? clock_format_micro : clock_format)(p.n[1] * 1000000 + nanos / 1000, text);
	*ret = json_new_str(x->d, text);
	return NULL;
}

/* Raw JSON in a message: managedFields, RawExtension. */
static struct err *any_of(struct decoding *x, struct pb_reader r, struct json **ret)
{
	static const struct json_limits limits = { .max_depth = DEPTH_MAX };
	autoptr(json_doc) raw = NULL;
	struct pb_parts p;
	struct err *e;

	if (!pb_parts(r, "2", &p))
		return broken();
	*ret = NULL;
	if (p.bytes[1].p == p.bytes[1].end)
		return NULL;
	e = json_parse((const char *)p.bytes[1].p, (size_t)(p.bytes[1].end - p.bytes[1].p), &limits,
		       &raw);
	if (!e)
		*ret = json_copy(x->d, json_root(raw));
	return e;
}

static struct err *duration_of(struct decoding *x, struct pb_reader r, struct json **ret)
{
	struct pb_parts p;

	if (!pb_parts(r, "0", &p) || p.n[1] < 0)
		return broken();
	*ret = json_new_strf(x->d, "%lld.%03llds", (long long)(p.n[1] / 1000000000),
			     (long long)(p.n[1] / 1000000 % 1000));
	return NULL;
}

static struct err *object_of(struct decoding *x, struct pb_reader r, const struct type *t,
			     struct json **ret)
{
	*ret = json_obj(x->d);
	return decode_message(x, r, (struct message){ t }, *ret);
}

/* The member with the first or second number of a message that is one thing or another. What JSON
 * would have shows in *ret: of an object and something else, the object. */
static struct err *choice_member(struct decoding *x, const struct pb_item *it, const struct type *t,
				 struct json **ret)
{
	const struct type *object = t->elem ? t->elem : t;
	bool first = it->number == 1;
	struct json *v = NULL;
	struct err *e = count_value(x);

	if (e)
		return e;
	if (t->form == FORM_OR_BOOL && first) {
		if (it->wire != PB_VARINT)
			return broken();
		if (!json_is(*ret, JSON_OBJ))
			*ret = json_new_bool(x->d, it->n != 0);
		return NULL;
	}
	if (it->wire != PB_LEN)
		return broken();
	if (t->form == FORM_OR_BOOL || first)
		return object_of(x, it->bytes, object, ret);
	e = t->form == FORM_OR_TEXTS ? text_of(x, it->bytes, &v)
				     : object_of(x, it->bytes, object, &v);
	if (e || json_is(*ret, JSON_OBJ))
		return e;
	if (!*ret)
		*ret = json_arr(x->d);
	json_push(x->d, *ret, v);
	return NULL;
}

/* An empty message is what Go makes of it in JSON: false, or null. */
static struct err *choice_of(struct decoding *x, struct pb_reader r, const struct type *t,
			     struct json **ret)
{
	struct pb_item it;
	struct err *e = NULL;

	*ret = NULL;
	while (!e && r.p < r.end) {
		if (!pb_item(&r, &it))
			return broken();
		if (it.number == 1 || it.number == 2)
			e = choice_member(x, &it, t, ret);
		else if (!pb_skip(&r, &it))
			return broken();
	}
	if (!e && !*ret && t->form == FORM_OR_BOOL)
		*ret = json_new_bool(x->d, false);
	return e;
}

static struct err *message_of(struct decoding *x, struct pb_reader r, const struct type *t,
			      struct json **ret)
{
	autofree char *b64 = NULL;

	if (t->form == FORM_DURATION)
		return duration_of(x, r, ret);
	if (t->form != FORM_PLAIN)
		return choice_of(x, r, t, ret);
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
		return object_of(x, r, t, ret);
	case TYPE_ANY:
		return any_of(x, r, ret);
	case TYPE_BOOL:
	case TYPE_INT32:
	case TYPE_INT64:
	case TYPE_NUMBER:
	case TYPE_MAP:
	case TYPE_LIST:
	case TYPE_KIND_MAX_:
		break;
	}
	return broken();
}

static struct err *value_of(struct decoding *x, const struct pb_item *it, const struct type *t,
			    struct json **ret)
{
	struct err *e = count_value(x);
	double real;

	if (e)
		return e;
	if (it->wire == PB_LEN)
		return message_of(x, it->bytes, t, ret);
	if (it->wire != (t->kind == TYPE_NUMBER ? PB_I64 : PB_VARINT))
		return broken();
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
		return real == real && real - real == 0 ? NULL : broken();
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

/* Numbers of a list may come packed, one behind the other in one item. */
static struct err *decode_packed(struct decoding *x, struct pb_reader r, const struct type *elem,
				 struct json *list)
{
	struct pb_item it = { .wire = elem->kind == TYPE_NUMBER ? PB_I64 : PB_VARINT };
	struct err *e = NULL;

	while (!e && r.p < r.end) {
		struct json *value = NULL;

		if (!(it.wire == PB_I64 ? pb_fixed(&r, 8, &it.n) : pb_varint(&r, &it.n)))
			return broken();
		e = value_of(x, &it, elem, &value);
		if (!e)
			json_push(x->d, list, value);
	}
	return e;
}

static bool is_number(const struct type *t)
{
	return t->kind == TYPE_BOOL || t->kind == TYPE_INT32 || t->kind == TYPE_INT64 ||
	       t->kind == TYPE_NUMBER;
}

static struct err *decode_element(struct decoding *x, const struct pb_item *it,
				  const struct type *elem, struct json *list)
{
	struct json *value = NULL;
	struct err *e;

	if (it->wire == PB_LEN && is_number(elem))
		return decode_packed(x, it->bytes, elem, list);
	e = value_of(x, it, elem, &value);
	if (!e && !value && elem->kind == TYPE_ANY)
		value = json_new_null(x->d); /* an allowed value of an enumeration */
	if (!e && value)
		json_push(x->d, list, value);
	return e;
}

/* A list in a map is alone in a message, under number 1. */
static struct err *list_of(struct decoding *x, struct pb_reader r, const struct type *t,
			   struct json **ret)
{
	struct err *e = count_value(x);
	struct pb_item it;

	*ret = json_arr(x->d);
	while (!e && r.p < r.end) {
		if (!pb_item(&r, &it))
			return broken();
		if (it.number == 1)
			e = decode_element(x, &it, t->elem, *ret);
		else if (!pb_skip(&r, &it))
			return broken();
	}
	return e;
}

/* What an entry without a value stands for. */
static struct err *value_left_out(struct decoding *x, const struct type *t, struct json **ret)
{
	static const unsigned char none[1];
	const struct pb_item zero = { .wire = is_number(t) ? PB_VARINT : PB_LEN,
				      .bytes = { none, none } };

	return t->kind == TYPE_LIST ? list_of(x, zero.bytes, t, ret) : value_of(x, &zero, t, ret);
}

static struct err *decode_entry_value(struct decoding *x, const struct pb_item *it,
				      const struct type *t, struct json **ret)
{
	if (t->kind != TYPE_LIST)
		return value_of(x, it, t, ret);
	return it->wire == PB_LEN ? list_of(x, it->bytes, t, ret) : broken();
}

static void add_entry(struct decoding *x, struct json *map, const char *key, struct json *value)
{
	if (json_len(map) && (x->map != map || strcmp(x->key, key) >= 0))
		x->unsorted = true;
	json_add(x->d, map, key, value);
	x->map = map;
	x->key = key;
}

/* One entry of a map is a message of key and value; both may be left out when empty. */
static struct err *decode_entry(struct decoding *x, struct pb_reader r, const struct type *t,
				struct json *obj)
{
	struct json *key = NULL, *value = NULL;
	struct pb_item it;
	struct err *e = NULL;

	while (!e && r.p < r.end) {
		if (!pb_item(&r, &it))
			return broken();
		if (it.number == 1)
			e = it.wire == PB_LEN ? text_of(x, it.bytes, &key) : broken();
		else if (it.number == 2)
			e = decode_entry_value(x, &it, t->elem, &value);
		else if (!pb_skip(&r, &it))
			return broken();
	}
	if (!e && !value)
		e = value_left_out(x, t->elem, &value);
	if (!e && value)
		add_entry(x, obj, key ? json_str(key) : "", value);
	return e;
}

/* A message that is given twice is one: the second adds to the first. */
static struct err *decode_inner(struct decoding *x, struct pb_reader r, const struct field *f,
				struct json *obj)
{
	struct err *e = count_value(x);

	return e ? e
		 : decode_message(x, r, (struct message){ f->type },
				  json_need_obj(x->d, obj, f->name));
}

static struct err *decode_field(struct decoding *x, const struct pb_item *it, const struct field *f,
				struct json *obj)
{
	struct json *value = NULL;
	struct err *e;

	if (f->type->kind == TYPE_LIST)
		return decode_element(x, it, f->type->elem, json_need_arr(x->d, obj, f->name));
	if (f->type->kind == TYPE_MAP ||
	    (f->type->kind == TYPE_OBJECT && f->type->form == FORM_PLAIN)) {
		if (it->wire != PB_LEN)
			return broken();
		return f->type->kind == TYPE_MAP ? decode_entry(x, it->bytes, f->type,
								json_need_obj(x->d, obj, f->name))
						 : decode_inner(x, it->bytes, f, obj);
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

static struct err *decode_member(struct decoding *x, struct pb_reader *r, struct message m,
				 struct json *obj)
{
	const struct field *f;
	struct pb_item it;

	if (!pb_item(r, &it))
		return broken();
	f = field_of(m, it.number);
	if (f)
		return decode_field(x, &it, f, obj);
	if (is_inlined(m, it.number))
		return it.wire == PB_LEN
			       ? decode_message(x, it.bytes, (struct message){ m.type, it.number },
						obj)
			       : broken();
	return pb_skip(r, &it) ? NULL : broken();
}

static void settle_maps(struct json_doc *d, struct json *v, const struct type *t);

/* f is NULL for the apiVersion and kind of a body that has no such members. */
static void settle_member_maps(struct json_doc *d, struct json *v, const struct field *f)
{
	if (f)
		settle_maps(d, v, f->type);
}

/* Of keys that appear twice in a map the last one counts. At the end, and once: maps may be long,
 * and messages may come in many pieces. */
static void settle_maps(struct json_doc *d, struct json *v, const struct type *t)
{
	struct decode_walk silent = { .d = d, .duplicates = true };

	if (t->kind == TYPE_MAP)
		decode_settle_duplicates(&silent, v, NULL, false);
	else if (t->kind == TYPE_LIST)
		json_each(it, v)
			settle_maps(d, it.val, t->elem);
	else if (t->form == FORM_OR_TEXTS && json_is(v, JSON_OBJ))
		settle_maps(d, v, t->elem);
	else if (t->kind == TYPE_OBJECT && json_is(v, JSON_OBJ))
		json_each(it, v)
			settle_member_maps(d, it.val, schema_field(t, it.key));
}

static struct err *decode_message(struct decoding *x, struct pb_reader r, struct message m,
				  struct json *obj)
{
	struct err *e = NULL;

	if (++x->depth > DEPTH_MAX)
		return err_new(ERR_MALFORMED, "read protobuf: nested more than %d levels deep",
			       DEPTH_MAX);
	while (!e && r.p < r.end)
		e = decode_member(x, &r, m, obj);
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
static struct err *open_envelope(struct decoding *x, struct pb_reader r, struct json *root,
				 struct pb_reader *ret_raw)
{
	struct pb_item it;
	struct err *e = NULL;

	while (!e && r.p < r.end) {
		if (!pb_item(&r, &it))
			return broken();
		if (it.number == 1 && it.wire == PB_LEN)
			e = decode_message(x, it.bytes, (struct message){ &type_meta }, root);
		else if (it.number == 2 && it.wire == PB_LEN)
			*ret_raw = it.bytes;
		else if (it.number <= 4 ? it.wire != PB_LEN : !pb_skip(&r, &it))
			return broken();
	}
	return e;
}

struct err *decode_protobuf(const char *data, size_t len, const struct type *t,
			    struct json_doc **ret)
{
	autoptr(json_doc) d = json_doc_new();
	struct decoding x = { .d = d };
	struct json *root = json_obj(d);
	struct pb_reader raw = { 0 },
			 all = { (const unsigned char *)data, (const unsigned char *)data + len };
	struct err *e;

	if (!encode_has_protobuf(t))
		return err_new(ERR_MEDIA_TYPE,
			       "custom resources have no protobuf form; send application/json");
	json_set_root(d, root);
	if (len <= 4 || memcmp(data, "k8s", 4) != 0)
		return broken();
	all.p += 4;
	e = open_envelope(&x, all, root, &raw);
	if (!e)
		e = decode_message(&x, raw, (struct message){ t }, root);
	if (!e && x.unsorted)
		settle_maps(d, root, t);
	if (!e)
		*ret = take(d);
	return e;
}
