/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/str.h"
#include "loop/loop.h"
#include "node/network/resolver_priv.h"

/*
 * A name that the node itself looks up, on behalf of a sandbox: its addresses of IPv4, or if there
 * are none, those of IPv6. The questions are among those of the sandbox (query.c), with the same
 * limits; an answer that was cut is asked for once more over TCP.
 */
struct lookup {
	struct resolver *r;
	struct list on;
	char *name;
	struct query_from from;
	struct dns_query asked;
	struct dns_answer answer;
	void (*done)(void *arg, const struct ip *addrs, size_t n);
	void *arg;
	struct deferred later;
};

static void lookup_free(struct lookup *l)
{
	list_del(&l->on);
	queries_drop(l->r, l);
	deferred_cancel(&l->later);
	free(l->name);
	free(l);
}

static void on_later(void *arg)
{
	struct lookup *l = arg;

	l->done(l->arg, l->answer.addrs, l->answer.n_addrs);
	lookup_free(l);
}

static void ask(struct lookup *l, enum dns_type type, bool tcp)
{
	uint8_t wire[DNS_QUERY_MAX];
	size_t len = dns_query_write(l->name, type, wire);
	enum dns_code code = DNS_FORMERR;
	struct err *e = dns_query_read(wire, len, &l->asked, &code);
	struct query *y = NULL;

	l->from.tcp = tcp;
	if (!e && code == DNS_NOERROR && resolver_host(l->r)->n_servers)
		y = query_new(l->r, &l->from, wire, len, &l->asked);
	if (y)
		query_pass(y);
	else
		deferred_call(&l->later);
	err_free(e);
}

void lookup_answer(struct lookup *l, const uint8_t *wire, size_t len)
{
	struct err *e = dns_answer_read(wire, len, &l->asked, LOOKUP_ADDRS_MAX, &l->answer);
	/* A name that is not there, or that nobody answers for, has no other addresses either. */
	bool exists = !e && l->answer.code == DNS_NOERROR;

	if (!e && l->answer.cut && !l->from.tcp)
		ask(l, l->asked.type, true);
	else if (exists && !l->answer.n_addrs && l->asked.type == DNS_A)
		ask(l, DNS_AAAA, false);
	else
		deferred_call(&l->later);
	err_free(e);
}

struct lookup *resolver_lookup(struct resolver *r, const struct lookup_spec *spec)
{
	struct lookup *l = xnew(struct lookup);

	l->r = r;
	l->name = xstrdup(spec->name);
	l->from = (struct query_from){ .place = spec->place, .lookup = l };
	l->done = spec->done;
	l->arg = spec->arg;
	list_add_tail(&r->lookups, &l->on);
	deferred_init(&l->later, r->spec.loop, on_later, l);
	ask(l, DNS_A, false);
	return l;
}

void lookup_cancel(struct lookup *l)
{
	if (l)
		lookup_free(l);
}

void lookups_drop(struct resolver *r)
{
	while (!list_empty(&r->lookups))
		lookup_free(list_first(&r->lookups, struct lookup, on));
}
