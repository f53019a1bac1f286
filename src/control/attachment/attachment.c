/* SPDX-License-Identifier: Apache-2.0 */
#include "control/attachment/attachment.h"

#include "api/cay/cay.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/agent/wall.h"
#include "control/attachment/attachment_priv.h"
#include "control/index/links.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"

/*
 * A pass over an attachment. Those that users make become their session's too, so that whoever
 * collects garbage removes them with it.
 */
struct attachment_objects {
	struct object *attachment, *session, *sandbox, *claim;
	struct chain chain;
};

static enum owned owned_by(const struct object *attachment, const struct object *session)
{
	char group[64];

	json_each(it, json_get(json_get(attachment->root, "metadata"), "ownerReferences")) {
		api_version_group(str_or(json_get_str(it.val, "apiVersion"), ""), group,
				  sizeof(group));
		if (!str_eq(json_get_str(it.val, "kind"), "Session") || !str_eq(group, GROUP_CAY))
			continue;
		return session && !str_eq(json_get_str(it.val, "uid"), session->uid)
			       ? OWNED_BY_ANOTHER
			       : OWNED_YES;
	}
	return OWNED_NOT;
}

/* The Private agent other than the session's that a label names; NULL: none. */
static const char *private_agent(const struct pass *p, const char *label, const char *agent)
{
	if (!label || link_label_is(label, agent))
		return NULL;
	map_each(it, links_of(p->c->links, LINK_LABEL_AGENTS, p->key->ns, label))
		if (agent_view(it.value)->visibility == VISIBILITY_PRIVATE)
			return ((const struct object *)it.value)->name;
	return NULL;
}

static bool shuts_out(const struct object *o, const struct agent_view *agent)
{
	return visibility_shuts_out(o, agent ? agent->owner : NULL);
}

/* Labels of the claim count as well as those of the Sandbox: either may be a moment late. */
static void see_sandbox(struct pass *p, struct attachment_objects *o, struct attachment_seen *ret)
{
	struct context *c = p->c;
	const char *agent = ret->session ? ret->session->agent : "";

	o->sandbox = client_get(c->client, c->kinds.sandbox, p->key->ns, ret->v->sandbox);
	if (!o->sandbox)
		return;
	ret->sandbox = sandbox_view(o->sandbox);
	ret->class = wall_class(o->sandbox);
	if (ret->sandbox->owner.type == OWNER_CLAIM)
		o->claim =
			client_get(c->client, c->kinds.claim, p->key->ns, ret->sandbox->owner.name);
	ret->private_to = private_agent(p, object_label(o->sandbox, KEY_AGENT), agent);
	if (!ret->private_to && o->claim)
		ret->private_to = private_agent(p, object_label(o->claim, KEY_AGENT), agent);
	ret->shut =
		shuts_out(o->sandbox, ret->agent) || (o->claim && shuts_out(o->claim, ret->agent));
}

static bool observe(struct pass *p, struct attachment_objects *o, struct attachment_seen *ret)
{
	struct context *c = p->c;

	o->attachment = client_get(c->client, c->kinds.attachment, p->key->ns, p->key->name);
	if (!o->attachment)
		return false;
	ret->v = attachment_view(o->attachment);
	o->session = client_get(c->client, c->kinds.session, p->key->ns, ret->v->session);
	ret->owned = owned_by(o->attachment, o->session);
	if (o->session) {
		ret->session = session_view(o->session);
		(void)chain_load(c, p->key->ns, ret->session->agent, &o->chain);
		ret->agent = o->chain.fault == CHAIN_WHOLE ? chain_agent(&o->chain) : NULL;
		ret->caps = &o->chain.caps;
		ret->policy = chain_policy(&o->chain);
	}
	see_sandbox(p, o, ret);
	return true;
}

static void objects_done(struct attachment_objects *o)
{
	object_unref(o->attachment);
	object_unref(o->session);
	object_unref(o->sandbox);
	object_unref(o->claim);
	chain_done(&o->chain);
}

static void own(struct pass *p, const struct attachment_objects *o)
{
	const struct write w = { .name = ATTACHMENT_WRITE_OWNER,
				 .to = ref_of(o->attachment),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *owners = json_arr(d);
	struct json *ref = meta_controller_ref(d, o->session);

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	draft_guard(d, meta, o->attachment);
	json_each(it, json_get(json_get(o->attachment->root, "metadata"), "ownerReferences"))
		json_push(d, owners, json_copy(d, it.val));
	(void)json_del(ref, "controller"); /* its user made it, not the controller */
	(void)json_del(ref, "blockOwnerDeletion");
	json_push(d, owners, ref);
	json_set(d, meta, "ownerReferences", owners);
	pass_patch(p, &w, d);
}

static void act(struct pass *p, const struct attachment_objects *o,
		const struct attachment_plan *plan)
{
	const struct write w = { .name = ATTACHMENT_WRITE_DELETE,
				 .to = ref_of(o->attachment),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };

	if (plan->step == ATTACHMENT_STEP_OWN)
		own(p, o);
	else if (plan->step == ATTACHMENT_STEP_DELETE)
		pass_delete_uid(p, &w, o->attachment->uid);
}

static void report(struct pass *p, const struct attachment_objects *o,
		   const struct attachment_plan *plan)
{
	const struct attachment_view *v = attachment_view(o->attachment);
	struct write w = { .name = ATTACHMENT_WRITE_STATUS,
			   .to = ref_of(o->attachment),
			   .flags = WRITE_QUIET | WRITE_GONE_OK };
	const struct condition c = { "Ready",       plan->ready ? "True" : "False",
				     plan->reason,  plan->message,
				     v->generation, NULL };
	autoptr(json_doc) want = draft_status(o->attachment);
	struct json *status = json_root(want);
	struct json_doc *patch;

	conditions_upsert(want, json_need_arr(want, status, "conditions"), &c, p->now);
	json_set_int(want, status, "observedGeneration", v->generation);
	json_set(want, status, "effectiveRights", rights_list(plan->rights, want));
	json_set_str(want, status, "view", attachment_viewpoint_name(v->view));
	if (o->session)
		json_set_str(want, status, "agent", session_view(o->session)->agent);
	patch = draft_status_patch(o->attachment, status);
	w.to.sub = "status";
	if (patch)
		pass_patch(p, &w, patch);
}

struct again attachment_reconcile(struct pass *p)
{
	struct attachment_objects o = { 0 };
	struct attachment_seen seen = { 0 };
	struct err *e = pass_take_error(p);

	if (e)
		return again_retry(e);
	if (observe(p, &o, &seen)) {
		struct attachment_plan plan = attachment_decide(&seen);

		act(p, &o, &plan);
		if (!p->started && plan.step != ATTACHMENT_STEP_NONE)
			report(p, &o, &plan);
		attachment_plan_done(&plan);
	}
	objects_done(&o);
	return p->started ? again_wait() : again_never();
}
