/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /openapi/v2 in the one form that is still requested: kubectl up to 1.27 reads it as protobuf, and
 * only to learn that writes take the parameter fieldValidation. So that is all it contains: for
 * each kind a path whose PATCH has it.
 *
 *   Document { swagger = 1, info = 2 { title = 1, version = 2 }, paths = 8 }
 *   Paths { path = 2 { name = 1, value = 2 { patch = 8: Operation } } }
 *   Operation { parameters = 8 { parameter = 1 { non_body = 2 { query = 3 { in = 2, name = 4 } } }
 * }, vendor_extension = 13 { name = 1, value = 2 { yaml = 2 } } }
 */
#include <string.h>

#include "api/kind.h"
#include "api/registry.h"
#include "base/buf.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/pages/pages_priv.h"

enum {
	LENGTH_DELIMITED = 2
};

static void put_varint(struct buf *out, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		buf_add_char(out, (char)(v | 0x80));
	buf_add_char(out, (char)v);
}

static void put_bytes(struct buf *out, unsigned field, const char *p, size_t len)
{
	put_varint(out, field << 3 | LENGTH_DELIMITED);
	put_varint(out, len);
	buf_add(out, p, len);
}

static void put_text(struct buf *out, unsigned field, const char *s)
{
	put_bytes(out, field, s, strlen(s));
}

/* Wraps what is in b as a message under each of the fields, innermost first. */
static void wrap(struct buf *b, const unsigned *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		autobuf outer = { 0 };

		put_bytes(&outer, fields[i], buf_head(b), b->len);
		buf_clear(b);
		buf_add(b, buf_head(&outer), outer.len);
	}
}

static void put_operation(struct buf *out, const struct kind *k)
{
	static const unsigned query[] = { 3, 2, 1 }, any[] = { 2 };
	autobuf parameter = { 0 }, extension = { 0 }, value = { 0 }, yaml = { 0 };

	put_text(&parameter, 2, "query");
	put_text(&parameter, 4, "fieldValidation");
	wrap(&parameter, query, ARRAY_LEN(query));
	put_bytes(out, 8, buf_head(&parameter), parameter.len);

	buf_printf(&yaml, "group: \"%s\"\nkind: %s\nversion: %s\n", k->group, k->kind, k->version);
	put_bytes(&value, 2, buf_head(&yaml), yaml.len);
	wrap(&value, any, ARRAY_LEN(any));
	put_text(&extension, 1, "x-kubernetes-group-version-kind");
	buf_add(&extension, buf_head(&value), value.len);
	put_bytes(out, 13, buf_head(&extension), extension.len);
}

static void put_path(struct buf *paths, const struct kind *k)
{
	static const unsigned patch[] = { 8, 2 };
	autobuf item = { 0 }, operation = { 0 }, name = { 0 };

	buf_printf(&name, "%s%s/%s/%s%s/{name}", *k->group ? "/apis/" : "/api", k->group,
		   k->version, k->flags & KIND_NAMESPACED ? "namespaces/{namespace}/" : "",
		   k->plural);
	put_text(&item, 1, buf_str(&name));
	put_operation(&operation, k);
	wrap(&operation, patch, ARRAY_LEN(patch));
	buf_add(&item, buf_head(&operation), operation.len);
	put_bytes(paths, 2, buf_head(&item), item.len);
}

void openapi_v2_show(struct pages *ps, struct call *c)
{
	autobuf info = { 0 }, paths = { 0 };
	struct buf document = { 0 };
	const struct kind *const *kinds;
	size_t n;

	put_text(&info, 1, "Cay");
	put_text(&info, 2, CAY_VERSION);
	kinds = kinds_served(ps->kinds, &n);
	for (size_t i = 0; i < n; i++)
		if (!(kinds[i]->flags & KIND_MEASURED)) /* it is read for what can be written */
			put_path(&paths, kinds[i]);
	put_text(&document, 1, "2.0");
	put_bytes(&document, 2, buf_head(&info), info.len);
	put_bytes(&document, 8, buf_head(&paths), paths.len);
	call_reply_text(c, STATUS_OK, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
			&document);
}
