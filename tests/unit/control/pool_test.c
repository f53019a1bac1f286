/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "control/pool_priv.h"
#include "fixture.h"
#include "kinds.h"

/* Warm pools: cases 133 to 163 of reference/api.md, U20 and U21. */

TEST(cases_133_158_161_pools_move_towards_the_desired_number)
{
	static const struct {
		struct pool_seen seen;
		struct pool_plan plan;
	} rows[] = {
		{ { .desired = 3, .template_found = true, .max_batch = 300, .burst = 8 },
		  { .create = 3 } },
		{ { .desired = 3,
		    .active = 1,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 8 },
		  { .create = 2 } },
		{ { .desired = 3,
		    .active = 3,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 8 },
		  { 0 } },
		{ { .desired = 3, .active = 4, .template_found = true, .max_batch = 300 },
		  { .remove = 1 } },
		{ { .desired = 0, .active = 4, .template_found = true, .max_batch = 300 },
		  { .remove = 4 } },
		/* 158: one on its way out still counts */
		{ { .desired = 2,
		    .active = 1,
		    .terminating = 1,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 8 },
		  { 0 } },
		/* batches, and rounds that grow */
		{ { .desired = 900, .template_found = true, .max_batch = 300, .burst = 512 },
		  { .create = 300 } },
		{ { .desired = 900, .template_found = true, .max_batch = 300 }, { .create = 1 } },
		{ { .desired = 900, .template_found = true, .max_batch = 300, .burst = 4 },
		  { .create = 4 } },
		{ { .desired = 0, .active = 900, .template_found = true, .max_batch = 300 },
		  { .remove = 300 } },
		/* whatever number is asked for, only so many are on their way at a time */
		{ { .desired = INT32_MAX,
		    .active = 1900,
		    .ready = 1000,
		    .terminating = 60,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 512 },
		  { .create = 40 } },
		{ { .desired = INT32_MAX,
		    .active = 1000,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 512 },
		  { 0 } },
		/* U21: without a template nothing is made, and it is said; unless nothing is wanted
		 */
		{ { .desired = 2, .max_batch = 300, .recheck_ms = 60000 },
		  { .stalled = true, .again_ms = 60000 } },
		{ { .desired = 0, .max_batch = 300, .recheck_ms = 60000 }, { 0 } },
		/* 159, 163: comes back by itself for those that are held or young */
		{ { .desired = 1,
		    .active = 1,
		    .unschedulable = 1,
		    .template_found = true,
		    .max_batch = 300,
		    .recheck_ms = 60000 },
		  { .stalled = true, .again_ms = 60000 } },
		{ { .desired = 2,
		    .active = 2,
		    .template_found = true,
		    .max_batch = 300,
		    .grace_left_ms = 62000,
		    .recheck_ms = 60000 },
		  { .again_ms = 62000 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pool_plan p = pool_decide(&rows[i].seen);

		eq_int(p.create, rows[i].plan.create);
		eq_int(p.remove, rows[i].plan.remove);
		eq_int(p.stalled, rows[i].plan.stalled);
		eq_int(p.again_ms, rows[i].plan.again_ms);
	}
}

TEST(cases_145_155_159_160_u20_the_fate_of_a_member)
{
#define MIN_5    300000
#define AGE(min) ((usec)(min) * 60 * 1000000)
	static const struct {
		struct member_seen seen;
		const char *pod;
		bool recreate;
		enum fate fate;
	} rows[] = {
		{ { .deleting = true, .ready = true }, NULL, false, FATE_TERMINATING },
		{ { .ready = true, .stale = true }, NULL, false, FATE_ACTIVE },
		{ { .ready = true, .stale = true }, NULL, true, FATE_STALE },
		{ { .ready = true, .age = AGE(60), .grace_ms = MIN_5 }, NULL, false, FATE_ACTIVE },
		{ { .age = AGE(2), .grace_ms = MIN_5 }, NULL, false, FATE_YOUNG },
		{ { .age = AGE(10), .grace_ms = MIN_5 }, NULL, false, FATE_STUCK },
		{ { .age = AGE(10), .grace_ms = MIN_5 },
		  "'status':'False','reason':'Unschedulable'",
		  false,
		  FATE_HELD },
		{ { .age = AGE(10), .grace_ms = MIN_5 },
		  "'status':'False','reason':'SchedulingGated'",
		  false,
		  FATE_HELD },
		{ { .age = AGE(10), .grace_ms = MIN_5 }, "'status':'True'", false, FATE_STUCK },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct member_seen seen = rows[i].seen;
		autoptr(object) pod =
			rows[i].pod
				? object_of_f(
					  kind_named("Pod"),
					  "{'metadata':{},'status':{'conditions':[{'type':'PodScheduled',%s}]}}",
					  rows[i].pod)
				: NULL;

		seen.pod = pod;
		eq_int(member_fate(&seen, rows[i].recreate), rows[i].fate);
	}
}

static const char pool_text[] =
	"{'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxWarmPool','metadata':{'name':"
	"'test-pool','namespace':'ns','uid':'p1','generation':4},'spec':{'sandboxTemplateRef':{'name':"
	"'test-template'}}}";

TEST(cases_135_136_137_what_a_member_looks_like)
{
	autoptr(object) pool = object_of(kind_named("SandboxWarmPool"), pool_text);
	autoptr(object) t = object_of(
		kind_named("SandboxTemplate"),
		"{'metadata':{'name':'test-template'},'spec':{'podTemplate':{'metadata':{'labels':{'a':'b'}},"
		"'spec':{'runtimeClassName':'r'}},'volumeClaimTemplates':[{'metadata':{'name':'data'}},"
		"{'metadata':{'name':'cache'}}],'service':true}}");
	autoptr(json_doc) d = member_build(pool, t, "bbbb", "pppp");

	eq_json(json_root(d),
		"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','metadata':{'generateName':"
		"'test-pool-','namespace':'ns','labels':{'agents.x-k8s.io/warm-pool-sandbox':'59733166',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':'69155462',"
		"'agents.x-k8s.io/sandbox-pod-template-hash':'pppp','agents.x-k8s.io/"
		"sandbox-template-hash':'bbbb','agents.x-k8s.io/launch-type':'warm',"
		"'agents.x-k8s.io/created-by':'controller'},'annotations':{'agents.x-k8s.io/"
		"sandbox-template-ref':'test-template'},'ownerReferences':[{'apiVersion':"
		"'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxWarmPool','name':'test-pool','uid':'p1',"
		"'controller':true,'blockOwnerDeletion':true}]},'spec':{'podTemplate':{'metadata':{'labels':{"
		"'a':'b','agents.x-k8s.io/warm-pool-sandbox':'59733166',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':'69155462',"
		"'agents.x-k8s.io/sandbox-pod-template-hash':'pppp','agents.x-k8s.io/"
		"sandbox-template-hash':'bbbb'},'annotations':{'cluster-autoscaler.kubernetes.io/"
		"safe-to-evict':'true'}},'spec':{'runtimeClassName':'r','automountServiceAccountToken':false,"
		"'dnsPolicy':'None','dnsConfig':{'nameservers':['8.8.8.8','1.1.1.1']}}},"
		"'volumeClaimTemplates':[{'metadata':{'name':'data'}},{'metadata':{'name':'cache'}}],"
		"'service':true}}");
}

TEST(case_141_the_templates_word_on_eviction_wins)
{
	autoptr(object) pool = object_of(kind_named("SandboxWarmPool"), pool_text);
	autoptr(object) t = object_of(
		kind_named("SandboxTemplate"),
		"{'metadata':{'name':'test-template'},'spec':{'podTemplate':{'metadata':{'annotations':{"
		"'cluster-autoscaler.kubernetes.io/safe-to-evict':'false'}},'spec':{}}}}");
	autoptr(json_doc) d = member_build(pool, t, "b", "p");

	eq_json(json_at_path(json_root(d), "spec.podTemplate.metadata.annotations"),
		"{'cluster-autoscaler.kubernetes.io/safe-to-evict':'false'}");
}

TEST(cases_139_140_what_a_pool_reports)
{
	autoptr(object) pool = object_of(kind_named("SandboxWarmPool"), pool_text);
	autoptr(json_doc) some = pool_status(pool, 3, 2);
	autoptr(json_doc) none = pool_status(pool, 0, 0);

	eq_json(json_root(some),
		"{'replicas':3,'readyReplicas':2,'selector':'agents.x-k8s.io/warm-pool-sandbox=59733166',"
		"'observedGeneration':4}");
	eq_json(json_root(none),
		"{'selector':'agents.x-k8s.io/warm-pool-sandbox=59733166','observedGeneration':4}");
}
