/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/accept.h"

bool accept_each(const char *accept, bool (*fn)(void *arg, struct span type, struct span params),
		 void *arg)
{
	struct span rest = SPAN(accept), one, params;

	while (rest.p) {
		one = span_cut(rest, ',', &rest);
		one = span_cut(one, ';', &params);
		if (fn(arg, span_trim(one), params))
			return true;
	}
	return false;
}

bool accept_param(struct span params, const char *name, const char *value)
{
	struct span one, val;

	while (params.p) {
		one = span_cut(params, ';', &params);
		if (span_eq_nocase(span_trim(span_cut(one, '=', &val)), name))
			return val.p && (!value || span_eq(span_trim(val), value));
	}
	return false;
}
