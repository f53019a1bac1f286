/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "kinds.h"
#include "late.h"
#include "loop/loop.h"
#include "server/server.h"
#include "world.h"

/*
 * Objects that are not the controllers' to touch: of another owner, in another namespace, or a
 * successor that took the name of what a pass saw before its write arrived.
 */
#define POD_SPEC "'podTemplate':{'spec':{'containers':[{'name':'c','image':'pause'}]}}"

static void turns(struct world *w, int n)
{
	while (n--)
		turn(w);
}

/* Every write of the controllers comes a turn after the pass that made it. */
static void open_late(struct world *w)
{
	world_open(w, NULL);
	world_stop(w);
	w->theirs = late_client(w->loop, server_client(w->server, "system:cay:controller"));
	works(control_start(w->loop, w->theirs,
			    &(struct control_options){ .cluster_services = true }, &w->control));
	turns(w, 5);
}

static char *owner_text(const struct object *owner, const char *child)
{
	return xasprintf("{'metadata':{'name':'%s','ownerReferences':[{'apiVersion':'v1','kind':"
			 "'ConfigMap','name':'%s','uid':'%s'}]}}",
			 child, owner->name, owner->uid);
}

static const struct kind *config_map(void)
{
	return kind_named("ConfigMap");
}

static bool there(struct world *w, const struct kind *k, const char *name)
{
	autoptr(object) o = get(w, k, name);

	return o != NULL;
}

static void must_work(struct client_write *write unused, struct err *e, struct object *o unused)
{
	works(e);
}

TEST(an_owner_in_another_namespace_keeps_nothing)
{
	struct client_write made = { .done = must_work };
	autoptr(object) owner = NULL;
	autofree char *text = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Namespace"), "{'metadata':{'name':'elsewhere'}}");
	client_create(w.client, &(struct client_ref){ config_map(), "elsewhere" },
		      doc_of("{'metadata':{'name':'owner'}}"), &made);
	owner = client_get(w.client, config_map(), "elsewhere", "owner");
	is_true(owner != NULL);
	text = owner_text(owner, "child");
	create(&w, config_map(), text);
	turns(&w, 20);
	is_false(there(&w, config_map(), "child"));
	world_done(&w);
}

static void replace_child(void *arg)
{
	struct world *w = arg;

	delete_now(w, config_map(), "child");
	create(w, config_map(), "{'metadata':{'name':'child'}}");
}

TEST(a_successor_of_garbage_is_not_collected)
{
	autoptr(object) owner = NULL;
	autofree char *text = NULL;
	struct world w;

	open_late(&w);
	create(&w, config_map(), "{'metadata':{'name':'owner'}}");
	owner = get(&w, config_map(), "owner");
	text = owner_text(owner, "child");
	create(&w, config_map(), text);
	turns(&w, 5);
	delete_now(&w, config_map(), "owner");
	loop_post(w.loop, replace_child, &w); /* comes between the pass and its write */
	turns(&w, 10);
	is_true(there(&w, config_map(), "child"));
	world_done(&w);
}

static bool is_expired(struct world *w)
{
	return str_starts(condition_of(w, kind_named("SandboxClaim"), "c", "Ready"),
			  "False/ClaimExpired");
}

/*
 * The report of the expiry takes a turn to be done and one more to be told; the pass that cleans up
 * follows at once. What was posted before that pass comes before its write.
 */
static void replace_sandbox(void *arg)
{
	static unsigned n_seen;
	struct world *w = arg;

	n_seen = is_expired(w) ? n_seen + 1 : 0;
	if (n_seen < 2) {
		loop_post(w->loop, replace_sandbox, w);
		return;
	}
	delete_now(w, kind_named("Sandbox"), "c");
	create(w, kind_named("Sandbox"), "{'metadata':{'name':'c'},'spec':{" POD_SPEC "}}");
}

TEST(an_expired_claim_does_not_clean_up_a_successor_of_its_sandbox)
{
	autoptr(object) sb = NULL;
	struct world w;

	open_late(&w);
	create(&w, kind_named("SandboxTemplate"),
	       "{'metadata':{'name':'t'},'spec':{" POD_SPEC "}}");
	create(&w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p'},'spec':{'replicas':0,'sandboxTemplateRef':{'name':'t'}}}");
	create(&w, kind_named("SandboxClaim"),
	       "{'metadata':{'name':'c'},'spec':{'warmPoolRef':{'name':'p'},'lifecycle':"
	       "{'shutdownTime':'2100-01-01T00:00:00Z','shutdownPolicy':'Retain'}}}");
	turns(&w, 20);
	is_true(there(&w, kind_named("Sandbox"), "c"));
	patch(&w, kind_named("SandboxClaim"), "c", NULL,
	      "{'spec':{'lifecycle':{'shutdownTime':'2020-01-01T00:00:00Z'}}}");
	loop_post(w.loop, replace_sandbox, &w);
	for (int i = 0; i < 50; i++)
		step(&w, 2);
	is_true(is_expired(&w));
	sb = get(&w, kind_named("Sandbox"), "c");
	is_true(sb && !object_deleting(sb));
	world_done(&w);
}

TEST(expiry_leaves_a_service_that_is_not_the_sandboxs)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Service"),
	       "{'metadata':{'name':'box','labels':{'mine':'yes'}},'spec':{'clusterIP':'None'}}");
	create(&w, kind_named("Sandbox"),
	       "{'metadata':{'name':'box'},'spec':{" POD_SPEC
	       ",'shutdownTime':'2020-01-01T00:00:00Z'}}");
	step(&w, 10);
	step(&w, 10);
	eq_str(condition_of(&w, kind_named("Sandbox"), "box", "Ready"),
	       "False/SandboxExpired/Sandbox has expired");
	is_true(there(&w, kind_named("Service"), "box"));
	world_done(&w);
}
