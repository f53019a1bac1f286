/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ip.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/parse.h"

enum {
	OCTETS = sizeof(struct ip),
	ALL_BITS = OCTETS * 8,
	V4_AT = IP4_BITS / 8,
};

static const uint8_t mapped[V4_AT] = { [10] = 0xff, [11] = 0xff };

struct ip ip_from4(uint32_t host_order)
{
	uint32_t v4 = htonl(host_order);
	struct ip a;

	memcpy(a.octet, mapped, sizeof(mapped));
	memcpy(a.octet + V4_AT, &v4, sizeof(v4));
	return a;
}

bool ip_is4(const struct ip *a)
{
	return !memcmp(a->octet, mapped, sizeof(mapped));
}

uint32_t ip_to4(const struct ip *a)
{
	uint32_t v4;

	memcpy(&v4, a->octet + V4_AT, sizeof(v4));
	return ntohl(v4);
}

bool ip_parse(const char *text, struct ip *ret)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		*ret = ip_from4(ntohl(v4.s_addr));
		return true;
	}
	return inet_pton(AF_INET6, text, ret->octet) == 1 && !ip_is4(ret);
}

static void split(const struct ip *a, unsigned prefix, struct ip *ret_from, struct ip *ret_to)
{
	*ret_from = *ret_to = *a;
	for (unsigned i = 0; i < OCTETS; i++) {
		unsigned kept = prefix <= i * 8 ? 0 : MIN(prefix - i * 8, 8u);
		uint8_t rest = (uint8_t)(0xff >> kept);

		ret_from->octet[i] &= (uint8_t)~rest;
		ret_to->octet[i] |= rest;
	}
}

bool ip_parse_block(const char *text, struct ip *ret_from, struct ip *ret_to)
{
	const char *slash = strchr(text, '/');
	char addr[IP_TEXT_MAX];
	struct ip a;
	uint64_t prefix;
	struct err *e;

	if (!slash || (size_t)(slash - text) >= sizeof(addr))
		return false;
	memcpy(addr, text, (size_t)(slash - text));
	addr[slash - text] = '\0';
	if (!ip_parse(addr, &a) || (slash[1] == '0' && slash[2]))
		return false;
	e = parse_uint(slash + 1, ip_is4(&a) ? ALL_BITS - IP4_BITS : ALL_BITS, &prefix);
	if (e) {
		err_free(e);
		return false;
	}
	split(&a, (unsigned)prefix + (ip_is4(&a) ? IP4_BITS : 0), ret_from, ret_to);
	return true;
}

void ip_text(const struct ip *a, char ret[IP_TEXT_MAX])
{
	bool v4 = ip_is4(a);

	(void)inet_ntop(v4 ? AF_INET : AF_INET6, a->octet + (v4 ? V4_AT : 0), ret, IP_TEXT_MAX);
}

int ip_cmp(const struct ip *a, const struct ip *b)
{
	return memcmp(a->octet, b->octet, OCTETS);
}

/* From the last octet on: those that were at the end of their range begin anew. */
bool ip_next(struct ip *a)
{
	unsigned i = OCTETS;

	while (i && a->octet[i - 1] == 0xff)
		i--;
	if (!i)
		return false;
	a->octet[i - 1]++;
	memset(a->octet + i, 0, OCTETS - i);
	return true;
}

bool ip_prev(struct ip *a)
{
	unsigned i = OCTETS;

	while (i && !a->octet[i - 1])
		i--;
	if (!i)
		return false;
	a->octet[i - 1]--;
	memset(a->octet + i, 0xff, OCTETS - i);
	return true;
}
