/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/cay/schema_priv.h"
#include "api/jsonpath.h"
#include "api/meta.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * What texts of these kinds may look like. Where a pattern stands beside a check, an error shows
 * the pattern; it is what a cluster checks, too.
 */
static bool all_of(const char *s, bool (*ok)(char c))
{
	for (; *s; s++)
		if (!ok(*s))
			return false;
	return true;
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

const char *check_name(const struct json *v)
{
	return meta_bad_dns_subdomain(json_str(v)) ? "is no name" : NULL;
}

const char *check_pattern(const struct json *v)
{
	const char *star = strchr(json_str(v), '*');

	return star && strchr(star + 1, '*') ? "has more than one *" : NULL;
}

const char *check_duration(const struct json *v)
{
	const char *s = json_str(v), *last = s;
	struct err *e;
	uint64_t ms;

	for (; *s; s++)
		if (*s == '.' && !(isdigit((unsigned char)s[1])))
			return "is no duration";
	/* What is also read elsewhere: a plain 0, and the letter mu. */
	if (str_eq(last, "0") || !utf8_valid(last, strlen(last)) || strchr(last, '\xc2'))
		return "is no duration";
	e = parse_duration_ms(last, &ms);
	if (!e)
		return NULL;
	err_free(e);
	return "is no duration";
}

const char *check_key(const struct json *v)
{
	autofree void *raw = NULL;
	autofree char *same = NULL;
	size_t len = 0;
	struct err *e = base64_decode(json_str(v), false, &raw, &len);

	err_free(e);
	if (e || len != 32)
		return "is no key";
	same = base64_encode(raw, len, false); /* one key has one text */
	return str_eq(same, json_str(v)) ? NULL : "is no key";
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

const char *check_digest(const struct json *v)
{
	const char *s = json_str(v);

	s += str_starts(s, "sha256:") ? 7 : 0;
	return strlen(s) == 64 && all_of(s, is_hex) ? NULL : "is no digest";
}

static bool is_capital(char c)
{
	return c >= 'A' && c <= 'Z';
}

const char *check_method(const struct json *v)
{
	return all_of(json_str(v), is_capital) ? NULL : "is no method";
}

static bool in_header(char c)
{
	return is_alnum(c) || c == '-' || c == '_';
}

const char *check_header(const struct json *v)
{
	const char *s = json_str(v);

	return is_alnum(*s) && all_of(s, in_header) ? NULL : "is no header";
}

static bool in_query(char c)
{
	return in_header(c) || c == '.' || c == '~';
}

const char *check_query(const struct json *v)
{
	return all_of(json_str(v), in_query) ? NULL : "is no parameter";
}

static bool is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

const char *check_printable(const struct json *v)
{
	return all_of(json_str(v), is_printable) ? NULL : "has other characters";
}

static bool in_secret_key(char c)
{
	return in_header(c) || c == '.';
}

const char *check_secret_key(const struct json *v)
{
	return all_of(json_str(v), in_secret_key) ? NULL : "is no key";
}

const char *check_jsonpath(const struct json *v)
{
	return jsonpath_valid(json_str(v))
		       ? NULL
		       : "is no JSONPath such as .a.b, ['a'], [0] or [?(@.type=='x')]";
}

/* Hosts */

static bool in_address(char c)
{
	return isxdigit((unsigned char)c) || c == ':' || c == '.';
}

static bool is_host_label(struct span s)
{
	if (!s.len || s.p[0] == '-' || s.p[s.len - 1] == '-')
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!in_header(s.p[i]))
			return false;
	return true;
}

static bool is_number(struct span s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!isdigit((unsigned char)s.p[i]))
			return false;
	return s.len;
}

const char *check_host(const struct json *v)
{
	const char *s = json_str(v);
	bool below = str_starts(s, "*.");
	struct span rest = SPAN(below ? s + 2 : s), label;

	if (str_eq(s, "*"))
		return NULL;
	if (strchr(s, ':'))
		return strspn(s, "0123456789abcdefABCDEF:") >= (size_t)(strchr(s, ':') - s) &&
				       all_of(s, in_address)
			       ? NULL
			       : "is no host";
	do {
		label = span_cut(rest, '.', &rest);
		if (!is_host_label(label))
			return "is no host";
	} while (rest.p);
	/* No name is below an address. */
	return below && is_number(label) ? "is no host" : NULL;
}
