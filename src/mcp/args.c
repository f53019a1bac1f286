/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "api/meta.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * Arguments and answers of tools: the JSON Schema that clients see, the check of what they send and
 * the defaults come from the same rows, so none can promise what another refuses.
 */
static const char *usual_ns(const struct mcp_session *s)
{
	return str_or(s->choice.ns, str_or(s->caller->who.account_ns, "default"));
}

/* The session may know a pool; every session knows a namespace. */
static bool is_required(const struct arg *a, const struct mcp_session *s)
{
	return a->required && !(a->type == ARG_POOL && s->choice.pool);
}

static void set_type(struct json_doc *d, struct json *schema, const struct arg *a)
{
	static const char *const names[ARG_TYPE_MAX_] = {
		[ARG_TEXT] = "string",  [ARG_PATH] = "string",    [ARG_NAMESPACE] = "string",
		[ARG_POOL] = "string",  [ARG_SECONDS] = "number", [ARG_INT] = "integer",
		[ARG_BOOL] = "boolean", [ARG_MAP] = "object",
	};
	struct json *of = schema;

	if (a->nullable) {
		struct json *any = json_need_arr(d, schema, "anyOf"), *null = json_obj(d);

		of = json_obj(d);
		json_push(d, any, of);
		json_set_str(d, null, "type", "null");
		json_push(d, any, null);
	}
	json_set_str(d, of, "type", names[a->type]);
	if (a->type == ARG_MAP)
		json_set_str(d, json_need_obj(d, of, "additionalProperties"), "type", "string");
	if (a->type == ARG_SECONDS)
		json_set_int(d, of, "exclusiveMinimum", 0);
	else if (a->type == ARG_INT)
		json_set_int(d, of, "minimum", a->min);
	if (a->type == ARG_SECONDS || a->type == ARG_INT)
		json_set_int(d, of, "maximum", a->max);
}

static void set_default(struct json_doc *d, struct json *schema, const struct arg *a,
			const struct mcp_session *s)
{
	if (a->type == ARG_NAMESPACE)
		json_set_str(d, schema, "default", usual_ns(s));
	else if (a->type == ARG_POOL && s->choice.pool)
		json_set_str(d, schema, "default", s->choice.pool);
	else if (a->required)
		return;
	else if (a->type == ARG_BOOL)
		json_set_bool(d, schema, "default", a->usual);
	else if (a->type == ARG_MAP || a->usual < 0)
		json_set(d, schema, "default", json_new_null(d));
	else
		json_set_int(d, schema, "default", a->usual);
}

struct json *args_schema(struct json_doc *d, const struct tool *t, const struct mcp_session *s)
{
	struct json *schema = json_obj(d), *props, *required;

	json_set_str(d, schema, "type", "object");
	props = json_need_obj(d, schema, "properties");
	required = json_need_arr(d, schema, "required");
	for (const struct arg *a = t->args; a->name; a++) {
		struct json *p = json_set(d, props, a->name, json_obj(d));

		set_type(d, p, a);
		set_default(d, p, a, s);
		json_set_str(d, p, "description", a->help);
		if (is_required(a, s))
			json_push_str(d, required, a->name);
	}
	json_set_bool(d, schema, "additionalProperties", false);
	return schema;
}

/* The rows of list_files' answer. */
static void set_entries(struct json_doc *d, struct json *schema)
{
	static const struct out rows[] = {
		{ "name", "string", "Name, without its directory" },
		{ "size", "integer", "Bytes" },
		{ "type", "string", "file or directory" },
		{ "mod_time", "number", "Time of the last change, in seconds since 1970" },
		{ 0 },
	};
	const struct tool entry = { .outs = rows };

	json_set_str(d, schema, "type", "array");
	json_set(d, schema, "items", outs_schema(d, &entry));
}

struct json *outs_schema(struct json_doc *d, const struct tool *t)
{
	struct json *schema = json_obj(d), *props, *required;

	json_set_str(d, schema, "type", "object");
	props = json_need_obj(d, schema, "properties");
	required = json_need_arr(d, schema, "required");
	for (const struct out *o = t->outs; o->name; o++) {
		struct json *p = json_set(d, props, o->name, json_obj(d));

		if (str_eq(o->type, "entries"))
			set_entries(d, p);
		else
			json_set_str(d, p, "type", o->type);
		json_set_str(d, p, "description", o->help);
		if (!o->optional)
			json_push_str(d, required, o->name);
	}
	return schema;
}

static struct err *check_text(const struct arg *a, const struct json *v)
{
	const char *text = json_str(v);
	const char *bad = NULL;

	if (!text)
		return err_new(ERR_INVALID, "%s: must be a string", a->name);
	if ((int64_t)json_str_len(v) > a->max)
		return err_new(ERR_INVALID, "%s: longer than %lld bytes", a->name,
			       (long long)a->max);
	if ((int64_t)json_str_len(v) < a->min)
		return err_new(ERR_INVALID, "%s: must not be empty", a->name);
	if (a->type == ARG_NAMESPACE)
		bad = meta_bad_dns_label(text);
	else if (a->type == ARG_POOL)
		bad = meta_bad_dns_subdomain(text);
	return bad ? err_new(ERR_INVALID, "%s: \"%s\": %s", a->name, text, bad) : NULL;
}

static struct err *check_number(const struct arg *a, const struct json *v)
{
	bool whole = a->type == ARG_INT;
	double n = json_real(v, NAN);

	if (!json_is(v, JSON_INT) && !json_is(v, JSON_REAL))
		return err_new(ERR_INVALID, "%s: must be a number", a->name);
	if (whole && n != floor(n))
		return err_new(ERR_INVALID, "%s: must be a whole number", a->name);
	if (!(n <= (double)a->max) || (whole ? n < (double)a->min : n <= 0))
		return err_new(ERR_INVALID,
			       whole ? "%s: %g is not from %lld to %lld"
				     : "%s: %g is not more than %lld and at most %lld",
			       a->name, n, (long long)(whole ? a->min : 0), (long long)a->max);
	return NULL;
}

static struct err *check_map(const struct arg *a, const struct json *v)
{
	if (!json_is(v, JSON_OBJ))
		return err_new(ERR_INVALID, "%s: must be an object of strings", a->name);
	if ((int64_t)json_len(v) > a->max)
		return err_new(ERR_INVALID, "%s: more than %lld members", a->name,
			       (long long)a->max);
	json_each(it, v)
		if (!json_is(it.val, JSON_STR))
			return err_new(ERR_INVALID, "%s.%s: must be a string", a->name, it.key);
	return NULL;
}

static struct err *check_value(const struct arg *a, const struct json *v)
{
	if (json_is(v, JSON_NULL) && a->nullable)
		return NULL;
	switch (a->type) {
	case ARG_TEXT:
	case ARG_PATH:
	case ARG_NAMESPACE:
	case ARG_POOL:
		return check_text(a, v);
	case ARG_SECONDS:
	case ARG_INT:
		return check_number(a, v);
	case ARG_BOOL:
		return json_is(v, JSON_BOOL)
			       ? NULL
			       : err_new(ERR_INVALID, "%s: must be true or false", a->name);
	case ARG_MAP:
		return check_map(a, v);
	case ARG_TYPE_MAX_:
		break;
	}
	return NULL;
}

static const struct arg *find(const struct tool *t, const char *name)
{
	const struct arg *a = t->args;

	while (a->name && !str_eq(a->name, name))
		a++;
	return a->name ? a : NULL;
}

struct err *args_check(const struct tool *t, const struct json *args, const struct mcp_session *s)
{
	struct err *e = NULL;

	if (args && !json_is(args, JSON_OBJ))
		return err_new(ERR_INVALID, "arguments: must be an object");
	json_each(it, args)
		if (!find(t, it.key))
			return err_new(ERR_INVALID, "%.100s: %s has no such argument", it.key,
				       t->name);
	for (const struct arg *a = t->args; a->name && !e; a++) {
		const struct json *v = json_get(args, a->name);

		if (v)
			e = check_value(a, v);
		else if (is_required(a, s))
			e = err_new(ERR_INVALID, "%s: is missing", a->name);
	}
	return e;
}

const char *arg_text(const struct rpc *r, const char *name)
{
	const char *text = json_get_str(r->args, name);
	const struct arg *a = find(r->tool, name);

	if (!text && a->type == ARG_POOL)
		return r->post->session->choice.pool;
	return text;
}

const char *arg_ns(const struct rpc *r)
{
	return str_or(json_get_str(r->args, "namespace"), usual_ns(r->post->session));
}

int64_t arg_int(const struct rpc *r, const char *name)
{
	const struct json *v = json_get(r->args, name);
	const struct arg *a = find(r->tool, name);
	double n = v ? json_real(v, -1) : (double)a->usual;

	if (n < 0)
		return -1;
	return a->type == ARG_SECONDS ? (int64_t)ceil(n * 1000) : (int64_t)n;
}

bool arg_bool(const struct rpc *r, const char *name)
{
	return json_get_bool(r->args, name, find(r->tool, name)->usual);
}

const struct json *arg_map(const struct rpc *r, const char *name)
{
	const struct json *v = json_get(r->args, name);

	return json_is(v, JSON_OBJ) ? v : NULL;
}
