/* SPDX-License-Identifier: Apache-2.0 */
#include "control/template/blueprint.h"

#include "api/diff.h"
#include "api/meta.h"
#include "api/view_sandbox.h"
#include "api/view_template.h"
#include "base/str.h"
#include "control/pass/keys.h"

/*
 * Blueprints: their hashes, what makes a member stale, and the defaults that keep a Sandbox made
 * from a template away from the cluster (docs/reference/agent-sandbox.md §4.3, §4.4, §5.5, §7.4).
 */
static struct json *blueprint_copy(struct json_doc *d, const struct blueprint_view *from)
{
	struct json *b = json_obj(d);

	json_set(d, b, "podTemplate", json_copy(d, from->pod_template));
	json_set(d, b, "volumeClaimTemplates", json_copy(d, from->volume_templates));
	json_set(d, b, "service", json_copy(d, from->service));
	return b;
}

void blueprint_hash(const struct object *template, char ret[9])
{
	autoptr(json_doc) d = json_doc_new();

	name_hash_json(blueprint_copy(d, &template_view(template)->blueprint), ret);
}

void blueprint_pod_hash(const struct object *template, char ret[9])
{
	name_hash_json(template_view(template)->blueprint.pod_template, ret);
}

void blueprint_secure(struct json_doc *d, struct json *pod_spec, const struct object *template)
{
	const struct template_view *t = template_view(template);

	if (!json_is(json_get(pod_spec, "automountServiceAccountToken"), JSON_BOOL))
		json_set_bool(d, pod_spec, "automountServiceAccountToken", false);
	if (t->managed && !t->network_policy && str_empty(json_get_str(pod_spec, "dnsPolicy"))) {
		struct json *config = json_obj(d), *servers = json_arr(d);

		json_push_str(d, servers, "8.8.8.8");
		json_push_str(d, servers, "1.1.1.1");
		json_set(d, config, "nameservers", servers);
		json_set_str(d, pod_spec, "dnsPolicy", "None");
		json_set(d, pod_spec, "dnsConfig", config);
	}
}

struct json *blueprint_spec(struct json_doc *d, const struct object *template)
{
	struct json *spec = blueprint_copy(d, &template_view(template)->blueprint);
	struct json *pod = json_need_obj(d, json_need_obj(d, spec, "podTemplate"), "spec");

	blueprint_secure(d, pod, template);
	return spec;
}

static bool vcts_same(const struct json *a, const struct json *b)
{
	if (json_len(a) != json_len(b))
		return false;
	for (size_t i = 0; i < json_len(a); i++) {
		const struct json *x = json_at(a, i), *y = json_at(b, i);

		if (!str_eq(volume_template_name(x), volume_template_name(y)) ||
		    !semantic_equal(json_get(x, "spec"), json_get(y, "spec")))
			return false;
	}
	return true;
}

/* Sandboxes that are older than the secure defaults may lack them; that is no difference. */
bool blueprint_same(const struct object *template, const struct object *sandbox)
{
	autoptr(json_doc) d = json_doc_new();
	const struct json *want = blueprint_spec(d, template);
	const struct blueprint_view *have = &sandbox_view(sandbox)->blueprint;
	struct json *pod = json_copy(d, have->pod_spec);

	if (!pod)
		pod = json_obj(d);
	blueprint_secure(d, pod, template);
	return semantic_equal(json_at_path(want, "podTemplate.spec"), pod) &&
	       vcts_same(json_get(want, "volumeClaimTemplates"), have->volume_templates) &&
	       json_equal(json_get(want, "service"), have->service);
}

bool blueprint_stale(const struct object *template, const char *hash, const struct object *sandbox,
		     bool ref_too)
{
	const struct sandbox_view *v = sandbox_view(sandbox);
	char ref[9];

	name_hash(template->name, ref);
	if (ref_too && !str_eq(v->template_ref_hash, ref))
		return true;
	if (v->owner.type != OWNER_NONE && str_eq(v->template_hash, hash))
		return false;
	return !blueprint_same(template, sandbox);
}
