/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "role/descriptors_priv.h"
#include "role/machine_priv.h"
#include "role/notify_priv.h"

struct access;
struct access_target;
struct client;
struct control;
struct ed25519;
struct front;
struct gate;
struct hooks;
struct kind;
struct kinds;
struct loop;
struct mcp;
struct node;
struct outlet;
struct oversight;
struct page;
struct reach_judge;
struct router;
struct server;
struct settings;
struct signal_watch;
struct tracing;
struct workload;
struct trim;

/*
 * One running `cay serve`, in the order in which its parts are started; they are stopped in
 * reverse.
 */
struct serve {
	const struct settings *settings;
	struct notify notify;
	char *launcher, *init, *node_name;
	struct loop *loop;
	struct kinds *kinds;
	struct server *server;
	struct client *node_client, *control_client, *router_client, *mcp_client, *gate_client,
		*hooks_client, *outlet_client, *oversight_client;
	struct node *node;
	struct control *control;
	struct gate *gate;
	struct router *router;
	struct node_ports *node_ports;
	struct front *front;
	struct mcp *mcp;
	struct hooks *hooks;
	struct workload *workload;
	char *issuer;          /* of the tokens of sandboxes; NULL: not known yet */
	struct outlet *outlet; /* NULL: it is off */
	struct page *page;     /* NULL: it is off */
	struct audit *audit;   /* NULL: there is no record */
	char *audit_path;
	struct ed25519 *audit_key;
	unsigned char audit_public[32]; /* ED25519_KEY_LEN */
	struct oversight *oversight;
	struct tracing *tracing; /* NULL: nobody wants spans */
	struct trim *trim;
	const struct kind *sandboxes, *pods;
	struct list tunnels; /* struct tunnel.on */
	uint64_t next_ticket;
	int give_up_fd; /* early.c */
	struct signal_watch *term, *intr, *usr1;
	struct machine machine;
	bool stopping;    /* somebody asked for it */
	bool groups_lost; /* the scope that sandboxes were in has ended */
	struct budget budget;
};

/* gate.c: agents, and what they may enter */
void serve_start_gate(struct serve *s);
void serve_connect_gate(struct serve *s); /* once there is a node */
struct reach_judge serve_judge(struct serve *s);
void serve_stop_gate(struct serve *s);

/* programs.c: the programs and the name that the settings do not have to say */
/* Those that were installed with this one; NULL: there is none. malloc'd. */
void programs_look(char **ret_launcher, char **ret_init);
must_use struct err *serve_find_programs(struct serve *s);
must_use struct err *serve_find_node_name(struct serve *s);

/* entrance.c: the router, and who may use it */
must_use struct err *serve_start_router(struct serve *s);
/* Whether a signed URL for a port of the sandbox gives the user nothing that they do not have. */
must_use struct err *serve_may_have_url(struct serve *s, const struct access_target *who,
					const char *ns, const char *sandbox);
void serve_review_router(struct serve *s); /* ends what agents are no longer let in for */

/* mcp.c: tools for programs that drive language models */
void serve_start_mcp(struct serve *s);
void serve_stop_mcp(struct serve *s);

/* hooks.c: events that start sessions */
void serve_start_hooks(struct serve *s);
void serve_stop_hooks(struct serve *s);
void serve_hooks_metrics(const struct serve *s, struct buf *b);

/* identity.c: who sandboxes are */
must_use struct err *serve_start_identity(struct serve *s);
void serve_stop_identity(struct serve *s);
void serve_identity_metrics(const struct serve *s, struct buf *b);

/* outlet.c: requests of sandboxes to the world, with credentials */
bool serve_wants_outlet(const struct serve *s);
must_use struct err *serve_start_outlet(struct serve *s);
void serve_stop_outlet(struct serve *s);
void serve_outlet_metrics(const struct serve *s, struct buf *b);

/* oversight.c: the audit log and the overview, for pages */
void serve_start_oversight(struct serve *s);
void serve_stop_oversight(struct serve *s);
/* page.c: the web page */
void serve_start_page(struct serve *s);
void serve_stop_page(struct serve *s);

/* ways.c: how the router may be addressed, from the settings. Freed by ways_done(). */
struct router_spec;
struct ways {
	char *domain, *prefix, *scoped_secret, *key;
	char **hosts; /* NULL-terminated */
};
must_use struct err *ways_read(const struct serve *s, struct ways *ret, struct router_spec *spec);
void ways_done(struct ways *w);

/* tunnel.c: forwarded ports of the Pod that stands for the router */
void serve_open_door(struct serve *s, struct access *a);
/* Who has the ticket. False: the tunnel has ended. */
bool serve_find_ticket(struct serve *s, uint64_t ticket, struct access_target *ret);
