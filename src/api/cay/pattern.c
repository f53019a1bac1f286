/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/cay/capability.h"
#include "base/str.h"

/*
 * Patterns. That one contains another needs no search: the inner one is read as a text in which the
 * * is a character like no other, so that only a * of the outer one can stand for it. If that text
 * matches, so does every text with something else in its place; and if it does not, neither does
 * the text with a character there that the outer pattern does not have.
 */
bool pattern_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			from = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool pattern_contains(const char *outer, const char *inner)
{
	return pattern_matches(outer, inner);
}

/* A name may end with a dot, which says that it is whole. */
static size_t host_len(const char *host)
{
	size_t len = strlen(host);

	return len > 1 && host[len - 1] == '.' ? len - 1 : len;
}

static bool same_host(const char *a, size_t a_len, const char *b, size_t b_len)
{
	if (a_len != b_len)
		return false;
	for (size_t i = 0; i < a_len; i++)
		if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i]))
			return false;
	return true;
}

/* "*.example.org" */
static bool is_below(const char *pattern)
{
	return pattern[0] == '*' && pattern[1] == '.' && pattern[2];
}

/* 10.0.0.1 is not below 0.1, and neither is fe80::1.2.3.4. */
static bool is_address(const char *host, size_t len)
{
	size_t last = len;

	if (memchr(host, ':', len))
		return true;
	while (last && isdigit((unsigned char)host[last - 1]))
		last--;
	return last < len && (!last || host[last - 1] == '.');
}

bool host_matches(const char *pattern, const char *host)
{
	size_t len = host_len(host), end = host_len(pattern);

	if (!len || strchr(host, '*'))
		return false;
	if (str_eq(pattern, "*"))
		return true;
	if (!is_below(pattern))
		return same_host(pattern, end, host, len);
	end--; /* without the star, with the dot */
	return len > end && host[0] != '.' && !is_address(host, len) &&
	       same_host(pattern + 1, end, host + len - end, end);
}

bool host_contains(const char *outer, const char *inner)
{
	size_t len = host_len(inner), end = host_len(outer);

	if (str_eq(outer, "*") || str_eq(outer, inner))
		return true;
	if (!strchr(inner, '*'))
		return host_matches(outer, inner);
	if (!is_below(inner) || !is_below(outer))
		return false;
	return len >= end && same_host(outer + 1, end - 1, inner + len - end + 1, end - 1);
}

bool capabilities_list_has(const char *const *patterns, const char *name)
{
	for (; *patterns; patterns++)
		if (pattern_matches(*patterns, name))
			return true;
	return false;
}
