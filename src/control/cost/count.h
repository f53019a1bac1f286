/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/ledger.h"

struct arena;
struct map;

/*
 * The arithmetic of a ledger: what sources have used since they were last counted goes to the rows,
 * to the session and to the budgets, and the marks move on. Pure, and all of it in memory: nothing
 * has happened before the whole is written.
 */
struct count {
	struct ledger *l;
	struct arena *a;
	struct map *rows, *marks, *sessions, *budgets; /* key → member of l */
	struct map *agents;                            /* agent → struct costs: what is new */
	struct map *live; /* after count_end(): uids of sessions that something counts for */
	usec now;
	size_t size; /* bytes that it will have, roughly */
	bool changed;
	size_t n_waiting; /* sources for which there was no space */
};
void count_begin(struct count *ct, struct ledger *l, usec now, struct arena *a);
void count_done(struct count *ct);

/* A Budget that exists. The counters of those that have none are made when something counts. */
struct count_budget {
	const char *uid, *name;
	usec created, period;
};
/* Periods that are over end, and budgets that are not among these are forgotten. */
void count_budgets(struct count *ct, const struct count_budget *budgets, size_t n);

struct count_source {
	const char *uid;
	bool attachment;
	bool known;       /* who pays; otherwise, whoever did before */
	struct payer who; /* all strings must live as long as the arena */
	const char *session, *session_uid;
	struct costs session_before; /* what its status says; for one that the ledger has not */
	struct costs total;          /* ever used */
	const struct count_budget *const *budgets; /* that it counts against; ends with NULL */
};
/* False: everything of it was counted before. */
bool count_source(struct count *ct, const struct count_source *s);
/* All of it is in the ledger as it was read. */
bool count_covers(const struct count *ct, const char *uid, const struct costs *total);
/* Marks of sources that were not counted now are dropped: there are no such sources any more. */
void count_end(struct count *ct);
/* The session's counter is written in its status, and nothing of it is left to be counted. */
void count_drop_session(struct count *ct, const char *uid);
/* Whether something that counts for the session is there. */
bool count_has_session(const struct count *ct, const char *uid);
