/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/body.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http_server.h"
#include "server/call/call.h"

/*
 * What a client sends besides the path, passed to the decode stage (api/decode.h): bodies by their
 * media type, and the parameters of the query.
 */

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

/* In Go's words, unless it is a number, which only our limits refuse. */
static struct err *bad_number(struct err *e, const char *name, const char *text)
{
	const char *digits = text + (*text == '-' || *text == '+');

	if (!e)
		return NULL;
	if (*digits && !digits[strspn(digits, "0123456789")])
		return err_recode(err_wrap(e, "read %s", name), ERR_MALFORMED);
	err_free(e);
	return err_new(ERR_MALFORMED, "strconv.ParseInt: parsing \"%s\": invalid syntax", text);
}

struct err *call_query_int(struct call *c, const char *name, int64_t min, int64_t max, int64_t *ret)
{
	const char *text = call_query(c, name);

	return str_empty(text) ? NULL : bad_number(parse_int(text, min, max, ret), name, text);
}

struct err *call_query_uint(struct call *c, const char *name, uint64_t max, uint64_t *ret)
{
	const char *text = call_query(c, name);

	return str_empty(text) ? NULL : bad_number(parse_uint(text, max, ret), name, text);
}

/* Of a duration as Go writes it: "1.5h", "300ms", "1m30s". NULL: there is no such unit here. */
static const char *skip_unit(const char *p)
{
	static const char *const units[] = { "ns", "us", "µs", "μs", "ms", "s", "m", "h" };

	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (str_starts(p, units[i]))
			return p + strlen(units[i]);
	return NULL;
}

static bool is_duration(const char *p)
{
	p += *p == '-' || *p == '+';
	if (str_eq(p, "0"))
		return true;
	do {
		size_t whole = strspn(p, "0123456789"), part = 0;

		p += whole;
		if (*p == '.')
			part = 1 + strspn(p + 1, "0123456789");
		p = whole + part > (part > 0) ? skip_unit(p + part) : NULL;
	} while (p && *p);
	return p;
}

struct err *call_check_timeout(struct call *c)
{
	const char *text = call_query(c, "timeout");

	if (str_empty(text) || is_duration(text))
		return NULL;
	return err_new(
		ERR_MALFORMED,
		"invalid timeout specified in the request URL - time: invalid duration \"%s\"",
		text);
}

/* Bodies */

/* No Content-Type means JSON: the Python client sends none. */
struct err *body_input(struct call *c, struct decode_input *ret)
{
	const char *type = http_request_header(c->req, "content-type");
	struct span rest,
		t = span_trim(span_cut(SPAN(str_or(type, "application/json")), ';', &rest));

	*ret = (struct decode_input){ .text = c->body ? c->body : "", .len = c->body_len };
	if (span_eq_nocase(t, "application/json"))
		return NULL;
	ret->media = DECODE_YAML;
	if (span_eq_nocase(t, "application/yaml"))
		return NULL;
	ret->media = DECODE_PROTOBUF;
	if (span_eq_nocase(t, "application/vnd.kubernetes.protobuf"))
		return NULL;
	return err_new(ERR_MEDIA_TYPE,
		       "the body of the request was in an unknown format - accepted media types "
		       "include: application/json, application/yaml, "
		       "application/vnd.kubernetes.protobuf");
}

struct err *body_tree(struct call *c, const struct type *t, const struct body_kind *as,
		      struct json_doc **ret)
{
	struct decode_input in;
	struct err *e = body_input(c, &in);

	if (!e && !in.len)
		in = (struct decode_input){ .media = DECODE_TREE, .tree = json_doc_new() };
	return e ? e : body_decode(t, as, &in, ret);
}

struct err *body_patch(struct call *c, struct causes *reports, enum patch_type *ret_how,
		       struct json_doc **ret)
{
	const char *type = http_request_header(c->req, "content-type");
	struct err *e = patch_type_of(str_or(type, ""), ret_how);
	bool custom = c->route.kind && (c->route.kind->flags & KIND_CRD);

	if (e)
		c->details = DETAILS_NONE;
	if ((custom && e) ||
	    (!e && *ret_how == PATCH_STRATEGIC && c->route.kind && c->route.kind->type->custom)) {
		err_free(e);
		c->details = DETAILS_RESOURCE;
		e = err_new(ERR_MEDIA_TYPE,
			    "the body of the request was in an unknown format - accepted media "
			    "types include: application/json-patch+json, "
			    "application/merge-patch+json, application/apply-patch+yaml");
	}
	if (e)
		return e;
	if (*ret_how == PATCH_APPLY)
		return apply_decode(c->body ? c->body : "", c->body_len, reports, ret);
	e = patch_decode(c->body ? c->body : "", c->body_len, *ret_how == PATCH_JSON, reports, ret);
	return *ret_how == PATCH_STRATEGIC ? e : err_wrap(e, "error decoding patch");
}

/* Options */

const char *call_manager(struct call *c)
{
	const char *agent = str_or(http_request_header(c->req, "user-agent"), "");
	struct span rest, name = span_cut(SPAN(agent), '/', &rest);
	char *text = arena_strndup(c->arena, name.p, name.len), *to = text;
	size_t len;

	for (const char *p = text; *p; p++)
		if ((unsigned char)*p >= ' ' && *p != 0x7f)
			*to++ = *p;
	*to = '\0';
	len = utf8_prefix(text, MIN((size_t)(to - text), (size_t)MANAGER_MAX));
	text[len] = '\0';
	return text;
}

static const char *nth_param(void *arg, const char *name, size_t i)
{
	struct call *c = arg;
	autofree char *value = http_query_nth(c->query, name, i);

	return arena_strdup(c->arena, value);
}

static struct options_input options_input(struct call *c)
{
	return (struct options_input){
		.query = { nth_param, c },
		.arena = c->arena,
		.causes = &c->causes,
	};
}

/* An ERR_INVALID is about the options, and so are the details of the answer. */
static struct err *options_end(struct call *c, enum options_of of, struct err *e)
{
	struct kind *k;

	if (!err_is(e, ERR_INVALID))
		return e;
	k = arena_new_of(c->arena, struct kind);
	*k = (struct kind){ .group = OPTIONS_GROUP, .kind = options_kind(of) };
	c->route.kind = k;
	c->route.name = "";
	return e;
}

bool body_applies(struct call *c)
{
	enum patch_type how = PATCH_TYPE_MAX_;

	err_free(patch_type_of(str_or(http_request_header(c->req, "content-type"), ""), &how));
	return how == PATCH_APPLY;
}

static enum options_of options_for(struct call *c)
{
	if (c->route.verb != VERB_PATCH)
		return c->route.verb == VERB_CREATE ? OPTIONS_CREATE : OPTIONS_UPDATE;
	return body_applies(c) ? OPTIONS_APPLY : OPTIONS_PATCH;
}

struct err *options_read(struct call *c, struct write_options *ret)
{
	const struct options_input in = options_input(c);
	enum options_of of = options_for(c);

	return options_end(c, of, write_options_read(of, &in, ret));
}

struct err *options_read_delete(struct call *c, struct delete_options *ret)
{
	struct options_input in = options_input(c);
	struct err *e = c->body_len ? body_input(c, &in.body) : NULL;

	return options_end(c, OPTIONS_DELETE, e ? e : delete_options_read(&in, ret));
}

struct err *options_read_eviction(struct call *c, struct delete_options *ret)
{
	const struct options_input in = options_input(c);
	autoptr(json_doc) d = NULL;
	const char *name;
	struct err *e = body_tree(c, body_eviction, &body_kind_eviction, &d);

	if (e)
		return e;
	name = json_get_str(json_get(json_root(d), "metadata"), "name");
	if (!str_empty(name) && !str_eq(name, c->route.name))
		return err_new(ERR_MALFORMED, "name in URL does not match name in Eviction object");
	return options_end(c, OPTIONS_DELETE,
			   delete_options_of(json_get(json_root(d), "deleteOptions"), &in, ret));
}

struct err *options_read_list(struct call *c, struct list_options *ret)
{
	const struct options_input in = options_input(c);

	return options_end(c, OPTIONS_LIST, list_options_read(&in, ret));
}
