/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "control/control.h"
#include "control/control_priv.h"
#include "control/index/index.h"
#include "control/tally/tally.h"

/*
 * How pools and claims are doing, from what the controllers count in any case.
 */
void control_each_pool(const struct control *c, bool (*fn)(void *arg, const struct control_pool *p),
		       void *arg)
{
	usec now = clock_mono();

	map_each(it, index_pools(c->ctx.index)) {
		const struct roster *r = it.value;
		const struct control_pool p = {
			.key = r->key,
			.desired = r->desired,
			.members = r->n_members,
			.ready = r->n_ready,
			.waiting = roster_waiting(r),
			.claimed = r->claimed,
			.dry_times = r->dry_times,
			.dry = roster_dry(r),
			.dry_since = r->dry_since,
			.dry_time = roster_dry_time(r, now),
		};

		if (r->wanted && !fn(arg, &p))
			return;
	}
}

void control_each_claim(const struct control *c,
			bool (*fn)(void *arg, const struct control_claim *l), void *arg)
{
	recent_each(tally_recent(c->ctx.tally), fn, arg);
}

uint64_t control_changes(const struct control *c)
{
	return c->n_changes + recent_seen(tally_recent(c->ctx.tally));
}

size_t control_running(const struct control *c)
{
	return c->n_running;
}
