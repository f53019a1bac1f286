/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "control/budget/budget_priv.h"

/*
 * Whether a budget is used up, and what becomes of a Sandbox then. Pure.
 */
static char *used_up(const struct budget_seen *s, const struct budget_plan *plan)
{
	char used[COST_TEXT_MAX], limit[COST_TEXT_MAX], until[CLOCK_TEXT_MAX];

	cost_text(plan->what, plan->used.of[plan->what], used);
	cost_text(plan->what, s->v->limits.of[plan->what], limit);
	if (!plan->next)
		return xasprintf("%s of %s %s are used; that stays so until the limit is raised",
				 used, limit, cost_name(plan->what));
	clock_format(plan->next, until);
	return xasprintf("%s of %s %s are used; counting begins anew at %s", used, limit,
			 cost_name(plan->what), until);
}

struct budget_plan budget_decide(const struct budget_seen *s)
{
	struct budget_plan plan = { .reason = "WithinLimits", .what = COST_MAX_ };
	usec began = s->counted ? s->start : s->v->created;

	plan.start = budget_period_start(began, s->v->period, s->now);
	plan.next = s->v->period ? plan.start + s->v->period : 0;
	plan.over = !s->counted || plan.start != s->start;
	if (!plan.over)
		plan.used = s->used;
	plan.what = budget_exceeds(s->v, &plan.used);
	plan.exceeded = plan.what != COST_MAX_ || s->no_counter;
	if (plan.what != COST_MAX_) {
		plan.reason = "UsedUp";
		plan.message = used_up(s, &plan);
	} else if (s->no_counter) {
		plan.reason = "TooManyBudgets";
		plan.message = xasprintf("Only %d Budgets of a namespace are counted, and others "
					 "were there before",
					 LEDGER_BUDGETS_MAX);
	} else {
		plan.message = xstrdup("There is something left of everything");
	}
	return plan;
}

void budget_plan_done(struct budget_plan *plan)
{
	free(plan->message);
}

/* One that its user has suspended is left alone; one that sleeps is not, or a packet would wake
 * it. */
enum budget_step budget_decide_sandbox(const struct budget_sandbox *s)
{
	if (s->deleting)
		return BUDGET_STEP_NONE;
	if (s->acting && s->under) {
		bool stays = s->suspended && !s->asleep;

		return stays || (s->suspended && s->by_others) ? BUDGET_STEP_NONE
							       : BUDGET_STEP_SUSPEND;
	}
	if (!s->by_us)
		return BUDGET_STEP_NONE;
	return s->suspended && !s->put_away ? BUDGET_STEP_RELEASE : BUDGET_STEP_FORGET;
}
