/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/dns_packet.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"

/* The headers of OpenSSL that this one includes call a parameter `unused`. */
#pragma push_macro("unused")
#undef unused
#include <ldns/ldns.h>
#pragma pop_macro("unused")

/*
 *   0      2      4      6      8      10     12
 *   | id   | flags| qd   | an   | ns   | ar   | question: name, type, class | the rest
 */
enum {
	AT_FLAGS = 2,
	AT_COUNT = 4,
	AT_ANSWERS = 6,
	QR = 0x8000,
	OPCODE = 0x7800,
	AA = 0x0400,
	TC = 0x0200,
	RD = 0x0100,
	RA = 0x0080,
	CLASS_IN = 1,
	CHAIN_MAX = 16, /* CNAME records that are followed */
	LABEL_MAX = 63,
	TEXT_MAX = 253, /* of a name, without the dot at its end */
};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

void dns_set_id(uint8_t *wire, uint16_t id)
{
	put16(wire, id);
}

static bool name_text(const ldns_rdf *owner, char *ret)
{
	char *text = ldns_rdf2str(owner);
	bool fits = text && strlen(text) < DNS_NAME_MAX;

	for (size_t i = 0; fits && i <= strlen(text); i++)
		ret[i] = (char)tolower((unsigned char)text[i]);
	free(text);
	return fits;
}

/* A name that refers to another place has no business in a question: there is nothing before it. */
static bool is_plain(const uint8_t *wire, size_t len)
{
	size_t at = DNS_HEADER;

	while (at < len && wire[at] && wire[at] < 64)
		at += 1u + wire[at];
	return at < len && !wire[at];
}

static struct err *read_question(const uint8_t *wire, size_t len, struct dns_query *q)
{
	size_t pos = DNS_HEADER;
	ldns_rr *rr = NULL;
	bool good;

	if (!is_plain(wire, len) ||
	    ldns_wire2rr(&rr, wire, len, &pos, LDNS_SECTION_QUESTION) != LDNS_STATUS_OK)
		return err_new(ERR_MALFORMED, "DNS question cannot be read");
	good = name_text(ldns_rr_owner(rr), q->name);
	q->type = (uint16_t)ldns_rr_get_type(rr);
	q->class_ = (uint16_t)ldns_rr_get_class(rr);
	q->end = pos;
	ldns_rr_free(rr);
	return good ? NULL : err_new(ERR_MALFORMED, "DNS name is too long");
}

struct err *dns_query_read(const uint8_t *wire, size_t len, struct dns_query *ret,
			   enum dns_code *ret_code)
{
	struct dns_query q = { 0 };
	uint16_t flags;
	struct err *e;

	if (len < DNS_HEADER || len > DNS_QUERY_MAX)
		return err_new(ERR_MALFORMED, "DNS query of %zu bytes", len);
	flags = get16(wire + AT_FLAGS);
	if (flags & QR)
		return err_new(ERR_MALFORMED, "DNS answer instead of a query");
	if (get16(wire + AT_COUNT) != 1)
		return err_new(ERR_MALFORMED, "DNS query with %u questions",
			       get16(wire + AT_COUNT));
	q.id = get16(wire);
	q.recursion = flags & RD;
	e = read_question(wire, len, &q);
	if (e)
		return e;
	*ret_code = flags & OPCODE ? DNS_NOTIMP : q.class_ != CLASS_IN ? DNS_REFUSED : DNS_NOERROR;
	*ret = q;
	return NULL;
}

/* NULL: the text is no name. */
static ldns_rr *record(const char *name, uint16_t type, uint32_t ttl)
{
	ldns_rdf *owner = ldns_dname_new_frm_str(name);
	ldns_rr *rr = ldns_rr_new();

	if (!owner || !rr) {
		ldns_rdf_deep_free(owner);
		ldns_rr_free(rr);
		return NULL;
	}
	ldns_rr_set_owner(rr, owner);
	ldns_rr_set_type(rr, type);
	ldns_rr_set_class(rr, LDNS_RR_CLASS_IN);
	ldns_rr_set_ttl(rr, ttl);
	return rr;
}

/* Takes both over. NULL: either is. */
static ldns_rr *with(ldns_rr *rr, ldns_rdf *value)
{
	if (rr && value && ldns_rr_push_rdf(rr, value))
		return rr;
	ldns_rdf_deep_free(value);
	ldns_rr_free(rr);
	return NULL;
}

static ldns_rdf *number(uint16_t n)
{
	return ldns_native2rdf_int16(LDNS_RDF_TYPE_INT16, n);
}

static bool push(ldns_pkt *p, ldns_rr *rr)
{
	return rr && ldns_pkt_push_rr(p, LDNS_SECTION_ANSWER, rr);
}

static bool push_question(ldns_pkt *p, const struct dns_query *q)
{
	ldns_rdf *owner = ldns_dname_new_frm_str(q->name);
	ldns_rr *rr = ldns_rr_new();

	if (!owner || !rr) {
		ldns_rdf_deep_free(owner);
		ldns_rr_free(rr);
		return false;
	}
	ldns_rr_set_owner(rr, owner);
	ldns_rr_set_type(rr, q->type);
	ldns_rr_set_class(rr, q->class_);
	ldns_rr_set_question(rr, true);
	return ldns_pkt_push_rr(p, LDNS_SECTION_QUESTION, rr);
}

static bool push_address(ldns_pkt *p, const struct dns_query *q, const struct dns_answer *a,
			 const struct ip *ip)
{
	const char *owner = a->target_type == DNS_CNAME && a->target ? a->target : q->name;
	bool v4 = ip_is4(ip);
	uint16_t type = v4 ? DNS_A : DNS_AAAA;
	size_t skip = v4 ? sizeof(*ip) - 4 : 0;

	if (q->type != type && q->type != DNS_ANY)
		return true;
	return push(p, with(record(owner, type, a->ttl),
			    ldns_rdf_new_frm_data(v4 ? LDNS_RDF_TYPE_A : LDNS_RDF_TYPE_AAAA,
						  sizeof(*ip) - skip, ip->octet + skip)));
}

/* All are worth the same. */
static bool push_place(ldns_pkt *p, const struct dns_query *q, const struct dns_answer *a,
		       const struct dns_place *place)
{
	ldns_rr *rr = with(record(q->name, DNS_SRV, a->ttl), number(0));

	rr = with(rr, number((uint16_t)(100 / a->n_places)));
	rr = with(rr, number(place->port));
	return push(p, with(rr, ldns_dname_new_frm_str(place->target)));
}

static bool push_records(ldns_pkt *p, const struct dns_query *q, const struct dns_answer *a)
{
	bool good = true;

	if (a->target)
		good = push(p, with(record(q->name, a->target_type, a->ttl),
				    ldns_dname_new_frm_str(a->target)));
	for (size_t i = 0; i < a->n_addrs && good; i++)
		good = push_address(p, q, a, &a->addrs[i]);
	for (size_t i = 0; q->type == DNS_SRV && i < a->n_places && good; i++)
		good = push_place(p, q, a, &a->places[i]);
	return good;
}

/* What ldns writes gets the flags from here, and the bytes of the question as they were asked:
 * their case is kept. */
static void complete(uint8_t *wire, const uint8_t *query, const struct dns_query *q,
		     const struct dns_answer *a)
{
	put16(wire, q->id);
	put16(wire + AT_FLAGS,
	      (unsigned)(QR | (get16(query + AT_FLAGS) & (OPCODE | RD)) | RA |
			 (a->authoritative ? AA : 0) | (a->cut ? TC : 0) | (int)a->code));
	memcpy(wire + DNS_HEADER, query + DNS_HEADER, q->end - DNS_HEADER);
}

struct err *dns_answer_write(const uint8_t *query, const struct dns_query *q,
			     const struct dns_answer *a, size_t max, struct buf *out)
{
	ldns_pkt *p = ldns_pkt_new();
	uint8_t *wire = NULL;
	size_t len = 0;
	bool good = p && push_question(p, q) && push_records(p, q, a) &&
		    ldns_pkt2wire(&wire, p, &len) == LDNS_STATUS_OK && len >= q->end;

	if (good)
		complete(wire, query, q, a);
	if (good && len > max) {
		put16(wire + AT_FLAGS, get16(wire + AT_FLAGS) | TC);
		put16(wire + AT_ANSWERS, 0);
		len = q->end;
	}
	if (good)
		buf_add(out, wire, len);
	free(wire);
	ldns_pkt_free(p);
	return good ? NULL : err_new(ERR_INTERNAL, "a DNS answer could not be written");
}

static bool same_question(const uint8_t *a, const uint8_t *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (tolower(a[i]) != tolower(b[i]))
			return false;
	return true;
}

bool dns_answers(const uint8_t *wire, size_t len, const uint8_t *query, const struct dns_query *q,
		 uint16_t id)
{
	return len >= q->end && get16(wire) == id && get16(wire + AT_FLAGS) & QR &&
	       get16(wire + AT_COUNT) == 1 &&
	       same_question(wire + DNS_HEADER, query + DNS_HEADER, q->end - DNS_HEADER);
}

size_t dns_query_bare(const uint8_t *query, const struct dns_query *q, uint8_t ret[DNS_QUERY_MAX])
{
	memset(ret, 0, DNS_HEADER);
	put16(ret + AT_FLAGS, RD);
	put16(ret + AT_COUNT, 1);
	for (size_t i = DNS_HEADER; i < q->end; i++) /* type and class have no capitals */
		ret[i] = i < q->end - 4 ? (uint8_t)tolower(query[i]) : query[i];
	return q->end;
}

/* Where the CNAME records lead from a name: the last of a chain, borrowed. */
static const ldns_rdf *follow_names(const ldns_rr_list *list, const ldns_rdf *name)
{
	for (int hops = 0; hops < CHAIN_MAX; hops++) {
		const ldns_rdf *target = NULL;

		for (size_t i = 0; i < ldns_rr_list_rr_count(list) && !target; i++) {
			const ldns_rr *rr = ldns_rr_list_rr(list, i);

			if (ldns_rr_get_type(rr) == LDNS_RR_TYPE_CNAME && ldns_rr_rd_count(rr) &&
			    !ldns_dname_compare(ldns_rr_owner(rr), name))
				target = ldns_rr_rdf(rr, 0);
		}
		if (!target)
			return name;
		name = target;
	}
	return NULL;
}

static bool read_address(const ldns_rr *rr, struct ip *ret)
{
	bool v4 = ldns_rr_get_type(rr) == LDNS_RR_TYPE_A;
	const ldns_rdf *value = ldns_rr_rd_count(rr) == 1 ? ldns_rr_rdf(rr, 0) : NULL;
	uint32_t net;

	if (!value || ldns_rdf_size(value) != (v4 ? sizeof(net) : sizeof(ret->octet)))
		return false;
	if (v4) {
		memcpy(&net, ldns_rdf_data(value), sizeof(net));
		*ret = ip_from4(ntohl(net));
	} else {
		memcpy(ret->octet, ldns_rdf_data(value), sizeof(ret->octet));
	}
	return v4 || !ip_is4(ret); /* one of IPv4 in disguise is none of IPv6 */
}

static void read_addresses(const ldns_rr_list *list, const ldns_rdf *name, size_t max,
			   struct dns_answer *ret)
{
	uint16_t type = ret->target_type;

	for (size_t i = 0; i < ldns_rr_list_rr_count(list) && ret->n_addrs < max; i++) {
		const ldns_rr *rr = ldns_rr_list_rr(list, i);

		if (ldns_rr_get_type(rr) != type || ldns_rr_get_class(rr) != LDNS_RR_CLASS_IN ||
		    ldns_dname_compare(ldns_rr_owner(rr), name) ||
		    !read_address(rr, &ret->addrs[ret->n_addrs]))
			continue;
		ret->ttl = ret->n_addrs ? MIN(ret->ttl, ldns_rr_ttl(rr)) : ldns_rr_ttl(rr);
		ret->n_addrs++;
	}
}

struct err *dns_answer_read(const uint8_t *wire, size_t len, const struct dns_query *q, size_t max,
			    struct dns_answer *ret)
{
	struct dns_answer a = { .target_type = q->type };
	ldns_rdf *name = ldns_dname_new_frm_str(q->name);
	ldns_pkt *p = NULL;
	const ldns_rdf *at;

	if (!name || ldns_wire2pkt(&p, wire, len) != LDNS_STATUS_OK) {
		ldns_rdf_deep_free(name);
		ldns_pkt_free(p);
		return err_new(ERR_MALFORMED, "DNS answer cannot be read");
	}
	a.code = (enum dns_code)ldns_pkt_get_rcode(p);
	a.cut = ldns_pkt_tc(p);
	at = follow_names(ldns_pkt_answer(p), name);
	if (at && !a.cut && a.code == DNS_NOERROR && (q->type == DNS_A || q->type == DNS_AAAA))
		read_addresses(ldns_pkt_answer(p), at, MIN(max, (size_t)DNS_ADDRS_MAX), &a);
	a.target_type = 0;
	ldns_rdf_deep_free(name);
	ldns_pkt_free(p);
	*ret = a;
	return NULL;
}

size_t dns_query_write(const char *name, enum dns_type type, uint8_t ret[DNS_QUERY_MAX])
{
	size_t at = DNS_HEADER, len = strlen(name);

	if (!len || len > TEXT_MAX)
		return 0;
	memset(ret, 0, DNS_HEADER);
	put16(ret + AT_FLAGS, RD);
	put16(ret + AT_COUNT, 1);
	for (const char *p = name; *p;) {
		size_t n = strcspn(p, ".");

		if (!n || n > LABEL_MAX)
			return 0;
		ret[at++] = (uint8_t)n;
		memcpy(ret + at, p, n);
		at += n;
		p += n + (p[n] == '.');
	}
	ret[at++] = 0;
	put16(ret + at, type);
	put16(ret + at + 2, CLASS_IN);
	return at + 4;
}
