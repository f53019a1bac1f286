/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/network/policy.h"

struct arena;
struct json;
struct json_doc;
struct map;

/* policy_match.c: the addresses of an ipBlock, added to ret. False: it cannot be read. */
struct policy_ranges {
	struct policy_range *list;
	size_t n, cap;
};
bool policy_block(struct policy_ranges *ret, struct arena *a, const struct json *block);
void policy_ranges_add(struct policy_ranges *r, struct arena *a, const struct ip *from,
		       const struct ip *to);
void policy_ranges_add_all(struct policy_ranges *r, struct arena *a); /* of both families */
void policy_ranges_merge(struct policy_ranges *r); /* in order, apart from each other */
bool policy_ranges_hold(const struct policy_range *list, size_t n, const struct ip *from,
			const struct ip *to);

/* policy_open.c: whether a block has a public address. */
bool policy_has_public(const struct ip *from, const struct ip *to);
bool policy_may_open(const struct policy_may_open *m, const struct ip *a);
bool policy_may_open_part(const struct policy_may_open *m, const struct policy_range *r);
/* The private addresses that a group of policies opens, added to ret. */
void policy_opened(struct policy_ranges *ret, struct arena *a, const struct policy_may_open *m,
		   const struct policy_group *g);

/* policy.c: while a plan is made. */
struct policy_compile {
	struct arena *a;
	const struct policy_world *w;
	struct map *namespaces; /* name → labels */
	struct json_doc *doc;   /* for the labels of stand-ins */
	bool looks;             /* what comes in depends on which Pods there are */
	struct policy *p;
	struct ip gateway[2];
};
const struct json *policy_labels_of(struct policy_compile *c, const char *ns);
/* Without the fields of its ports that are names. False: it matches nothing. */
bool policy_port(const struct json *port, struct policy_ports *ret);
uint8_t policy_protocol(const struct json *port); /* 0: one that is not known */
/* Only the first one stays. */
void policy_notice(struct policy_compile *c, enum policy_direction d, size_t rule,
		   const char *what);

size_t policy_cost(const struct policy *p); /* its rules and addresses */
void policy_shut(struct policy *p, const char *notice);

/* policy_limits.c: shuts what is too much for a namespace. */
enum {
	POLICY_NUMBER_MAX = 256, /* that select Pods, of a namespace */
};
struct policy_limit {
	size_t (*cost)(const struct policy *p);
	size_t total; /* of all namespaces */
	const char *notice;
};
void policy_limit_number(struct policy_compile *c, struct policy_plan *plan);
void policy_limit_cost(struct policy_compile *c, struct policy_plan *plan,
		       const struct policy_limit *l);

/* policy_pods.c: finds the Pods, their groups, and who is at the other end. */
void policy_match_pods(struct policy_compile *c, struct policy_plan *plan);
/* NULL: none that is known. */
const struct policy_pod *policy_pod_at(const struct policy_plan *p, unsigned place);
bool policy_pods_have(const struct policy_pods *l, size_t pod);

/* policy_numbers.c: a number for a key; what no plan asked for since the last one is forgotten. */
unsigned policy_number(struct policy_numbers *n, const char *key);
void policy_numbers_turn(struct policy_numbers *n);
