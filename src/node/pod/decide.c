/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "node/pod/decide_priv.h"

enum {
	STEADY_US = 600 * 1000000, /* a run as long as this makes up for earlier crashes */
	RESTART_FIRST_S = 10,
	CREATE_FIRST_S = 5,
	PULL_FIRST_S = 10,
	BACKOFF_MAX_S = 300,
};

/* A Pod that is wanted passes through these phases in order; from each it may be deleted. */
static const struct {
	const char *name;
	unsigned next;
} phases[POD_PHASE_MAX_] = {
	[POD_ADMITTING] = { "admitting",
			    B(POD_PREPARING) | B(POD_FAILED) | B(POD_OVER) | B(POD_SYNCING) },
	[POD_PREPARING] = { "preparing", B(POD_CONNECTING) | B(POD_FAILED) | B(POD_SYNCING) },
	[POD_CONNECTING] = { "connecting", B(POD_ACTIVE) | B(POD_FAILED) | B(POD_SYNCING) },
	[POD_ACTIVE] = { "active",
			 B(POD_FINISHING) | B(POD_SUCCEEDED) | B(POD_FAILED) | B(POD_SYNCING) },
	[POD_FINISHING] = { "finishing", B(POD_SUCCEEDED) | B(POD_FAILED) | B(POD_SYNCING) },
	[POD_SUCCEEDED] = { "succeeded", B(POD_SYNCING) },
	[POD_FAILED] = { "failed", B(POD_SYNCING) },
	[POD_OVER] = { "over", B(POD_SYNCING) },
	[POD_SYNCING] = { "syncing", B(POD_STOPPING) },
	[POD_STOPPING] = { "stopping", B(POD_TERMINATING) },
	[POD_TERMINATING] = { "terminating", B(POD_CLEANING) },
	[POD_CLEANING] = { "cleaning", B(POD_LETTING_GO) },
	[POD_LETTING_GO] = { "letting go", 0 },
};

static const struct {
	const char *name;
	unsigned next;
} states[CONTAINER_STATE_MAX_] = {
	[CONTAINER_WAITING] = { "waiting",
				B(CONTAINER_LAUNCHING) | B(CONTAINER_FOUND) | B(CONTAINER_ENDED) },
	[CONTAINER_FOUND] = { "found",
			      B(CONTAINER_RUNNING) | B(CONTAINER_ENDING) | B(CONTAINER_ENDED) },
	[CONTAINER_LAUNCHING] = { "launching",
				  B(CONTAINER_RUNNING) | B(CONTAINER_ENDING) | B(CONTAINER_ENDED) },
	[CONTAINER_RUNNING] = { "running", B(CONTAINER_ENDING) | B(CONTAINER_ENDED) },
	[CONTAINER_ENDING] = { "ending", B(CONTAINER_ENDED) },
	[CONTAINER_ENDED] = { "ended", B(CONTAINER_WAITING) },
};

bool pod_may_move(enum pod_phase from, enum pod_phase to)
{
	return phases[from].next & B(to);
}

bool container_may_move(enum container_state from, enum container_state to)
{
	return states[from].next & B(to);
}

const char *pod_phase_name(enum pod_phase p)
{
	return phases[p].name;
}

const char *container_state_name(enum container_state s)
{
	return states[s].name;
}

bool container_live(enum container_state s)
{
	return s != CONTAINER_WAITING && s != CONTAINER_ENDED;
}

static unsigned twice_as_long(unsigned was_s, unsigned first_s)
{
	return was_s ? MIN(was_s * 2, (unsigned)BACKOFF_MAX_S) : first_s;
}

unsigned restart_backoff_s(unsigned n, usec ran, unsigned was_s)
{
	return ran > STEADY_US || n <= 1 ? 0 : twice_as_long(was_s, RESTART_FIRST_S);
}

unsigned pull_backoff_s(unsigned was_s)
{
	return twice_as_long(was_s, PULL_FIRST_S);
}

unsigned create_backoff_s(unsigned was_s)
{
	return twice_as_long(was_s, CREATE_FIRST_S);
}

static bool any_live(const struct pod_seen *s)
{
	for (size_t i = 0; i < s->n_containers; i++)
		if (container_live(s->containers[i].state))
			return true;
	return false;
}

static void kill_live(const struct pod_seen *s, enum container_step *steps)
{
	for (size_t i = 0; i < s->n_containers; i++)
		if (container_live(s->containers[i].state) &&
		    s->containers[i].state != CONTAINER_ENDING)
			steps[i] = CONTAINER_STEP_KILL;
}

static bool may_restart(const struct pod_seen *s, const struct container_seen *c)
{
	if (c->ephemeral)
		return false;
	if (c->sidecar || c->resizes)
		return true;
	if (s->restart == POD_RESTART_NEVER)
		return false;
	return c->code != 0 || (!c->init && s->restart == POD_RESTART_ALWAYS);
}

/* The next step of one container that is wanted. */
static enum container_step container_decide(const struct pod_seen *s,
					    const struct container_seen *c)
{
	switch (c->state) {
	case CONTAINER_WAITING:
		return c->held ? CONTAINER_STEP_NONE : CONTAINER_STEP_LAUNCH;
	case CONTAINER_RUNNING:
		if (c->overdue)
			return CONTAINER_STEP_KILL;
		return c->probe_failed && !c->asked ? CONTAINER_STEP_REPLACE : CONTAINER_STEP_NONE;
	case CONTAINER_ENDED:
		return may_restart(s, c) ? CONTAINER_STEP_RESTART : CONTAINER_STEP_NONE;
	case CONTAINER_FOUND:
	case CONTAINER_LAUNCHING:
	case CONTAINER_ENDING:
	case CONTAINER_STATE_MAX_:
		break;
	}
	return CONTAINER_STEP_NONE;
}

/* Whether all containers but sidecars have run and will not run again. */
static bool is_over(const struct pod_seen *s, bool *ret_failed)
{
	*ret_failed = false;
	for (size_t i = 0; i < s->n_containers; i++) {
		const struct container_seen *c = &s->containers[i];

		if (c->sidecar || c->ephemeral)
			continue;
		if (c->state != CONTAINER_ENDED || may_restart(s, c) || (c->init && c->code))
			return false;
		*ret_failed = *ret_failed || c->code;
	}
	return true;
}

/* Once a later container was started, a sidecar that is down holds up nobody. */
static bool holds_up(const struct pod_seen *s, size_t sidecar)
{
	if (s->containers[sidecar].started)
		return false;
	for (size_t i = sidecar + 1; i < s->n_containers; i++)
		if (!s->containers[i].ephemeral &&
		    (s->containers[i].state != CONTAINER_WAITING || s->containers[i].ran))
			return false;
	return true;
}

static struct pod_plan decide_end(const struct pod_seen *s, bool failed)
{
	if (any_live(s) && s->phase == POD_ACTIVE)
		return (struct pod_plan){ POD_STEP_FINISH };
	return (struct pod_plan){ failed ? POD_STEP_FAIL : POD_STEP_SUCCEED };
}

/* They wait for nobody, as they may be there to find out what the others wait for. */
static void decide_ephemeral(const struct pod_seen *s, enum container_step *steps)
{
	for (size_t i = 0; i < s->n_containers; i++)
		if (s->containers[i].ephemeral)
			steps[i] = container_decide(s, &s->containers[i]);
}

/*
 * Init containers one after the other, then all the others at once. A sidecar is waited for until
 * it has started, and runs on.
 */
static struct pod_plan decide_active(const struct pod_seen *s, enum container_step *steps)
{
	bool failed;

	if (is_over(s, &failed))
		return decide_end(s, failed);
	decide_ephemeral(s, steps);
	for (size_t i = 0; i < s->n_containers; i++) {
		const struct container_seen *c = &s->containers[i];
		bool ended = c->state == CONTAINER_ENDED;

		if (c->ephemeral)
			continue;

		if (c->init && !c->sidecar && ended && !c->code)
			continue;
		steps[i] = container_decide(s, c);
		if (c->init && ended && steps[i] == CONTAINER_STEP_NONE)
			return (struct pod_plan){ POD_STEP_FAIL, POD_FAILURE_INIT, i };
		if (c->sidecar ? holds_up(s, i) : c->init)
			break;
	}
	return (struct pod_plan){ POD_STEP_NONE };
}

/* Sidecars end in the reverse order of their start, one by one, when all others have ended.
 * Ephemeral containers are the last in the list, and asked first. */
static void term_sidecars(const struct pod_seen *s, enum container_step *steps)
{
	for (size_t i = s->n_containers; i-- > 0;) {
		const struct container_seen *c = &s->containers[i];

		if (!container_live(c->state))
			continue;
		if ((c->sidecar || c->ephemeral) && !c->asked && c->state != CONTAINER_ENDING)
			steps[i] = CONTAINER_STEP_TERM;
		return;
	}
}

/* What is live is asked to end, and killed when the grace is over. */
static void end_live(const struct pod_seen *s, enum container_step *steps)
{
	if (s->grace_left)
		term_sidecars(s, steps);
	else
		kill_live(s, steps);
}

static struct pod_plan decide_finishing(const struct pod_seen *s, enum container_step *steps)
{
	bool failed;

	(void)is_over(s, &failed);
	if (!any_live(s))
		return decide_end(s, failed);
	end_live(s, steps);
	return (struct pod_plan){ POD_STEP_NONE };
}

/* Whatever still runs is killed; the address is free when the last process is gone. */
static struct pod_plan decide_over(const struct pod_seen *s, enum container_step *steps)
{
	kill_live(s, steps);
	return (struct pod_plan){ s->connected && !any_live(s) ? POD_STEP_DISCONNECT
							       : POD_STEP_NONE };
}

/* The way of a Pod that is wanted. */
static struct pod_plan decide_wanted(const struct pod_seen *s, enum container_step *steps)
{
	if (s->phase <= POD_ACTIVE && s->late)
		return (struct pod_plan){ POD_STEP_FAIL, POD_FAILURE_DEADLINE };
	if (s->phase <= POD_ACTIVE && s->evicted)
		return (struct pod_plan){ POD_STEP_FAIL, POD_FAILURE_EVICTED };
	switch (s->phase) {
	case POD_ADMITTING:
		return (struct pod_plan){ POD_STEP_ADMIT };
	case POD_PREPARING:
		return (struct pod_plan){ POD_STEP_PREPARE };
	case POD_CONNECTING:
		return (struct pod_plan){ s->in_line ? POD_STEP_NONE : POD_STEP_CONNECT };
	case POD_ACTIVE:
		return decide_active(s, steps);
	case POD_FINISHING:
		return decide_finishing(s, steps);
	case POD_SUCCEEDED:
	case POD_FAILED:
	case POD_OVER:
		return decide_over(s, steps);
	case POD_SYNCING:
	case POD_STOPPING:
	case POD_TERMINATING:
	case POD_CLEANING:
	case POD_LETTING_GO:
	case POD_PHASE_MAX_:
		break;
	}
	return (struct pod_plan){ POD_STEP_NONE };
}

/*
 * The next step of a deletion: nothing is killed before the deletion is durable, or a crash of the
 * machine could bring the Pod back without its data; and the object is removed last.
 */
static struct pod_plan decide_unwanted(const struct pod_seen *s, enum container_step *steps)
{
	switch (s->phase) {
	case POD_SYNCING:
	case POD_CLEANING:
		break; /* their end wakes the Pod */
	case POD_STOPPING:
		return (struct pod_plan){ POD_STEP_STOP };
	case POD_TERMINATING:
		if (!any_live(s))
			return (struct pod_plan){ POD_STEP_CLEAN };
		end_live(s, steps);
		break;
	case POD_LETTING_GO:
		return (struct pod_plan){ s->gone || s->stopping || s->renews ? POD_STEP_FORGET
									      : POD_STEP_LET_GO };
	case POD_ADMITTING:
	case POD_PREPARING:
	case POD_CONNECTING:
	case POD_ACTIVE:
	case POD_FINISHING:
	case POD_SUCCEEDED:
	case POD_FAILED:
	case POD_OVER:
	case POD_PHASE_MAX_:
		return (struct pod_plan){ POD_STEP_SYNC };
	}
	return (struct pod_plan){ POD_STEP_NONE };
}

struct pod_plan pod_run_decide(const struct pod_seen *s, enum container_step *steps)
{
	for (size_t i = 0; i < s->n_containers; i++)
		steps[i] = CONTAINER_STEP_NONE;
	return s->deleting || s->gone || s->stopping || s->renews ? decide_unwanted(s, steps)
								  : decide_wanted(s, steps);
}
