/* SPDX-License-Identifier: Apache-2.0 */
#include "control/agent/agent.h"

#include "api/cay/cay.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/agent/chain.h"
#include "control/budget/under.h"
#include "control/index/links.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/pass.h"

/*
 * The Agent controller: its status, and nothing else. What counts is computed anew at each use; the
 * status is for people.
 */
enum agent_write {
	AGENT_WRITE_STATUS,
	AGENT_WRITE_MAX_,
};
_Static_assert(AGENT_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

static char *budget_missing(struct context *c, const struct object *agent)
{
	struct budgets b;
	char *text = NULL;

	budgets_of(c, agent->ns, agent->name, &b);
	if (b.missing)
		text = budgets_refuse(&b);
	budgets_done(&b);
	return text;
}

static void put_ready(struct json_doc *d, struct context *ctx, const struct chain *ch, usec now)
{
	const struct agent_view *v = chain_agent(ch);
	struct condition c = { "Ready",       "True", "Ready", "The agent may have sessions",
			       v->generation, NULL };
	autofree char *text = NULL;

	if (ch->fault == CHAIN_NO_PARENT) {
		c.reason = "ParentNotFound";
		text = xasprintf("There is no Agent %s, within whose capabilities it would be",
				 ch->missing);
	} else if (ch->fault != CHAIN_WHOLE) {
		c.reason = "TooManyParents";
		text = xasprintf("It has more than %d parents, or is one of its own",
				 AGENT_PARENTS_MAX);
	} else {
		c.reason = "BudgetNotFound";
		text = budget_missing(ctx, ch->agents[0]);
	}
	if (text) {
		c.status = "False";
		c.message = text;
	} else {
		c.reason = "Ready";
	}
	conditions_upsert(d, json_need_arr(d, json_root(d), "conditions"), &c, now);
}

static struct json_doc *status_of(const struct pass *p, const struct chain *ch)
{
	const struct object *agent = ch->agents[0];
	struct json_doc *d = draft_status(agent);
	struct json *status = json_root(d);
	char label[LINK_LABEL_MAX];

	link_label(agent->name, label);
	put_ready(d, p->c, ch, p->now);
	json_set_int(d, status, "observedGeneration", chain_agent(ch)->generation);
	json_set_int(d, status, "sandboxes",
		     (int64_t)links_count(p->c->links, LINK_AGENT_CLAIMS, agent->ns, label));
	json_set(d, status, "effective", capabilities_write(&ch->caps, d));
	json_set_bool(d, status, "verified", chain_agent(ch)->verified);
	return d;
}

static void report(struct pass *p, const struct chain *ch)
{
	struct write w = { .name = AGENT_WRITE_STATUS,
			   .to = ref_of(ch->agents[0]),
			   .flags = WRITE_QUIET | WRITE_GONE_OK };
	autoptr(json_doc) want = status_of(p, ch);
	struct json_doc *patch = draft_status_patch(ch->agents[0], json_root(want));

	w.to.sub = "status";
	if (patch)
		pass_patch(p, &w, patch);
}

struct again agent_reconcile(struct pass *p)
{
	struct chain ch = { 0 };
	struct err *e = pass_take_error(p);

	if (e)
		return again_retry(e);
	if (chain_load(p->c, p->key->ns, p->key->name, &ch) && !chain_agent(&ch)->deleting)
		report(p, &ch);
	chain_done(&ch);
	return again_never();
}
