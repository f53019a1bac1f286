/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "net/http.h"
#include "oversight/oversight_priv.h"

static struct err *bad(const char *name, const char *value, const char *fix)
{
	return err_new(ERR_MALFORMED, "%s=%.64s: %s", name, value, fix);
}

struct err *query_check(const char *query, const char *const *known)
{
	struct span rest = SPAN(query);

	while (rest.len) {
		struct span part = span_cut(rest, '&', &rest), value;
		struct span name = span_cut(part, '=', &value);
		bool found = !part.len;
		autobuf names = { 0 };

		for (size_t i = 0; known[i]; i++) {
			found |= span_eq(name, known[i]);
			buf_printf(&names, "%s%s", i ? ", " : "", known[i]);
		}
		if (!found)
			return err_new(ERR_MALFORMED, "no parameter %.*s; there are %s",
				       (int)MIN(name.len, (size_t)64), name.p,
				       names.len ? buf_str(&names) : "none");
	}
	return NULL;
}

char *query_text(const char *query, const char *name)
{
	autofree char *text = http_query_get(query, name);

	return str_empty(text) ? NULL : take(text);
}

struct err *query_bool(const char *query, const char *name, bool *ret)
{
	autofree char *text = query_text(query, name);
	struct err *e = text ? parse_bool(text, ret) : NULL;

	if (!e)
		return NULL;
	err_free(e);
	return bad(name, text, "must be true or false");
}

struct err *query_uint(const char *query, const char *name, uint64_t max, uint64_t *ret,
		       bool *ret_given)
{
	autofree char *text = query_text(query, name);
	struct err *e = text ? parse_uint(text, max, ret) : NULL;

	*ret_given = text;
	if (!e)
		return NULL;
	err_free(e);
	return err_new(ERR_MALFORMED, "%s=%.64s: must be a number from 0 to %llu", name, text,
		       (unsigned long long)max);
}

/* A time, or how long ago. */
struct err *query_time(const char *query, const char *name, usec now, usec *ret)
{
	autofree char *text = query_text(query, name);
	uint64_t ago_ms = 0;
	struct err *e;

	if (!text)
		return NULL;
	e = parse_duration_ms(text, &ago_ms);
	if (!e && ago_ms < (uint64_t)now / 1000) {
		*ret = now - (usec)ago_ms * 1000;
		return NULL;
	}
	err_free(e);
	e = clock_parse(text, ret);
	if (!e) {
		*ret = MAX(*ret, (usec)1); /* 0 is no time at all */
		return NULL;
	}
	err_free(e);
	return bad(name, text,
		   "must be a time like 2026-03-04T05:06:07Z, or how long ago: 15m, 24h");
}
