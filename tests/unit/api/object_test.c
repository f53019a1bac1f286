/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"

#include "api_test.h"
#include "base/bytes.h"
#include "kinds.h"

static struct object *sample(void)
{
	return object_new(
		kind_named("Pod"),
		doc("{'kind':'Pod','metadata':{'name':'p','namespace':'n','uid':'u',"
		    "'resourceVersion':'7','generation':3,'labels':{'a/b':'c'},'annotations':{'x':'y'},"
		    "'ownerReferences':[{'uid':'1'},{'uid':'2','controller':true}]},'spec':{'a':1}}"));
}

TEST(object_finds_what_everybody_asks_for)
{
	autoptr(object) o = sample();

	eq_str(o->name, "p");
	eq_str(o->ns, "n");
	eq_str(o->uid, "u");
	eq_int(o->rev, 7);
	eq_int(object_generation(o), 3);
	eq_str(object_label(o, "a/b"), "c");
	eq_str(object_label(o, "b"), NULL);
	eq_str(object_annotation(o, "x"), "y");
	is_false(object_deleting(o));
	eq_json(object_spec(o), "{'a':1}");
	is_true(object_status(o) == NULL);
	is_true(object_controlled_by(o, "2"));
	is_false(object_controlled_by(o, "1"));
	is_false(object_controlled_by(o, NULL));
}

TEST(object_edit_leaves_the_object_alone)
{
	autoptr(object) o = sample();
	autoptr(json_doc) d = object_edit(o);
	struct bytes *text = object_text(o);

	json_set_str(d, json_root(d), "kind", "Other");
	eq_str(json_get_str(o->root, "kind"), "Pod");
	is_true(object_text(o) == text);
}

TEST(object_without_metadata_has_empty_names)
{
	autoptr(object) o = object_new(kind_named("Pod"), doc("{}"));

	eq_str(o->name, "");
	eq_str(o->ns, "");
	eq_int(o->rev, 0);
	is_true(object_controller(o) == NULL);
}

TEST(api_version_has_a_group)
{
	char group[32];

	api_version_group("v1", group, sizeof(group));
	eq_str(group, "");
	api_version_group("agents.x-k8s.io/v1beta1", group, sizeof(group));
	eq_str(group, "agents.x-k8s.io");
	api_version_group(NULL, group, sizeof(group));
	eq_str(group, "");
}

TEST(kinds_are_found_by_plural_and_by_name)
{
	is_true(kinds_find(test_kinds(), "", "v1", "pods") == kind_named("Pod"));
	is_true(kinds_find(test_kinds(), "agents.x-k8s.io", "v1alpha1", "sandboxes") ==
		kind_named("agents.x-k8s.io/v1alpha1 Sandbox"));
	is_true(kinds_by_name(test_kinds(), "events.k8s.io", "v1", "Event") ==
		kind_named("events.k8s.io/v1 Event"));
	is_true(kinds_find(test_kinds(), "", "v2", "pods") == NULL);
	is_true(kind_storage(kind_named("agents.x-k8s.io/v1alpha1 Sandbox")) ==
		kind_named("Sandbox"));
	is_true(kind_storage(kind_named("Sandbox")) == kind_named("Sandbox"));
	eq_str(kind_api_version(kind_named("Pod")), "v1");
	eq_str(kind_api_version(kind_named("Lease")), "coordination.k8s.io/v1");
}
