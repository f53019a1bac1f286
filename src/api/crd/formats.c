/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/crd/custom_priv.h"
#include "api/meta.h"
#include "base/clock.h"
#include "base/ip.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * The formats of texts that are checked. Kubernetes knows a few more (isbn, creditcard, ssn, …),
 * which nobody was seen to use; like any other name they accept everything here.
 */
static bool is_date_time(const char *s)
{
	struct err *e;
	usec when;

	e = clock_parse(s, &when);
	err_free(e);
	return !e;
}

static bool digits(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)s[i]))
			return false;
	return true;
}

static bool is_date(const char *s)
{
	char whole[32];

	if (strlen(s) != strlen("2006-01-02") || !digits(s, 4))
		return false;
	(void)snprintf(whole, sizeof(whole), "%sT00:00:00Z", s);
	return is_date_time(whole);
}

static bool is_byte(const char *s)
{
	void *raw = NULL;
	size_t len;
	struct err *e = base64_decode(s, false, &raw, &len);

	err_free(e);
	free(raw);
	return !e;
}

static bool is_ipv4(const char *s)
{
	struct ip ip;

	return ip_parse(s, &ip) && ip_is4(&ip);
}

static bool is_ipv6(const char *s)
{
	struct ip ip;

	return ip_parse(s, &ip) && !ip_is4(&ip);
}

static bool is_cidr(const char *s)
{
	struct ip from, to;

	return ip_parse_block(s, &from, &to);
}

/* Six octets, with colons or dashes between them. */
static bool is_mac(const char *s)
{
	if (strlen(s) != 17 || !strchr(":-", s[2]))
		return false;
	for (size_t i = 0; i < 17; i++)
		if (i % 3 == 2 ? s[i] != s[2] : !isxdigit((unsigned char)s[i]))
			return false;
	return true;
}

/* Thirty-two hexadecimal digits, with dashes where they belong or without. version: its number, or
 * 0 for any. */
static bool is_uuid_of(const char *s, char version)
{
	static const size_t groups[] = { 8, 4, 4, 4, 12 };
	const char *third = NULL, *fourth = NULL;

	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		if (g && *s == '-')
			s++;
		third = g == 2 ? s : third;
		fourth = g == 3 ? s : fourth;
		for (size_t i = 0; i < groups[g]; i++)
			if (!isxdigit((unsigned char)*s++))
				return false;
	}
	if (*s || (version && *third != version))
		return false;
	return version < '4' || strchr("89abAB", *fourth);
}

static bool is_uuid(const char *s)
{
	return is_uuid_of(s, 0);
}

static bool is_uuid3(const char *s)
{
	return is_uuid_of(s, '3');
}

static bool is_uuid4(const char *s)
{
	return is_uuid_of(s, '4');
}

static bool is_uuid5(const char *s)
{
	return is_uuid_of(s, '5');
}

static bool is_hostname(const char *s)
{
	size_t label = 0;

	if (!*s || strlen(s) > 253)
		return false;
	for (; *s; s++) {
		if (*s == '.' && !label)
			return false;
		label = *s == '.' ? 0 : label + 1;
		if (label > 63 || (*s != '.' && *s != '-' && !isalnum((unsigned char)*s)))
			return false;
	}
	return true;
}

/* What is surely no address is refused; Go's mail.ParseAddress takes much more than one may expect.
 */
static bool is_email(const char *s)
{
	const char *at = strrchr(s, '@');

	return at && at > s && at[1] && !strpbrk(at, " <(");
}

/* With a scheme, or a path from the root: url.ParseRequestURI. */
static bool is_uri(const char *s)
{
	size_t scheme =
		strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

	for (const char *p = s; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	return *s == '/' || (scheme && isalpha((unsigned char)*s) && s[scheme] == ':');
}

/* Go's time.ParseDuration: 1h30m, 1.5s, -2ms, 0 */
static bool is_duration(const char *s)
{
	static const char *const units[] = { "ns", "us", "µs", "ms", "s", "m", "h", "d", "w" };
	size_t i;

	s += *s == '-' || *s == '+';
	if (str_eq(s, "0"))
		return true;
	if (!*s)
		return false;
	while (*s) {
		size_t n = strspn(s, "0123456789.");

		s += n;
		s += strspn(s, " ");
		for (i = 0; i < ARRAY_LEN(units) && !str_starts(s, units[i]); i++)
			;
		if (!n || i == ARRAY_LEN(units))
			return false;
		s += strlen(units[i]);
	}
	return true;
}

static bool is_hex_color(const char *s)
{
	size_t n;

	s += *s == '#';
	n = strspn(s, "0123456789abcdefABCDEF");
	return !s[n] && (n == 3 || n == 6);
}

static bool is_short_name(const char *s)
{
	return !meta_bad_dns_label(s);
}

static bool is_long_name(const char *s)
{
	return !meta_bad_dns_subdomain(s);
}

static const struct {
	const char *name; /* without dashes */
	bool (*fits)(const char *s);
} formats[] = {
	{ "datetime", is_date_time },
	{ "date", is_date },
	{ "byte", is_byte },
	{ "ipv4", is_ipv4 },
	{ "ipv6", is_ipv6 },
	{ "cidr", is_cidr },
	{ "mac", is_mac },
	{ "uuid", is_uuid },
	{ "uuid3", is_uuid3 },
	{ "uuid4", is_uuid4 },
	{ "uuid5", is_uuid5 },
	{ "hostname", is_hostname },
	{ "email", is_email },
	{ "uri", is_uri },
	{ "duration", is_duration },
	{ "hexcolor", is_hex_color },
	{ "password", NULL },
	{ "k8sshortname", is_short_name },
	{ "k8slongname", is_long_name },
	/* Known to Kubernetes, and not checked here. */
	{ "bsonobjectid", NULL },
	{ "isbn", NULL },
	{ "isbn10", NULL },
	{ "isbn13", NULL },
	{ "creditcard", NULL },
	{ "ssn", NULL },
	{ "rgbcolor", NULL },
};

/* Dashes do not matter: date-time and datetime are the same. */
static bool is_named(const char *format, const char *name)
{
	for (; *format; format++) {
		if (*format == '-')
			continue;
		if (*format != *name++)
			return false;
	}
	return !*name;
}

bool format_known(const char *type, const char *format)
{
	if (str_empty(format))
		return false;
	if (str_eq(type, "integer"))
		return str_eq(format, "int32") || str_eq(format, "int64");
	if (str_eq(type, "number"))
		return str_eq(format, "float") || str_eq(format, "double");
	if (!str_empty(type) && !str_eq(type, "string"))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (is_named(format, formats[i].name))
			return true;
	return false;
}

bool format_fits(const char *format, const char *s, size_t len)
{
	if (strlen(s) != len)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (is_named(format, formats[i].name))
			return !formats[i].fits || formats[i].fits(s);
	return true;
}
