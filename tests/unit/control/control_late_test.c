/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "claims.h"
#include "kinds.h"
#include "late.h"
#include "loop/loop.h"
#include "server/server.h"
#include "world.h"

/* The same controllers when each write takes its time. */

static void turns(struct world *w, int n)
{
	while (n--)
		turn(w);
}

static void open_late(struct world *w)
{
	world_open(w, NULL);
	world_stop(w);
	w->theirs = late_client(w->loop, server_client(w->server, "system:cay:controller"));
	works(control_start(w->loop, w->theirs, NULL, &w->control));
	create(w, kind_named("SandboxTemplate"),
	       "{'metadata':{'name':'t'},'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':"
	       "'pause'}]}}}}");
}

static bool is_bound_once(struct world *w, int n)
{
	autoptr(map) seen = map_new(NULL);

	for (int i = 0; i < n; i++) {
		autofree char *name = xasprintf("c%d", i);
		autoptr(object) claim = get(w, kind_named("SandboxClaim"), name);
		const char *to = json_get_str(json_get(object_status(claim), "sandbox"), "name");
		autoptr(object) sb = to ? get(w, kind_named("Sandbox"), to) : NULL;

		if (!sb || map_has(seen, to) || !object_controlled_by(sb, claim->uid))
			return false;
		map_put(seen, to, w);
	}
	return true;
}

TEST(case_156_late_writes_never_overfill_a_pool)
{
	struct world w;

	open_late(&w);
	create(&w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p'},'spec':{'replicas':20,'sandboxTemplateRef':{'name':'t'}}}");
	for (int i = 0; i < 60; i++) {
		turn(&w);
		is_true(count(&w, kind_named("Sandbox")) <= 20);
		if (i % 3 == 0)
			all_pods_run(&w);
	}
	eq_int(count(&w, kind_named("Sandbox")), 20);
	eq_int(count(&w, kind_named("Pod")), 20);
	world_done(&w);
}

TEST(case_247_late_writes_never_give_a_member_twice)
{
	struct world w;

	open_late(&w);
	create(&w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p'},'spec':{'replicas':8,'sandboxTemplateRef':{'name':'t'}}}");
	turns(&w, 40);
	all_pods_run(&w);
	turns(&w, 20);
	for (int i = 0; i < 12; i++) {
		autofree char *text = xasprintf(
			"{'metadata':{'name':'c%d'},'spec':{'warmPoolRef':{'name':'p'}}}", i);

		create(&w, kind_named("SandboxClaim"), text);
	}
	for (int i = 0; i < 60; i++) {
		turn(&w);
		if (i % 5 == 0)
			all_pods_run(&w);
	}
	control_step(w.control, 3000);
	turns(&w, 30);
	is_true(is_bound_once(&w, 12));
	world_done(&w);
}

TEST(cases_262_274_a_report_that_came_too_late_is_not_counted)
{
	static const char line[] =
		"\nagent_sandbox_claim_controller_startup_latency_ms_count{launch_type=\"warm\","
		"sandbox_template=\"t\"} 1\n";
	autobuf page = { 0 };
	struct world w;

	open_late(&w);
	create(&w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p'},'spec':{'replicas':1,'sandboxTemplateRef':{'name':'t'}}}");
	turns(&w, 10);
	all_pods_run(&w);
	turns(&w, 10);
	create(&w, kind_named("SandboxClaim"),
	       "{'metadata':{'name':'c'},'spec':{'warmPoolRef':{'name':'p'}}}");
	for (int i = 0; i < 20; i++) { /* others write to the claim all the time */
		autofree char *text = xasprintf("{'metadata':{'annotations':{'n':'%d'}}}", i);

		patch(&w, kind_named("SandboxClaim"), "c", NULL, text);
		turn(&w);
	}
	control_metrics(w.control, &page);
	is_false(strstr(buf_str(&page), line));
	turns(&w, 20);
	is_true(str_starts(condition_of(&w, kind_named("SandboxClaim"), "c", "Ready"), "True"));
	buf_clear(&page);
	control_metrics(w.control, &page);
	is_true(strstr(buf_str(&page), line));
	world_done(&w);
}

/* Nobody collects garbage here: the test does it. */
static void end_claims(struct world *w, char *const *names, int n)
{
	for (int i = 0; i < n; i++) {
		autofree char *claim = xasprintf("c%d", i);

		delete_now(w, kind_named("SandboxClaim"), claim);
		delete_now(w, kind_named("Sandbox"), names[i]);
	}
}

TEST(late_writes_return_sandboxes_without_overfilling_their_pool)
{
	char *names[3] = { NULL }, *uids[3] = { NULL };
	struct world w;

	open_late(&w);
	patch(&w, kind_named("SandboxTemplate"), "t", NULL,
	      "{'metadata':{'annotations':{'cay.dev/reset':'true'}}}");
	create(&w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p','annotations':{'cay.dev/refill':'returned'}},"
	       "'spec':{'replicas':3,'sandboxTemplateRef':{'name':'t'}}}");
	turns(&w, 40);
	all_pods_run(&w);
	turns(&w, 20);
	for (int i = 0; i < 3; i++) {
		autofree char *text = xasprintf(
			"{'metadata':{'name':'c%d'},'spec':{'warmPoolRef':{'name':'p'}}}", i);
		autofree char *claim = xasprintf("c%d", i);
		autoptr(object) sb = NULL;

		create(&w, kind_named("SandboxClaim"), text);
		turns(&w, 20);
		names[i] = bound_to(&w, claim);
		sb = get(&w, kind_named("Sandbox"), names[i]);
		uids[i] = xstrdup(sb->uid);
	}
	end_claims(&w, names, 3);
	for (int i = 0; i < 60; i++) {
		turn(&w);
		is_true(count(&w, kind_named("Sandbox")) <= 3);
	}
	for (int i = 0; i < 3; i++) {
		autoptr(object) sb = get(&w, kind_named("Sandbox"), names[i]);

		is_true(sb && !object_deleting(sb) && !str_eq(sb->uid, uids[i]));
		free(names[i]);
		free(uids[i]);
	}
	world_done(&w);
}

TEST(controllers_may_go_while_writes_are_under_way)
{
	struct world w;

	open_late(&w);
	create(&w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p'},'spec':{'replicas':4,'sandboxTemplateRef':{'name':'t'}}}");
	turns(&w, 3);
	world_stop(&w);
	turns(&w, 5);
	world_start(&w, NULL);
	turns(&w, 3);
	eq_int(count(&w, kind_named("Sandbox")), 4);
	world_done(&w);
}

static bool note_name(void *arg, struct object *o)
{
	*(char **)arg = xstrdup(o->name);
	return false;
}

static bool is_of(struct world *w, const char *sandbox, const char *claim)
{
	autoptr(object) sb = get(w, kind_named("Sandbox"), sandbox);
	autoptr(object) c = get(w, kind_named("SandboxClaim"), claim);

	assert_non_null(c);
	return sb && object_controlled_by(sb, c->uid);
}

static void spoil(void *arg)
{
	struct world *w = arg;
	autofree char *name = NULL;

	client_each(w->client, kind_named("Sandbox"), NS, note_name, &name);
	patch(w, kind_named("Sandbox"), name, NULL, "{'metadata':{'annotations':{'x':'y'}}}");
	delete_now(w, kind_named("SandboxClaim"), "gone");
}

TEST(a_member_that_a_deleted_claim_did_not_get_is_free_again)
{
	autofree char *name = NULL;
	struct world w;

	open_late(&w);
	create(&w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p'},'spec':{'replicas':1,'sandboxTemplateRef':{'name':'t'}}}");
	turns(&w, 20);
	all_pods_run(&w);
	turns(&w, 20);
	client_each(w.client, kind_named("Sandbox"), NS, note_name, &name);
	create(&w, kind_named("SandboxClaim"),
	       "{'metadata':{'name':'gone','finalizers':['x.io/hold']},"
	       "'spec':{'warmPoolRef':{'name':'p'}}}");
	loop_post(w.loop, spoil, &w); /* comes between the pass and its write */
	turns(&w, 10);
	is_true(!is_of(&w, name, "gone"));
	patch(&w, kind_named("Sandbox"), name, NULL, "{'metadata':{'annotations':{'x':'z'}}}");
	create(&w, kind_named("SandboxClaim"),
	       "{'metadata':{'name':'c0'},'spec':{'warmPoolRef':{'name':'p'}}}");
	turns(&w, 10);
	is_true(is_of(&w, name, "c0"));
	world_done(&w);
}
