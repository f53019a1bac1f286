/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/agent.h"
#include "base/list.h"
#include "client/access.h"
#include "client/client.h"
#include "crypto/crypto.h"
#include "gate/gate.h"
#include "loop/loop.h"

struct audit;
struct json;
struct map;
struct sha256;

enum gate_watch {
	WATCH_AGENTS,
	WATCH_SESSIONS,
	WATCH_ATTACHMENTS,
	WATCH_APPROVALS,
	WATCH_POLICIES,
	WATCH_PODS,
	WATCH_BUDGETS,
	WATCH_SANDBOXES,
	WATCH_CLAIMS,
	WATCH_MAX_,
};

struct gate {
	struct loop *loop;
	struct client *client;
	struct access *access;
	void (*changed_fn)(void *arg);
	void *arg; /* of both calls */
	const struct kind *agent, *session, *attachment, *approval, *policy, *pod, *budget;
	struct client_watch *watches[WATCH_MAX_];
	struct map *attachments; /* "NS/SANDBOX" → struct map of name → struct object */
	struct map *by_agent;    /* "NS/SANDBOX/AGENT", as their status has it → the same; only a
				    way to find them: the session says whose they are */
	struct map *by_uid;      /* of attachments → struct object */
	struct map *approvals;   /* "NS/AGENT/DIGEST" → the same */
	struct map *standings;   /* "NS/AGENT" → struct standing; forgotten when any agent or policy
				    changes */
	struct list questions;   /* struct question */
	struct deferred changed; /* something that questions or open sessions depend on */
	bool rights_changed;
	struct err *(*may_pass)(void *arg, const struct access_target *to);
	struct map *reseen; /* uids of attachments whose view has changed */
	unsigned synced;    /* watches that have told of all there is, as a set */
	size_t n_questions;
	/* The way out */
	struct audit *audit;
	const struct kind *sandbox, *claim, *event;
	void (*egress_changed)(void *arg);
	bool egress_differs;
	size_t n_sessions;    /* that go on */
	size_t n_labelled;    /* sandboxes and claims that were made for an agent */
	struct map *openings; /* "NS/AGENT/DIGEST" → struct opening: hosts that were approved */
	struct map *asked;    /* "NS/SANDBOX" → size_t: questions that are open */
	struct map *records;  /* "NS/SANDBOX" → struct recorded */
	struct timer *opening_end;
};

/*
 * What an agent may do with all that limits it: the chain of its parents and its team's policy.
 */
struct standing {
	struct arena *arena;
	struct capabilities capabilities;
	struct object *chain[AGENT_PARENTS_MAX + 1]; /* itself first */
	size_t n_chain;
	bool broken;                                /* a parent is missing, or there are too many */
	enum verdict at_least;                      /* the policy's default */
	const char *budgets[AGENT_PARENTS_MAX + 2]; /* names; those of the chain and the policy */
	size_t n_budgets;
};
/* NULL: there is no such agent. Borrowed, until an agent or policy changes. */
const struct standing *standing_of(struct gate *g, const char *ns, const char *agent);
void standings_forget(struct gate *g);
/* What the rules of all in the chain say; the strictest counts. */
enum verdict standing_judges(const struct standing *s, const struct deed *d);
/* Whether its path decides about this deed, or is shown to somebody who does. */
bool standing_minds_path(const struct standing *s, const struct deed *d);
/* Whether any rule of the chain asks about or denies a command, a path or a tool. */
bool standing_looks(const struct standing *s);
bool standing_has_tool(const struct standing *s, const char *tool);

/* budget.c */
void standing_pays(struct standing *s, const char *budget); /* "": none */
bool budget_suspends(const struct object *o); /* what runs under it; NULL: it does not */
/* Whether what such an agent has begun ends, for want of a budget. */
bool standing_is_suspended(struct gate *g, const char *ns, const struct standing *s);
/* Why the agent may not begin this, or go on with it, for want of a budget; NULL: it may. */
struct err *standing_refuses(struct gate *g, const struct gate_ask *ask, const char *ns,
			     const struct standing *s);

/* decide.c */
struct agent_name {
	char *ns, *name;
};
bool agent_name_read(const char *user, struct agent_name *ret); /* false: no agent */
void agent_name_done(struct agent_name *n);
/* What somebody was let in by, and what for. */
struct gate_permit {
	const char *attachment, *uid;
	enum attachment_viewpoint view;
};
/* Whether this attachment still grants what it takes to go through a door, and shows the same. */
bool gate_grants(struct gate *g, const struct gate_ask *ask, const struct gate_permit *p);
/* NULL, or why nothing is allowed to an agent with this standing (NULL: there is none). */
struct err *agent_missing(const char *agent, const char *ns, const struct standing *s);
struct err *tool_missing(const char *agent, const char *tool);
/* By any live attachment, whatever its rights. */
bool agent_attached(struct gate *g, const char *ns, const char *sandbox, const char *agent);
enum access_view gate_view(enum attachment_viewpoint v);
/* By when they were made, then by name. than NULL: it is older than nothing. */
bool attachment_older(const struct object *o, const struct object *than);

/* doors.c */
struct door {
	const char *name;
	unsigned rights;  /* all of them are needed */
	bool shared_only; /* it shows the sandbox itself: other views do not lead there */
};
extern const struct door doors[GATE_DOOR_MAX_];
enum gate_door door_of(const struct access_ask *ask);
bool tool_begins(const char *tool); /* something new, which a budget may have no room for */

/* approvals.c */
struct approval_of {
	const char *ns, *agent, *digest;
};
/* One that is decided and not used, or one that is open; NULL: it has to be asked. Borrowed. */
const struct object *approval_find(const struct gate *g, const struct approval_of *of, usec now);
void approval_mark_used(struct gate *g, const struct object *approval, struct client_write *w);
/* "Always": one more rule of the agent, before all others, where anybody can see and remove it. */
void approval_add_rule(struct gate *g, const struct approval_of *of, const struct json *rule,
		       struct client_write *w);

/* digest.c */
void digest_add(struct sha256 *h, const char *name, const char *text); /* text NULL: "" */
/* Of what an exec will read; "terminal" or "open" where nobody knows. */
void digest_of_input(const struct access_ask *ask, char ret[DIGEST_TEXT_LEN]);
char *digest_of_operation(const struct access_ask *ask, const struct gate_answer *a); /* malloc'd */

/* egress.c */
struct limiter {
	const char *agent;
	const struct object
		*attachment; /* NULL: by the label of the sandbox, which was made for it */
};
/* Those whom a sandbox is limited by, borrowed like the answer of a decision, until fn is false. */
void each_limiter(struct gate *g, const char *ns, const char *sandbox,
		  bool (*fn)(void *arg, const struct limiter *l), void *arg);

/* lookups.c: names that sandboxes ask for */
void lookups_init(struct gate *g);
void lookups_free(struct gate *g);
void lookups_count(struct gate *g, struct object *was, struct object *now); /* an Approval */

/* record.c */
struct map *records_new(void);
void records_forget(struct gate *g, const struct object *sandbox);
/* why: NULL: there is nothing to say. */
void way_out_record(struct gate *g, const struct gate_way_out *w, enum verdict v, const char *why);

/* questions.c */
void question_ask(struct gate *g, const struct access_ask *ask, const struct gate_answer *a,
		  struct access_question *q);
void question_cancel(struct gate *g, struct access_question *q);
void questions_look(struct gate *g);
void questions_free(struct gate *g);
