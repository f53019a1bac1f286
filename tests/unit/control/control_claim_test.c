/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "claims.h"
#include "control/control_priv.h"
#include "control/pass/keys.h"
#include "kinds.h"
#include "world.h"

/* Templates, pools and claims on a real server. */

#define CONTAINERS "'containers':[{'name':'c','image':'pause'}]"

static bool first_name(void *arg, struct object *o)
{
	*(char **)arg = xstrdup(o->name);
	return false;
}

TEST(case_125_a_template_gets_its_policy_and_label)
{
	struct world w;
	uint64_t rev;
	autoptr(object) t = NULL;

	world_open(&w, NULL);
	make_template(&w, "t", "");
	turn(&w);
	eq_int(count(&w, kind_named("NetworkPolicy")), 1);
	t = get(&w, kind_named("SandboxTemplate"), "t");
	is_true(object_label(t, KEY_TEMPLATE_REF_HASH));
	rev = world_rev(&w);
	patch(&w, kind_named("SandboxTemplate"), "t", NULL,
	      "{'metadata':{'annotations':{'x':'y'}}}");
	turn(&w);
	eq_int(world_rev(&w), rev + 1);
	patch(&w, kind_named("SandboxTemplate"), "t", NULL,
	      "{'spec':{'networkPolicyManagement':'Unmanaged'}}");
	turn(&w);
	eq_int(count(&w, kind_named("NetworkPolicy")), 0);
	world_done(&w);
}

TEST(case_133_a_pool_of_ten_fills_in_one_turn_and_follows_its_number)
{
	struct world w;
	autoptr(object) pool = NULL;

	open_with_pool(&w, "10");
	eq_int(count(&w, kind_named("Sandbox")), 10);
	eq_int(count(&w, kind_named("Pod")), 10);
	step(&w, 200);
	pool = get(&w, kind_named("SandboxWarmPool"), "p");
	eq_int(json_get_int(object_status(pool), "replicas", 0), 10);
	eq_int(json_get_int(object_status(pool), "readyReplicas", 0), 10);
	patch(&w, kind_named("SandboxWarmPool"), "p", NULL, "{'spec':{'replicas':3}}");
	turn(&w);
	eq_int(count(&w, kind_named("Sandbox")), 3);
	patch(&w, kind_named("SandboxWarmPool"), "p", NULL, "{'spec':{'replicas':0}}");
	step(&w, 200);
	eq_int(count(&w, kind_named("Sandbox")), 0);
	object_unref(take(pool));
	pool = get(&w, kind_named("SandboxWarmPool"), "p");
	is_false(json_get(object_status(pool), "replicas"));
	world_done(&w);
}

TEST(case_227_a_warm_claim_is_ready_in_one_turn)
{
	struct world w;
	autofree char *name = NULL;
	autoptr(object) claim = NULL;
	autoptr(object) sb = NULL;
	autoptr(object) pod = NULL;

	open_with_pool(&w, "2");
	make_claim(&w, "c", "p", "");
	turn(&w);
	eq_str(ready_of(&w, "c"), "True/DependenciesReady/Pod is Ready");
	name = bound_to(&w, "c");
	claim = get(&w, kind_named("SandboxClaim"), "c");
	sb = get(&w, kind_named("Sandbox"), name);
	is_true(str_starts(name, "p-"));
	is_true(object_controlled_by(sb, claim->uid));
	eq_str(object_label(sb, KEY_LAUNCH_TYPE), "warm");
	eq_str(object_label(sb, KEY_CLAIM_UID), claim->uid);
	is_false(object_label(sb, KEY_POOL));
	is_false(object_label(sb, KEY_CREATED_BY));
	is_false(object_annotation(sb, KEY_POD_NAME)); /* U13 */
	is_true(object_label(sb, KEY_TEMPLATE_REF_HASH));
	eq_str(object_annotation(claim, KEY_SANDBOX_NAME), name);
	is_true(object_annotation(claim, KEY_FIRST_OBSERVED));
	is_true(object_annotation(claim, KEY_FIRST_READY));
	eq_int(count_events(&w, "SandboxAdopted"), 1);
	eq_int(json_get_int(conditions_get(json_get(object_status(sb), "conditions"), "Ready"),
			    "observedGeneration", 0),
	       object_generation(sb));
	step(&w, 1000);
	eq_int(count(&w, kind_named("Sandbox")), 3); /* the pool is refilled */
	pod = get(&w, kind_named("Pod"), name);
	is_false(object_label(pod, KEY_POOL));
	is_false(object_annotation(pod, KEY_SAFE_TO_EVICT));
	is_false(object_label(pod, KEY_CLAIM_UID)); /* §15.1 */
	world_done(&w);
}

TEST(case_197_metadata_of_a_claim_reaches_an_adopted_pod_in_the_same_turn)
{
	autofree char *name = NULL;
	autoptr(object) pod = NULL;
	struct world w;

	open_with_pool(&w, "2");
	make_claim(&w, "c", "p", ",'additionalPodMetadata':{'labels':{'sandbox.users.io/x':'1'}}");
	turn(&w);
	name = bound_to(&w, "c");
	pod = get(&w, kind_named("Pod"), name);
	eq_str(object_label(pod, "sandbox.users.io/x"), "1");
	is_false(object_label(pod, KEY_POOL));
	world_done(&w);
}

TEST(case_247_three_claims_on_two_members)
{
	struct world w;
	const char *const claims[] = { "c1", "c2", "c3" };
	char *names[3];
	unsigned n_warm = 0;

	open_with_pool(&w, "2");
	for (int i = 0; i < 3; i++)
		make_claim(&w, claims[i], "p", "");
	turn(&w);
	for (int i = 0; i < 3; i++) {
		names[i] = bound_to(&w, claims[i]);
		if (names[i])
			n_warm += !str_eq(names[i], claims[i]);
	}
	if (!names[2]) { /* new members are on their way: it waits a moment for them */
		step(&w, 3000);
		names[2] = bound_to(&w, claims[2]);
	}
	eq_int(n_warm, 2);
	eq_str(names[2], "c3");
	is_false(str_eq(names[0], names[1]));
	for (int i = 0; i < 3; i++)
		free(names[i]);
	world_done(&w);
}

TEST(case_196_a_cold_claim_and_its_end)
{
	struct world w;
	autofree char *name = NULL;

	open_with_pool(&w, "0");
	make_claim(&w, "c", "p", "");
	turn(&w);
	name = bound_to(&w, "c");
	eq_str(name, "c");
	eq_int(count_events(&w, "SandboxProvisioned"), 1);
	step(&w, 100); /* its Pod could have been Ready by now */
	is_true(str_starts(ready_of(&w, "c"),
			   "False/DependenciesNotReady/Pod exists with phase: "));
	pod_runs(&w, "c");
	eq_str(ready_of(&w, "c"), "True/DependenciesReady/Pod is Ready");
	/* U17 */
	patch(&w, kind_named("Pod"), "c", "status", "{'status':{'phase':'Failed'}}");
	turn(&w);
	eq_str(ready_of(&w, "c"), "False/PodFailed/Pod failed");
	eq_str(condition_of(&w, kind_named("SandboxClaim"), "c", "Finished"),
	       "True/PodFailed/Pod failed");
	delete_now(&w, kind_named("SandboxClaim"), "c");
	turn(&w);
	turn(&w);
	eq_int(count(&w, kind_named("Sandbox")), 0);
	world_done(&w);
}

TEST(cases_177_178_u24_what_is_missing_is_waited_for)
{
	struct world w;

	world_open(&w, NULL);
	make_claim(&w, "c", "p", "");
	turn(&w);
	eq_str(ready_of(&w, "c"), "False/WarmPoolNotFound/SandboxWarmPool \"p\" not found");
	make_pool(&w, "p", "t", ",'replicas':2");
	turn(&w);
	eq_str(ready_of(&w, "c"), "False/TemplateNotFound/SandboxTemplate \"t\" not found");
	eq_int(count(&w, kind_named("Sandbox")), 0);
	eq_int(count_events(&w, "WarmPoolNotProgressing"), 1); /* U21 */
	make_template(&w, "t", "");
	turn(&w);
	step(&w, 2500); /* members without an address are waited for a moment */
	step(&w, 100);
	is_true(str_starts(ready_of(&w, "c"), "False/DependenciesNotReady/"));
	eq_int(count_events(&w, "WarmPoolProgressing"), 1);
	eq_int(count_events(&w, "WarmPoolNotProgressing"), 1);
	world_done(&w);
}

/* tests/data/samples/11-claim-rejected.yaml */
TEST(cases_198_206_213_claims_that_are_refused)
{
	struct world w;
	uint64_t rev;

	world_open(&w, NULL);
	make_template(&w, "secure", "");
	make_template(
		&w, "cached",
		",'volumeClaimTemplatesPolicy':'Allowed','volumeClaimTemplates':[{'metadata':{'name':"
		"'cache'},'spec':{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':"
		"'1Gi'}}}}]");
	make_pool(&w, "hot", "secure", ",'replicas':0");
	make_pool(&w, "cold", "cached", ",'replicas':0");
	make_claim(&w, "bad-label", "hot",
		   ",'additionalPodMetadata':{'labels':{'app':'sandbox-router'}}");
	make_claim(&w, "bad-env", "hot", ",'env':[{'name':'TOKEN','value':'abc'}]");
	make_claim(&w, "bad-volume", "cold",
		   ",'volumeClaimTemplates':[{'metadata':{'name':'cache'},'spec':{'accessModes':["
		   "'ReadWriteOnce'],'resources':{'requests':{'storage':'10Gi'}}}}]");
	turn(&w);
	is_true(str_starts(ready_of(&w, "bad-label"), "False/InvalidMetadata/"));
	is_true(str_starts(ready_of(&w, "bad-env"), "False/EnvVarsInjectionRejected/"));
	is_true(str_starts(ready_of(&w, "bad-volume"), "False/VolumeClaimTemplatesError/"));
	eq_int(count(&w, kind_named("Sandbox")), 0);
	rev = world_rev(&w);
	step(&w, 3600 * 1000);
	eq_int(world_rev(&w), rev); /* no endless retry */
	world_done(&w);
}

TEST(cases_239_240_members_without_an_address_are_waited_for)
{
	struct world w;
	autofree char *name = NULL;

	world_open(&w, NULL);
	make_template(&w, "t", "");
	make_pool(&w, "p", "t", ",'replicas':1");
	turn(&w);
	make_claim(&w, "c", "p", "");
	turn(&w);
	eq_str(ready_of(&w, "c"), "-");
	eq_int(count(&w, kind_named("Sandbox")), 1);
	all_pods_run(&w); /* wakes it at once */
	eq_str(ready_of(&w, "c"), "True/DependenciesReady/Pod is Ready");
	name = bound_to(&w, "c");
	is_true(str_starts(name, "p-"));
	make_claim(&w, "d", "p", "");
	turn(&w);
	eq_str(ready_of(&w, "d"), "-");
	step(&w, 3500); /* longer than the grace */
	free(take(name));
	name = bound_to(&w, "d");
	eq_str(name, "d");
	world_done(&w);
}

static bool add_name(void *arg, struct object *o)
{
	char **at = arg;

	while (*at)
		at++;
	*at = xstrdup(o->name);
	return true;
}

TEST(claims_that_wait_are_served_in_the_order_of_their_arrival)
{
	static const char *const claims[] = { "c", "b", "a" };
	char *pods[4] = { 0 };
	struct world w;

	world_open(&w, NULL);
	make_template(&w, "t", "");
	make_pool(&w, "p", "t", ",'replicas':3");
	turn(&w);
	for (size_t i = 0; i < 3; i++)
		make_claim(&w, claims[i], "p", "");
	turn(&w);
	client_each(w.client, kind_named("Pod"), NS, add_name, pods);
	for (size_t i = 0; i < 3; i++) {
		uint64_t rev = world_rev(&w);

		pod_runs(&w, pods[i]);
		for (size_t k = 0; k < 3; k++)
			eq_str(ready_of(&w, claims[k]),
			       k <= i ? "True/DependenciesReady/Pod is Ready" : "-");
		is_true(world_rev(&w) > rev);
		free(pods[i]);
	}
	world_done(&w);
}

/* Two claims wait, and the first is called for a member that became ready; its pass comes later in
 * the turn. */
static void open_with_called(struct world *w, const char *metadata)
{
	static const char ready[] =
		"{'status':{'podIPs':['10.0.0.1'],'conditions':[{'type':'Ready','status':'True',"
		"'reason':'DependenciesReady','message':'Pod is Ready',"
		"'lastTransitionTime':'2026-01-01T00:00:00Z'}]}}";
	char *pods[3] = { 0 };

	world_open(w, NULL);
	make_template(w, "t", "");
	make_pool(w, "p", "t", ",'replicas':2");
	turn(w);
	make_claim(w, "first", "p", "");
	turn(w);
	make_claim(w, "second", "p", "");
	turn(w);
	if (metadata)
		patch(w, kind_named("SandboxClaim"), "first", "", metadata);
	turn(w);
	client_each(w->client, kind_named("Pod"), NS, add_name, pods);
	patch(w, kind_named("Pod"), pods[0], "status",
	      "{'status':{'phase':'Running','podIPs':[{'ip':'10.0.0.1'}],"
	      "'conditions':[{'type':'Ready','status':'True'}]}}");
	patch(w, kind_named("Sandbox"), pods[0], "status", ready);
	eq_str(ready_of(w, "first"), "-");
	free(pods[0]);
	free(pods[1]);
}

TEST(a_claim_that_is_deleted_when_it_is_called_passes_the_member_on)
{
	struct world w;

	open_with_called(&w, NULL);
	delete_now(&w, kind_named("SandboxClaim"), "first");
	turn(&w); /* and not half a second later */
	eq_str(ready_of(&w, "second"), "True/DependenciesReady/Pod is Ready");
	world_done(&w);
}

TEST(a_claim_that_ends_when_it_is_called_passes_the_member_on)
{
	struct world w;

	open_with_called(&w, "{'metadata':{'finalizers':['example.com/f']}}");
	delete_now(&w, kind_named("SandboxClaim"), "first"); /* it stays until its finalizer goes */
	turn(&w);
	eq_str(ready_of(&w, "second"), "True/DependenciesReady/Pod is Ready");
	world_done(&w);
}

TEST(a_claim_that_waits_is_not_overtaken_by_a_newcomer)
{
	struct world w;
	char *pods[3] = { 0 };

	world_open(&w, NULL);
	make_template(&w, "t", "");
	make_pool(&w, "p", "t", ",'replicas':2");
	turn(&w);
	make_claim(&w, "old", "p", "");
	turn(&w);
	client_each(w.client, kind_named("Pod"), NS, add_name, pods);
	/* It runs, and in the same turn another claim comes, whose pass is before the old one's. */
	patch(&w, kind_named("Pod"), pods[0], "status",
	      "{'status':{'phase':'Running','podIPs':[{'ip':'10.0.0.1'}],"
	      "'conditions':[{'type':'Ready','status':'True'}]}}");
	make_claim(&w, "new", "p", "");
	turn(&w);
	eq_str(ready_of(&w, "old"), "True/DependenciesReady/Pod is Ready");
	eq_str(ready_of(&w, "new"), "-");
	pod_runs(&w, pods[1]);
	eq_str(ready_of(&w, "new"), "True/DependenciesReady/Pod is Ready");
	free(pods[0]);
	free(pods[1]);
	world_done(&w);
}

TEST(a_bound_sandbox_that_is_deleted_is_replaced)
{
	struct world w;
	autofree char *before = NULL, *after = NULL;

	open_with_pool(&w, "2");
	make_claim(&w, "c", "p", "");
	turn(&w);
	all_pods_run(&w);
	before = bound_to(&w, "c");
	delete_now(&w, kind_named("Sandbox"), before);
	turn(&w);
	step(&w, 100);
	after = bound_to(&w, "c");
	is_true(after && !str_eq(before, after));
	eq_str(ready_of(&w, "c"), "True/DependenciesReady/Pod is Ready");
	world_done(&w);
}

TEST(case_250_an_adoption_that_a_crash_cut_off_is_found_again)
{
	struct world w;
	autofree char *member = NULL, *now = NULL;
	autoptr(object) claim = NULL;
	autofree char *owner = NULL;

	open_with_pool(&w, "2");
	world_stop(&w);
	client_each(w.client, kind_named("Sandbox"), NS, first_name, &member);
	make_claim(&w, "c", "p", "");
	claim = get(&w, kind_named("SandboxClaim"), "c");
	owner = xasprintf(
		"{'metadata':{'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/"
		"v1beta1','kind':'SandboxClaim','name':'c','uid':'%s','controller':true}]}}",
		claim->uid);
	patch(&w, kind_named("Sandbox"), member, NULL,
	      owner); /* and no more: the process dies here */
	world_start(&w, NULL);
	now = bound_to(&w, "c");
	eq_str(now, member);
	eq_str(ready_of(&w, "c"), "True/DependenciesReady/Pod is Ready");
	world_done(&w);
}

TEST(case_237_an_assignment_is_honoured)
{
	struct world w;
	autofree char *member = NULL, *now = NULL, *text = NULL;

	world_open(&w, NULL);
	make_template(&w, "t", "");
	make_pool(&w, "p", "t", ",'replicas':3");
	turn(&w);
	client_each(w.client, kind_named("Sandbox"), NS, first_name, &member);
	text = xasprintf(
		"{'metadata':{'name':'c','annotations':{'agents.x-k8s.io/sandbox-name':'%s'}},"
		"'spec':{'warmPoolRef':{'name':'p'}}}",
		member);
	create(&w, kind_named("SandboxClaim"), text); /* it has no address yet */
	turn(&w);
	now = bound_to(&w, "c");
	eq_str(now, member);
	world_done(&w);
}

TEST(cases_251_258_an_assignment_that_cannot_be_had_is_dropped)
{
	struct world w;
	autoptr(object) claim = NULL;
	autofree char *now = NULL;

	open_with_pool(&w, "0");
	create(&w, kind_named("SandboxClaim"),
	       "{'metadata':{'name':'c','annotations':{'agents.x-k8s.io/sandbox-name':'gone'}},'spec':{"
	       "'warmPoolRef':{'name':'p'}}}");
	turn(&w);
	claim = get(&w, kind_named("SandboxClaim"), "c");
	is_false(object_annotation(claim, KEY_SANDBOX_NAME));
	now = bound_to(&w, "c");
	eq_str(now, "c");
	world_done(&w);
}

TEST(case_179_a_name_that_is_used_is_told)
{
	struct world w;

	open_with_pool(&w, "0");
	create(&w, kind_named("Sandbox"),
	       "{'metadata':{'name':'c'},'spec':{'podTemplate':{'spec':{" CONTAINERS "}}}}");
	make_claim(&w, "c", "p", "");
	turn(&w);
	eq_str(ready_of(&w, "c"),
	       "False/ReconcilerError/Error seen: sandbox \"c\" is not controlled by claim \"c\". Please "
	       "use a different claim name or delete the sandbox manually");
	world_done(&w);
}

TEST(cases_215_217_223_how_claims_expire)
{
	static const struct {
		const char *policy;
		bool stays;
	} rows[] = { { "Retain", true }, { "Delete", false }, { "DeleteForeground", false } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *more = xasprintf(
			",'lifecycle':{'ttlSecondsAfterFinished':60,'shutdownPolicy':'%s'}",
			rows[i].policy);
		struct world w;

		open_with_pool(&w, "0");
		make_claim(&w, "c", "p", more);
		turn(&w);
		pod_runs(&w, "c");
		patch(&w, kind_named("Pod"), "c", "status", "{'status':{'phase':'Succeeded'}}");
		turn(&w);
		eq_str(ready_of(&w, "c"), "False/PodSucceeded/Pod completed successfully");
		step(&w, 62 * 1000);
		step(&w, 10);
		eq_int(count(&w, kind_named("SandboxClaim")), rows[i].stays);
		eq_int(count(&w, kind_named("Sandbox")), 0);
		if (rows[i].stays) {
			eq_str(ready_of(&w, "c"),
			       "False/ClaimExpired/Claim expired. Sandbox cleanup initiated.");
			eq_str(condition_of(&w, kind_named("SandboxClaim"), "c", "Finished"),
			       "True/PodSucceeded/Pod completed successfully");
		}
		world_done(&w);
	}
}

TEST(case_197_later_metadata_flows_to_sandbox_and_pod)
{
	struct world w;
	autofree char *name = NULL;
	autoptr(object) pod = NULL;
	autoptr(object) claim = NULL;

	open_with_pool(&w, "1");
	make_claim(&w, "c", "p", "");
	turn(&w);
	name = bound_to(&w, "c");
	patch(&w, kind_named("SandboxClaim"), "c", NULL,
	      "{'spec':{'additionalPodMetadata':{'labels':{'sandbox.users.io/a':'b'}}}}");
	turn(&w);
	pod = get(&w, kind_named("Pod"), name);
	claim = get(&w, kind_named("SandboxClaim"), "c");
	eq_str(object_label(pod, "sandbox.users.io/a"), "b");
	eq_int(json_get_int(conditions_get(json_get(object_status(claim), "conditions"), "Ready"),
			    "observedGeneration", 0),
	       object_generation(claim)); /* U23 */
	world_done(&w);
}

TEST(case_145_recreate_replaces_and_on_replenish_does_not)
{
	static const char *const strategies[] = { "Recreate", "OnReplenish" };

	for (int i = 0; i < 2; i++) {
		autofree char *more =
			xasprintf(",'replicas':3,'updateStrategy':{'type':'%s'}", strategies[i]);
		autofree char *name = NULL;
		autoptr(object) sb = NULL;
		struct world w;

		world_open(&w, NULL);
		make_template(&w, "t", "");
		make_pool(&w, "p", "t", more);
		turn(&w);
		all_pods_run(&w);
		patch(&w, kind_named("SandboxTemplate"), "t", NULL,
		      "{'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':'other'}]}}}}");
		turn(&w);
		eq_int(count(&w, kind_named("Sandbox")), 3);
		client_each(w.client, kind_named("Sandbox"), NS, first_name, &name);
		sb = get(&w, kind_named("Sandbox"), name);
		eq_str(json_get_str(
			       json_at(json_at_path(object_spec(sb), "podTemplate.spec.containers"),
				       0),
			       "image"),
		       i ? "pause" : "other");
		world_done(&w);
	}
}

TEST(case_155_members_that_never_become_ready_are_replaced)
{
	struct world w;
	autofree char *before = NULL, *after = NULL;

	world_open(&w, NULL);
	make_template(&w, "t", "");
	make_pool(&w, "p", "t", ",'replicas':1");
	turn(&w);
	client_each(w.client, kind_named("Sandbox"), NS, first_name, &before);
	step(&w, 4 * 60 * 1000);
	eq_int(count(&w, kind_named("Sandbox")), 1);
	step(&w, 6 * 60 * 1000);
	step(&w, 10);
	client_each(w.client, kind_named("Sandbox"), NS, first_name, &after);
	eq_int(count(&w, kind_named("Sandbox")), 1);
	is_false(str_eq(before, after));
	world_done(&w);
}

TEST(a_second_start_writes_nothing)
{
	struct world w;
	uint64_t rev;

	open_with_pool(&w, "5");
	make_claim(&w, "c", "p", "");
	turn(&w);
	all_pods_run(&w);
	step(&w, 500);
	step(&w, 500);
	rev = world_rev(&w);
	world_stop(&w);
	world_start(&w, NULL);
	step(&w, 1000);
	eq_int(world_rev(&w), rev);
	world_done(&w);
}

TEST(case_134_orphans_are_adopted_when_fresh_and_removed_when_stale)
{
	struct world w;
	autofree char *member = NULL;
	autoptr(object) sb = NULL;
	autoptr(object) pool = NULL;

	open_with_pool(&w, "1");
	client_each(w.client, kind_named("Sandbox"), NS, first_name, &member);
	patch(&w, kind_named("Sandbox"), member, NULL, "{'metadata':{'ownerReferences':null}}");
	turn(&w);
	sb = get(&w, kind_named("Sandbox"), member);
	pool = get(&w, kind_named("SandboxWarmPool"), "p");
	is_true(sb && object_controlled_by(sb, pool->uid));
	eq_int(count(&w, kind_named("Sandbox")), 1);
	world_done(&w);
}
