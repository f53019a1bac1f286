/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/meta.h"
#include "api/view_template.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/pass/draft.h"
#include "control/pass/keys.h"
#include "control/template/template.h"
#include "control/template/template_priv.h"
#include "json/json.h"

/*
 * The NetworkPolicy of a template: the rules that it asks for, or those that keep its Sandboxes
 * away from the cluster (docs/reference/agent-sandbox.md §4.3).
 */

char *policy_name(const char *owner)
{
	return xasprintf("%s-network-policy", owner);
}

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

struct json_doc *policy_build(const struct object *template, const char *name)
{
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, API_NETWORK_POLICY, "NetworkPolicy");

	(void)draft_meta(d, root, name, template);
	json_set(d, root, "spec", policy_spec(d, template));
	return d;
}
