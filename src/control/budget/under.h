/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/cay/agent_chain.h"
#include "api/cay/budget.h"

struct context;
struct object;

/*
 * What an agent's use counts against: its own Budget, those of its parents, and the team's. A
 * Budget that is named and is not there lets nothing begin: whoever takes a limit away does so
 * where it is named.
 */
enum {
	BUDGETS_MAX = AGENT_PARENTS_MAX + 2,
};
struct budgets {
	struct object *of[BUDGETS_MAX]; /* each once */
	size_t n;
	const char *missing;      /* the first that is named and not there; NULL: none */
	struct agent_chain chain; /* who names them, and the policy */
	struct object *policy;
};
/* agent "" or one that is gone: only the team's. budgets_done() in any case. */
void budgets_of(struct context *c, const char *ns, const char *agent, struct budgets *ret);
void budgets_done(struct budgets *b);
bool budgets_has(const struct budgets *b, const char *name);

/* Why nothing may begin, malloc'd; NULL: it may. */
char *budgets_refuse(const struct budgets *b);
#define BUDGET_REASON "BudgetExceeded" /* of a condition that says so */
/* Why there may be no further sandbox, malloc'd; NULL: there may. */
char *budgets_full(struct context *c, const char *ns, const struct budgets *b, int64_t creating);
