/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An address of either family, in network order: IPv4 as ::ffff:a.b.c.d, so that both compare,
 * sort and mask alike. */
struct ip {
	uint8_t octet[16];
};
enum {
	IP_TEXT_MAX = 46,
	IP4_BITS = 96, /* what comes before an IPv4 address: its prefixes are that much longer */
};

struct ip ip_from4(uint32_t host_order);
bool ip_is4(const struct ip *a);
uint32_t ip_to4(const struct ip *a); /* host order; only of one that ip_is4() */
/* As Kubernetes takes it: no zeros ahead in IPv4, no zone, and no IPv4 that is written as IPv6. */
bool ip_parse(const char *text, struct ip *ret);
/* "10.0.0.0/8", "fd00::/8": the first and the last address of it, whatever bits are set behind the
 * prefix. */
bool ip_parse_block(const char *text, struct ip *ret_from, struct ip *ret_to);
void ip_text(const struct ip *a, char ret[IP_TEXT_MAX]);
int ip_cmp(const struct ip *a, const struct ip *b);
/* The one after it or before it; false: there is none, and *a stays. */
bool ip_next(struct ip *a);
bool ip_prev(struct ip *a);
