/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ip.h"

struct buf;

/*
 * DNS messages, as much as the resolver needs: bytes in, structs out, no I/O. A query has one
 * question, and nothing behind that is looked at; the answers of other servers are passed on as
 * they are, once they are known to answer what was asked, or only addresses are taken from them.
 */
enum {
	DNS_HEADER = 12,
	DNS_NAME_MAX = 1024, /* as text, where a byte may take four characters */
	DNS_UDP_MAX = 512,   /* of an answer of our own */
	DNS_QUERY_MAX = 1024,
	DNS_ADDRS_MAX = 64,
	LOOKUP_ADDRS_MAX = 16, /* of a name that the node looks up itself */
};

enum dns_code { /* the protocol's numbers */
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
};

enum dns_type { /* those that are told apart here */
	DNS_A = 1,
	DNS_CNAME = 5,
	DNS_PTR = 12,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_ANY = 255,
};

struct dns_query {
	uint16_t id;
	bool recursion; /* is desired */
	uint16_t type, class_;
	char name[DNS_NAME_MAX]; /* in lower case, with the dot at its end */
	size_t end;              /* of the question in the message */
};

/* ERR_MALFORMED: it is to be dropped. ret_code: DNS_NOERROR, or how to refuse it. */
must_use struct err *dns_query_read(const uint8_t *wire, size_t len, struct dns_query *ret,
				    enum dns_code *ret_code);

/* Where a port of a Service is. */
struct dns_place {
	const char *target;
	uint16_t port;
};

struct dns_answer {
	enum dns_code code;
	bool authoritative;
	struct ip addrs[DNS_ADDRS_MAX]; /* those of the family that was asked for are told */
	size_t n_addrs;
	const char *target; /* of a CNAME or PTR record; the addresses are a CNAME's. NULL: none */
	uint16_t target_type;
	struct dns_place places[DNS_ADDRS_MAX]; /* SRV records */
	size_t n_places;
	uint32_t ttl;
	bool cut; /* there is more, over TCP */
};
/* Appends the message. One that is longer than max is cut, and says so. */
must_use struct err *dns_answer_write(const uint8_t *query, const struct dns_query *q,
				      const struct dns_answer *a, size_t max, struct buf *out);

/* Whether this is another server's answer to the query that was sent with this id. */
bool dns_answers(const uint8_t *wire, size_t len, const uint8_t *query, const struct dns_query *q,
		 uint16_t id);
/*
 * The addresses in such an answer, of the type that was asked for: those of the name, or of what
 * its CNAME records lead to. At most max of them; what else is in it is left out.
 * ERR_MALFORMED.
 */
must_use struct err *dns_answer_read(const uint8_t *wire, size_t len, const struct dns_query *q,
				     size_t max, struct dns_answer *ret);
void dns_set_id(uint8_t *wire, uint16_t id);
/* The query with nothing but its header and question, the name in lower case. Returns the length.
 */
size_t dns_query_bare(const uint8_t *query, const struct dns_query *q, uint8_t ret[DNS_QUERY_MAX]);

/* A question of our own, with the id 0. Its length; 0: the text is no name. */
size_t dns_query_write(const char *name, enum dns_type type, uint8_t ret[DNS_QUERY_MAX]);
