/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "node/pod/pod_priv.h"

/*
 * The end of the whole node, in the two rounds of a kubelet: ordinary Pods first; when they have
 * ended, or had their time, those that are critical. In each round a Pod has its own grace, but no
 * more than the round.
 *
 * The objects stay, and unlike those of a kubelet they do not fail: their Pods run again when the
 * node does. A Pod that was asked to end is marked in its state file first, so that a start after a
 * crash in between ends it and runs it anew, instead of taking this for an end of its own.
 */
static bool ordinary_left(const struct pods *ps)
{
	map_each(it, ps->pods)
		if (!pod_view_critical(((const struct pod *)it.value)->view))
			return true;
	return false;
}

bool pod_stops(const struct pod *p)
{
	const struct pods *ps = p->pods;

	if (!ps->stopping || !pod_view_critical(p->view))
		return ps->stopping;
	return ps->ordinary_until <= pods_now(ps) || !ordinary_left(ps);
}

usec pod_stop_round(const struct pod *p)
{
	return (usec)(pod_view_critical(p->view) ? p->pods->grace.critical_ms
						 : p->pods->grace.ordinary_ms) *
	       1000;
}

void pods_stop_all(struct pods *ps, const struct pods_grace *grace, void (*stopped)(void *arg),
		   void *arg)
{
	ps->stopped = stopped;
	ps->stopped_arg = arg;
	ps->stopping = true;
	ps->grace = *grace;
	ps->ordinary_until = pods_now(ps) + (usec)grace->ordinary_ms * 1000;
	map_each(it, ps->pods) {
		(void)pod_hurry(it.value); /* one that is being deleted may have more time */
		pod_wake(it.value);
	}
	deferred_call(&ps->check);
}

void pods_next_round(struct pods *ps)
{
	if (!ps->stopping || ordinary_left(ps))
		return;
	map_each(it, ps->pods)
		pod_wake(it.value);
}
