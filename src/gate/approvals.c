/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "gate/gate_priv.h"
#include "json/json.h"

/*
 * Approvals as objects: which one there is for an operation, and the two writes that follow from a
 * decision. Whoever lets something begin waits until client_sync() after approval_mark_used().
 */
const struct object *approval_find(const struct gate *g, const struct approval_of *of, usec now)
{
	autofree char *key = xasprintf("%s/%s/%s", of->ns, of->agent, of->digest);
	const struct object *best = NULL;

	map_each(it, map_get(g->approvals, key)) {
		const struct approval_view *v = approval_view(it.value);

		if (v->deleting || v->used || v->expires <= now || v->decision == APPROVAL_EXPIRED)
			continue;
		if (!best || v->decision > approval_view(best)->decision)
			best = it.value;
	}
	return best;
}

void approval_mark_used(struct gate *g, const struct object *approval, struct client_write *w)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *status;
	char when[CLOCK_TEXT_MAX];

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "uid", approval->uid);
	(void)json_set(d, meta, "resourceVersion",
		       json_copy(d, json_at_path(approval->root, "metadata.resourceVersion")));
	status = json_need_obj(d, root, "status");
	json_set_bool(d, status, "used", true);
	clock_format(clock_wall(), when);
	json_set_str(d, status, "usedAt", when);
	client_patch(g->client,
		     &(struct client_ref){ .kind = g->approval,
					   .ns = approval->ns,
					   .name = approval->name,
					   .sub = "status" },
		     PATCH_MERGE, d, w);
}

void approval_add_rule(struct gate *g, const struct approval_of *of, const struct json *rule,
		       struct client_write *w)
{
	struct json_doc *d = json_doc_new();
	autoptr(object) agent = client_get(g->client, g->agent, of->ns, of->agent);
	const struct json *had = agent ? json_at_path(agent->root, "spec.approval.rules") : NULL;
	struct json *root = json_obj(d), *rules;

	json_set_root(d, root);
	if (agent)
		(void)json_set(d, json_need_obj(d, root, "metadata"), "resourceVersion",
			       json_copy(d, json_at_path(agent->root, "metadata.resourceVersion")));
	rules = json_need_arr(d, json_need_obj(d, json_need_obj(d, root, "spec"), "approval"),
			      "rules");
	json_push(d, rules, json_copy(d, rule));
	json_each(it, had)
		if (!json_equal(it.val, rule))
			json_push(d, rules, json_copy(d, it.val));
	client_patch(g->client,
		     &(struct client_ref){ .kind = g->agent, .ns = of->ns, .name = of->agent },
		     PATCH_MERGE, d, w);
}
