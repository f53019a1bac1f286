/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"
#include "base/parse.h"
#include "net/http_server.h"
#include "server/call/protobuf.h"
#include "server/server_priv.h"

/*
 * Writes over HTTP: from a call to an operation, and from its outcome to an answer that is sent
 * once the commit is on disk. The answer carries the object as this write left it, whatever
 * controllers have made of it since.
 */
static const char *options_of(const struct call *c)
{
	static const char *const names[VERB_MAX_] = {
		[VERB_GET] = "GetOptions",       [VERB_LIST] = "ListOptions",
		[VERB_WATCH] = "ListOptions",    [VERB_CREATE] = "CreateOptions",
		[VERB_UPDATE] = "UpdateOptions", [VERB_PATCH] = "PatchOptions",
		[VERB_DELETE] = "DeleteOptions", [VERB_DELETE_COLLECTION] = "DeleteOptions",
	};

	return names[c->route.verb];
}

static struct err *unsupported(struct call *c, const char *field, const char *value,
			       const char *supported)
{
	const char *text = arena_printf(c->arena, "Unsupported value: %s: supported values: %s",
					value, supported);

	return option_invalid(c, options_of(c), CAUSE_UNSUPPORTED, field, text);
}

static struct err *read_dry_run(struct call *c, const char *text, bool *ret)
{
	if (str_empty(text))
		return NULL;
	if (!str_eq(text, "All"))
		return unsupported(c, "dryRun", arena_printf(c->arena, "[\"%s\"]", text),
				   "\"All\"");
	*ret = true;
	return NULL;
}

static struct err *read_strictness(struct call *c, const char *text, enum strictness *ret)
{
	*ret = STRICTNESS_WARN;
	if (str_eq(text, "Strict"))
		*ret = STRICTNESS_STRICT;
	else if (str_eq(text, "Ignore"))
		*ret = STRICTNESS_IGNORE;
	else if (!str_empty(text) && !str_eq(text, "Warn"))
		return unsupported(c, "fieldValidation", arena_printf(c->arena, "\"%s\"", text),
				   "\"\", \"Ignore\", \"Strict\", \"Warn\"");
	return NULL;
}

struct err *op_of_call(struct call *c, struct op *ret)
{
	const struct route *r = &c->route;
	struct err *e;

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
	e = read_dry_run(c, call_query(c, "dryRun"), &ret->dry_run);
	return e ? e : read_strictness(c, call_query(c, "fieldValidation"), &ret->unknown);
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

static struct err *read_object(struct call *c, struct json_doc **ret)
{
	struct err *e = call_body(c, c->route.kind->type, ret);

	if (!e && !*ret)
		e = err_new(ERR_MALFORMED, "the request has no body, an object is required");
	return e;
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
		e = read_object(c, &d);
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
		e = read_object(c, &d);
	if (!e)
		e = op_update(&op, d);
	finish_write(c, &op, STATUS_OK, e);
}

static struct err *read_patch(struct call *c, enum patch_type *ret_how, struct json_doc **ret)
{
	const char *type = http_request_header(c->req, "content-type");
	struct err *e = patch_type_of(str_or(type, ""), ret_how);

	if (!e && *ret_how == PATCH_APPLY)
		e = err_new(ERR_MEDIA_TYPE, "server-side apply is not served yet; use client-side "
					    "apply (kubectl apply without --server-side)");
	if (!e)
		e = call_body_json(c, ret);
	if (!e && !*ret)
		e = err_new(ERR_MALFORMED, "the request has no body, a patch is required");
	return e;
}

void handle_patch(struct call *c)
{
	autoptr(json_doc) d = NULL;
	autoop op = { 0 };
	enum patch_type how;
	struct err *e = op_of_call(c, &op);

	if (!e)
		e = read_patch(c, &how, &d);
	if (!e)
		e = op_patch(&op, how, json_root(d));
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

static struct err *read_rev(const struct json *v, uint64_t *ret)
{
	const char *text = json_str(v);
	struct err *e = str_empty(text) ? NULL : parse_uint(text, UINT64_MAX, ret);

	return e ? err_recode(err_wrap(e, "read preconditions.resourceVersion"), ERR_MALFORMED)
		 : NULL;
}

static struct err *options_of_body(struct call *c, const struct json *body,
				   struct delete_options *ret, bool *ret_dry)
{
	const struct json *pre = json_get(body, "preconditions"), *orphan;
	struct err *e;

	if (body && !json_is(body, JSON_OBJ))
		return err_new(ERR_MALFORMED, "read DeleteOptions: an object is required");
	ret->uid = arena_strdup(c->arena, json_get_str(pre, "uid"));
	ret->grace_s = json_get_int(body, "gracePeriodSeconds", ret->grace_s);
	ret->propagation = arena_strdup(c->arena, json_get_str(body, "propagationPolicy"));
	orphan = json_get(body, "orphanDependents");
	if (json_is(orphan, JSON_BOOL))
		ret->propagation = json_bool(orphan, false) ? "Orphan" : "Background";
	e = read_rev(json_get(pre, "resourceVersion"), &ret->rev);
	json_each(it, json_get(body, "dryRun"))
		if (!e)
			e = read_dry_run(c, json_str(it.val), ret_dry);
	return e;
}

static struct err *options_of_query(struct call *c, struct delete_options *ret)
{
	const char *grace = call_query(c, "gracePeriodSeconds");
	static const char *const policies[] = { "Background", "Foreground", "Orphan", NULL };
	const char *policy = call_query(c, "propagationPolicy");
	struct err *e = NULL;

	if (!str_empty(grace))
		e = parse_int(grace, 0, INT32_MAX, &ret->grace_s);
	if (!str_empty(policy))
		ret->propagation = policy;
	if (e)
		return err_recode(err_wrap(e, "read gracePeriodSeconds"), ERR_MALFORMED);
	if (ret->propagation && !str_in(ret->propagation, policies))
		return unsupported(c, "propagationPolicy",
				   arena_printf(c->arena, "\"%s\"", ret->propagation),
				   "\"Foreground\", \"Background\", \"Orphan\", \"nil\"");
	return NULL;
}

static struct err *read_options(struct call *c, struct delete_options *ret, bool *ret_dry)
{
	autoptr(json_doc) d = NULL;
	struct err *e = call_body(c, &type_delete_options, &d);

	*ret = (struct delete_options){ .grace_s = -1 };
	if (!e)
		e = options_of_body(c, json_root(d), ret, ret_dry);
	return e ? e : options_of_query(c, ret);
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
	struct err *e = op_of_call(c, &op);

	if (!e)
		e = read_options(c, &options, &op.dry_run);
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
static struct err *select_names(struct call *c, struct object ***ret, size_t *ret_n)
{
	struct store_entry *en = NULL;
	struct object **list = NULL;
	struct filter f;
	size_t n = 0, cap = 0;
	const char *prefix;
	struct err *e = filter_init(&f, c);

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
	struct object **list = NULL;
	autoop op = { 0 };
	autobuf b = { 0 };
	struct render how;
	size_t n = 0;
	struct err *e = op_of_call(c, &op);

	if (!e)
		e = read_options(c, &options, &op.dry_run);
	if (!e)
		e = render_of(c, &how);
	if (!e)
		e = select_names(c, &list, &n);
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
