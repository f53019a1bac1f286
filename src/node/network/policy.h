/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ip.h"

struct arena;
struct buf;
struct instance;
struct json;
struct object;

/*
 * NetworkPolicies as rules for packets: a pure function of objects.
 *
 * A Pod that no policy selects for a direction has the secure default: out to public addresses and
 * the name server, in from the daemon alone. For one that is selected, the union of what its
 * policies allow takes the place of the default. Between two sandboxes both sides have to allow a
 * packet, so both need a policy. Addresses outside are never those of sandboxes, whatever block
 * they are in. Of private networks policies open only those that the operator lets them; what else
 * the packet filter keeps from every sandbox is not mentioned here.
 */
enum policy_direction {
	POLICY_OUT,
	POLICY_IN,
	POLICY_DIRECTION_MAX_,
};

struct policy_range {
	struct ip from, to; /* of one family, both included */
};
/* Private networks that policies may open: the operator says which. */
enum {
	POLICY_MAY_OPEN_MAX = 64,
};
struct policy_may_open {
	struct policy_range list[POLICY_MAY_OPEN_MAX];
	size_t n;
};
/* "10.20.0.0/16,fd12::/32"; NULL or nothing: none. ERR_INVALID, also for networks that are never
 * opened. */
must_use struct err *policy_may_open_read(const char *text, struct policy_may_open *ret);

struct policy_ports {
	uint8_t protocol;
	uint16_t from, to; /* both included */
};
/* What goes out to addresses that are not sandboxes. */
struct policy_rule {
	struct policy_range *ranges; /* in order, apart from each other */
	size_t n_ranges;
	struct policy_ports *ports; /* NULL: any port of any protocol */
	size_t n_ports;
};
struct policy_pods {
	bool all;
	size_t *list; /* places in policy_plan.pods, in order */
	size_t n;
};
/* A port that was given by its name: what that means differs from Pod to Pod. */
struct policy_named {
	struct policy_ports port;
	struct policy_pods at; /* who listens there under this name */
};
/* What passes between sandboxes. */
struct policy_pass {
	const struct json *rule;  /* borrowed */
	size_t index;             /* of it, in its list */
	struct policy_pods peers; /* at the other end: they receive what goes out, or send */
	bool any_port;            /* of any protocol; otherwise these */
	struct policy_ports *ports;
	size_t n_ports;
	struct policy_named *named;
	size_t n_named;
};
struct policy_side {
	bool decides; /* for this direction, about the Pods that the policy selects */
	struct policy_pass *passes;
	size_t n_passes;
	struct policy *next; /* of the same namespace, that decides too */
};
struct policy {
	const struct object *object; /* borrowed */
	unsigned number;             /* its own for as long as it is there */
	bool narrows;                /* less goes out than without it */
	struct policy_rule *rules;
	size_t n_rules;
	struct policy_side side[POLICY_DIRECTION_MAX_];
	const char *notice; /* what of it has no effect here, or why all is shut; NULL: nothing */
	bool unenforceable; /* it is too large, or one too many: nothing passes by it */
	bool selects;       /* a Pod of this node; if none, it makes no rules */
	size_t pod_cost;    /* Pods at the other end, in all of its rules */
};
enum {
	POLICY_NO_GROUP = -1,
};
struct policy_pod {
	const struct object *object; /* borrowed */
	unsigned place;              /* in the address pool of the instance */
	bool free;                   /* what goes out to addresses outside is as without policies */
	long group[POLICY_DIRECTION_MAX_]; /* POLICY_NO_GROUP: no policy selects it */
};
struct policy_group { /* of policies that select the same Pods */
	unsigned number;
	bool narrows;                /* what goes out to public addresses is less than without it */
	struct policy_range *opened; /* private addresses, in order */
	size_t n_opened;
	struct policy **policies;
	size_t n;
};
struct policy_groups {
	struct policy_group *list;
	size_t n;
};
struct policy_plan {
	const struct instance *instance; /* borrowed */
	struct policy *policies;
	size_t n_policies;
	const struct policy_may_open *may_open; /* borrowed */
	bool narrows;                           /* any of them does */
	bool opens_blocks;                      /* any of them opens private addresses */
	bool opens; /* policies of both directions found sandboxes at the other end */
	bool looks; /* what Pods there are makes a difference; otherwise the rest is empty */
	struct policy_groups groups[POLICY_DIRECTION_MAX_];
	/* In the order of places. An address that is not here belongs to nobody that we know:
	 * nothing goes out from it, and nothing in. */
	struct policy_pod *pods;
	size_t n_pods;
};

/* Numbers for policies and groups that stay the same from one plan to the next. */
struct policy_numbers;
struct policy_numbers *policy_numbers_new(void);
void policy_numbers_free(struct policy_numbers *n);

/* All that the node knows of; borrowed. Pods without an address, those that are over and those of
 * other nodes do not count. */
struct policy_world {
	struct object *const *policies, *const *pods, *const *namespaces;
	size_t n_policies, n_pods, n_namespaces;
	const char *node;
	const struct instance *instance; /* its gateway is the name server */
	const struct policy_may_open *may_open;
	struct policy_numbers *numbers;
};

struct policy_plan *policy_plan_new(struct arena *a, const struct policy_world *w);
/* The rules in the language of nft; nothing if the plan neither narrows nor opens anything. */
void policy_text(const struct policy_plan *p, struct buf *out);
/* The sandboxes at the other end of what a group lets pass, and the private addresses that it
 * opens, as "A-B,C,…". */
void policy_peers(const struct policy_plan *p, enum policy_direction d, long group,
		  struct buf *out);
/* Whether what a group lets pass may have the sandbox with this place at its other end. */
bool policy_reaches(const struct policy_plan *p, enum policy_direction d, long group,
		    unsigned place);
/* Whether the sandbox at this place may open a TCP connection to an address outside. Good for as
 * long as the arena of the plan, whatever became of the objects. */
bool policy_lets_out(const struct policy_plan *p, unsigned place, const struct ip *to,
		     uint16_t port);
/* Whether the Pod counts, and its address. */
bool policy_pod_ip(const struct object *pod, struct ip *ret);
