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

/* Policy */

static struct json *peer_router(struct json_doc *d)
{
	struct json *peer = json_obj(d), *ns, *pod;

	ns = json_need_obj(d, json_need_obj(d, peer, "namespaceSelector"), "matchLabels");
	json_set_str(d, ns, "kubernetes.io/metadata.name", SYSTEM_NAMESPACE);
	pod = json_need_obj(d, json_need_obj(d, peer, "podSelector"), "matchLabels");
	json_set_str(d, pod, "app", "sandbox-router");
	return peer;
}

static struct json *peer_block(struct json_doc *d, const char *cidr, const char *const *except)
{
	struct json *peer = json_obj(d), *block = json_need_obj(d, peer, "ipBlock");
	struct json *list = json_arr(d);

	json_set_str(d, block, "cidr", cidr);
	for (; *except; except++)
		json_push_str(d, list, *except);
	json_set(d, block, "except", list);
	return peer;
}

static struct json *rule(struct json_doc *d, const char *direction, struct json *a, struct json *b)
{
	struct json *rules = json_arr(d), *r = json_obj(d), *peers = json_arr(d);

	json_push(d, peers, a);
	if (b)
		json_push(d, peers, b);
	json_set(d, r, direction, peers);
	json_push(d, rules, r);
	return rules;
}

static void put_default_rules(struct json_doc *d, struct json *spec)
{
	static const char *const v4[] = { "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
					  "169.254.0.0/16", NULL };
	static const char *const v6[] = { "fc00::/7", "fe80::/10", NULL };

	json_set(d, spec, "ingress", rule(d, "from", peer_router(d), NULL));
	json_set(d, spec, "egress",
		 rule(d, "to", peer_block(d, "0.0.0.0/0", v4), peer_block(d, "::/0", v6)));
}

/* As the API server will store it, so that a later comparison finds no difference. */
static struct json *custom_rules(struct json_doc *d, const struct json *rules)
{
	struct json *copy = json_copy(d, rules);

	json_each(r, copy) {
		json_each(p, json_get(r.val, "ports"))
			if (str_empty(json_get_str(p.val, "protocol")))
				json_set_str(d, p.val, "protocol", "TCP");
	}
	return copy;
}

struct json *policy_spec(struct json_doc *d, const struct object *template)
{
	const struct json *custom = template_view(template)->network_policy;
	struct json *spec = json_obj(d), *types = json_arr(d), *labels;
	char hash[9];

	name_hash(template->name, hash);
	labels = json_need_obj(d, json_need_obj(d, spec, "podSelector"), "matchLabels");
	json_set_str(d, labels, KEY_TEMPLATE_REF_HASH, hash);
	json_push_str(d, types, "Ingress");
	json_push_str(d, types, "Egress");
	json_set(d, spec, "policyTypes", types);
	if (!custom) {
		put_default_rules(d, spec);
		return spec;
	}
	json_set(d, spec, "ingress", custom_rules(d, json_get(custom, "ingress")));
	json_set(d, spec, "egress", custom_rules(d, json_get(custom, "egress")));
	return spec;
}
