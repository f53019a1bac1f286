/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "router/node_ports/node_ports.h"

struct callers;
struct client_watch;
struct map;
struct timer;
struct watch;

/* What node_ports.c, which has the ports, shares with conns.c. */
enum {
	NODE_PORT_DOORS = 2, /* one for each family */
	NODE_PORT_WATCHES = 3,
};

struct node_ports {
	struct loop *loop;
	struct client *client;
	struct node_ports_spec spec;
	struct callers *callers;
	struct client_watch *watch[NODE_PORT_WATCHES];
	struct map *unserved; /* uids of Services that were told of a port that is not TCP */
	struct map *crowded;  /* uids of Services that were told that there is no room */
	struct map *shares;   /* namespace → struct share, owned */
	struct map *ports;    /* number → struct node_port, owned */
	struct list waiting, passing; /* struct passage.link */
	struct timer *refresh, *rest;
	struct node_ports_stats stats;
	uint64_t round;      /* of looks at the Services */
	usec forbidden_at;   /* when a caller who may not go in was recorded last */
	uint64_t unrecorded; /* such callers since then */
};

/* What a namespace has. It lives as long as it has ports. */
struct share {
	size_t n_ports, n_conns;
};

struct door {
	struct node_port *port;
	int fd;
	struct watch *watch;
};

struct node_port {
	struct node_ports *all;
	struct share *share;
	unsigned number;
	char *ns, *service, *name, *uid; /* of the Service's port; name "" for one without */
	int64_t sticky_s;                /* a client stays with its Pod so long; 0: it does not */
	struct door doors[NODE_PORT_DOORS];
	struct map *clients; /* address → struct sticky, owned */
	bool open, told;
	uint64_t round; /* of the look that found it last */
};

/* conns.c: for the watch of a door. */
void node_port_accept(void *arg, unsigned ready);
void node_port_cut(struct node_port *p); /* all of its connections */
void node_ports_learned(void *arg);      /* one more caller is known */
void node_ports_rested(void *arg);
/* The only place that decides what is polled for: a full house accepts nobody. */
void node_ports_poll(struct node_ports *n);

/* pick.c: where a connection to a node port goes. */
struct pick_from {
	struct client *client;
	const char *ns, *service;
	const char *port; /* its name, "" for one without */
	const char *keep; /* "ADDRESS:PORT" that is taken if it is among them; NULL: any will do */
};
struct picked {
	char addr[64]; /* "ADDRESS:PORT" */
	char pod[256]; /* its name */
};
/* Any of the Pods that are ready. False: there is none. */
bool node_port_pick(const struct pick_from *from, struct picked *ret);
