/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode.h"

#include "api/decode_priv.h"
#include "api/kind.h"
#include "api/schema_builtin_priv.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/yaml_tree.h"

/*
 * The stage itself: it makes a tree of the text, fits the tree to its type, and reports unknown and
 * duplicate members as the request asks. decode_typed.c and decode_loose.c read the values.
 */

const struct type *const body_token_request = &type_authentication_token_request;
const struct type *const body_scale = &type_autoscaling_scale;
const struct type *const body_eviction = &type_policy_eviction;
const struct type *const body_token_review = &type_authentication_token_review;
const struct type *const body_self_review = &type_authentication_self_subject_review;
const struct type *const body_access_review = &type_authorization_subject_access_review;
const struct type *const body_self_access_review = &type_authorization_self_subject_access_review;
const struct type *const body_self_rules_review = &type_authorization_self_subject_rules_review;

/* Go's words where Go would refuse the text too; ours where only our own limit is exceeded. */
static struct err *parse(const char *text, size_t len, bool *duplicates, struct json_doc **ret)
{
	const struct json_limits limits = {
		.max_len = DECODE_LEN_MAX,
		.max_depth = DECODE_DEPTH_MAX,
		.duplicates = duplicates,
	};
	struct err *e = json_parse(text, len, &limits, ret), *go;

	if (!err_is(e, ERR_MALFORMED))
		return e;
	go = go_bad_json(text, len);
	if (!go)
		return e;
	err_free(e);
	return go;
}

static bool is_longer(const struct json *v, size_t len)
{
	autobuf b = { 0 };

	json_write(v, &b);
	return b.len > len;
}

/* What a parser of Go says: the number of a line is there from the second on. */
static struct err *parse_yaml(const char *text, size_t len, struct json_doc **ret)
{
	static const char ours[] = "read YAML: ", first[] = "line 1: ";
	struct err *e = yaml_parse_one(text, len, ret), *go;
	const char *why;

	if (!e && is_longer(json_root(*ret), DECODE_LEN_MAX)) { /* by aliases */
		json_doc_free(*ret);
		return err_new(ERR_TOO_LARGE, "it has more than %d bytes as JSON", DECODE_LEN_MAX);
	}
	if (!err_is(e, ERR_MALFORMED))
		return e;
	why = err_text(e);
	why += str_starts(why, ours) ? strlen(ours) : 0;
	why += str_starts(why, first) ? strlen(first) : 0;
	go = err_new(ERR_MALFORMED, "yaml: %s", why);
	err_free(e);
	return go;
}

static struct err *read_input(const struct type *t, const struct decode_input *in,
			      bool *ret_duplicates, struct json_doc **ret)
{
	switch (in->media) {
	case DECODE_JSON:
		return parse(in->text, in->len, ret_duplicates, ret);
	case DECODE_PROTOBUF:
		return decode_protobuf(in->text, in->len, t, ret);
	case DECODE_YAML:
		return parse_yaml(in->text, in->len, ret);
	case DECODE_TREE:
		*ret = in->tree;
		break;
	}
	return NULL;
}

/* Null becomes an object without members: Go leaves the struct as it is. */
static void settle_root(struct json_doc *d)
{
	if (!json_root(d) || json_is(json_root(d), JSON_NULL))
		json_set_root(d, json_obj(d));
}

static struct err *decode_tree(struct decode_walk *w, const struct type *t)
{
	struct place at = { .path = { .name = "" }, .was = w->was };
	struct json *root = json_root(w->d);
	struct err *e = t->structural ? decode_loose(w, root, t) : decode_typed(w, &root, t, &at);

	if (!e)
		return w->first;
	err_free(w->first);
	return e;
}

struct err *schema_decode(const struct type *t, const struct decode_input *in,
			  struct causes *reports, struct json_doc **ret)
{
	autoptr(json_doc) d = NULL;
	struct decode_walk w = { .reports = reports };
	struct err *e = read_input(t, in, &w.duplicates, &d);

	if (e)
		return e;
	settle_root(d);
	w.d = d;
	e = decode_tree(&w, t);
	if (!e)
		*ret = take(d);
	return e;
}

/* Whole objects */

enum {
	SUMMARY_MAX = 30,
	SHOWN_MAX = 1024, /* characters of the result of a patch */
};

static const char *const go_types[JSON_TYPE_MAX_] = {
	[JSON_BOOL] = "bool",  [JSON_INT] = "number", [JSON_REAL] = "number",
	[JSON_STR] = "string", [JSON_ARR] = "array",  [JSON_OBJ] = "object",
};

struct named {
	const char *api_version, *kind; /* as in the data; "" when absent */
};

static struct err *no_kind(struct err *why)
{
	return err_wrap(why, "couldn't get version/kind; json parse error");
}

static struct err *interpret(const struct json *root, struct named *ret)
{
	static const char *const names[] = { "apiVersion", "kind" };
	const char **into[] = { &ret->api_version, &ret->kind };

	if (!json_is(root, JSON_OBJ))
		return no_kind(err_new(
			ERR_MALFORMED,
			"json: cannot unmarshal %s into Go value of type struct { APIVersion string "
			"\"json:\\\"apiVersion,omitempty\\\"\"; Kind string "
			"\"json:\\\"kind,omitempty\\\"\" }",
			go_types[json_type(root)]));
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct json *v = json_get(root, names[i]);

		if (v && !json_is(v, JSON_STR) && !json_is(v, JSON_NULL))
			return no_kind(err_new(ERR_MALFORMED,
					       "json: cannot unmarshal %s into Go struct field "
					       ".%s of type string",
					       go_types[json_type(v)], names[i]));
		*into[i] = str_or(json_str(v), "");
	}
	if (strchr(ret->api_version, '/') != strrchr(ret->api_version, '/'))
		return err_new(ERR_MALFORMED, "unexpected GroupVersion string: %s",
			       ret->api_version);
	return NULL;
}

/* Puts in front of e which object could not be read as what. */
static struct err *cannot_handle(struct err *e, const struct kind *k, const struct named *n)
{
	const char *slash = strchr(n->api_version, '/');
	struct err *said =
		err_new(err_code(e), "%s in version \"%s\" cannot be handled as a %s: %s", n->kind,
			slash ? slash + 1 : n->api_version, k->kind, err_text(e));

	err_free(e);
	return said;
}

static void add_summary(const struct decode_input *in, struct buf *out)
{
	size_t len = MIN(in->len, (size_t)SUMMARY_MAX);

	if (!in->len)
		buf_add_str(out, "<empty>");
	else if (*in->text == '{')
		buf_add(out, in->text, len);
	else
		for (size_t i = 0; i < len; i++)
			buf_printf(out, "%02x", (unsigned char)in->text[i]);
	if (in->len > len)
		buf_add_str(out, " ...");
}

static struct err *unrecognized(struct err *e, const struct kind *k, const struct decode_input *in)
{
	autobuf summary = { 0 };
	struct err *said;

	if (!err_is(e, ERR_MALFORMED) || in->media == DECODE_TREE)
		return e;
	add_summary(in, &summary);
	said = err_new(ERR_MALFORMED,
		       "the object provided is unrecognized (must be of type %s): %s (%s)", k->kind,
		       err_text(e), buf_str(&summary));
	err_free(e);
	return said;
}

/* A custom resource must say what it is; other kinds may leave it out. */
static struct err *check_custom(const struct kind *k, const struct decode_input *in,
				const struct json *root, const struct named *n)
{
	const char *name = json_get_str(json_get(root, "metadata"), "name");

	if (in->media != DECODE_TREE && !*n->kind)
		return unrecognized(err_new(ERR_MALFORMED, "Object 'Kind' is missing in '%.*s'",
					    (int)in->len, in->text),
				    k, in);
	if ((in->media != DECODE_TREE || *n->api_version) &&
	    !str_eq(n->api_version, kind_api_version(k)))
		return err_new(ERR_MALFORMED,
			       "the API version in the data (%s) does not match the expected API "
			       "version (%s)",
			       n->api_version, kind_api_version(k));
	if (*n->kind && !str_eq(n->kind, k->kind))
		return err_new(ERR_INVALID,
			       "%s.%s \"%s\" is invalid: kind: Invalid value: \"%s\": must be %s",
			       n->kind, k->group, str_or(name, ""), n->kind, k->kind);
	return NULL;
}

static struct err *check_built_in(const struct kind *k, const struct decode_input *in,
				  const struct named *n)
{
	struct err *e;

	if (str_eq(n->api_version, kind_api_version(k)) && str_eq(n->kind, k->kind))
		return NULL;
	e = go_other_kind(k, n->api_version, n->kind);
	return in->media == DECODE_TREE ? e : cannot_handle(e, k, n);
}

#define BODY_KIND(group_, version_, kind_)                         \
	(&(const struct kind){ .group = (group_),                  \
			       .version = (version_),              \
			       .api_version = group_ "/" version_, \
			       .kind = (kind_) })
const struct body_kind body_kind_token_request = { .as = BODY_KIND("authentication.k8s.io", "v1",
								   "TokenRequest") };
const struct body_kind body_kind_scale = { .as = BODY_KIND("autoscaling", "v1", "Scale") };
const struct body_kind body_kind_eviction = { .as = BODY_KIND("policy", "v1", "Eviction"),
					      .older = "policy/v1beta1" };

static struct err *check_body_kind(const struct body_kind *as, const struct decode_input *in,
				   struct named *n)
{
	n->api_version = str_or(n->api_version, as->as->api_version);
	n->kind = str_or(n->kind, as->as->kind);
	if (str_eq(n->api_version, as->older) && str_eq(n->kind, as->as->kind))
		return NULL;
	return check_built_in(as->as, in, n);
}

struct err *body_decode(const struct type *t, const struct body_kind *as,
			const struct decode_input *in, struct json_doc **ret)
{
	autoptr(json_doc) d = NULL;
	struct decode_walk w = { 0 };
	struct named n = { "", "" };
	struct err *e = read_input(t, in, &w.duplicates, &d);

	if (e)
		return in->media == DECODE_JSON && err_is(e, ERR_MALFORMED) ? no_kind(e) : e;
	settle_root(d);
	w.d = d;
	e = interpret(json_root(d), &n);
	if (e && as)
		e = unrecognized(e, as->as, in);
	if (!e && as)
		e = check_body_kind(as, in, &n);
	if (!e)
		e = decode_tree(&w, t);
	if (!e)
		*ret = take(d);
	return e;
}

static struct err *check_kind(const struct kind *k, const struct decode_input *in,
			      struct json_doc *d, struct named *n)
{
	struct err *e = interpret(json_root(d), n);

	if (e)
		return unrecognized(e, k, in);
	if (k->type->structural)
		e = check_custom(k, in, json_root(d), n);
	n->api_version = str_or(n->api_version, kind_api_version(k));
	n->kind = str_or(n->kind, k->kind);
	if (!e && !k->type->structural)
		e = check_built_in(k, in, n);
	return e;
}

/* What becomes of unknown and duplicate members, as the client asked: an error, warnings, nothing.
 */
static struct err *verdict(const struct decode_request *r, const struct causes *odd)
{
	autobuf b = { 0 };

	for (size_t i = 0; i < odd->n; i++) {
		buf_printf(&b, "%s%s", i ? ", " : "", odd->list[i].message);
		if (r->strictness == STRICTNESS_WARN && r->warn)
			r->warn(r->warn_arg, odd->list[i].message);
	}
	if (r->strictness != STRICTNESS_STRICT || !b.len)
		return NULL;
	return err_new(ERR_MALFORMED, "strict decoding error: %s", buf_str(&b));
}

static struct err *settle(const struct kind *k, const struct decode_request *r,
			  struct decode_walk *w)
{
	struct causes odd = { 0 };
	struct err *e;

	for (size_t i = 0; r->reports && i < r->reports->n; i++)
		causes_add(&odd, CAUSE_UNKNOWN, r->reports->list[i].field, "%s",
			   r->reports->list[i].message);
	w->reports = r->strictness == STRICTNESS_IGNORE ? NULL : &odd;
	e = decode_tree(w, k->type);
	if (!e)
		e = verdict(r, &odd);
	causes_done(&odd);
	return e;
}

/* When the result of a patch cannot be read, the patch is at fault. */
static struct err *patch_invalid(struct err *e, const struct json *root, struct causes *c)
{
	autoptr(json_doc) d = json_doc_new();
	autofree char *result = NULL, *shown = NULL, *text = NULL;

	if (!err_is(e, ERR_MALFORMED))
		return e;
	result = json_to_text(root);
	shown = json_to_text(json_new_strn(d, result, strnlen(result, SHOWN_MAX)));
	causes_add(c, CAUSE_INVALID, "patch", "Invalid value: %s: %s", shown, err_text(e));
	err_free(e);
	text = causes_text(c);
	return err_new(ERR_INVALID, " \"\" is invalid: %s", text);
}

static void name_kind(struct json_doc *d, const struct named *n)
{
	struct json *root = json_root(d);

	if (!json_get(root, "apiVersion"))
		json_set_str(d, root, "apiVersion", n->api_version);
	if (!json_get(root, "kind"))
		json_set_str(d, root, "kind", n->kind);
}

static struct err *decode_object(const struct kind *k, const struct decode_request *r,
				 struct decode_walk *w)
{
	struct named n = { "", "" };
	autofree char *version = NULL, *kind = NULL;
	struct err *e;

	settle_root(w->d);
	e = check_kind(k, &r->in, w->d, &n);
	if (e)
		return e;
	version = xstrdup(n.api_version); /* settling may replace the members */
	kind = xstrdup(n.kind);
	n = (struct named){ version, kind };
	e = settle(k, r, w);
	if (e)
		return r->patch_causes ? e : cannot_handle(e, k, &n);
	name_kind(w->d, &n);
	return NULL;
}

struct err *object_decode(const struct kind *k, const struct decode_request *r,
			  struct json_doc **ret)
{
	autoptr(json_doc) d = NULL;
	struct decode_walk w = { .was = r->was };
	struct err *e = read_input(k->type, &r->in, &w.duplicates, &d);

	if (e && r->in.media == DECODE_JSON && err_is(e, ERR_MALFORMED))
		e = no_kind(e);
	if (e)
		return r->in.media == DECODE_PROTOBUF ? e : unrecognized(e, k, &r->in);
	w.d = d;
	e = decode_object(k, r, &w);
	if (e && r->patch_causes)
		return patch_invalid(e, json_root(d), r->patch_causes);
	if (!e)
		*ret = take(d);
	return e;
}

/* Patches */

static bool looks_like_json(const char *text, size_t len)
{
	while (len && strchr(" \t\r\n", *text)) {
		text++;
		len--;
	}
	return len && *text == '{';
}

struct err *apply_decode(const char *text, size_t len, struct causes *reports,
			 struct json_doc **ret)
{
	autoptr(json_doc) d = NULL;
	struct err *e = NULL;

	if (!len) {
		d = json_doc_new();
		json_set_root(d, json_obj(d));
	}
	if (looks_like_json(text, len))
		e = patch_decode(text, len, false, reports, &d);
	if (e || !d) { /* YAML may begin like JSON, and knows more forms */
		err_free(e);
		e = parse_yaml(text, len, &d);
		if (err_is(e, ERR_MALFORMED))
			e = err_wrap(e, "error converting YAML to JSON");
	}
	if (!e && !json_is(json_root(d), JSON_OBJ))
		e = err_new(ERR_MALFORMED,
			    "error unmarshaling JSON: while decoding JSON: json: "
			    "cannot unmarshal %s into Go value of type "
			    "map[string]interface {}",
			    json_type_name(json_type(json_root(d))));
	if (e)
		return err_wrap(e, "error decoding YAML");
	*ret = take(d);
	return NULL;
}

static const struct field step_fields[] = {
	{ "op", &type_string },
	{ "path", &type_string },
	{ "from", &type_string },
	{ "value", &type_any },
	{ 0 },
};
static const struct type step = { TYPE_OBJECT, "handlers.jsonPatchOp", step_fields };
static const struct type steps = { TYPE_LIST, .elem = &step };

/* The operations of a JSON patch have fixed members; any other patch is an object of any kind. */
static struct err *settle_patch(struct decode_walk *w, bool is_json_patch)
{
	struct place at = { .path = { .name = "" } };
	struct json *root = json_root(w->d);

	if (json_is(root, JSON_NULL))
		return NULL; /* a patch that changes nothing */
	if (is_json_patch && json_is(root, JSON_ARR))
		return decode_typed(w, &root, &steps, &at);
	if (json_is(root, is_json_patch ? JSON_ARR : JSON_OBJ)) {
		decode_settle_duplicates(w, root, &at, true);
		return NULL;
	}
	return err_new(ERR_MALFORMED, "json: cannot unmarshal %s into Go value of type %s",
		       go_types[json_type(root)],
		       is_json_patch ? "[]handlers.jsonPatchOp" : "map[string]interface {}");
}

struct err *patch_decode(const char *text, size_t len, bool is_json_patch, struct causes *reports,
			 struct json_doc **ret)
{
	autoptr(json_doc) d = NULL;
	struct causes odd = { 0 };
	struct decode_walk w = { .reports = reports ? &odd : NULL };
	struct err *e = parse(text, len, &w.duplicates, &d);

	w.d = d;
	if (!e)
		e = settle_patch(&w, is_json_patch);
	if (!e)
		e = w.first;
	else
		err_free(w.first);
	for (size_t i = 0; i < odd.n; i++)
		causes_add(reports, CAUSE_UNKNOWN, odd.list[i].field, "%s%s",
			   is_json_patch ? "json patch " : "", odd.list[i].message);
	causes_done(&odd);
	if (!e)
		*ret = take(d);
	return e;
}
