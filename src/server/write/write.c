/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"
#include "base/parse.h"
#include "net/http_server.h"
#include "server/server_priv.h"

/*
 * Writes over HTTP: from a call to an operation, and from its outcome to an answer that is sent
 * once the commit is on disk. The answer carries the object as this write left it, whatever
 * controllers have made of it since.
 */
static enum options_of options_of(const struct call *c)
{
	return c->route.verb == VERB_CREATE  ? OPTIONS_CREATE
	       : c->route.verb == VERB_PATCH ? OPTIONS_PATCH
					     : OPTIONS_UPDATE;
}

static void op_begin(struct call *c, struct op *ret)
{
	const struct route *r = &c->route;

	*ret = (struct op){
		.s = c->s,
		.user = c->user.name,
		.kind = r->kind,
		.ns = r->ns,
		.name = r->name,
		.sub = r->sub,
		.external = true,
		.warn = call_warn,
		.warn_arg = c,
	};
}

struct err *op_of_call(struct call *c, struct op *ret)
{
	const struct options_input in = call_options(c);
	struct write_options o;
	struct err *e;

	op_begin(c, ret);
	e = write_options_read(options_of(c), &in, &o);
	ret->dry_run = o.dry_run;
	ret->unknown = o.strictness;
	return call_options_end(c, options_of(c), e);
}

void finish_write(struct call *c, struct op *op, int status, struct err *e)
{
	struct bytes *text = NULL;
	struct render how;

	if (!e)
		e = render_of(c, &how);
	if (!e)
		e = render_text(&how, op->result, &text);
	if (e) {
		if (op->causes.n) {
			causes_done(&c->causes);
			c->causes = op->causes;
			op->causes = (struct causes){ 0 };
		}
		if (op->absent_ns) {
			c->route.kind = c->s->kinds.namespace;
			c->route.name = op->absent_ns;
		}
		call_fail(c, e);
		return;
	}
	call_reply_durably(c, status, text);
}

/* The name in a body that has been taken over, for error details. */
static void note_name(struct call *c, const struct json_doc *d)
{
	const char *name = json_get_str(json_get(json_root(d), "metadata"), "name");

	if (!*c->route.name && name)
		c->route.name = arena_strdup(c->arena, name);
}

static struct err *read_object(struct call *c, struct op *op, struct json_doc **ret)
{
	struct decode_input in;
	struct err *e = call_body(c, &in);

	return e ? e : op_decode(op, &in, ret);
}

void handle_create(struct call *c)
{
	struct json_doc *d = NULL;
	uint64_t wait_s = 0;
	autoop op = { 0 };
	struct err *e = op_of_call(c, &op);

	if (!e)
		e = wait_read(c, &wait_s);
	if (!e)
		e = read_object(c, &op, &d);
	if (!e) {
		note_name(c, d);
		e = op_create(&op, d);
	}
	if (!e && !op.dry_run && wait_s)
		wait_ready(c, op.result, wait_s);
	else
		finish_write(c, &op, STATUS_CREATED, e);
}

void handle_update(struct call *c)
{
	struct json_doc *d = NULL;
	autoop op = { 0 };
	struct err *e = op_of_call(c, &op);

	if (!e)
		e = read_object(c, &op, &d);
	if (!e)
		e = op_update(&op, d);
	finish_write(c, &op, STATUS_OK, e);
}

static struct err *read_patch(struct call *c, struct causes *reports, enum patch_type *ret_how,
			      struct json_doc **ret)
{
	const char *type = http_request_header(c->req, "content-type");
	struct err *e = patch_type_of(str_or(type, ""), ret_how);

	if (!e && *ret_how == PATCH_APPLY)
		e = err_new(ERR_MEDIA_TYPE, "server-side apply is not served yet; use client-side "
					    "apply (kubectl apply without --server-side)");
	if (e)
		return e;
	e = patch_decode(str_or(c->body, ""), c->body_len, *ret_how == PATCH_JSON, reports, ret);
	return *ret_how == PATCH_STRATEGIC ? e : err_wrap(e, "error decoding patch");
}

void handle_patch(struct call *c)
{
	autoptr(json_doc) d = NULL;
	struct causes reports = { 0 };
	autoop op = { 0 };
	enum patch_type how;
	struct err *e = op_of_call(c, &op);

	if (!e)
		e = read_patch(c, op.unknown == STRICTNESS_IGNORE ? NULL : &reports, &how, &d);
	if (!e)
		e = op_patch(&op, how, json_root(d), &reports);
	causes_done(&reports);
	finish_write(c, &op, STATUS_OK, e);
}

void handle_status(struct call *c)
{
	switch (c->route.verb) {
	case VERB_GET:
		handle_get(c);
		return;
	case VERB_UPDATE:
		handle_update(c);
		return;
	case VERB_PATCH:
		handle_patch(c);
		return;
	case VERB_LIST:
	case VERB_WATCH:
	case VERB_CREATE:
	case VERB_DELETE:
	case VERB_DELETE_COLLECTION:
	case VERB_MAX_:
		break;
	}
}

/* Deleting */

static struct err *delete_of_call(struct call *c, struct op *op, struct delete_options *ret)
{
	struct options_input in = call_options(c);
	struct err *e = c->body_len ? call_body(c, &in.body) : NULL;

	op_begin(c, op);
	if (!e)
		e = call_options_end(c, OPTIONS_DELETE, delete_options_read(&in, ret));
	if (!e)
		op->dry_run = ret->dry_run;
	return e;
}

/* Kinds whose deletion answers with the object, as in Kubernetes; the rest answer with a Status. */
static bool answers_with_object(const struct op *op)
{
	return !op->removed || kind_storage(op->kind)->flags & KIND_SHOW_DELETED;
}

void handle_delete(struct call *c)
{
	struct delete_options options;
	autoop op = { 0 };
	struct err *e = delete_of_call(c, &op, &options);

	if (!e)
		e = op_delete(&op, &options);
	if (e || answers_with_object(&op)) {
		finish_write(c, &op, STATUS_OK, e);
	} else {
		autoptr(json_doc) d = status_success(op.result);

		call_reply_durably(c, STATUS_OK, json_to_bytes(json_root(d)));
	}
}

/* The keys first: deleting changes what is being walked. */
static struct err *select_names(struct call *c, const struct list_options *o, struct object ***ret,
				size_t *ret_n)
{
	struct store_entry *en = NULL;
	struct object **list = NULL;
	struct filter f;
	size_t n = 0, cap = 0;
	const char *prefix;
	struct err *e = filter_init(&f, c, o);

	prefix = e ? NULL : buf_head(&f.prefix);
	while (!e && (en = store_next(c->s->store, prefix, en ? en->key : NULL))) {
		if ((f.exact && !str_eq(en->key, prefix)) || !en->tag ||
		    !filter_matches(&f, en->tag))
			continue;
		if (n == cap) {
			cap = cap ? cap * 2 : 64;
			list = xrealloc(list, cap * sizeof(struct object *));
		}
		list[n++] = object_ref(en->tag);
	}
	filter_done(&f);
	*ret = list;
	*ret_n = n;
	return e;
}

static struct err *delete_each(struct call *c, const struct op *like,
			       const struct delete_options *options, struct object **list, size_t n)
{
	struct err *e = NULL;

	for (size_t i = 0; i < n && !e; i++) {
		autoop op = *like;

		op.ns = list[i]->ns;
		op.name = list[i]->name;
		e = op_delete(&op, options);
		if (err_is(e, ERR_NOT_FOUND)) { /* went along with one before it */
			err_free(e);
			e = NULL;
		}
	}
	if (e)
		c->route.name = "";
	return e;
}

void handle_delete_collection(struct call *c)
{
	struct delete_options options;
	struct list_options select;
	struct object **list = NULL;
	autoop op = { 0 };
	autobuf b = { 0 };
	struct render how;
	size_t n = 0;
	const struct options_input in = call_options(c);
	struct err *e = call_options_end(c, OPTIONS_LIST, list_options_read(&in, &select));

	if (!e)
		e = delete_of_call(c, &op, &options);
	if (!e)
		e = render_of(c, &how);
	if (!e)
		e = select_names(c, &select, &list, &n);
	if (!e)
		e = delete_each(c, &op, &options, list, n);
	how.shape = SHAPE_OBJECT;
	buf_printf(&b,
		   "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":"
		   "\"%llu\"},\"items\":[",
		   c->route.kind->list_kind, kind_api_version(c->route.kind),
		   (unsigned long long)store_rev(c->s->store));
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_add_char(&b, ',');
		if (!e)
			e = render_add(&how, list[i], &b);
		object_unref(list[i]);
	}
	free(list);
	buf_add_str(&b, "]}\n");
	if (e)
		call_fail(c, e);
	else
		call_reply_durably(c, STATUS_OK, bytes_from_buf(&b));
}
