/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "control/template/blueprint.h"
#include "control/template/template_priv.h"
#include "fixture.h"
#include "kinds.h"

/* Templates and blueprints: cases 125 to 132 and 145 to 154 of docs/reference/cases.md. */

#define OWNED                                                                           \
	"'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':" \
	"'SandboxTemplate','name':'test-template','uid':'t1','controller':true}]"

static struct object *template(const char *labels, const char *spec)
{
	return object_of_f(
		kind_named("SandboxTemplate"),
		"{'metadata':{'name':'test-template','namespace':'ns','uid':'t1','labels':%s},"
		"'spec':%s}",
		labels, spec);
}

TEST(case_125_the_default_policy_lets_the_router_in_and_the_internet_out)
{
	autoptr(object) t = template("{}", "{}");
	autoptr(json_doc) d = json_doc_new();

	eq_json(policy_spec(d, t),
		"{'podSelector':{'matchLabels':{'agents.x-k8s.io/sandbox-template-ref-hash':'69155462'}},"
		"'policyTypes':['Ingress','Egress'],"
		"'ingress':[{'from':[{'namespaceSelector':{'matchLabels':{'kubernetes.io/metadata.name':"
		"'agent-sandbox-system'}},'podSelector':{'matchLabels':{'app':'sandbox-router'}}}]}],"
		"'egress':[{'to':[{'ipBlock':{'cidr':'0.0.0.0/0','except':['10.0.0.0/8','172.16.0.0/12',"
		"'192.168.0.0/16','169.254.0.0/16']}},{'ipBlock':{'cidr':'::/0','except':['fc00::/7',"
		"'fe80::/10']}}]}]}");
}

TEST(case_126_custom_rules_are_copied)
{
	autoptr(object) t =
		template("{}", "{'networkPolicy':{'egress':[{'ports':[{'port':53}]}]}}");
	autoptr(json_doc) d = json_doc_new();

	eq_json(policy_spec(d, t),
		"{'podSelector':{'matchLabels':{'agents.x-k8s.io/sandbox-template-ref-hash':'69155462'}},"
		"'policyTypes':['Ingress','Egress'],"
		"'egress':[{'ports':[{'port':53,'protocol':'TCP'}]}]}");
}

TEST(cases_127_to_132_what_becomes_of_the_policy)
{
	static const struct {
		const char *name, *labels, *spec, *policy;
		struct template_plan plan;
	} rows[] = {
		{ "125", "{}", "{}", NULL, { .label = true, .policy = POLICY_CREATE } },
		{ "130",
		  "{'agents.x-k8s.io/sandbox-template-ref-hash':'69155462'}",
		  "{}",
		  NULL,
		  { .policy = POLICY_CREATE } },
		{ "127",
		  "{}",
		  "{'networkPolicyManagement':'Unmanaged','networkPolicy':{}}",
		  NULL,
		  { .label = true } },
		{ "128",
		  "{}",
		  "{'networkPolicyManagement':'Unmanaged'}",
		  "{'metadata':{" OWNED "}}",
		  { .label = true, .policy = POLICY_REMOVE } },
		{ "129",
		  "{}",
		  "{}",
		  "{'metadata':{" OWNED "},'spec':{}}",
		  { .label = true, .policy = POLICY_REPLACE } },
		{ "131",
		  "{}",
		  "{'networkPolicyManagement':'Unmanaged'}",
		  "{'metadata':{}}",
		  { .label = true } },
		{ "132",
		  "{}",
		  "{}",
		  "{'metadata':{}}",
		  { .label = true, .policy = POLICY_REFUSE } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) t = template(rows[i].labels, rows[i].spec);
		autoptr(object) p = rows[i].policy
					    ? object_of(kind_named("NetworkPolicy"), rows[i].policy)
					    : NULL;
		struct template_plan plan = template_decide(t, p);

		eq_int(plan.label, rows[i].plan.label);
		eq_int(plan.policy, rows[i].plan.policy);
	}
}

TEST(case_130_the_policy_that_was_made_is_left_alone)
{
	autoptr(object) t = template("{}", "{}");
	autoptr(object) p = object_new(kind_named("NetworkPolicy"),
				       policy_build(t, "test-template-network-policy"));

	eq_int(template_decide(t, p).policy, POLICY_NONE);
}

TEST(case_137_secure_defaults)
{
	static const struct {
		const char *spec, *pod;
	} rows[] = {
		{ "{}",
		  "{'automountServiceAccountToken':false,'dnsPolicy':'None','dnsConfig':{'nameservers':["
		  "'8.8.8.8','1.1.1.1']}}" },
		{ "{'podTemplate':{'spec':{'automountServiceAccountToken':true,'dnsPolicy':'Default'}}}",
		  "{'automountServiceAccountToken':true,'dnsPolicy':'Default'}" },
		{ "{'networkPolicyManagement':'Unmanaged'}",
		  "{'automountServiceAccountToken':false}" },
		{ "{'networkPolicy':{'ingress':[]}}", "{'automountServiceAccountToken':false}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) t = template("{}", rows[i].spec);
		autoptr(json_doc) d = json_doc_new();

		eq_json(json_at_path(blueprint_spec(d, t), "podTemplate.spec"), rows[i].pod);
	}
}

TEST(cases_148_to_152_when_a_sandbox_is_another)
{
	static const struct {
		const char *a, *b;
		bool same;
	} rows[] = {
		{ "{}", "{}", true },
		{ "{'podTemplate':{'spec':{'containers':[{'image':'a'}]}}}",
		  "{'podTemplate':{'spec':{'containers':[{'image':'b'}]}}}", false },
		{ "{'podTemplate':{'metadata':{'labels':{'a':'b'}},'spec':{}}}",
		  "{'podTemplate':{'spec':{}}}", true },
		{ "{'podTemplate':{'spec':{'dnsPolicy':'ClusterFirst'}}}",
		  "{'podTemplate':{'spec':{'dnsPolicy':'Default'}}}", false },
		{ "{'podTemplate':{'spec':{'automountServiceAccountToken':true}}}",
		  "{'podTemplate':{'spec':{'automountServiceAccountToken':false}}}", false },
		{ "{'podTemplate':{'spec':{'containers':[{'resources':{'limits':{'cpu':'1'}}}]}}}",
		  "{'podTemplate':{'spec':{'containers':[{'resources':{'limits':{'cpu':'1000m'}}}]}}}",
		  true },
		{ "{'volumeClaimTemplates':[{'metadata':{'name':'a','labels':{'x':'y'}},'spec':{}}]}",
		  "{'volumeClaimTemplates':[{'metadata':{'name':'a'},'spec':{}}]}", true },
		{ "{'volumeClaimTemplates':[{'metadata':{'name':'a'}},{'metadata':{'name':'b'}}]}",
		  "{'volumeClaimTemplates':[{'metadata':{'name':'b'}},{'metadata':{'name':'a'}}]}",
		  false },
		{ "{'volumeClaimTemplates':[{'metadata':{'name':'a'},'spec':{'storageClassName':'x'}}]}",
		  "{'volumeClaimTemplates':[{'metadata':{'name':'a'},'spec':{'storageClassName':'y'}}]}",
		  false },
		{ "{'volumeClaimTemplates':[{'metadata':{'name':'a'}}]}", "{}", false },
		{ "{'service':true}", "{'service':false}", false },
		{ "{'service':true}", "{}", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) t = template("{}", rows[i].a);
		autoptr(object) sb =
			object_of_f(kind_named("Sandbox"), "{'metadata':{},'spec':%s}", rows[i].b);

		eq_int(blueprint_same(t, sb), rows[i].same);
	}
}

TEST(case_153_the_hash_follows_the_blueprint)
{
	autoptr(object) a = template("{}", "{'podTemplate':{'spec':{'x':1}},'service':true}");
	autoptr(object) same = template(
		"{}",
		"{'service':true,'envVarsInjectionPolicy':'Allowed','podTemplate':{'spec':{'x':1}}}");
	autoptr(object) other = template("{}", "{'podTemplate':{'spec':{'x':1}},'service':false}");
	char h[3][9];

	blueprint_hash(a, h[0]);
	blueprint_hash(same, h[1]);
	blueprint_hash(other, h[2]);
	eq_str(h[0], h[1]);
	is_true(strcmp(h[0], h[2]));
}

TEST(cases_146_150_235_what_makes_a_member_stale)
{
	static const struct {
		const char *labels, *owner, *spec;
		bool ref_too, stale;
	} rows[] = {
		/* 235: the label is enough for one that a pool owns */
		{ "'agents.x-k8s.io/sandbox-template-hash':'cafe'", "{'controller':true}",
		  "{'podTemplate':{'spec':{'x':2}}}", false, false },
		{ "'agents.x-k8s.io/sandbox-template-hash':'old'", "{'controller':true}",
		  "{'podTemplate':{'spec':{'x':2}}}", false, true },
		{ "'a':'b'", "{'controller':true}", "{'podTemplate':{'spec':{'x':1}}}", false,
		  false },
		/* 146: of another template */
		{ "'agents.x-k8s.io/sandbox-template-hash':'cafe'", "{'controller':true}",
		  "{'podTemplate':{'spec':{'x':1}}}", true, true },
		/* 150: an orphan's labels are not believed */
		{ "'agents.x-k8s.io/sandbox-template-hash':'cafe','agents.x-k8s.io/"
		  "sandbox-template-ref-hash':'69155462'",
		  "", "{'podTemplate':{'spec':{'x':2}}}", true, true },
		{ "'agents.x-k8s.io/sandbox-template-ref-hash':'69155462'", "",
		  "{'podTemplate':{'spec':{'x':1}}}", true, false },
	};
	autoptr(object) t = template("{}", "{'podTemplate':{'spec':{'x':1}}}");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) sb =
			object_of_f(kind_named("Sandbox"),
				    "{'metadata':{'labels':{%s},'ownerReferences':[%s]},'spec':%s}",
				    rows[i].labels, rows[i].owner, rows[i].spec);

		eq_int(blueprint_stale(t, "cafe", sb, rows[i].ref_too), rows[i].stale);
	}
}
