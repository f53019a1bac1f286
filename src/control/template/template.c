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

struct template_plan template_decide(const struct object *template, const struct object *policy)
{
	struct template_plan plan = { 0 };
	char hash[9];

	name_hash(template->name, hash);
	plan.label = !str_eq(template_view(template)->ref_hash, hash);
	if (!template_view(template)->managed) {
		plan.remove = policy && object_controlled_by(policy, template->uid) &&
			      !object_deleting(policy);
	} else if (!policy) {
		plan.create = true;
	} else if (!object_controlled_by(policy, template->uid)) {
		plan.refused = true;
	} else {
		autoptr(json_doc) d = json_doc_new();

		plan.replace = !semantic_equal(object_spec(policy), policy_spec(d, template));
	}
	return plan;
}

struct json_doc *policy_build(const struct object *template, const char *name)
{
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, API_NETWORK_POLICY, "NetworkPolicy");

	(void)draft_meta(d, root, name, template);
	json_set(d, root, "spec", policy_spec(d, template));
	return d;
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
	json_set(d, root, "spec", diff_merge(d, object_spec(policy), policy_spec(d, template)));
	pass_patch(p, w, d);
}

struct again template_reconcile(struct pass *p)
{
	autoptr(object) template =
		client_get(p->c->client, p->c->kinds.template, p->key->ns, p->key->name);
	autofree char *name = xasprintf("%s-network-policy", p->key->name);
	autoptr(object) policy = client_get(p->c->client, p->c->kinds.policy, p->key->ns, name);
	struct write w = { .name = TEMPLATE_WRITE_POLICY,
			   .to = { p->c->kinds.policy, p->key->ns, name } };
	struct template_plan plan;
	struct err *e;

	if (!template || template_view(template)->deleting)
		return again_never();
	plan = template_decide(template, policy);
	if (plan.label)
		label(p, template);
	if (plan.create)
		pass_create(p, &w, policy_build(template, name));
	if (plan.replace)
		replace(p, &w, template, policy);
	if (plan.remove) {
		w.flags = WRITE_GONE_OK;
		pass_delete(p, &w, NULL);
	}
	if (plan.refused)
		return again_retry(err_new(ERR_CONFLICT,
					   "refusing to update NetworkPolicy \"%s\" as it is not "
					   "controlled by SandboxTemplate \"%s\"",
					   name, template->name));
	e = p->started ? NULL : pass_take_error(p);
	return e ? again_retry(e) : again_never();
}
