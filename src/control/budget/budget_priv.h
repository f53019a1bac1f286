/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/ledger.h"

struct pass;

/* Everything that a decision depends on. */
struct budget_seen {
	const struct budget_view *v;
	bool counted;    /* there is a counter */
	bool no_counter; /* there is none, and no space for one */
	usec start;      /* of the counter's period */
	struct costs used;
	usec now;
};
struct budget_plan {
	bool exceeded;
	bool over;         /* the period of the counter has ended: nothing of it counts */
	usec start, next;  /* of the period; when the next begins, 0: never */
	enum cost what;    /* is used up; COST_MAX_: none */
	struct costs used; /* in this period */
	const char *reason;
	char *message; /* malloc'd */
};
struct budget_plan budget_decide(const struct budget_seen *s);
void budget_plan_done(struct budget_plan *plan);

/* What becomes of a Sandbox. */
struct budget_sandbox {
	bool acting;    /* the budget is used up, and suspends */
	bool under;     /* it is that of an agent that counts against the budget */
	bool by_us;     /* this budget has suspended it */
	bool by_others; /* another has */
	bool suspended, asleep, deleting;
	bool put_away; /* its session has ended */
};
enum budget_step {
	BUDGET_STEP_NONE,
	BUDGET_STEP_SUSPEND,
	BUDGET_STEP_RELEASE, /* the next use wakes it */
	BUDGET_STEP_FORGET,  /* it is nothing to us any more, and stays as it is */
};
enum budget_step budget_decide_sandbox(const struct budget_sandbox *s);

/* suspend.c: looks at the Sandboxes of the namespace. name: of the Budget. True: there are more. */
bool budget_sandboxes(struct pass *p, const char *name, bool acting, const char *why);

/* What the passes write. */
enum budget_write {
	BUDGET_WRITE_STATUS,
	BUDGET_WRITE_SANDBOX,
	BUDGET_WRITE_MAX_,
};
