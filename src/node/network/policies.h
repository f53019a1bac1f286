/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/network/policy.h"

struct bytes;
struct client;
struct instance;
struct loop;
struct object;
struct service_plan;

/*
 * NetworkPolicies in force: follows them, Pods and namespaces, and has the packet filter loaded
 * when the rules are others than before. What of a policy has no effect is told by an Event. On the
 * loop's thread.
 */
struct policies;

struct policies_spec {
	struct loop *loop;
	struct client *client;
	const struct instance *instance;
	const char *node_name; /* outlives it */
	struct policy_may_open may_open;
	/* The rules are to change: see policies_rules(). Not called before the loop has turned. */
	void (*load)(void *arg, struct bytes *rules, unsigned number);
	unsigned (*in_force)(void *arg); /* the number of the rules that are */
	/* What policies open in a sandbox's own packet filter is to change: the sandboxes that the
	 * one at this address may reach, and those that may reach it, as "A-B,C". Not before the
	 * loop has turned either. */
	void (*peers)(void *arg, const char *ip, const char *out, const char *in);
	void (*peers_known)(void *arg); /* all were told */
	/* Pods that count although no object says so: those that Sandboxes without one would have
	 * at the addresses that are held for them. policies_held_changed() when they are others. */
	void (*held)(void *arg, void (*fn)(void *fn_arg, struct object *pod), void *fn_arg);
	void *arg;
};

struct policies *policies_new(const struct policies_spec *spec);
/* Borrowed, see struct firewall_rules. NULL: no policy changes anything. Until all objects are
 * known, nothing goes out of any sandbox. */
struct bytes *policies_rules(const struct policies *p);
unsigned policies_number(const struct policies *p); /* of these rules: it grows */
/* Whether no rules that are in force, or will be, say anything of the Pod that last had the address
 * with this place. */
bool policies_clear(const struct policies *p, unsigned place);
/* Whether the sandbox at this place may open a TCP connection to an address outside. */
bool policies_let_out(const struct policies *p, unsigned place, const struct ip *to, uint16_t port);
/* Through which addresses of Services sandboxes reach others; borrowed until the next call. */
void policies_set_services(struct policies *p, const struct service_plan *services);
void policies_held_changed(struct policies *p);
void policies_free(struct policies *p);
