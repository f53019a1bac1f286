/* SPDX-License-Identifier: Apache-2.0 */
#include "api/proxy_name.h"

#include "base/mem.h"

bool proxy_name_read(const char *text, struct proxy_name *ret)
{
	struct span rest = SPAN(text), part[3] = { 0 };
	size_t n = 0, at;

	while (rest.p && n < ARRAY_LEN(part))
		part[n++] = span_cut(rest, ':', &rest);
	at = n == ARRAY_LEN(part);
	if (rest.p || !part[at].len)
		return false;
	*ret = (struct proxy_name){ .name = part[at] };
	if (at)
		ret->scheme = part[0];
	if (n > 1)
		ret->port = part[at + 1];
	return !ret->scheme.len || span_eq(ret->scheme, "http") || span_eq(ret->scheme, "https");
}

char *proxy_name_of(const char *text)
{
	struct proxy_name n;

	return proxy_name_read(text, &n) ? xstrndup(n.name.p, n.name.len) : xstrdup(text);
}
