/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/table.h"
#include "base/err.h"
#include "server/call/accept.h"

struct buf;
struct bytes;
struct call;
struct calls;
struct encode_name;
struct json;
struct json_doc;
struct kind;
struct object;

/* How an object is shown. */
enum shape {
	SHAPE_OBJECT,
	SHAPE_TABLE,
	SHAPE_PARTIAL,
	SHAPE_MAX_,
};
struct render {
	const struct kind *kind; /* the version to show */
	enum shape shape;
	enum media media; /* a Table is always JSON */
	enum table_include include;
	const char *version; /* of meta.k8s.io */
	struct calls *calls; /* asked for measurements */
};
must_use struct err *render_of(struct call *c, struct render *ret); /* by Accept; sets c->type */
void render_as_object(struct call *c, struct render *r);            /* nothing else is there */
must_use struct err *render_add(const struct render *r, struct object *o, struct buf *out);
/* As an item of a list. In JSON that is the same. */
must_use struct err *render_item(const struct render *r, struct object *o, struct buf *out);
/* What the object and its list are called in that shape. */
struct encode_name render_name(const struct render *r);
struct encode_name render_list_name(const struct render *r);
/* v, which is no object of the store, in protobuf: as render_add() would show it. */
void render_add_protobuf(const struct render *r, const struct json *v, struct buf *out);
must_use struct err *render_text(const struct render *r, struct object *o, struct bytes **ret);
/* Whether there is anything to show: a measured kind may not be measured yet. */
bool render_shows(const struct render *r, const struct object *o);
/* The parts of a Table: its columns as a member, and a row. */
void render_columns(const struct render *r, struct buf *out);
must_use struct err *render_row(const struct render *r, struct object *o, struct buf *out);
