/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/object.h"
#include "api/view_claim.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/budget/budget_priv.h"
#include "control/budget/under.h"
#include "control/index/links.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/event.h"
#include "control/pass/keys.h"
#include "control/pass/pass.h"

/*
 * The Sandboxes that a budget suspends. The annotation says by whom, so that a later pass, or one
 * after a crash, knows which to give back: they then sleep as if for want of use, and whoever needs
 * one wakes it.
 */
enum {
	SANDBOXES_OF_A_PASS = 32,
};

struct sweep {
	struct pass *p;
	const char *budget;
	char *by; /* "budget/NAME" */
	bool acting;
	struct map *agents; /* label → whether under the budget: the map itself, or NULL for no */
	struct object *found[SANDBOXES_OF_A_PASS];
	enum budget_step steps[SANDBOXES_OF_A_PASS];
	size_t n;
};

static bool agent_is_under(struct sweep *s, const char *ns, const char *label)
{
	bool under = false;

	if (map_has(s->agents, label))
		return map_get(s->agents, label);
	map_each(it, links_of(s->p->c->links, LINK_LABEL_AGENTS, ns, label)) {
		struct budgets b;

		budgets_of(s->p->c, ns, ((const struct object *)it.value)->name, &b);
		under |= budgets_has(&b, s->budget);
		budgets_done(&b);
	}
	map_put(s->agents, label, under ? s : NULL);
	return under;
}

static bool is_put_away(const struct context *c, const struct object *sandbox)
{
	const struct owner_view *owner = &sandbox_view(sandbox)->owner;
	autoptr(object) claim = owner->type == OWNER_CLAIM ? client_get(c->client, c->kinds.claim,
									sandbox->ns, owner->name)
							   : NULL;

	return claim && claim_view(claim)->shutdown_at;
}

static bool look_at(void *arg, struct object *o)
{
	struct sweep *s = arg;
	const char *agent = object_label(o, KEY_AGENT);
	const char *by = object_annotation(o, KEY_SUSPENDED_BY);
	const struct budget_sandbox seen = {
		.acting = s->acting,
		.under = s->acting && agent && agent_is_under(s, o->ns, agent),
		.by_us = str_eq(by, s->by),
		.by_others = by && !str_eq(by, s->by),
		.suspended = sandbox_view(o)->suspended,
		.asleep = object_annotation(o, KEY_ASLEEP_SINCE),
		.deleting = sandbox_view(o)->deleting,
		.put_away = by && is_put_away(s->p->c, o),
	};
	enum budget_step step = budget_decide_sandbox(&seen);

	if (step == BUDGET_STEP_NONE)
		return true;
	s->steps[s->n] = step;
	s->found[s->n++] = object_ref(o);
	return s->n < SANDBOXES_OF_A_PASS;
}

static struct json_doc *event_of(const struct sweep *s, const struct object *sandbox,
				 enum budget_step step, const char *why)
{
	bool suspends = step == BUDGET_STEP_SUSPEND;
	autofree char *note =
		suspends ? xasprintf("Budget %s is used up: %s", s->budget, why)
			 : xasprintf("Budget %s allows it again: the next use wakes it", s->budget);
	const struct event_spec spec = { sandbox,
					 WHO_SANDBOX,
					 suspends ? "Warning" : "Normal",
					 suspends ? "SuspendedByBudget" : "BudgetAllows",
					 "Suspend",
					 note };

	return step == BUDGET_STEP_FORGET || s->p->c->opt.no_sandbox_events
		       ? NULL
		       : event_build(&spec, s->p->now);
}

static void step(struct sweep *s, const struct object *sandbox, enum budget_step what,
		 const char *why)
{
	const struct write w = { .name = BUDGET_WRITE_SANDBOX,
				 .to = ref_of(sandbox),
				 .event = event_of(s, sandbox, what, why),
				 .flags = WRITE_GONE_OK };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *notes;
	char now[CLOCK_TEXT_MAX];

	clock_format(s->p->now, now);
	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	draft_guard(d, meta, sandbox);
	notes = json_need_obj(d, meta, "annotations");
	json_set(d, notes, KEY_SUSPENDED_BY,
		 what == BUDGET_STEP_SUSPEND ? json_new_str(d, s->by) : json_new_null(d));
	if (what == BUDGET_STEP_SUSPEND) {
		json_set(d, notes, KEY_ASLEEP_SINCE, json_new_null(d));
		json_set_str(d, json_need_obj(d, root, "spec"), "operatingMode", "Suspended");
	} else if (what == BUDGET_STEP_RELEASE) {
		json_set_str(d, notes, KEY_ASLEEP_SINCE, now);
	}
	pass_patch(s->p, &w, d);
}

bool budget_sandboxes(struct pass *p, const char *name, bool acting, const char *why)
{
	struct sweep s = { .p = p,
			   .budget = name,
			   .by = xasprintf("budget/%s", name),
			   .acting = acting,
			   .agents = map_new(NULL) };

	client_each(p->c->client, p->c->kinds.sandbox, p->key->ns, look_at, &s);
	for (size_t i = 0; i < s.n; i++) {
		step(&s, s.found[i], s.steps[i], why);
		object_unref(s.found[i]);
	}
	map_free(s.agents);
	free(s.by);
	return s.n;
}
