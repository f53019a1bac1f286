/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "kinds.h"
#include "node/pod/state.h"
#include "rig.h"

/* The daemon goes and comes back; tasks run on, or end, meanwhile. */
#define ONE "'containers':[{'name':'a','image':'img'}]"

static void run(struct rig *r, const char *name, const char *spec)
{
	pod_create(r, name, spec);
	fake_start(fake_last(&r->rt));
	turn(r);
}

TEST(a_task_that_still_runs_is_taken_over)
{
	struct rig r;
	autofree char *since = NULL;
	uint64_t before;

	rig_open(&r);
	run(&r, "p", ONE);
	eq_int(count_events(&r, "Started"), 1);
	since = xstrdup(told(&r, "p", "containerStatuses.0.state.running.startedAt"));
	rig_stop(&r);
	before = rev(&r);
	rig_start(&r);
	eq_int(r.rt.n_held, 1);
	eq_int(r.rt.n_held_ips, 1);
	eq_int(r.rt.n_swept, 2); /* once in each life */
	step(&r, 1000);
	eq_int(rev(&r), before); /* until it is known, the status stands */
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	eq_str(ready_of(&r, "p"), "True");
	eq_str(told(&r, "p", "containerStatuses.0.state.running.startedAt"), since);
	eq_str(told(&r, "p", "podIP"), "10.9.0.1");
	eq_int(count_events(&r, "Scheduled"), 1);
	eq_int(count_events(&r, "Started"), 1);
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	rig_done(&r);
}

TEST(a_task_that_ended_meanwhile_is_started_anew_at_its_address)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	rig_stop(&r);
	fake_end(fake_last(&r.rt));
	rig_start(&r);
	eq_int(fake_count(&r.rt), 2);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "p", "podIP"), "10.9.0.1");
	eq_str(told(&r, "p", "containerStatuses.0.restartCount"), "1");
	eq_str(told(&r, "p", "containerStatuses.0.lastState.terminated.reason"),
	       "ContainerStatusUnknown");
	eq_str(told(&r, "p", "containerStatuses.0.lastState.terminated.exitCode"), "137");
	eq_str(told(&r, "p", "containerStatuses.0.lastState.terminated.containerID"), "cay://t0");
	rig_done(&r);
}

TEST(an_address_that_is_taken_is_not_waited_for)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	rig_stop(&r);
	fake_end(fake_last(&r.rt));
	r.rt.refused_ip = "10.9.0.1";
	rig_start(&r);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(told(&r, "p", "podIP"), "10.9.0.2");
	rig_done(&r);
}

TEST(memory_that_ran_out_meanwhile_is_the_reason)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", "'restartPolicy':'Never'," ONE);
	rig_stop(&r);
	fake_last(&r.rt)->oom = true;
	fake_end(fake_last(&r.rt));
	rig_start(&r);
	eq_int(fake_count(&r.rt), 1);
	eq_str(told(&r, "p", "phase"), "Failed");
	eq_str(told(&r, "p", "containerStatuses.0.state.terminated.reason"), "OOMKilled");
	rig_done(&r);
}

TEST(an_init_container_is_not_run_twice)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p",
		   "'initContainers':[{'name':'i','image':'img','command':['init']}],"
		   "'containers':[{'name':'a','image':'img','command':['run']}]");
	fake_start(fake_last(&r.rt));
	r.rt.slots = 0; /* the other cannot be launched before the restart */
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	rig_stop(&r);
	r.rt.slots = 1;
	rig_start(&r);
	eq_int(fake_count(&r.rt), 2);
	eq_str(fake_last(&r.rt)->argv0, "run");
	rig_done(&r);
}

#define NEVER "'restartPolicy':'Never'," ONE

/* Its slot runs or is gone, but its guest was never told to start the command: it ran nothing. */
TEST(a_launch_that_the_daemon_did_not_survive_is_made_anew_and_not_counted)
{
	for (int alive = 0; alive < 2; alive++) {
		struct rig r;

		rig_open(&r);
		pod_create(&r, "p", NEVER);
		rig_stop(&r);
		if (!alive)
			fake_end(fake_last(&r.rt));
		rig_start(&r);
		eq_int(fake_count(&r.rt), 2);
		fake_start(fake_last(&r.rt));
		turn(&r);
		eq_str(ready_of(&r, "p"), "True");
		eq_str(told(&r, "p", "containerStatuses.0.restartCount"), "0");
		eq_str(told(&r, "p", "containerStatuses.0.lastState"), "{}");
		rig_done(&r);
	}
}

TEST(a_start_that_was_written_down_is_left_to_the_guest_that_knows)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", NEVER);
	fake_starting(fake_last(&r.rt));
	rig_restart(&r);
	eq_int(fake_count(&r.rt), 1);
	eq_int(fake_last(&r.rt)->n_starts, 0);
	fake_idle(fake_last(&r.rt)); /* it was not told */
	eq_int(fake_last(&r.rt)->n_starts, 1);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(ready_of(&r, "p"), "True");
	eq_int(fake_count(&r.rt), 1);
	eq_str(told(&r, "p", "containerStatuses.0.restartCount"), "0");
	rig_done(&r);
}

TEST(a_start_that_was_written_down_and_whose_guest_is_gone_counts_as_run)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", NEVER);
	fake_starting(fake_last(&r.rt));
	rig_stop(&r);
	fake_end(fake_last(&r.rt));
	rig_start(&r);
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	eq_str(told(&r, "p", "phase"), "Failed");
	eq_str(told(&r, "p", "containerStatuses.0.state.terminated.reason"),
	       "ContainerStatusUnknown");
	rig_done(&r);
}

/* The daemon dies after it was told and before the last process is gone. */
static void end_is_kept(bool gone)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	run(&r, "p", NEVER);
	t = fake_last(&r.rt);
	t->ev->exited(t->arg, 0, 0, SPAN(""));
	rig_stop(&r);
	if (gone)
		fake_end(t);
	rig_start(&r);
	if (!gone)
		fake_end(t); /* it was being killed */
	turn(&r);
	eq_int(fake_count(&r.rt), 1);
	eq_str(told(&r, "p", "phase"), "Succeeded");
	eq_str(told(&r, "p", "containerStatuses.0.state.terminated.reason"), "Completed");
	rig_done(&r);
}

TEST(an_end_that_was_written_down_is_not_lost_with_the_guest)
{
	end_is_kept(true);
	end_is_kept(false);
}

TEST(a_restart_in_the_middle_of_a_grace_does_not_cut_it_short)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", "'terminationGracePeriodSeconds':600," ONE);
	pod_delete(&r, "p", 600);
	until(&r, fake_last(&r.rt)->last_signal == SIGTERM);
	fake_last(&r.rt)->last_signal = 0;
	rig_restart(&r);
	step(&r, 1000);
	is_false(fake_last(&r.rt)->killed);
	eq_int(fake_last(&r.rt)->last_signal, 0); /* its guest has not answered yet */
	fake_start(fake_last(&r.rt));
	until(&r, fake_last(&r.rt)->last_signal == SIGTERM);
	is_false(fake_last(&r.rt)->killed);
	pod_delete(&r, "p", 0); /* but whoever deletes it again may be in a hurry */
	until(&r, fake_last(&r.rt)->killed);
	fake_end(fake_last(&r.rt));
	until(&r, !pod_there(&r, "p"));
	rig_done(&r);
}

TEST(a_slot_that_is_gone_before_the_start_is_replaced_and_not_counted)
{
	struct rig r;

	rig_open(&r);
	pod_create(&r, "p", NEVER);
	for (unsigned n = 1; n <= 4; n++) { /* each died after it was chosen */
		eq_int(fake_count(&r.rt), n);
		fake_lose(fake_last(&r.rt));
		turn(&r);
	}
	eq_int(fake_count(&r.rt), 5);
	fake_lose(fake_last(&r.rt));
	turn(&r);
	eq_int(fake_count(&r.rt), 5); /* then with a back-off */
	step(&r, 6000);
	eq_int(fake_count(&r.rt), 6);
	fake_end(fake_last(&r.rt)); /* killed from outside, without a word */
	step(&r, 11000);
	eq_int(fake_count(&r.rt), 7);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(ready_of(&r, "p"), "True");
	eq_str(told(&r, "p", "containerStatuses.0.restartCount"), "0");
	rig_done(&r);
}

TEST(a_start_that_cannot_be_written_down_is_not_made)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	pod_create(&r, "p", NEVER);
	t = fake_last(&r.rt);
	{
		autofree char *state = xasprintf("%s/state", r.run_dir);
		autofree char *away = xasprintf("%s/away", r.run_dir);
		struct err *e;

		eq_int(rename(state, away), 0);
		e = t->ev->starting(t->arg);
		eq_int(rename(away, state), 0);
		is_true(e != NULL);
		t->ev->failed(t->arg, e, 128);
	}
	fake_end(t);
	turn(&r);
	eq_str(told(&r, "p", "containerStatuses.0.state.terminated.reason"), "StartError");
	rig_done(&r);
}

TEST(crashes_before_a_restart_still_count)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	fake_start(fake_last(&r.rt));
	turn(&r);
	rig_restart(&r);
	fake_start(fake_last(&r.rt));
	fake_exit(fake_last(&r.rt), 1);
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	eq_str(told(&r, "p", "containerStatuses.0.state.waiting.reason"), "CrashLoopBackOff");
	rig_done(&r);
}

TEST(a_pod_that_had_ended_stays_as_it_was_told)
{
	struct rig r;
	uint64_t before;

	rig_open(&r);
	run(&r, "p", "'restartPolicy':'Never'," ONE);
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	eq_str(told(&r, "p", "phase"), "Succeeded");
	rig_stop(&r);
	before = rev(&r);
	rig_start(&r);
	eq_int(r.rt.n_held_ips, 0);
	step(&r, 1000);
	eq_int(rev(&r), before);
	eq_int(fake_count(&r.rt), 1);
	pod_delete(&r, "p", 0);
	until(&r, r.rt.n_dropped_logs == 1);
	is_false(pod_there(&r, "p"));
	rig_done(&r);
}

TEST(a_deletion_is_finished_after_a_restart)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	pod_delete(&r, "p", 20);
	rig_restart(&r);
	fake_start(fake_last(&r.rt));
	until(&r, fake_last(&r.rt)->last_signal == SIGTERM);
	is_false(fake_last(&r.rt)->killed);
	fake_end(fake_last(&r.rt));
	until(&r, !pod_there(&r, "p"));
	rig_done(&r);
}

/* As if the daemon had been away for so long. */
static void age_state(struct rig *r, const char *name, usec by)
{
	autoptr(object) o = pod_get(r, name);
	autoptr(arena) a = arena_new();
	autoclose run = open(r->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct pod_record record;

	works(pod_record_load(run, o->uid, a, &record));
	record.started -= by;
	works(pod_record_save(run, o->uid, &record));
}

TEST(a_deadline_goes_on_over_a_restart)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", "'activeDeadlineSeconds':60," ONE);
	rig_stop(&r);
	age_state(&r, "p", 50 * 1000000);
	rig_start(&r);
	fake_start(fake_last(&r.rt));
	step(&r, 8000);
	is_false(fake_last(&r.rt)->killed);
	step(&r, 3000);
	is_true(fake_last(&r.rt)->killed);
	eq_str(told(&r, "p", "reason"), "DeadlineExceeded");
	rig_done(&r);
}

static void overwrite_state(struct rig *r, const char *name, const char *text)
{
	autoptr(object) o = pod_get(r, name);
	autofree char *path = xasprintf("%s/state/%s.json", r->run_dir, o->uid);
	autoclose fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	is_true(fd >= 0);
	works(fd_write_all(fd, text, strlen(text)));
}

TEST(a_state_that_cannot_be_read_means_a_new_start)
{
	static const char *const rows[] = {
		"",
		"{",
		"[]",
		"{\"containers\":[{}]}",
		"{\"containers\":[{\"name\":\"a\",\"restarts\":-1}]}",
		"{\"containers\":{\"name\":\"a\"}}",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig r;

		rig_open(&r);
		run(&r, "p", ONE);
		overwrite_state(&r, "p", rows[i]);
		rig_restart(&r);
		eq_int(r.rt.n_held, 0);
		eq_int(fake_count(&r.rt), 2);
		rig_done(&r);
	}
}

TEST(a_state_of_unknown_shape_is_tolerated)
{
	struct rig r;

	rig_open(&r);
	run(&r, "p", ONE);
	overwrite_state(&r, "p",
			"{\"containers\":[{\"name\":\"zz\",\"slot\":\"s1\"},{\"name\":\"a\"},"
			"{\"name\":\"a\",\"log\":\"x\"}],\"new\":1}");
	rig_restart(&r);
	eq_int(fake_count(&r.rt), 2);
	rig_done(&r);
}

static char *make_volume_dir(struct rig *r, const char *uid)
{
	char *dir = xasprintf("%s/volumes/%s", r->data_dir, uid);

	works(file_mkdirs(dir, 0700));
	return dir;
}

TEST(a_deleted_volumes_directory_outlives_a_restart_as_long_as_its_pod)
{
	const struct client_ref ref = { .kind = kind_named("PersistentVolumeClaim"),
					.ns = NS,
					.name = "q" };
	autofree char *used = NULL, *unused_ = NULL;
	autoptr(object) pvc = NULL;
	struct stat st;
	struct rig r;

	rig_open(&r);
	create(&r, ref.kind,
	       "{'apiVersion':'v1','kind':'PersistentVolumeClaim','metadata':{'name':'q'},'spec':"
	       "{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':'1Gi'}}}}");
	pvc = client_get(r.client, ref.kind, NS, "q");
	run(&r, "p",
	    "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'q'}}],"
	    "'containers':[{'name':'a','image':'img','volumeMounts':[{'name':'v','mountPath':'/v'}]}]");
	used = make_volume_dir(&r, pvc->uid);
	pvc_delete(&r, "q");
	rig_stop(&r);
	unused_ = make_volume_dir(&r, "nobodys");
	rig_start(&r);
	until(&r, stat(unused_, &st) < 0);
	rig_restart(&r); /* waits for whatever is being removed */
	is_true(!stat(used, &st));
	pod_delete(&r, "p", 0);
	until(&r, fake_last(&r.rt)->killed);
	is_true(!stat(used, &st));
	fake_end(fake_last(&r.rt));
	until(&r, stat(used, &st) < 0);
	rig_done(&r);
}
