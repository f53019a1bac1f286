/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "node/pod/pod_priv.h"
#include "node/pod/probe_priv.h"

/*
 * One pass over a Pod: observe, decide, act, until no step is left that can be taken now; then
 * report. Whatever a step waits for wakes the Pod when it happens, or is due at a time that the
 * pass returns.
 */
static bool in_line(const struct runtime_wait *w)
{
	return !list_empty(&w->on);
}

static usec deadline_left(const struct pod *p)
{
	return p->started + p->view->deadline_s * 1000000 - pods_wall(p->pods);
}

static struct container_seen container_observe(const struct container *c, usec now)
{
	return (struct container_seen){
		.init = c->view->init,
		.sidecar = c->view->sidecar,
		.ephemeral = c->view->ephemeral,
		.started = container_started(c),
		.ran = c->restarts > 0,
		.asked = c->asked,
		.state = c->state,
		.code = c->state == CONTAINER_ENDED ? c->end.code : 0,
		.held = c->backoff_until > now || in_line(&c->slot),
		.probe_failed = probe_dead(c->startup) || probe_dead(c->post_start) ||
				(container_started(c) && probe_dead(c->liveness)),
		.resizes = c->resize_restarts,
		.overdue = c->kill_at && c->kill_at <= now,
	};
}

static struct pod_seen pod_observe(const struct pod *p, struct arena *a)
{
	struct container_seen *list = arena_new_n(a, struct container_seen, p->n_containers + 1);
	usec now = pods_now(p->pods);

	for (size_t i = 0; i < p->n_containers; i++)
		list[i] = container_observe(p->containers[i], now);
	return (struct pod_seen){
		.phase = p->phase,
		.deleting = p->view->deleting,
		.gone = p->gone,
		.stopping = pod_stops(p),
		.renews = p->renews,
		.late = p->view->deadline_s && deadline_left(p) <= 0,
		.evicted = p->evicted,
		.connected = p->net != NULL,
		.in_line = in_line(&p->net_wait),
		.grace_left = p->grace_until > now,
		.restart = p->view->restart,
		.containers = list,
		.n_containers = p->n_containers,
	};
}

static void sooner(uint64_t *ms, usec left)
{
	uint64_t in = left > 0 ? (uint64_t)left / 1000 + 1 : 0;

	if (in && (!*ms || in < *ms))
		*ms = in;
}

/* When something is due by itself; 0: never. */
static uint64_t next_ms(const struct pod *p)
{
	usec now = pods_now(p->pods);
	uint64_t ms = 0;

	sooner(&ms, p->retry_at - now);
	sooner(&ms, p->quiet_until - now);
	sooner(&ms, p->report_after - now);
	if (p->pods->stopping)
		sooner(&ms, p->pods->ordinary_until - now);
	if (p->phase == POD_TERMINATING || p->phase == POD_FINISHING)
		sooner(&ms, p->grace_until - now);
	if (p->phase > POD_ACTIVE)
		return ms;
	if (p->view->deadline_s)
		sooner(&ms, deadline_left(p));
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];

		if (c->state == CONTAINER_WAITING)
			sooner(&ms, c->backoff_until - now);
		else if (c->state == CONTAINER_RUNNING && c->kill_at)
			sooner(&ms, c->kill_at - now);
		sooner(&ms, c->resize_after - now);
	}
	return ms;
}

uint64_t pod_reconcile(struct pod *p, bool *ret_forget)
{
	autoptr(arena) a = arena_new();
	enum container_step *steps = arena_new_n(a, enum container_step, p->n_containers + 1);
	struct pod_plan plan;

	pod_resize(p);
	pod_keep_address(p);
	do {
		struct pod_seen seen = pod_observe(p, a);

		plan = pod_run_decide(&seen, steps);
	} while (pod_act(p, &plan, steps));
	pod_waits(p);
	*ret_forget = plan.step == POD_STEP_FORGET;
	if (!*ret_forget || p->shut_down) /* then nobody tells of its end later */
		pod_report(p);
	return next_ms(p);
}
