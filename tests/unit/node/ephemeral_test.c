/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "rig.h"

#define MAIN  "'containers':[{'name':'a','image':'img'}]"
#define DEBUG "'ephemeralContainers':[{'name':'d','image':'img'}]"
#define STATE "ephemeralContainerStatuses.0.state."

static struct fake_task *run(struct rig *r, const char *name, const char *spec)
{
	pod_create(r, name, spec);
	fake_start(fake_last(&r->rt));
	turn(r);
	return fake_last(&r->rt);
}

static struct fake_task *debug(struct rig *r, const char *name, const char *spec)
{
	pod_patch_part(r, name, "ephemeralcontainers", spec);
	fake_start(fake_last(&r->rt));
	turn(r);
	return fake_last(&r->rt);
}

TEST(an_ephemeral_container_runs_beside_the_others_and_is_not_restarted)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	(void)run(&r, "p", MAIN);
	t = debug(&r, "p", DEBUG);
	eq_int(fake_count(&r.rt), 2);
	is_true(t->joins);
	is_true(*told(&r, "p", STATE "running.startedAt") != 0);
	fake_exit(t, 1);
	turn(&r);
	step(&r, 600000);
	eq_int(fake_count(&r.rt), 2);
	eq_str(told(&r, "p", STATE "terminated.exitCode"), "1");
	eq_str(told(&r, "p", "phase"), "Running");
	eq_str(ready_of(&r, "p"), "True");
	rig_done(&r);
}

TEST(an_ephemeral_container_waits_for_no_init_container)
{
	struct rig r;

	rig_open(&r);
	(void)run(&r, "p", MAIN ",'initContainers':[{'name':'i','image':'img'}]");
	(void)debug(&r, "p", DEBUG);
	eq_int(fake_count(&r.rt), 2);
	eq_str(told(&r, "p", "phase"), "Pending");
	rig_done(&r);
}

TEST(a_restart_of_the_daemon_starts_no_ephemeral_container_again)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	(void)run(&r, "p", MAIN);
	t = debug(&r, "p", DEBUG);
	rig_restart(&r);
	fake_start(fake_task(&r.rt, 0));
	fake_start(t);
	turn(&r);
	is_true(*told(&r, "p", STATE "running.startedAt") != 0);
	fake_exit(t, 0);
	turn(&r);
	rig_restart(&r);
	fake_start(fake_task(&r.rt, 0));
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	eq_str(told(&r, "p", STATE "terminated.reason"), "Completed");
	rig_done(&r);
}

TEST(a_pod_that_is_done_ends_its_ephemeral_containers)
{
	struct fake_task *t, *d;
	struct rig r;

	rig_open(&r);
	t = run(&r, "p", "'restartPolicy':'Never'," MAIN);
	d = debug(&r, "p", DEBUG);
	fake_exit(t, 0);
	turn(&r);
	is_true(d->last_signal != 0);
	fake_exit(d, 1); /* which says nothing about the Pod */
	turn(&r);
	eq_str(told(&r, "p", "phase"), "Succeeded");
	rig_done(&r);
}

TEST(an_ephemeral_container_that_asks_for_too_much_is_refused_by_itself)
{
	struct rig r;

	rig_open(&r);
	(void)run(&r, "p", MAIN);
	pod_patch_part(&r, "p", "ephemeralcontainers",
		       "'ephemeralContainers':[{'name':'d','image':'img',"
		       "'securityContext':{'privileged':true}}]");
	eq_int(fake_count(&r.rt), 1);
	eq_str(told(&r, "p", STATE "waiting.reason"), "CreateContainerConfigError");
	is_true(strstr(told(&r, "p", STATE "waiting.message"),
		       "spec.ephemeralContainers[0].securityContext.privileged") != NULL);
	eq_str(ready_of(&r, "p"), "True");
	rig_done(&r);
}

TEST(an_ephemeral_container_counts_among_those_of_the_node)
{
	struct rig r;

	rig_open(&r);
	rig_stop(&r);
	r.max_containers = 2;
	rig_start(&r);
	(void)run(&r, "p", MAIN);
	(void)debug(&r, "p", DEBUG);
	eq_int(fake_count(&r.rt), 2);
	pod_patch_part(&r, "p", "ephemeralcontainers",
		       "'ephemeralContainers':[{'name':'e','image':'img'}]");
	eq_int(fake_count(&r.rt), 2);
	pod_create(&r, "q", MAIN);
	eq_str(told(&r, "q", "reason"), "OutOfcontainers");
	rig_done(&r);
}
