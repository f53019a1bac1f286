/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ip.h"

struct json;

/*
 * What is in use of the addresses and node ports that Services get. Nothing of it is stored: it is
 * read from IPAddresses and Services at the start.
 */

/* Some of n numbers, from 0. Those below band are given out last, so that whoever asks for one of
 * their own choice finds it free, as on a cluster. */
struct supply {
	size_t n, n_used, band;
	uint64_t *used; /* a bit each */
};
bool supply_take(struct supply *s, size_t i);    /* false: it is in use */
bool supply_pick(struct supply *s, size_t *ret); /* takes any; false: all are in use */
void supply_release(struct supply *s, size_t i);
bool supply_has(const struct supply *s, size_t i); /* in use */

struct ip_range {
	struct ip from; /* the address with number 0 */
	bool v6;
	char *text; /* "10.96.0.0/16" */
	struct supply ips;
};

struct ranges {
	struct ip_range ip[2]; /* the first is the default family's */
	size_t n_ip;
	struct supply ports; /* from NODE_PORT_FIRST */
};

/* cidrs: one block, or one of each family with a comma between them. ERR_INVALID. */
must_use struct err *ranges_init(struct ranges *r, const char *cidrs);
void ranges_done(struct ranges *r);

struct ip_range *ranges_of(struct ranges *r, bool v6); /* NULL: there is none */
bool ip_range_number(const struct ip_range *r, const char *ip, size_t *ret); /* false: not in it */
void ip_range_text(const struct ip_range *r, size_t number, char ret[IP_TEXT_MAX]);
bool ranges_port_number(int64_t port, size_t *ret); /* false: not a node port */

/* The ports of a Service that was stored, changed or removed; either may be NULL. */
void ranges_note_ports(struct ranges *r, const struct json *was, const struct json *now);
/* An address of any range, or of none. */
void ranges_note_ip(struct ranges *r, const char *ip, bool used);
