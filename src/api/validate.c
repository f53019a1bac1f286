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

void bad_int(struct causes *c, const struct path *p, int64_t v, const char *detail)
{
	autofree char *path = path_text(p);

	causes_add(c, CAUSE_INVALID, path, "Invalid value: %lld: %s", (long long)v, detail);
}

void bad_unsupported(struct causes *c, const struct path *p, const char *v,
		     const char *const *values)
{
	autofree char *path = path_text(p);

	causes_unsupported(c, path, v, values);
}

void bad_too_long(struct causes *c, const struct path *p, size_t max)
{
	autofree char *path = path_text(p);

	causes_add(c, CAUSE_TOO_LONG, path, "Too long: may not be more than %zu bytes", max);
}

void bad_too_many(struct causes *c, const struct path *p, size_t n, size_t max)
{
	autofree char *path = path_text(p);

	causes_add(c, CAUSE_TOO_MANY, path, "Too many: %zu: must have at most %zu items", n, max);
}

static struct json *go_struct(struct json_doc *d, const struct json *v,
			      const struct go_member *members)
{
	struct json *out;

	if (json_is(v, JSON_ARR)) {
		out = json_arr(d);
		json_each(it, v)
			json_push(d, out, go_struct(d, it.val, members));
		return out;
	}
	out = json_obj(d);
	for (; members->go; members++) {
		const struct json *member = json_get(v, members->json);

		json_set(d, out, members->go,
			 !member       ? (members->text ? json_new_str(d, "") : json_new_null(d))
			 : members->in ? go_struct(d, member, members->in)
				       : json_copy(d, member));
	}
	return out;
}

void bad_struct(struct causes *c, const struct path *p, const struct json *v,
		const struct go_member *members, const char *detail)
{
	autoptr(json_doc) d = json_doc_new();

	bad_invalid(c, p, go_struct(d, v, members), detail);
}

void bad_twin(struct causes *c, const struct path *p, const struct json *v,
	      const struct go_member *members, const char *detail)
{
	autoptr(json_doc) d = json_doc_new();
	autofree char *path = path_text(p), *text = json_to_text(go_struct(d, v, members));

	causes_add(c, CAUSE_DUPLICATE, path, "Duplicate value: %s: %s", text, detail);
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

void check_supported(struct causes *c, const struct path *p, const struct json *obj,
		     const char *name, const char *const *values)
{
	const char *v = json_get_str(obj, name);

	if (!str_in(v ? v : "", values))
		bad_unsupported(c, IN(p, name), v ? v : "", values);
}

void check_texts(struct causes *c, const struct path *p, const struct json *obj, const char *name,
		 size_t (*faults)(const char *s, const char *ret[FAULTS_MAX]))
{
	const char *v = json_get_str(obj, name), *why[FAULTS_MAX];
	size_t n = str_empty(v) ? 0 : faults(v, why);

	for (size_t i = 0; i < n; i++)
		bad_text(c, IN(p, name), v, why[i]);
}

void check_qualified(struct causes *c, const char *s, const struct path *p)
{
	const char *why[FAULTS_MAX];
	size_t n = meta_qualified_name_faults(s, why);

	for (size_t i = 0; i < n; i++)
		bad_text(c, p, s, why[i]);
}

void check_labels(struct causes *c, const struct json *labels, const struct path *p)
{
	autofree char *path = NULL;

	if (!json_len(labels))
		return;
	path = path_text(p);
	meta_validate_labels(labels, path, c);
}

static bool is_port(const struct json *v)
{
	return json_int(v, 0) >= 1 && json_int(v, 0) <= 65535;
}

void check_port_number(struct causes *c, const struct path *p, const struct json *obj,
		       const char *name)
{
	const struct json *v = json_get(obj, name);

	if (!is_port(v))
		bad_int(c, IN(p, name), json_int(v, 0), out_of_port_range);
}

size_t port_name_faults(const char *s, const char *ret[FAULTS_MAX])
{
	enum {
		PORT_NAME_MAX = 15
	};
	size_t len = strlen(s), n = 0;
	bool letter = false, odd = false;

	for (size_t i = 0; i < len; i++) {
		bool lower = islower((unsigned char)s[i]);

		odd |= !lower && !isdigit((unsigned char)s[i]) && s[i] != '-';
		letter |= lower;
	}
	if (len > PORT_NAME_MAX)
		ret[n++] = "must be no more than 15 characters";
	if (odd || !len)
		ret[n++] = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
	if (!letter)
		ret[n++] = "must contain at least one letter (a-z)";
	if (strstr(s, "--"))
		ret[n++] = "must not contain consecutive hyphens";
	if (len && (s[0] == '-' || s[len - 1] == '-'))
		ret[n++] = "must not begin or end with a hyphen";
	return n;
}

const char *bad_prefix_name(const char *s)
{
	size_t len = strlen(s);
	autofree char *plain = xstrdup(s);

	if (len > 1 && plain[len - 1] == '-')
		plain[len - 1] = 'a';
	return meta_bad_dns_subdomain(plain);
}

void check_port_or_name(struct causes *c, const struct path *p, const struct json *obj,
			const char *name)
{
	const struct json *v = json_get(obj, name);
	const char *why[FAULTS_MAX];
	size_t n = json_str(v) ? port_name_faults(json_str(v), why) : 0;

	if (!json_str(v))
		check_port_number(c, p, obj, name);
	for (size_t i = 0; i < n; i++)
		bad_text(c, IN(p, name), json_str(v), why[i]);
}

void check_not_negative(struct causes *c, const struct path *p, const struct json *obj,
			const char *name)
{
	const struct json *v = json_get(obj, name);

	if (json_int(v, 0) < 0)
		bad_invalid(c, IN(p, name), v, "must be greater than or equal to 0");
}

size_t config_key_faults(const char *s, const char *ret[FAULTS_MAX])
{
	size_t n = 0, i = 0;

	while (isalnum((unsigned char)s[i]) || (s[i] && strchr("-._", s[i])))
		i++;
	if (strlen(s) > 253)
		ret[n++] = "must be no more than 253 characters";
	if (s[i] || !i)
		ret[n++] = "a valid config key must consist of alphanumeric characters, '-', "
			   "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex "
			   "used for validation is '[-._a-zA-Z0-9]+')";
	if (str_eq(s, "."))
		ret[n++] = "must not be '.'";
	else if (str_starts(s, ".."))
		ret[n++] = str_eq(s, "..") ? "must not be '..'" : "must not start with '..'";
	return n;
}

const char *bad_config_key(const char *s)
{
	const char *why[FAULTS_MAX];

	return config_key_faults(s, why) ? why[0] : NULL;
}

static void check_expression(struct causes *c, const struct path *p, const struct json *expr)
{
	static const char *const ops[] = { "In", "NotIn", "Exists", "DoesNotExist", NULL };
	const char *op = str_or(json_get_str(expr, "operator"), "");
	const char *bad;
	size_t n = json_len(json_get(expr, "values")), i = 0;

	if (!str_in(op, ops))
		bad_text(c, IN(p, "operator"), op, "not a valid selector operator");
	else if (str_ends(op, "In") && !n)
		bad_required(c, IN(p, "values"),
			     "must be specified when `operator` is 'In' or 'NotIn'");
	else if (!str_ends(op, "In") && n)
		bad_forbidden(c, IN(p, "values"),
			      "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
	check_qualified(c, str_or(json_get_str(expr, "key"), ""), IN(p, "key"));
	json_each(it, json_get(expr, "values")) {
		bad = meta_bad_label_value(str_or(json_str(it.val), ""));
		if (bad)
			bad_text(c, AT(IN(p, "values"), i), json_str(it.val), bad);
		i++;
	}
}

void check_selector(struct causes *c, const struct path *p, const struct json *selector)
{
	size_t i = 0;

	check_labels(c, json_get(selector, "matchLabels"), IN(p, "matchLabels"));
	json_each(it, json_get(selector, "matchExpressions"))
		check_expression(c, AT(IN(p, "matchExpressions"), i++), it.val);
}
