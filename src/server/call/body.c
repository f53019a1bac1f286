/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/body.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http_server.h"
#include "server/call/call.h"
#include "server/call/protobuf.h"
#include "server/call/status.h"

/*
 * What a client says besides the path. Bodies become JSON trees whatever they were sent as; options
 * come from the query, those of a deletion also from its body.
 */
enum {
	DEPTH_MAX = 128, /* of JSON in bodies */
};

/* The query */

const char *call_query(struct call *c, const char *name)
{
	autofree char *value = http_query_get(c->query, name);

	return arena_strdup(c->arena, value);
}

bool call_query_true(struct call *c, const char *name)
{
	const char *v = call_query(c, name);

	return v && !str_eq(v, "0") && !str_eq_nocase(v, "false");
}

static struct err *bad_number(struct err *e, const char *name)
{
	return e ? err_recode(err_wrap(e, "read %s", name), ERR_MALFORMED) : NULL;
}

struct err *call_query_int(struct call *c, const char *name, int64_t min, int64_t max, int64_t *ret)
{
	const char *text = call_query(c, name);

	return str_empty(text) ? NULL : bad_number(parse_int(text, min, max, ret), name);
}

struct err *call_query_uint(struct call *c, const char *name, uint64_t max, uint64_t *ret)
{
	const char *text = call_query(c, name);

	return str_empty(text) ? NULL : bad_number(parse_uint(text, max, ret), name);
}

/* Bodies */

/* No Content-Type means JSON: the Python client sends none. */
static bool is_json_type(const char *type)
{
	struct span rest, t = span_cut(SPAN(type), ';', &rest);

	return span_eq_nocase(span_trim(t), "application/json");
}

struct err *body_json(struct call *c, struct json_doc **ret)
{
	static const struct json_limits limits = { .max_len = BODY_MAX, .max_depth = DEPTH_MAX };
	struct err *e;

	*ret = NULL;
	if (!c->body_len)
		return NULL;
	e = json_parse(c->body, c->body_len, &limits, ret);
	if (e && !err_is(e, ERR_TOO_LARGE))
		e = err_recode(e, ERR_MALFORMED);
	return err_wrap(e, "read the body as JSON");
}

struct err *body_tree(struct call *c, const struct type *t, struct json_doc **ret)
{
	const char *type = http_request_header(c->req, "content-type");

	*ret = NULL;
	if (str_empty(type) || is_json_type(type))
		return body_json(c, ret);
	if (protobuf_is(type))
		return c->body_len ? protobuf_read(c->body, c->body_len, t, ret) : NULL;
	return err_new(ERR_MEDIA_TYPE,
		       "the body of the request was in an unknown format - accepted media types "
		       "include: application/json, application/vnd.kubernetes.protobuf (got %s)",
		       type);
}

struct err *body_object(struct call *c, struct json_doc **ret)
{
	struct err *e = body_tree(c, c->route.kind->type, ret);

	if (!e && !*ret)
		e = err_new(ERR_MALFORMED, "the request has no body, an object is required");
	return e;
}

struct err *body_patch(struct call *c, enum patch_type *ret_how, struct json_doc **ret)
{
	const char *type = http_request_header(c->req, "content-type");
	struct err *e = patch_type_of(str_or(type, ""), ret_how);

	if (!e && *ret_how == PATCH_APPLY)
		e = err_new(ERR_MEDIA_TYPE, "server-side apply is not served yet; use client-side "
					    "apply (kubectl apply without --server-side)");
	if (!e)
		e = body_json(c, ret);
	if (!e && !*ret)
		e = err_new(ERR_MALFORMED, "the request has no body, a patch is required");
	return e;
}

/* Options */

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

struct err *options_read(struct call *c, struct write_options *ret)
{
	struct err *e = read_dry_run(c, call_query(c, "dryRun"), &ret->dry_run);

	return e ? e : read_strictness(c, call_query(c, "fieldValidation"), &ret->unknown);
}

static struct err *read_rev(const struct json *v, uint64_t *ret)
{
	const char *text = json_str(v);

	return str_empty(text) ? NULL
			       : bad_number(parse_uint(text, UINT64_MAX, ret),
					    "preconditions.resourceVersion");
}

static struct err *options_of_body(struct call *c, const struct json *body,
				   struct delete_options *ret, bool *dry_run)
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
			e = read_dry_run(c, json_str(it.val), dry_run);
	return e;
}

static struct err *options_of_query(struct call *c, struct delete_options *ret)
{
	static const char *const policies[] = { "Background", "Foreground", "Orphan", NULL };
	const char *policy = call_query(c, "propagationPolicy");
	struct err *e = call_query_int(c, "gracePeriodSeconds", 0, INT32_MAX, &ret->grace_s);

	if (!str_empty(policy))
		ret->propagation = policy;
	if (e)
		return e;
	if (ret->propagation && !str_in(ret->propagation, policies))
		return unsupported(c, "propagationPolicy",
				   arena_printf(c->arena, "\"%s\"", ret->propagation),
				   "\"Foreground\", \"Background\", \"Orphan\", \"nil\"");
	return NULL;
}

struct err *options_read_delete(struct call *c, struct delete_options *ret, bool *dry_run)
{
	autoptr(json_doc) d = NULL;
	struct err *e = body_tree(c, &type_delete_options, &d);

	*ret = (struct delete_options){ .grace_s = -1 };
	if (!e)
		e = options_of_body(c, json_root(d), ret, dry_run);
	return e ? e : options_of_query(c, ret);
}
