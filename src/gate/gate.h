/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/cay/approval.h"
#include "api/cay/capability.h"
#include "api/cay/session.h"
#include "base/err.h"
#include "base/list.h"

struct access;
struct access_target;
struct arena;
struct audit;
struct buf;
struct client;
struct loop;
struct object;

/*
 * The gate: one decision about every way into a sandbox.
 *
 * Users who are no agents go by RBAC, which was asked before. An agent, the user
 * cay:agent:NAMESPACE:NAME, goes in by an Attachment of one of its sessions, with the rights that
 * the attachment has and that the agent and all of its parents still have; what its rules, and its
 * parents', say about the operation decides whether it goes on, is refused, or waits for a person.
 *
 * On the loop's thread. Objects are reached through client/ alone.
 */
struct gate;

struct gate_spec {
	struct loop *loop;
	struct client *client;
	struct access *access; /* whose ways in it guards; NULL: see gate_set_access() */
	struct audit *audit;   /* NULL: there is no record */
	/* Rights have changed: whatever was let in by gate_decide() alone must be asked about
	 * again. Not from within a callback of anything. May be NULL. */
	void (*changed)(void *arg);
	/* What sandboxes reach may be another thing now; later in the turn of the change. */
	void (*egress_changed)(void *arg);
	/* Whether a user who is no agent may enter the Pod at all, whatever way they came: what is
	 * Private. NULL: nobody says. */
	struct err *(*may_pass)(void *arg, const struct access_target *to);
	void *arg;
};
struct gate *gate_new(const struct gate_spec *spec);
void gate_set_access(struct gate *g, struct access *a); /* once: it can start before the node */
void gate_free(struct gate *g);                         /* before the client and the access */
AUTOPTR(gate)

/* What can be asked for. Each way into a sandbox is one of these; doors[] in doors.c has what it
 * takes. */
enum gate_door {
	GATE_EXEC,
	GATE_ATTACH,
	GATE_LOGS,
	GATE_PORT,    /* a connection */
	GATE_RUNTIME, /* a connection to a port behind which the runtime APIs run commands */
	GATE_READ,    /* a file or directory of the sandbox, through a tool */
	GATE_WRITE,
	GATE_TOOL,     /* one that enters no sandbox: it takes no attachment */
	GATE_IDENTITY, /* out of it: a token that says who acts there */
	GATE_DOOR_MAX_,
};
const char *gate_door_name(enum gate_door d);
enum gate_door gate_door_of_port(uint16_t port);

struct gate_ask {
	const char *user;
	const char *ns;
	const char *pod, *sandbox; /* either; the other NULL */
	enum gate_door door;
	const char *attachment; /* the uid of the only one that counts; NULL: any does */
	struct deed deed;
	bool loose; /* the path of the deed may lead elsewhere */
	bool begun; /* it goes on already: budgets end it only if they suspend */
};
struct gate_answer {
	enum verdict verdict;
	struct err *why;                /* of VERDICT_DENY; the caller's */
	const char *agent, *attachment; /* borrowed, until an object changes; NULL: no agent */
	const char *ns;                 /* of the agent, and of what it is asked about */
	const char *uid;                /* of the attachment */
	const char *session, *sandbox;
	enum attachment_viewpoint view;
};
/* ret->verdict is VERDICT_ASK where a person must be asked: gate_ask() is for those who wait. */
void gate_decide(struct gate *g, const struct gate_ask *ask, struct gate_answer *ret);

/*
 * Who acts in a sandbox: of a command that an attachment runs, the agent of its session; of all
 * else, the session or agent that the sandbox was made for, if it is attached to it now.
 */
struct gate_where {
	const char *ns, *sandbox;
	const char *attachment;      /* a uid; NULL: no attachment's */
	const char *session, *agent; /* that the sandbox was made for; NULL: none */
};
struct gate_actor {
	char *agent, *session, *user; /* "" where there is none */
	char *attachment;             /* its uid */
};
/* False: nobody does; of an attachment, that it is gone or its session has ended. */
bool gate_acts(struct gate *g, const struct gate_where *w, struct gate_actor *ret);
void gate_actor_done(struct gate_actor *a);

/*
 * The way out of a sandbox: what all agents that are attached to it may reach; while none is, what
 * the agent may that it was made for. Without an agent it is not limited here: NetworkPolicies
 * alone decide.
 */
struct gate_egress {
	bool limited;
	struct capabilities capabilities; /* if it is: the intersection over all of them */
};
/* Lists are in the arena, or borrowed until an object changes. */
void gate_egress(struct gate *g, const char *ns, const char *sandbox, struct arena *a,
		 struct gate_egress *ret);
/* The names of the agents that are attached to it, each once; ends with NULL. As above. */
const char *const *gate_agents_at(struct gate *g, const char *ns, const char *sandbox,
				  struct arena *a);
struct gate_way_out {
	const char *ns, *sandbox;
	const char *host; /* a name or an address */
	int port;
	const char *method, *path; /* NULL: not known, as of packets */
};
/* Capabilities, and what rules say about the host. ret->agent: whose rule asks for a person. */
void gate_decide_egress(struct gate *g, const struct gate_way_out *w, struct gate_answer *ret);

/* Whether a Pod that names this Sandbox as its owner is its own: the Sandbox must say so too. */
struct gate_pod {
	const char *ns, *sandbox, *uid; /* as the Pod's owner reference has them */
	const char *pod;
};
bool gate_tracks(struct gate *g, const struct gate_pod *p);

/* Whether any sandbox may be limited: a session goes on, or one was made for an agent. */
bool gate_limits_any(const struct gate *g);
/* Whether the Pod has a Sandbox, by its uid, that is neither being deleted nor about to be. */
bool gate_sandbox_stays(struct gate *g, const struct object *pod);
/* The Sandbox of a Pod, malloc'd; NULL: none. */
char *gate_sandbox_of(const struct object *pod);

/*
 * A name that a sandbox wants to look up, which is in one of the places that it may reach: what
 * rules say about the host. VERDICT_ASK: a person is asked, and whoever looks it up later finds the
 * answer. What was approved once is open to this sandbox for GATE_OPENING_S.
 */
enum {
	GATE_OPENING_S = 600,
	GATE_EGRESS_QUESTIONS_MAX = 16, /* of one sandbox, open at a time */
};
struct gate_lookup {
	/* Once, maybe from within gate_lookup(). */
	void (*decided)(struct gate_lookup *l, enum verdict v);
	struct list on;
	char *ns, *sandbox, *host;
	struct gate *gate;
};
void gate_lookup(struct gate *g, const struct gate_way_out *w, struct gate_lookup *l);
/* After gate_lookup(), once: it is decided, or is not to be any more. */
void gate_lookup_done(struct gate_lookup *l);
bool gate_lookup_stands(struct gate *g, const struct gate_way_out *w); /* without asking */
/* Is recorded, as far as one sandbox may fill the record. */
void gate_refused(struct gate *g, const struct gate_way_out *w);

/*
 * What an agent may do through the API because of its attachments, without a role: enter the Pods
 * that it is attached to, and look at them.
 */
enum gate_word {
	GATE_SILENT, /* it is no agent, or not about a sandbox: others decide */
	GATE_YES,
	GATE_NO,
};
/* A subresource that only these acts have: files of a Pod, to "get" and to "create". */
#define GATE_FILES "files"
struct gate_act {
	const char *verb, *group, *plural, *ns, *name, *sub; /* "" where there is none */
};
enum gate_word gate_may(struct gate *g, const char *user, const struct gate_act *act,
			struct err **ret_why);
bool gate_is_agent(const char *user);

/*
 * Tools of MCP. All of these are about agents; others are let through, and attached to nothing.
 */
struct access_ask;
struct access_question;
/* ERR_FORBIDDEN: what is left of the agent's capabilities does not name this tool. */
must_use struct err *gate_may_use(struct gate *g, const char *user, const char *tool);
/* Whether it has a live attachment to this Sandbox. */
bool gate_attached(struct gate *g, const char *user, const char *ns, const char *sandbox);
/* Each Sandbox once. */
void gate_each_attached(struct gate *g, const char *user, const char *ns,
			void (*fn)(void *arg, const char *sandbox), void *arg);
/* Whether this deed is decided by its path, or shown to somebody who decides: then the path must
 * be the real one. */
bool gate_minds_path(struct gate *g, const char *user, const char *ns, const struct deed *d);
/* What the policy of client/access.h does, for a tool that enters no sandbox. */
void gate_ask(struct gate *g, const struct access_ask *ask, struct access_question *q);
void gate_cancel(struct gate *g, struct access_question *q);
void gate_metrics(const struct gate *g, struct buf *b); /* lines of /metrics */
