/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/access.h"
#include "node/pod/usage_priv.h"
#include "rig.h"

#define ONE "'containers':[{'name':'a','image':'img'}]"
#define S   1000000LL

static struct runtime_usage used(int64_t cpu_usec, int64_t memory)
{
	return (struct runtime_usage){ .known = true, .cpu_usec = cpu_usec, .memory = memory };
}

TEST(a_meter_adds_up_the_tasks_of_a_container)
{
	struct meter m = { 0 };
	struct runtime_usage u;

	meter_task(&m, "t0", 10 * S);
	u = used(3 * S, 0);
	meter_look(&m, &u, 20 * S);
	eq_int(m.task_cpu_usec, 3 * S);
	eq_int(m.cpu_nano, 300000000);
	u = used(4 * S, 0);
	meter_end(&m, &u, 21 * S);
	eq_int(m.cpu_usec, 4 * S);
	meter_task(&m, "t1", 30 * S);
	u = used(1 * S, 0);
	meter_look(&m, &u, 40 * S);
	eq_int(m.cpu_usec + m.task_cpu_usec, 5 * S);
	meter_done(&m);
}

TEST(a_meter_counts_no_task_twice_and_never_runs_backwards)
{
	struct meter m = { 0 };
	struct runtime_usage u = used(4 * S, 0), less = used(1 * S, 0), none = { 0 };

	meter_task(&m, "t0", 10 * S);
	meter_look(&m, &u, 20 * S);
	meter_look(&m, &less, 30 * S); /* a reading that came late */
	eq_int(m.task_cpu_usec, 4 * S);
	meter_end(&m, &none, 40 * S); /* its groups were gone already */
	eq_int(m.cpu_usec, 4 * S);
	meter_task(&m, "t0", 41 * S);
	meter_look(&m, &u, 50 * S);
	meter_end(&m, &u, 60 * S); /* a record from before its end */
	eq_int(m.cpu_usec + m.task_cpu_usec, 4 * S);
	meter_done(&m);
}

TEST(memory_counts_with_the_time_that_it_was_held)
{
	struct meter m = { 0 };
	struct runtime_usage u = used(0, 200), more = used(0, 400), peak = { .memory_peak = 100 };

	meter_task(&m, "t0", 0);
	meter_look(&m, &u, 10 * S);
	eq_int(m.memory_byte_s, 1000);
	meter_look(&m, &more, 20 * S);
	eq_int(m.memory_byte_s, 4000);
	meter_end(&m, &peak, 25 * S); /* until its end it had what it had */
	eq_int(m.memory_byte_s, 6000);
	meter_task(&m, "t1", 100 * S); /* nobody pays for the time between */
	meter_end(&m, &peak, 104 * S); /* never looked at: half of the most that it had */
	eq_int(m.memory_byte_s, 6200);
	meter_done(&m);
}

static struct runtime_usage part(const char *task, uint64_t born, int64_t cpu_usec)
{
	return (struct runtime_usage){ .id = task,
				       .key = "u",
				       .known = true,
				       .born = born,
				       .cpu_usec = cpu_usec,
				       .memory = 10 };
}

static struct attached_time at(int64_t now)
{
	return (struct attached_time){ now, now };
}

static int64_t cpu_of(const struct map *m)
{
	struct access_usage sum = { 0 };

	is_true(attached_sum(m, "u", &sum));
	return sum.cpu_us;
}

TEST(an_attachment_is_counted_over_tasks_and_over_parts_that_were_made_anew)
{
	autoptr(map) m = attached_new();
	struct runtime_usage a = part("t0", 1, 3 * S), b = part("t1", 2, 2 * S);
	struct access_usage sum;

	is_false(attached_sum(m, "u", &sum));
	attached_begin(m, "t0", "u", at(10 * S));
	attached_look(m, &a, at(20 * S));
	attached_look(m, &b, at(20 * S)); /* nobody saw it begin */
	eq_int(cpu_of(m), 5 * S);
	is_true(attached_sum(m, "u", &sum));
	eq_int(sum.memory, 20);
	eq_int(sum.memory_byte_s, 50); /* the mean of 0 and 10, ten seconds long */
	a = part("t0", 7, 1 * S);
	attached_look(m, &a, at(30 * S));
	eq_int(cpu_of(m), 6 * S);
	a.cpu_usec = 4 * S; /* more than the part before had */
	attached_end(m, &a, at(40 * S));
	eq_int(cpu_of(m), 9 * S);
	a = part("t0", 9, 1 * S);
	attached_look(m, &a, at(50 * S));
	eq_int(cpu_of(m), 10 * S);
}

static bool is_t1(unused void *arg, const char *task, unused const char *uid)
{
	return str_eq(task, "t1");
}

TEST(what_an_attachment_used_is_counted_once_whatever_was_written_last)
{
	autoptr(map) m = attached_new();
	autoptr(map) back = attached_new();
	struct runtime_usage a = part("t0", 1, 3 * S), b = part("t1", 2, 2 * S), less;
	struct runtime_usage none = { .id = "t1", .key = "u" };

	attached_look(m, &a, at(10 * S));
	attached_look(m, &b, at(10 * S));
	attached_restore(back, map_get(m, "u"));
	less = part("t0", 1, 1 * S); /* a reading that came late */
	attached_look(back, &less, at(20 * S));
	attached_look(back, &a, at(20 * S));
	eq_int(cpu_of(back), 5 * S);
	attached_close(back, is_t1, NULL, at(30 * S)); /* t0 went while nobody looked */
	eq_int(cpu_of(back), 5 * S);
	attached_end(back, &none, at(40 * S));
	eq_int(cpu_of(back), 5 * S);
	attached_end(back, &none, at(50 * S));
	eq_int(cpu_of(back), 5 * S);
}

TEST(what_attachments_used_is_written_down_and_read_again)
{
	autoptr(map) m = attached_new();
	autoptr(arena) arena = arena_new();
	struct runtime_usage a = part("t0", 1, 3 * S);
	struct usage_record r = { .n_attached = 1 }, back;
	autobuf b = { 0 };

	attached_look(m, &a, at(10 * S));
	r.attached = map_get(m, "u");
	usage_record_write(&r, &b);
	works(usage_record_read(buf_head(&b), b.len, arena, &back));
	eq_int(back.n_attached, 1);
	eq_str(back.attached[0].uid, "u");
	eq_str(back.attached[0].meters[0].task, "t0");
	eq_int(back.attached[0].meters[0].meter.task_cpu_usec, 3 * S);
	fails(usage_record_read("{\"attached\":[{}]}", 17, arena, &back), ERR_MALFORMED);
}

TEST(what_is_written_down_is_read_again)
{
	struct usage_container_record c = {
		.name = "a",
		.meter = { .task = xstrdup("t7"), .over = true, .cpu_usec = 5, .at = 9 }
	};
	struct usage_pod_record p = {
		.uid = "u", .net = { 1, 2, 3, 4 }, .containers = &c, .n_containers = 1
	};
	struct usage_record r = { .gone = { 1, 2, 3, 4, 5 }, .pods = &p, .n_pods = 1 }, back;
	autoptr(arena) a = arena_new();
	autobuf b = { 0 };

	usage_record_write(&r, &b);
	works(usage_record_read(buf_head(&b), b.len, a, &back));
	eq_int(back.gone.sent, 5);
	eq_int(back.n_pods, 1);
	eq_str(back.pods[0].uid, "u");
	eq_int(back.pods[0].net.net_sent, 4);
	eq_str(back.pods[0].containers[0].meter.task, "t7");
	is_true(back.pods[0].containers[0].meter.over);
	eq_int(back.pods[0].containers[0].meter.cpu_usec, 5);
	fails(usage_record_read("{\"pods\":[{}]}", 13, a, &back), ERR_MALFORMED);
	fails(usage_record_read("{", 1, a, &back), ERR_MALFORMED);
	meter_done(&c.meter);
}

/* The whole seconds of a line of /metrics. */
static long long metric(struct rig *r, const char *name)
{
	autofree char *line = xasprintf("\n%s ", name);
	autobuf b = { 0 };
	const char *at;

	pods_metrics(r->pods, &b);
	at = strstr(buf_str(&b), line);
	is_true(at != NULL);
	return strtoll(at + strlen(line), NULL, 10);
}

#define CPU  "cay_usage_cpu_seconds_total"
#define RECV "cay_usage_network_received_bytes_total"
#define MEM  "cay_usage_memory_byte_seconds_total"

static struct fake_task *run(struct rig *r, const char *name)
{
	pod_create(r, name, ONE);
	fake_start(fake_last(&r->rt));
	turn(r);
	return fake_last(&r->rt);
}

/* Its last look, and then the end of its task, before the group was removed. */
TEST(a_part_that_is_told_of_again_after_its_end_is_counted_once)
{
	autoptr(map) m = attached_new();
	const struct attached_time t = { 10 * S, 20 * S };
	struct runtime_usage a = part("t0", 1, 3 * S), anew = part("t0", 2, 1 * S);
	struct access_usage sum;

	attached_begin(m, "t0", "u", t);
	attached_look(m, &a, t);
	attached_end(m, &a, t);
	attached_end(m, &a, t);
	attached_look(m, &a, t);
	is_true(attached_sum(m, "u", &sum));
	eq_int(sum.cpu_us, 3 * S);
	attached_look(m, &anew, (struct attached_time){ 11 * S, 21 * S });
	is_true(attached_sum(m, "u", &sum));
	eq_int(sum.cpu_us, 4 * S);
}

struct told {
	size_t n, n_over;
	int64_t cpu_us;
	char uid[64];
};

static void on_source(void *arg, const struct access_source *s)
{
	struct told *t = arg;

	t->n++;
	t->n_over += s->over;
	t->cpu_us += s->used.cpu_us;
	(void)snprintf(t->uid, sizeof(t->uid), "%s", s->uid);
}

static struct told sources(struct rig *r)
{
	struct told t = { 0 };

	pods_usage_each(r->pods, on_source, &t);
	return t;
}

TEST(a_pod_that_is_gone_is_told_of_until_it_is_settled_and_that_is_written_down)
{
	struct rig r;
	struct fake_task *t;
	struct told told;

	rig_open(&r);
	t = run(&r, "p");
	t->used = used(3 * S, 0);
	pods_look(r.pods);
	told = sources(&r);
	eq_int(told.n, 1);
	eq_int(told.n_over, 0);
	eq_int(told.cpu_us, 3 * S);
	pods_usage_settled(r.pods, told.uid); /* it lives: nothing is settled */
	pods_look(r.pods);
	eq_int(sources(&r).n, 1);
	pod_delete(&r, "p", 0);
	turn(&r);
	t->used = used(5 * S, 0);
	fake_end(t);
	until(&r, r.rt.n_nets_put == 1);
	told = sources(&r);
	eq_int(told.n_over, 1);
	eq_int(told.cpu_us, 5 * S);
	rig_restart(&r);
	eq_int(sources(&r).cpu_us, 5 * S);
	pods_look(r.pods);
	pods_look(r.pods);
	eq_int(sources(&r).n, 1); /* nobody has settled it */
	pods_usage_settled(r.pods, told.uid);
	eq_int(sources(&r).n, 1); /* not yet: a crash now would bring it back */
	pods_look(r.pods);
	eq_int(sources(&r).n, 0);
	rig_restart(&r);
	eq_int(sources(&r).n, 0);
	eq_int(metric(&r, CPU), 5);
	rig_done(&r);
}

/* The look reads the part, and hears of it when the end of the task has counted it. */
TEST(a_part_that_is_spent_counts_once_when_its_task_ends_during_the_last_look_at_it)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	t = run(&r, "p");
	fake_part_begin(t, "a");
	r.rt.part.cpu_usec = 3 * S;
	t->used = used(4 * S, 0);
	pods_look(r.pods);
	eq_int(sources(&r).cpu_us, 4 * S);
	pod_delete(&r, "p", 0);
	fake_part_spent(t);
	pods_measure(r.pods);
	fake_end(t);
	until(&r, r.rt.n_nets_put == 1);
	pods_look(r.pods);
	eq_int(sources(&r).cpu_us, 4 * S);
	rig_done(&r);
}

TEST(a_part_that_begins_during_a_look_does_not_count_as_the_pods_own)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	t = run(&r, "p");
	t->used = used(1 * S, 0);
	pods_look(r.pods);
	t->used = used(3 * S, 0);
	pods_measure(r.pods);
	fake_part_begin(t, "a");
	r.rt.part.cpu_usec = 2 * S;
	pods_look(r.pods); /* to the end of that one */
	eq_int(sources(&r).cpu_us, 1 * S);
	pods_look(r.pods);
	eq_int(sources(&r).cpu_us, 3 * S);
	rig_done(&r);
}

TEST(usage_stays_when_a_container_restarts_and_when_its_pod_is_gone)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	t = run(&r, "p");
	t->used = used(3 * S, 0);
	r.rt.received = 100;
	pods_look(r.pods);
	eq_int(metric(&r, CPU), 3);
	eq_int(metric(&r, RECV), 100);
	t->used = used(7 * S, 0);
	fake_exit(t, 0); /* the last reading is that of its end */
	turn(&r);
	eq_int(metric(&r, CPU), 7);
	t = fake_last(&r.rt);
	fake_start(t);
	t->used = used(2 * S, 0);
	pods_look(r.pods);
	eq_int(metric(&r, CPU), 9);
	r.rt.received = 150;
	pod_delete(&r, "p", 0);
	turn(&r);
	fake_end(t);
	until(&r, r.rt.n_nets_put == 1); /* the node has let it go */
	is_false(pod_there(&r, "p"));
	eq_int(metric(&r, CPU), 9);
	eq_int(metric(&r, RECV), 150);
	rig_restart(&r);
	eq_int(metric(&r, CPU), 9);
	eq_int(metric(&r, RECV), 150);
	rig_done(&r);
}

TEST(usage_goes_on_after_a_restart_of_the_daemon)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	t = run(&r, "p");
	t->used = used(3 * S, 1000);
	r.rt.received = 100;
	step(&r, 10000);
	pods_look(r.pods);
	is_true(metric(&r, MEM) >= 5000);
	rig_restart(&r);
	eq_int(metric(&r, CPU), 3);
	eq_int(metric(&r, RECV), 100);
	fake_start(t);
	turn(&r);
	t->used = used(4 * S, 1000);
	r.rt.received = 130;
	pods_look(r.pods);
	eq_int(metric(&r, CPU), 4);
	eq_int(metric(&r, RECV), 130);
	rig_done(&r);
}

/* As after kill -9: what was written down is older than what happened. */
TEST(an_old_file_counts_nothing_twice)
{
	struct rig r;
	struct fake_task *t;
	autofree char *path = NULL, *old = NULL;
	size_t len;

	rig_open(&r);
	path = xasprintf("%s/node/usage.json", r.data_dir);
	t = run(&r, "p");
	t->used = used(3 * S, 0);
	pods_look(r.pods);
	works(file_read(AT_FDCWD, path, 65536, &old, &len));
	t->used = used(5 * S, 0);
	fake_exit(t, 0);
	turn(&r);
	fake_start(fake_last(&r.rt));
	turn(&r);
	fake_last(&r.rt)->used = used(1 * S, 0);
	pods_look(r.pods);
	eq_int(metric(&r, CPU), 6);
	rig_stop(&r);
	works(file_write_atomic(AT_FDCWD, path, old, len, 0600));
	rig_start(&r);
	fake_start(fake_last(&r.rt));
	turn(&r);
	pods_look(r.pods);
	eq_int(metric(&r, CPU), 4); /* the last two seconds of the first task are lost, no more */
	rig_done(&r);
}

/* Its control groups may still be there when the next daemon asks. */
TEST(a_task_that_was_added_up_is_not_counted_again_by_the_next_daemon)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	pod_create(&r, "p", "'restartPolicy':'Never'," ONE);
	t = fake_last(&r.rt);
	fake_start(t);
	turn(&r);
	t->used = used(5 * S, 0);
	fake_exit(t, 0);
	turn(&r);
	eq_int(metric(&r, CPU), 5);
	rig_restart(&r);
	eq_int(metric(&r, CPU), 5);
	rig_done(&r);
}

TEST(a_task_that_ended_while_the_daemon_was_away_is_counted_to_its_end)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	t = run(&r, "p");
	t->used = used(3 * S, 0);
	pods_look(r.pods);
	rig_stop(&r);
	t->used = used(8 * S, 0);
	fake_end(t);
	rig_start(&r);
	eq_int(metric(&r, CPU), 8);
	rig_done(&r);
}

TEST(usage_of_a_pod_that_went_while_the_daemon_was_away_stays_in_the_sums)
{
	struct rig r;
	struct fake_task *t;

	rig_open(&r);
	t = run(&r, "p");
	t->used = used(3 * S, 0);
	pods_look(r.pods);
	rig_stop(&r);
	pod_delete(&r, "p", 0);
	rig_start(&r);
	until(&r, !pod_there(&r, "p"));
	eq_int(metric(&r, CPU), 3);
	fake_end(t);
	rig_done(&r);
}

TEST(a_file_that_cannot_be_read_does_not_keep_pods_from_running)
{
	struct rig r;
	autofree char *path = NULL;

	rig_open(&r);
	(void)run(&r, "p");
	path = xasprintf("%s/node/usage.json", r.data_dir);
	rig_stop(&r);
	works(file_write_atomic(AT_FDCWD, path, "{\"pods\":", 8, 0600));
	rig_start(&r);
	fake_start(fake_last(&r.rt));
	turn(&r);
	eq_str(ready_of(&r, "p"), "True");
	rig_done(&r);
}
