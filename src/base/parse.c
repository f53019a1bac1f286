/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include "base/str.h"

static struct err *parse_digits(const char *s, const char *digits, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*digits)
		return err_new(ERR_MALFORMED, "\"%.40s\" is not a whole number", s);
	for (const char *p = digits; *p; p++) {
		uint64_t d;

		if (*p < '0' || *p > '9')
			return err_new(ERR_MALFORMED, "\"%.40s\" is not a whole number", s);
		d = (uint64_t)(*p - '0');
		if (v > max / 10 || (v == max / 10 && d > max % 10))
			return err_new(ERR_INVALID, "\"%.40s\" is more than %llu", s,
				       (unsigned long long)max);
		v = v * 10 + d;
	}
	*ret = v;
	return NULL;
}

struct err *parse_uint(const char *s, uint64_t max, uint64_t *ret)
{
	return parse_digits(s, s, max, ret);
}

struct err *parse_int(const char *s, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = *s == '-';
	uint64_t magnitude;
	struct err *e;
	int64_t v;

	e = parse_digits(s, s + negative, (uint64_t)INT64_MAX + negative, &magnitude);
	if (e)
		return e;
	v = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	if (v < min || v > max)
		return err_new(ERR_INVALID, "\"%.40s\" is not between %lld and %lld", s,
			       (long long)min, (long long)max);
	*ret = v;
	return NULL;
}

struct err *parse_bool(const char *s, bool *ret)
{
	static const char *const yes[] = { "true", "1", "yes", "on", NULL };
	static const char *const no[] = { "false", "0", "no", "off", NULL };

	if (!str_in(s, yes) && !str_in(s, no))
		return err_new(ERR_MALFORMED, "\"%.40s\" is neither true nor false", s);
	*ret = str_in(s, yes);
	return NULL;
}

/* The unit at *at in microseconds; *at moves past it. 0 if there is no unit. */
static uint64_t take_unit(const char **at)
{
	static const struct {
		/* If one name begins with another, the longer one comes first. */
		const char *name;
		uint64_t us;
	} units[] = {
		{ "ms", 1000 },   { "us", 1 },           { "\xc2\xb5s", 1 },
		{ "s", 1000000 }, { "m", 60 * 1000000 }, { "h", 3600ull * 1000000 },
	};

	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (str_starts(*at, units[i].name)) {
			*at += strlen(units[i].name);
			return units[i].us;
		}
	return 0;
}

/* One number with its unit, like 1.5h. False if it cannot be parsed or is absurdly large. */
static bool take_part(const char **at, uint64_t *ret_us)
{
	uint64_t whole = 0, fraction = 0, scale = 1, unit;
	const char *p = *at;

	for (; *p >= '0' && *p <= '9'; p++) {
		whole = whole * 10 + (uint64_t)(*p - '0');
		if (whole > 1000000000000)
			return false;
	}
	if (p == *at)
		return false;
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++)
			if (scale < 1000000) {
				fraction = fraction * 10 + (uint64_t)(*p - '0');
				scale *= 10;
			}
	unit = take_unit(&p);
	if (!unit || whole > UINT64_MAX / 4 / unit)
		return false;
	*ret_us = whole * unit + fraction * unit / scale;
	*at = p;
	return true;
}

struct err *parse_duration_ms(const char *s, uint64_t *ret)
{
	uint64_t total = 0, part;
	const char *at = s;

	if (!strcmp(s, "0")) {
		*ret = 0;
		return NULL;
	}
	do {
		if (!take_part(&at, &part) || total > UINT64_MAX / 4)
			return err_new(ERR_MALFORMED, "\"%.40s\" is not a duration like 1m30s", s);
		total += part;
	} while (*at);
	*ret = total / 1000;
	return NULL;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

void hex_encode(const void *p, size_t len, char *ret)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *in = p;

	for (size_t i = 0; i < len; i++) {
		ret[2 * i] = digits[in[i] >> 4];
		ret[2 * i + 1] = digits[in[i] & 15];
	}
	ret[2 * len] = '\0';
}

static const char base64_std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

char *base64_encode(const void *p, size_t len, bool url)
{
	const char *alphabet = url ? base64_url : base64_std;
	const unsigned char *in = p;
	char *text = xmalloc(len / 3 * 4 + 5), *out = text;

	for (size_t i = 0; i < len; i += 3) {
		size_t n = MIN(len - i, (size_t)3);
		unsigned v = (unsigned)in[i] << 16;

		v |= n > 1 ? (unsigned)in[i + 1] << 8 : 0;
		v |= n > 2 ? in[i + 2] : 0;
		*out++ = alphabet[v >> 18];
		*out++ = alphabet[v >> 12 & 63];
		if (n > 1 || !url)
			*out++ = n > 1 ? alphabet[v >> 6 & 63] : '=';
		if (n > 2 || !url)
			*out++ = n > 2 ? alphabet[v & 63] : '=';
	}
	*out = '\0';
	return text;
}

static int base64_value(char c, bool url)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == (url ? '-' : '+'))
		return 62;
	return c == (url ? '_' : '/') ? 63 : -1;
}

/* Strips the padding, which the standard alphabet requires and the URL alphabet forbids. */
static bool base64_body(const char *s, bool url, size_t *ret_len)
{
	size_t len = strlen(s);

	if (!url) {
		if (len % 4)
			return false;
		for (unsigned i = 0; i < 2 && len && s[len - 1] == '='; i++)
			len--;
	}
	*ret_len = len;
	return len % 4 != 1;
}

struct err *base64_decode(const char *s, bool url, void **ret, size_t *ret_len)
{
	autofree unsigned char *data = NULL;
	unsigned bits = 0, n_bits = 0;
	size_t len, n = 0;

	if (!base64_body(s, url, &len))
		return err_new(ERR_MALFORMED, "base64 cannot have %zu characters with this padding",
			       strlen(s));
	data = xmalloc(len / 4 * 3 + 4);
	for (size_t i = 0; i < len; i++) {
		int v = base64_value(s[i], url);

		if (v < 0)
			return err_new(ERR_MALFORMED, "character %zu is not base64", i + 1);
		bits = (bits << 6 | (unsigned)v) & 0xffff;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			data[n++] = (unsigned char)(bits >> n_bits);
		}
	}
	/* Bits that carry no data must be zero, so that every value has exactly one encoding. */
	if (bits & ((1u << n_bits) - 1))
		return err_new(ERR_MALFORMED, "base64 ends in bits that are not zero");
	data[n] = '\0';
	*ret_len = n;
	*ret = take(data);
	return NULL;
}

struct err *url_decode(const char *s, size_t len, bool plus, char **ret, size_t *ret_len)
{
	autofree char *text = xmalloc(len + 1);
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int c = (unsigned char)s[i];

		if (c == '+' && plus) {
			c = ' ';
		} else if (c == '%') {
			if (len - i < 3 || hex_value(s[i + 1]) < 0 || hex_value(s[i + 2]) < 0)
				return err_new(
					ERR_MALFORMED,
					"the %% at character %zu is not followed by two hexadecimal digits",
					i + 1);
			c = hex_value(s[i + 1]) << 4 | hex_value(s[i + 2]);
			i += 2;
		}
		if (!c)
			return err_new(ERR_MALFORMED, "character %zu is a NUL", i + 1);
		text[n++] = (char)c;
	}
	text[n] = '\0';
	if (ret_len)
		*ret_len = n;
	*ret = take(text);
	return NULL;
}

static bool unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

char *url_encode(const char *s)
{
	static const char digits[] = "0123456789ABCDEF";
	char *text = xmalloc(3 * strlen(s) + 1), *out = text;

	for (; *s; s++) {
		if (unreserved(*s)) {
			*out++ = *s;
			continue;
		}
		*out++ = '%';
		*out++ = digits[(unsigned char)*s >> 4];
		*out++ = digits[(unsigned char)*s & 15];
	}
	*out = '\0';
	return text;
}
