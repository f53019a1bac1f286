/* SPDX-License-Identifier: Apache-2.0 */
#include "api/table.h"

#include "api/jsonpath.h"
#include "api/kind.h"
#include "api/schema.h"
#include "base/str.h"

/* A Table has one definition per column and one row per object. NAME comes first unless the kind
 * places it elsewhere. */

static bool names_itself(const struct kind *k)
{
	for (const struct column *c = k->columns; c && c->name; c++)
		if (str_eq(c->name, "Name"))
			return true;
	return false;
}

/* The age of a built-in kind is text; only a custom resource has columns that are dates. */
static void define(struct json_doc *d, struct json *list, const struct kind *k,
		   const struct column *c)
{
	struct json *def = json_obj(d);
	bool text = str_eq(c->type, "date") && !c->plain && !(k->flags & (KIND_CRD | KIND_DEFINES));

	json_set_str(d, def, "name", c->name);
	json_set_str(d, def, "type", text ? "string" : c->type);
	json_set_str(d, def, "format", str_eq(c->name, "Name") ? "name" : str_or(c->format, ""));
	json_set_str(d, def, "description", str_or(c->help, ""));
	json_set_int(d, def, "priority", c->priority);
	json_push(d, list, def);
}

struct json *table_new(struct json_doc *d, const struct kind *k)
{
	static const struct column name = { "Name", "string", .help = "Name of the object" };
	struct json *table = json_obj(d), *columns = json_arr(d);

	json_set_str(d, table, "kind", "Table");
	json_set_str(d, table, "apiVersion", "meta.k8s.io/v1");
	json_set(d, table, "metadata", json_obj(d));
	json_set(d, table, "columnDefinitions", columns);
	json_set(d, table, "rows", json_arr(d));
	json_set_root(d, table);
	if (!names_itself(k))
		define(d, columns, k, &name);
	for (const struct column *c = k->columns; c && c->name; c++)
		define(d, columns, k, c);
	return table;
}

/* a in the first unit and, unless it is zero, b in the second. */
static void write_age(char *ret, size_t size, const char *units, int64_t a, int64_t b)
{
	if (b)
		(void)snprintf(ret, size, "%lld%c%lld%c", (long long)a, units[0], (long long)b,
			       units[1]);
	else
		(void)snprintf(ret, size, "%lld%c", (long long)a, units[0]);
}

void table_age(usec then, usec now, char *ret, size_t size)
{
	int64_t s = (now - then) / 1000000, m = s / 60, h = m / 60, days = h / 24;

	if (s < -1)
		(void)snprintf(ret, size, "<invalid>");
	else if (s < 120)
		write_age(ret, size, "s", s < 0 ? 0 : s, 0);
	else if (m < 10)
		write_age(ret, size, "ms", m, s % 60);
	else if (m < 180)
		write_age(ret, size, "m", m, 0);
	else if (h < 8)
		write_age(ret, size, "hm", h, m % 60);
	else if (h < 48)
		write_age(ret, size, "h", h, 0);
	else if (h < 192)
		write_age(ret, size, "dh", days, h % 24);
	else if (days < 730)
		write_age(ret, size, "d", days, 0);
	else if (days < 2920)
		write_age(ret, size, "yd", days / 365, days % 365);
	else
		write_age(ret, size, "y", days / 365, 0);
}

static struct json *age_cell(struct json_doc *d, const struct json *v, usec now)
{
	char text[32];
	struct err *e;
	usec then;

	if (str_empty(json_str(v)))
		return json_new_str(d, "<unknown>");
	e = clock_parse(json_str(v), &then);
	if (e) {
		err_free(e);
		return json_new_str(d, "<invalid>");
	}
	table_age(then, now, text, sizeof(text));
	return json_new_str(d, text);
}

/* A cell of a custom resource is of its column's type, or empty. */
static struct json *custom_cell(struct json_doc *d, const struct column *c, const struct json *obj,
				usec now)
{
	const struct json *v = jsonpath_get(obj, c->path);
	bool number = json_is(v, JSON_INT) || json_is(v, JSON_REAL);
	autofree char *text = NULL;

	if (!v || json_is(v, JSON_NULL))
		return json_new_null(d);
	if (str_eq(c->type, "date"))
		return json_is(v, JSON_STR) ? age_cell(d, v, now) : json_new_null(d);
	if (str_eq(c->type, "integer") && number)
		return json_new_int(d, json_is(v, JSON_INT) ? json_int(v, 0)
							    : (int64_t)json_real(v, 0));
	if (str_eq(c->type, "string") && !json_is(v, JSON_STR)) {
		text = json_to_text(v);
		return json_new_str(d, text);
	}
	if (str_eq(c->type, "number")    ? number
	    : str_eq(c->type, "boolean") ? json_is(v, JSON_BOOL)
					 : str_eq(c->type, "string"))
		return json_copy(d, v);
	return json_new_null(d);
}

static struct json *cell(struct json_doc *d, const struct column *c, const struct json *obj,
			 usec now)
{
	struct json *v = c->cell ? c->cell(d, obj, now) : json_copy(d, jsonpath_get(obj, c->path));

	if (str_eq(c->type, "date") && !c->plain)
		return age_cell(d, v, now);
	return v ? v : json_new_null(d);
}

static struct json *row_object(struct json_doc *d, const struct json *obj,
			       enum table_include include)
{
	struct json *out;

	if (include == TABLE_OBJECT)
		return json_copy(d, obj);
	out = json_obj(d);
	json_set_str(d, out, "kind", "PartialObjectMetadata");
	json_set_str(d, out, "apiVersion", "meta.k8s.io/v1");
	json_set(d, out, "metadata", json_copy(d, json_get(obj, "metadata")));
	return out;
}

void table_add(struct json_doc *d, struct json *table, const struct table_rows *rows,
	       const struct json *obj)
{
	const struct kind *k = rows->kind;
	struct json *row = json_obj(d), *cells = json_arr(d);

	if (!names_itself(k))
		json_push_str(d, cells, json_get_str(json_get(obj, "metadata"), "name"));
	for (const struct column *c = k->columns; c && c->name; c++)
		json_push(d, cells, (k->type->custom ? custom_cell : cell)(d, c, obj, rows->now));
	json_set(d, row, "cells", cells);
	if (rows->include != TABLE_NONE)
		json_set(d, row, "object", row_object(d, obj, rows->include));
	json_push(d, json_get(table, "rows"), row);
}
