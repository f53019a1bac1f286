/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct audit;
struct client;
struct loop;
struct router_caller;

/*
 * Node ports: on the loopback addresses of this machine, and on no others, the TCP ports that
 * Services of type NodePort and LoadBalancer have, each leading to a Pod that is ready. A caller
 * cannot show a token there, so enter() decides by who has connected.
 */
struct node_ports;
struct node_ports_spec {
	const char *node_name; /* in Events; outlives it */
	uint32_t mark;         /* of the packets to sandboxes (SO_MARK); 0: none */
	/*
	 * Of both, a namespace may have as many as are still free: one takes half at most, and
	 * leaves something to the next.
	 */
	size_t max_conns;      /* 0: 1024; each needs a second one to a sandbox */
	size_t max_ports;      /* 0: 256 */
	unsigned connect_ms;   /* how long connecting to a Pod may take; 0: 10 s */
	unsigned half_open_ms; /* see pump_set_half_open_ms(); 0: 60 s */
	bool has_group;        /* as in struct router_spec */
	gid_t group;
	struct audit *audit; /* the record of who went in; NULL: none */
	bool (*enter)(void *arg, const struct router_caller *caller); /* NULL: everybody may */
	void *arg;
};
must_use struct err *node_ports_start(struct loop *l, struct client *c,
				      const struct node_ports_spec *spec, struct node_ports **ret);
void node_ports_free(struct node_ports *n); /* cuts all connections */
AUTOPTR(node_ports)
struct node_ports_stats {
	uint64_t accepted, refused; /* refused: by enter(), or because no Pod is ready or answers */
	size_t ports, conns;
};
void node_ports_stats(const struct node_ports *n, struct node_ports_stats *ret);
