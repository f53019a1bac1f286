/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/capability.h>
#include <signal.h>

#include "base/mem.h"
#include "base/str.h"
#include "kinds.h"
#include "node/launch/plan.h"
#include "rig.h"
#include "wire/wire.h"

/* Pods from their admission to their end, over the fake runtime. */
#define ONE   "'containers':[{'name':'a','image':'img','command':['run']}]"
#define NEVER "'restartPolicy':'Never'," ONE

static void run(struct rig *r, const char *name, const char *spec)
{
	pod_create(r, name, spec);
	fake_start(fake_last(&r->rt));
	turn(r);
}

TEST(a_pod_is_launched_and_told_of_once_when_it_runs)
{
	struct rig r;
	uint64_t before;

	rig_open(&r);
	pod_create(&r, "p", ONE);
	eq_int(fake_count(&r.rt), 1);
	eq_int(fake_last(&r.rt)->state, FAKE_LAUNCHED);
	eq_str(fake_last(&r.rt)->argv0, "run");
	before = rev(&r);
	eq_str(told(&r, "p", "podIP"), ""); /* there is better news soon */
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_int(rev(&r), before + 1);
	eq_str(told(&r, "p", "phase"), "Running");
	eq_str(told(&r, "p", "podIP"), "10.9.0.1");
	eq_str(told(&r, "p", "containerStatuses.0.containerID"), "cay://t0");
	eq_str(ready_of(&r, "p"), "True");
	eq_int(count_events(&r, "Scheduled"), 1);
	eq_int(count_events(&r, "Created"), 1);
	eq_int(count_events(&r, "Started"), 1);
	rig_done(&r);
}

TEST(a_member_of_a_pool_tells_of_trouble_alone)
{
	struct rig r;

	rig_open(&r);
	pod_create_ahead(&r, "p", ONE);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(ready_of(&r, "p"), "True");
	eq_int(count_events(&r, "Scheduled"), 0);
	eq_int(count_events(&r, "Created"), 0);
	eq_int(count_events(&r, "Started"), 0);
	pod_create_ahead(&r, "q", "'hostNetwork':true," ONE);
	eq_int(count_events(&r, "UnsupportedField"), 1);
	rig_done(&r);
}

TEST(what_a_pod_did_is_not_told_once_it_is_gone)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	eq_int(count_events(&r, "Started"), 1);
	pod_delete(&r, "p", 0);
	until(&r, fake_last(&r.rt)->killed);
	eq_int(count_events(&r, "Killing"), 0);
	run(&r, "q", ONE);
	pod_delete(&r, "q", 20);
	until(&r, fake_last(&r.rt)->last_signal == SIGTERM);
	eq_int(count_events(&r, "Killing"), 1); /* it is still there */
	rig_done(&r);
}

TEST(a_slow_start_is_told_of_before_it_is_done)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", ONE);
	step(&r, 200);
	eq_str(told(&r, "p", "podIP"), "");
	step(&r, 200);
	eq_str(told(&r, "p", "podIP"), "10.9.0.1");
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.reason"), "ContainerCreating");
	rig_done(&r);
}

TEST(what_the_node_does_not_do_fails_the_pod)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", "'hostNetwork':true," ONE);
	eq_int(fake_count(&r.rt), 0);
	eq_str(told(&r, "p", "phase"), "Failed");
	eq_str(told(&r, "p", "reason"), "UnsupportedField");
	eq_str(told(&r, "p", "message"), "this node does not support spec.hostNetwork");
	eq_str(told(&r, "p", "containerStatuses.0.name"), "");
	eq_str(told(&r, "p", "initContainerStatuses.0.name"), "");
	eq_int(count_events(&r, "UnsupportedField"), 1);
	rig_done(&r);
}

TEST(pods_wait_for_networks_in_line)
{
	struct rig r;

	rig_open(&r);
	r.rt.nets = 0;
	pod_create(&r, "o", ONE);
	pod_create(&r, "p", ONE);
	pod_create(&r, "q", ONE);
	step(&r, 5000);
	eq_int(fake_count(&r.rt), 0);
	pod_delete(&r, "o", 0); /* leaves the line */
	fake_add_nets(&r.rt, 1);
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(ready_of(&r, "p"), "True");
	eq_str(ready_of(&r, "q"), "False");
	rig_done(&r);
}

TEST(a_pod_that_waits_for_a_network_shows_the_hosts_trouble)
{
	struct rig r;

	rig_open(&r);
	r.rt.nets = 0;
	pod_create(&r, "p", ONE);
	fake_trouble_is(&r.rt, "the host is out of addresses");
	turn(&r);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.message"),
	       "the host is out of addresses");
	fake_trouble_is(&r.rt, "the host is out of addresses");
	step(&r, 5000);
	eq_int(count_events(&r, "FailedCreatePodSandBox"), 1);
	fake_add_nets(&r.rt, 1);
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(containers_wait_for_slots_and_show_the_hosts_trouble)
{
	struct rig r;

	rig_open(&r);
	r.rt.slots = 0;
	pod_create(&r, "p", ONE);
	step(&r, 400);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.message"), "");
	fake_trouble_is(&r.rt, "the host is out of paper");
	turn(&r);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.message"),
	       "the host is out of paper");
	fake_trouble_is(&r.rt, "the host is out of paper");
	step(&r, 5000);
	eq_int(count_events(&r, "FailedCreatePodSandBox"), 1);
	fake_add_slots(&r.rt, 1);
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(a_pod_waits_for_its_volumes_until_the_object_comes)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p",
		   "'volumes':[{'name':'v','configMap':{'name':'c'}}],'containers':[{'name':'a',"
		   "'image':'img','volumeMounts':[{'name':'v','mountPath':'/v'}]}]");
	eq_int(fake_count(&r.rt), 0);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.message"),
	       "prepare volume v: configmap \"c\" not found");
	step(&r, 11000);
	step(&r, 11000);
	eq_int(count_events(&r, "FailedMount"), 1);
	create(&r, kind_named("ConfigMap"),
	       "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'c'},'data':{'k':'v'}}");
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(a_container_waits_for_its_environment_until_the_object_comes)
{
	struct rig r;

	rig_open(&r);
	pod_create(
		&r, "p",
		"'containers':[{'name':'a','image':'img','envFrom':[{'secretRef':{'name':'s'}}]}]");
	eq_int(fake_count(&r.rt), 0);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.reason"),
	       "CreateContainerConfigError");
	create(&r, kind_named("Secret"),
	       "{'apiVersion':'v1','kind':'Secret','metadata':{'name':'s'},'data':{'k':'dg=='}}");
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(a_creation_that_fails_does_not_lengthen_the_back_off_of_crashes)
{
	static const char secret[] =
		"{'apiVersion':'v1','kind':'Secret','metadata':{'name':'s'},'data':{'k':'dg=='}}";
	const struct client_ref ref = { .kind = kind_named("Secret"), .ns = NS, .name = "s" };
	struct rig r;

	rig_open(&r);
	create(&r, ref.kind, secret);
	run(&r, "p",
	    "'containers':[{'name':'a','image':'img','envFrom':[{'secretRef':{'name':'s'}}]}]");
	client_delete(r.client, &ref, NULL, NULL);
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	step(&r, 5001);
	step(&r, 10001); /* two more tries */
	eq_int(fake_count(&r.rt), 1);
	create(&r, ref.kind, secret);
	eq_int(fake_count(&r.rt), 2);
	fake_start(fake_last(&r.rt));
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	step(&r, 10001);
	eq_int(fake_count(&r.rt), 3);
	rig_done(&r);
}

TEST(a_missing_image_is_tried_again_when_images_change)
{
	struct rig r;

	rig_open(&r);
	r.no_image = true;
	pod_create(&r, "p", ONE);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.reason"), "ErrImagePull");
	r.no_image = false;
	pods_images_changed(r.pods);
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(root_is_refused_where_the_spec_wants_another_user)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", "'securityContext':{'runAsNonRoot':true}," ONE);
	eq_int(fake_count(&r.rt), 0);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.reason"),
	       "CreateContainerConfigError");
	pod_create(&r, "q", "'securityContext':{'runAsNonRoot':true,'runAsUser':5}," ONE);
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(capabilities_are_the_usual_ones_less_those_dropped)
{
	const uint64_t usual = plan_capabilities(), one = UINT64_C(1) << CAP_KILL;
	const struct {
		const char *wish;
		uint64_t keep;
	} rows[] = {
		{ "", usual },
		{ "'add':['KILL']", usual },
		{ "'drop':['ALL']", 0 },
		{ "'drop':['all'],'add':['KILL']", one },
		{ "'drop':['ALL'],'add':['CAP_KILL']", one },
		{ "'drop':['KILL']", usual & ~one },
		{ "'drop':['CAP_KILL','NET_RAW']", usual & ~one },
		{ "'drop':['KILL'],'add':['KILL']", usual & ~one },
	};
	struct rig r;

	rig_open(&r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *name = xasprintf("p%zu", i);
		autofree char *spec = xasprintf("'containers':[{'name':'a','image':'img',"
						"'securityContext':{'capabilities':{%s}}}]",
						rows[i].wish);

		pod_create(&r, name, spec);
		eq_int(fake_last(&r.rt)->keep_caps, rows[i].keep);
	}
	rig_done(&r);
}

TEST(ports_and_annotation_say_which_runtime_is_served)
{
	enum {
		PYTHON = WIRE_RUNTIME_HTTP,
		REST = WIRE_RUNTIME_REST,
		BOTH_NOW = PYTHON | WIRE_RUNTIME_NOW | REST | WIRE_REST_NOW,
	};
#define PORTS(list)   ",'ports':[" list "]"
#define PORT(n)       "{'containerPort':" #n "}"
#define ALSO(n)       "," PORT(n)
#define WISH(list)    "'cay.dev/runtime':'" list "'"
#define COMMAND(name) ",'command':['" name "']"
	static const struct {
		const char *wish, *more;
		uint32_t flags;
	} rows[] = {
		{ "", COMMAND("web"), 0 },
		{ "", COMMAND("web") PORTS(PORT(8888)), PYTHON },
		{ "", COMMAND("sleep") PORTS(PORT(8888)), PYTHON | WIRE_RUNTIME_NOW },
		{ "", COMMAND("web") PORTS(PORT(8080)), 0 },
		{ "", COMMAND("sleep") PORTS(PORT(8080)), 0 },
		{ "", COMMAND("web") PORTS(PORT(8080) ALSO(9090)), REST },
		{ "", COMMAND("/bin/sleep") PORTS(PORT(9090) ALSO(8080)), REST | WIRE_REST_NOW },
		{ WISH("none"), COMMAND("web") PORTS(PORT(8888) ALSO(8080) ALSO(9090)), 0 },
		{ WISH("python"), COMMAND("web"), PYTHON | WIRE_RUNTIME_NOW },
		{ WISH("sandboxd"), COMMAND("web") PORTS(PORT(8888)), REST | WIRE_REST_NOW },
		{ WISH("python, sandboxd"), COMMAND("web"), BOTH_NOW },
		{ WISH("sandboxd,none"), COMMAND("web"), 0 },
		{ WISH("other"), COMMAND("web") PORTS(PORT(8888)), 0 },
	};
	struct rig r;

	rig_open(&r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *name = xasprintf("p%zu", i);
		autofree char *spec =
			xasprintf("'containers':[{'name':'a','image':'img'%s}]", rows[i].more);

		pod_create_annotated(&r, name, rows[i].wish, spec);
		eq_int(fake_last(&r.rt)->flags & BOTH_NOW, rows[i].flags);
	}
	rig_done(&r);
}

TEST(init_containers_come_first_and_in_order)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p",
		   "'initContainers':[{'name':'i','image':'img','command':['one']},"
		   "{'name':'j','image':'img','command':['two']}]," ONE);
	eq_int(fake_count(&r.rt), 1);
	eq_str(fake_last(&r.rt)->argv0, "one");
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	eq_str(fake_last(&r.rt)->argv0, "two");
	fake_start(fake_last(&r.rt));
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	eq_str(fake_last(&r.rt)->argv0, "run");
	eq_int(fake_count(&r.rt), 3);
	rig_done(&r);
}

TEST(a_failed_init_container_fails_a_pod_that_never_restarts)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", "'initContainers':[{'name':'i','image':'img'}]," NEVER);
	fake_start(fake_last(&r.rt));
	fake_exit(fake_last(&r.rt), 3);
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	eq_str(told(&r, "p", "phase"), "Failed");
	eq_str(told(&r, "p", "reason"), "InitContainerFailed");
	eq_str(told(&r, "p", "message"), "init container i failed with exit code 3");
	eq_int(r.rt.n_nets_put, 1);
	rig_done(&r);
}

TEST(containers_share_the_namespaces_of_the_first_that_runs)
{
	struct rig r;

	rig_open(&r);
	r.rt.slots = 1;
	pod_create(&r, "p", "'containers':[{'name':'a','image':'img'},{'name':'b','image':'img'}]");
	is_false(fake_last(&r.rt)->joins);
	fake_start(fake_last(&r.rt));
	turn(&r);
	fake_add_slots(&r.rt, 1);
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	is_true(fake_last(&r.rt)->joins);
	rig_done(&r);
}

TEST(the_first_crash_is_forgiven_and_the_next_ones_wait_longer)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	for (unsigned s = 10, n = 2; s <= 40; s *= 2, n++) {
		fake_start(fake_last(&r.rt));
		fake_exit(fake_last(&r.rt), 1);
		turn(&r);
		eq_int(fake_count(&r.rt), n);
		eq_str(told(&r, "p", "containerStatuses.0.state.waiting.reason"),
		       "CrashLoopBackOff");
		step(&r, (s - 1) * 1000);
		eq_int(fake_count(&r.rt), n);
		step(&r, 1001);
		eq_int(fake_count(&r.rt), n + 1);
	}
	eq_int(count_events(&r, "BackOff"), 3);
	eq_str(told(&r, "p", "containerStatuses.0.restartCount"), "4");
	eq_str(told(&r, "p", "containerStatuses.0.lastState.terminated.exitCode"), "1");
	rig_done(&r);
}

TEST(a_steady_run_ends_the_back_off)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	fake_start(fake_last(&r.rt));
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	step(&r, 10001);
	eq_int(fake_count(&r.rt), 3);
	fake_start(fake_last(&r.rt));
	step(&r, 601000);
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	eq_int(fake_count(&r.rt), 4); /* at once */
	fake_start(fake_last(&r.rt));
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	step(&r, 10001); /* and from the beginning */
	eq_int(fake_count(&r.rt), 5);
	rig_done(&r);
}

TEST(a_task_that_cannot_start_says_why)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", NEVER);
	fake_fail(fake_last(&r.rt), 127);
	turn(&r);
	eq_str(told(&r, "p", "phase"), "Failed");
	eq_str(told(&r, "p", "containerStatuses.0.state.terminated.reason"), "StartError");
	eq_str(told(&r, "p", "containerStatuses.0.state.terminated.exitCode"), "127");
	eq_int(count_events(&r, "Failed"), 1);
	r.rt.launch_fails = true;
	pod_create(&r, "q", NEVER);
	is_true(fake_last(&r.rt)->killed);
	fake_end(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "q", "containerStatuses.0.state.terminated.exitCode"), "128");
	rig_done(&r);
}

TEST(an_end_by_the_kernel_is_told_from_an_end_by_the_command)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", NEVER);
	fake_last(&r.rt)->oom = true;
	fake_end(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "p", "containerStatuses.0.state.terminated.reason"), "OOMKilled");
	run(&r, "q", NEVER);
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	eq_str(told(&r, "q", "phase"), "Succeeded");
	eq_int(r.rt.n_nets_put, 2);
	eq_str(told(&r, "q", "containerStatuses.0.state.terminated.reason"), "Completed");
	is_true(fake_last(&r.rt)->log_kept);
	rig_done(&r);
}

TEST(a_deadline_ends_a_pod_whatever_it_does)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", "'activeDeadlineSeconds':60," ONE);
	step(&r, 59000);
	is_false(fake_last(&r.rt)->killed);
	step(&r, 2000);
	is_true(fake_last(&r.rt)->killed);
	eq_str(told(&r, "p", "phase"), "Failed");
	eq_str(told(&r, "p", "reason"), "DeadlineExceeded");
	eq_int(r.rt.n_nets_put, 0); /* its processes are still going */
	fake_end(fake_last(&r.rt));
	turn(&r);
	eq_int(r.rt.n_nets_put, 1);
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(deletion_asks_then_kills_then_lets_go)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	pod_delete(&r, "p", 20);
	until(&r, fake_last(&r.rt)->last_signal == SIGTERM);
	step(&r, 19000);
	is_false(fake_last(&r.rt)->killed);
	step(&r, 2000);
	is_true(fake_last(&r.rt)->killed);
	is_true(pod_there(&r, "p"));
	eq_int(r.rt.n_nets_put, 0);
	fake_end(fake_last(&r.rt));
	turn(&r);
	is_false(pod_there(&r, "p"));
	eq_int(r.rt.n_nets_put, 1);
	is_true(fake_last(&r.rt)->released);
	is_false(fake_last(&r.rt)->log_kept);
	rig_done(&r);
}

TEST(a_command_that_ends_in_its_grace_is_not_killed)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	pod_delete(&r, "p", 20);
	until(&r, fake_last(&r.rt)->last_signal == SIGTERM);
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	is_false(fake_last(&r.rt)->killed);
	is_false(pod_there(&r, "p"));
	eq_int(fake_count(&r.rt), 1); /* and is not started again */
	rig_done(&r);
}

TEST(nothing_is_stopped_before_the_deletion_is_durable)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	r.proxy.hold_syncs = true;
	pod_delete(&r, "p", 20);
	step(&r, 60000);
	eq_int(fake_last(&r.rt)->last_signal, 0);
	is_false(fake_last(&r.rt)->killed);
	proxy_let_go(&r.proxy);
	turn(&r);
	eq_int(fake_last(&r.rt)->last_signal, SIGTERM);
	rig_done(&r);
}

TEST(a_container_that_is_not_up_yet_is_killed_at_once)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", ONE);
	pod_delete(&r, "p", 20);
	until(&r, fake_last(&r.rt)->killed);
	eq_int(fake_last(&r.rt)->last_signal, 0);
	fake_end(fake_last(&r.rt));
	until(&r, !pod_there(&r, "p"));
	rig_done(&r);
}

TEST(what_a_pod_wrote_to_disk_is_removed_before_its_object)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p",
	    "'volumes':[{'name':'v','emptyDir':{}}],'containers':[{'name':'a','image':'img',"
	    "'volumeMounts':[{'name':'v','mountPath':'/v'}]}]");
	pod_delete(&r, "p", 0);
	until(&r, !pod_there(&r, "p") || fake_last(&r.rt)->killed);
	if (fake_last(&r.rt)->state != FAKE_GONE)
		fake_end(fake_last(&r.rt));
	until(&r, !pod_there(&r, "p"));
	rig_done(&r);
}

TEST(a_status_is_written_only_when_it_differs)
{
	struct rig r;
	unsigned before;

	rig_open(&r);
	pod_create(&r, "p",
		   "'containers':[{'name':'a','image':'img'},{'name':'b','image':'other'}]");
	fake_start(fake_last(&r.rt));
	turn(&r);
	before = r.proxy.n_patches;
	is_true(before > 0);
	for (int i = 0; i < 5; i++) {
		pods_images_changed(r.pods); /* a pass, because b waits */
		step(&r, 1000);
	}
	eq_int(r.proxy.n_patches, before);
	rig_done(&r);
}

TEST(what_happens_during_a_report_is_reported_after_it)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", NEVER);
	r.proxy.hold_patches = true;
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_int(r.proxy.n_patches, 1);
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	eq_int(r.proxy.n_patches, 1);
	proxy_let_go(&r.proxy);
	turn(&r);
	eq_int(r.proxy.n_patches, 2);
	eq_str(told(&r, "p", "phase"), "Succeeded");
	rig_done(&r);
}

TEST(a_report_that_fails_is_tried_again_after_a_second)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", ONE);
	r.proxy.patches_fail = true;
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_int(r.proxy.n_patches, 1);
	step(&r, 1001);
	eq_int(r.proxy.n_patches, 2);
	r.proxy.patches_fail = false;
	step(&r, 1001);
	eq_str(ready_of(&r, "p"), "True");
	rig_done(&r);
}

TEST(a_status_that_others_overwrite_is_restored)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	patch_status(&r, "p", "{'status':{'podIP':'1.2.3.4'}}");
	eq_str(told(&r, "p", "podIP"), "10.9.0.1");
	rig_done(&r);
}
