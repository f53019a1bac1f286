/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/reach.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "api/cay/capability.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/ip.h"
#include "base/str.h"
#include "kinds.h"
#include "rig.h"

/*
 * Pods of Sandboxes, and a judge that limits those whose names begin with "l" to the places "a" and
 * "b". The rules are only looked at: nobody loads them.
 */
static const char *const none[] = { NULL };
static const struct egress places[] = {
	{ .host = "a.example", .methods = none, .paths = none },
	{ .host = "b.example", .methods = none, .paths = none },
};

struct world {
	struct rig rig;
	struct reach *reach;
	int run_fd;
	bool any, gone; /* gone: every Sandbox */
	size_t n_places;
	unsigned n_loads;
	usec last, pause; /* when rules were loaded; since the ones before */
	struct bytes *rules;
};

static bool any_limited(void *arg)
{
	return ((struct world *)arg)->any;
}

static enum reach_state limits_of(void *arg, const struct object *pod, struct arena *a unused,
				  struct capabilities *ret)
{
	const struct world *w = arg;

	if (w->gone)
		return REACH_UNKNOWN;
	*ret = (struct capabilities){ .egress = places, .n_egress = w->n_places };
	return *pod->name == 'l' ? REACH_LIMITED : REACH_FREE;
}

static bool stands(void *arg unused, const struct object *pod unused, const char *host unused)
{
	return true;
}

static void refused(void *arg unused, const struct object *pod unused, const char *host unused)
{
}

static void load(void *arg, struct bytes *rules, unsigned number)
{
	struct world *w = arg;
	usec now = clock_mono();

	w->pause = now - w->last;
	w->last = now;
	w->n_loads++;
	w->rules = rules;
	reach_in_force(w->reach, number);
}

static void start(struct world *w)
{
	const struct reach_judge judge = { .any = any_limited,
					   .limits = limits_of,
					   .stands = stands,
					   .refused = refused,
					   .arg = w };

	w->reach = reach_new(&(struct reach_spec){ .loop = w->rig.loop,
						   .client = w->rig.client,
						   .instance = &w->rig.inst,
						   .run_fd = w->run_fd,
						   .judge = &judge,
						   .load = load,
						   .arg = w });
	w->rules = reach_rules(w->reach);
}

static void restart(struct world *w)
{
	reach_free(w->reach);
	start(w);
}

static void open_world(struct world *w)
{
	*w = (struct world){ .any = true, .n_places = ARRAY_LEN(places) };
	rig_open(&w->rig);
	w->run_fd = open(w->rig.run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_true(w->run_fd >= 0);
	start(w);
}

static void close_world(struct world *w)
{
	reach_free(w->reach);
	(void)close(w->run_fd);
	rig_done(&w->rig);
}

/* A Sandbox that was there when its Pod was made. */
static void run(struct world *w, const char *name)
{
	autofree char *text = xasprintf(
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','ownerReferences':["
		"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','name':'%s','uid':'u-%s',"
		"'controller':true}]},'spec':{'containers':[{'name':'a','image':'img'}]}}",
		name, name, name);

	create(&w->rig, kind_named("Pod"), text);
	fake_start(fake_last(&w->rig.rt));
	until(&w->rig, str_eq(ready_of(&w->rig, name), "True"));
}

static unsigned place_of(struct world *w, const char *name)
{
	unsigned place = 0;
	struct ip ip;

	is_true(ip_parse(told(&w->rig, name, "podIP"), &ip));
	is_true(instance_ip_place(&w->rig.inst, &ip, &place));
	return place;
}

static enum reach_state state(struct world *w, const char *name)
{
	return reach_state(w->reach, place_of(w, name));
}

static void judge_anew(struct world *w)
{
	reach_changed(w->reach);
	turn(&w->rig);
}

static void on_leased(struct reach_wait *w unused)
{
}

static void lease(struct world *w, const char *name, const char *host, const char *addr)
{
	struct reach_wait wait = { .done = on_leased };
	struct ip ip;

	is_true(ip_parse(addr, &ip));
	is_true(reach_lease(w->reach, place_of(w, name),
			    &(struct reach_found){ .host = host, .addrs = &ip, .n = 1 }, &wait));
	turn(&w->rig);
	reach_wait_cancel(&wait);
}

static bool is_open(const struct world *w, const char *addr)
{
	return w->rules && strstr(w->rules->data, addr);
}

TEST(what_is_taken_from_a_sandbox_does_not_wait_and_its_own_lookups_do)
{
	struct world w;

	open_world(&w);
	run(&w, "l1");
	run(&w, "l2");
	until(&w.rig, reach_number(w.reach) > 0 && is_open(&w, "set limited"));
	lease(&w, "l1", "a.example", "203.0.113.1");
	until(&w.rig, is_open(&w, "203.0.113.1"));
	lease(&w, "l1", "b.example", "203.0.113.2");
	until(&w.rig, is_open(&w, "203.0.113.2"));
	is_true(w.pause >= 50 * 1000);
	lease(&w, "l2", "a.example", "203.0.113.3"); /* now there is a pause again, or will be */
	w.n_places = 1;
	judge_anew(&w);
	is_false(is_open(&w, "203.0.113.2"));
	is_true(is_open(&w, "203.0.113.1"));
	is_true(is_open(&w, "203.0.113.3"));
	close_world(&w);
}

TEST(a_pod_that_outlives_its_sandbox_stays_as_limited_as_it_was)
{
	struct world w;

	open_world(&w);
	run(&w, "limited");
	run(&w, "plain");
	eq_int(state(&w, "limited"), REACH_LIMITED);
	eq_int(state(&w, "plain"), REACH_FREE);
	until(&w.rig, is_open(&w, told(&w.rig, "plain", "podIP"))); /* that is written down */
	is_true(reach_has_place(w.reach, place_of(&w, "limited"), "a.example"));
	w.gone = true;
	w.any = false; /* it was the last */
	for (int i = 0; i < 3; i++) {
		judge_anew(&w);
		eq_int(state(&w, "limited"), REACH_LIMITED);
		is_false(reach_has_place(w.reach, place_of(&w, "limited"), "a.example"));
		eq_int(state(&w, "plain"), REACH_FREE);
		restart(&w);
	}
	run(&w, "late"); /* who knows whether it would have been limited */
	eq_int(state(&w, "late"), REACH_LIMITED);
	for (const char **name = (const char *[]){ "limited", "late", NULL }; *name; name++) {
		is_true(w.rules != NULL);
		pod_delete(&w.rig, *name, 0);
		until(&w.rig, !pod_there(&w.rig, *name));
	}
	until(&w.rig, !w.rules);
	restart(&w);
	eq_int(state(&w, "plain"), REACH_FREE);
	close_world(&w);
}

TEST(whoever_was_there_before_anybody_was_limited_is_free)
{
	struct world w;

	open_world(&w);
	w.any = false;
	judge_anew(&w);
	run(&w, "l1");
	w.gone = true;
	w.any = true;
	judge_anew(&w);
	eq_int(state(&w, "l1"), REACH_FREE);
	restart(&w);
	eq_int(state(&w, "l1"), REACH_FREE);
	w.gone = false; /* and whoever has a Sandbox is judged */
	judge_anew(&w);
	eq_int(state(&w, "l1"), REACH_LIMITED);
	close_world(&w);
}
