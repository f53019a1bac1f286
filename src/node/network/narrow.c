/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/network/reach.h"
#include "node/network/resolver_priv.h"

/*
 * Questions of a sandbox whose way out is limited:
 *
 *   a name in none of its places ──> there is no such name; it never leaves the host
 *   judged ──> looked up ──> its addresses are leased ──> answered
 *
 * So an answer means that its addresses can be reached by now. What goes out is the name alone, in
 * lower case, and what comes in are addresses alone: neither carries anything else. While a person
 * is asked the answer is REFUSED, which libc takes for a trouble that may pass.
 */
enum {
	HOLD_MS = 5000, /* for whatever else than a name server is waited for */
	TTL_MAX = 300,  /* much less than a lease */
};

enum narrow_state {
	NARROW_JUDGED,
	NARROW_PASSED,
	NARROW_LEASED,
};

struct narrowed {
	struct query *y;
	enum narrow_state state;
	uint8_t asked[DNS_QUERY_MAX]; /* as it came */
	char host[DNS_NAME_MAX];      /* without the dot at its end */
	struct reach_question question;
	bool asking; /* the question is with the judge */
	struct reach_wait wait;
	struct dns_answer found;
};

bool narrow_waits(const struct narrowed *n)
{
	return n->state != NARROW_PASSED;
}

void narrow_free(struct narrowed *n)
{
	if (!n)
		return;
	if (n->asking)
		reach_cancel(n->y->r->spec.reach, &n->question);
	reach_wait_cancel(&n->wait);
	free(n);
}

static void reply(struct query *y, const struct dns_answer *a)
{
	resolver_answer(y->r, &y->from, y->narrow->asked, &y->q, a);
	query_free(y);
}

static void refuse(struct query *y, enum dns_code code)
{
	reply(y, &(struct dns_answer){ .code = code });
}

static void on_leased(struct reach_wait *w)
{
	struct narrowed *n = container_of(w, struct narrowed, wait);

	reply(n->y, &n->found);
}

/* An answer without addresses needs no lease. */
static void lease(struct query *y, bool ours)
{
	struct narrowed *n = y->narrow;
	const struct reach_found f = { n->host, n->found.addrs, n->found.n_addrs, ours };

	n->found.ttl = MIN(n->found.ttl, (uint32_t)TTL_MAX);
	if (!n->found.n_addrs) {
		reply(y, &n->found);
		return;
	}
	n->state = NARROW_LEASED;
	n->wait.done = on_leased;
	if (reach_state(y->r->spec.reach, y->from.place) == REACH_LIMITED &&
	    reach_lease(y->r->spec.reach, y->from.place, &f, &n->wait))
		timer_set(y->timer, HOLD_MS);
	else
		refuse(y, DNS_SERVFAIL);
}

void narrow_answer(struct query *y, const uint8_t *wire, size_t len)
{
	struct err *e = dns_answer_read(wire, len, &y->q, REACH_ADDRS_MAX, &y->narrow->found);

	if (!e) {
		lease(y, false);
		return;
	}
	err_free(e);
	refuse(y, DNS_SERVFAIL);
}

/* The cluster's own names are answered from objects; only addresses are told. */
static void look_up(struct query *y)
{
	struct narrowed *n = y->narrow;
	autoptr(arena) a = arena_new();

	if (names_answer(&y->r->names, &y->q, a, &n->found)) {
		y->r->answered++;
		n->found.n_addrs = MIN(n->found.n_addrs, (size_t)REACH_ADDRS_MAX);
		n->found.n_places = 0;
		n->found.target = NULL;
		lease(y, true);
		return;
	}
	if (!y->r->spec.forward) {
		refuse(y, DNS_REFUSED);
		return;
	}
	n->state = NARROW_PASSED;
	query_pass(y);
}

static void on_decided(struct reach_question *question, enum reach_word word)
{
	struct narrowed *n = container_of(question, struct narrowed, question);

	n->asking = false;
	switch (word) {
	case REACH_YES:
		look_up(n->y);
		break;
	case REACH_NO:
		refuse(n->y, DNS_NXDOMAIN);
		break;
	case REACH_LATER:
		refuse(n->y, DNS_REFUSED);
		break;
	}
}

static void host_of(const struct dns_query *q, char ret[DNS_NAME_MAX])
{
	size_t len = strlen(q->name);

	memcpy(ret, q->name, len + 1);
	if (len && ret[len - 1] == '.')
		ret[len - 1] = '\0';
}

/* Other types would tell more than addresses: the name has none of them. */
static bool is_about_addresses(const struct dns_query *q)
{
	return q->type == DNS_A || q->type == DNS_AAAA;
}

void narrow_ask(struct resolver *r, const struct query_from *from, const uint8_t *wire, size_t len,
		const struct dns_query *q)
{
	uint8_t bare[DNS_QUERY_MAX];
	struct narrowed *n;
	char host[DNS_NAME_MAX];
	struct query *y;

	host_of(q, host);
	if (!*host || !reach_has_place(r->spec.reach, from->place, host)) {
		resolver_refuse(r, from, wire, q, DNS_NXDOMAIN);
		return;
	}
	if (!is_about_addresses(q)) {
		resolver_refuse(r, from, wire, q, DNS_NOERROR);
		return;
	}
	y = query_new(r, from, bare, dns_query_bare(wire, q, bare), q);
	if (!y) {
		resolver_refuse(r, from, wire, q, DNS_SERVFAIL);
		return;
	}
	n = xnew(struct narrowed);
	n->y = y;
	y->narrow = n;
	memcpy(n->asked, wire, len);
	memcpy(n->host, host, sizeof(n->host));
	n->question.decided = on_decided;
	n->asking = true;
	timer_set(y->timer, HOLD_MS);
	reach_ask(r->spec.reach, from->place, n->host, &n->question);
}
