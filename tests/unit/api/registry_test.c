/* SPDX-License-Identifier: Apache-2.0 */
#include "api/registry.h"

#include "api/object.h"
#include "api_test.h"
#include "json/json.h"

/* Kinds that come and go, in registries of their own. */

static void count(void *arg)
{
	(*(int *)arg)++;
}

static struct kind *toy(const struct kinds *ks, int *released)
{
	const struct kind like = { .group = "toys.example.com",
				   .version = "v1",
				   .api_version = "toys.example.com/v1",
				   .kind = "Toy",
				   .list_kind = "ToyList",
				   .plural = "toys",
				   .singular = "toy",
				   .type = kinds_need(ks, "v1", "ConfigMap")->type,
				   .release = count,
				   .arg = released };

	return kind_new(&like);
}

TEST(every_built_in_kind_is_found_by_path_name_and_key)
{
	autoptr(kinds) ks = kinds_new();
	size_t n;
	const struct kind *const *all = kinds_all(ks, &n);

	is_true(n > 0);
	for (size_t i = 0; i < n; i++) {
		const struct kind *k = all[i], *stored = kind_storage(k);
		autofree char *key = *stored->group
					     ? xasprintf("%s.%s", stored->plural, stored->group)
					     : xstrdup(stored->plural);

		is_true(kinds_find(ks, k->group, k->version, k->plural) == k);
		is_true(kinds_by_name(ks, k->group, k->version, k->kind) == k);
		is_true(kinds_need(ks, k->api_version, k->kind) == k);
		is_true(kinds_stored(ks, key) == stored);
	}
	is_true(kinds_find(ks, "", "v2", "pods") == NULL);
	is_true(kinds_stored(ks, "sandboxes") == NULL);
}

TEST(a_kind_comes_and_goes_and_the_version_tells)
{
	autoptr(kinds) ks = kinds_new();
	int released = 0;
	struct kind *k = toy(ks, &released), *twin = toy(ks, &released);
	uint64_t before = kinds_version(ks), with;

	works(kinds_add(ks, k));
	with = kinds_version(ks);
	is_true(with != before);
	fails(kinds_add(ks, twin), ERR_EXISTS);
	fails(kinds_remove(ks, twin), ERR_NOT_FOUND);
	is_true(kinds_version(ks) == with);
	is_true(kinds_find(ks, "toys.example.com", "v1", "toys") == k);
	works(kinds_remove(ks, k));
	is_true(kinds_version(ks) != with && kinds_version(ks) != before);
	is_true(kinds_find(ks, "toys.example.com", "v1", "toys") == NULL);
	fails(kinds_remove(ks, k), ERR_NOT_FOUND);
	kind_unref(k);
	kind_unref(twin);
	eq_int(released, 2);
}

TEST(built_in_kinds_stay)
{
	autoptr(kinds) ks = kinds_new();

	fails(kinds_remove(ks, kinds_need(ks, "v1", "Pod")), ERR_FORBIDDEN);
}

TEST(a_kind_that_others_are_stored_as_goes_last)
{
	autoptr(kinds) ks = kinds_new();
	int released = 0;
	struct kind *stored = toy(ks, &released), like = *stored, *old;

	like.version = "v1alpha1";
	like.api_version = "toys.example.com/v1alpha1";
	like.storage = stored;
	old = kind_new(&like);
	fails(kinds_add(ks, old), ERR_INVALID);
	works(kinds_add(ks, stored));
	works(kinds_add(ks, old));
	fails(kinds_remove(ks, stored), ERR_CONFLICT);
	works(kinds_remove(ks, old));
	works(kinds_remove(ks, stored));
	kind_unref(stored);
	eq_int(released, 0); /* the old version still needs it */
	kind_unref(old);
	eq_int(released, 2);
}

TEST(objects_keep_their_kind_alive)
{
	struct kinds *ks = kinds_new();
	int released = 0;
	struct kind *k = toy(ks, &released);
	struct object *o = object_new(k, doc("{'metadata':{'name':'a'}}"));

	works(kinds_add(ks, k));
	kind_unref(k);
	kinds_free(ks);
	eq_int(released, 0);
	eq_str(o->kind->plural, "toys");
	object_unref(o);
	eq_int(released, 1);
}

TEST(selectable_fields_are_those_of_the_version)
{
	autoptr(kinds) ks = kinds_new();
	const struct kind *pod = kinds_need(ks, "v1", "Pod");
	const struct kind *event = kinds_need(ks, "events.k8s.io/v1", "Event");

	eq_str(kind_selectable(pod, "status.phase"), "status.phase");
	eq_str(kind_selectable(pod, "metadata.name"), "metadata.name");
	is_true(!kind_selectable(pod, "spec.containers"));
	eq_str(kind_selectable(event, "regarding.name"), "involvedObject.name");
	is_true(!kind_selectable(event, "involvedObject.name"));
}
