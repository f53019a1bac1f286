/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/bench/bench_priv.h"

struct ed25519;

/* callers.c: who asks to be let in */

/* One of them, who proves itself with a token. */
struct caller {
	const char *name;
	char *authorization;
	struct api api, router; /* they borrow */
	struct lane to_api, to_router;
};

/*
 * A user who is no agent and may enter by a role, and an agent with three parents that may by its
 * attachments. Their objects, and the sandbox, are named alike.
 */
struct callers {
	const char *name;
	struct caller user, agent;
	struct ed25519 *key; /* the agent's */
	char *audience;
	usec minted; /* when the agent's token was; 0: never */
};
must_use struct err *callers_open(struct bench *b, const char *name, struct callers *ret);
void callers_close(struct callers *c); /* also what is half open */
must_use struct err *callers_attach(struct bench *b, const struct callers *c, const char *sandbox);
/* The agent's token is valid for a minute at least. */
must_use struct err *callers_renew(struct bench *b, struct callers *c);
/* Creates an object of cay.dev from its name and the text of its spec. */
must_use struct err *callers_post(struct bench *b, const char *kind, const char *name,
				  const char *spec);
char *callers_path(const struct bench *b, const char *kind); /* of a collection, malloc'd */
char *callers_body(const char *kind, const char *name, const char *spec); /* malloc'd */

/* doors.c: the ways in */

enum door {
	DOOR_EXEC,    /* pods/exec over a WebSocket */
	DOOR_EXECUTE, /* POST /execute through the router */
	DOOR_GET,     /* a GET through the router */
	DOOR_REVIEW,  /* a question alone: may I exec there? */
	DOOR_MAX_,
};

/* One of the two whose turns alternate. */
struct side {
	struct row *row;
	struct caller *who;
	/* Before each of its turns, and not measured; NULL: nothing. */
	struct err *(*before)(void *arg);
	void *arg;
	double loop_us; /* result: of the server's loop */
};

/* What is called where: "exec by an agent, beside 1000 agents". */
struct row *door_row(struct bench *b, const char *scenario, enum door d, const char *rest);
/* n turns each. Adds to the rows, and compares the second with the first under that name. */
must_use struct err *doors_in_turn(struct bench *b, struct callers *c, const char *sandbox,
				   enum door d, struct side sides[2]);
/* All doors, by the user and by the agent. rest is added to the names of rows. */
must_use struct err *doors_measure(struct bench *b, struct callers *c, const char *sandbox,
				   const char *scenario, const char *rest);
