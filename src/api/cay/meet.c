/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/capability.h"
#include "base/arena.h"
#include "base/str.h"

/*
 * What two capabilities both allow. Of two patterns with one * each, a*b and c*d, both match what
 * begins with the longer of a and c and ends with the longer of b and d; and, if these come from
 * different patterns, the few texts in which the beginning and the end overlap. Members that others
 * of the same list contain are left out, so what is met again and again does not grow.
 */
static const char *const nothing[] = { NULL };

/* Patterns */

struct list {
	struct arena *arena;
	const char **all; /* room for CAPABILITY_MEET_MAX, and a NULL */
	size_t n;
};

static struct list list_new(struct arena *a)
{
	return (struct list){ a, arena_new_n(a, const char *, CAPABILITY_MEET_MAX + 1), 0 };
}

static void add(struct list *l, const char *p)
{
	size_t kept = 0;

	if (capabilities_list_has(l->all, p))
		return;
	for (size_t i = 0; i < l->n; i++)
		if (!pattern_contains(p, l->all[i]))
			l->all[kept++] = l->all[i];
	if (kept < CAPABILITY_MEET_MAX)
		l->all[kept++] = p;
	l->n = kept;
	l->all[kept] = NULL;
}

/* A pattern with one *, in two. */
struct halves {
	struct span head, tail;
};

static bool halve(const char *p, struct halves *ret)
{
	const char *star = strchr(p, '*');

	if (!star || strchr(star + 1, '*'))
		return false;
	*ret = (struct halves){ { p, (size_t)(star - p) }, SPAN(star + 1) };
	return true;
}

static bool heads_agree(struct span a, struct span b)
{
	return !memcmp(a.p, b.p, MIN(a.len, b.len));
}

static bool tails_agree(struct span a, struct span b)
{
	size_t len = MIN(a.len, b.len);

	return !memcmp(a.p + a.len - len, b.p + b.len - len, len);
}

/* The texts that begin with head and end with tail, and are too short for both side by side. */
static void add_overlaps(struct list *l, struct halves h, const char *x, const char *y)
{
	for (size_t n = 1; n <= MIN(h.head.len, h.tail.len); n++) {
		const char *text;

		if (memcmp(h.head.p + h.head.len - n, h.tail.p, n) != 0)
			continue;
		text = arena_printf(l->arena, "%.*s%.*s", (int)h.head.len, h.head.p,
				    (int)(h.tail.len - n), h.tail.p + n);
		if (pattern_matches(x, text) && pattern_matches(y, text))
			add(l, text);
	}
}

static void meet_patterns(struct list *l, const char *x, const char *y)
{
	struct halves a, b, h;

	if (pattern_contains(x, y)) {
		add(l, y);
		return;
	}
	if (pattern_contains(y, x)) {
		add(l, x);
		return;
	}
	if (!halve(x, &a) || !halve(y, &b) || !heads_agree(a.head, b.head) ||
	    !tails_agree(a.tail, b.tail))
		return;
	h.head = a.head.len > b.head.len ? a.head : b.head;
	h.tail = a.tail.len > b.tail.len ? a.tail : b.tail;
	add(l, arena_printf(l->arena, "%.*s*%.*s", (int)h.head.len, h.head.p, (int)h.tail.len,
			    h.tail.p));
	add_overlaps(l, h, x, y);
}

static const char *const *meet_lists(const char *const *x, const char *const *y, struct arena *a)
{
	struct list l = list_new(a);

	for (size_t i = 0; x[i]; i++)
		for (size_t j = 0; y[j]; j++)
			meet_patterns(&l, x[i], y[j]);
	return l.all;
}

/* Places on the network */

/* Of hosts, one contains the other or they have nothing in common. */
static const char *meet_hosts(const char *x, const char *y)
{
	if (host_contains(x, y))
		return y;
	return host_contains(y, x) ? x : NULL;
}

static bool meet_ports(const struct egress *x, const struct egress *y, struct arena *a,
		       struct egress *ret)
{
	static const int64_t https = 443;
	const int64_t *xs = x->n_ports ? x->ports : &https, *ys = y->n_ports ? y->ports : &https;
	size_t n_x = MAX(x->n_ports, (size_t)1), n_y = MAX(y->n_ports, (size_t)1);
	int64_t *both = arena_new_n(a, int64_t, n_x);

	ret->ports = both;
	for (size_t i = 0; i < n_x; i++)
		for (size_t j = 0; j < n_y; j++)
			if (xs[i] == ys[j]) {
				both[ret->n_ports++] = xs[i];
				break;
			}
	return ret->n_ports;
}

/* Methods are words, and an empty list is all of them: none in common must not become that. */
static bool meet_methods(const struct egress *x, const struct egress *y, struct arena *a,
			 struct egress *ret)
{
	const char **both;
	size_t n = 0;

	if (!*x->methods || !*y->methods) {
		ret->methods = *x->methods ? x->methods : y->methods;
		return true;
	}
	while (x->methods[n])
		n++;
	ret->methods = both = arena_new_n(a, const char *, n + 1);
	for (size_t i = 0; x->methods[i]; i++)
		if (str_in(x->methods[i], y->methods))
			*both++ = x->methods[i];
	return *ret->methods;
}

static bool meet_paths(const struct egress *x, const struct egress *y, struct arena *a,
		       struct egress *ret)
{
	if (*x->paths && *y->paths)
		ret->paths = meet_lists(x->paths, y->paths, a);
	else
		ret->paths = *x->paths ? x->paths : y->paths;
	return *ret->paths || !*x->paths || !*y->paths;
}

static bool place_contains(const struct egress *outer, const struct egress *inner)
{
	const struct capabilities o = { .egress = outer,
					.n_egress = 1,
					.credentials = nothing,
					.tools = nothing,
					.runtime_classes = nothing };
	struct capabilities i = o;

	i.egress = inner;
	return capabilities_contain(&o, &i, NULL, NULL);
}

static size_t add_place(struct egress *all, size_t n, const struct egress *e)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (place_contains(&all[i], e))
			return n;
	for (size_t i = 0; i < n; i++)
		if (!place_contains(e, &all[i]))
			all[kept++] = all[i];
	if (kept < CAPABILITY_MEET_MAX)
		all[kept++] = *e;
	return kept;
}

static void meet_egress(const struct capabilities *x, const struct capabilities *y, struct arena *a,
			struct capabilities *ret)
{
	struct egress *all = arena_new_n(a, struct egress, CAPABILITY_MEET_MAX);

	ret->egress = all;
	for (size_t i = 0; i < x->n_egress; i++)
		for (size_t j = 0; j < y->n_egress; j++) {
			const struct egress *p = &x->egress[i], *q = &y->egress[j];
			struct egress e = { .host = meet_hosts(p->host, q->host) };

			if (e.host && meet_ports(p, q, a, &e) && meet_methods(p, q, a, &e) &&
			    meet_paths(p, q, a, &e))
				ret->n_egress = add_place(all, ret->n_egress, &e);
		}
}

static int64_t meet_counts(int64_t x, int64_t y)
{
	if (x < 0 || y < 0)
		return MAX(x, y);
	return MIN(x, y);
}

void capabilities_meet(const struct capabilities *x, const struct capabilities *y, struct arena *a,
		       struct capabilities *ret)
{
	struct capabilities both = {
		.rights = x->rights & y->rights,
		.credentials = meet_lists(x->credentials, y->credentials, a),
		.tools = meet_lists(x->tools, y->tools, a),
		.runtime_classes = meet_lists(x->runtime_classes, y->runtime_classes, a),
		.max_sandboxes = meet_counts(x->max_sandboxes, y->max_sandboxes),
	};

	if (x->all_egress || y->all_egress) {
		const struct capabilities *named = x->all_egress ? y : x;

		both.egress = named->egress;
		both.n_egress = named->n_egress;
		both.all_egress = named->all_egress;
	} else {
		meet_egress(x, y, a, &both);
	}
	*ret = both;
}
