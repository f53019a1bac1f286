/* SPDX-License-Identifier: Apache-2.0 */
#include "control/session/session.h"

#include "api/diff.h"
#include "api/meta.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/budget/under.h"
#include "control/index/links.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/session/session_priv.h"

/*
 * A pass over a session, and its report.
 */
enum {
	EXISTS_RETRY_MS = 200, /* what another has just made is about to be seen */
	LISTED_MAX = 64,       /* attachments in a status, as its schema has it */
};

bool session_cares_claim(const struct object *was, const struct object *now)
{
	const struct claim_view *a, *b;

	if (!was || !now)
		return true;
	a = claim_view(was);
	b = claim_view(now);
	return a->deleting != b->deleting || a->shutdown_at != b->shutdown_at ||
	       a->on_shutdown != b->on_shutdown || !str_eq(a->sandbox, b->sandbox) ||
	       !semantic_equal(a->ready.tree, b->ready.tree) ||
	       !str_eq(object_annotation(was, KEY_RETAIN), object_annotation(now, KEY_RETAIN)) ||
	       !str_eq(object_annotation(was, KEY_SESSION_UID),
		       object_annotation(now, KEY_SESSION_UID));
}

bool session_cares_sandbox(const struct object *was, const struct object *now)
{
	const struct sandbox_view *a, *b;

	if (!was || !now)
		return true;
	a = sandbox_view(was);
	b = sandbox_view(now);
	return a->deleting != b->deleting || a->suspended != b->suspended ||
	       a->is_private != b->is_private || !str_eq(a->owner.uid, b->owner.uid);
}

/* Report */

static void put_time(struct json_doc *d, struct json *status, const char *name, usec at)
{
	char text[CLOCK_TEXT_MAX];

	clock_format(at, text);
	if (at)
		json_set_str(d, status, name, text);
	else
		(void)json_del(status, name);
}

static void put_text(struct json_doc *d, struct json *status, const char *name, const char *text)
{
	if (str_empty(text))
		(void)json_del(status, name);
	else
		json_set_str(d, status, name, text);
}

static void put_attachments(struct json_doc *d, struct json *status, const struct map *all)
{
	struct json *list = json_arr(d);
	const char *names[LISTED_MAX];
	size_t n = 0;

	map_each(it, all)
		if (n < LISTED_MAX && !attachment_view(it.value)->deleting)
			names[n++] = it.key;
	str_sort(names, n);
	for (size_t i = 0; i < n; i++) {
		struct json *one = json_obj(d);

		json_set_str(d, one, "name", names[i]);
		json_set_str(d, one, "sandbox", attachment_view(map_get(all, names[i]))->sandbox);
		json_push(d, list, one);
	}
	if (n)
		json_set(d, status, "attachments", list);
	else
		(void)json_del(status, "attachments");
}

/* Of those that no budget is about, nothing is said. */
static void put_budget(struct json_doc *d, const struct object *session,
		       const struct session_plan *plan, usec now)
{
	struct json *conditions = json_need_arr(d, json_root(d), "conditions");
	const struct condition c = { "WithinBudget",
				     plan->used_up ? "False" : "True",
				     plan->used_up ? BUDGET_REASON : "WithinLimits",
				     plan->used_up ? plan->used_up : "Its budgets are not used up",
				     session_view(session)->generation,
				     NULL };

	if (plan->phase == SESSION_ENDED ||
	    (!plan->budgeted && !condition_view_of(conditions, "WithinBudget").tree))
		return;
	conditions_upsert(d, conditions, &c, now);
}

struct json_doc *session_status(const struct session_objects *o, const struct session_plan *plan,
				const struct map *attachments, usec now)
{
	const struct session_view *v = session_view(o->session);
	struct json_doc *d = draft_status(o->session);
	struct json *status = json_root(d);
	const struct condition c = {
		"Ready",       plan->phase == SESSION_ACTIVE ? "True" : "False",
		plan->reason,  plan->message,
		v->generation, NULL
	};

	conditions_upsert(d, json_need_arr(d, status, "conditions"), &c, now);
	put_budget(d, o->session, plan, now);
	json_set_str(d, status, "phase", session_phase_name(plan->phase));
	json_set_int(d, status, "observedGeneration", v->generation);
	put_text(d, status, "claim", plan->claim);
	put_text(d, status, "sandbox", plan->sandbox);
	put_time(d, status, "endedAt", plan->ended_at);
	put_time(d, status, "deleteAt", plan->delete_at);
	put_attachments(d, status, attachments);
	return d;
}

static void report(struct pass *p, const struct session_objects *o, const struct session_plan *plan)
{
	struct write w = { .name = SESSION_WRITE_STATUS,
			   .to = ref_of(o->session),
			   .flags = WRITE_QUIET | WRITE_GONE_OK };
	autoptr(json_doc) want = session_status(
		o, plan,
		links_of(p->c->links, LINK_SESSION_ATTACHMENTS, o->session->ns, o->session->name),
		p->now);
	struct json_doc *patch = draft_status_patch(o->session, json_root(want));

	w.to.sub = "status";
	if (patch)
		pass_patch(p, &w, patch);
}

/* The errors of the last pass. Of those that made the claim, the plan tells. */
static struct again again_for(struct pass *p, const struct session_plan *plan)
{
	struct err *e = pass_take_error(p);

	if (err_is(e, ERR_EXISTS)) {
		err_free(e);
		return again_after(EXISTS_RETRY_MS);
	}
	if (e)
		return again_retry(e);
	return plan->look_ms ? again_after(plan->look_ms) : again_never();
}

struct again session_reconcile(struct pass *p)
{
	struct session_objects o = { 0 };
	struct session_seen seen = { 0 };
	struct again again = again_never();

	if (session_observe(p, &o, &seen)) {
		struct session_plan plan = session_decide(&seen);

		session_act(p, &o, &seen, &plan);
		if (!p->started && plan.step != SESSION_STEP_NONE) {
			report(p, &o, &plan);
			again = again_for(p, &plan);
		}
		session_plan_done(&plan);
	}
	session_objects_done(&o);
	return p->started ? again_wait() : again;
}
