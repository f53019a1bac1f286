/* SPDX-License-Identifier: Apache-2.0 */
#include "control/approval/approval.h"

#include "api/meta.h"
#include "api/object.h"
#include "control/approval/approval_priv.h"
#include "control/index/links.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/pass.h"

/*
 * A pass over an approval. Its clocks are its own times, so nothing has to be remembered.
 */
enum approval_write {
	APPROVAL_WRITE_STATUS,
	APPROVAL_WRITE_DELETE,
	APPROVAL_WRITE_MAX_,
};
_Static_assert(APPROVAL_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

/* Guarded by the revision: a decision that comes at the same moment counts. */
static void expire(struct pass *p, const struct object *o)
{
	struct write w = { .name = APPROVAL_WRITE_STATUS,
			   .to = ref_of(o),
			   .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	const struct condition c = { "Expired",
				     "True",
				     "NobodyDecided",
				     "Nobody decided before spec.expires",
				     object_generation(o),
				     NULL };
	autoptr(json_doc) want = draft_status(o);
	struct json_doc *patch;

	conditions_upsert(want, json_need_arr(want, json_root(want), "conditions"), &c, p->now);
	patch = draft_status_patch(o, json_root(want));
	if (!patch)
		return;
	draft_guard(patch, json_need_obj(patch, json_root(patch), "metadata"), o);
	w.to.sub = "status";
	pass_patch(p, &w, patch);
}

static void act(struct pass *p, const struct object *o, enum approval_step step)
{
	const struct write w = { .name = APPROVAL_WRITE_DELETE,
				 .to = ref_of(o),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };

	if (step == APPROVAL_STEP_EXPIRE)
		expire(p, o);
	else if (step == APPROVAL_STEP_DELETE)
		pass_delete_uid(p, &w, o->uid);
}

struct again approval_reconcile(struct pass *p)
{
	autoptr(object) o =
		client_get(p->c->client, p->c->kinds.approval, p->key->ns, p->key->name);
	struct err *e = pass_take_error(p);
	struct approval_seen seen;
	struct approval_plan plan;

	if (e)
		return again_retry(e);
	if (!o)
		return again_never();
	seen = (struct approval_seen){
		.v = approval_view(o),
		.decided_at = view_time(json_get_str(object_status(o), "decidedAt")),
		.n_open = links_count(p->c->links, LINK_OPEN_APPROVALS, o->ns, ""),
		.now = p->now,
	};
	plan = approval_decide(&seen);
	act(p, o, plan.step);
	if (p->started)
		return again_wait();
	return plan.look_at ? again_after((uint64_t)(plan.look_at - p->now) / 1000 + 1)
			    : again_never();
}
