/* SPDX-License-Identifier: Apache-2.0 */
#include "api/encode.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/read/filter.h"
#include "server/read/render.h"
#include "server/write/write_priv.h"
#include "store/store.h"

/*
 * Deletions over HTTP, of one object and of whatever a selector names.
 */
/* Kinds whose deletion answers with the object, as in Kubernetes; the rest answer with a Status. */
static bool answers_with_object(const struct op *op)
{
	return !op->removed || kind_storage(op->kind)->flags & KIND_SHOW_DELETED;
}

void write_delete(struct admit *a, struct call *c)
{
	struct delete_options options;
	autoop op = write_op(a, c);
	struct err *e = write_acceptable(c);

	if (!e)
		e = options_read_delete(c, &options);
	if (!e)
		op.options.dry_run = options.dry_run;
	if (!e)
		e = op_delete(&op, &options);
	if (e || answers_with_object(&op)) {
		write_finish(c, &op, STATUS_OK, e);
	} else {
		autoptr(json_doc) d = status_success(op.kind, op.result);

		call_reply_durably(c, STATUS_OK, call_encode(c, json_root(d), encode_status));
	}
}

/* kubectl drain asks this way, so that a budget of disruptions could refuse; there are none. */
void write_evict(struct admit *a, struct call *c)
{
	struct delete_options options;
	struct write_options query;
	autoop op = write_op(a, c);
	struct err *e = options_read(c, &query);

	if (!e)
		e = options_read_eviction(c, &options);
	if (!e) {
		op.sub = "";
		op.options.dry_run = options.dry_run |= query.dry_run;
		e = op_delete(&op, &options);
	}
	if (e) {
		write_finish(c, &op, STATUS_CREATED, e);
	} else {
		autoptr(json_doc) d = status_success(op.kind, op.result);

		call_reply_durably(c, STATUS_CREATED, call_encode(c, json_root(d), encode_status));
	}
}

/* Objects that a deletion of many is about. */
struct selection {
	struct object **list; /* references */
	size_t n, cap;
};

static void selection_add(struct selection *s, struct object *o)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 64;
		s->list = xrealloc(s->list, s->cap * sizeof(struct object *));
	}
	s->list[s->n++] = object_ref(o);
}

static void selection_done(struct selection *s)
{
	for (size_t i = 0; i < s->n; i++)
		object_unref(s->list[i]);
	free(s->list);
}

/* All of them first: deleting changes what is being walked. */
static struct err *select_objects(const struct objects *os, struct call *c,
				  const struct list_options *o, struct selection *ret)
{
	struct store_entry *en = NULL;
	struct filter f;
	const char *prefix;
	struct err *e = filter_init(&f, c, o);

	prefix = e ? NULL : buf_head(&f.prefix);
	while (!e && (en = store_next(os->store, prefix, en ? en->key : NULL))) {
		autoptr(object) each = NULL;

		if (f.exact && !str_eq(en->key, prefix))
			continue;
		each = objects_of_entry(os, en);
		if (each && filter_matches(&f, each))
			selection_add(ret, each);
	}
	filter_done(&f);
	return e;
}

static struct err *delete_each(struct call *c, const struct op *like,
			       const struct delete_options *options, const struct selection *s)
{
	struct err *e = NULL;

	for (size_t i = 0; i < s->n && !e; i++) {
		autoop op = *like;

		op.ns = s->list[i]->ns;
		op.name = s->list[i]->name;
		e = op_delete(&op, options);
		if (err_is(e, ERR_NOT_FOUND)) { /* it went together with an earlier one */
			err_free(e);
			e = NULL;
		}
		if (e) {
			c->details = op.details;
			c->route.name = arena_strdup(c->arena, op.name);
		}
	}
	return e;
}

static struct err *write_list_protobuf(const struct render *how, uint64_t rev,
				       const struct selection *s, struct buf *out)
{
	const struct encode_list list = { .name = render_list_name(how),
					  .rev = rev,
					  .remaining = -1 };
	autobuf items = { 0 };
	struct err *e = NULL;

	for (size_t i = 0; i < s->n && !e; i++)
		e = render_item(how, s->list[i], &items);
	encode_list_head(&list, items.len, out);
	buf_add(out, buf_head(&items), items.len);
	encode_list_tail(out);
	return e;
}

/* The objects as they were before. */
static struct err *write_list(const struct render *how, uint64_t rev, const struct selection *s,
			      struct buf *out)
{
	struct err *e = NULL;

	if (how->media == MEDIA_PROTOBUF)
		return write_list_protobuf(how, rev, s, out);

	buf_printf(out,
		   "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":"
		   "\"%llu\"},\"items\":[",
		   how->kind->list_kind, kind_api_version(how->kind), (unsigned long long)rev);
	for (size_t i = 0; i < s->n && !e; i++) {
		if (i)
			buf_add_char(out, ',');
		e = render_add(how, s->list[i], out);
	}
	buf_add_str(out, "]}\n");
	return e;
}

void write_delete_collection(struct admit *a, struct call *c)
{
	struct delete_options options;
	struct selection s = { 0 };
	struct list_options which;
	autoop op = write_op(a, c);
	autobuf b = { 0 };
	struct render how;
	struct err *e = render_of(c, &how);

	if (!e)
		e = options_read_list(c, &which);
	if (!e)
		e = options_read_delete(c, &options);
	if (!e)
		c->dry_run = op.options.dry_run = options.dry_run;
	if (!e)
		e = select_objects(a->objects, c, &which, &s);
	if (!e)
		e = delete_each(c, &op, &options, &s);
	if (!e) {
		render_as_object(c, &how);
		e = write_list(&how, store_rev(a->objects->store), &s, &b);
	}
	selection_done(&s);
	if (e)
		call_fail(c, e);
	else
		call_reply_durably(c, STATUS_OK, bytes_from_buf(&b));
}
