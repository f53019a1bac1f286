/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/agent.h"
#include "base/list.h"
#include "client/access.h"
#include "client/client.h"
#include "gate/gate.h"
#include "loop/loop.h"

struct map;

enum gate_watch {
	WATCH_AGENTS,
	WATCH_SESSIONS,
	WATCH_ATTACHMENTS,
	WATCH_APPROVALS,
	WATCH_POLICIES,
	WATCH_PODS,
	WATCH_MAX_,
};

struct gate {
	struct loop *loop;
	struct client *client;
	struct access *access;
	const struct kind *agent, *session, *attachment, *approval, *policy, *pod;
	struct client_watch *watches[WATCH_MAX_];
	struct map *attachments; /* "NS/SANDBOX" → struct map of name → struct object */
	struct map *approvals;   /* "NS/AGENT/DIGEST" → the same */
	struct map *standings;   /* "NS/AGENT" → struct standing; forgotten when any agent or policy
				    changes */
	struct list questions;   /* struct question */
	struct deferred changed; /* something that questions or open sessions depend on */
	bool rights_changed;
	struct map *reseen; /* uids of attachments whose view has changed */
	unsigned synced;    /* watches that have told of all there is, as a set */
	size_t n_questions;
};

/*
 * What an agent may do with all that limits it: the chain of its parents and its team's policy.
 */
struct standing {
	struct arena *arena;
	struct capabilities capabilities;
	struct object *chain[AGENT_PARENTS_MAX + 1]; /* itself first */
	size_t n_chain;
	bool broken;           /* a parent is missing, or there are too many */
	enum verdict at_least; /* the policy's default */
};
/* NULL: there is no such agent. Borrowed, until an agent or policy changes. */
const struct standing *standing_of(struct gate *g, const char *ns, const char *agent);
void standings_forget(struct gate *g);
/* What the rules of all in the chain say; the strictest counts. */
enum verdict standing_judges(const struct standing *s, const struct deed *d);

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
enum access_view gate_view(enum attachment_viewpoint v);

/* doors.c */
struct door {
	const char *name;
	unsigned rights;  /* all of them are needed */
	bool shared_only; /* it shows the sandbox itself: other views do not lead there */
};
extern const struct door doors[GATE_DOOR_MAX_];
enum gate_door door_of(const struct access_ask *ask);

/* questions.c */
void question_ask(struct gate *g, const struct access_ask *ask, const struct gate_answer *a,
		  struct access_question *q);
void question_cancel(struct gate *g, struct access_question *q);
void questions_look(struct gate *g);
void questions_free(struct gate *g);
