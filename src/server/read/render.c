/* SPDX-License-Identifier: Apache-2.0 */
#include "server/read/render.h"

#include "api/encode.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "json/json.h"
#include "net/http_server.h"
#include "server/call/accept.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/read/measure_priv.h"

/*
 * How an object is shown: as it is stored (its text, as it was encoded once), in another version,
 * as rows of a Table, or by its metadata alone. The Accept header chooses. JSON is always there.
 * Protobuf is there for the built-in kinds and for the metadata of any kind, but not for Tables.
 */
static bool pick_shape(struct render *r, struct span params)
{
	if (!accept_param(params, "g", "meta.k8s.io"))
		return false;
	if (accept_param(params, "v", "v1"))
		r->version = "meta.k8s.io/v1";
	else if (accept_param(params, "v", "v1beta1"))
		r->version = "meta.k8s.io/v1beta1";
	else
		return false;
	if (accept_param(params, "as", "Table"))
		r->shape = SHAPE_TABLE;
	else if (accept_param(params, "as", "PartialObjectMetadata") ||
		 accept_param(params, "as", "PartialObjectMetadataList"))
		r->shape = SHAPE_PARTIAL;
	else
		return false;
	return true;
}

static bool is_there(const struct render *r)
{
	if (r->media == MEDIA_JSON)
		return true;
	if (r->shape == SHAPE_TABLE)
		return false;
	return r->shape == SHAPE_PARTIAL || encode_has_protobuf(r->kind->type);
}

static bool pick(void *arg, struct span type, struct span params)
{
	struct render *r = arg;

	r->shape = SHAPE_OBJECT;
	if (accept_impossible(params) || (accept_converts(params) && !pick_shape(r, params)))
		return false;
	for (r->media = 0; r->media < MEDIA_MAX_; r->media++)
		if (accept_covers(type, r->media) && is_there(r))
			return true;
	return false;
}

struct err *render_of(struct call *c, struct render *ret)
{
	const char *accept = http_request_header(c->req, "accept");
	static const char *const included[] = { "Metadata", "Object", "None", NULL };
	const char *include = call_query(c, "includeObject");

	*ret = (struct render){ .kind = c->route.kind,
				.include = TABLE_METADATA,
				.calls = c->calls };
	if (str_eq(include, "Object"))
		ret->include = TABLE_OBJECT;
	if (str_eq(include, "None"))
		ret->include = TABLE_NONE;
	if (str_empty(accept) || accept_each(accept, pick, ret)) {
		if (ret->shape == SHAPE_TABLE && !str_empty(include) && !str_in(include, included))
			return err_new(ERR_MALFORMED,
				       "Unable to convert to Table as requested: includeObject: "
				       "Invalid value: \"%s\": must be 'Metadata', 'Object', "
				       "'None', or empty",
				       include);
		c->type = media_type(ret->media);
		return NULL;
	}
	return err_new(ERR_UNACCEPTABLE, "only the following media types are accepted: %s%s",
		       media_type(MEDIA_JSON),
		       encode_has_protobuf(ret->kind->type) ? ", " ENCODE_PROTOBUF : "");
}

void render_as_object(struct call *c, struct render *r)
{
	r->shape = SHAPE_OBJECT;
	if (!is_there(r))
		r->media = MEDIA_JSON;
	c->type = media_type(r->media);
}

struct encode_name render_name(const struct render *r)
{
	switch (r->shape) {
	case SHAPE_TABLE:
		return (struct encode_name){ r->version, "Table" };
	case SHAPE_PARTIAL:
		return (struct encode_name){ r->version, "PartialObjectMetadata" };
	case SHAPE_OBJECT:
	case SHAPE_MAX_:
		break;
	}
	return (struct encode_name){ kind_api_version(r->kind), r->kind->kind };
}

struct encode_name render_list_name(const struct render *r)
{
	switch (r->shape) {
	case SHAPE_TABLE:
		return render_name(r);
	case SHAPE_PARTIAL:
		return (struct encode_name){ r->version, "PartialObjectMetadataList" };
	case SHAPE_OBJECT:
	case SHAPE_MAX_:
		break;
	}
	return (struct encode_name){ kind_api_version(r->kind), r->kind->list_kind };
}

static const struct type *message_type(const struct render *r)
{
	return r->shape == SHAPE_PARTIAL ? encode_partial : r->kind->type;
}

void render_add_protobuf(const struct render *r, const struct json *v, struct buf *out)
{
	const struct encode_name name = render_name(r);

	encode_object(&name, v, message_type(r), out);
}

/* The tree in the version to show: o's own, or a converted copy that the caller frees. */
static struct err *tree_of(const struct render *r, struct object *o, struct json_doc **ret_doc,
			   const struct json **ret)
{
	struct err *e;

	if (!r->kind->storage) {
		*ret = o->root;
		return NULL;
	}
	*ret_doc = object_edit(o);
	e = r->kind->from_storage(r->kind, *ret_doc);
	if (!e && (r->kind->flags & KIND_MEASURED))
		measure(r->calls->access, *ret_doc);
	*ret = json_root(*ret_doc);
	return e;
}

static void add_table(const struct render *r, const struct json *obj, struct buf *out)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *table = table_new(d, r->kind), *meta;

	json_set_str(d, table, "apiVersion", r->version);
	meta = json_need_obj(d, table, "metadata");
	json_set_str(d, meta, "resourceVersion",
		     json_get_str(json_get(obj, "metadata"), "resourceVersion"));
	table_add(d, table, &(struct table_rows){ r->kind, r->include, clock_wall() }, obj);
	json_write(table, out);
}

static void add_partial(const struct render *r, const struct json *obj, struct buf *out)
{
	buf_printf(out, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"%s\",\"metadata\":",
		   r->version);
	json_write(json_get(obj, "metadata"), out);
	buf_add_char(out, '}');
}

static void add_json(const struct render *r, const struct json *obj, struct buf *out)
{
	switch (r->shape) {
	case SHAPE_OBJECT:
		json_write(obj, out);
		break;
	case SHAPE_TABLE:
		add_table(r, obj, out);
		break;
	case SHAPE_PARTIAL:
		add_partial(r, obj, out);
		break;
	case SHAPE_MAX_:
		break;
	}
}

/* Whether the text that was encoded once is what is wanted. */
static bool is_as_stored(const struct render *r)
{
	return r->media == MEDIA_JSON && r->shape == SHAPE_OBJECT && !r->kind->storage;
}

static struct err *add(const struct render *r, struct object *o, bool item, struct buf *out)
{
	autoptr(json_doc) d = NULL;
	const struct json *obj = NULL;
	struct bytes *text;
	struct err *e;

	if (is_as_stored(r)) {
		text = object_text(o);
		buf_add(out, text->data, text->len);
		return NULL;
	}
	e = tree_of(r, o, &d, &obj);
	if (e)
		return err_recode(err_wrap(e, "convert %s", o->name), ERR_INTERNAL);
	if (r->media == MEDIA_JSON)
		add_json(r, obj, out);
	else if (item)
		encode_item(obj, message_type(r), out);
	else
		render_add_protobuf(r, obj, out);
	return NULL;
}

struct err *render_add(const struct render *r, struct object *o, struct buf *out)
{
	return add(r, o, false, out);
}

struct err *render_item(const struct render *r, struct object *o, struct buf *out)
{
	return add(r, o, true, out);
}

void render_columns(const struct render *r, struct buf *out)
{
	autoptr(json_doc) d = json_doc_new();

	buf_add_str(out, "\"columnDefinitions\":");
	json_write(json_get(table_new(d, r->kind), "columnDefinitions"), out);
}

struct err *render_row(const struct render *r, struct object *o, struct buf *out)
{
	autoptr(json_doc) converted = NULL;
	autoptr(json_doc) d = json_doc_new();
	const struct json *obj = NULL;
	struct json *table = json_obj(d);
	struct err *e = tree_of(r, o, &converted, &obj);

	if (e)
		return err_recode(e, ERR_INTERNAL);
	(void)json_set(d, table, "rows", json_arr(d));
	table_add(d, table, &(struct table_rows){ r->kind, r->include, clock_wall() }, obj);
	json_write(json_at(json_get(table, "rows"), 0), out);
	return NULL;
}

bool render_shows(const struct render *r, const struct object *o)
{
	return !(r->kind->flags & KIND_MEASURED) || measured(r->calls->access, o);
}

struct err *render_text(const struct render *r, struct object *o, struct bytes **ret)
{
	autobuf b = { 0 };
	struct err *e;

	if (is_as_stored(r)) {
		*ret = bytes_ref(object_text(o));
		return NULL;
	}
	e = render_add(r, o, &b);
	if (!e)
		*ret = bytes_from_buf(&b);
	return e;
}
