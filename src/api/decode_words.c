/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/decode_priv.h"
#include "api/kind_priv.h"
#include "base/buf.h"
#include "base/str.h"

/* Errors as Go's readers word them: users know them, and programs look for them. */

static const struct place *field_place(const struct place *at)
{
	while (at && !at->field)
		at = at->up;
	return at;
}

/* The path from where Go started reading, including the structs that members are inlined from. */
static void add_members(const struct place *at, struct buf *out)
{
	at = field_place(at);
	if (!at)
		return;
	if (field_place(at->up)) {
		add_members(at->up, out);
		buf_add_char(out, '.');
	}
	if (at->field->embed)
		buf_printf(out, "%s.", at->field->embed);
	buf_add_str(out, at->field->name);
}

static const char *last_word(const char *name)
{
	const char *dot = name ? strrchr(name, '.') : NULL;

	return dot ? dot + 1 : str_or(name, "");
}

static void add_plain_type(const struct type *t, struct buf *out)
{
	static const char *const names[TYPE_KIND_MAX_] = {
		[TYPE_STRING] = "string",
		[TYPE_BOOL] = "bool",
		[TYPE_INT32] = "int32",
		[TYPE_INT64] = "int64",
		[TYPE_NUMBER] = "float64",
		[TYPE_INT_OR_STRING] = "intstr.IntOrString",
		[TYPE_QUANTITY] = "resource.Quantity",
		[TYPE_TIME] = "v1.Time",
		[TYPE_MICRO_TIME] = "v1.MicroTime",
		[TYPE_BYTES] = "[]uint8",
		[TYPE_OBJECT] = "v1.",
		[TYPE_MAP] = "map[string]",
		[TYPE_LIST] = "[]",
		[TYPE_ANY] = "interface {}",
	};

	if (t->kind == TYPE_OBJECT && str_starts(str_or(t->name, ""), "handlers.")) {
		buf_add_str(out, t->name);
		return;
	}
	buf_add_str(out, names[t->kind]);
	if (t->kind == TYPE_OBJECT)
		buf_add_str(out, last_word(t->name));
	else if (t->elem)
		add_plain_type(t->elem, out);
}

/* The element type of a list or map by its Go name, or NULL when the name does not say. */
static const char *element_of(const char *go)
{
	const char *end = strchr(go, ']');

	return (str_starts(go, "[]") || str_starts(go, "map[")) && end ? end + 1 : NULL;
}

/* The table has Go's name where it does not follow from the type. */
static void add_type(const struct place *at, const struct type *t, struct buf *out)
{
	const struct place *field = field_place(at);
	const char *go = field ? field->field->go : NULL;

	for (; go && at != field; at = at->up)
		go = element_of(go);
	if (go)
		buf_add_str(out, go);
	else
		add_plain_type(t, out);
}

struct err *go_mismatch(const struct place *at, const char *value, const struct type *t)
{
	const struct place *field = field_place(at);
	autobuf type = { 0 }, members = { 0 };

	add_type(at, t, &type);
	if (!field)
		return err_new(ERR_MALFORMED, "json: cannot unmarshal %s into Go value of type %s",
			       value, buf_str(&type));
	add_members(at, &members);
	return err_new(ERR_MALFORMED,
		       "json: cannot unmarshal %s into Go struct field %s.%s of type %s", value,
		       last_word(field->of->name), buf_str(&members), buf_str(&type));
}

/* Kinds */

/* The package of Go that has the kinds of a group. */
static const char *go_package(const char *group)
{
	static const struct {
		const char *group, *package;
	} rows[] = {
		{ "", "core" },
		{ "events.k8s.io", "core" },
		{ "authentication.k8s.io", "authentication" },
		{ "rbac.authorization.k8s.io", "rbac" },
		{ "coordination.k8s.io", "coordination" },
		{ "discovery.k8s.io", "discovery" },
		{ "networking.k8s.io", "networking" },
		{ "node.k8s.io", "node" },
		{ "storage.k8s.io", "storage" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(rows[i].group, group))
			return rows[i].package;
	return group;
}

/* Another kind that is built in, or the list of one, or what subresources take. */
static bool is_known(const char *api_version, const char *kind)
{
	static const char *const bodies[][2] = {
		{ "authentication.k8s.io/v1", "TokenRequest" },
		{ "autoscaling/v1", "Scale" },
		{ "policy/v1", "Eviction" },
		{ "policy/v1beta1", "Eviction" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
		if (str_eq(api_version, bodies[i][0]) && str_eq(kind, bodies[i][1]))
			return true;
	for (size_t i = 0; kinds_builtin[i]; i++) {
		const struct kind *k = kinds_builtin[i];

		if (!k->type->structural && str_eq(api_version, k->api_version) &&
		    (str_eq(kind, k->kind) || str_eq(kind, k->list_kind)))
			return true;
	}
	return false;
}

struct err *go_other_kind(const struct kind *k, const char *api_version, const char *kind)
{
	const char *slash = strchr(api_version, '/');

	if (is_known(api_version, kind))
		return err_new(ERR_MALFORMED, "converting (%s.%s) to (%s.%s): unknown conversion",
			       slash ? slash + 1 : api_version, kind, go_package(k->group),
			       k->kind);
	return err_new(ERR_MALFORMED,
		       "no kind \"%s\" is registered for version \"%s\" in scheme "
		       "\"pkg/runtime/scheme.go:111\"",
		       kind, api_version);
}

/* Times */

/* The elements of the layout, and where a value of each would be out of range. */
static const struct element {
	const char *layout, *out_of_range;
	int digits, min, max;
} elements[] = {
	{ "2006", NULL, 4, 0, 9999 }, { "-" }, { "01", "month", 2, 1, 12 },  { "-" },
	{ "02", "day", 2, 1, 31 },    { "T" }, { "15", "hour", 2, 0, 23 },   { ":" },
	{ "04", "minute", 2, 0, 59 }, { ":" }, { "05", "second", 2, 0, 59 },
};

static int number_of(const char *text, int digits)
{
	int n = 0;

	for (int i = 0; i < digits; i++) {
		if (!isdigit((unsigned char)text[i]))
			return -1;
		n = n * 10 + (text[i] - '0');
	}
	return n;
}

struct err *go_bad_time(const char *text, bool micro)
{
	const char *layout =
		micro ? "2006-01-02T15:04:05.000000Z07:00" : "2006-01-02T15:04:05Z07:00";
	const char *at = text, *range = NULL, *want = NULL;

	for (size_t i = 0; i < ARRAY_LEN(elements) && !want && !range; i++) {
		const struct element *e = &elements[i];
		int n = number_of(at, e->digits);

		if (e->digits ? n < 0 : *at != *e->layout)
			want = e->layout;
		else if (e->digits && (n < e->min || n > e->max))
			range = e->out_of_range;
		else
			at += e->digits ? e->digits : 1;
	}
	if (!want && !range && micro && strlen(at) > 0 &&
	    (*at != '.' || strspn(at + 1, "0123456789") < 6))
		want = ".000000";
	if (!want && !range && *at == '.')
		at += 1 + strspn(at + 1, "0123456789");
	if (!want && !range && *at == 'Z' && at[1])
		return err_new(ERR_MALFORMED, "parsing time \"%s\": extra text: \"%s\"", text,
			       at + 1);
	if (!want && !range && *at == 'Z')
		range = "day"; /* the month does not have it */
	if (range)
		return err_new(ERR_MALFORMED, "parsing time \"%s\": %s out of range", text, range);
	return err_new(ERR_MALFORMED,
		       "parsing time \"%s\" as \"%s\": cannot parse \"%s\" as \"%s\"", text, layout,
		       at, want ? want : "Z07:00");
}

/* Bytes */

static bool is_base64(char c)
{
	return isalnum((unsigned char)c) || c == '+' || c == '/';
}

static size_t skip_newlines(const char *text, size_t len, size_t i)
{
	while (i < len && (text[i] == '\n' || text[i] == '\r'))
		i++;
	return i;
}

/* Padding begins at i - 1, after j characters of a group of four. */
static long padding_error(const char *text, size_t len, size_t i, int j)
{
	if (j < 2)
		return (long)i - 1;
	if (j == 2) {
		i = skip_newlines(text, len, i);
		if (i == len)
			return (long)len;
		if (text[i++] != '=')
			return (long)i - 2;
	}
	i = skip_newlines(text, len, i);
	return i < len ? (long)i : -1;
}

long go_base64_error(const char *text, size_t len)
{
	size_t i = 0;
	int j = 0;

	while ((i = skip_newlines(text, len, i)) < len) {
		char c = text[i++];

		if (c == '=')
			return padding_error(text, len, i, j);
		if (!is_base64(c))
			return (long)i - 1;
		j = (j + 1) % 4;
	}
	return j ? (long)len - j : -1;
}
