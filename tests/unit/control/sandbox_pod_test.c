/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/view_sandbox.h"
#include "base/str.h"
#include "control/pass/keys.h"
#include "control/sandbox/sandbox_priv.h"
#include "fixture.h"
#include "kinds.h"

/* The Pod of a Sandbox: cases 54 to 88 of docs/reference/cases.md, U13 and U14. */

#define OWNER(kind, group, uid)                                              \
	"'ownerReferences':[{'apiVersion':'" group "/v1beta1','kind':'" kind \
	"','name':'o','uid':'" uid "','controller':true}]"
#define OWNED         OWNER("Sandbox", "agents.x-k8s.io", "u1")
#define FOREIGN_OWNER OWNER("Deployment", "apps", "u9")
#define H             "374de8f5" /* of my-sandbox */

static struct object *sandbox(const char *meta, const char *spec)
{
	return object_of_f(
		kind_named("Sandbox"),
		"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','metadata':{'name':"
		"'my-sandbox','namespace':'ns','uid':'u1'%s},'spec':%s}",
		meta, spec);
}

static struct sandbox_pod_plan decide(const struct object *sb, struct object *tracked,
				      struct object *owned)
{
	struct object *list[] = { owned };

	return sandbox_pod_decide(&(struct sandbox_pod_seen){ sb, tracked, list, owned ? 1 : 0 });
}

static void plan_done(struct sandbox_pod_plan *p)
{
	json_doc_free(p->step.doc);
	err_free(p->e);
}

TEST(case_54_a_minimal_sandbox_makes_a_pod_of_its_name)
{
	autoptr(object) sb = sandbox("", "{'podTemplate':{'spec':{'containers':[{'name':'c'}]}}}");
	struct sandbox_pod_plan p = decide(sb, NULL, NULL);

	eq_int(p.step.verb, STEP_CREATE);
	eq_json(json_root(p.step.doc),
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'my-sandbox','namespace':'ns',"
		"'labels':{'agents.x-k8s.io/sandbox-name-hash':'" H "'},'annotations':{},"
		"'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','name':"
		"'my-sandbox','uid':'u1','controller':true,'blockOwnerDeletion':true}]},"
		"'spec':{'containers':[{'name':'c'}]}}");
	plan_done(&p);
}

TEST(cases_55_61_63_template_metadata_reaches_the_pod_but_system_keys_do_not)
{
	autoptr(object) sb = sandbox(
		",'labels':{'agents.x-k8s.io/warm-pool-sandbox':'x','agents.x-k8s.io/"
		"sandbox-template-ref-hash':'y'}",
		"{'podTemplate':{'metadata':{'labels':{'b':'1','a':'2','agents.x-k8s.io/"
		"sandbox-name-hash':'evil','extensions.agents.x-k8s.io/z':'1'},'annotations':{'n':'1',"
		"'agents.x-k8s.io/pod-name':'p','opentelemetry.io/trace-context':'t'}},'spec':{}}}");
	autoptr(json_doc) d = sandbox_pod_build(sb);
	const struct json *meta = json_get(json_root(d), "metadata");

	eq_json(json_get(meta, "labels"),
		"{'b':'1','a':'2','agents.x-k8s.io/sandbox-name-hash':'" H "'}");
	eq_json(json_get(meta, "annotations"), "{'n':'1','agents.x-k8s.io/propagated-labels':'a,b',"
					       "'agents.x-k8s.io/propagated-annotations':'n'}");
}

TEST(cases_64_66_67_owners_from_the_extensions_pass_their_labels_on)
{
	autoptr(object) pool =
		sandbox(",'labels':{'agents.x-k8s.io/warm-pool-sandbox':'x','agents.x-k8s.io/"
			"sandbox-template-ref-hash':'y','agents.x-k8s.io/claim-uid':'c'}," OWNER(
				"SandboxWarmPool", "extensions.agents.x-k8s.io", "p"),
			"{}");
	autoptr(object) claim =
		sandbox(",'labels':{'agents.x-k8s.io/warm-pool-sandbox':'x','agents.x-k8s.io/"
			"sandbox-template-ref-hash':'y'}," OWNER("SandboxClaim",
								 "extensions.agents.x-k8s.io", "p"),
			"{}");
	autoptr(json_doc) a = sandbox_pod_build(pool);
	autoptr(json_doc) b = sandbox_pod_build(claim);

	eq_json(json_at_path(json_root(a), "metadata.labels"),
		"{'agents.x-k8s.io/sandbox-name-hash':'" H "','agents.x-k8s.io/"
		"sandbox-template-ref-hash':'y','agents.x-k8s.io/warm-pool-sandbox':'x'}");
	eq_json(json_at_path(json_root(b), "metadata.labels"),
		"{'agents.x-k8s.io/sandbox-name-hash':'" H "','agents.x-k8s.io/"
		"sandbox-template-ref-hash':'y'}");
}

TEST(cases_62_65_68_77_79_a_living_pod_follows)
{
	static const struct {
		const char *meta, *template, *labels, *annotations, *patch;
	} rows[] = {
		/* 77: what the template lost goes, what others put there stays */
		{ "", "{}",
		  "{'agents.x-k8s.io/sandbox-name-hash':'" H
		  "','old':'1','agents.x-k8s.io/system-label':'s'}",
		  "{'agents.x-k8s.io/propagated-labels':'old','gone':'1','kubernetes.io/x':'y',"
		  "'agents.x-k8s.io/propagated-annotations':'gone'}",
		  "{'metadata':{'labels':{'old':null},'annotations':{'gone':null,"
		  "'agents.x-k8s.io/propagated-labels':'','agents.x-k8s.io/"
		  "propagated-annotations':''}}}" },
		/* 62: reserved keys that an old controller propagated */
		{ "", "{'labels':{'a':'1'}}",
		  "{'agents.x-k8s.io/sandbox-name-hash':'" H "','a':'1','agents.x-k8s.io/bad':'1'}",
		  "{'agents.x-k8s.io/propagated-labels':'a,agents.x-k8s.io/"
		  "bad,agents.x-k8s.io/sandbox-name-hash'}",
		  "{'metadata':{'labels':{'agents.x-k8s.io/bad':null},'annotations':{"
		  "'agents.x-k8s.io/propagated-labels':'a'}}}" },
		/* 65, 68: no longer owned by the extensions */
		{ ",'labels':{'agents.x-k8s.io/warm-pool-sandbox':'x'}", "{}",
		  "{'agents.x-k8s.io/sandbox-name-hash':'" H
		  "','agents.x-k8s.io/warm-pool-sandbox':'x',"
		  "'agents.x-k8s.io/sandbox-template-ref-hash':'y'}",
		  "{}",
		  "{'metadata':{'labels':{'agents.x-k8s.io/warm-pool-sandbox':null,"
		  "'agents.x-k8s.io/sandbox-template-ref-hash':null}}}" },
		/* 79 */
		{ ",'labels':{'agents.x-k8s.io/created-by':'me'}", "{}",
		  "{'agents.x-k8s.io/sandbox-name-hash':'" H "'}", "{}",
		  "{'metadata':{'labels':{'agents.x-k8s.io/created-by':'unknown'}}}" },
		{ "", "{}",
		  "{'agents.x-k8s.io/sandbox-name-hash':'" H
		  "','agents.x-k8s.io/created-by':'go-client'}",
		  "{}", "{'metadata':{'labels':{'agents.x-k8s.io/created-by':null}}}" },
		/* 120, second pass: all is well */
		{ ",'labels':{'agents.x-k8s.io/created-by':'go-client'}", "{'labels':{'a':''}}",
		  "{'a':'','agents.x-k8s.io/sandbox-name-hash':'" H
		  "','agents.x-k8s.io/created-by':'go-client'}",
		  "{'agents.x-k8s.io/propagated-labels':'a'}", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *spec =
			xasprintf("{'podTemplate':{'metadata':%s}}", rows[i].template);
		autoptr(object) sb = sandbox(rows[i].meta, spec);
		autoptr(object) pod = object_of_f(kind_named("Pod"),
						  "{'metadata':{'name':'my-sandbox'," OWNED
						  ",'labels':%s,'annotations':%s}}",
						  rows[i].labels, rows[i].annotations);
		autoptr(json_doc) patch = sandbox_pod_sync(sb, pod);

		if (rows[i].patch)
			eq_json(json_root(patch), rows[i].patch);
		else
			is_false(patch);
	}
}

TEST(cases_57_to_60_72_78_who_may_be_adopted)
{
	static const struct {
		const char *meta;
		enum step_verb verb;
		const char *e;
	} rows[] = {
		{ "'labels':{'agents.x-k8s.io/adoptable':'true'}", STEP_PATCH, NULL },
		{ "'labels':{'agents.x-k8s.io/sandbox-name-hash':'" H "'}", STEP_PATCH, NULL },
		{ "'labels':{}", STEP_NONE,
		  "cannot adopt unowned pod \"my-sandbox\": missing required pool authorization label "
		  "(\"agents.x-k8s.io/adoptable\") or sandbox tracking label "
		  "(\"agents.x-k8s.io/sandbox-name-hash\")" },
		{ FOREIGN_OWNER, STEP_NONE,
		  "pod \"my-sandbox\" is owned by Deployment/o (UID: u9), not by sandbox "
		  "\"my-sandbox\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) sb = sandbox("", "{}");
		autoptr(object) pod =
			object_of_f(kind_named("Pod"),
				    "{'metadata':{'name':'my-sandbox','resourceVersion':'5',%s}}",
				    rows[i].meta);
		struct sandbox_pod_plan p = decide(sb, pod, NULL);

		eq_int(p.step.verb, rows[i].verb);
		eq_str(p.e ? err_text(p.e) : NULL, rows[i].e);
		if (rows[i].verb == STEP_PATCH)
			eq_str(json_get_str(json_at(json_at_path(json_root(p.step.doc),
								 "metadata.ownerReferences"),
						    0),
					    "uid"),
			       "u1");
		plan_done(&p);
	}
}

TEST(cases_69_to_76_suspended_deletes_only_its_own)
{
	static const struct {
		const char *annotation, *pod;
		enum step_verb verb;
		bool forget;
	} rows[] = {
		{ "", NULL, STEP_NONE, false },
		{ "", OWNED, STEP_DELETE, false },
		{ "", OWNED ",'deletionTimestamp':'2026-01-01T00:00:00Z'", STEP_NONE, false },
		{ "", FOREIGN_OWNER, STEP_NONE, false },
		{ ",'annotations':{'agents.x-k8s.io/pod-name':'p'}", FOREIGN_OWNER, STEP_NONE,
		  true },
		{ ",'annotations':{'agents.x-k8s.io/pod-name':'p'}", "'x':'y'", STEP_NONE, true },
		{ ",'annotations':{'agents.x-k8s.io/pod-name':'p'}", OWNED, STEP_DELETE, false },
		{ ",'annotations':{'agents.x-k8s.io/pod-name':'p'}", NULL, STEP_NONE, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) sb = sandbox(rows[i].annotation, "{'operatingMode':'Suspended'}");
		autoptr(object) pod =
			rows[i].pod
				? object_of_f(kind_named("Pod"), "{'metadata':{'name':'%s',%s}}",
					      sandbox_view(sb)->pod_name, rows[i].pod)
				: NULL;
		bool owned = pod && object_controlled_by(pod, "u1");
		struct sandbox_pod_plan p = decide(sb, pod, owned ? pod : NULL);

		eq_int(p.step.verb, rows[i].verb);
		is_true(p.step.verb != STEP_DELETE || (pod && p.step.uid == pod->uid));
		eq_int(p.forget_name, rows[i].forget);
		is_false(p.e);
		plan_done(&p);
	}
}

TEST(cases_80_81_the_owned_pod_wins_over_the_annotation)
{
	autoptr(object) sb = sandbox(",'annotations':{'agents.x-k8s.io/pod-name':'other'}", "{}");
	autoptr(object) owned =
		object_of(kind_named("Pod"), "{'metadata':{'name':'my-sandbox'," OWNED "}}");
	autoptr(object) other = object_of(
		kind_named("Pod"),
		"{'metadata':{'name':'other','labels':{'agents.x-k8s.io/adoptable':'true'}}}");
	struct sandbox_pod_plan p = decide(sb, other, owned);

	is_true(p.pod == owned);
	is_true(p.forget_name);
	eq_int(p.step.verb, STEP_NONE);
	plan_done(&p);
}

TEST(case_u14_a_named_pod_that_is_owned_is_used_and_not_renamed)
{
	autoptr(object) sb = sandbox(",'annotations':{'agents.x-k8s.io/pod-name':'other'}", "{}");
	autoptr(object) pod = object_of(kind_named("Pod"),
					"{'metadata':{'name':'other','labels':{'agents.x-k8s.io/"
					"sandbox-name-hash':'" H "'}," OWNED "}}");
	struct sandbox_pod_plan p = decide(sb, pod, pod);

	is_true(p.pod == pod);
	is_false(p.forget_name);
	eq_int(p.step.verb, STEP_NONE);
	plan_done(&p);
}

TEST(cases_82_84_two_pods_or_a_leaving_one_stop_creation)
{
	autoptr(object) sb = sandbox("", "{}");
	autoptr(object) a = object_of(kind_named("Pod"), "{'metadata':{'name':'a'," OWNED "}}");
	autoptr(object) leaving = object_of(
		kind_named("Pod"),
		"{'metadata':{'name':'my-sandbox','deletionTimestamp':'2026-01-01T00:00:00Z'"
		"," OWNED "}}");
	struct object *two[] = { a, leaving };
	struct sandbox_pod_plan p =
		sandbox_pod_decide(&(struct sandbox_pod_seen){ sb, leaving, two, 2 });

	eq_int(p.n_owned, 2);
	eq_int(p.step.verb, STEP_NONE);
	is_false(p.pod);
	plan_done(&p);
	p = decide(sb, leaving, leaving);
	eq_int(p.step.verb, STEP_NONE);
	is_true(p.pod == leaving);
	plan_done(&p);
}

TEST(case_88_claimed_volumes_replace_and_come_last)
{
	autoptr(object) sb = sandbox(
		"",
		"{'podTemplate':{'spec':{'volumes':[{'name':'data','emptyDir':{}},"
		"{'name':'tmp','emptyDir':{}}]}},'volumeClaimTemplates':[{'metadata':{'name':'data'"
		"}}]}");
	autoptr(json_doc) d = sandbox_pod_build(sb);

	eq_json(json_at_path(json_root(d), "spec.volumes"),
		"[{'name':'tmp','emptyDir':{}},{'name':'data','persistentVolumeClaim':{'claimName':"
		"'data-my-sandbox'}}]");
}
