/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/view_pod.h"
#include "base/clock.h"

/*
 * The policy of Pods: from what was observed to what is done next. Pure: no object, no clock, no
 * runtime.
 */
enum container_state {
	CONTAINER_WAITING,   /* to be started, for the first time or again */
	CONTAINER_FOUND,     /* ran before the daemon started; its state is being asked for */
	CONTAINER_LAUNCHING, /* has a task; its command does not run yet */
	CONTAINER_RUNNING,
	CONTAINER_ENDING, /* its command ended or was killed; its processes are ending */
	CONTAINER_ENDED,
	CONTAINER_STATE_MAX_,
};

enum pod_phase {
	POD_ADMITTING,   /* new: may this node run it? */
	POD_PREPARING,   /* its volumes are made */
	POD_CONNECTING,  /* it gets its network */
	POD_ACTIVE,      /* its containers run, according to the restart policy */
	POD_FINISHING,   /* its containers are done; its sidecars were asked to end */
	POD_SUCCEEDED,   /* all of its containers succeeded and will not run again */
	POD_FAILED,      /* it will not run any more; what still runs is killed */
	POD_OVER,        /* had ended before the daemon started: that was reported then */
	POD_SYNCING,     /* being deleted: waits until that is durable */
	POD_STOPPING,    /* the deletion is durable: its containers must be stopped */
	POD_TERMINATING, /* its commands were asked to end; after the grace they are killed */
	POD_CLEANING,    /* nothing of it runs; what is left is removed */
	POD_LETTING_GO,  /* nothing is left; its object may be removed */
	POD_PHASE_MAX_,
};

struct container_seen {
	bool init;
	bool sidecar;   /* also init, but runs beside the others, and is always restarted */
	bool ephemeral; /* started once, whatever the others do, and ended with them */
	bool started;   /* RUNNING: its startup probe agrees */
	bool ran;       /* an earlier attempt of it ran */
	bool asked;     /* live: to end */
	enum container_state state;
	int code;          /* ENDED: its exit code */
	bool held;         /* WAITING: for its back-off, or in line for a slot */
	bool probe_failed; /* RUNNING: a startup or liveness probe failed as often as it may, or its
			      postStart hook */
	bool resizes;      /* it is ended to be started again with other resources */
	bool overdue;      /* RUNNING: it was asked to end for that, and had its time */
};

struct pod_seen {
	enum pod_phase phase;
	bool deleting;  /* its object is being deleted */
	bool gone;      /* its object is gone */
	bool stopping;  /* the whole node stops: the Pod ends, and its object stays */
	bool renews;    /* that was begun by an earlier run: it ends, and begins anew */
	bool late;      /* its active deadline is over */
	bool evicted;   /* it makes room for others */
	bool connected; /* it has a network */
	bool in_line;   /* for a network */
	bool grace_left;
	enum pod_restart restart;
	const struct container_seen *containers; /* init containers first */
	size_t n_containers;
};

enum pod_step {
	POD_STEP_NONE,
	POD_STEP_ADMIT,
	POD_STEP_PREPARE,
	POD_STEP_CONNECT,
	POD_STEP_FINISH,     /* its containers are done: its sidecars may end */
	POD_STEP_SUCCEED,    /* its containers are done */
	POD_STEP_FAIL,       /* for the reason in the plan */
	POD_STEP_DISCONNECT, /* nothing of it runs: give its network back */
	POD_STEP_SYNC,       /* ask for the deletion to be durable */
	POD_STEP_STOP,       /* ask the commands to end */
	POD_STEP_CLEAN,
	POD_STEP_LET_GO, /* delete the object */
	POD_STEP_FORGET, /* the last step: free the Pod */
	POD_STEP_MAX_,
};

enum container_step {
	CONTAINER_STEP_NONE,
	CONTAINER_STEP_LAUNCH,
	CONTAINER_STEP_RESTART, /* gets its next attempt, after a back-off */
	CONTAINER_STEP_REPLACE, /* failed its probe: ask it to end, the policy restarts it */
	CONTAINER_STEP_TERM,    /* ask it to end */
	CONTAINER_STEP_KILL,
	CONTAINER_STEP_MAX_,
};

enum pod_failure {
	POD_FAILURE_NONE, /* a container ended with an error, and stays that way */
	POD_FAILURE_DEADLINE,
	POD_FAILURE_EVICTED,
	POD_FAILURE_INIT, /* container `culprit` failed and is not started again */
};

struct pod_plan {
	enum pod_step step;
	enum pod_failure failure; /* FAIL */
	size_t culprit;
};

/* steps: as many as there are containers; every one is filled in. */
struct pod_plan pod_run_decide(const struct pod_seen *s, enum container_step *steps);

/*
 * Seconds that a container waits before it is started for the nth time again (n from 1), after an
 * attempt of this length. was_s: what it waited the last time.
 */
unsigned restart_backoff_s(unsigned n, usec ran, unsigned was_s);
/* Seconds until the next try to create a container that could not be created. was_s: what it waited
 * before this try; 0: it was the first. */
unsigned create_backoff_s(unsigned was_s);
unsigned pull_backoff_s(unsigned was_s);

bool container_live(enum container_state s); /* it has processes */
bool pod_may_move(enum pod_phase from, enum pod_phase to);
bool container_may_move(enum container_state from, enum container_state to);
const char *pod_phase_name(enum pod_phase p);
const char *container_state_name(enum container_state s);
