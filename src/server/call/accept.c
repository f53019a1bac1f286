/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/accept.h"

#include <stdlib.h>

#include "api/encode.h"

enum {
	CLAUSES_MAX = 32, /* what comes behind them is not looked at */
	Q_MAX = 16,       /* characters */
};

struct clause {
	struct span type, params;
	double q;
};

static const char *const types[MEDIA_MAX_] = {
	[MEDIA_JSON] = "application/json",
	[MEDIA_PROTOBUF] = ENCODE_PROTOBUF,
};

const char *media_type(enum media m)
{
	return types[m];
}

/* The value of a parameter; its p is NULL when there is none. */
static struct span param_of(struct span params, const char *name)
{
	struct span one, val;

	while (params.p) {
		one = span_cut(params, ';', &params);
		if (span_eq_nocase(span_trim(span_cut(one, '=', &val)), name) && val.p)
			return span_trim(val);
	}
	return (struct span){ 0 };
}

static double q_of(struct span params)
{
	struct span q = param_of(params, "q");
	char text[Q_MAX];

	if (!q.p)
		return 1;
	if (q.len >= sizeof(text))
		return 0;
	memcpy(text, q.p, q.len);
	text[q.len] = '\0';
	return strtod(text, NULL);
}

static bool has_wildcard(struct span type, bool both)
{
	if (span_eq(type, "*") || span_eq(type, "*/*"))
		return true;
	return !both && type.len >= 2 && type.p[type.len - 1] == '*' && type.p[type.len - 2] == '/';
}

/* Not an order in the strict sense, and not better than the original: clients rely on its outcome.
 */
static bool goes_before(const struct clause *a, const struct clause *b)
{
	return a->q > b->q || (!has_wildcard(a->type, true) && has_wildcard(b->type, true)) ||
	       (!has_wildcard(a->type, false) && has_wildcard(b->type, false));
}

static void insert(struct clause *list, size_t n, struct clause c)
{
	for (; n > 0 && goes_before(&c, &list[n - 1]); n--)
		list[n] = list[n - 1];
	list[n] = c;
}

bool accept_each(const char *accept, bool (*fn)(void *arg, struct span type, struct span params),
		 void *arg)
{
	struct span rest = SPAN(accept), one;
	struct clause list[CLAUSES_MAX];
	size_t n = 0;

	while (rest.p && n < CLAUSES_MAX) {
		struct clause c;

		one = span_cut(rest, ',', &rest);
		c.type = span_trim(span_cut(one, ';', &c.params));
		c.q = q_of(c.params);
		insert(list, n++, c);
	}
	for (size_t i = 0; i < n; i++)
		if (fn(arg, list[i].type, list[i].params))
			return true;
	return false;
}

bool accept_covers(struct span type, enum media m)
{
	return span_eq_nocase(type, types[m]) || span_eq_nocase(type, "application/*") ||
	       has_wildcard(type, true);
}

bool accept_param(struct span params, const char *name, const char *value)
{
	struct span val = param_of(params, name);

	return val.p && (!value || span_eq(val, value));
}

bool accept_converts(struct span params)
{
	return accept_param(params, "as", NULL) || accept_param(params, "g", NULL) ||
	       accept_param(params, "v", NULL);
}

bool accept_impossible(struct span params)
{
	return accept_param(params, "stream", NULL) && !accept_param(params, "stream", "watch");
}

static bool pick_plain(void *arg, struct span type, struct span params)
{
	enum media *ret = arg;

	if (accept_converts(params) || accept_impossible(params))
		return false;
	for (*ret = 0; *ret < MEDIA_MAX_; (*ret)++)
		if (accept_covers(type, *ret))
			return true;
	return false;
}

enum media accept_plain(const char *accept)
{
	enum media m = MEDIA_JSON;

	return !str_empty(accept) && accept_each(accept, pick_plain, &m) ? m : MEDIA_JSON;
}
