/* SPDX-License-Identifier: Apache-2.0 */
#include "control/budget/budget.h"

#include "api/cay/cay.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/budget/budget_priv.h"
#include "control/budget/newest.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/event.h"
#include "control/pass/pass.h"

/*
 * The Budget controller. What was used is in the ledger of the namespace; the status repeats it,
 * and says whether that is too much, which is what the gate and the sessions go by.
 */
_Static_assert(BUDGET_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

#define WHO_BUDGET "budget-controller"

enum {
	PERIOD_RECHECK_MAX_MS = 24 * 3600 * 1000,
};

static struct budget_seen observe(const struct pass *p, const struct object *o,
				  const struct object *ledger, struct arena *a,
				  struct ledger_budget *ret)
{
	const struct json *status = ledger ? object_status(ledger) : NULL;
	struct budget_seen seen = { .v = budget_view(o), .now = p->now };

	seen.counted = ledger_read_budget(status, o->uid, a, ret);
	seen.no_counter =
		!seen.counted && json_len(json_get(status, "budgets")) >= LEDGER_BUDGETS_MAX;
	seen.start = ret->start;
	seen.used = ret->used;
	return seen;
}

static int by_use(const void *a, const void *b)
{
	const struct ledger_share *x = a, *y = b;

	for (enum cost i = 0; i < COST_MAX_; i++)
		if (x->used.of[i] != y->used.of[i])
			return x->used.of[i] > y->used.of[i] ? -1 : 1;
	return strcmp(x->agent, y->agent);
}

/* Those that used most first; what is nobody's, and what is that of too many, is only in the sum.
 */
static void put_agents(struct json_doc *d, struct json *status, struct ledger_budget *counter)
{
	struct json *list = json_arr(d);

	if (counter->n_shares)
		qsort(counter->shares, counter->n_shares, sizeof(*counter->shares), by_use);
	for (size_t i = 0; i < counter->n_shares; i++) {
		const struct ledger_share *s = &counter->shares[i];
		struct json *one;

		if (str_empty(s->agent) || str_eq(s->agent, LEDGER_OTHERS))
			continue;
		one = costs_write(&s->used, d);
		json_set_str(d, one, "agent", s->agent);
		json_push(d, list, one);
	}
	json_set(d, status, "usedByAgent", list);
}

static struct json_doc *status_of(const struct object *o, const struct budget_plan *plan,
				  struct ledger_budget *counter, usec now)
{
	struct json_doc *d = draft_status(o);
	struct json *status = json_root(d);
	const struct condition c = { "Exceeded",    plan->exceeded ? "True" : "False", plan->reason,
				     plan->message, budget_view(o)->generation,        NULL };
	char start[CLOCK_TEXT_MAX];

	clock_format(plan->start, start);
	if (plan->over)
		counter->n_shares = 0;
	json_set(d, status, "used", costs_write(&plan->used, d));
	put_agents(d, status, counter);
	json_set_bool(d, status, "exceeded", plan->exceeded);
	json_set_str(d, status, "periodStart", start);
	json_set_int(d, status, "observedGeneration", budget_view(o)->generation);
	conditions_upsert(d, json_need_arr(d, status, "conditions"), &c, now);
	return d;
}

static struct json_doc *event_of(const struct pass *p, const struct object *o,
				 const struct budget_plan *plan)
{
	bool was = budget_view(o)->exceeded;
	const struct event_spec spec = { o,
					 WHO_BUDGET,
					 plan->exceeded ? "Warning" : "Normal",
					 plan->exceeded ? "BudgetExceeded" : "BudgetAvailable",
					 "Count",
					 plan->message };

	return was == plan->exceeded ? NULL : event_build(&spec, p->now);
}

static void report(struct pass *p, const struct object *o, const struct budget_plan *plan,
		   struct ledger_budget *counter)
{
	struct write w = { .name = BUDGET_WRITE_STATUS,
			   .to = ref_of(o),
			   .flags = WRITE_QUIET | WRITE_GONE_OK };
	autoptr(json_doc) want = status_of(o, plan, counter, p->now);
	struct json_doc *patch = draft_status_patch(o, json_root(want));

	w.to.sub = "status";
	if (!patch)
		return;
	w.event = event_of(p, o, plan);
	pass_patch(p, &w, patch);
}

static struct again pass_over(struct pass *p, const struct object *o)
{
	autoptr(arena) a = arena_new();
	autoptr(object) ledger = ledger_newest(p->c, p->key->ns);
	struct ledger_budget counter = { 0 };
	const struct budget_seen seen = observe(p, o, ledger, a, &counter);
	struct budget_plan plan = budget_decide(&seen);
	bool acting = plan.exceeded && seen.v->on_exceeded == EXCEEDED_SUSPEND;
	uint64_t wait_ms = plan.next ? (uint64_t)(plan.next - p->now) / 1000 + 1 : 0;

	report(p, o, &plan, &counter); /* first, so that nobody begins what is suspended */
	(void)budget_sandboxes(p, o->name, acting, plan.message);
	budget_plan_done(&plan);
	return wait_ms ? again_after(MIN(wait_ms, (uint64_t)PERIOD_RECHECK_MAX_MS)) : again_never();
}

struct again budget_reconcile(struct pass *p)
{
	autoptr(object) o = client_get(p->c->client, p->c->kinds.budget, p->key->ns, p->key->name);
	struct err *e = pass_take_error(p);
	struct again again = again_never();

	if (e)
		return again_retry(e);
	if (o && !budget_view(o)->deleting)
		again = pass_over(p, o);
	else
		(void)budget_sandboxes(p, p->key->name, false, "");
	return p->started ? again_wait() : again;
}
