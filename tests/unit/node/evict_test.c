/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "node/pod/evict_priv.h"
#include "rig.h"

#define MIB (1LL << 20)

TEST(who_makes_room_is_chosen_in_the_order_of_a_kubelet)
{
	static const struct {
		struct evict_seen list[3];
		size_t chosen;
	} rows[] = {
		/* more than requested goes before less, however important and however large */
		{ { { 100, 200, 0 }, { 50, 10, 1000 }, { 0, 0, 0 } }, 1 },
		/* then the least important */
		{ { { 300, 10, 5 }, { 20, 10, 1 }, { 200, 10, 5 } }, 1 },
		/* then the one that is farthest beyond its request */
		{ { { 300, 250, 0 }, { 100, 0, 0 }, { 90, 0, 0 } }, 1 },
		{ { { 100, 200, 7 }, { 90, 200, 7 }, { 80, 200, 3 } }, 2 },
		/* nobody, if nobody uses anything */
		{ { { 0, 0, 0 }, { 0, 10, 0 }, { 0, 0, 9 } }, 3 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(evict_choose(rows[i].list, 3), rows[i].chosen);
	eq_int(evict_choose(NULL, 0), 0);
}

static struct fake_task *run(struct rig *r, const char *name, int64_t memory)
{
	struct fake_task *t;

	pod_create(r, name, "'containers':[{'name':'a','image':'img'}]");
	t = fake_last(&r->rt);
	fake_start(t);
	turn(r);
	t->used = (struct runtime_usage){ .known = true, .memory = memory };
	return t;
}

TEST(one_pod_at_a_time_makes_room_and_says_why)
{
	struct fake_task *large;
	struct rig r;

	rig_open(&r);
	is_false(pods_evict(r.pods, PODS_LACK_MEMORY, "none there"));
	(void)run(&r, "small", 10 * MIB);
	large = run(&r, "large", 30 * MIB);
	pods_look(r.pods);
	eq_int(pods_memory(r.pods), 40 * MIB);
	is_true(pods_evict(r.pods, PODS_LACK_MEMORY, "little is left"));
	turn(&r);
	eq_str(told(&r, "large", "reason"), "Evicted");
	eq_str(told(&r, "large", "phase"), "Failed");
	is_true(strstr(told(&r, "large", "message"), "memory (little is left)"));
	is_true(strstr(told(&r, "large", "message"), "using 30720Ki"));
	/* it has not ended yet: nobody else goes */
	is_true(pods_evict(r.pods, PODS_LACK_MEMORY, "little is left"));
	turn(&r);
	eq_str(told(&r, "small", "phase"), "Running");
	fake_end(large);
	until(&r, r.rt.n_nets_put == 1);
	is_true(pods_evict(r.pods, PODS_LACK_MEMORY, "little is left"));
	turn(&r);
	eq_str(told(&r, "small", "reason"), "Evicted");
	eq_int(count_events(&r, "Evicted"), 2);
	rig_done(&r);
}
