/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "rig.h"

/* The node has 100 bytes of memory. */
#define SIZED(limit, request)                                                                   \
	"'containers':[{'name':'a','image':'img','resources':{'limits':{'memory':'" limit "'}," \
	"'requests':{'memory':'" request "'}}}]"
#define HAS    "containerStatuses.0.resources.limits.memory"
#define GIVEN  "containerStatuses.0.allocatedResources.memory"
#define REASON "conditions.4.reason"
#define TYPE   "conditions.4.type"

static void open_small(struct rig *r)
{
	rig_open(r);
	rig_stop(r);
	r->max_memory = 100;
	rig_start(r);
}

static struct fake_task *run(struct rig *r, const char *name, const char *spec)
{
	pod_create(r, name, spec);
	fake_start(fake_last(&r->rt));
	turn(r);
	return fake_last(&r->rt);
}

TEST(a_resize_is_given_at_once_and_its_job_changes_the_limits)
{
	struct fake_task *t;
	struct rig r;

	open_small(&r);
	t = run(&r, "p", SIZED("50", "10"));
	eq_str(told(&r, "p", HAS), "50");
	pod_resize_to(&r, "p", SIZED("80", "20"));
	until(&r, str_eq(told(&r, "p", HAS), "80"));
	eq_str(told(&r, "p", GIVEN), "20");
	eq_str(told(&r, "p", TYPE), "");
	eq_int(t->memory_limit, 80);
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

TEST(a_resize_below_what_is_in_use_is_told_and_tried_again)
{
	struct fake_task *t;
	struct rig r;

	open_small(&r);
	t = run(&r, "p", SIZED("50", "10"));
	t->used.memory = 45;
	pod_resize_to(&r, "p", SIZED("40", "10"));
	until(&r, str_eq(told(&r, "p", REASON), "Error"));
	eq_str(told(&r, "p", TYPE), "PodResizeInProgress");
	eq_str(told(&r, "p", HAS), "50");
	t->used.memory = 30;
	step(&r, 3001);
	until(&r, str_eq(told(&r, "p", HAS), "40"));
	eq_str(told(&r, "p", TYPE), "");
	rig_done(&r);
}

TEST(a_resize_waits_for_room_and_one_that_never_fits_says_so)
{
	struct rig r;

	open_small(&r);
	(void)run(&r, "other", SIZED("60", "60"));
	(void)run(&r, "p", SIZED("90", "30"));
	pod_resize_to(&r, "p", SIZED("101", "101"));
	eq_str(told(&r, "p", REASON), "Infeasible");
	pod_resize_to(&r, "p", SIZED("90", "90"));
	eq_str(told(&r, "p", REASON), "Deferred");
	eq_str(told(&r, "p", TYPE), "PodResizePending");
	eq_str(told(&r, "p", GIVEN), "30");
	rig_restart(&r); /* what it wants but was not given takes no room */
	fake_start(fake_task(&r.rt, 0));
	fake_start(fake_task(&r.rt, 1));
	turn(&r);
	eq_str(told(&r, "p", REASON), "Deferred");
	eq_str(told(&r, "p", GIVEN), "30");
	(void)run(&r, "third", SIZED("10", "10"));
	eq_str(told(&r, "third", "phase"), "Running");
	pod_delete(&r, "other", 0);
	turn(&r);
	fake_end(fake_task(&r.rt, 0));
	until(&r, str_eq(told(&r, "p", GIVEN), "90"));
	eq_str(told(&r, "p", TYPE), "");
	rig_done(&r);
}

TEST(a_resize_restarts_a_container_whose_policy_says_so)
{
	struct fake_task *t;
	struct rig r;

	open_small(&r);
	t = run(&r, "p",
		"'restartPolicy':'OnFailure','containers':[{'name':'a','image':'img',"
		"'resizePolicy':[{'resourceName':'memory','restartPolicy':'RestartContainer'}],"
		"'resources':{'limits':{'memory':'50'},'requests':{'memory':'10'}}}]");
	pod_resize_to(&r, "p", SIZED("60", "10"));
	is_true(t->last_signal != 0);
	fake_exit(t, 0); /* which would be the end of it otherwise */
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "p", HAS), "60");
	eq_str(told(&r, "p", "containerStatuses.0.restartCount"), "1");
	rig_done(&r);
}
