/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/budget.h"
#include "base/clock.h"

struct arena;

/*
 * A Ledger: what was used in a namespace on one day, and how far each source of use has been
 * counted. Both change in one write, so that nothing is lost or counted twice in a crash.
 */
enum {
	LEDGER_ROWS_MAX = 512,     /* and one for all others */
	LEDGER_MARKS_MAX = 4096,   /* sources that live, or lived a moment ago */
	LEDGER_BUDGETS_MAX = 64,   /* of a namespace */
	LEDGER_SHARES_MAX = 63,    /* of a budget, and one for all others */
	LEDGER_DAYS = 90,          /* that one is kept */
	LEDGER_NAME_MAX = 16,      /* "2026-11-17" */
	LEDGER_SIZE_MAX = 2 << 20, /* bytes, roughly, up to which sources are added */
};
#define LEDGER_OTHERS "(others)" /* no agent has such a name */

struct payer {
	const char *agent, *user, *template; /* "": nobody, none */
};
struct ledger_row {
	struct payer who;
	struct costs used;
};
struct ledger_mark {
	const char *uid;
	bool attachment;
	struct payer who;
	const char *session, *session_uid; /* "": in none */
	struct costs counted;
	bool told; /* not written: the source is still there */
};
struct ledger_session {
	const char *uid, *name;
	struct costs used; /* from its beginning */
};
struct ledger_share {
	const char *agent;
	struct costs used;
};
struct ledger_budget {
	const char *uid, *name;
	usec start; /* of the period that it is about */
	struct costs used;
	struct ledger_share *shares; /* space for LEDGER_SHARES_MAX + 1 */
	size_t n_shares;
};
struct ledger {
	struct ledger_row *rows;
	struct ledger_mark *marks;
	struct ledger_session *sessions;
	struct ledger_budget *budgets;
	size_t n_rows, n_marks, n_sessions, n_budgets;
};

/* Its strings are borrowed from the tree, the rest is in the arena. There is space for more marks
 * and sessions, and for as many rows and budgets as there can be. status NULL: an empty one. */
void ledger_read(const struct json *status, size_t more, struct arena *a, struct ledger *ret);
struct json *ledger_write(const struct ledger *l, usec now, struct json_doc *d);
/* Of one budget alone; false: nothing has counted against it yet. */
bool ledger_read_budget(const struct json *status, const char *uid, struct arena *a,
			struct ledger_budget *ret);

/* The name of the ledger of a day, in UTC; days: how many days before that. */
void ledger_name(usec at, unsigned days, char ret[LEDGER_NAME_MAX]);
