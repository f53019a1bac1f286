/* SPDX-License-Identifier: Apache-2.0 */
#include "api/table.h"

#include "api/jsonpath.h"
#include "api/kind.h"
#include "base/str.h"

/* Tables: one column definition a column, one row an object. NAME comes first unless the kind
 * places it itself. */

static bool names_itself(const struct kind *k)
{
	for (const struct column *c = k->columns; c && c->name; c++)
		if (str_eq(c->name, "Name"))
			return true;
	return false;
}

static void define(struct json_doc *d, struct json *list, const struct column *c)
{
	struct json *def = json_obj(d);

	json_set_str(d, def, "name", c->name);
	json_set_str(d, def, "type", c->type);
	json_set_str(d, def, "format", str_eq(c->name, "Name") ? "name" : "");
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
		define(d, columns, &name);
	for (const struct column *c = k->columns; c && c->name; c++)
		define(d, columns, c);
	return table;
}

/* a of the first unit and, unless it is zero, b of the second. */
static void two_units(char *ret, size_t size, int64_t a, const char *unit_a, int64_t b,
		      const char *unit_b)
{
	if (b)
		(void)snprintf(ret, size, "%lld%s%lld%s", (long long)a, unit_a, (long long)b,
			       unit_b);
	else
		(void)snprintf(ret, size, "%lld%s", (long long)a, unit_a);
}

void table_age(usec then, usec now, char *ret, size_t size)
{
	int64_t s = (now - then) / 1000000, m = s / 60, h = m / 60, days = h / 24;

	if (s < -1)
		(void)snprintf(ret, size, "<invalid>");
	else if (s < 120)
		two_units(ret, size, s < 0 ? 0 : s, "s", 0, "");
	else if (m < 10)
		two_units(ret, size, m, "m", s % 60, "s");
	else if (m < 180)
		two_units(ret, size, m, "m", 0, "");
	else if (h < 8)
		two_units(ret, size, h, "h", m % 60, "m");
	else if (h < 48)
		two_units(ret, size, h, "h", 0, "");
	else if (h < 192)
		two_units(ret, size, days, "d", h % 24, "h");
	else if (days < 730)
		two_units(ret, size, days, "d", 0, "");
	else if (days < 2920)
		two_units(ret, size, days / 365, "y", days % 365, "d");
	else
		two_units(ret, size, days / 365, "y", 0, "");
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

static struct json *cell(struct json_doc *d, const struct column *c, const struct json *obj,
			 usec now)
{
	struct json *v = c->cell ? c->cell(d, obj, now) : json_copy(d, jsonpath_get(obj, c->path));

	if (str_eq(c->type, "date"))
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

void table_add(struct json_doc *d, struct json *table, const struct kind *k, const struct json *obj,
	       enum table_include include, usec now)
{
	struct json *row = json_obj(d), *cells = json_arr(d);

	if (!names_itself(k))
		json_push_str(d, cells, json_get_str(json_get(obj, "metadata"), "name"));
	for (const struct column *c = k->columns; c && c->name; c++)
		json_push(d, cells, cell(d, c, obj, now));
	json_set(d, row, "cells", cells);
	if (include != TABLE_NONE)
		json_set(d, row, "object", row_object(d, obj, include));
	json_push(d, json_get(table, "rows"), row);
}
