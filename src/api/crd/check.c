/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "api/crd/custom_priv.h"
#include "api/schema_priv.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

/*
 * Is an object what its schema says? In the words of a kube-apiserver, and within an allowance of
 * steps: schemas with many alternatives and objects with many members multiply.
 */
enum {
	MESSAGE_STEPS = 50, /* what a message costs that nobody may read */
	ENOUGH = 64,        /* causes: more are not kept */
};

struct walk {
	struct causes *causes;
	size_t steps;
	size_t base; /* characters of paths that messages leave out: where a default is */
	bool spent;
};

static void check(struct walk *w, const struct json *v, const struct json *old,
		  const struct node *n, const struct path *at);

static bool spend(struct walk *w, size_t steps)
{
	if (w->spent || w->causes->n >= ENOUGH)
		return false;
	if (w->steps < steps) {
		w->spent = true;
		causes_add(w->causes, CAUSE_INVALID, "",
			   "the object takes more than %d steps to check against its schema; "
			   "make it smaller, or its schema simpler",
			   CUSTOM_STEPS_MAX);
		return false;
	}
	w->steps -= steps;
	return true;
}

/* A path as messages have it. */
static const char *inside(const struct walk *w, const char *path)
{
	path += MIN(w->base, strlen(path));
	return w->base && *path == '.' ? path + 1 : path;
}

/* A number as Go writes it: as short as it can be. */
static const char *number_text(double v, char *ret, size_t size)
{
	int digits = 1, power = 0;
	char e[40];

	do
		(void)snprintf(e, sizeof(e), "%.*e", digits - 1, v);
	while (strtod(e, NULL) != v && ++digits < 18);
	if (v != 0)
		power = (int)floor(log10(fabs(v)));
	if (power < -4 || power >= 6)
		(void)snprintf(ret, size, "%s", e);
	else
		(void)snprintf(ret, size, "%.*f", MAX(digits - 1 - power, 0), v);
	return ret;
}

static void bad(struct walk *w, const struct path *at, const struct json *v, const char *fmt, ...)
	printf_like(4, 5);
static void bad(struct walk *w, const struct path *at, const struct json *v, const char *fmt, ...)
{
	autofree char *path = path_text(at);
	autobuf text = { 0 };
	char number[64];
	va_list ap;

	buf_printf(&text, "%s in body ", inside(w, path));
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (json_is(v, JSON_REAL))
		causes_add(w->causes, CAUSE_INVALID, path, "Invalid value: %s: %s",
			   number_text(json_real(v, 0), number, sizeof(number)), buf_str(&text));
	else
		causes_invalid(w->causes, path, v, buf_str(&text));
}

/* There are too few of something: the message shows how many there are. */
static void too_few(struct walk *w, const struct path *at, size_t have, double min,
		    const char *what)
{
	autofree char *path = path_text(at);

	causes_add(w->causes, CAUSE_INVALID, path,
		   "Invalid value: %zu: %s in body should have at least %.0f %s", have,
		   inside(w, path), min, what);
}

/* value is what the message quotes, of a wrong type or in a wrong format. */
static void bad_type(struct walk *w, const struct path *at, const char *want, const char *value)
{
	autofree char *path = path_text(at);

	causes_add(w->causes, CAUSE_TYPE, path,
		   "Invalid value: \"%.64s\": %s in body must be of type %s: \"%.64s\"", value,
		   inside(w, path), want, value);
}

/* A composite error has no field of its own. */
static void bad_whole(struct walk *w, const struct path *at, const char *what)
{
	autofree char *path = path_text(at);

	causes_add(w->causes, CAUSE_INVALID, "<nil>", "Invalid value: \"\": \"%s\" %s",
		   inside(w, path), what);
}

static bool is_whole(const struct json *v)
{
	return json_is(v, JSON_INT) ||
	       (json_is(v, JSON_REAL) && json_real(v, 0) == floor(json_real(v, 0)));
}

static bool type_fits(const struct json *v, enum node_type t)
{
	switch (t) {
	case NODE_STRING:
		return json_is(v, JSON_STR);
	case NODE_INTEGER:
		return is_whole(v);
	case NODE_NUMBER:
		return json_is(v, JSON_INT) || json_is(v, JSON_REAL);
	case NODE_BOOLEAN:
		return json_is(v, JSON_BOOL);
	case NODE_OBJECT:
		return json_is(v, JSON_OBJ);
	case NODE_ARRAY:
		return json_is(v, JSON_ARR);
	case NODE_INT_OR_STRING:
		return json_is(v, JSON_STR) || is_whole(v);
	case NODE_ANY:
	case NODE_TYPE_MAX_:
		break;
	}
	return true;
}

/* Text and numbers */

static size_t chars_in(const struct json *v)
{
	const char *s = json_str(v);
	size_t n = 0;

	for (size_t i = 0; i < json_str_len(v); i++)
		n += (s[i] & 0xc0) != 0x80;
	return n;
}

static void check_pattern(struct walk *w, const struct json *v, const struct node *n,
			  const struct path *at)
{
	switch (regex_match(n->regex, json_str(v), json_str_len(v), &w->steps)) {
	case REGEX_YES:
		break;
	case REGEX_NO:
		bad(w, at, v, "should match '%s'", n->pattern);
		break;
	case REGEX_TOO_LONG:
		w->steps = 0;
		(void)spend(w, 1);
	}
}

static void check_text(struct walk *w, const struct json *v, const struct node *n,
		       const struct path *at)
{
	size_t len = n->min_len.set || n->max_len.set ? chars_in(v) : 0;
	autofree char *path = NULL;

	if (n->max_len.set && (double)len > n->max_len.v) {
		path = path_text(at);
		causes_add(w->causes, CAUSE_TOO_LONG, path,
			   "Too long: may not be more than %.0f bytes", n->max_len.v);
	}
	if (n->min_len.set && (double)len < n->min_len.v)
		bad(w, at, v, "should be at least %.0f chars long", n->min_len.v);
	if (n->regex)
		check_pattern(w, v, n, at);
	if (n->format && !format_fits(n->format, json_str(v), json_str_len(v)))
		bad_type(w, at, n->format, json_str(v));
}

static bool is_multiple(double v, double of)
{
	double times = v / of;

	return of <= 0 || fabs(times - round(times)) < 1e-9;
}

static void bad_range(struct walk *w, const struct path *at, const char *format)
{
	autofree char *path = path_text(at);

	causes_add(
		w->causes, CAUSE_INVALID, "<nil>",
		"Invalid value: \"\": Checked value must be of type integer with format %s in %s",
		format, inside(w, path));
}

static void check_number(struct walk *w, const struct json *v, const struct node *n,
			 const struct path *at)
{
	double d = json_real(v, 0);
	char text[64];

	if (n->format && str_eq(n->format, "int32") && (d < INT32_MIN || d > INT32_MAX))
		bad_range(w, at, n->format);
	if (n->max.set && (d > n->max.v || (n->exclusive_max && d == n->max.v)))
		bad(w, at, v, "should be less than %s%s", n->exclusive_max ? "" : "or equal to ",
		    number_text(n->max.v, text, sizeof(text)));
	if (n->min.set && (d < n->min.v || (n->exclusive_min && d == n->min.v)))
		bad(w, at, v, "should be greater than %s%s", n->exclusive_min ? "" : "or equal to ",
		    number_text(n->min.v, text, sizeof(text)));
	if (n->multiple.set && !is_multiple(d, n->multiple.v))
		bad(w, at, v, "should be a multiple of %s",
		    number_text(n->multiple.v, text, sizeof(text)));
}

static void check_values(struct walk *w, const struct json *v, const struct node *n,
			 const struct path *at)
{
	autofree char *path = NULL, *text = NULL;
	autobuf list = { 0 };

	if (!spend(w, json_len(n->values)))
		return;
	json_each(it, n->values)
		if (json_equal(it.val, v))
			return;
	json_each(it, n->values) {
		autofree char *one = json_is(it.val, JSON_STR) ? NULL : json_to_text(it.val);

		buf_printf(&list, "%s\"%s\"", list.len ? ", " : "", one ? one : json_str(it.val));
	}
	path = path_text(at);
	text = json_to_text(v);
	causes_add(w->causes, CAUSE_UNSUPPORTED, path,
		   "Unsupported value: %.256s: supported values: %s", text, buf_str(&list));
}

/* Objects and lists */

static void too_many(struct walk *w, const struct path *at, size_t have, double max)
{
	autofree char *path = path_text(at);

	causes_add(w->causes, CAUSE_INVALID, path, "Too many: %zu: must have at most %.0f items",
		   have, max);
}

static void check_required(struct walk *w, const struct json *v, const struct node *n,
			   const struct path *at)
{
	autoptr(map) index = NULL;

	if (json_len(v) > 64 && json_len(n->required) > 64) {
		index = map_new_borrowing(NULL);
		json_each(it, v)
			map_put(index, it.key, it.val);
	}
	if (!spend(w, json_len(n->required)))
		return;
	json_each(it, n->required) {
		const char *name = json_str(it.val);
		struct path in = { .up = at, .name = name };
		autofree char *path = NULL;

		if (index ? map_get(index, name) : json_get(v, name))
			continue;
		path = path_text(&in);
		causes_required(w->causes, path, NULL);
	}
}

/* An object inside an object says what it is, too. */
static void check_embedded(struct walk *w, const struct json *v, const struct path *at)
{
	static const char *const names[] = { "apiVersion", "kind" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct path in = { .up = at, .name = names[i] };
		autofree char *path = path_text(&in);

		if (str_empty(json_get_str(v, names[i])))
			causes_required(w->causes, path, NULL);
	}
}

static void check_object(struct walk *w, const struct json *v, const struct json *old,
			 const struct node *n, const struct path *at)
{
	struct json_iter was = { .of = json_is(old, JSON_OBJ) ? old : NULL };

	if (n->max_props.set && (double)json_len(v) > n->max_props.v)
		too_many(w, at, json_len(v), n->max_props.v);
	if (n->min_props.set && (double)json_len(v) < n->min_props.v)
		too_few(w, at, json_len(v), n->min_props.v, "properties");
	check_required(w, v, n, at);
	if (n->embedded)
		check_embedded(w, v, at);
	json_each(it, v) {
		struct path in = { .up = at, .name = it.key };
		const struct json *there = json_follow(&was, &it);
		const struct node *p = node_property(n, it.key);

		if (!p)
			p = n->additional;
		if (p)
			check(w, it.val, there, p, &in);
	}
}

/* What an element of a set or a map is known by. */
static char *identity(const struct json *v, const struct node *n)
{
	autobuf out = { 0 };

	if (n->list == LIST_SET)
		return json_to_text(v);
	buf_add_char(&out, '{');
	json_each(it, n->keys) {
		const struct json *key = json_get(v, str_or(json_str(it.val), ""));

		if (!key)
			continue;
		buf_printf(&out, "%s\"%s\":", out.len > 1 ? "," : "", json_str(it.val));
		json_write(key, &out);
	}
	buf_add_char(&out, '}');
	return buf_steal(&out, NULL);
}

static void check_unique(struct walk *w, const struct json *v, const struct node *n,
			 const struct path *at)
{
	autoptr(map) seen = map_new(NULL);
	size_t i = 0;

	json_each(it, v) {
		struct path in = { .up = at, .index = i++ };
		autofree char *id = identity(it.val, n), *path = NULL;

		if (!spend(w, 1))
			return;
		if (map_has(seen, id)) {
			path = path_text(&in);
			causes_duplicate(w->causes, path, id);
		}
		map_put(seen, id, seen);
	}
}

/* Elements of a map are compared with those of the same keys. */
static struct map *elements_of(const struct json *old, const struct node *n)
{
	struct map *m;

	if (n->list != LIST_MAP || !json_is(old, JSON_ARR))
		return NULL;
	m = map_new(NULL);
	json_each(it, old) {
		autofree char *id = identity(it.val, n);

		map_put(m, id, it.val);
	}
	return m;
}

static void check_list(struct walk *w, const struct json *v, const struct json *old,
		       const struct node *n, const struct path *at)
{
	autoptr(map) was = elements_of(old, n);
	size_t i = 0;

	if (n->max_items.set && (double)json_len(v) > n->max_items.v)
		too_many(w, at, json_len(v), n->max_items.v);
	if (n->min_items.set && (double)json_len(v) < n->min_items.v)
		too_few(w, at, json_len(v), n->min_items.v, "items");
	if (n->list != LIST_ATOMIC && json_len(v) > 1)
		check_unique(w, v, n, at);
	if (!n->items)
		return;
	json_each(it, v) {
		struct path in = { .up = at, .index = i++ };
		autofree char *id = was ? identity(it.val, n) : NULL;

		check(w, it.val, was ? map_get(was, id) : NULL, n->items, &in);
	}
}

/* Alternatives */

static void take_over(struct walk *w, const struct causes *c)
{
	for (size_t i = 0; i < c->n; i++)
		causes_add(w->causes, c->list[i].reason, c->list[i].field, "%s",
			   c->list[i].message);
}

/* Checks v against one of several schemas. What is wrong goes to found alone; true: nothing. */
static bool fits(struct walk *w, const struct json *v, const struct node *n, const struct path *at,
		 struct causes *found)
{
	struct walk inner = {
		.causes = found, .steps = w->steps, .base = w->base, .spent = w->spent
	};

	check(&inner, v, NULL, n, at);
	inner.steps -= MIN(inner.steps, found->n * MESSAGE_STEPS);
	w->steps = inner.steps;
	if (inner.spent && !w->spent) {
		w->steps = 0;
		(void)spend(w, 1); /* says so */
	}
	return !found->n;
}

/* How many of the schemas fit; what is wrong by the first that does not is in first. */
static size_t count_fits(struct walk *w, const struct json *v, const struct node_list *l,
			 const struct path *at, struct causes *first)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n && !w->spent; i++) {
		struct causes found = { 0 };

		if (fits(w, v, l->list[i], at, &found))
			n++;
		if (found.n && !first->n) {
			*first = found;
			continue;
		}
		causes_done(&found);
	}
	return n;
}

static void check_any(struct walk *w, const struct json *v, const struct node *n,
		      const struct path *at)
{
	struct causes first = { 0 };

	if (!count_fits(w, v, &n->any_of, at, &first)) {
		bad_whole(w, at, "must validate at least one schema (anyOf)");
		take_over(w, &first);
	}
	causes_done(&first);
}

static void check_one(struct walk *w, const struct json *v, const struct node *n,
		      const struct path *at)
{
	struct causes first = { 0 };
	size_t fit = count_fits(w, v, &n->one_of, at, &first);
	char text[128];

	if (fit != 1) {
		(void)snprintf(text, sizeof(text),
			       fit ? "%s. Found %zu valid alternatives" : "%s. Found none valid",
			       "must validate one and only one schema (oneOf)", fit);
		bad_whole(w, at, text);
	}
	if (!fit)
		take_over(w, &first);
	causes_done(&first);
}

static void check_all(struct walk *w, const struct json *v, const struct node *n,
		      const struct path *at)
{
	size_t fit = 0;

	for (size_t i = 0; i < n->all_of.n && !w->spent; i++) {
		struct causes found = { 0 };

		fit += fits(w, v, n->all_of.list[i], at, &found);
		take_over(w, &found);
		causes_done(&found);
	}
	if (fit < n->all_of.n)
		bad_whole(w, at,
			  fit ? "must validate all the schemas (allOf)"
			      : "must validate all the schemas (allOf). None validated");
}

static void check_alternatives(struct walk *w, const struct json *v, const struct node *n,
			       const struct path *at)
{
	struct causes found = { 0 };

	if (n->any_of.n)
		check_any(w, v, n, at);
	if (n->one_of.n)
		check_one(w, v, n, at);
	if (n->all_of.n)
		check_all(w, v, n, at);
	if (n->not_ && fits(w, v, n->not_, at, &found))
		bad_whole(w, at, "must not validate the schema (not)");
	causes_done(&found);
}

static void check(struct walk *w, const struct json *v, const struct json *old,
		  const struct node *n, const struct path *at)
{
	if (!spend(w, 1) || (old && json_equal(v, old)))
		return;
	if (json_is(v, JSON_NULL) && n->nullable)
		return;
	if (!type_fits(v, n->type)) {
		bad_type(w, at, node_type_name(n), json_type_name(json_type(v)));
		return;
	}
	if (n->values)
		check_values(w, v, n, at);
	if (json_is(v, JSON_STR))
		check_text(w, v, n, at);
	else if (json_is(v, JSON_INT) || json_is(v, JSON_REAL))
		check_number(w, v, n, at);
	else if (json_is(v, JSON_OBJ))
		check_object(w, v, old, n, at);
	else if (json_is(v, JSON_ARR))
		check_list(w, v, old, n, at);
	check_alternatives(w, v, n, at);
}

void custom_validate(const struct json *v, const struct custom *c, const struct json *old,
		     struct causes *causes)
{
	struct path root = { .name = "" };
	struct walk w = { .causes = causes, .steps = CUSTOM_STEPS_MAX };

	check(&w, v, old, c->root, &root);
}

void custom_validate_at(const struct json *v, const struct custom *c, const struct custom_at *at,
			struct causes *causes)
{
	struct path root = { .name = at->path };
	struct walk w = { .causes = causes, .steps = *at->steps, .base = strlen(at->path) };

	check(&w, v, NULL, c->root, &root);
	*at->steps = w.steps;
}
