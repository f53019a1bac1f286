/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/limits.h"

#include <stdlib.h>
#include <string.h>

#include "api/cay/capability.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "node/host/instance.h"

/*
 * Leases have the name that they were made for, and no ports: which ports it has is asked anew
 * whenever rules are written, so that a place that shrinks takes its leases with it.
 */
enum {
	HTTPS = 443, /* of a place that names no ports */
	FAMILIES = 2,
};

struct place {
	const char *host;
	uint16_t *ports;
	size_t n_ports;
	bool shut; /* to packets whose name is not known */
};
struct lease {
	struct ip ip;
	char *host;
	usec until;
	size_t n_ports;
};
struct limits {
	struct arena *arena;
	struct place *places;
	size_t n_places;
	struct lease leases[LEASES_MAX];
	size_t n_leases;
	size_t n_elements; /* of leases */
};

static bool is_for_packets(const struct egress *e)
{
	return !*e->methods && !*e->paths;
}

static void read_places(struct limits *l, const struct capabilities *c)
{
	l->arena = arena_new();
	l->places = arena_new_n(l->arena, struct place, c->n_egress + 1);
	l->n_places = 0;
	for (size_t i = 0; i < c->n_egress; i++) {
		const struct egress *e = &c->egress[i];
		struct place *p = &l->places[l->n_places];

		if (!is_for_packets(e))
			continue;
		p->host = arena_strdup(l->arena, e->host);
		p->n_ports = e->n_ports ? e->n_ports : 1;
		p->ports = arena_new_n(l->arena, uint16_t, p->n_ports);
		p->ports[0] = HTTPS;
		for (size_t k = 0; k < e->n_ports; k++)
			p->ports[k] = (uint16_t)e->ports[k];
		l->n_places++;
	}
}

struct limits *limits_new(const struct capabilities *c)
{
	struct limits *l = xnew(struct limits);

	read_places(l, c);
	return l;
}

static void drop_lease(struct limits *l, size_t i)
{
	free(l->leases[i].host);
	l->n_elements -= 2 * l->leases[i].n_ports;
	l->leases[i] = l->leases[--l->n_leases];
}

void limits_free(struct limits *l)
{
	if (!l)
		return;
	while (l->n_leases)
		drop_lease(l, 0);
	arena_free(l->arena);
	free(l);
}

static size_t add_port(uint16_t *ports, size_t n, uint16_t port)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i] == port)
			return n;
	if (n < LIMITS_PORTS_MAX)
		ports[n++] = port;
	return n;
}

size_t limits_ports(const struct limits *l, const char *host, uint16_t ret[LIMITS_PORTS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_places; i++)
		for (size_t k = 0;
		     k < l->places[i].n_ports && host_matches(l->places[i].host, host); k++)
			n = add_port(ret, n, l->places[i].ports[k]);
	return n;
}

static void count(struct limits *l, struct lease *e)
{
	uint16_t ports[LIMITS_PORTS_MAX];

	l->n_elements -= 2 * e->n_ports;
	e->n_ports = limits_ports(l, e->host, ports);
	l->n_elements += 2 * e->n_ports;
}

/* Whether one went. */
static bool keep_leases(struct limits *l, bool (*keep)(void *arg, const char *host), void *arg)
{
	size_t before = l->n_leases;

	for (size_t i = l->n_leases; i-- > 0;)
		if (!keep(arg, l->leases[i].host))
			drop_lease(l, i);
	return l->n_leases < before;
}

static bool has_place(void *arg, const char *host)
{
	uint16_t ports[LIMITS_PORTS_MAX];

	return limits_ports(arg, host, ports);
}

static bool has_port(const struct place *p, uint16_t port)
{
	for (size_t i = 0; i < p->n_ports; i++)
		if (p->ports[i] == port)
			return true;
	return false;
}

/* Goes on as the old place of the same host was judged. True: it has all of its ports. */
static bool succeeds(struct place *p, const struct place *old)
{
	if (!str_eq(p->host, old->host))
		return false;
	p->shut = old->shut;
	for (size_t i = 0; i < old->n_ports; i++)
		if (!has_port(p, old->ports[i]))
			return false;
	return true;
}

/* at: where it was. Mostly nothing has changed, and it still is there. */
static bool has_successor(struct limits *l, const struct place *old, size_t at)
{
	for (size_t i = 0; i < l->n_places; i++)
		if (succeeds(&l->places[(at + i) % l->n_places], old))
			return true;
	return false;
}

bool limits_set(struct limits *l, const struct capabilities *c)
{
	autoptr(arena) old = l->arena;
	const struct place *places = l->places;
	size_t n_places = l->n_places;
	bool less = false;

	read_places(l, c);
	for (size_t i = 0; i < n_places; i++)
		less |= !has_successor(l, &places[i], i);
	(void)keep_leases(l, has_place, l); /* one that goes had a place that did */
	for (size_t i = 0; i < l->n_leases; i++)
		count(l, &l->leases[i]);
	return less;
}

static bool needs_no_name(const char *host)
{
	struct ip ip;

	return str_eq(host, "*") || ip_parse(host, &ip);
}

bool limits_judge(struct limits *l, bool (*stands)(void *arg, const char *host), void *arg)
{
	bool less = false;

	for (size_t i = 0; i < l->n_places; i++) {
		struct place *p = &l->places[i];
		bool shut = needs_no_name(p->host) && !stands(arg, p->host);

		less |= shut && !p->shut;
		p->shut = shut;
	}
	return keep_leases(l, stands, arg) || less;
}

static size_t first_to_end(const struct limits *l)
{
	size_t first = 0;

	for (size_t i = 1; i < l->n_leases; i++)
		if (l->leases[i].until < l->leases[first].until)
			first = i;
	return first;
}

bool limits_lease(struct limits *l, const char *host, const struct ip *ip, usec until)
{
	for (size_t i = 0; i < l->n_leases; i++) {
		struct lease *e = &l->leases[i];

		if (ip_cmp(&e->ip, ip) || !str_eq(e->host, host))
			continue;
		e->until = MAX(e->until, until);
		return false;
	}
	if (l->n_leases == LEASES_MAX)
		drop_lease(l, first_to_end(l));
	l->leases[l->n_leases] = (struct lease){ *ip, xstrdup(host), until, 0 };
	count(l, &l->leases[l->n_leases++]);
	return true;
}

void limits_make_room(struct limits *l)
{
	if (l->n_leases)
		drop_lease(l, first_to_end(l));
}

void limits_expire(struct limits *l, usec now)
{
	for (size_t i = l->n_leases; i-- > 0;)
		if (l->leases[i].until <= now)
			drop_lease(l, i);
}

usec limits_next_end(const struct limits *l)
{
	return l->n_leases ? l->leases[first_to_end(l)].until : 0;
}

size_t limits_leases(const struct limits *l)
{
	return l->n_leases;
}

void limits_each(const struct limits *l,
		 void (*fn)(void *arg, const char *host, const struct ip *ip, usec until),
		 void *arg)
{
	for (size_t i = 0; i < l->n_leases; i++)
		fn(arg, l->leases[i].host, &l->leases[i].ip, l->leases[i].until);
}

size_t limits_elements(const struct limits *l)
{
	return l->n_elements;
}

/* The text */

struct elements {
	struct buf *out;
	size_t n;
};

static const char *const types[] = { "ipv4_addr", "ipv6_addr" };

static void begin(struct elements *e, const char *name, int family, const char *rest)
{
	buf_printf(e->out, "	set %s%s {\n		type %s", name, family ? "6" : "",
		   types[family]);
	if (*rest && *rest != '.')
		buf_printf(e->out, " . %s", types[family]);
	if (*rest)
		buf_add_str(e->out, " . inet_proto . inet_service");
	buf_add_char(e->out, '\n');
	e->n = 0;
}

static void next(struct elements *e)
{
	buf_add_str(e->out, e->n++ ? ", " : "		elements = { ");
}

static bool is_full(const struct elements *e)
{
	return e->n >= LIMITS_ELEMENTS_MAX;
}

static void end(struct elements *e)
{
	buf_add_str(e->out, e->n ? " }\n	}\n" : "	}\n");
}

static void self_text(const struct limits_world *w, size_t place, int family, char ret[IP_TEXT_MAX])
{
	const struct ip self = family ? instance_ip6(w->instance, (unsigned)place)
				      : instance_ip4(w->instance, (unsigned)place);

	ip_text(&self, ret);
}

static void add_sandboxes(const struct limits_world *w, bool limited, int family,
			  struct elements *e)
{
	char self[IP_TEXT_MAX];

	begin(e, limited ? "limited" : "free", family, "");
	for (size_t i = 0; i < w->n_places; i++) {
		if (limited ? !w->limits[i] : !w->free[i])
			continue;
		self_text(w, i, family, self);
		next(e);
		buf_add_str(e->out, self);
	}
	end(e);
}

/* An address of one sandbox, and the ports that are open there. One that several names have is
 * there once. */
struct target {
	struct ip ip;
	uint16_t ports[LIMITS_PORTS_MAX];
	size_t n_ports;
};
struct targets {
	struct target *list;
	size_t n;
};

static void add_target(struct targets *t, const struct ip *ip, const uint16_t *ports, size_t n)
{
	struct target *found = NULL;

	for (size_t i = 0; i < t->n && !found; i++)
		if (!ip_cmp(&t->list[i].ip, ip))
			found = &t->list[i];
	if (!found) {
		found = &t->list[t->n++];
		*found = (struct target){ .ip = *ip };
	}
	for (size_t i = 0; i < n; i++)
		found->n_ports = add_port(found->ports, found->n_ports, ports[i]);
}

static int by_port(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

static int by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct target *)a)->ip, &((const struct target *)b)->ip);
}

/* In order, so that the same leases are the same text. */
static struct targets targets_of(const struct limits *l)
{
	struct targets t = { .list = xcalloc(l->n_places + l->n_leases + 1, sizeof(*t.list)) };
	uint16_t ports[LIMITS_PORTS_MAX];
	struct ip ip;

	for (size_t i = 0; i < l->n_places; i++)
		if (!l->places[i].shut && ip_parse(l->places[i].host, &ip))
			add_target(&t, &ip, l->places[i].ports, l->places[i].n_ports);
	for (size_t i = 0; i < l->n_leases; i++)
		add_target(&t, &l->leases[i].ip, ports, limits_ports(l, l->leases[i].host, ports));
	qsort(t.list, t.n, sizeof(*t.list), by_ip);
	for (size_t i = 0; i < t.n; i++)
		qsort(t.list[i].ports, t.list[i].n_ports, sizeof(uint16_t), by_port);
	return t;
}

static void add_ports(struct elements *e, const char *head, const uint16_t *ports, size_t n)
{
	static const char *const protocols[] = { "tcp", "udp" };

	for (size_t i = 0; i < n && !is_full(e); i++)
		for (size_t k = 0; k < ARRAY_LEN(protocols); k++) {
			next(e);
			buf_printf(e->out, "%s . %s . %u", head, protocols[k], ports[i]);
		}
}

static void add_leases(const struct limits_world *w, int family, struct elements *e)
{
	char self[IP_TEXT_MAX], to[IP_TEXT_MAX], both[2 * IP_TEXT_MAX + 4];

	begin(e, "leases", family, "to");
	for (size_t i = 0; i < w->n_places; i++) {
		struct targets t = { 0 };

		if (!w->limits[i])
			continue;
		self_text(w, i, family, self);
		t = targets_of(w->limits[i]);
		for (size_t k = 0; k < t.n; k++) {
			if (ip_is4(&t.list[k].ip) != !family)
				continue;
			ip_text(&t.list[k].ip, to);
			(void)snprintf(both, sizeof(both), "%s . %s", self, to);
			add_ports(e, both, t.list[k].ports, t.list[k].n_ports);
		}
		free(t.list);
	}
	end(e);
}

static void add_anywhere(const struct limits_world *w, int family, struct elements *e)
{
	char self[IP_TEXT_MAX];

	begin(e, "anywhere", family, ".");
	for (size_t i = 0; i < w->n_places; i++) {
		struct target all = { 0 };

		for (size_t k = 0; w->limits[i] && k < w->limits[i]->n_places; k++) {
			const struct place *p = &w->limits[i]->places[k];

			for (size_t m = 0; !p->shut && str_eq(p->host, "*") && m < p->n_ports; m++)
				all.n_ports = add_port(all.ports, all.n_ports, p->ports[m]);
		}
		qsort(all.ports, all.n_ports, sizeof(uint16_t), by_port);
		self_text(w, i, family, self);
		add_ports(e, self, all.ports, all.n_ports);
	}
	end(e);
}

void limits_text(const struct limits_world *w, struct buf *out)
{
	struct elements e = { .out = out };

	for (int family = 0; family < FAMILIES; family++) {
		add_sandboxes(w, false, family, &e);
		add_sandboxes(w, true, family, &e);
		add_leases(w, family, &e);
		add_anywhere(w, family, &e);
	}
}
