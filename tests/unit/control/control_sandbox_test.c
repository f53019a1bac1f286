/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/str.h"
#include "control/control_priv.h"
#include "control/pass/keys.h"
#include "kinds.h"
#include "world.h"

/* The Sandbox controller on a real server. */

#define POD_SPEC \
	"'podTemplate':{'spec':{'containers':[{'name':'c','image':'pause','ports':[{'containerPort':8080}]}]}}"

TEST(case_54_sandbox_gets_a_pod_at_once_and_says_so_before_long)
{
	struct world w;
	autoptr(object) pod = NULL;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"),
	       "{'metadata':{'name':'my-sandbox'},'spec':{" POD_SPEC "}}");
	turn(&w);
	pod = get(&w, kind_named("Pod"), "my-sandbox");
	is_true(pod);
	eq_str(object_label(pod, KEY_NAME_HASH), "374de8f5");
	step(&w, 100);
	eq_str(condition_of(&w, kind_named("Sandbox"), "my-sandbox", "Suspended"),
	       "False/NotSuspended/Sandbox is not suspended");
	is_true(str_starts(condition_of(&w, kind_named("Sandbox"), "my-sandbox", "Ready"),
			   "False/DependenciesNotReady/Pod exists with phase: "));
	eq_int(count(&w, kind_named("Service")), 0);
	world_done(&w);
}

TEST(a_start_that_goes_well_is_reported_once)
{
	struct world w;
	uint64_t rev, passes;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"), "{'metadata':{'name':'box'},'spec':{" POD_SPEC "}}");
	rev = world_rev(&w);
	turn(&w);
	step(&w, 90);
	eq_int(world_rev(&w), rev + 2); /* the Pod and an Event */
	passes = w.control->n_passes[CONTROL_SANDBOX];
	pod_runs(&w, "box");
	eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
	       "True/DependenciesReady/Pod is Ready");
	eq_int(world_rev(&w), rev + 5); /* the Pod's status, the Sandbox's and an Event */
	eq_int(w.control->n_passes[CONTROL_SANDBOX], passes + 1);
	patch(&w, kind_named("Sandbox"), "box", "status", "{'status':{'conditions':[]}}");
	turn(&w);
	eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
	       "True/DependenciesReady/Pod is Ready"); /* what others write there is mended */
	world_done(&w);
}

TEST(a_start_that_waits_is_reported_before_it_is_complete)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"), "{'metadata':{'name':'box'},'spec':{" POD_SPEC "}}");
	turn(&w);
	patch(&w, kind_named("Pod"), "box", "status",
	      "{'status':{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False',"
	      "'reason':'Unschedulable'}]}}");
	turn(&w);
	eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
	       "False/DependenciesNotReady/Pod exists with phase: Pending; Unschedulable");
	eq_str(condition_of(&w, kind_named("Sandbox"), "box", "PodScheduled"),
	       "False/Unschedulable/");
	world_done(&w);
}

TEST(cases_90_107_service_and_volume_claims_are_made)
{
	struct world w;
	autoptr(object) sb = NULL;
	autoptr(object) pvc = NULL;
	autoptr(object) svc = NULL;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"),
	       "{'metadata':{'name':'box'},'spec':{" POD_SPEC
	       ",'service':true,'volumeClaimTemplates':[{'metadata':{'name':'data'},'spec':{'accessModes':["
	       "'ReadWriteOnce'],'resources':{'requests':{'storage':'1Gi'}}}}]}}");
	turn(&w);
	pod_runs(&w, "box");
	pvc = get(&w, kind_named("PersistentVolumeClaim"), "data-box");
	svc = get(&w, kind_named("Service"), "box");
	sb = get(&w, kind_named("Sandbox"), "box");
	is_true(pvc && svc);
	is_true(object_controlled_by(pvc, sb->uid) && object_controlled_by(svc, sb->uid));
	eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
	       "True/DependenciesReady/Pod is Ready; Service Exists");
	eq_str(json_get_str(object_status(sb), "serviceFQDN"), "box.default.svc.cluster.local");
	eq_json(json_get(object_status(sb), "podIPs"), "['10.0.0.1']");
	world_done(&w);
}

TEST(case_u19_each_event_once)
{
	struct world w;
	uint64_t rev;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"), "{'metadata':{'name':'box'},'spec':{" POD_SPEC "}}");
	turn(&w);
	pod_runs(&w, "box");
	rev = world_rev(&w);
	patch(&w, kind_named("Sandbox"), "box", NULL, "{'metadata':{'annotations':{'a':'b'}}}");
	turn(&w);
	eq_int(world_rev(&w), rev + 1); /* all is well: nothing of ours is written */
	eq_int(count_events(&w, "SandboxPodCreated"), 1);
	eq_int(count_events(&w, "SandboxReady"), 1);
	world_done(&w);
}

TEST(case_118_suspend_and_resume_twice)
{
	struct world w;
	uint64_t n = 0;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"),
	       "{'metadata':{'name':'box'},'spec':{" POD_SPEC ",'service':true}}");
	turn(&w);
	pod_runs(&w, "box");
	for (int i = 0; i < 2; i++) {
		autoptr(object) pod = NULL;

		patch(&w, kind_named("Sandbox"), "box", NULL,
		      "{'spec':{'operatingMode':'Suspended'}}");
		turn(&w);
		pod = get(&w, kind_named("Pod"), "box");
		if (pod) /* a node would end it */
			delete_now(&w, kind_named("Pod"), "box");
		turn(&w);
		eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Suspended"),
		       "True/PodTerminated/Pod has been terminated. Sandbox is suspended");
		eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
		       "False/SandboxSuspended/Sandbox is suspended");
		eq_int(count(&w, kind_named("Pod")), 0);
		eq_int(count(&w, kind_named("Service")), 1);
		patch(&w, kind_named("Sandbox"), "box", NULL,
		      "{'spec':{'operatingMode':'Running'}}");
		turn(&w);
		eq_int(count(&w, kind_named("Pod")), 1);
		pod_runs(&w, "box");
		eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
		       "True/DependenciesReady/Pod is Ready; Service Exists");
		eq_int(count_events(&w, "SandboxSuspended"), ++n);
	}
	world_done(&w);
}

TEST(cases_111_116_expiry_retained_and_undone)
{
	struct world w;
	autoptr(object) sb = NULL;
	char at[CLOCK_TEXT_MAX];

	world_open(&w, NULL);
	clock_format(clock_wall() + 3600 * 1000000LL, at);
	{
		autofree char *text = xasprintf("{'metadata':{'name':'box'},'spec':{" POD_SPEC
						",'service':true,'shutdownTime':'%s'}}",
						at);

		create(&w, kind_named("Sandbox"), text);
	}
	turn(&w);
	pod_runs(&w, "box");
	step(&w, 3590 * 1000);
	eq_int(count(&w, kind_named("Pod")), 1);
	step(&w, 20 * 1000);
	eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
	       "False/SandboxExpired/Sandbox has expired");
	eq_int(count(&w, kind_named("Service")), 0);
	sb = get(&w, kind_named("Sandbox"), "box");
	eq_int(json_len(object_status(sb)), 1);
	eq_int(count_events(&w, "SandboxExpired"), 1);
	if (count(&w, kind_named("Pod")))
		delete_now(&w, kind_named("Pod"), "box");
	turn(&w);
	eq_int(count(&w, kind_named("Pod")), 0);
	patch(&w, kind_named("Sandbox"), "box", NULL, "{'spec':{'shutdownTime':null}}");
	turn(&w);
	eq_int(count(&w, kind_named("Pod")), 1);
	world_done(&w);
}

TEST(case_113_expiry_deletes)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"),
	       "{'metadata':{'name':'box'},'spec':{" POD_SPEC
	       ",'shutdownPolicy':'Delete','shutdownTime':'2020-01-01T00:00:00Z'}}");
	step(&w, 10);
	eq_int(count(&w, kind_named("Sandbox")), 0);
	eq_int(count_events(&w, "SandboxExpired"), 0);
	world_done(&w);
}

TEST(case_82_two_pods_are_reported_once_and_left_alone)
{
	struct world w;
	autoptr(object) sb = NULL;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"),
	       "{'metadata':{'name':'my-sandbox'},'spec':{" POD_SPEC "}}");
	turn(&w);
	sb = get(&w, kind_named("Sandbox"), "my-sandbox");
	{
		autofree char *text = xasprintf(
			"{'metadata':{'name':'other','labels':{'agents.x-k8s.io/sandbox-name-hash':"
			"'374de8f5'},'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1','kind':"
			"'Sandbox','name':'my-sandbox','uid':'%s','controller':true}]},'spec':{'containers':[{"
			"'name':'c','image':'pause'}]}}",
			sb->uid);

		create(&w, kind_named("Pod"), text);
	}
	turn(&w);
	patch(&w, kind_named("Sandbox"), "my-sandbox", NULL,
	      "{'metadata':{'annotations':{'a':'b'}}}");
	turn(&w);
	is_true(str_starts(condition_of(&w, kind_named("Sandbox"), "my-sandbox", "Ready"),
			   "False/MultiplePods/multiple Pods (2)"));
	eq_int(count_events(&w, "MultiplePods"), 1);
	eq_int(count(&w, kind_named("Pod")), 2);
	world_done(&w);
}

TEST(case_87_a_pod_that_was_deleted_comes_back)
{
	struct world w;
	autoptr(object) before = NULL;
	autoptr(object) after = NULL;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"), "{'metadata':{'name':'box'},'spec':{" POD_SPEC "}}");
	turn(&w);
	before = get(&w, kind_named("Pod"), "box");
	delete_now(&w, kind_named("Pod"), "box");
	turn(&w);
	after = get(&w, kind_named("Pod"), "box");
	is_true(after && !str_eq(before->uid, after->uid));
	world_done(&w);
}

TEST(case_72_a_foreign_pod_is_left_alone_and_the_error_is_told)
{
	struct world w;
	autoptr(object) pod = NULL;

	world_open(&w, NULL);
	create(&w, kind_named("Pod"),
	       "{'metadata':{'name':'box','ownerReferences':[{'apiVersion':'apps/v1','kind':"
	       "'Deployment','name':'d','uid':'00000000-0000-4000-8000-000000000001',"
	       "'controller':true}],'finalizers':['x.io/keep']},'spec':{'containers':[{'name':'c','image':'pause'}]}}");
	create(&w, kind_named("Sandbox"), "{'metadata':{'name':'box'},'spec':{" POD_SPEC "}}");
	turn(&w);
	pod = get(&w, kind_named("Pod"), "box");
	is_true(str_starts(
		condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
		"False/ReconcilerError/Error seen: pod \"box\" is owned by Deployment/d"));
	is_false(object_label(pod, KEY_NAME_HASH));
	world_done(&w);
}

TEST(case_u15_what_the_api_refuses_is_not_tried_again)
{
	struct world w;
	uint64_t rev;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"),
	       "{'metadata':{'name':'box'},'spec':{'podTemplate':{'spec':{'restartPolicy':'Sometimes',"
	       "'containers':[{'name':'c','image':'pause'}]}}}}");
	turn(&w);
	is_true(str_starts(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
			   "False/InvalidConfiguration/Error seen: failed to create pod: "));
	eq_int(count_events(&w, "SandboxPodCreateFailed"), 1);
	rev = world_rev(&w);
	step(&w, 50 * 60 * 1000); /* its Event still exists */
	eq_int(world_rev(&w), rev);
	eq_int(count_events(&w, "SandboxPodCreateFailed"), 1);
	patch(&w, kind_named("Sandbox"), "box", NULL,
	      "{'spec':{'podTemplate':{'spec':{'restartPolicy':'Never'}}}}");
	turn(&w);
	eq_int(count(&w, kind_named("Pod")), 1);
	world_done(&w);
}
