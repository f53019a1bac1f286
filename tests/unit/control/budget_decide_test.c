/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "control/budget/budget_priv.h"
#include "kinds.h"
#include "world.h"

/* What follows from what was used: tables. */

#define S *1000000LL

TEST(a_budget_is_exceeded_when_a_limit_is_reached_in_this_period)
{
	static const struct {
		const char *spec;
		bool counted;
		usec start, now;
		int64_t cpu_us, memory;
		bool exceeded;
		const char *reason;
		usec begins, next;
	} rows[] = {
		{ "{}", false, 0, 100 S, 0, 0, false, "WithinLimits", 0, 0 },
		{ "{'limits':{'cpuSeconds':'2'}}", true, 0, 100 S, 2 S - 1, 0, false,
		  "WithinLimits", 0, 0 },
		{ "{'limits':{'cpuSeconds':'2'}}", true, 0, 100 S, 2 S, 0, true, "UsedUp", 0, 0 },
		{ "{'limits':{'cpuSeconds':'0'}}", false, 0, 100 S, 0, 0, true, "UsedUp", 0, 0 },
		{ "{'limits':{'memoryGiBHours':'1'}}", true, 0, 100 S, 99 S, 0, false,
		  "WithinLimits", 0, 0 },
		{ "{'limits':{'memoryGiBHours':'1'}}", true, 0, 100 S, 0, (int64_t)3600 << 30, true,
		  "UsedUp", 0, 0 },
		{ "{'limits':{'maxSandboxes':0}}", true, 0, 100 S, 0, 0, false, "WithinLimits", 0,
		  0 },
		/* The counter is of a period that is over. */
		{ "{'period':'1m','limits':{'cpuSeconds':'2'}}", true, 0, 59 S, 2 S, 0, true,
		  "UsedUp", 0, 60 S },
		{ "{'period':'1m','limits':{'cpuSeconds':'2'}}", true, 0, 60 S, 2 S, 0, false,
		  "WithinLimits", 60 S, 120 S },
		{ "{'period':'1m','limits':{'cpuSeconds':'2'}}", true, 0, 200 S, 2 S, 0, false,
		  "WithinLimits", 180 S, 240 S },
		{ "{'period':'1m','limits':{'cpuSeconds':'0'}}", true, 0, 200 S, 0, 0, true,
		  "UsedUp", 180 S, 240 S },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) o = object_of_f(
			kind_named("Budget"),
			"{'metadata':{'name':'b','creationTimestamp':'1970-01-01T00:00:00Z'},"
			"'spec':%s}",
			rows[i].spec);
		struct budget_seen seen = { .v = budget_view(o),
					    .counted = rows[i].counted,
					    .start = rows[i].start,
					    .now = rows[i].now };
		struct budget_plan plan;

		seen.used.of[COST_CPU_US] = rows[i].cpu_us;
		seen.used.of[COST_MEMORY_BYTE_S] = rows[i].memory;
		plan = budget_decide(&seen);
		eq_int(plan.exceeded, rows[i].exceeded);
		eq_str(plan.reason, rows[i].reason);
		eq_int(plan.start, rows[i].begins);
		eq_int(plan.next, rows[i].next);
		budget_plan_done(&plan);
	}
}

TEST(a_budget_without_a_counter_where_there_is_no_space_for_one_is_exceeded)
{
	autoptr(object) o = object_of_f(kind_named("Budget"), "{'metadata':{'name':'b'}}");
	struct budget_seen seen = { .v = budget_view(o), .no_counter = true };
	struct budget_plan plan = budget_decide(&seen);

	is_true(plan.exceeded);
	eq_str(plan.reason, "TooManyBudgets");
	budget_plan_done(&plan);
}

TEST(a_budget_suspends_what_runs_or_sleeps_and_gives_back_only_what_it_took)
{
	static const struct {
		struct budget_sandbox seen;
		enum budget_step step;
	} rows[] = {
		{ { .acting = true, .under = true }, BUDGET_STEP_SUSPEND },
		{ { .acting = true, .under = true, .suspended = true, .asleep = true },
		  BUDGET_STEP_SUSPEND },
		{ { .acting = true, .under = true, .suspended = true }, BUDGET_STEP_NONE },
		{ { .acting = true, .under = true, .suspended = true, .by_us = true },
		  BUDGET_STEP_NONE },
		{ { .acting = true, .under = true, .by_us = true }, BUDGET_STEP_SUSPEND },
		{ { .acting = true, .under = true, .deleting = true }, BUDGET_STEP_NONE },
		{ { .acting = true }, BUDGET_STEP_NONE },
		{ { .acting = true, .by_us = true, .suspended = true }, BUDGET_STEP_RELEASE },
		{ { .by_us = true, .suspended = true }, BUDGET_STEP_RELEASE },
		{ { .by_us = true, .suspended = true, .put_away = true }, BUDGET_STEP_FORGET },
		{ { .by_us = true }, BUDGET_STEP_FORGET },
		{ { .by_others = true, .suspended = true }, BUDGET_STEP_NONE },
		{ { .under = true }, BUDGET_STEP_NONE },
		{ { .suspended = true }, BUDGET_STEP_NONE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(budget_decide_sandbox(&rows[i].seen), rows[i].step);
}
