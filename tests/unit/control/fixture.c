/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <string.h>

#include "api/meta.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

struct json_doc *doc_of(const char *text)
{
	autofree char *json = xstrdup(text);
	struct json_doc *d = NULL;

	for (char *c = json; *c; c++)
		if (*c == '\'')
			*c = '"';
	works(json_parse(json, strlen(json), NULL, &d));
	return d;
}

struct object *object_of(const struct kind *kind, const char *text)
{
	return object_new(kind, doc_of(text));
}

struct object *object_of_f(const struct kind *kind, const char *fmt, ...)
{
	autobuf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	return object_of(kind, buf_str(&text));
}

void eq_json_at(const struct json *v, const char *text, const char *file, int line)
{
	autoptr(json_doc) want = doc_of(text);
	autofree char *a = NULL, *b = NULL;

	if (json_equal(v, json_root(want)))
		return;
	a = json_to_text(v);
	b = json_to_text(json_root(want));
	test_eq_str(a, b, file, line);
}

const char *condition_text(const struct json *status, const char *type)
{
	static char text[4][512];
	static unsigned next;
	const struct json *c = conditions_get(json_get(status, "conditions"), type);
	char *out = text[next++ % 4];

	if (!c)
		return "-";
	(void)snprintf(out, sizeof(text[0]), "%s/%s/%s", json_get_str(c, "status"),
		       json_get_str(c, "reason"), str_or(json_get_str(c, "message"), ""));
	return out;
}
