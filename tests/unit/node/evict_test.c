/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/mem.h"
#include "node/disk/disk.h"
#include "node/pod/evict_priv.h"
#include "node/pod/pod_priv.h"
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

static struct fake_task *run_spec(struct rig *r, const char *name, const char *spec, int64_t memory)
{
	struct fake_task *t;

	pod_create(r, name, spec);
	t = fake_last(&r->rt);
	fake_start(t);
	turn(r);
	t->used = (struct runtime_usage){ .known = true, .memory = memory };
	return t;
}

static struct fake_task *run(struct rig *r, const char *name, int64_t memory)
{
	return run_spec(r, name, "'containers':[{'name':'a','image':'img'}]", memory);
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

#define REQUESTS(q) \
	"'containers':[{'name':'a','image':'img','resources':{'requests':{'memory':'" q "'}}}]"

TEST(a_pod_within_its_request_stays_while_another_is_beyond_its_own)
{
	struct rig r;

	rig_open(&r);
	(void)run_spec(&r, "within", REQUESTS("30Mi"), 20 * MIB);
	(void)run_spec(&r, "beyond", REQUESTS("40Mi"), 45 * MIB);
	pods_look(r.pods);
	is_true(pods_evict(r.pods, PODS_LACK_MEMORY, "little is left"));
	turn(&r);
	eq_str(told(&r, "within", "phase"), "Running");
	eq_str(told(&r, "beyond", "reason"), "Evicted");
	is_true(strstr(told(&r, "beyond", "message"), "using 46080Ki, request is 40960Ki"));
	rig_done(&r);
}

TEST(a_pod_of_a_system_class_goes_last)
{
	struct rig r;

	rig_open(&r);
	(void)run_spec(&r, "critical",
		       "'priorityClassName':'system-node-critical','containers':[{'name':'a',"
		       "'image':'img'}]",
		       30 * MIB);
	(void)run(&r, "p", 20 * MIB);
	pods_look(r.pods);
	is_true(pods_evict(r.pods, PODS_LACK_MEMORY, "little is left"));
	turn(&r);
	eq_str(told(&r, "critical", "phase"), "Running");
	eq_str(told(&r, "p", "reason"), "Evicted");
	rig_done(&r);
}

static struct pod *the_pod(struct rig *r)
{
	map_each(it, r->pods->pods)
		return it.value;
	return NULL;
}

TEST(a_pod_has_its_empty_dirs_and_the_logs_of_attempts_that_are_over)
{
	static const struct {
		const char *volume;
		size_t n;
	} rows[] = {
		{ "'emptyDir':{}", 1 },
		{ "'emptyDir':{'sizeLimit':'1Mi'}", 1 },
		{ "'emptyDir':{'medium':'Memory'}", 0 },
		{ "'configMap':{'name':'c','optional':true}", 0 },
		{ "'persistentVolumeClaim':{'claimName':'none'}", 0 },
	};
	struct pod_disk d;
	struct rig r;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(arena) a = arena_new();
		const char *spec = arena_printf(a,
						"'volumes':[{'name':'v',%s}],'containers':[{"
						"'name':'a','image':'img'}]",
						rows[i].volume);

		rig_open(&r);
		pod_create(&r, "p", spec);
		d = pod_disk_of(the_pod(&r), a);
		eq_int(d.n, rows[i].n);
		if (d.n) {
			eq_int(d.parts[0].dir, INSTANCE_PODS);
			eq_str(d.parts[0].name, arena_printf(a, "%s/v", d.uid));
		}
		rig_done(&r);
	}
}

TEST(the_log_of_a_task_that_runs_counts_once)
{
	autoptr(arena) a = arena_new();
	const char *first;
	struct pod_disk d;
	struct rig r;

	rig_open(&r);
	first = run(&r, "p", MIB)->id;
	eq_int(pod_disk_of(the_pod(&r), a).n, 0); /* the task has it */
	fake_exit(fake_last(&r.rt), 1);
	fake_end(fake_last(&r.rt));
	turn(&r);
	d = pod_disk_of(the_pod(&r), a);
	eq_int(d.n, 1);
	eq_int(d.parts[0].dir, INSTANCE_SLOTS);
	eq_str(d.parts[0].name, arena_printf(a, "%s/" DISK_SLOT_LOGS, first));
	rig_done(&r);
}
