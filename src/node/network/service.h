/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ip.h"

struct arena;
struct buf;
struct bytes;
struct instance;
struct object;
struct policy_plan;

/*
 * The addresses of Services as rules for packets: a pure function of objects. A connection that a
 * sandbox opens to one is led to a Pod behind it, before anything is asked about whether it may
 * pass: that is about the Pod, not about the Service.
 */
struct service_end {
	struct ip ip;
	uint16_t port;
	unsigned place; /* in the address pool of the instance */
};
/* A port of a Service at one of its addresses. */
struct service_port {
	struct ip ip;
	uint8_t protocol;
	uint16_t port;
	bool sticky;              /* a sandbox stays with its Pod while the Pods stay the same */
	struct service_end *ends; /* that are ready */
	size_t n_ends;
	unsigned *places; /* of Pods behind it, ready or not */
	size_t n_places;
};
struct service_plan {
	struct service_port *ports; /* in the order of the objects */
	size_t n_ports;
	size_t left_out; /* ports and Pods beyond what we have rules for */
};

/* Borrowed. */
struct service_world {
	struct object *const *services, *const *slices, *const *pods;
	size_t n_services, n_slices, n_pods;
	const struct instance *instance;
};

enum {
	SERVICE_PORTS_MAX = 2048, /* for which there are rules */
	SERVICE_ENDS_MAX = 64,    /* Pods of one of them */
};

struct service_plan *service_plan_new(struct arena *a, const struct service_world *w);
/* The rules in the language of nft; nothing if there are none. host: for what programs of the host
 * send, too. */
void service_text(const struct service_plan *p, bool host, struct buf *out);
/* The ways that datagrams take by these rules, for conntrack_keep(); NULL: there are none. A new
 * reference. */
struct bytes *service_ways(const struct service_plan *p);
/* Adds the addresses of Services through which Pods of a group reach others to what policy_peers()
 * has listed of those: "…,A,B". */
void service_peers(const struct service_plan *s, const struct policy_plan *p, long group,
		   struct buf *out);
/* By place: the addresses of Services that a Pod is behind, as "A,B"; NULL: it is behind none. It
 * reaches itself through them, as somebody at the stand-in's addresses. In the arena. */
char **service_own(const struct service_plan *s, struct arena *a);
