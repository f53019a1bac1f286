/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "base/str.h"
#include "rig.h"

/* The whole node ends, with its Pods. */
#define ONE      "'containers':[{'name':'a','image':'img'}]"
#define CRITICAL "'priorityClassName':'system-node-critical'," ONE
#define NEVER    "'restartPolicy':'Never'," ONE

static const struct pods_grace grace = { .ordinary_ms = 20000, .critical_ms = 10000 };

static struct fake_task *run(struct rig *r, const char *name, const char *spec)
{
	pod_create(r, name, spec);
	fake_start(fake_last(&r->rt));
	turn(r);
	return fake_last(&r->rt);
}

static void note_stopped(void *arg)
{
	*(bool *)arg = true;
}

static void stop_all(struct rig *r)
{
	pods_stop_all(r->pods, &grace, note_stopped, &r->stopped);
}

TEST(stopping_the_node_ends_its_pods_and_keeps_their_objects)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	t = run(&r, "p", ONE);
	stop_all(&r);
	until(&r, t->last_signal == SIGTERM);
	step(&r, 19000);
	is_false(t->killed);
	step(&r, 2000); /* however long its own grace is */
	is_true(t->killed);
	is_false(r.stopped);
	fake_end(t);
	until(&r, r.stopped);
	is_true(pod_there(&r, "p"));
	rig_done(&r);
}

TEST(a_pod_that_wants_less_than_the_round_has_less)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	t = run(&r, "p", "'terminationGracePeriodSeconds':3," ONE);
	stop_all(&r);
	until(&r, t->last_signal == SIGTERM);
	step(&r, 3001);
	is_true(t->killed);
	rig_done(&r);
}

TEST(critical_pods_end_when_all_others_have)
{
	static const char *const critical[] = {
		CRITICAL,
		"'priorityClassName':'system-cluster-critical'," ONE,
		"'priorityClassName':'system-cluster-critical','priority':2000000000," ONE,
	};
	struct fake_task *ordinary, *t;
	struct rig r;

	for (size_t i = 0; i < ARRAY_LEN(critical); i++) {
		rig_open(&r);
		t = run(&r, "critical", critical[i]);
		ordinary = run(&r, "p", "'priority':0," ONE);
		stop_all(&r);
		until(&r, ordinary->last_signal == SIGTERM);
		step(&r, 5000);
		eq_int(t->last_signal, 0);
		eq_str(ready_of(&r, "critical"), "True");
		fake_end(ordinary);
		until(&r, t->last_signal == SIGTERM);
		step(&r, 9000); /* its own round counts from here */
		is_false(t->killed);
		step(&r, 2000);
		is_true(t->killed);
		fake_end(t);
		until(&r, r.stopped);
		rig_done(&r);
	}
}

TEST(critical_pods_do_not_wait_for_one_that_cannot_be_killed)
{
	struct fake_task *ordinary, *t;
	struct rig r;

	rig_open(&r);
	t = run(&r, "critical", CRITICAL);
	ordinary = run(&r, "p", ONE);
	stop_all(&r);
	until(&r, ordinary->last_signal == SIGTERM);
	step(&r, 20001);
	is_true(ordinary->killed);
	until(&r, t->last_signal == SIGTERM);
	rig_done(&r);
}

TEST(a_deletion_under_way_has_no_more_time_than_the_round)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	t = run(&r, "p", "'terminationGracePeriodSeconds':600," ONE);
	pod_delete(&r, "p", 600);
	until(&r, t->last_signal == SIGTERM);
	stop_all(&r);
	step(&r, 20001);
	is_true(t->killed);
	rig_done(&r);
}

TEST(the_status_says_why_a_pod_ended_and_the_next_start_takes_it_back)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	t = run(&r, "p", NEVER);
	stop_all(&r);
	until(&r, t->last_signal == SIGTERM);
	eq_str(ready_of(&r, "p"), "False");
	eq_str(told(&r, "p", "reason"), "Terminated");
	eq_str(told(&r, "p", "message"),
	       "Pod was terminated in response to imminent node shutdown.");
	fake_exit(t, 143);
	fake_end(t);
	until(&r, r.stopped);
	eq_str(told(&r, "p", "phase"), "Running"); /* a Pod that failed would not come back */
	eq_str(told(&r, "p", "containerStatuses.0.state.terminated.exitCode"), "143");
	eq_str(told(&r, "p", "conditions.4.type"), "DisruptionTarget");
	rig_restart(&r);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	eq_str(ready_of(&r, "p"), "True");
	eq_str(told(&r, "p", "reason"), "");
	eq_str(told(&r, "p", "message"), "");
	eq_str(told(&r, "p", "conditions.4.type"), "");
	rig_done(&r);
}

TEST(a_pod_that_was_over_stays_as_it_was)
{
	struct rig r;

	rig_open(&r);
	(void)run(&r, "p", NEVER);
	fake_exit(fake_last(&r.rt), 3);
	fake_end(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "p", "phase"), "Failed");
	stop_all(&r);
	until(&r, r.stopped);
	eq_str(told(&r, "p", "phase"), "Failed");
	eq_str(told(&r, "p", "reason"), "");
	rig_restart(&r);
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}

/* The daemon ends between SIGTERM and the end of a Pod, which its restart policy would not start
 * again. */
TEST(a_start_after_half_a_stop_ends_the_pod_and_begins_it_anew)
{
	static const bool ended[] = { true, false };
	struct fake_task *t;
	struct rig r;

	for (size_t i = 0; i < ARRAY_LEN(ended); i++) {
		rig_open(&r);
		t = run(&r, "p", NEVER);
		stop_all(&r);
		until(&r, t->last_signal == SIGTERM);
		t->last_signal = 0;
		rig_stop(&r);
		if (ended[i])
			fake_end(t);
		rig_start(&r);
		if (!ended[i]) {
			fake_start(t);
			until(&r, t->last_signal == SIGTERM);
			eq_int(fake_count(&r.rt), 1); /* never two of it */
			fake_end(t);
		}
		until(&r, fake_count(&r.rt) == 2);
		fake_start(fake_last(&r.rt));
		turn(&r);
		eq_str(told(&r, "p", "phase"), "Running");
		eq_str(ready_of(&r, "p"), "True");
		eq_str(told(&r, "p", "containerStatuses.0.restartCount"), "0");
		rig_done(&r);
	}
}

TEST(a_pod_whose_round_had_not_come_runs_on)
{
	struct fake_task *ordinary, *t;
	struct rig r;

	rig_open(&r);
	t = run(&r, "critical", CRITICAL);
	ordinary = run(&r, "p", ONE);
	stop_all(&r);
	until(&r, ordinary->last_signal == SIGTERM);
	rig_restart(&r);
	fake_start(t);
	turn(&r);
	eq_str(ready_of(&r, "critical"), "True");
	eq_int(t->last_signal, 0);
	rig_done(&r);
}

TEST(a_pod_that_is_deleted_while_it_would_begin_anew_is_let_go)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	t = run(&r, "p", ONE);
	stop_all(&r);
	until(&r, t->last_signal == SIGTERM);
	rig_restart(&r);
	pod_delete(&r, "p", 0);
	fake_end(t);
	until(&r, !pod_there(&r, "p"));
	eq_int(fake_count(&r.rt), 1);
	rig_done(&r);
}
