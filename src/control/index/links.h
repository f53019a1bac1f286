/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct map;
struct object;

/*
 * The objects of cay.dev, and the claims made for them, by what they name. Watch events keep the
 * links current, as they do the index.
 */
enum link {
	LINK_CHILDREN,            /* Agents, by their parent */
	LINK_POOL_AGENTS,         /* Agents, by their pool */
	LINK_AGENT_SESSIONS,      /* Sessions, by their agent */
	LINK_SANDBOX_SESSIONS,    /* Sessions, by the Sandbox that their spec names */
	LINK_SESSION_ATTACHMENTS, /* Attachments, by their session */
	LINK_SANDBOX_ATTACHMENTS, /* Attachments, by their Sandbox */
	LINK_AGENT_CLAIMS,        /* SandboxClaims, by the label of their agent */
	LINK_SHARED_CLAIMS,       /* SandboxClaims that a team shares, by their pool */
	LINK_LABEL_AGENTS,        /* Agents, by the label that stands for them */
	LINK_LABEL_SESSIONS,      /* Sessions, likewise */
	LINK_OPEN_APPROVALS,      /* Approvals that nobody has decided, all under "" */
	LINK_MAX_,
};

struct links;
struct links *links_new(void);
void links_free(struct links *l);

/* Either may be NULL, as in a watch event. */
void links_agent(struct links *l, struct object *was, struct object *now);
void links_session(struct links *l, struct object *was, struct object *now);
void links_attachment(struct links *l, struct object *was, struct object *now);
void links_claim(struct links *l, struct object *was, struct object *now);
void links_approval(struct links *l, struct object *was, struct object *now);

/* name → struct object, borrowed; NULL when there is none. No writes while walking them. */
const struct map *links_of(const struct links *l, enum link which, const char *ns,
			   const char *name);
size_t links_count(const struct links *l, enum link which, const char *ns, const char *name);

/* There are neither sessions nor attachments: nobody to wake. */
bool links_idle(const struct links *l);

/* The value of a label that stands for an object: its name, or as much of it as fits and a hash. */
enum {
	LINK_LABEL_MAX = 64,
};
void link_label(const char *name, char ret[LINK_LABEL_MAX]);
bool link_label_is(const char *label, const char *name); /* NULL is the label of nothing */
