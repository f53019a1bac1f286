/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "base/buf.h"
#include "base/str.h"
#include "client/access.h"
#include "control/idle/idle_priv.h"
#include "kinds.h"
#include "world.h"

/* The sleep of Sandboxes: its tables, and the controller on a real server with a node of our own.
 */

#define S *1000000LL

static struct object *noted(const char *kind, const char *annotations)
{
	return object_of_f(kind_named(kind),
			   "{'metadata':{'name':'x','namespace':'default','annotations':{%s}}}",
			   annotations);
}

TEST(a_policy_is_read_from_annotations_and_a_wrong_one_counts_as_none)
{
	static const struct {
		const char *annotations;
		uint64_t after_ms;
		enum idle_action action;
		enum idle_wakes wakes;
		const char *bad;
	} rows[] = {
		{ "", 0, IDLE_ACTION_FREEZE, IDLE_WAKES_ITS_OWN, NULL },
		{ "'cay.dev/idle-after':'10m'", 600000, IDLE_ACTION_FREEZE, 0, NULL },
		{ "'cay.dev/idle-after':'1s'", 1000, IDLE_ACTION_FREEZE, 0, NULL },
		{ "'cay.dev/idle-after':'999ms'", 0, 0, 0, KEY_IDLE_AFTER },
		{ "'cay.dev/idle-after':'0'", 0, 0, 0, KEY_IDLE_AFTER },
		{ "'cay.dev/idle-after':'10'", 0, 0, 0, KEY_IDLE_AFTER },
		{ "'cay.dev/idle-after':''", 0, 0, 0, KEY_IDLE_AFTER },
		{ "'cay.dev/idle-after':'8784h'", 8784ull * 3600 * 1000, 0, 0, NULL },
		{ "'cay.dev/idle-after':'8785h'", 0, 0, 0, KEY_IDLE_AFTER },
		{ "'cay.dev/idle-after':'never'", 0, 0, 0, NULL },
		{ "'cay.dev/idle-after':'1m','cay.dev/idle-action':'Suspend'", 60000,
		  IDLE_ACTION_SUSPEND, 0, NULL },
		{ "'cay.dev/idle-after':'1m','cay.dev/idle-action':'Delete'", 60000,
		  IDLE_ACTION_DELETE, 0, NULL },
		{ "'cay.dev/idle-after':'1m','cay.dev/idle-action':'delete'", 0, 0, 0,
		  KEY_IDLE_ACTION },
		{ "'cay.dev/idle-action':'Delete'", 0, IDLE_ACTION_DELETE, 0, NULL },
		{ "'cay.dev/wake':'OnRequest'", 0, 0, IDLE_WAKES_ANY, NULL },
		{ "'cay.dev/wake':'Never'", 0, 0, IDLE_WAKES_NONE, NULL },
		{ "'cay.dev/idle-after':'1m','cay.dev/wake':'yes'", 0, 0, 0, KEY_WAKE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) o = noted("Sandbox", rows[i].annotations);
		const struct object *const levels[IDLE_LEVELS] = { o };
		struct idle_policy p = idle_policy_of(levels);

		eq_int(p.after_ms, rows[i].after_ms);
		eq_int(p.action, rows[i].action);
		eq_int(p.wakes, rows[i].wakes);
		eq_str(p.bad.key, rows[i].bad);
	}
}

TEST(each_annotation_is_taken_from_the_most_particular_object_that_has_it)
{
	autoptr(object) sandbox = noted("Sandbox", "'cay.dev/idle-after':'4m'");
	autoptr(object) claim = noted("SandboxClaim", "'cay.dev/idle-after':'3m'");
	autoptr(object) pool = noted("SandboxWarmPool", "'cay.dev/idle-action':'Suspend'");
	autoptr(object) template = noted(
		"SandboxTemplate", "'cay.dev/idle-after':'1m','cay.dev/idle-action':'Delete'");
	const struct object *levels[IDLE_LEVELS] = { sandbox, claim, pool, template };

	eq_int(idle_policy_of(levels).after_ms, 240000);
	eq_int(idle_policy_of(levels).action, IDLE_ACTION_SUSPEND);
	levels[0] = NULL;
	eq_int(idle_policy_of(levels).after_ms, 180000);
	levels[1] = NULL;
	eq_int(idle_policy_of(levels).after_ms, 60000);
	levels[2] = NULL;
	eq_int(idle_policy_of(levels).action, IDLE_ACTION_DELETE);
}

TEST(when_a_sandbox_sleeps_and_when_it_is_looked_at_again)
{
	const struct idle_policy none = { 0 }, freeze = { .after_ms = 60000 },
				 suspend = { .after_ms = 60000, .action = IDLE_ACTION_SUSPEND },
				 delete_ = { .after_ms = 60000, .action = IDLE_ACTION_DELETE },
				 quick = { .after_ms = 1000 }, slow = { .after_ms = 3600000 };
	const struct {
		struct idle_seen seen;
		struct idle_plan plan;
	} rows[] = {
		/* awake: looked at four times until then, and not too often or too rarely */
		{ { true, .ready = true, .known = true, .idle_us = 0, .policy = &freeze },
		  { .look_ms = 15000 } },
		{ { true, .ready = true, .known = true, .idle_us = 50 S, .policy = &freeze },
		  { .look_ms = 10000 } },
		{ { true, .ready = true, .known = true, .idle_us = 0, .policy = &quick },
		  { .look_ms = 250 } },
		{ { true, .ready = true, .known = true, .idle_us = 999000, .policy = &quick },
		  { .look_ms = 100 } },
		{ { true, .ready = true, .known = true, .idle_us = 0, .policy = &slow },
		  { .look_ms = 60000 } },
		{ { true, .ready = true, .known = true, .idle_us = 99 S, .policy = &none }, { 0 } },
		/* idle for as long as the policy says */
		{ { true, .ready = true, .known = true, .idle_us = 59999999, .policy = &freeze },
		  { .look_ms = 100 } },
		{ { true, .ready = true, .known = true, .idle_us = 60 S, .policy = &freeze },
		  { IDLE_STEP_FREEZE, .look_ms = 15000 } },
		{ { true, .ready = true, .known = true, .idle_us = 60 S, .policy = &suspend },
		  { IDLE_STEP_SUSPEND, .look_ms = 15000 } },
		{ { true, .ready = true, .known = true, .idle_us = 60 S, .policy = &delete_ },
		  { IDLE_STEP_DELETE, .look_ms = 15000 } },
		/* not while a request waits for its answer, nor where it cannot be */
		{ { true, .ready = true, .known = true, .idle_us = 60 S, .awaited = true,
		    .policy = &suspend },
		  { .look_ms = 15000 } },
		{ { true, .ready = true, .known = true, .idle_us = 60 S, .refused = true,
		    .policy = &freeze },
		  { .look_ms = 15000 } },
		/* nobody tells how it is used */
		{ { true, .policy = &freeze }, { 0 } },
		{ { true, .ready = true, .policy = &freeze }, { .look_ms = 500 } },
		{ { true, .ready = true, .was = IDLE_FROZEN, .policy = &freeze },
		  { .look_ms = 500, .now = IDLE_FROZEN } },
		/* asleep */
		{ { true, .ready = true, .known = true, .frozen = true, .idle_us = 99 S,
		    .policy = &freeze },
		  { .now = IDLE_FROZEN } },
		{ { true, .ready = true, .known = true, .frozen = true, .policy = &none },
		  { IDLE_STEP_THAW, .now = IDLE_FROZEN } },
		/* frozen, and then its policy was changed */
		{ { true, .ready = true, .known = true, .frozen = true, .idle_us = 60 S,
		    .policy = &suspend },
		  { IDLE_STEP_SUSPEND, .look_ms = 15000, .now = IDLE_FROZEN } },
		{ { true, .ready = true, .known = true, .frozen = true, .idle_us = 60 S,
		    .policy = &delete_ },
		  { IDLE_STEP_DELETE, .look_ms = 15000, .now = IDLE_FROZEN } },
		{ { true, .ready = true, .known = true, .frozen = true, .idle_us = 50 S,
		    .policy = &delete_ },
		  { .look_ms = 10000, .now = IDLE_FROZEN } },
		{ { true, .suspended = true, .marked = true, .policy = &suspend },
		  { .now = IDLE_SUSPENDED } },
		{ { true, .suspended = true, .policy = &suspend }, { 0 } }, /* by its user */
		{ { true, .marked = true, .policy = &suspend }, { IDLE_STEP_UNMARK } },
		/* of a pool, or being deleted */
		{ { false, .ready = true, .known = true, .idle_us = 60 S, .policy = &freeze },
		  { 0 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct idle_plan plan = idle_decide(&rows[i].seen);

		if (plan.step != rows[i].plan.step || plan.look_ms != rows[i].plan.look_ms ||
		    plan.now != rows[i].plan.now)
			print_error("row %zu\n", i);
		eq_int(plan.step, rows[i].plan.step);
		eq_int(plan.look_ms, rows[i].plan.look_ms);
		eq_int(plan.now, rows[i].plan.now);
	}
}

/* A node that says what the test wants. */
struct fake_node {
	struct access_activity activity;
	bool unknown, awaited;
	unsigned n_looks, n_freezes, n_thaws;
	enum err_code refuses;
	struct access *access;
};

static bool fake_activity(void *ctx, unused const struct access_target *of,
			  struct access_activity *ret)
{
	struct fake_node *n = ctx;

	n->n_looks++;
	*ret = n->activity;
	return !n->unknown;
}

static struct err *fake_freeze(void *ctx, unused const struct access_target *of)
{
	struct fake_node *n = ctx;

	n->n_freezes++;
	if (n->refuses)
		return err_new(n->refuses, "the fake node refuses");
	n->activity.frozen = true;
	return NULL;
}

static void fake_thaw(void *ctx, unused const struct access_target *of)
{
	struct fake_node *n = ctx;

	n->n_thaws++;
	n->activity.frozen = false;
}

static bool fake_awaited(void *arg, unused const char *ns, unused const char *sandbox)
{
	return ((struct fake_node *)arg)->awaited;
}

static void open_world(struct world *w, struct fake_node *n)
{
	static const struct access_ops ops = { .activity = fake_activity,
					       .freeze = fake_freeze,
					       .thaw = fake_thaw };
	struct control_options o = { .awaited = fake_awaited, .awaited_arg = n };

	*n = (struct fake_node){ .activity.last_us = clock_mono() };
	o.access = n->access = access_new(&ops, n);
	world_open(w, &o);
}

static void close_world(struct world *w, struct fake_node *n)
{
	world_done(w);
	access_free(n->access);
}

static void make(struct world *w, const char *annotations)
{
	autofree char *text = xasprintf(
		"{'metadata':{'name':'box','annotations':{%s}},"
		"'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':'pause'}]}}}}",
		annotations);

	create(w, kind_named("Sandbox"), text);
	turn(w);
	pod_runs(w, "box");
}

static void idles(struct world *w, struct fake_node *n, usec for_us)
{
	n->activity.last_us = clock_mono() - for_us;
	step(w, 60000);
}

static const char *asleep(struct world *w)
{
	return condition_of(w, kind_named("Sandbox"), "box", "Asleep");
}

static const char *mode(struct world *w)
{
	autoptr(object) o = get(w, kind_named("Sandbox"), "box");

	return sandbox_view(o)->suspended ? "Suspended" : "Running";
}

TEST(a_sandbox_freezes_once_and_a_wake_is_told)
{
	struct fake_node n;
	struct world w;
	autobuf text = { 0 };
	uint64_t rev;

	open_world(&w, &n);
	make(&w, "'cay.dev/idle-after':'1m'");
	step(&w, 60000);
	rev = world_rev(&w);
	for (int i = 0; i < 10; i++)
		idles(&w, &n, 30 S);
	is_true(n.n_looks > 5);
	eq_int(world_rev(&w), rev); /* looking writes nothing */
	eq_str(asleep(&w), "-");
	idles(&w, &n, 61 S);
	step(&w, 100);
	eq_int(n.n_freezes, 1);
	eq_str(asleep(&w), "True/Frozen/Its processes are frozen until somebody needs them");
	eq_int(count_events(&w, "SandboxFrozen"), 1);
	eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
	       "True/DependenciesReady/Pod is Ready");
	n.activity = (struct access_activity){ .last_us = clock_mono() };
	access_tell_woken(n.access,
			  &(struct access_wake){ NS, "box", .cause = "exec", .took_us = 420 });
	step(&w, 100);
	eq_str(asleep(&w), "False/Woken/Sandbox is awake");
	eq_int(count_events(&w, "SandboxWoken"), 1);
	control_metrics(w.control, &text);
	is_true(strstr(buf_str(&text), "cay_wakes_total{tier=\"frozen\",cause=\"exec\"} 1\n"));
	is_true(strstr(buf_str(&text),
		       "cay_wake_seconds_bucket{tier=\"frozen\",le=\"0.0001\"} 0\n"));
	is_true(strstr(buf_str(&text),
		       "cay_wake_seconds_bucket{tier=\"frozen\",le=\"0.0005\"} 1\n"));
	is_true(strstr(buf_str(&text), "cay_sleeps_total{tier=\"frozen\"} 1\n"));
	is_true(strstr(buf_str(&text), "cay_sandboxes_asleep{tier=\"frozen\"} 0\n"));
	close_world(&w, &n);
}

TEST(what_cannot_be_frozen_is_told_once_and_what_cannot_be_now_is_tried_again)
{
	struct fake_node n;
	struct world w;

	open_world(&w, &n);
	make(&w, "'cay.dev/idle-after':'1m'");
	n.refuses = ERR_UNAVAILABLE;
	for (int i = 0; i < 3; i++)
		idles(&w, &n, 61 S);
	is_true(n.n_freezes > 1);
	eq_int(count_events(&w, "FreezeFailed"), 0);
	n.refuses = ERR_UNSUPPORTED;
	for (int i = 0; i < 3; i++)
		idles(&w, &n, 61 S);
	step(&w, 100);
	eq_int(count_events(&w, "FreezeFailed"), 1);
	eq_str(asleep(&w), "-");
	close_world(&w, &n);
}

TEST(a_wrong_value_is_told_once_and_its_successor_again)
{
	struct fake_node n;
	struct world w;

	open_world(&w, &n);
	make(&w, "'cay.dev/idle-after':'soon'");
	for (int i = 0; i < 3; i++) {
		patch(&w, kind_named("Sandbox"), "box", NULL,
		      i % 2 ? "{'metadata':{'labels':{'a':'1'}}}"
			    : "{'metadata':{'labels':{'a':'2'}}}");
		step(&w, 100);
	}
	eq_int(count_events(&w, "InvalidIdlePolicy"), 1);
	patch(&w, kind_named("Sandbox"), "box", NULL,
	      "{'metadata':{'annotations':{'cay.dev/idle-after':'later'}}}");
	step(&w, 100);
	eq_int(count_events(&w, "InvalidIdlePolicy"), 2);
	eq_int(n.n_freezes, 0);
	close_world(&w, &n);
}

TEST(a_sandbox_that_has_lost_its_policy_goes_on)
{
	struct fake_node n;
	struct world w;

	open_world(&w, &n);
	make(&w, "'cay.dev/idle-after':'1m'");
	idles(&w, &n, 61 S);
	is_true(n.activity.frozen);
	patch(&w, kind_named("Sandbox"), "box", NULL,
	      "{'metadata':{'annotations':{'cay.dev/idle-after':'never'}}}");
	step(&w, 100);
	eq_int(n.n_thaws, 1);
	eq_str(asleep(&w), "False/Woken/Sandbox is awake");
	close_world(&w, &n);
}

TEST(idleness_suspends_and_one_of_many_wakes_starts_it_again)
{
	struct fake_node n;
	struct world w;
	uint64_t rev;

	open_world(&w, &n);
	make(&w, "'cay.dev/idle-after':'1m','cay.dev/idle-action':'Suspend'");
	n.awaited = true;
	idles(&w, &n, 61 S);
	eq_str(mode(&w), "Running"); /* a request into it is not answered yet */
	n.awaited = false;
	idles(&w, &n, 61 S);
	eq_str(mode(&w), "Suspended");
	step(&w, 100);
	is_true(str_starts(asleep(&w), "True/Suspended/"));
	is_true(control_wake(w.control, NS, "box", "request"));
	rev = world_rev(&w);
	for (int i = 0; i < 100; i++)
		is_true(control_wake(w.control, NS, "box", "request"));
	eq_int(world_rev(&w), rev);
	eq_str(mode(&w), "Running");
	n.activity.last_us = clock_mono();
	turn(&w);
	delete_now(&w, kind_named("Pod"), "box");
	turn(&w);
	pod_runs(&w, "box");
	step(&w, 100);
	eq_str(asleep(&w), "False/Woken/Sandbox is awake");
	eq_int(count_events(&w, "SandboxWoken"), 1);
	is_false(control_wake(w.control, NS, "box", "request")); /* it is awake */
	close_world(&w, &n);
}

TEST(who_is_never_woken_is_not_told_of_requests_that_wake)
{
	static const struct {
		const char *wake, *says;
	} rows[] = {
		{ "IfIdle",
		  "It was suspended because nobody used it; a request or a packet wakes it" },
		{ "Never", "It was suspended because nobody used it" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fake_node n;
		struct world w;
		autofree char *notes = xasprintf("'cay.dev/idle-after':'1m','cay.dev/wake':'%s',"
						 "'cay.dev/idle-action':'Suspend'",
						 rows[i].wake);

		open_world(&w, &n);
		make(&w, notes);
		idles(&w, &n, 61 S);
		step(&w, 100);
		eq_str(asleep(&w) + strlen("True/Suspended/"), rows[i].says);
		close_world(&w, &n);
	}
}

TEST(a_packet_wakes_what_idleness_suspended_once_and_nobody_else)
{
	struct fake_node n;
	struct world w;
	uint64_t rev;

	open_world(&w, &n);
	make(&w, "'cay.dev/idle-after':'1m','cay.dev/idle-action':'Suspend'");
	access_tell_knocked(n.access, NS, "box"); /* it is awake */
	access_tell_knocked(n.access, NS, "nobody");
	idles(&w, &n, 61 S);
	eq_str(mode(&w), "Suspended");
	patch(&w, kind_named("Sandbox"), "box", NULL,
	      "{'metadata':{'annotations':{'cay.dev/wake':'Never'}}}");
	access_tell_knocked(n.access, NS, "box");
	eq_str(mode(&w), "Suspended");
	patch(&w, kind_named("Sandbox"), "box", NULL,
	      "{'metadata':{'annotations':{'cay.dev/wake':null}}}");
	access_tell_knocked(n.access, NS, "box");
	eq_str(mode(&w), "Running");
	rev = world_rev(&w);
	for (int i = 0; i < 100; i++)
		access_tell_knocked(n.access, NS, "box");
	eq_int(world_rev(&w), rev);
	close_world(&w, &n);
}

TEST(one_that_slept_and_that_its_user_then_suspended_was_not_woken)
{
	struct fake_node n;
	struct world w;

	open_world(&w, &n);
	make(&w, "'cay.dev/idle-after':'1m','cay.dev/idle-action':'Suspend'");
	idles(&w, &n, 61 S);
	step(&w, 100);
	is_true(str_starts(asleep(&w), "True/Suspended/"));
	patch(&w, kind_named("Sandbox"), "box", NULL,
	      "{'metadata':{'annotations':{'cay.dev/asleep-since':null}}}");
	step(&w, 100);
	is_true(str_starts(asleep(&w), "False/SuspendedByUser/"));
	is_false(control_wake(w.control, NS, "box", "request"));
	close_world(&w, &n);
}

TEST(a_users_own_suspend_stays_unless_they_say_otherwise)
{
	struct fake_node n;
	struct world w;

	open_world(&w, &n);
	make(&w, "'cay.dev/idle-after':'1m'");
	patch(&w, kind_named("Sandbox"), "box", NULL, "{'spec':{'operatingMode':'Suspended'}}");
	step(&w, 100);
	is_false(control_wake(w.control, NS, "box", "request"));
	eq_str(mode(&w), "Suspended");
	eq_str(asleep(&w), "-");
	patch(&w, kind_named("Sandbox"), "box", NULL,
	      "{'metadata':{'annotations':{'cay.dev/wake':'OnRequest'}}}");
	is_true(control_wake(w.control, NS, "box", "request"));
	eq_str(mode(&w), "Running");
	patch(&w, kind_named("Sandbox"), "box", NULL,
	      "{'metadata':{'annotations':{'cay.dev/wake':'Never','cay.dev/asleep-since':'x'}},"
	      "'spec':{'operatingMode':'Suspended'}}");
	is_false(control_wake(w.control, NS, "box", "request"));
	patch(&w, kind_named("Sandbox"), "box", NULL, "{'spec':{'operatingMode':'Running'}}");
	step(&w, 100);
	{
		autoptr(object) o = get(&w, kind_named("Sandbox"), "box");

		eq_str(object_annotation(o, KEY_ASLEEP_SINCE), NULL); /* whoever set the mode */
	}
	is_false(control_wake(w.control, NS, "nobody", "request"));
	close_world(&w, &n);
}

TEST(nobody_knows_on_a_cluster_which_is_told_and_nothing_sleeps)
{
	struct world w;
	uint64_t rev;

	world_open(&w, NULL);
	make(&w, "'cay.dev/idle-after':'1s','cay.dev/idle-action':'Delete'");
	step(&w, 100);
	eq_int(count_events(&w, "IdleUnsupported"), 1);
	rev = world_rev(&w);
	for (int i = 0; i < 5; i++)
		step(&w, 60000);
	eq_int(world_rev(&w), rev);
	eq_int(count(&w, kind_named("Sandbox")), 1);
	world_done(&w);
}
