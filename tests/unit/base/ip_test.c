/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ip.h"

#include "base/mem.h"
#include "test.h"

static void eq_ip(const struct ip *a, const char *text)
{
	char got[IP_TEXT_MAX];

	ip_text(a, got);
	eq_str(got, text);
}

TEST(addresses_of_both_families_are_read_and_written)
{
	static const char *const good[] = { "0.0.0.0", "10.1.2.3", "255.255.255.255",
					    "::",      "fd00::1",  "2001:db8:1:2:3:4:5:6" };
	static const char *const bad[] = {
		"",          "1.2.3",          "1.2.3.4.5",    "01.2.3.4",
		"256.1.1.1", "::ffff:1.2.3.4", "fe80::1%eth0", "1::2::3",
		" ::1"
	};
	struct ip a;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		is_true(ip_parse(good[i], &a));
		eq_ip(&a, good[i]);
		eq_int(ip_is4(&a), !strchr(good[i], ':'));
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		is_false(ip_parse(bad[i], &a));
	a = ip_from4(0x0a010203);
	eq_ip(&a, "10.1.2.3");
	eq_int(ip_to4(&a), 0x0a010203);
}

TEST(a_block_is_its_first_and_its_last_address)
{
	static const struct {
		const char *text, *from, *to;
	} good[] = {
		{ "10.0.0.0/8", "10.0.0.0", "10.255.255.255" },
		{ "10.1.2.3/31", "10.1.2.2", "10.1.2.3" },
		{ "10.1.2.3/32", "10.1.2.3", "10.1.2.3" },
		{ "0.0.0.0/0", "0.0.0.0", "255.255.255.255" },
		{ "::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
		{ "fd00::/7", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
		{ "2001:db8::1/127", "2001:db8::", "2001:db8::1" },
	};
	static const char *const bad[] = { "10.0.0.0",    "10.0.0.0/",   "10.0.0.0/33",
					   "10.0.0.0/-1", "10.0.0.0/08", "::/129",
					   "/8",          "10.0.0/8",    "10.0.0.0/8/8" };
	struct ip from, to;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		is_true(ip_parse_block(good[i].text, &from, &to));
		eq_ip(&from, good[i].from);
		eq_ip(&to, good[i].to);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		is_false(ip_parse_block(bad[i], &from, &to));
}

TEST(neighbours_carry_over_octets)
{
	struct ip a;

	is_true(ip_parse("10.0.255.255", &a));
	is_true(ip_next(&a));
	eq_ip(&a, "10.1.0.0");
	is_true(ip_prev(&a));
	eq_ip(&a, "10.0.255.255");
	is_true(ip_parse("::", &a));
	is_false(ip_prev(&a));
	is_true(ip_parse("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &a));
	is_false(ip_next(&a));
	eq_ip(&a, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}
