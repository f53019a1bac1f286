/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct object;

/*
 * NetworkPolicies as rules for packets: a pure function of objects.
 *
 * A policy narrows what goes out anyway and opens nothing: what the packet filter keeps from every
 * sandbox is not mentioned here. Nobody but the daemon comes in, whatever a policy says.
 */
struct policy_range {
	uint32_t from, to; /* addresses in the host's byte order, both included */
};
struct policy_ports {
	uint8_t protocol;
	uint16_t from, to; /* both included */
};
struct policy_rule {
	struct policy_range *ranges; /* in order, apart from each other */
	size_t n_ranges;
	struct policy_ports *ports; /* NULL: any port of any protocol */
	size_t n_ports;
};
struct policy {
	const struct object *object; /* borrowed */
	bool egress;                 /* it decides what goes out of the Pods that it selects */
	bool narrows;                /* and that is less than what would go out without it */
	struct policy_rule *rules;
	size_t n_rules;
	const char *notice;  /* what of it has no effect here, or why all is shut; NULL: nothing */
	bool unenforceable;  /* it is too large: nothing goes out of the Pods that it selects */
	struct policy *next; /* of the same namespace */
};
struct policy_pod {
	uint32_t addr; /* in the host's byte order */
	bool free;     /* as without policies */
	size_t group;
};
struct policy_group { /* of policies that select the same Pods */
	struct policy **policies;
	size_t n;
};
struct policy_plan {
	struct policy *policies;
	size_t n_policies;
	bool narrows; /* any of them does; otherwise the rest is empty */
	struct policy_group *groups;
	size_t n_groups;
	/* In the order of addresses. An address that is not here belongs to nobody that we know,
	 * and nothing goes out from it. */
	struct policy_pod *pods;
	size_t n_pods;
};

/* All that the node knows of; borrowed. Pods without an address, those that are over and those of
 * other nodes do not count. */
struct policy_world {
	struct object *const *policies, *const *pods, *const *namespaces;
	size_t n_policies, n_pods, n_namespaces;
	const char *node;
	uint32_t gateway; /* the address of the name server, in the host's byte order */
};

struct policy_packet {
	uint32_t from, to;
	uint8_t protocol;
	uint16_t port;
};

struct policy_plan *policy_plan_new(struct arena *a, const struct policy_world *w);
/* Whether the packet goes out, as far as policies are asked. */
bool policy_allows(const struct policy_plan *p, const struct policy_packet *packet);
/* The rules in the language of nft; nothing if no policy narrows anything. */
void policy_text(const struct policy_plan *p, struct buf *out);
/* Whether the Pod counts, and its address. */
bool policy_pod_addr(const struct object *pod, uint32_t *ret);
