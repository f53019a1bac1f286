/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/str.h"

/* The parts that rules are made of. */

const char *const protocol_values[] = { "SCTP", "TCP", "UDP", NULL };
const char out_of_port_range[] = "must be between 1 and 65535, inclusive";

void bad_required(struct causes *c, const struct path *p, const char *detail)
{
	autofree char *path = path_text(p);

	causes_required(c, path, detail);
}

void bad_invalid(struct causes *c, const struct path *p, const struct json *v, const char *detail)
{
	autofree char *path = path_text(p);

	causes_invalid(c, path, v, detail);
}

void bad_text(struct causes *c, const struct path *p, const char *v, const char *detail)
{
	autofree char *path = path_text(p);

	causes_invalid_str(c, path, v, detail);
}

void bad_duplicate(struct causes *c, const struct path *p, const char *v)
{
	autofree char *path = path_text(p), *quoted = xasprintf("\"%s\"", v);

	causes_duplicate(c, path, quoted);
}

void bad_forbidden(struct causes *c, const struct path *p, const char *detail)
{
	autofree char *path = path_text(p);

	causes_forbidden(c, path, detail);
}

void bad_not_found(struct causes *c, const struct path *p, const char *v)
{
	autofree char *path = path_text(p);

	causes_add(c, CAUSE_NOT_FOUND, path, "Not found: \"%.256s\"", v);
}

const char *need_text(struct causes *c, const struct path *p, const struct json *obj,
		      const char *name)
{
	const struct json *v = json_get(obj, name);

	if (v && !json_is(v, JSON_STR))
		return NULL;
	if (str_empty(json_str(v))) {
		bad_required(c, IN(p, name), NULL);
		return NULL;
	}
	return json_str(v);
}

void check_values(struct causes *c, const struct path *p, const struct json *obj, const char *name,
		  const char *const *values)
{
	const char *v = json_get_str(obj, name);
	autofree char *path = NULL;

	if (str_empty(v) || str_in(v, values))
		return;
	path = path_text(IN(p, name));
	causes_unsupported(c, path, v, values);
}

void check_text(struct causes *c, const struct path *p, const struct json *obj, const char *name,
		const char *(*bad)(const char *s))
{
	const char *v = json_get_str(obj, name), *why = str_empty(v) ? NULL : bad(v);

	if (why)
		bad_text(c, IN(p, name), v, why);
}

static bool is_port(const struct json *v)
{
	return json_int(v, 0) >= 1 && json_int(v, 0) <= 65535;
}

void check_port(struct causes *c, const struct path *p, const struct json *obj, const char *name)
{
	const struct json *v = json_get(obj, name);

	if (json_is(v, JSON_INT) && !is_port(v))
		bad_invalid(c, IN(p, name), v, out_of_port_range);
}

const char *bad_port_name(const char *s)
{
	size_t len = strlen(s);
	bool letter = false;

	if (len > 15)
		return "must be no more than 15 characters";
	for (size_t i = 0; i < len; i++) {
		if (!islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]) && s[i] != '-')
			return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens "
			       "(-)";
		letter |= islower((unsigned char)s[i]) != 0;
	}
	if (!letter)
		return "must contain at least one letter (a-z)";
	if (strstr(s, "--"))
		return "must not contain consecutive hyphens";
	return s[0] == '-' || s[len - 1] == '-' ? "must not begin or end with a hyphen" : NULL;
}

void check_port_or_name(struct causes *c, const struct path *p, const struct json *obj,
			const char *name)
{
	check_port(c, p, obj, name);
	check_text(c, p, obj, name, bad_port_name);
}

void check_not_negative(struct causes *c, const struct path *p, const struct json *obj,
			const char *name)
{
	const struct json *v = json_get(obj, name);

	if (json_int(v, 0) < 0)
		bad_invalid(c, IN(p, name), v, "must be greater than or equal to 0");
}

const char *bad_config_key(const char *s)
{
	if (strlen(s) > 253)
		return "must be no more than 253 characters";
	if (str_eq(s, "."))
		return "must not be '.'";
	if (str_starts(s, ".."))
		return str_eq(s, "..") ? "must not be '..'" : "must not start with '..'";
	for (size_t i = 0; s[i]; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("-._", s[i]))
			return "a valid config key must consist of alphanumeric characters, '-', "
			       "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex "
			       "used for validation is '[-._a-zA-Z0-9]+')";
	return NULL;
}

static void check_expression(struct causes *c, const struct path *p, const struct json *expr)
{
	static const char *const ops[] = { "In", "NotIn", "Exists", "DoesNotExist", NULL };
	const char *op = str_or(json_get_str(expr, "operator"), "");
	size_t n = json_len(json_get(expr, "values"));

	if (!str_in(op, ops))
		bad_text(c, IN(p, "operator"), op, "not a valid selector operator");
	else if (str_ends(op, "In") && !n)
		bad_required(c, IN(p, "values"),
			     "must be specified when `operator` is 'In' or 'NotIn'");
	else if (!str_ends(op, "In") && n)
		bad_forbidden(c, IN(p, "values"),
			      "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
	check_text(c, p, expr, "key", meta_bad_qualified_name);
}

void check_selector(struct causes *c, const struct path *p, const struct json *selector)
{
	autofree char *labels = NULL;
	size_t i = 0;

	if (json_len(json_get(selector, "matchLabels"))) {
		labels = path_text(IN(p, "matchLabels"));
		meta_validate_labels(json_get(selector, "matchLabels"), labels, c);
	}
	json_each(it, json_get(selector, "matchExpressions"))
		check_expression(c, AT(IN(p, "matchExpressions"), i++), it.val);
}
