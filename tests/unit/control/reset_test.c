/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "claims.h"
#include "control/control_priv.h"
#include "control/pass/keys.h"
#include "control/reset/reset_priv.h"
#include "kinds.h"

/* The Sandbox of a claim that has ended goes back into its pool, or is deleted. */

TEST(whatever_is_doubtful_is_deleted)
{
	static const struct reset_seen good = { .claimed = true,
						.pool = true,
						.template = true,
						.resets = true,
						.desired = 2,
						.members = 1 };
	struct reset_seen rows[13];
	static const enum reset_step want[ARRAY_LEN(rows)] = {
		RESET_STEP_RETURN,  RESET_STEP_RELEASE, RESET_STEP_RELEASE, RESET_STEP_RELEASE,
		RESET_STEP_RELEASE, RESET_STEP_RELEASE, RESET_STEP_RELEASE, RESET_STEP_RELEASE,
		RESET_STEP_RELEASE, RESET_STEP_RELEASE, RESET_STEP_WIPE,    RESET_STEP_WIPE,
		RESET_STEP_WIPE,
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		rows[i] = good;
	rows[1].claimed = false;
	rows[2].claim_lives = true;
	rows[3].pool = false;
	rows[4].template = false;
	rows[5].resets = false;
	rows[6].held = 1;
	rows[7].strange = true;
	rows[8].members = 2;
	rows[9].named = true;
	rows[10].left = 1;
	rows[11].foreground = true;
	rows[12].named = true; /* what names it may end while it is wiped */
	rows[12].left = 1;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reset_plan plan = reset_decide(&rows[i]);

		eq_int(plan.step, want[i]);
		eq_int(!!plan.why, want[i] == RESET_STEP_RELEASE);
	}
}

/* A world whose template resets, with a pool p of two that waits for what it has lent. */
static void open_lending(struct world *w, const struct control_options *o)
{
	world_open(w, o);
	create(w, kind_named("SandboxTemplate"),
	       "{'metadata':{'name':'t','annotations':{'cay.dev/reset':'true'}},"
	       "'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':'pause'}]}},"
	       "'service':true,"
	       "'volumeClaimTemplates':[{'metadata':{'name':'v'},'spec':{'accessModes':"
	       "['ReadWriteOnce'],'resources':{'requests':{'storage':'1Mi'}}}}]}}");
	create(w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p','annotations':{'cay.dev/refill':'returned'}},"
	       "'spec':{'replicas':2,'sandboxTemplateRef':{'name':'t'}}}");
	turn(w);
	all_pods_run(w);
}

static char *take_one(struct world *w, const char *claim)
{
	char *name;

	make_claim(w, claim, "p", ",'additionalPodMetadata':{'labels':{'sandbox.users.io/x':'1'}}");
	turn(w);
	name = bound_to(w, claim);
	is_true(name);
	return name;
}

static char *uid_of(struct world *w, const struct kind *k, const char *name)
{
	autoptr(object) o = get(w, k, name);

	return o ? xstrdup(o->uid) : NULL;
}

static void settle(struct world *w)
{
	for (int i = 0; i < 8; i++)
		step(w, 20);
}

static bool counted(struct world *w, const char *line)
{
	autobuf b = { 0 };

	control_metrics(w->control, &b);
	return strstr(buf_str(&b), line);
}

TEST(a_sandbox_of_a_claim_that_ended_comes_back_as_a_new_object)
{
	autofree char *name = NULL, *uid = NULL, *pod_uid = NULL, *pvc_uid = NULL, *service = NULL;
	autofree char *pvc = NULL, *pod_again = NULL, *pvc_again = NULL, *service_again = NULL;
	autoptr(object) sb = NULL;
	struct world w;

	open_lending(&w, NULL);
	name = take_one(&w, "c");
	pvc = xasprintf("v-%s", name);
	settle(&w);
	eq_int(count(&w, kind_named("Sandbox")), 2); /* the pool waits for it */
	uid = uid_of(&w, kind_named("Sandbox"), name);
	pod_uid = uid_of(&w, kind_named("Pod"), name);
	pvc_uid = uid_of(&w, kind_named("PersistentVolumeClaim"), pvc);
	service = uid_of(&w, kind_named("Service"), name);
	is_true(pod_uid && pvc_uid && service);
	delete_now(&w, kind_named("SandboxClaim"), "c");
	settle(&w);
	sb = get(&w, kind_named("Sandbox"), name);
	is_true(sb);
	is_false(object_deleting(sb));
	pod_again = uid_of(&w, kind_named("Pod"), name);
	pvc_again = uid_of(&w, kind_named("PersistentVolumeClaim"), pvc);
	service_again = uid_of(&w, kind_named("Service"), name);
	is_true(pod_again && pvc_again && service_again);
	is_false(str_eq(uid, sb->uid));
	is_false(str_eq(pod_uid, pod_again));
	is_false(str_eq(pvc_uid, pvc_again));
	is_false(str_eq(service, service_again));
	is_true(object_label(sb, KEY_POOL));
	is_false(object_label(sb, KEY_CLAIM_UID));
	is_false(object_annotation(sb, KEY_RESET_POOL));
	eq_str(object_annotation(sb, KEY_RESETS), "1");
	is_false(json_at_path(sb->root, "spec.podTemplate.metadata.labels.sandbox\\.users\\.io/x"));
	eq_int(count(&w, kind_named("Sandbox")), 2);
	eq_int(count_events(&w, "SandboxReturned"), 1);
	is_true(counted(&w, "cay_sandbox_resets_total{outcome=\"returned\"} 1"));
	world_done(&w);
}

TEST(a_pool_that_was_refilled_meanwhile_takes_nothing_back)
{
	autofree char *name = NULL;
	struct world w;

	open_lending(&w, NULL);
	patch(&w, kind_named("SandboxWarmPool"), "p", NULL,
	      "{'metadata':{'annotations':{'cay.dev/refill':null}}}");
	name = take_one(&w, "c");
	settle(&w);
	eq_int(count(&w, kind_named("Sandbox")), 3);
	delete_now(&w, kind_named("SandboxClaim"), "c");
	settle(&w);
	is_false(get(&w, kind_named("Sandbox"), name));
	eq_int(count(&w, kind_named("Pod")), 2);
	eq_int(count_events(&w, "SandboxNotReturned"), 1);
	is_true(counted(&w, "cay_sandbox_resets_total{outcome=\"deleted\"} 1"));
	world_done(&w);
}

TEST(a_claim_that_is_kept_keeps_the_name_of_its_sandbox)
{
	autofree char *name = NULL;
	struct world w;

	open_lending(&w, NULL);
	make_claim(&w, "c", "p", ",'lifecycle':{'shutdownPolicy':'Retain'}");
	turn(&w);
	name = bound_to(&w, "c");
	is_true(name);
	patch(&w, kind_named("SandboxClaim"), "c", NULL,
	      "{'spec':{'lifecycle':{'shutdownTime':'2001-01-01T00:00:00Z'}}}");
	settle(&w);
	eq_int(count(&w, kind_named("SandboxClaim")), 1);
	is_false(get(&w, kind_named("Sandbox"), name));
	eq_int(count(&w, kind_named("Sandbox")), 2); /* a new one has come */
	world_done(&w);
}

TEST(a_sandbox_that_waits_for_its_volume_is_no_member)
{
	autofree char *name = NULL, *pvc = NULL, *other = NULL;
	autoptr(object) sb = NULL;
	struct world w;

	open_lending(&w, NULL);
	name = take_one(&w, "c");
	pvc = xasprintf("v-%s", name);
	patch(&w, kind_named("PersistentVolumeClaim"), pvc, NULL,
	      "{'metadata':{'finalizers':['example.org/slow']}}");
	delete_now(&w, kind_named("SandboxClaim"), "c");
	settle(&w);
	sb = get(&w, kind_named("Sandbox"), name);
	is_true(sb && object_deleting(sb));
	eq_int(count(&w, kind_named("Pod")), 1);
	for (int i = 0; i < 2; i++) { /* one gets the other member, one starts cold */
		autofree char *claim = xasprintf("next-%d", i);

		make_claim(&w, claim, "p", "");
		turn(&w);
		step(&w, 3000);
		other = bound_to(&w, claim);
		is_false(str_eq(other, name));
		free(take(other));
	}
	world_stop(&w); /* a crash changes nothing about that */
	world_start(&w, NULL);
	settle(&w);
	object_unref(sb);
	sb = get(&w, kind_named("Sandbox"), name);
	is_true(sb && object_deleting(sb));
	patch(&w, kind_named("PersistentVolumeClaim"), pvc, NULL,
	      "{'metadata':{'finalizers':null}}");
	settle(&w);
	object_unref(sb);
	sb = get(&w, kind_named("Sandbox"), name);
	is_true(sb && !object_deleting(sb));
	is_true(object_label(sb, KEY_POOL));
	world_done(&w);
}

TEST(what_a_session_or_attachment_names_is_not_given_to_others)
{
	const struct {
		const struct kind *kind;
		const char *spec;
	} named[] = {
		{ kind_named("Session"), "'agent':'a','ended':true" },
		{ kind_named("Attachment"), "'session':'gone'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		static const struct control_options on = { .agents = true };
		autofree char *name = NULL, *text = NULL;
		struct world w;

		open_lending(&w, &on);
		create(&w, kind_named("Agent"), "{'metadata':{'name':'a'},'spec':{}}");
		name = take_one(&w, "c");
		text = xasprintf("{'metadata':{'name':'x'},'spec':{%s,'sandbox':'%s'}}",
				 named[i].spec, name);
		create(&w, named[i].kind, text);
		delete_now(&w, kind_named("SandboxClaim"), "c");
		settle(&w);
		is_false(get(&w, kind_named("Sandbox"), name));
		eq_int(count(&w, kind_named("Sandbox")), 2);
		world_done(&w);
	}
}

TEST(a_volume_that_is_not_its_own_is_not_left_for_the_next)
{
	autofree char *name = NULL, *pvc = NULL;
	struct world w;

	open_lending(&w, NULL);
	name = take_one(&w, "c");
	pvc = xasprintf("v-%s", name);
	patch(&w, kind_named("PersistentVolumeClaim"), pvc, NULL,
	      "{'metadata':{'finalizers':['example.org/slow']}}");
	delete_now(&w, kind_named("SandboxClaim"), "c");
	settle(&w);
	patch(&w, kind_named("PersistentVolumeClaim"), pvc, NULL,
	      "{'metadata':{'ownerReferences':null}}");
	patch(&w, kind_named("Sandbox"), name, NULL, "{'metadata':{'labels':{'x':'y'}}}");
	settle(&w);
	is_false(get(&w, kind_named("Sandbox"), name));
	eq_int(count(&w, kind_named("Sandbox")), 2);
	world_done(&w);
}

TEST(a_template_that_does_not_say_so_leaves_no_finalizer)
{
	autofree char *name = NULL;
	autoptr(object) sb = NULL;
	struct world w;

	open_with_pool(&w, "1");
	make_claim(&w, "c", "p", "");
	turn(&w);
	name = bound_to(&w, "c");
	sb = get(&w, kind_named("Sandbox"), name);
	is_false(json_at_path(sb->root, "metadata.finalizers"));
	is_false(object_annotation(sb, KEY_RESET_POOL));
	world_done(&w);
}
