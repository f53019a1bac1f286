/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "node/pod/decide_priv.h"
#include "test.h"

enum {
	N_MAX = 3,
};

static struct pod_plan decide(const struct pod_seen *s, const struct container_seen *list, size_t n,
			      enum container_step *steps)
{
	struct pod_seen seen = *s;

	seen.containers = list;
	seen.n_containers = n;
	return pod_run_decide(&seen, steps);
}

TEST(a_pod_is_admitted_then_prepared_then_connected)
{
	static const struct {
		struct pod_seen seen;
		enum pod_step step;
	} rows[] = {
		{ { .phase = POD_ADMITTING }, POD_STEP_ADMIT },
		{ { .phase = POD_PREPARING }, POD_STEP_PREPARE },
		{ { .phase = POD_CONNECTING }, POD_STEP_CONNECT },
		{ { .phase = POD_CONNECTING, .in_line = true }, POD_STEP_NONE },
		{ { .phase = POD_ADMITTING, .late = true }, POD_STEP_FAIL },
		{ { .phase = POD_CONNECTING, .late = true, .in_line = true }, POD_STEP_FAIL },
		{ { .phase = POD_CONNECTING, .evicted = true, .in_line = true }, POD_STEP_FAIL },
		{ { .phase = POD_OVER, .evicted = true }, POD_STEP_NONE },
		{ { .phase = POD_SUCCEEDED, .late = true }, POD_STEP_NONE },
		{ { .phase = POD_OVER, .late = true }, POD_STEP_NONE },
	};
	enum container_step steps[N_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(decide(&rows[i].seen, NULL, 0, steps).step, rows[i].step);
}

TEST(a_pod_that_is_deleted_leaves_in_order)
{
	static const struct {
		struct pod_seen seen;
		enum container_state state;
		enum pod_step step;
		enum container_step c;
	} rows[] = {
		{ { .phase = POD_ADMITTING }, CONTAINER_WAITING, POD_STEP_SYNC },
		{ { .phase = POD_ACTIVE }, CONTAINER_RUNNING, POD_STEP_SYNC },
		{ { .phase = POD_OVER }, CONTAINER_ENDED, POD_STEP_SYNC },
		{ { .phase = POD_SYNCING }, CONTAINER_RUNNING, POD_STEP_NONE },
		{ { .phase = POD_STOPPING }, CONTAINER_RUNNING, POD_STEP_STOP },
		{ { .phase = POD_TERMINATING, .grace_left = true },
		  CONTAINER_RUNNING,
		  POD_STEP_NONE },
		{ { .phase = POD_TERMINATING },
		  CONTAINER_RUNNING,
		  POD_STEP_NONE,
		  CONTAINER_STEP_KILL },
		{ { .phase = POD_TERMINATING }, CONTAINER_ENDING, POD_STEP_NONE },
		{ { .phase = POD_TERMINATING, .grace_left = true },
		  CONTAINER_ENDED,
		  POD_STEP_CLEAN },
		{ { .phase = POD_CLEANING, .gone = true }, CONTAINER_ENDED, POD_STEP_NONE },
		{ { .phase = POD_LETTING_GO }, CONTAINER_ENDED, POD_STEP_LET_GO },
		{ { .phase = POD_LETTING_GO, .gone = true }, CONTAINER_ENDED, POD_STEP_FORGET },
		{ { .phase = POD_LETTING_GO, .stopping = true }, CONTAINER_ENDED, POD_STEP_FORGET },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct container_seen c = { .state = rows[i].state };
		struct pod_seen seen = rows[i].seen;
		enum container_step step;

		seen.deleting = true;
		eq_int(decide(&seen, &c, 1, &step).step, rows[i].step);
		eq_int(step, rows[i].c);
	}
}

TEST(a_pod_leaves_when_its_object_or_its_node_does)
{
	static const struct pod_seen rows[] = {
		{ .phase = POD_ACTIVE, .deleting = true },
		{ .phase = POD_ACTIVE, .gone = true },
		{ .phase = POD_ACTIVE, .stopping = true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(decide(&rows[i], NULL, 0, NULL).step, POD_STEP_SYNC);
}

TEST(init_containers_run_one_after_the_other)
{
	static const struct {
		struct container_seen c[N_MAX];
		enum container_step steps[N_MAX];
	} rows[] = {
		{ { { .init = true }, { .init = true }, { 0 } }, { CONTAINER_STEP_LAUNCH } },
		{ { { .init = true, .state = CONTAINER_RUNNING }, { .init = true }, { 0 } },
		  { 0 } },
		{ { { .init = true, .state = CONTAINER_ENDED }, { .init = true }, { 0 } },
		  { 0, CONTAINER_STEP_LAUNCH } },
		{ { { .init = true, .state = CONTAINER_ENDED },
		    { .init = true, .state = CONTAINER_ENDED },
		    { 0 } },
		  { 0, 0, CONTAINER_STEP_LAUNCH } },
		{ { { .init = true, .state = CONTAINER_ENDED, .code = 1 },
		    { .init = true },
		    { 0 } },
		  { CONTAINER_STEP_RESTART } },
		{ { { .init = true, .held = true }, { .init = true }, { 0 } }, { 0 } },
	};
	const struct pod_seen seen = { .phase = POD_ACTIVE };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum container_step steps[N_MAX];

		eq_int(decide(&seen, rows[i].c, N_MAX, steps).step, POD_STEP_NONE);
		for (size_t k = 0; k < N_MAX; k++)
			eq_int(steps[k], rows[i].steps[k]);
	}
}

#define SIDECAR      .init = true, .sidecar = true
#define SIDECAR_UP   SIDECAR, .state = CONTAINER_RUNNING, .started = true
#define SIDECAR_DOWN SIDECAR, .state = CONTAINER_ENDED

TEST(a_sidecar_is_waited_for_until_it_has_started_and_runs_on)
{
	static const struct {
		struct container_seen c[N_MAX];
		enum container_step steps[N_MAX];
		enum pod_step pod;
	} rows[] = {
		{ { { SIDECAR }, { .init = true }, { 0 } }, { CONTAINER_STEP_LAUNCH } },
		{ { { SIDECAR, .state = CONTAINER_RUNNING }, { .init = true }, { 0 } }, { 0 } },
		{ { { SIDECAR_UP }, { .init = true }, { 0 } }, { 0, CONTAINER_STEP_LAUNCH } },
		{ { { SIDECAR_UP }, { .init = true, .state = CONTAINER_ENDED }, { 0 } },
		  { 0, 0, CONTAINER_STEP_LAUNCH } },
		/* before anything else has run, one that ended is waited for again */
		{ { { SIDECAR_DOWN }, { .init = true }, { 0 } }, { CONTAINER_STEP_RESTART } },
		/* afterwards it holds up nobody, and is restarted whatever the Pod's policy is */
		{ { { SIDECAR_DOWN }, { SIDECAR_UP }, { .ran = true } },
		  { CONTAINER_STEP_RESTART, 0, CONTAINER_STEP_LAUNCH } },
		{ { { SIDECAR, .ran = true },
		    { .init = true, .state = CONTAINER_ENDED },
		    { .state = CONTAINER_RUNNING } },
		  { CONTAINER_STEP_LAUNCH } },
		/* when the container proper is done, the sidecars are */
		{ { { SIDECAR_UP }, { SIDECAR_UP }, { .state = CONTAINER_ENDED } },
		  { 0 },
		  POD_STEP_FINISH },
		{ { { SIDECAR_DOWN, .code = 1 }, { SIDECAR_DOWN }, { .state = CONTAINER_ENDED } },
		  { 0 },
		  POD_STEP_SUCCEED },
	};
	const struct pod_seen seen = { .phase = POD_ACTIVE, .restart = POD_RESTART_NEVER };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum container_step steps[N_MAX];

		eq_int(decide(&seen, rows[i].c, N_MAX, steps).step, rows[i].pod);
		for (size_t k = 0; k < N_MAX; k++)
			eq_int(steps[k], rows[i].steps[k]);
	}
}

TEST(sidecars_end_last_and_in_reverse_order)
{
	static const struct {
		struct container_seen c[N_MAX];
		enum container_step steps[N_MAX];
		bool late;
	} rows[] = {
		{ { { SIDECAR_UP }, { SIDECAR_UP }, { .state = CONTAINER_RUNNING } }, { 0 } },
		{ { { SIDECAR_UP }, { SIDECAR_UP }, { .state = CONTAINER_ENDED } },
		  { 0, CONTAINER_STEP_TERM } },
		{ { { SIDECAR_UP }, { SIDECAR_UP, .asked = true }, { .state = CONTAINER_ENDED } },
		  { 0 } },
		{ { { SIDECAR_UP }, { SIDECAR_DOWN }, { .state = CONTAINER_ENDED } },
		  { CONTAINER_STEP_TERM } },
		{ { { SIDECAR_UP }, { SIDECAR_UP, .asked = true }, { .state = CONTAINER_ENDED } },
		  { CONTAINER_STEP_KILL, CONTAINER_STEP_KILL },
		  .late = true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum container_step steps[N_MAX];
		struct pod_seen seen = { .phase = POD_TERMINATING, .deleting = true };

		seen.grace_left = !rows[i].late;
		eq_int(decide(&seen, rows[i].c, N_MAX, steps).step, POD_STEP_NONE);
		for (size_t k = 0; k < N_MAX; k++)
			eq_int(steps[k], rows[i].steps[k]);
		if (rows[i].c[2].state != CONTAINER_ENDED)
			continue;
		seen = (struct pod_seen){ .phase = POD_FINISHING,
					  .restart = POD_RESTART_NEVER,
					  .grace_left = !rows[i].late };
		eq_int(decide(&seen, rows[i].c, N_MAX, steps).step, POD_STEP_NONE);
		for (size_t k = 0; k < N_MAX; k++)
			eq_int(steps[k], rows[i].steps[k]);
	}
}

TEST(the_restart_policy_decides_what_an_end_means)
{
	static const struct {
		enum pod_restart restart;
		bool init;
		int code;
		enum container_step step;
		enum pod_step pod;
	} rows[] = {
		{ POD_RESTART_ALWAYS, false, 0, CONTAINER_STEP_RESTART, POD_STEP_NONE },
		{ POD_RESTART_ALWAYS, false, 1, CONTAINER_STEP_RESTART, POD_STEP_NONE },
		{ POD_RESTART_ALWAYS, true, 1, CONTAINER_STEP_RESTART, POD_STEP_NONE },
		{ POD_RESTART_ON_FAILURE, false, 0, CONTAINER_STEP_NONE, POD_STEP_SUCCEED },
		{ POD_RESTART_ON_FAILURE, false, 1, CONTAINER_STEP_RESTART, POD_STEP_NONE },
		{ POD_RESTART_NEVER, false, 0, CONTAINER_STEP_NONE, POD_STEP_SUCCEED },
		{ POD_RESTART_NEVER, false, 1, CONTAINER_STEP_NONE, POD_STEP_FAIL },
		{ POD_RESTART_NEVER, true, 1, CONTAINER_STEP_NONE, POD_STEP_FAIL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct pod_seen seen = { .phase = POD_ACTIVE, .restart = rows[i].restart };
		const struct container_seen c = { .init = rows[i].init,
						  .state = CONTAINER_ENDED,
						  .code = rows[i].code };
		enum container_step step;
		struct pod_plan plan = decide(&seen, &c, 1, &step);

		eq_int(step, rows[i].step);
		eq_int(plan.step, rows[i].pod);
		eq_int(plan.failure, rows[i].pod == POD_STEP_FAIL && rows[i].init
					     ? POD_FAILURE_INIT
					     : POD_FAILURE_NONE);
	}
}

TEST(a_container_that_is_resized_starts_again_whatever_the_policy)
{
	static const enum pod_restart policies[] = { POD_RESTART_ON_FAILURE, POD_RESTART_NEVER };

	for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
		const struct pod_seen seen = { .phase = POD_ACTIVE, .restart = policies[i] };
		const struct container_seen c = { .state = CONTAINER_ENDED, .resizes = true };
		enum container_step step;

		eq_int(decide(&seen, &c, 1, &step).step, POD_STEP_NONE);
		eq_int(step, CONTAINER_STEP_RESTART);
	}
}

TEST(a_pod_is_done_when_the_last_of_its_containers_is)
{
	const struct pod_seen seen = { .phase = POD_ACTIVE, .restart = POD_RESTART_NEVER };
	struct container_seen c[2] = { { .state = CONTAINER_ENDED, .code = 1 },
				       { .state = CONTAINER_RUNNING } };
	enum container_step steps[2];

	eq_int(decide(&seen, c, 2, steps).step, POD_STEP_NONE);
	c[1].state = CONTAINER_ENDING;
	eq_int(decide(&seen, c, 2, steps).step, POD_STEP_NONE);
	c[1].state = CONTAINER_ENDED;
	eq_int(decide(&seen, c, 2, steps).step, POD_STEP_FAIL);
	c[0].code = 0;
	eq_int(decide(&seen, c, 2, steps).step, POD_STEP_SUCCEED);
}

TEST(a_failed_pod_kills_what_still_runs)
{
	const struct pod_seen seen = { .phase = POD_FAILED, .connected = true };
	const struct container_seen c[3] = { { .state = CONTAINER_RUNNING },
					     { .state = CONTAINER_ENDING },
					     { .state = CONTAINER_FOUND } };
	enum container_step steps[3];

	eq_int(decide(&seen, c, 3, steps).step, POD_STEP_NONE);
	eq_int(steps[0], CONTAINER_STEP_KILL);
	eq_int(steps[1], CONTAINER_STEP_NONE);
	eq_int(steps[2], CONTAINER_STEP_KILL);
}

TEST(a_pod_that_is_over_gives_its_network_back_after_its_last_process)
{
	static const enum pod_phase over[] = { POD_SUCCEEDED, POD_FAILED, POD_OVER };

	for (size_t i = 0; i < ARRAY_LEN(over); i++) {
		struct pod_seen seen = { .phase = over[i], .connected = true };
		struct container_seen c = { .state = CONTAINER_ENDING };
		enum container_step step;

		eq_int(decide(&seen, &c, 1, &step).step, POD_STEP_NONE);
		c.state = CONTAINER_ENDED;
		eq_int(decide(&seen, &c, 1, &step).step, POD_STEP_DISCONNECT);
		seen.connected = false;
		eq_int(decide(&seen, &c, 1, &step).step, POD_STEP_NONE);
	}
}

TEST(the_back_off_doubles_and_a_steady_run_ends_it)
{
	static const struct {
		unsigned n, was_s, want_s;
		usec ran;
	} rows[] = {
		{ 1, 0, 0, 0 },           { 2, 0, 10, 0 },
		{ 3, 10, 20, 0 },         { 4, 20, 40, 0 },
		{ 9, 160, 300, 0 },       { 10, 300, 300, 0 },
		{ 9, 300, 0, 601000000 }, { 9, 160, 300, 600000000 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(restart_backoff_s(rows[i].n, rows[i].ran, rows[i].was_s), rows[i].want_s);
}

TEST(the_wait_for_a_creation_doubles)
{
	static const unsigned want_s[] = { 5, 10, 20, 40, 80, 160, 300, 300 };
	unsigned s = 0;

	for (size_t i = 0; i < ARRAY_LEN(want_s); i++) {
		s = create_backoff_s(s);
		eq_int(s, want_s[i]);
	}
}

/* Every move that is not in this list is a bug, and pod_enter() asserts. */
TEST(a_phase_moves_only_forward)
{
	for (int from = 0; from < POD_PHASE_MAX_; from++)
		for (int to = 0; to < POD_PHASE_MAX_; to++) {
			bool up = to == from + 1 && from <= POD_ACTIVE;
			bool ends = (from == POD_ACTIVE || from == POD_FINISHING) &&
				    to == POD_SUCCEEDED;
			bool fails = from <= POD_FINISHING && to == POD_FAILED;
			bool over = from == POD_ADMITTING && to == POD_OVER;
			bool deleted = from <= POD_OVER && to == POD_SYNCING;
			bool out = to == from + 1 && from >= POD_SYNCING;

			eq_int(pod_may_move((enum pod_phase)from, (enum pod_phase)to),
			       up || ends || fails || over || deleted || out);
		}
}

TEST(a_container_cannot_run_twice_without_ending)
{
	static const char *const may[CONTAINER_STATE_MAX_] = {
		[CONTAINER_WAITING] = "found launching ended",
		[CONTAINER_FOUND] = "running ending ended",
		[CONTAINER_LAUNCHING] = "running ending ended",
		[CONTAINER_RUNNING] = "ending ended",
		[CONTAINER_ENDING] = "ended",
		[CONTAINER_ENDED] = "waiting",
	};

	for (int from = 0; from < CONTAINER_STATE_MAX_; from++)
		for (int to = 0; to < CONTAINER_STATE_MAX_; to++) {
			const char *name = container_state_name((enum container_state)to);

			eq_int(container_may_move((enum container_state)from,
						  (enum container_state)to),
			       strstr(may[from], name) != NULL);
		}
}
