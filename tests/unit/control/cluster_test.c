/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "kinds.h"
#include "loop/loop.h"
#include "server/server.h"
#include "world.h"

/* Garbage collection, the end of namespaces and the expiry of Events, on a real server. */

/* All that is to be done now is done, however many turns the machine's load makes of it. */
static void settle(struct world *w)
{
	for (int i = 0; i < 20; i++)
		turn(w);
}

#define CONFIG(name) "{'metadata':{'name':'" name "'},'data':{'a':'1'}}"

static const struct kind *config_map(void)
{
	return kind_named("ConfigMap");
}

static void make_owned(struct world *w, const char *name, const char *kind, const char *uid)
{
	autofree char *text = xasprintf(
		"{'metadata':{'name':'%s','ownerReferences':[{'apiVersion':'%s','kind':'%s',"
		"'name':'owner','uid':'%s'}]}}",
		name, str_eq(kind, "Toy") ? "toys.example.com/v1" : "v1", kind, uid);

	create(w, config_map(), text);
}

static char *uid_of(struct world *w, const char *name)
{
	autoptr(object) o = get(w, config_map(), name);

	return xstrdup(o->uid);
}

static bool there(struct world *w, const char *name)
{
	autoptr(object) o = get(w, config_map(), name);

	return o != NULL;
}

static void end_object(struct world *w, const char *name, const char *propagation)
{
	const struct client_delete_spec spec = { .propagation = propagation, .grace_s = -1 };

	client_delete(w->client, &(struct client_ref){ config_map(), NS, name }, &spec, NULL);
}

static void own(struct world *w, const char *name, const char *owner)
{
	autofree char *uid = uid_of(w, owner);
	autofree char *text = xasprintf(
		"{'metadata':{'ownerReferences':[{'apiVersion':'v1','kind':'ConfigMap','name':'%s',"
		"'uid':'%s','blockOwnerDeletion':true}]}}",
		owner, uid);

	patch(w, config_map(), name, NULL, text);
}

static void own_both(struct world *w, const char *name, const char *one, const char *two)
{
	autofree char *uid = uid_of(w, one), *uid_two = uid_of(w, two);
	autofree char *text = xasprintf(
		"{'metadata':{'ownerReferences':[{'apiVersion':'v1','kind':'ConfigMap','name':'%s',"
		"'uid':'%s','blockOwnerDeletion':true},{'apiVersion':'v1','kind':'ConfigMap',"
		"'name':'%s','uid':'%s'}]}}",
		one, uid, two, uid_two);

	patch(w, config_map(), name, NULL, text);
}

TEST(dependents_go_after_their_owner)
{
	autofree char *owner = NULL, *child = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("owner"));
	owner = uid_of(&w, "owner");
	make_owned(&w, "child", "ConfigMap", owner);
	child = uid_of(&w, "child");
	make_owned(&w, "grandchild", "ConfigMap", child);
	settle(&w);
	is_true(there(&w, "grandchild"));
	end_object(&w, "owner", NULL);
	settle(&w);
	is_false(there(&w, "child"));
	is_false(there(&w, "grandchild"));
	world_done(&w);
}

TEST(an_object_whose_owner_never_was_is_collected)
{
	struct world w;

	world_open(&w, NULL);
	make_owned(&w, "child", "ConfigMap", "11111111-1111-4111-8111-111111111111");
	settle(&w);
	is_false(there(&w, "child"));
	world_done(&w);
}

TEST(nothing_is_collected_where_the_cluster_does_that)
{
	struct world w;

	world_open(&w, NULL);
	world_stop(&w);
	w.theirs = server_client(w.server, "system:cay:controller");
	works(control_start(w.loop, w.theirs, NULL, &w.control));
	make_owned(&w, "child", "ConfigMap", "11111111-1111-4111-8111-111111111111");
	settle(&w);
	is_true(there(&w, "child"));
	world_done(&w);
}

TEST(what_was_left_over_is_collected_at_the_next_start)
{
	autofree char *owner = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("owner"));
	owner = uid_of(&w, "owner");
	make_owned(&w, "child", "ConfigMap", owner);
	settle(&w);
	world_stop(&w);
	end_object(&w, "owner", NULL);
	settle(&w);
	is_true(there(&w, "child"));
	world_start(&w, NULL);
	is_false(there(&w, "child"));
	world_done(&w);
}

TEST(an_owner_that_is_left_keeps_a_dependent_without_the_others)
{
	autofree char *text = NULL, *owner = NULL;
	autoptr(object) child = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("owner"));
	owner = uid_of(&w, "owner");
	text = xasprintf("{'metadata':{'name':'child','ownerReferences':["
			 "{'apiVersion':'v1','kind':'ConfigMap','name':'no','uid':'none'},"
			 "{'apiVersion':'v1','kind':'ConfigMap','name':'owner','uid':'%s'}]}}",
			 owner);
	create(&w, config_map(), text);
	settle(&w);
	child = get(&w, config_map(), "child");
	is_true(child != NULL);
	eq_int(json_len(json_at_path(child->root, "metadata.ownerReferences")), 1);
	eq_str(json_str(json_at_path(child->root, "metadata.ownerReferences.0.uid")), owner);
	world_done(&w);
}

TEST(orphaned_dependents_stay_without_the_reference)
{
	autofree char *owner = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("owner"));
	owner = uid_of(&w, "owner");
	for (int i = 0; i < 300; i++) { /* more than one pass releases */
		autofree char *name = xasprintf("child%d", i);

		make_owned(&w, name, "ConfigMap", owner);
	}
	end_object(&w, "owner", "Orphan");
	for (int i = 0; i < 100 && there(&w, "owner"); i++)
		settle(&w);
	is_false(there(&w, "owner"));
	for (int i = 0; i < 300; i++) {
		autofree char *name = xasprintf("child%d", i);
		autoptr(object) child = get(&w, config_map(), name);

		is_true(child != NULL);
		is_true(json_at_path(child->root, "metadata.ownerReferences") == NULL);
	}
	world_done(&w);
}

TEST(foreground_deletion_waits_for_dependents_that_block)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("owner"));
	create(&w, config_map(), CONFIG("child"));
	own(&w, "child", "owner");
	patch(&w, config_map(), "child", NULL, "{'metadata':{'finalizers':['x.io/hold']}}");
	end_object(&w, "owner", "Foreground");
	settle(&w);
	is_true(there(&w, "owner"));
	patch(&w, config_map(), "child", NULL, "{'metadata':{'finalizers':null}}");
	settle(&w);
	is_false(there(&w, "child"));
	is_false(there(&w, "owner"));
	world_done(&w);
}

/* The reference and the last finalizer go in one write: the last state names no owner. */
TEST(a_dependent_that_leaves_its_owner_as_it_goes_is_no_longer_waited_for)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("owner"));
	create(&w, config_map(), CONFIG("child"));
	own(&w, "child", "owner");
	patch(&w, config_map(), "child", NULL, "{'metadata':{'finalizers':['x.io/hold']}}");
	end_object(&w, "owner", "Foreground");
	settle(&w);
	patch(&w, config_map(), "child", NULL,
	      "{'metadata':{'finalizers':null,'ownerReferences':null}}");
	settle(&w);
	is_false(there(&w, "child"));
	is_false(there(&w, "owner"));
	world_done(&w);
}

TEST(foreground_deletion_does_not_wait_for_a_dependent_that_has_another_owner)
{
	struct world w;
	autoptr(object) child = NULL;
	autoptr(object) other = NULL;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("owner"));
	create(&w, config_map(), CONFIG("other"));
	create(&w, config_map(), CONFIG("child"));
	own_both(&w, "child", "owner", "other");
	end_object(&w, "owner", "Foreground");
	settle(&w);
	is_false(there(&w, "owner"));
	child = get(&w, config_map(), "child");
	other = get(&w, config_map(), "other");
	is_true(child && !object_deleting(child));
	eq_int(json_len(json_at_path(child->root, "metadata.ownerReferences")), 1);
	eq_str(json_str(json_at_path(child->root, "metadata.ownerReferences.0.uid")), other->uid);
	world_done(&w);
}

TEST(foreground_deletion_of_a_ring_of_owners_ends)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("a"));
	create(&w, config_map(), CONFIG("b"));
	create(&w, config_map(), CONFIG("c"));
	own(&w, "a", "b");
	own(&w, "b", "c");
	own(&w, "c", "a");
	end_object(&w, "a", "Foreground");
	settle(&w);
	is_false(there(&w, "a"));
	is_false(there(&w, "b"));
	is_false(there(&w, "c"));
	world_done(&w);
}

TEST(an_object_that_owns_itself_can_be_deleted)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, config_map(), CONFIG("a"));
	own(&w, "a", "a");
	settle(&w);
	is_true(there(&w, "a"));
	end_object(&w, "a", NULL);
	settle(&w);
	is_false(there(&w, "a"));
	world_done(&w);
}

/* Kinds that come and go */

static const struct kind *toy_add(void)
{
	const struct kind like = { .group = "toys.example.com",
				   .version = "v1",
				   .api_version = "toys.example.com/v1",
				   .kind = "Toy",
				   .list_kind = "ToyList",
				   .plural = "toys",
				   .singular = "toy",
				   .flags = KIND_NAMESPACED,
				   .type = kind_named("ConfigMap")->type };
	const struct kind *k = kind_new(&like);

	works(kinds_add(test_kinds(), k));
	return k;
}

static void toy_remove(const struct kind *k)
{
	works(kinds_remove(test_kinds(), k));
	kind_unref(k);
}

TEST(what_an_object_of_an_unknown_kind_owns_is_not_swept)
{
	const struct kind *toy;
	autofree char *uid = NULL;
	struct world w;

	world_open(&w, NULL);
	make_owned(&w, "lost", "Toy", "nobody");
	settle(&w);
	is_true(there(&w, "lost")); /* as long as nobody can know that its owner is not there */
	toy = toy_add();
	settle(&w);
	is_false(there(&w, "lost"));
	create(&w, toy, "{'metadata':{'name':'owner'}}");
	{
		autoptr(object) o = get(&w, toy, "owner");

		uid = xstrdup(o->uid);
	}
	make_owned(&w, "kept", "Toy", uid);
	settle(&w);
	toy_remove(toy);
	settle(&w);
	is_true(there(&w, "kept"));
	world_stop(&w);
	world_start(&w, NULL);
	is_true(there(&w, "kept"));
	toy = toy_add();
	settle(&w);
	is_true(there(&w, "kept"));
	delete_now(&w, toy, "owner");
	settle(&w);
	is_false(there(&w, "kept"));
	toy_remove(toy);
	world_done(&w);
}

/* Namespaces */

static struct object *namespace_named(struct world *w, const char *name)
{
	return client_get(w->client, kind_named("Namespace"), NULL, name);
}

static void make_namespace(struct world *w, const char *name)
{
	autofree char *text = xasprintf("{'metadata':{'name':'%s'}}", name);

	client_create(w->client, &(struct client_ref){ kind_named("Namespace") }, doc_of(text),
		      NULL);
	settle(w);
}

TEST(a_namespace_ends_after_everything_in_it)
{
	const struct client_ref in = { config_map(), "n" }, a = { config_map(), "n", "a" };
	const struct client_ref n = { kind_named("Namespace"), NULL, "n" };
	struct world w;

	world_open(&w, NULL);
	make_namespace(&w, "n");
	client_create(w.client, &in, doc_of("{'metadata':{'name':'a','finalizers':['x.io/hold']}}"),
		      NULL);
	client_create(w.client, &in, doc_of(CONFIG("b")), NULL);
	client_delete(w.client, &n, NULL, NULL);
	settle(&w);
	{
		autoptr(object) still = namespace_named(&w, "n");
		autoptr(object) b = client_get(w.client, config_map(), "n", "b");

		is_true(still && !b);
		client_create(w.client, &in, doc_of(CONFIG("c")), NULL);
	}
	{
		autoptr(object) c = client_get(w.client, config_map(), "n", "c");

		is_true(!c);
	}
	client_patch(w.client, &a, PATCH_MERGE, doc_of("{'metadata':{'finalizers':null}}"), NULL);
	settle(&w);
	{
		autoptr(object) gone = namespace_named(&w, "n");

		is_true(!gone);
	}
	world_done(&w);
}

TEST(a_finalizer_of_its_own_holds_an_empty_namespace)
{
	const struct client_ref n = { kind_named("Namespace"), NULL, "n" };
	struct world w;

	world_open(&w, NULL);
	make_namespace(&w, "n");
	client_patch(w.client, &n, PATCH_MERGE, doc_of("{'metadata':{'finalizers':['x.io/hold']}}"),
		     NULL);
	client_delete(w.client, &n, NULL, NULL);
	settle(&w);
	{
		autoptr(object) still = namespace_named(&w, "n");

		is_true(still != NULL);
		eq_int(json_len(json_get(object_spec(still), "finalizers")), 0);
	}
	client_patch(w.client, &n, PATCH_MERGE, doc_of("{'metadata':{'finalizers':null}}"), NULL);
	settle(&w);
	{
		autoptr(object) gone = namespace_named(&w, "n");

		is_true(!gone);
	}
	world_done(&w);
}

static const char *message(const struct object *ns, const char *type, bool is)
{
	const struct json *list = json_get(object_status(ns), "conditions");

	eq_int(conditions_true(list, type), is);
	return json_get_str(conditions_get(list, type), "message");
}

/* In the words that kube-controller-manager 1.36 uses for the same objects. */
TEST(a_namespace_that_cannot_end_says_why)
{
	const struct client_ref n = { kind_named("Namespace"), NULL, "n" };
	const struct client_ref in = { config_map(), "n" }, secret = { kind_named("Secret"), "n" };
	struct world w;
	uint64_t rev;

	world_open(&w, NULL);
	make_namespace(&w, "n");
	client_create(w.client, &in, doc_of("{'metadata':{'name':'a','finalizers':['x.io/a']}}"),
		      NULL);
	client_create(w.client, &in,
		      doc_of("{'metadata':{'name':'b','finalizers':['x.io/a','x.io/b']}}"), NULL);
	client_create(w.client, &secret,
		      doc_of("{'metadata':{'name':'s','finalizers':['x.io/a']}}"), NULL);
	client_delete(w.client, &n, NULL, NULL);
	settle(&w);
	{
		autoptr(object) ns = namespace_named(&w, "n");

		eq_int(json_len(json_get(object_status(ns), "conditions")), 5);
		eq_str(message(ns, "NamespaceDeletionDiscoveryFailure", false),
		       "All resources successfully discovered");
		eq_str(message(ns, "NamespaceDeletionGroupVersionParsingFailure", false),
		       "All legacy kube types successfully parsed");
		eq_str(message(ns, "NamespaceDeletionContentFailure", false),
		       "All content successfully deleted, may be waiting on finalization");
		eq_str(message(ns, "NamespaceContentRemaining", true),
		       "Some resources are remaining: configmaps. has 2 resource instances, "
		       "secrets. has 1 resource instances");
		eq_str(message(ns, "NamespaceFinalizersRemaining", true),
		       "Some content in the namespace has finalizers remaining: x.io/a in 3 "
		       "resource instances, x.io/b in 1 resource instances");
	}
	rev = world_rev(&w);
	step(&w, 5000);
	eq_int(world_rev(&w), rev); /* what has not changed is not written */
	client_patch(w.client, &(struct client_ref){ config_map(), "n", "b" }, PATCH_MERGE,
		     doc_of("{'metadata':{'finalizers':null}}"), NULL);
	settle(&w);
	{
		autoptr(object) ns = namespace_named(&w, "n");

		eq_str(message(ns, "NamespaceFinalizersRemaining", true),
		       "Some content in the namespace has finalizers remaining: x.io/a in 2 "
		       "resource instances");
	}
	world_done(&w);
}

/* Claims that are in use */

#define CLAIM                                                                               \
	"{'metadata':{'name':'data'},'spec':{'accessModes':['ReadWriteOnce'],'resources':{" \
	"'requests':{'storage':'1Gi'}}}}"
#define USER(name)                                                                         \
	"{'metadata':{'name':'" name "'},'spec':{'containers':[{'name':'c','image':'i'}]," \
	"'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'data'}}]}}"

static bool claim_there(struct world *w)
{
	autoptr(object) pvc = get(w, kind_named("PersistentVolumeClaim"), "data");

	return pvc;
}

TEST(a_claim_outlives_the_pods_that_use_it)
{
	const struct kind *pvc = kind_named("PersistentVolumeClaim"), *pod = kind_named("Pod");
	struct world w;

	world_open(&w, NULL);
	create(&w, pvc, CLAIM);
	delete_now(&w, pvc, "data");
	settle(&w);
	is_true(!claim_there(&w)); /* nobody uses it */

	create(&w, pod, USER("a"));
	create(&w, pod, USER("b"));
	create(&w, pvc, CLAIM);
	delete_now(&w, pvc, "data");
	settle(&w);
	is_true(claim_there(&w));
	delete_now(&w, pod, "a");
	settle(&w);
	is_true(claim_there(&w));
	world_stop(&w); /* what was counted is counted again */
	world_start(&w, NULL);
	settle(&w);
	is_true(claim_there(&w));
	patch(&w, pod, "b", "status",
	      "{'status':{'phase':'Succeeded'}}"); /* there, but at its end */
	settle(&w);
	is_true(!claim_there(&w));
	world_done(&w);
}

TEST(a_large_namespace_is_emptied_in_several_passes)
{
	const struct client_ref n = { kind_named("Namespace"), NULL, "n" };
	struct world w;

	world_open(&w, NULL);
	make_namespace(&w, "n");
	for (int i = 0; i < 600; i++) {
		autofree char *text = xasprintf("{'metadata':{'name':'c%d'}}", i);

		client_create(w.client, &(struct client_ref){ config_map(), "n" }, doc_of(text),
			      NULL);
	}
	client_delete(w.client, &n, NULL, NULL);
	for (int i = 0; i < 100; i++) {
		autoptr(object) still = namespace_named(&w, "n");

		if (!still)
			break;
		settle(&w);
	}
	{
		autoptr(object) gone = namespace_named(&w, "n");
		autoptr(object) last = client_get(w.client, config_map(), "n", "c599");

		is_true(!gone && !last);
	}
	world_done(&w);
}

TEST(every_namespace_has_its_service_account)
{
	const struct kind *account = kind_named("ServiceAccount");
	struct world w;

	world_open(&w, NULL);
	make_namespace(&w, "n");
	for (int i = 0; i < 2; i++) {
		autoptr(object) o = client_get(w.client, account, "n", "default");

		is_true(o != NULL);
		client_delete(w.client, &(struct client_ref){ account, "n", "default" }, NULL,
			      NULL);
		settle(&w);
	}
	world_done(&w);
}

static void put_ca(struct world *w, const char *patch)
{
	const struct client_ref ref = { config_map(), "n", "kube-root-ca.crt" };

	client_patch(w->client, &ref, PATCH_MERGE, doc_of(patch), NULL);
	settle(w);
}

static void has_ca(struct world *w, const char *text)
{
	autoptr(object) o = client_get(w->client, config_map(), "n", "kube-root-ca.crt");

	eq_str(o ? json_get_str(json_get(o->root, "data"), "ca.crt") : NULL, text);
	eq_int(o ? json_len(json_get(o->root, "data")) : 1, 1);
	is_true(!o || !json_get(o->root, "binaryData"));
}

TEST(every_namespace_has_the_ca_of_the_server_and_keeps_it)
{
	struct world w;

	world_open(&w, &(struct control_options){ .root_ca = "one" });
	make_namespace(&w, "n");
	has_ca(&w, "one");
	client_delete(w.client, &(struct client_ref){ config_map(), "n", "kube-root-ca.crt" }, NULL,
		      NULL);
	settle(&w);
	has_ca(&w, "one");
	put_ca(&w, "{'data':{'ca.crt':'other','more':'1'}}");
	has_ca(&w, "one");
	put_ca(&w, "{'binaryData':{'b':'aGk='}}");
	has_ca(&w, "one");
	world_stop(&w);
	world_start(&w, &(struct control_options){ .root_ca = "two" }); /* keys were made anew */
	settle(&w);
	has_ca(&w, "two");
	put_ca(&w, "{'data':{'ca.crt':'other'},'immutable':true}");
	has_ca(&w, "two");
	world_done(&w);
}

/* Events */

static void make_event(struct world *w, const char *name)
{
	autofree char *text = xasprintf(
		"{'metadata':{'name':'%s'},'involvedObject':{'namespace':'" NS "'}}", name);

	create(w, kind_named("Event"), text);
}

static bool event_there(struct world *w, const char *name)
{
	autoptr(object) o = get(w, kind_named("Event"), name);

	return o != NULL;
}

enum {
	EVENTS_MAX = 5000, /* KEEP_MAX of event_expiry.c */
};

static void make_events(struct world *w, int from, int n)
{
	for (int i = from; i < from + n; i++) {
		autofree char *name = xasprintf("e%d", i);

		make_event(w, name);
	}
}

static void settle_events(struct world *w, size_t n)
{
	for (usec end = clock_mono() + 20000000;
	     count(w, kind_named("Event")) != n && clock_mono() < end;)
		settle(w);
	eq_int(count(w, kind_named("Event")), n);
}

TEST(the_oldest_events_go_when_there_are_too_many)
{
	struct world w;

	world_open(&w, NULL);
	make_events(&w, 0, EVENTS_MAX + 50);
	settle_events(&w, EVENTS_MAX);
	is_false(event_there(&w, "e49"));
	is_true(event_there(&w, "e50"));
	world_done(&w);
}

/* More than one pass deletes, and nothing new that would ask for another. */
TEST(events_that_piled_up_before_a_start_are_trimmed_too)
{
	struct world w;

	world_open(&w, NULL);
	world_stop(&w);
	make_events(&w, 0, EVENTS_MAX + 700);
	world_start(&w, NULL);
	settle_events(&w, EVENTS_MAX);
	world_done(&w);
}

TEST(the_number_of_events_stays_flat_while_they_come)
{
	size_t most = 0;
	struct world w;

	world_open(&w, NULL);
	for (int i = 0; i < 2 * EVENTS_MAX; i += 100) {
		make_events(&w, i, 100);
		settle(&w);
		most = MAX(most, count(&w, kind_named("Event")));
	}
	is_true(most <= EVENTS_MAX + 100);
	world_done(&w);
}

TEST(an_event_ends_an_hour_after_its_last_change)
{
	struct world w;

	world_open(&w, NULL);
	make_event(&w, "a");
	make_event(&w, "b");
	settle(&w);
	step(&w, 1800 * 1000);
	patch(&w, kind_named("Event"), "b", NULL, "{'count':2}");
	step(&w, 1801 * 1000);
	is_false(event_there(&w, "a"));
	is_true(event_there(&w, "b"));
	step(&w, 1801 * 1000);
	is_false(event_there(&w, "b"));
	world_done(&w);
}

TEST(an_old_event_is_known_by_its_own_time_after_a_start)
{
	struct world w;

	world_open(&w, NULL);
	world_stop(&w);
	create(&w, kind_named("Event"),
	       "{'metadata':{'name':'old'},'involvedObject':{'namespace':'" NS "'},"
	       "'lastTimestamp':'2001-01-01T00:00:00Z'}");
	make_event(&w, "new");
	world_start(&w, NULL);
	is_false(event_there(&w, "old"));
	is_true(event_there(&w, "new"));
	world_done(&w);
}
