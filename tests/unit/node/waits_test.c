/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"
#include "rig.h"

/* What Pods wait for, and what wakes them. */

#define ONE "'containers':[{'name':'c','image':'img'}]"
#define NEEDS(map)                                              \
	"'containers':[{'name':'c','image':'img','envFrom':[{'" \
	"configMapRef':{'name':'" map "'}}]}]"
#define MOUNTS(map)                                                      \
	"'volumes':[{'name':'v','configMap':{'name':'" map "'}}],"       \
	"'containers':[{'name':'c','image':'img','volumeMounts':[{'name" \
	"':'v','mountPath':'/v'}]}]"

static void make_map(struct rig *r, const char *name)
{
	autofree char *text =
		xasprintf("{'metadata':{'name':'%s','namespace':'" NS "'},'data':{'k':'v'}}", name);

	create(r, kind_named("ConfigMap"), text);
	turn(r);
}

TEST(nothing_is_planned_for_a_container_before_there_is_a_slot)
{
	struct rig r;

	rig_open(&r);
	r.rt.slots = 0;
	pod_create(&r, "p", NEEDS("x"));
	step(&r, 400);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.reason"), "ContainerCreating");
	fake_add_slots(&r.rt, 1);
	turn(&r);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.reason"),
	       "CreateContainerConfigError");
	eq_int(r.rt.slots, 1);
	make_map(&r, "x");
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(an_object_wakes_the_pods_that_name_it_and_no_others)
{
	struct rig r;
	unsigned before;

	rig_open(&r);
	pod_create(&r, "p", NEEDS("x"));
	pod_create(&r, "q", NEEDS("y"));
	pod_create(&r, "v", MOUNTS("w"));
	eq_int(fake_count(&r.rt), 0);
	before = r.n_finds;
	make_map(&r, "z");
	eq_int(r.n_finds, before);
	make_map(&r, "x");
	eq_int(fake_count(&r.rt), 1);
	eq_int(r.n_finds, before + 1);
	make_map(&r, "w");
	eq_int(fake_count(&r.rt), 2);
	make_map(&r, "y");
	eq_int(fake_count(&r.rt), 3);
	rig_done(&r);
}

TEST(an_image_wakes_the_pods_that_want_it_and_no_others)
{
	struct rig r;

	rig_open(&r);
	r.no_image = true;
	pod_create(&r, "p", ONE);
	pod_create(&r, "q", "'containers':[{'name':'c','image':'other'}]");
	r.n_finds = 0;
	pods_images_changed(r.pods);
	turn(&r);
	eq_int(r.n_finds, 2); /* it was looked for, but nobody had a pass */
	r.no_image = false;
	pods_images_changed(r.pods);
	turn(&r);
	eq_int(r.n_finds, 5); /* and now one had */
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(room_goes_to_the_pod_that_came_first)
{
	struct rig r;

	rig_open(&r);
	rig_stop(&r);
	r.max_pods = 2;
	rig_start(&r);
	pod_create(&r, "a", ONE);
	pod_create(&r, "b", ONE);
	fake_start(fake_task(&r.rt, 0));
	fake_start(fake_task(&r.rt, 1));
	turn(&r);
	pod_delete(&r, "a", 30);
	pod_delete(&r, "b", 30);
	until(&r, fake_task(&r.rt, 1)->last_signal);
	pod_create(&r, "z", ONE);
	pod_create(&r, "y", ONE);
	pod_create(&r, "x", ONE);
	eq_int(fake_count(&r.rt), 2);
	step(&r, 1000);
	eq_str(told(&r, "z", "phase"), "Pending"); /* it waits: room will be there soon */
	fake_exit(fake_task(&r.rt, 0), 0);
	until(&r, fake_count(&r.rt) == 3);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "z", "phase"), "Running");
	pod_delete(&r, "y", 0); /* the next in line goes */
	until(&r, !pod_there(&r, "y"));
	fake_exit(fake_task(&r.rt, 1), 0);
	until(&r, fake_count(&r.rt) == 4);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "x", "phase"), "Running");
	pod_create(&r, "w", ONE); /* nobody is on the way out */
	eq_str(told(&r, "w", "reason"), "OutOfpods");
	pod_delete(&r, "x", 30);
	pod_create(&r, "v", ONE);
	rig_done(&r); /* while it waits */
}

#define BIG(memory) \
	"'containers':[{'name':'c','image':'img','resources':{'requests':{'memory':'" memory "'}}}]"

TEST(a_small_pod_takes_the_room_that_is_too_little_for_a_large_one)
{
	struct rig r;

	rig_open(&r);
	rig_stop(&r);
	r.max_memory = 100;
	rig_start(&r);
	pod_create(&r, "a", BIG("60"));
	pod_create(&r, "b", BIG("30"));
	fake_start(fake_task(&r.rt, 0));
	fake_start(fake_task(&r.rt, 1));
	turn(&r);
	pod_delete(&r, "a", 30);
	pod_delete(&r, "b", 30);
	until(&r, fake_task(&r.rt, 1)->last_signal);
	pod_create(&r, "z", BIG("60"));
	pod_create(&r, "y", BIG("20"));
	pod_create(&r, "x", BIG("10")); /* it fits */
	eq_int(fake_count(&r.rt), 3);
	fake_exit(fake_task(&r.rt, 1), 0); /* enough for y, but z is the first in line */
	until(&r, fake_count(&r.rt) == 4);
	eq_str(told(&r, "z", "phase"), "Pending");
	fake_exit(fake_task(&r.rt, 0), 0);
	until(&r, fake_count(&r.rt) == 5);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "z", "phase"), "Running");
	rig_done(&r);
}

TEST(the_start_of_a_pod_that_nobody_waits_for_is_reported_late)
{
	struct rig r;

	rig_open(&r);
	r.rt.slots = 0;
	create(&r, kind_named("Pod"),
	       "{'metadata':{'name':'p','namespace':'" NS
	       "','labels':{'agents.x-k8s.io/warm-pool-sandbox':'h'}},'spec':{'nodeName':'test'," ONE
	       "}}");
	turn(&r);
	step(&r, 29 * 1000);
	eq_int(r.proxy.n_patches, 0);
	step(&r, 2000);
	eq_int(r.proxy.n_patches, 1);
	rig_done(&r);
}

static void rig_open_pulling(struct rig *r)
{
	rig_open(r);
	rig_stop(r);
	r->pulls = r->no_image = true;
	rig_start(r);
}

#define WHY "containerStatuses.0.state.waiting.reason"
enum {
	SLACK_MS = 5000, /* real time passes too */
};

TEST(a_pull_that_fails_is_tried_again_later_and_later)
{
	struct rig r;
	unsigned wait_s = 10;

	rig_open_pulling(&r);
	pod_create(&r, "p", "'containers':[{'name':'c','image':'img'}]");
	for (unsigned i = 1; i < 8; i++) {
		eq_int(r.n_pulls, i);
		pull_end(&r, "manifest unknown");
		eq_str(told(&r, "p", WHY), "ErrImagePull");
		eq_str(told(&r, "p", "containerStatuses.0.state.waiting.message"),
		       "manifest unknown");
		step(&r, 1000);
		eq_str(told(&r, "p", WHY), "ImagePullBackOff");
		step(&r, (uint64_t)wait_s * 1000 - SLACK_MS);
		eq_int(r.n_pulls, i);
		step(&r, SLACK_MS);
		wait_s = MIN(wait_s * 2, 300u);
	}
	pull_end(&r, NULL);
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(an_image_that_appears_ends_the_back_off)
{
	struct rig r;

	rig_open_pulling(&r);
	pod_create(&r, "p",
		   "'containers':[{'name':'c','image':'img','imagePullPolicy':'IfNotPresent'}]");
	pull_end(&r, "no such host");
	step(&r, 1000);
	r.no_image = false;
	pods_images_changed(r.pods);
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	eq_int(r.n_pulls, 1);
	rig_done(&r);
}

TEST(the_pull_policy_decides)
{
	static const struct {
		const char *policy;
		bool there;
		unsigned n_pulls;
		const char *reason;
		bool local;
	} rows[] = {
		{ "Always", true, 1, "" },
		{ "Always", false, 1, "" },
		{ "IfNotPresent", true, 0, "" },
		{ "IfNotPresent", false, 1, "" },
		{ "Never", true, 0, "" },
		{ "Never", false, 0, "ErrImageNeverPull" },
		{ "Always", true, 0, "", .local = true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *spec = xasprintf("'containers':[{'name':'c','image':'img',"
						"'imagePullPolicy':'%s'}]",
						rows[i].policy);
		struct rig r;

		rig_open_pulling(&r);
		r.no_image = !rows[i].there;
		r.local_image = rows[i].local;
		pod_create(&r, "p", spec);
		eq_int(r.n_pulls, rows[i].n_pulls);
		eq_str(told(&r, "p", WHY), rows[i].reason);
		if (rows[i].n_pulls) {
			pull_end(&r, NULL);
			eq_int(r.n_pulls, 1);
			eq_int(fake_count(&r.rt), 1);
		}
		rig_done(&r);
	}
}

TEST(a_pod_that_is_deleted_no_longer_waits_for_its_pull)
{
	struct rig r;

	rig_open_pulling(&r);
	pod_create(&r, "p", "'containers':[{'name':'c','image':'img'}]");
	eq_int(r.n_pulls, 1);
	pod_delete(&r, "p", 0);
	until(&r, !pod_there(&r, "p"));
	rig_done(&r);
}

static void node_written(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	works(e);
}

/* The first write makes the object. */
static void cordon(struct rig *r, bool on, bool first)
{
	struct client_write w = { .done = node_written };
	autofree char *text =
		xasprintf("{'apiVersion':'v1','kind':'Node','metadata':{'name':'test'},"
			  "'spec':{'unschedulable':%s}}",
			  on ? "true" : "false");
	struct client_ref ref = { .kind = kind_named("Node"), .name = first ? NULL : "test" };

	if (first)
		client_create(r->client, &ref, doc_of(text), &w);
	else
		client_patch(r->client, &ref, PATCH_MERGE, doc_of(text), &w);
	turn(r);
}

TEST(a_cordon_keeps_new_pods_out_and_no_others)
{
	struct rig r;

	rig_open(&r);
	cordon(&r, true, true);
	pod_create(&r, "new", ONE);
	step(&r, 1000);
	eq_int(fake_count(&r.rt), 0);
	eq_str(told(&r, "new", "conditions.0.reason"), "Unschedulable");
	pod_create(&r, "bold", "'tolerations':[{'operator':'Exists'}]," ONE);
	eq_int(fake_count(&r.rt), 1);
	fake_start(fake_last(&r.rt));
	turn(&r);
	rig_stop(&r); /* one that had been admitted, and of which nothing else is known */
	pod_create(&r, "old", ONE);
	patch_status(&r, "old",
		     "{'status':{'conditions':[{'type':'PodScheduled','status':'True'}]}}");
	rig_start(&r);
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	cordon(&r, false, false);
	eq_int(fake_count(&r.rt), 3);
	rig_done(&r);
}
