/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/mem.h"
#include "base/str.h"
#include "guest/rpc/pb_priv.h"
#include "guest/rpc/rpc_describe_priv.h"
#include "guest/rpc/rpc_priv.h"

/* Makes descriptor.proto's messages out of the tables that requests are decoded by. */

enum { /* fields of descriptor.proto */
	FILE_NAME = 1,
	FILE_PACKAGE,
	FILE_DEPENDENCY,
	FILE_MESSAGE,
	FILE_ENUM,
	FILE_SERVICE,
	FILE_SYNTAX = 12,
	ANY_NAME = 1, /* of messages, fields, enums, services and methods */
	MESSAGE_FIELD = 2,
	MESSAGE_NESTED,
	MESSAGE_OPTIONS = 7,
	MESSAGE_ONEOF,
	OPTIONS_MAP_ENTRY = 7,
	FIELD_NUMBER = 3,
	FIELD_LABEL,
	FIELD_TYPE,
	FIELD_TYPE_NAME,
	FIELD_ONEOF_INDEX = 9,
	FIELD_JSON_NAME,
	FIELD_OPTIONAL = 17,
	ENUM_VALUE = 2,
	METHOD_INPUT = 2,
	METHOD_OUTPUT,
	METHOD_CLIENT_STREAMS = 5,
	METHOD_SERVER_STREAMS,
	LABEL_OPTIONAL = 1,
	LABEL_REPEATED = 3,
	TYPE_STRING = 9,
	TYPE_MESSAGE = 11,
	TYPE_ENUM = 14,
};

static const struct {
	int type;
	bool repeated;
} types[PB_TYPE_MAX_] = {
	[PB_INT32] = { 5 },
	[PB_UINT32] = { 13 },
	[PB_BOOL] = { 8 },
	[PB_ENUM] = { TYPE_ENUM },
	[PB_STRING] = { TYPE_STRING },
	[PB_BYTES] = { 12 },
	[PB_MESSAGE] = { TYPE_MESSAGE },
	[PB_STRINGS] = { TYPE_STRING, true },
	[PB_MAP] = { TYPE_MESSAGE, true },
	[PB_BLOBS] = { 12, true },
	[PB_MESSAGES] = { TYPE_MESSAGE, true },
};

/* What a file has: everything that its methods lead to. */
struct contents {
	const char *package;
	const struct pb_message *messages[32];
	const struct pb_enum *enums[8];
	size_t n_messages, n_enums;
	bool empty; /* google.protobuf.Empty is among them */
};

static void contents_add(struct contents *c, const struct pb_message *m)
{
	if (m->name[0] == '.') {
		c->empty = true;
		return;
	}
	for (size_t i = 0; i < c->n_messages; i++)
		if (c->messages[i] == m)
			return;
	assert(c->n_messages < ARRAY_LEN(c->messages));
	c->messages[c->n_messages++] = m;
	for (const struct pb_field *f = m->fields; f && f->name; f++) {
		if (f->of)
			contents_add(c, f->of);
		if (f->values) {
			assert(c->n_enums < ARRAY_LEN(c->enums));
			c->enums[c->n_enums++] = f->values;
		}
	}
}

static void contents_of(const struct rpc_service *s, struct contents *ret)
{
	*ret = (struct contents){ .package = s->package };
	for (const struct rpc_method *m = s->methods; m->name; m++) {
		contents_add(ret, m->request);
		contents_add(ret, m->response);
	}
}

static void put(struct buf *out, uint32_t number, struct buf *inner)
{
	pb_put_bytes(out, number, buf_head(inner), inner->len);
}

/* ".package.Name" */
static void put_type_name(struct buf *out, uint32_t number, const char *package, const char *name)
{
	autofree char *full = name[0] == '.' ? xstrdup(name) : xasprintf(".%s.%s", package, name);

	pb_put_text(out, number, full);
}

/* env_vars: EnvVars, or in JSON envVars */
static char *camel(const char *name, bool first)
{
	autobuf out = { 0 };

	for (bool up = first; *name; name++) {
		if (*name == '_') {
			up = true;
			continue;
		}
		buf_add_char(&out, up ? (char)(*name - 'a' + 'A') : *name);
		up = false;
	}
	return xstrdup(buf_str(&out));
}

static void put_simple_field(struct buf *out, const char *name, int number)
{
	autobuf field = { 0 };

	pb_put_text(&field, ANY_NAME, name);
	pb_put_int(&field, FIELD_NUMBER, number);
	pb_put_int(&field, FIELD_LABEL, LABEL_OPTIONAL);
	pb_put_int(&field, FIELD_TYPE, TYPE_STRING);
	put(out, MESSAGE_FIELD, &field);
}

/* A map is a repeated message that is declared inside the one that has it. */
static char *put_entry(struct buf *message, const struct pb_field *f)
{
	autofree char *base = camel(f->name, true);
	char *name = xasprintf("%sEntry", base);
	autobuf entry = { 0 }, options = { 0 };

	pb_put_text(&entry, ANY_NAME, name);
	put_simple_field(&entry, "key", 1);
	put_simple_field(&entry, "value", 2);
	pb_put_int(&options, OPTIONS_MAP_ENTRY, 1);
	put(&entry, MESSAGE_OPTIONS, &options);
	put(message, MESSAGE_NESTED, &entry);
	return name;
}

static void put_of(struct buf *field, struct buf *message, const struct contents *c,
		   const struct pb_message *m, const struct pb_field *f)
{
	if (f->of)
		put_type_name(field, FIELD_TYPE_NAME, c->package, f->of->name);
	if (f->values)
		put_type_name(field, FIELD_TYPE_NAME, c->package, f->values->name);
	if (f->type == PB_MAP) {
		autofree char *entry = put_entry(message, f);
		autofree char *name = xasprintf("%s.%s", m->name, entry);

		put_type_name(field, FIELD_TYPE_NAME, c->package, name);
	}
}

/* Zero is an index, and must be there. */
static void put_index(struct buf *field, unsigned index)
{
	pb_put_varint(field, FIELD_ONEOF_INDEX << 3);
	pb_put_varint(field, index);
}

static void put_oneof(struct buf *message, const char *name)
{
	autobuf oneof = { 0 };

	pb_put_text(&oneof, ANY_NAME, name);
	put(message, MESSAGE_ONEOF, &oneof);
}

static void put_message(struct buf *out, const struct contents *c, const struct pb_message *m)
{
	autobuf message = { 0 }, made_up = { 0 };
	const char *oneof = NULL;
	unsigned n_oneofs = 0;

	pb_put_text(&message, ANY_NAME, m->name);
	for (const struct pb_field *f = m->fields; f && f->name; f++)
		oneof = f->oneof ? f->oneof : oneof;
	if (oneof) {
		put_oneof(&message, oneof);
		n_oneofs++;
	}
	for (const struct pb_field *f = m->fields; f && f->name; f++) {
		autofree char *json = camel(f->name, false);
		autobuf field = { 0 };

		pb_put_text(&field, ANY_NAME, f->name);
		pb_put_int(&field, FIELD_NUMBER, f->number);
		pb_put_int(&field, FIELD_LABEL,
			   types[f->type].repeated ? LABEL_REPEATED : LABEL_OPTIONAL);
		pb_put_int(&field, FIELD_TYPE, types[f->type].type);
		put_of(&field, &message, c, m, f);
		if (f->oneof)
			put_index(&field, 0);
		if (f->optional) { /* each is a oneof of its own, after all others */
			autofree char *name = xasprintf("_%s", f->name);

			put_index(&field, n_oneofs++);
			put_oneof(&made_up, name);
		}
		pb_put_text(&field, FIELD_JSON_NAME, json);
		pb_put_int(&field, FIELD_OPTIONAL, f->optional);
		put(&message, MESSAGE_FIELD, &field);
	}
	buf_add(&message, buf_head(&made_up), made_up.len);
	put(out, FILE_MESSAGE, &message);
}

static void put_enum(struct buf *out, const struct pb_enum *e)
{
	autobuf all = { 0 };

	pb_put_text(&all, ANY_NAME, e->name);
	for (const struct pb_value *v = e->values; v->name; v++) {
		autobuf value = { 0 };

		pb_put_text(&value, ANY_NAME, v->name);
		pb_put_varint(&value, 2 << 3); /* the number, also if it is 0 */
		pb_put_varint(&value, (uint64_t)v->number);
		put(&all, ENUM_VALUE, &value);
	}
	put(out, FILE_ENUM, &all);
}

static void put_service(struct buf *out, const struct rpc_service *s)
{
	autobuf all = { 0 };

	pb_put_text(&all, ANY_NAME, s->name);
	for (const struct rpc_method *m = s->methods; m->name; m++) {
		autobuf method = { 0 };

		pb_put_text(&method, ANY_NAME, m->name);
		put_type_name(&method, METHOD_INPUT, s->package, m->request->name);
		put_type_name(&method, METHOD_OUTPUT, s->package, m->response->name);
		pb_put_int(&method, METHOD_CLIENT_STREAMS, m->many_requests);
		pb_put_int(&method, METHOD_SERVER_STREAMS, m->many_answers);
		put(&all, 2, &method);
	}
	put(out, FILE_SERVICE, &all);
}

void rpc_describe(const struct rpc_service *s, struct buf *out)
{
	struct contents c;

	contents_of(s, &c);
	pb_put_text(out, FILE_NAME, s->file);
	pb_put_text(out, FILE_PACKAGE, s->package);
	if (c.empty)
		pb_put_text(out, FILE_DEPENDENCY, RPC_EMPTY_FILE);
	for (size_t i = 0; i < c.n_messages; i++)
		put_message(out, &c, c.messages[i]);
	for (size_t i = 0; i < c.n_enums; i++)
		put_enum(out, c.enums[i]);
	put_service(out, s);
	pb_put_text(out, FILE_SYNTAX, "proto3");
}

void rpc_describe_empty(struct buf *out)
{
	autobuf message = { 0 };

	pb_put_text(out, FILE_NAME, RPC_EMPTY_FILE);
	pb_put_text(out, FILE_PACKAGE, "google.protobuf");
	pb_put_text(&message, ANY_NAME, "Empty");
	put(out, FILE_MESSAGE, &message);
	pb_put_text(out, FILE_SYNTAX, "proto3");
}

bool rpc_describes(const struct rpc_service *s, const char *symbol)
{
	size_t len = strlen(s->package), name_len = strlen(s->name);
	struct contents c;

	if (strncmp(symbol, s->package, len) != 0 || symbol[len] != '.')
		return false;
	symbol += len + 1;
	contents_of(s, &c);
	for (size_t i = 0; i < c.n_messages; i++)
		if (str_eq(symbol, c.messages[i]->name))
			return true;
	for (size_t i = 0; i < c.n_enums; i++)
		if (str_eq(symbol, c.enums[i]->name))
			return true;
	if (str_eq(symbol, s->name))
		return true;
	for (const struct rpc_method *m = s->methods; m->name; m++)
		if (!strncmp(symbol, s->name, name_len) && symbol[name_len] == '.' &&
		    str_eq(symbol + name_len + 1, m->name))
			return true;
	return false;
}
