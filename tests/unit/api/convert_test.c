/* SPDX-License-Identifier: Apache-2.0 */
#include "api_test.h"
#include "kinds.h"

#define STATE "api.agents.x-k8s.io/v1alpha1-sandbox-state"

static void to_beta(struct json_doc *d)
{
	works(kind_named("agents.x-k8s.io/v1alpha1 Sandbox")->to_storage(NULL, d));
}

static void to_alpha(struct json_doc *d)
{
	works(kind_named("agents.x-k8s.io/v1alpha1 Sandbox")->from_storage(NULL, d));
}

TEST(case_1_to_3_sandbox_replicas_and_mode)
{
	static const struct {
		const char *spec, *mode;
		int replicas;
	} rows[] = {
		{ "{}", "Running", 1 },
		{ "{'replicas':1}", "Running", 1 },
		{ "{'replicas':0}", "Suspended", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc("{'apiVersion':'agents.x-k8s.io/v1alpha1',"
					  "'metadata':{'name':'s'},'status':{'replicas':7}}");
		autoptr(json_doc) spec = doc(rows[i].spec);
		struct json *root = json_root(d);

		json_set(d, root, "spec", json_copy(d, json_root(spec)));
		to_beta(d);
		eq_str(json_get_str(root, "apiVersion"), "agents.x-k8s.io/v1beta1");
		eq_str(json_get_str(json_get(root, "spec"), "operatingMode"), rows[i].mode);
		is_true(json_at_path(root, "spec.replicas") == NULL);
		is_true(json_at_path(root, "status.replicas") == NULL);
		to_alpha(d);
		eq_str(json_get_str(root, "apiVersion"), "agents.x-k8s.io/v1alpha1");
		eq_json(json_get(root, "spec"), rows[i].spec); /* unset comes back unset */
		eq_int(json_int(json_at_path(root, "status.replicas"), -1), rows[i].replicas);
		eq_json(json_get(root, "metadata"), "{'name':'s'}");
	}
}

TEST(case_4_sandbox_everything_else_survives)
{
	static const char spec[] =
		"{'podTemplate':{'metadata':{'labels':{'a':'b'}},'spec':{'containers':[{'name':'c',"
		"'image':'x'}]}},'volumeClaimTemplates':[{'metadata':{'name':'d'},'spec':{}}],"
		"'shutdownPolicy':'Delete','service':true,'replicas':1}";
	autoptr(json_doc) d = doc("{'metadata':{'labels':{'l':'m'},'annotations':{'x':'y'}}}");
	autoptr(json_doc) s = doc(spec);

	json_set(d, json_root(d), "spec", json_copy(d, json_root(s)));
	to_beta(d);
	to_alpha(d);
	eq_json(json_get(json_root(d), "spec"), spec);
	eq_json(json_get(json_root(d), "metadata"), "{'labels':{'l':'m'},'annotations':{'x':'y'}}");
}

TEST(case_5_to_7_sandbox_state_annotation_never_shows)
{
	autoptr(json_doc) d = doc("{'metadata':{'annotations':{'" STATE "':'garbage','x':'y'}},"
				  "'spec':{'replicas':1}}");
	struct json *root = json_root(d), *notes;

	to_beta(d);
	eq_json(json_at_path(root, "metadata.annotations"), "{'x':'y'}");
	to_alpha(d);
	eq_json(json_at_path(root, "metadata.annotations"), "{'x':'y'}");
	/* What is kept when there is something to keep does not hold itself. */
	json_del(json_get(root, "spec"), "replicas");
	to_beta(d);
	notes = json_at_path(root, "metadata.annotations");
	is_true(json_get_str(notes, STATE) != NULL);
	is_true(strstr(json_get_str(notes, STATE), "state") == NULL);
	to_alpha(d);
	is_true(json_get(json_at_path(root, "metadata.annotations"), STATE) == NULL);
}

TEST(case_8_to_10_sandbox_born_in_v1beta1)
{
	static const struct {
		const char *spec;
		int replicas;
	} rows[] = {
		{ "{'operatingMode':'Running'}", 1 },
		{ "{'operatingMode':'Suspended'}", 0 },
		{ "{}", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc("{'status':{'nodeName':'n'}}");
		autoptr(json_doc) spec = doc(rows[i].spec);
		struct json *root = json_root(d);

		json_set(d, root, "spec", json_copy(d, json_root(spec)));
		to_alpha(d);
		eq_int(json_int(json_at_path(root, "spec.replicas"), -1), rows[i].replicas);
		eq_int(json_int(json_at_path(root, "status.replicas"), -1), rows[i].replicas);
		is_true(json_at_path(root, "spec.operatingMode") == NULL);
		is_true(json_at_path(root, "status.nodeName") == NULL);
	}
}

TEST(sandbox_state_that_is_not_ours_restores_nothing)
{
	autoptr(json_doc) d = doc("{'metadata':{'annotations':{'" STATE "':'{'}},"
				  "'spec':{'operatingMode':'Running'}}");

	to_alpha(d);
	eq_json(json_get(json_root(d), "spec"), "{'replicas':1}");
	eq_json(json_get(json_root(d), "metadata"), "{}");
}

#define EXTENSIONS "extensions.agents.x-k8s.io/v1alpha1 "

static const struct kind *alpha(const char *name)
{
	autofree char *full = xasprintf(EXTENSIONS "%s", name);

	return kind_named(full);
}

static struct json_doc *claim(const char *name, const char *spec, const char *sandbox)
{
	struct json_doc *d = doc("{'apiVersion':'extensions.agents.x-k8s.io/v1alpha1','kind':"
				 "'SandboxClaim','metadata':{}}");
	autoptr(json_doc) s = doc(spec);
	struct json *root = json_root(d);

	json_set_str(d, json_get(root, "metadata"), "name", name);
	json_set(d, root, "spec", json_copy(d, json_root(s)));
	if (sandbox)
		json_set_str(d, json_need_obj(d, json_need_obj(d, root, "status"), "sandbox"),
			     "name", sandbox);
	return d;
}

static const char *pool_of(const struct json_doc *d)
{
	return json_str(json_at_path(json_root(d), "spec.warmPoolRef.name"));
}

TEST(case_11_to_17_what_a_claim_says_of_pools)
{
	static const char own[] =
		"{'sandboxTemplateRef':{'name':'my-template'},'warmpool':'my-pool'}";
	static const char none[] =
		"{'sandboxTemplateRef':{'name':'my-template'},'warmpool':'none'}";
	static const char usual[] =
		"{'sandboxTemplateRef':{'name':'my-template'},'warmpool':'default'}";
	static const char unset[] = "{'sandboxTemplateRef':{'name':'my-template'}}";
	static const struct {
		const char *spec, *sandbox, *pool;
	} rows[] = {
		{ own, "c", "my-pool" },
		{ none, "c", "shadow-pool-my-template" },
		{ usual, "c", "shadow-pool-my-template" },
		{ own, "my-pool-abcde", "my-pool" },
		{ usual, "my-pool-abcde", "my-pool" },
		{ own, NULL, "my-pool" },
		{ unset, NULL, "shadow-pool-my-template" },
		/* A member of another's name, and one that has no pool in its name. */
		{ none, "other-x", "other" },
		{ none, "other", "other" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = claim("c", rows[i].spec, rows[i].sandbox);

		works(alpha("SandboxClaim")->to_storage(NULL, d));
		eq_str(json_get_str(json_root(d), "apiVersion"),
		       "extensions.agents.x-k8s.io/v1beta1");
		eq_str(pool_of(d), rows[i].pool);
		eq_int((int)json_len(json_get(json_root(d), "spec")), 1);
		works(alpha("SandboxClaim")->from_storage(NULL, d));
		eq_json(json_get(json_root(d), "spec"), rows[i].spec);
		eq_json(json_get(json_root(d), "metadata"), "{'name':'c'}");
	}
}

TEST(a_claim_that_got_another_pool_in_v1beta1_names_that)
{
	autoptr(json_doc) d = claim(
		"c", "{'sandboxTemplateRef':{'name':'t'},'warmpool':'default','env':[]}", NULL);
	struct json *spec = json_get(json_root(d), "spec");

	works(alpha("SandboxClaim")->to_storage(NULL, d));
	json_set_str(d, json_get(spec, "warmPoolRef"), "name", "new");
	works(alpha("SandboxClaim")->from_storage(NULL, d));
	eq_json(spec, "{'sandboxTemplateRef':{'name':'t'},'warmpool':'new','env':[]}");
}

TEST(case_18_to_20_a_claim_born_in_v1beta1)
{
	static const struct {
		const char *pool, *spec;
	} rows[] = {
		{ "my-pool", "{'sandboxTemplateRef':{'name':'my-pool'},'warmpool':'my-pool'}" },
		{ "", "{'sandboxTemplateRef':{'name':''},'warmpool':''}" },
		{ "shadow-pool-my-template",
		  "{'sandboxTemplateRef':{'name':'my-template'},'warmpool':'default'}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d =
			claim("c", "{'volumeClaimTemplates':[],'warmPoolRef':{}}", NULL);

		json_set_str(d, json_at_path(json_root(d), "spec.warmPoolRef"), "name",
			     rows[i].pool);
		works(alpha("SandboxClaim")->from_storage(NULL, d));
		eq_json(json_get(json_root(d), "spec"), rows[i].spec);
	}
}

#define CLAIM_STATE "api.agents.x-k8s.io/v1alpha1-sandboxclaim-state"

TEST(case_21_the_state_of_a_claim_never_shows_and_holds_no_other)
{
	autoptr(json_doc) d =
		claim("c", "{'sandboxTemplateRef':{'name':'t'},'warmpool':'none'}", NULL);
	struct json *root = json_root(d), *meta = json_get(root, "metadata");
	const char *text;

	json_set_str(d, json_need_obj(d, meta, "annotations"), CLAIM_STATE, "garbage");
	works(alpha("SandboxClaim")->to_storage(NULL, d));
	text = json_get_str(json_get(meta, "annotations"), CLAIM_STATE);
	eq_str(text, "{\"spec\":{\"sandboxTemplateRef\":{\"name\":\"t\"},\"warmpool\":\"none\"}}");
	works(alpha("SandboxClaim")->from_storage(NULL, d));
	eq_json(meta, "{'name':'c'}");
	/* One that is not ours restores nothing. */
	works(alpha("SandboxClaim")->to_storage(NULL, d));
	json_set_str(d, json_need_obj(d, meta, "annotations"), CLAIM_STATE, "[1]");
	works(alpha("SandboxClaim")->from_storage(NULL, d));
	eq_json(json_get(root, "spec"), "{'sandboxTemplateRef':{'name':'t'},'warmpool':'default'}");
}

#define POLICY "api.agents.x-k8s.io/v1beta1-volume-claim-templates-policy"

TEST(case_22_to_24_templates_and_the_policy_in_an_annotation)
{
	static const char spec[] =
		"{'podTemplate':{'spec':{'containers':[{'name':'c','image':'x'}]}},'service':true,"
		"'networkPolicy':{'ingress':[{}]},'networkPolicyManagement':'Managed',"
		"'envVarsInjectionPolicy':'Allowed','volumeClaimTemplates':[{'spec':{}}]}";
	const struct kind *k = alpha("SandboxTemplate");
	autoptr(json_doc) d = doc("{'metadata':{'annotations':{'" POLICY "':'Allowed'}}}");
	autoptr(json_doc) s = doc(spec);
	struct json *root = json_root(d);

	json_set(d, root, "spec", json_copy(d, json_root(s)));
	works(k->to_storage(NULL, d));
	eq_str(json_get_str(json_get(root, "spec"), "volumeClaimTemplatesPolicy"), "Allowed");
	eq_json(json_get(root, "metadata"), "{}");
	works(k->from_storage(NULL, d));
	eq_json(json_get(root, "spec"), spec);
	eq_json(json_get(root, "metadata"), "{'annotations':{'" POLICY "':'Allowed'}}");
	/* Cleared in v1beta1 while a stale annotation is still there. */
	works(k->from_storage(NULL, d));
	eq_json(json_get(root, "metadata"), "{}");
	works(k->to_storage(NULL, d));
	eq_json(json_get(root, "spec"), spec);
	json_set_str(d, json_need_obj(d, json_get(root, "metadata"), "annotations"), POLICY,
		     "Maybe");
	fails(k->to_storage(NULL, d), ERR_MALFORMED);
}

TEST(case_25_and_26_pools)
{
	static const char with[] =
		"{'metadata':{},'spec':{'replicas':3,'sandboxTemplateRef':{'name':'t'},"
		"'updateStrategy':{'type':'Recreate'}},'status':{'replicas':3,'readyReplicas':2,"
		"'selector':'a=b','observedGeneration':4}}";
	const struct kind *k = alpha("SandboxWarmPool");
	autoptr(json_doc) d = doc(with);
	autoptr(json_doc) plain = doc("{'spec':{'sandboxTemplateRef':{'name':'t'}}}");

	works(k->from_storage(NULL, d));
	works(k->to_storage(NULL, d));
	eq_json(json_get(json_root(d), "spec"),
		"{'replicas':3,'sandboxTemplateRef':{'name':'t'},'updateStrategy':{'type':'Recreate'}}");
	eq_json(json_get(json_root(d), "status"),
		"{'replicas':3,'readyReplicas':2,'selector':'a=b'}");
	works(k->from_storage(NULL, plain));
	eq_json(json_get(json_root(plain), "spec"),
		"{'replicas':1,'sandboxTemplateRef':{'name':'t'}}");
}

TEST(events_of_both_groups_are_one_object)
{
	static const char events[] =
		"{'apiVersion':'events.k8s.io/v1','kind':'Event','metadata':{'name':'e'},"
		"'eventTime':'2026-01-01T00:00:00.000000Z','reportingController':'c',"
		"'reportingInstance':'i','action':'a','reason':'r','regarding':{'name':'x'},"
		"'related':{'name':'y'},'note':'n','type':'Normal','deprecatedCount':2,"
		"'deprecatedSource':{'component':'q'},"
		"'deprecatedFirstTimestamp':'2026-01-01T00:00:00Z',"
		"'deprecatedLastTimestamp':'2026-01-01T00:00:01Z','series':{'count':3}}";
	autoptr(json_doc) d = doc(events);
	struct causes c = { 0 };

	works(kind_named("events.k8s.io/v1 Event")->to_storage(NULL, d));
	eq_json(json_root(d),
		"{'apiVersion':'v1','kind':'Event','metadata':{'name':'e'},"
		"'eventTime':'2026-01-01T00:00:00.000000Z','reportingComponent':'c',"
		"'reportingInstance':'i','action':'a','reason':'r','involvedObject':{'name':'x'},"
		"'related':{'name':'y'},'message':'n','type':'Normal','count':2,"
		"'source':{'component':'q'},'firstTimestamp':'2026-01-01T00:00:00Z',"
		"'lastTimestamp':'2026-01-01T00:00:01Z','series':{'count':3}}");
	decode(d, kind_named("Event")->type, &c);
	eq_int(c.n, 0);
	works(kind_named("events.k8s.io/v1 Event")->from_storage(NULL, d));
	eq_json(json_root(d), events);
	decode(d, kind_named("events.k8s.io/v1 Event")->type, &c);
	eq_int(c.n, 0);
	causes_done(&c);
}
