/* SPDX-License-Identifier: Apache-2.0 */
#include "api/encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/protobuf_priv.h"
#include "api/schema_builtin_priv.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * The walk goes down the table, not the tree, because Go writes every member that is not a pointer,
 * a list or a map, whether there is anything in it or not. Numbers ascend, and maps are sorted by
 * key. A message is written behind one byte for its length and moved when its length needs more:
 * the trees are shallow, so that a byte is moved a few times at most.
 */
static const int64_t go_zero_time_s = -62135596800LL; /* 0001-01-01T00:00:00Z */

static const struct field fields_partial[] = {
	{ "metadata", &type_meta_object_meta, FIELD_OMITEMPTY, .pb = 1 },
	{ 0 },
};
static const unsigned char numbers_partial[] = { 0, FIELDS_END };
static const struct type type_partial = {
	TYPE_OBJECT, "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata", fields_partial,
	.by_number = numbers_partial
};

const struct type *const encode_status = &type_meta_status;
const struct type *const encode_partial = &type_partial;

bool encode_has_protobuf(const struct type *t)
{
	return t->by_number;
}

/* Bytes */

static void add_varint(struct buf *out, uint64_t n)
{
	char *to = buf_reserve(out, PB_VARINT_MAX);

	buf_wrote(out, pb_varint_write((unsigned char *)to, n));
}

static void add_tag(struct buf *out, int number, enum pb_wire wire)
{
	add_varint(out, (uint64_t)number << 3 | wire);
}

static void add_number(struct buf *out, int number, int64_t n)
{
	add_tag(out, number, PB_VARINT);
	add_varint(out, (uint64_t)n);
}

static void add_bytes(struct buf *out, int number, const void *p, size_t len)
{
	add_tag(out, number, PB_LEN);
	add_varint(out, len);
	if (len)
		buf_add(out, p, len);
}

static void add_text(struct buf *out, int number, const char *s)
{
	add_bytes(out, number, s, strlen(s));
}

/* Begins a message; what is written until end_message() is inside it. */
static size_t begin_message(struct buf *out, int number)
{
	add_tag(out, number, PB_LEN);
	buf_add_char(out, 0);
	return out->len;
}

/* Puts the length in front of what out holds from `at` on, where one byte is kept for it. */
static void end_message(struct buf *out, size_t at)
{
	unsigned char prefix[PB_VARINT_MAX];
	size_t len = out->len - at, n = pb_varint_write(prefix, len);
	char *body;

	if (n > 1) {
		(void)buf_reserve(out, n - 1);
		buf_wrote(out, n - 1);
		body = buf_head(out) + at;
		memmove(body + n - 1, body, len);
	}
	memcpy(buf_head(out) + at - 1, prefix, n);
}

/* Values */

static void add_message(const struct json *v, const struct type *t, struct buf *out);

static void add_real(struct buf *out, int number, double real)
{
	uint64_t n;

	memcpy(&n, &real, sizeof(n));
	add_tag(out, number, PB_I64);
	for (size_t i = 0; i < sizeof(n); i++)
		buf_add_char(out, (char)(n >> (8 * i)));
}

static void add_quantity(struct buf *out, int number, const struct json *v)
{
	size_t at = begin_message(out, number);

	add_text(out, 1, str_or(json_str(v), "0"));
	end_message(out, at);
}

static void add_int_or_string(struct buf *out, int number, const struct json *v)
{
	size_t at = begin_message(out, number);

	add_number(out, 1, json_is(v, JSON_STR));
	add_number(out, 2, (int32_t)json_int(v, 0));
	add_text(out, 3, str_or(json_str(v), ""));
	end_message(out, at);
}

/* Go's zero time is an empty message. Other times have no nanoseconds unless they are MicroTimes:
 * JSON does not have them either. */
static void add_time(struct buf *out, int number, const struct json *v, bool micro)
{
	size_t at = begin_message(out, number);
	usec when = 0;
	int64_t s, us;
	struct err *e = json_str(v) ? clock_parse(json_str(v), &when) : NULL;

	us = (when % 1000000 + 1000000) % 1000000;
	s = (when - us) / 1000000;
	if (json_str(v) && !e && s != go_zero_time_s) {
		add_number(out, 1, s);
		add_number(out, 2, micro ? us * 1000 : 0);
	}
	err_free(e); /* decoding leaves only times that can be read */
	end_message(out, at);
}

/* Base64 as Go reads it, which skips line breaks. */
static void add_base64(struct buf *out, int number, const struct json *v)
{
	autofree char *text = xstrdup(str_or(json_str(v), ""));
	autofree void *data = NULL;
	size_t len = 0, kept = 0;

	for (size_t i = 0; text[i]; i++)
		if (text[i] != '\n' && text[i] != '\r')
			text[kept++] = text[i];
	text[kept] = '\0';
	err_free(base64_decode(text, false, &data, &len)); /* decoding leaves only valid ones */
	add_bytes(out, number, data, len);
}

/* Raw JSON in a message: managedFields, RawExtension. */
static void add_raw(struct buf *out, int number, const struct json *v)
{
	size_t at = begin_message(out, number), inner;

	if (v && !json_is(v, JSON_NULL)) {
		inner = begin_message(out, 1);
		json_write(v, out);
		end_message(out, inner);
	}
	end_message(out, at);
}

static void add_object(struct buf *out, int number, const struct json *v, const struct type *t)
{
	size_t at = begin_message(out, number);

	add_message(v, t, out);
	end_message(out, at);
}

static void add_value(struct buf *out, int number, const struct json *v, const struct type *t);

static void add_duration(struct buf *out, int number, const struct json *v)
{
	size_t at = begin_message(out, number);
	uint64_t ms = 0;

	if (json_str(v))
		err_free(parse_duration_ms(json_str(v), &ms)); /* what cannot be read is 0 */
	add_number(out, 1, (int64_t)ms * 1000000);
	end_message(out, at);
}

/* What is one thing or another: a message with a number for each. */
static void add_choice(struct buf *out, int number, const struct json *v, const struct type *t)
{
	size_t at = begin_message(out, number);
	bool object = json_is(v, JSON_OBJ);

	if (t->form == FORM_OR_BOOL)
		add_number(out, 1, object || json_bool(v, false));
	if (object)
		add_object(out, t->form == FORM_OR_BOOL ? 2 : 1, v, t->elem ? t->elem : t);
	else if (t->form == FORM_OR_TEXTS)
		json_each(it, v)
			add_value(out, 2, it.val, &type_string);
	end_message(out, at);
}

/* Maps and lists */

struct entry {
	const char *key;
	const struct json *val;
};

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

static void add_entry(struct buf *out, int number, const struct entry *en, const struct type *elem)
{
	size_t at = begin_message(out, number), inner;

	add_text(out, 1, en->key);
	if (elem->kind == TYPE_LIST) { /* a message that has nothing but the list */
		inner = begin_message(out, 2);
		json_each(it, en->val)
			add_value(out, 1, it.val, elem->elem);
		end_message(out, inner);
	} else {
		add_value(out, 2, en->val, elem);
	}
	end_message(out, at);
}

static void add_map(struct buf *out, int number, const struct json *v, const struct type *t)
{
	enum {
		FEW = 16,
	};
	size_t n = 0, all = json_len(v);
	struct entry few[FEW], *list = all > FEW ? xnew_n(struct entry, all) : few;

	json_each(it, v)
		list[n++] = (struct entry){ it.key, it.val };
	if (n > 1)
		qsort(list, n, sizeof(*list), compare_keys);
	for (size_t i = 0; i < n; i++)
		add_entry(out, number, &list[i], t->elem);
	if (list != few)
		free(list);
}

/* v is NULL where Go has the zero value. */
static void add_value(struct buf *out, int number, const struct json *v, const struct type *t)
{
	if (t->form == FORM_DURATION) {
		add_duration(out, number, v);
		return;
	}
	if (t->form != FORM_PLAIN) {
		add_choice(out, number, v, t);
		return;
	}
	switch (t->kind) {
	case TYPE_STRING:
		add_bytes(out, number, json_str(v), json_str_len(v));
		break;
	case TYPE_BOOL:
		add_number(out, number, json_bool(v, false));
		break;
	case TYPE_INT32:
	case TYPE_INT64:
		add_number(out, number, json_int(v, 0));
		break;
	case TYPE_NUMBER:
		add_real(out, number, json_real(v, 0));
		break;
	case TYPE_INT_OR_STRING:
		add_int_or_string(out, number, v);
		break;
	case TYPE_QUANTITY:
		add_quantity(out, number, v);
		break;
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
		add_time(out, number, v, t->kind == TYPE_MICRO_TIME);
		break;
	case TYPE_BYTES:
		if (v)
			add_base64(out, number, v);
		break;
	case TYPE_OBJECT:
		add_object(out, number, v, t);
		break;
	case TYPE_MAP:
		add_map(out, number, v, t);
		break;
	case TYPE_LIST:
		json_each(it, v)
			add_value(out, number, it.val, t->elem);
		break;
	case TYPE_ANY:
		add_raw(out, number, v);
		break;
	case TYPE_KIND_MAX_:
		break;
	}
}

/* The members of v by the place of their field in the table; what is not there is NULL. */
static void gather(const struct json *v, const struct type *t, const struct json *ret[FIELDS_MAX])
{
	const struct field *f;

	json_each(it, v) {
		f = schema_field(t, it.key);
		if (f && !json_is(it.val, JSON_NULL))
			ret[f - t->fields] = it.val;
	}
}

static void add_message(const struct json *v, const struct type *t, struct buf *out)
{
	const struct json *members[FIELDS_MAX] = { 0 };
	const struct field *f;
	int inlined = 0;
	size_t at = 0;

	gather(v, t, members);
	for (const unsigned char *i = t->by_number; *i != FIELDS_END; i++) {
		f = &t->fields[*i];
		if (f->pb_in != inlined) {
			if (inlined)
				end_message(out, at);
			inlined = f->pb_in;
			if (inlined)
				at = begin_message(out, inlined);
		}
		if (members[*i] || !(f->flags & FIELD_POINTER))
			add_value(out, f->pb, members[*i], f->type);
	}
	if (inlined)
		end_message(out, at);
}

void encode_message(const struct json *v, const struct type *t, struct buf *out)
{
	add_message(v, t, out);
}

/* Objects */

static void add_envelope(const struct encode_name *name, struct buf *out)
{
	size_t at;

	buf_add(out, "k8s", 4);
	at = begin_message(out, 1);
	add_text(out, 1, name->api_version);
	add_text(out, 2, name->kind);
	end_message(out, at);
}

/* The encoding and type of the content, which are empty. */
static void end_envelope(struct buf *out)
{
	add_text(out, 3, "");
	add_text(out, 4, "");
}

void encode_object(const struct encode_name *name, const struct json *v, const struct type *t,
		   struct buf *out)
{
	add_envelope(name, out);
	add_object(out, 2, v, t);
	end_envelope(out);
}

/* Lists */

static void add_list_meta(const struct encode_list *l, struct buf *out)
{
	size_t at = begin_message(out, 1);
	char rev[24];

	(void)snprintf(rev, sizeof(rev), "%llu", (unsigned long long)l->rev);
	add_text(out, 1, "");
	add_text(out, 2, rev);
	add_text(out, 3, str_or(l->next, ""));
	if (l->remaining >= 0)
		add_number(out, 4, l->remaining);
	end_message(out, at);
}

void encode_list_head(const struct encode_list *l, size_t items_len, struct buf *out)
{
	autobuf meta = { 0 };

	add_list_meta(l, &meta);
	add_envelope(&l->name, out);
	add_tag(out, 2, PB_LEN);
	add_varint(out, meta.len + items_len);
	buf_add(out, buf_head(&meta), meta.len);
}

void encode_item(const struct json *v, const struct type *t, struct buf *out)
{
	add_object(out, 2, v, t);
}

size_t encode_item_len(size_t message_len)
{
	unsigned char prefix[PB_VARINT_MAX];

	return 1 + pb_varint_write(prefix, message_len) + message_len;
}

void encode_list_tail(struct buf *out)
{
	end_envelope(out);
}

/* Watches */

void encode_event(const char *type, size_t at, struct buf *out)
{
	autobuf head = { 0 };
	unsigned char prefix[PB_VARINT_MAX];
	size_t len = out->len - at;
	size_t raw = 1 + pb_varint_write(prefix, len) + len; /* of the RawExtension */
	size_t all;

	buf_add(&head, "\0\0\0", 4);
	add_text(&head, 1, type);
	add_tag(&head, 2, PB_LEN);
	add_varint(&head, raw);
	add_tag(&head, 1, PB_LEN);
	add_varint(&head, len);
	all = head.len - 4 + len;
	for (int i = 0; i < 4; i++)
		buf_head(&head)[i] = (char)(all >> (24 - 8 * i));
	(void)buf_reserve(out, head.len);
	buf_wrote(out, head.len);
	memmove(buf_head(out) + at + head.len, buf_head(out) + at, len);
	memcpy(buf_head(out) + at, buf_head(&head), head.len);
}
