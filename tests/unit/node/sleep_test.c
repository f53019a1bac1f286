/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "client/access.h"
#include "rig.h"

/* What counts as use of a Pod, and its sleep. */
#define ONE "'containers':[{'name':'a','image':'img'}]"
#define TWO "'containers':[{'name':'a','image':'img'},{'name':'b','image':'img'}]"
#define PROBED                                                                               \
	"'containers':[{'name':'a','image':'img',"                                           \
	"'readinessProbe':{'tcpSocket':{'port':2},'periodSeconds':10,'failureThreshold':1}," \
	"'livenessProbe':{'tcpSocket':{'port':3},'periodSeconds':10,'failureThreshold':1}}]"

static const struct access_target target = { .ns = NS, .pod = "p" };

static void run(struct rig *r, const char *spec, unsigned n)
{
	pod_create(r, "p", spec);
	for (unsigned i = 0; i < n; i++)
		fake_start(fake_task(&r->rt, i));
	turn(r);
}

/* How long ago it was used, in seconds, according to a look now. */
static int64_t idle_s(struct rig *r)
{
	struct access_activity a = { 0 };

	is_true(pods_activity(r->pods, &target, &a));
	return (clock_mono() - a.last_us) / 1000000;
}

static bool frozen(struct rig *r)
{
	struct access_activity a = { 0 };

	return pods_activity(r->pods, &target, &a) && a.frozen;
}

static void busy(struct rig *r, uint32_t n)
{
	struct fake_task *t = fake_last(&r->rt);

	t->ev->busy(t->arg, n);
}

TEST(bytes_processor_time_and_commands_are_use)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	run(&r, ONE, 1);
	t = fake_last(&r.rt);
	eq_int(idle_s(&r), 0);
	step(&r, 10000);
	eq_int(idle_s(&r), 10); /* that of the first look, and nothing since */
	r.rt.received += 1;
	eq_int(idle_s(&r), 0);
	step(&r, 4000);
	r.rt.sent += 1;
	eq_int(idle_s(&r), 0);
	step(&r, 1000);
	t->used.cpu_usec += 95000;
	eq_int(idle_s(&r), 1); /* less than a tenth of a second */
	step(&r, 1000);
	t->used.cpu_usec += 110000;
	eq_int(idle_s(&r), 0);
	step(&r, 1000);
	eq_int(idle_s(&r), 1);
	is_true(t->n_asked > 0);
	busy(&r, 2);
	eq_int(idle_s(&r), 0);
	busy(&r, 0);
	step(&r, 3000);
	eq_int(idle_s(&r), 3);
	rig_done(&r);
}

TEST(the_bytes_of_probes_are_nobodys_use)
{
	struct rig r;

	rig_open(&r);
	run(&r, PROBED, 1);
	(void)idle_s(&r);
	step(&r, 10);
	answer(2, true);
	r.rt.received += 4096;
	step(&r, 4990);
	eq_int(idle_s(&r), 5);
	r.rt.received += 1; /* none was tried since then */
	eq_int(idle_s(&r), 0);
	rig_done(&r);
}

TEST(an_exec_is_use_as_long_as_it_runs)
{
	struct rig r;

	rig_open(&r);
	run(&r, ONE, 1);
	(void)idle_s(&r);
	{
		autoptr(object) o = pod_get(&r, "p");

		pods_session(r.pods, o->uid, 1);
		step(&r, 9000);
		eq_int(idle_s(&r), 0);
		step(&r, 9000);
		pods_session(r.pods, o->uid, -1);
		eq_int(idle_s(&r), 0);
		step(&r, 9000);
		eq_int(idle_s(&r), 9);
		pods_used(r.pods, o->uid, "dial");
		eq_int(idle_s(&r), 0);
	}
	rig_done(&r);
}

TEST(all_containers_freeze_or_none)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", TWO);
	fake_start(fake_task(&r.rt, 0));
	turn(&r);
	fails(pods_freeze(r.pods, &target), ERR_UNAVAILABLE); /* the second is starting */
	is_false(fake_task(&r.rt, 0)->frozen);
	fake_start(fake_task(&r.rt, 1));
	turn(&r);
	(void)idle_s(&r);
	works(pods_freeze(r.pods, &target));
	is_true(frozen(&r));
	is_true(fake_task(&r.rt, 0)->frozen && fake_task(&r.rt, 1)->frozen);
	works(pods_freeze(r.pods, &target)); /* again */
	eq_int(fake_task(&r.rt, 0)->n_freezes, 1);
	pods_thaw(r.pods, &target);
	is_false(frozen(&r));
	is_false(fake_task(&r.rt, 0)->frozen || fake_task(&r.rt, 1)->frozen);
	r.rt.cannot_freeze = true;
	fails(pods_freeze(r.pods, &target), ERR_UNSUPPORTED);
	is_false(frozen(&r));
	fails(pods_freeze(r.pods, &(struct access_target){ .ns = NS, .pod = "none" }),
	      ERR_NOT_FOUND);
	rig_done(&r);
}

TEST(a_byte_that_comes_just_before_the_freeze_undoes_it)
{
	struct rig r;

	rig_open(&r);
	run(&r, ONE, 1);
	(void)idle_s(&r);
	r.rt.received++;
	fails(pods_freeze(r.pods, &target), ERR_UNAVAILABLE);
	is_false(fake_last(&r.rt)->frozen);
	rig_done(&r);
}

TEST(what_does_not_stop_goes_on_and_that_is_told)
{
	struct rig r;

	rig_open(&r);
	run(&r, ONE, 1);
	(void)idle_s(&r);
	r.rt.never_stops = true;
	works(pods_freeze(r.pods, &target));
	is_true(frozen(&r));
	step(&r, 1001);
	until(&r, !frozen(&r));
	is_false(fake_last(&r.rt)->frozen);
	eq_int(count_events(&r, "FreezeFailed"), 1);
	rig_done(&r);
}

TEST(a_thaw_that_fails_is_tried_again)
{
	struct rig r;

	rig_open(&r);
	run(&r, ONE, 1);
	(void)idle_s(&r);
	works(pods_freeze(r.pods, &target));
	r.rt.failing_thaws = 2;
	pods_thaw(r.pods, &target);
	is_true(frozen(&r));
	until(&r, !frozen(&r));
	is_false(fake_last(&r.rt)->frozen);
	works(pods_freeze(r.pods, &target)); /* nothing is left of that */
	is_true(frozen(&r));
	rig_done(&r);
}

TEST(a_thaw_that_always_fails_waits_for_the_next_use)
{
	struct rig r;

	rig_open(&r);
	run(&r, ONE, 1);
	(void)idle_s(&r);
	works(pods_freeze(r.pods, &target));
	r.rt.failing_thaws = 20;
	pods_thaw(r.pods, &target);
	until(&r, !r.rt.failing_thaws);
	is_true(frozen(&r));
	pods_thaw(r.pods, &target);
	is_false(frozen(&r));
	rig_done(&r);
}

TEST(probes_wait_while_it_is_frozen_and_it_stays_ready)
{
	unsigned n;
	struct rig r;

	rig_open(&r);
	run(&r, PROBED, 1);
	step(&r, 10);
	answer(2, true);
	turn(&r);
	eq_str(ready_of(&r, "p"), "True");
	(void)idle_s(&r);
	works(pods_freeze(r.pods, &target));
	n = tries_of(2);
	for (int i = 0; i < 5; i++)
		step(&r, 10001);
	eq_int(tries_of(2), n);
	eq_str(ready_of(&r, "p"), "True");
	is_false(fake_last(&r.rt)->killed);
	pods_thaw(r.pods, &target);
	turn(&r);
	eq_int(tries_of(2), n); /* not before a period has gone by */
	step(&r, 10001);
	eq_int(tries_of(2), n + 1);
	answer(2, true);
	rig_done(&r);
}

TEST(one_that_was_found_frozen_stays_so_and_is_ready_without_being_asked)
{
	struct fake_task *t;
	struct rig r;

	rig_open(&r);
	run(&r, PROBED, 1);
	t = fake_last(&r.rt);
	step(&r, 10);
	answer(2, true);
	turn(&r);
	(void)idle_s(&r);
	works(pods_freeze(r.pods, &target));
	rig_restart(&r);
	t->ev->started(t->arg); /* as native does for a frozen one */
	turn(&r);
	is_true(t->frozen && frozen(&r));
	eq_str(ready_of(&r, "p"), "True");
	step(&r, 60000);
	eq_str(ready_of(&r, "p"), "True");
	pods_thaw(r.pods, &target);
	is_false(t->frozen);
	rig_done(&r);
}

TEST(one_of_which_a_part_was_found_frozen_goes_on)
{
	struct rig r;

	rig_open(&r);
	run(&r, TWO, 2);
	(void)idle_s(&r);
	works(pods_freeze(r.pods, &target));
	rig_stop(&r);
	fake_task(&r.rt, 1)->frozen = false; /* the daemon died there */
	rig_start(&r);
	is_false(fake_task(&r.rt, 0)->frozen);
	is_false(frozen(&r));
	rig_done(&r);
}

TEST(one_that_shall_end_goes_on_first)
{
	struct rig r;

	rig_open(&r);
	run(&r, ONE, 1);
	(void)idle_s(&r);
	works(pods_freeze(r.pods, &target));
	pod_delete(&r, "p", 30);
	until(&r, fake_last(&r.rt)->last_signal);
	is_false(fake_last(&r.rt)->frozen);
	fake_exit(fake_last(&r.rt), 0);
	until(&r, !pod_there(&r, "p"));
	rig_done(&r);
}
