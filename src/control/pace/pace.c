/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pace/pace.h"

#include "base/macros.h"
#include "base/metrics.h"
#include "loop/loop.h"

enum {
	MODE_FULL,
	MODE_YIELD,
	MODE_MAX_,
};

struct pace {
	struct timer *timer; /* armed while it yields */
	struct pace_seen seen;
	bool yields;
	usec since, spent[MODE_MAX_];
	uint64_t n_changes;
	void (*changed)(void *arg, bool yield);
	void *arg;
};

static bool recent(usec at, usec now)
{
	return at && now - at < PACE_QUIET_MS * 1000;
}

bool pace_decide(const struct pace_seen *s)
{
	return recent(s->claimed_at, s->now) && !recent(s->low_at, s->now);
}

usec pace_stands_until(const struct pace_seen *s)
{
	usec last = recent(s->low_at, s->now) ? s->low_at : s->claimed_at;

	return recent(last, s->now) ? last + PACE_QUIET_MS * 1000 : 0;
}

static void judge(struct pace *p)
{
	bool yields;
	usec until;

	p->seen.now = clock_mono();
	yields = pace_decide(&p->seen);
	until = pace_stands_until(&p->seen);
	if (until && !timer_armed(p->timer))
		timer_set(p->timer, (uint64_t)(until - p->seen.now) / 1000 + 1);
	if (yields == p->yields)
		return;
	p->spent[p->yields] += p->seen.now - p->since;
	p->since = p->seen.now;
	p->yields = yields;
	p->n_changes++;
	if (p->changed)
		p->changed(p->arg, yields);
}

static void on_timer(void *arg)
{
	judge(arg);
}

struct pace *pace_new(struct loop *l, void (*changed)(void *arg, bool yield), void *arg)
{
	struct pace *p = xnew(struct pace);

	p->changed = changed;
	p->arg = arg;
	p->since = clock_mono();
	p->timer = timer_new(l, on_timer, p);
	return p;
}

void pace_free(struct pace *p)
{
	if (!p)
		return;
	timer_free(p->timer);
	free(p);
}

void pace_claim(struct pace *p, bool low)
{
	p->seen.claimed_at = clock_mono();
	if (low)
		p->seen.low_at = p->seen.claimed_at;
	judge(p);
}

static uint64_t seconds_in(const struct pace *p, bool yields)
{
	usec now = p->yields == yields ? clock_mono() - p->since : 0;

	return (uint64_t)(p->spent[yields] + now) / 1000000;
}

void pace_metrics(const struct pace *p, struct buf *b)
{
	metrics_gauge(b, "cay_launches_yield",
		      "1 while launches leave a processor to claims, 0 while they use all of them.",
		      p->yields);
	metrics_counter(b, "cay_launches_yield_seconds_total", "Time in which launches yielded.",
			seconds_in(p, true));
	metrics_counter(b, "cay_launches_full_seconds_total",
			"Time in which launches used the whole machine.", seconds_in(p, false));
	metrics_counter(b, "cay_launches_yield_changes_total",
			"Changes between the two, in either direction.", p->n_changes);
}
