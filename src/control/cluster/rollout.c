/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "control/cluster/rollout_priv.h"

/*
 * A rollout goes in steps, each of which the Pods' own progress permits: the newest set grows as
 * long as there are no more than replicas + surge Pods, and older ones shrink as long as no fewer
 * than replicas - missing are available. Pods of older sets that are not available go first, since
 * nobody misses them.
 */
static int64_t total(const struct rollout_seen *s, const int64_t *want)
{
	int64_t sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += want[i];
	return sum;
}

static void recreate(const struct rollout_seen *s, int64_t *want)
{
	bool others = false;

	for (size_t i = 0; i < s->n; i++) {
		if (i == s->newest)
			continue;
		want[i] = 0;
		others = others || s->sets[i].have;
	}
	if (!others)
		want[s->newest] = s->replicas;
}

static void grow(const struct rollout_seen *s, int64_t *want)
{
	int64_t room = s->replicas + s->surge - total(s, want);

	if (want[s->newest] < s->replicas)
		want[s->newest] += MAX(0, MIN(room, s->replicas - want[s->newest]));
	else
		want[s->newest] = s->replicas;
}

/* Takes Pods away from older sets, at most *room in all; idle: only those that are not available.
 */
static void cut(const struct rollout_seen *s, int64_t *want, bool idle, int64_t *room)
{
	for (size_t i = 0; i < s->n; i++) {
		int64_t most = idle ? want[i] - s->sets[i].available : want[i];
		int64_t n = i == s->newest ? 0 : MAX(0, MIN(*room, most));

		want[i] -= n;
		*room -= n;
	}
}

static void shrink(const struct rollout_seen *s, int64_t *want)
{
	int64_t starting = MAX(0, want[s->newest] - s->sets[s->newest].available);
	int64_t room = total(s, want) - starting - (s->replicas - s->missing);

	cut(s, want, true, &room);
	cut(s, want, false, &room);
}

/* While it is paused, a change of the template waits; a change of the number does not. */
static void hold(const struct rollout_seen *s, int64_t *want)
{
	size_t n = 0, one = s->newest;

	for (size_t i = 0; i < s->n; i++)
		if (want[i]) {
			one = i;
			n++;
		}
	if (n == 1)
		want[one] = s->replicas;
}

void rollout_decide(const struct rollout_seen *s, int64_t *want)
{
	for (size_t i = 0; i < s->n; i++)
		want[i] = s->sets[i].want;
	if (s->paused) {
		hold(s, want);
	} else if (s->recreate) {
		recreate(s, want);
	} else {
		grow(s, want);
		shrink(s, want);
	}
}
