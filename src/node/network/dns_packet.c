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
	put16(wire + AT_FLAGS, (unsigned)(QR | (get16(query + AT_FLAGS) & (OPCODE | RD)) | RA |
					  (a->authoritative ? AA : 0) | (int)a->code));
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
