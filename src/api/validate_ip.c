/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>

#include "api/validate_priv.h"
#include "base/ip.h"
#include "base/str.h"

/*
 * Addresses and blocks of them. A kube-apiserver reads them as Go once did, and then says what of
 * that it no longer accepts: zeros ahead, IPv4 written as IPv6, bits behind the prefix.
 */
enum {
	TEXT_MAX = 64, /* longer than any address with its prefix, zeros ahead aside */
};

/* The text without zeros that count for nothing. False: it is too long to be an address. */
static bool without_zeros(const char *s, char ret[TEXT_MAX])
{
	bool start = true, v6 = strchr(s, ':');
	size_t n = 0;

	for (const char *p = s; *p; p++) {
		while (start && !v6 && p[0] == '0' && isdigit((unsigned char)p[1]))
			p++;
		if (n + 1 >= TEXT_MAX)
			return false;
		ret[n++] = *p;
		start = *p == '.' || *p == '/';
	}
	ret[n] = 0;
	return true;
}

static bool is_ip_text(const char *s)
{
	struct in6_addr a;

	return inet_pton(AF_INET, s, &a) == 1 || inet_pton(AF_INET6, s, &a) == 1;
}

bool is_ip(const char *s)
{
	char plain[TEXT_MAX];

	return without_zeros(s, plain) && is_ip_text(plain);
}

void check_ip(struct causes *c, const char *s, const struct path *p)
{
	struct ip ip;

	if (ip_parse(s, &ip))
		return;
	if (!is_ip(s))
		bad_text(c, p, s, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
	else if (strchr(s, ':'))
		bad_text(c, p, s, "must not be an IPv4-mapped IPv6 address");
	else
		bad_text(c, p, s, "must not have leading 0s");
}

/* Cuts plain at the slash. The length of the prefix, or -1: it is no block. */
static int cut_prefix(char *plain)
{
	char *slash = strchr(plain, '/');
	int bits = 0, max = strchr(plain, ':') ? 128 : 32;

	if (!slash || !isdigit((unsigned char)slash[1]) || strlen(slash + 1) > 3)
		return -1;
	for (const char *d = slash + 1; *d; d++) {
		if (!isdigit((unsigned char)*d))
			return -1;
		bits = bits * 10 + (*d - '0');
	}
	*slash = 0;
	return bits <= max && is_ip_text(plain) ? bits : -1;
}

void check_cidr(struct causes *c, const char *s, const struct path *p)
{
	char plain[TEXT_MAX];
	const char *why = NULL;
	struct ip ip, from, to;

	if (!without_zeros(s, plain) || cut_prefix(plain) < 0)
		why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
	else if (strlen(plain) != strcspn(s, "/") || !without_zeros(s, plain) || !str_eq(plain, s))
		why = "must not have leading 0s in IP or prefix length";
	else if (cut_prefix(plain) >= 0 && !ip_parse(plain, &ip))
		why = "must not have an IPv4-mapped IPv6 address";
	else if (!ip_parse_block(s, &from, &to) || ip_cmp(&ip, &from))
		why = "must not have bits set beyond the prefix length";
	if (why)
		bad_text(c, p, s, why);
}

bool is_strictly_in(const char *block, const char *whole)
{
	struct ip from, to, first, last;

	return ip_parse_block(block, &from, &to) && ip_parse_block(whole, &first, &last) &&
	       ip_cmp(&from, &first) >= 0 && ip_cmp(&to, &last) <= 0 &&
	       (ip_cmp(&from, &first) || ip_cmp(&to, &last));
}

static bool is_in(const struct ip *ip, const char *block)
{
	struct ip from, to;

	return ip_parse_block(block, &from, &to) && ip_cmp(ip, &from) >= 0 && ip_cmp(ip, &to) <= 0;
}

void check_endpoint_ip(struct causes *c, const char *s, const struct path *p)
{
	static const char loop[] = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
	static const char link[] = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
	static const char many[] =
		"may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
	static const struct {
		const char *block, *why;
	} rules[] = {
		{ "127.0.0.0/8", loop }, { "::1/128", loop },      { "169.254.0.0/16", link },
		{ "fe80::/10", link },   { "224.0.0.0/24", many }, { "ff02::/16", many },
	};
	autofree char *unspecified = NULL;
	struct ip ip;

	if (!ip_parse(s, &ip))
		return;
	if (is_in(&ip, "0.0.0.0/32") || is_in(&ip, "::/128")) {
		unspecified = xasprintf("may not be unspecified (%s)", s);
		bad_text(c, p, s, unspecified);
	}
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (is_in(&ip, rules[i].block))
			bad_text(c, p, s, rules[i].why);
}
