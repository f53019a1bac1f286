/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdint.h>

bool str_empty(const char *s)
{
	return !s || !*s;
}

bool str_starts(const char *s, const char *prefix)
{
	return s && !strncmp(s, prefix, strlen(prefix));
}

bool str_ends(const char *s, const char *suffix)
{
	size_t len = s ? strlen(s) : 0, suffix_len = strlen(suffix);

	return s && len >= suffix_len && !memcmp(s + len - suffix_len, suffix, suffix_len);
}

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool same_nocase(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (lower(a[i]) != lower(b[i]))
			return false;
	return true;
}

bool str_eq_nocase(const char *a, const char *b)
{
	if (!a || !b)
		return a == b;
	for (; *a && (*a == *b || lower(*a) == lower(*b)); a++)
		b++;
	return *a == *b;
}

bool str_in(const char *s, const char *const *list)
{
	for (; s && *list; list++)
		if (!strcmp(s, *list))
			return true;
	return false;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void str_sort(void *list, size_t n)
{
	if (n > 1)
		qsort(list, n, sizeof(char *), by_text);
}

bool span_eq(struct span s, const char *other)
{
	return s.p && s.len == strlen(other) && !memcmp(s.p, other, s.len);
}

bool span_eq_nocase(struct span s, const char *other)
{
	return s.p && s.len == strlen(other) && same_nocase(s.p, other, s.len);
}

struct span span_trim(struct span s)
{
	while (s.len && (*s.p == ' ' || *s.p == '\t')) {
		s.p++;
		s.len--;
	}
	while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

struct span span_cut(struct span s, char sep, struct span *rest)
{
	const char *at = s.len ? memchr(s.p, sep, s.len) : NULL;
	size_t len;

	if (!at) {
		*rest = (struct span){ NULL, 0 };
		return s;
	}
	len = (size_t)(at - s.p);
	*rest = (struct span){ at + 1, s.len - len - 1 };
	return (struct span){ s.p, len };
}

/*
 * The length of the sequence that a lead byte begins, and the bounds of the byte after it. The
 * bounds rule out overlong forms, surrogates and everything above U+10FFFF. Later bytes are 80 to
 * BF.
 */
static unsigned sequence(unsigned char lead, unsigned char *ret_min, unsigned char *ret_max)
{
	*ret_min = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
	*ret_max = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead <= 0xdf)
		return 2;
	if (lead >= 0xe0 && lead <= 0xef)
		return 3;
	return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

static unsigned char_len(const unsigned char *p, size_t space)
{
	unsigned char min, max;
	unsigned n = sequence(p[0], &min, &max);

	if (!n || n > space || (n > 1 && (p[1] < min || p[1] > max)))
		return 0;
	for (unsigned i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return n;
}

bool utf8_valid(const char *s, size_t len)
{
	return utf8_prefix(s, len) == len;
}

size_t utf8_prefix(const char *s, size_t len)
{
	size_t at = 0;

	while (at < len) {
		uint64_t eight;
		unsigned n;

		/* Nearly all text is ASCII. */
		if (len - at >= sizeof(eight)) {
			memcpy(&eight, s + at, sizeof(eight));
			if (!(eight & 0x8080808080808080u)) {
				at += sizeof(eight);
				continue;
			}
		}
		n = char_len((const unsigned char *)s + at, len - at);

		if (!n)
			break;
		at += n;
	}
	return at;
}
