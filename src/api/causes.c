/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "api/schema.h"
#include "base/buf.h"
#include "base/str.h"

/* What is wrong with an object, in the words Kubernetes uses for it: clients show them as they are.
 */
enum {
	MAX_CAUSES = 64,
	MAX_VALUE = 4096, /* a value is shown no longer than this */
};

static bool is_known(const struct causes *c, const char *field, const char *message)
{
	for (size_t i = 0; i < c->n; i++)
		if (str_eq(c->list[i].field, field) && str_eq(c->list[i].message, message))
			return true;
	return false;
}

void causes_add(struct causes *c, enum cause_reason reason, const char *field, const char *fmt, ...)
{
	autobuf text = { 0 };
	va_list ap;

	if (!c || c->n >= MAX_CAUSES)
		return;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (reason == CAUSE_UNKNOWN && is_known(c, field, buf_str(&text)))
		return;
	c->list = xrealloc(c->list, (c->n + 1) * sizeof(*c->list));
	c->list[c->n++] = (struct cause){ reason, xstrdup(field), buf_steal(&text, NULL) };
}

void causes_done(struct causes *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->list[i].field);
		free(c->list[i].message);
	}
	free(c->list);
	*c = (struct causes){ 0 };
}

const char *cause_reason_name(enum cause_reason r)
{
	static const char *const names[CAUSE_REASON_MAX_] = {
		[CAUSE_REQUIRED] = "FieldValueRequired",
		[CAUSE_INVALID] = "FieldValueInvalid",
		[CAUSE_UNSUPPORTED] = "FieldValueNotSupported",
		[CAUSE_DUPLICATE] = "FieldValueDuplicate",
		[CAUSE_TYPE] = "FieldValueTypeInvalid",
		[CAUSE_FORBIDDEN] = "FieldValueForbidden",
		[CAUSE_TOO_LONG] = "FieldValueTooLong",
		[CAUSE_TOO_MANY] = "FieldValueTooMany",
		[CAUSE_NOT_FOUND] = "FieldValueNotFound",
		[CAUSE_TERMINATING] = "NamespaceTerminating",
		[CAUSE_VERSION] = "ResourceVersionTooLarge",
		[CAUSE_MANAGER] = "FieldManagerConflict",
		[CAUSE_UNKNOWN] = "FieldValueInvalid",
	};

	return names[r];
}

/* As Kubernetes: the message says everything once, whatever the list of causes repeats. */
static bool said_before(const struct causes *c, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (str_eq(c->list[k].field, c->list[i].field) &&
		    str_eq(c->list[k].message, c->list[i].message))
			return true;
	return false;
}

char *causes_text(const struct causes *c)
{
	autobuf out = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += !said_before(c, i);
	if (n != 1)
		buf_add_char(&out, '[');
	for (size_t i = 0; i < c->n; i++) {
		if (said_before(c, i))
			continue;
		if (i)
			buf_add_str(&out, ", ");
		if (*c->list[i].field)
			buf_printf(&out, "%s: ", c->list[i].field);
		buf_add_str(&out, c->list[i].message);
	}
	if (n != 1)
		buf_add_char(&out, ']');
	return buf_steal(&out, NULL);
}

void causes_required(struct causes *c, const char *field, const char *detail)
{
	causes_add(c, CAUSE_REQUIRED, field, "Required value%s%s", detail ? ": " : "",
		   detail ? detail : "");
}

void causes_invalid(struct causes *c, const char *field, const struct json *v, const char *detail)
{
	autofree char *text = json_to_text(v);

	causes_add(c, CAUSE_INVALID, field, "Invalid value: %.*s: %s", MAX_VALUE, text, detail);
}

void causes_invalid_str(struct causes *c, const char *field, const char *v, const char *detail)
{
	autoptr(json_doc) d = json_doc_new();

	causes_invalid(c, field, json_new_str(d, v ? v : ""), detail);
}

void causes_unsupported(struct causes *c, const char *field, const char *v,
			const char *const *values)
{
	autobuf list = { 0 };

	for (size_t i = 0; values[i]; i++)
		buf_printf(&list, "%s\"%s\"", i ? ", " : "", values[i]);
	causes_add(c, CAUSE_UNSUPPORTED, field, "Unsupported value: \"%.*s\": supported values: %s",
		   MAX_VALUE, v ? v : "", buf_str(&list));
}

void causes_duplicate(struct causes *c, const char *field, const char *v)
{
	causes_add(c, CAUSE_DUPLICATE, field, "Duplicate value: %.*s", MAX_VALUE, v);
}

void causes_forbidden(struct causes *c, const char *field, const char *detail)
{
	causes_add(c, CAUSE_FORBIDDEN, field, "Forbidden: %s", detail);
}
