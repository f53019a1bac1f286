/* SPDX-License-Identifier: Apache-2.0 */
#include "control/template/template.h"

#include "api/diff.h"
#include "api/meta.h"
#include "api/view_template.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/keys.h"
#include "control/pass/pass.h"
#include "control/template/blueprint.h"
#include "control/template/template_priv.h"

/*
 * The SandboxTemplate controller: a label by which its Sandboxes are found, and one NetworkPolicy
 * for all of them (docs/reference/agent-sandbox.md §4.2).
 */
/* What the passes write. */
enum template_write {
	TEMPLATE_WRITE_LABEL,
	TEMPLATE_WRITE_POLICY,
	TEMPLATE_WRITE_MAX_,
};
_Static_assert(TEMPLATE_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

static enum policy_step policy_decide(const struct object *template, const struct object *policy)
{
	bool ours = policy && object_controlled_by(policy, template->uid);
	autoptr(json_doc) d = NULL;

	if (!template_view(template)->managed)
		return ours && !object_deleting(policy) ? POLICY_REMOVE : POLICY_NONE;
	if (!policy)
		return POLICY_CREATE;
	if (!ours)
		return POLICY_REFUSE;
	d = json_doc_new();
	return semantic_equal(object_spec(policy), policy_spec(d, template)) ? POLICY_NONE
									     : POLICY_REPLACE;
}

struct template_plan template_decide(const struct object *template, const struct object *policy)
{
	struct template_plan plan = { .policy = policy_decide(template, policy) };
	char hash[9];

	name_hash(template->name, hash);
	plan.label = !str_eq(template_view(template)->ref_hash, hash);
	return plan;
}

static void label(struct pass *p, const struct object *template)
{
	const struct write w = { .name = TEMPLATE_WRITE_LABEL,
				 .to = ref_of(template),
				 .flags = WRITE_GONE_OK };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d);
	char hash[9];

	name_hash(template->name, hash);
	json_set_root(d, root);
	json_set_str(d, json_need_obj(d, json_need_obj(d, root, "metadata"), "labels"),
		     KEY_TEMPLATE_REF_HASH, hash);
	pass_patch(p, &w, d);
}

static void replace(struct pass *p, const struct write *w, const struct object *template,
		    const struct object *policy)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d);

	json_set_root(d, root);
	draft_guard(d, json_need_obj(d, root, "metadata"), policy);
	json_set(d, root, "spec", diff_merge(d, object_spec(policy), policy_spec(d, template)));
	pass_patch(p, w, d);
}

/* Returns why it may not. */
static struct err *act_policy(struct pass *p, enum policy_step step, const struct object *template,
			      const struct object *policy)
{
	autofree char *name = policy_name(template->name);
	struct write w = { .name = TEMPLATE_WRITE_POLICY,
			   .to = { p->c->kinds.policy, template->ns, name } };

	switch (step) {
	case POLICY_NONE:
		break;
	case POLICY_CREATE:
		pass_create(p, &w, policy_build(template, name));
		break;
	case POLICY_REPLACE:
		w.flags = WRITE_CONFLICT_OK;
		replace(p, &w, template, policy);
		break;
	case POLICY_REMOVE:
		w.flags = WRITE_GONE_OK | WRITE_CONFLICT_OK;
		pass_delete_uid(p, &w, policy->uid);
		break;
	case POLICY_REFUSE:
		return err_new(ERR_CONFLICT,
			       "refusing to update NetworkPolicy \"%s\" as it is not "
			       "controlled by SandboxTemplate \"%s\"",
			       name, template->name);
	}
	return NULL;
}

struct again template_reconcile(struct pass *p)
{
	autoptr(object) template =
		client_get(p->c->client, p->c->kinds.template, p->key->ns, p->key->name);
	autofree char *name = policy_name(p->key->name);
	autoptr(object) policy = client_get(p->c->client, p->c->kinds.policy, p->key->ns, name);
	struct template_plan plan;
	struct err *e;

	if (!template || template_view(template)->deleting)
		return again_never();
	plan = template_decide(template, policy);
	if (plan.label)
		label(p, template);
	e = act_policy(p, plan.policy, template, policy);
	if (!e && !p->started)
		e = pass_take_error(p);
	return e ? again_retry(e) : again_never();
}
