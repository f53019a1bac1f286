/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/rollout_priv.h"
#include "kinds.h"
#include "world.h"

/* Deployments and ReplicaSets: the steps of a rollout as a table, and both kinds on a real server.
 */

#define SETS(...) { __VA_ARGS__ }

TEST(a_rollout_keeps_its_bounds_at_every_step)
{
	static const struct {
		struct rollout_seen seen; /* without the sets */
		struct rollout_set sets[3];
		int64_t want[3];
	} rows[] = {
		/* The first one, up and down. */
		{ { .replicas = 3, .surge = 1, .n = 1 }, SETS({ 0, 0, 0 }), { 3 } },
		{ { .replicas = 1, .surge = 1, .n = 1 }, SETS({ 3, 3, 3 }), { 1 } },
		/* One more than wanted, and none of the old may go before it is available. */
		{ { .replicas = 3, .surge = 1, .n = 2, .newest = 1 },
		  SETS({ 3, 3, 3 }, { 0, 0, 0 }),
		  { 3, 1 } },
		{ { .replicas = 3, .surge = 1, .n = 2, .newest = 1 },
		  SETS({ 3, 3, 3 }, { 1, 1, 0 }),
		  { 3, 1 } },
		{ { .replicas = 3, .surge = 1, .n = 2, .newest = 1 },
		  SETS({ 3, 3, 3 }, { 1, 1, 1 }),
		  { 2, 1 } },
		{ { .replicas = 3, .surge = 1, .n = 2, .newest = 1 },
		  SETS({ 2, 2, 2 }, { 1, 1, 1 }),
		  { 2, 2 } },
		/* One may be missing, and none may be too many. */
		{ { .replicas = 3, .missing = 1, .n = 2, .newest = 1 },
		  SETS({ 3, 3, 3 }, { 0, 0, 0 }),
		  { 2, 0 } },
		{ { .replicas = 3, .missing = 1, .n = 2, .newest = 1 },
		  SETS({ 2, 2, 2 }, { 0, 0, 0 }),
		  { 2, 1 } },
		/* Those that nobody misses go first, from the oldest on. */
		{ { .replicas = 3, .surge = 1, .n = 3, .newest = 2 },
		  SETS({ 3, 3, 3 }, { 1, 1, 0 }, { 0, 0, 0 }),
		  { 3, 0, 0 } },
		{ { .replicas = 3, .surge = 1, .n = 3, .newest = 2 },
		  SETS({ 3, 3, 3 }, { 0, 0, 0 }, { 0, 0, 0 }),
		  { 3, 0, 1 } },
		/* A template that was used before. */
		{ { .replicas = 2, .surge = 1, .n = 2, .newest = 0 },
		  SETS({ 0, 0, 0 }, { 2, 2, 2 }),
		  { 1, 2 } },
		/* All of the old ones end, and only then does the new one start. */
		{ { .replicas = 2, .recreate = true, .n = 2, .newest = 1 },
		  SETS({ 2, 2, 2 }, { 0, 0, 0 }),
		  { 0, 0 } },
		{ { .replicas = 2, .recreate = true, .n = 2, .newest = 1 },
		  SETS({ 0, 1, 0 }, { 0, 0, 0 }),
		  { 0, 0 } },
		{ { .replicas = 2, .recreate = true, .n = 2, .newest = 1 },
		  SETS({ 0, 0, 0 }, { 0, 0, 0 }),
		  { 0, 2 } },
		/* Paused: a new number counts, a new template does not. */
		{ { .replicas = 5, .surge = 1, .paused = true, .n = 2, .newest = 1 },
		  SETS({ 3, 3, 3 }, { 0, 0, 0 }),
		  { 5, 0 } },
		{ { .replicas = 5, .surge = 1, .paused = true, .n = 2, .newest = 1 },
		  SETS({ 2, 2, 2 }, { 1, 1, 1 }),
		  { 2, 1 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rollout_seen seen = rows[i].seen;
		int64_t want[3] = { 0 };

		seen.sets = rows[i].sets;
		rollout_decide(&seen, want);
		for (size_t k = 0; k < seen.n; k++)
			if (want[k] != rows[i].want[k])
				fail_msg("row %zu, set %zu: %lld, not %lld", i, k,
					 (long long)want[k], (long long)rows[i].want[k]);
	}
}

#define DEPLOYMENT(n)                                                                          \
	"{'metadata':{'name':'web'},'spec':{'replicas':" n                                     \
	",'selector':{'matchLabels':{'a':'b'}},"                                               \
	"'template':{'metadata':{'labels':{'a':'b'}},'spec':{'nodeName':'node','containers':[" \
	"{'name':'c','image':'one'}]}}}}"

static void settle(struct world *w)
{
	for (int i = 0; i < 6; i++) {
		step(w, 20);
		turn(w);
	}
}

static void run_all(struct world *w)
{
	settle(w);
	all_pods_run(w);
	settle(w);
}

struct tally {
	const char *image;
	struct buf names;
	size_t n, deleting;
};

static bool add_pod(void *arg, struct object *o)
{
	struct tally *t = arg;
	const char *image = json_str(json_at_path(o->root, "spec.containers.0.image"));

	if (object_deleting(o)) {
		t->deleting++;
		return true;
	}
	if (!t->image || str_eq(image, t->image)) {
		buf_printf(&t->names, "%s ", o->name);
		t->n++;
	}
	return true;
}

static size_t pods_of(struct world *w, const char *image)
{
	struct tally t = { .image = image };

	client_each(w->client, kind_named("Pod"), NS, add_pod, &t);
	buf_done(&t.names);
	return t.n;
}

/* Pods that were told to end have ended, as on a node. */
static bool end_one(void *arg, struct object *o)
{
	if (!object_deleting(o))
		return true;
	buf_add_str(arg, o->name);
	return false;
}

static void pods_end(struct world *w)
{
	for (;;) {
		autobuf name = { 0 };

		client_each(w->client, kind_named("Pod"), NS, end_one, &name);
		if (!name.len)
			return;
		delete_now(w, kind_named("Pod"), buf_str(&name));
		settle(w);
	}
}

static int64_t status_of(struct world *w, const char *path)
{
	autoptr(object) o = get(w, kind_named("Deployment"), "web");

	return json_int(json_at_path(object_status(o), path), 0);
}

static const char *progress(struct world *w)
{
	return condition_of(w, kind_named("Deployment"), "web", "Progressing");
}

TEST(a_deployment_keeps_its_pods_running)
{
	autoptr(object) dep = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Deployment"), DEPLOYMENT("3"));
	settle(&w);
	eq_int(pods_of(&w, "one"), 3);
	eq_int(status_of(&w, "readyReplicas"), 0);
	eq_int(status_of(&w, "unavailableReplicas"), 3);
	is_true(str_starts(progress(&w), "True/ReplicaSetUpdated/"));
	run_all(&w);
	eq_int(status_of(&w, "readyReplicas"), 3);
	eq_int(status_of(&w, "availableReplicas"), 3);
	eq_int(status_of(&w, "unavailableReplicas"), 0);
	is_true(str_starts(progress(&w), "True/NewReplicaSetAvailable/"));
	dep = get(&w, kind_named("Deployment"), "web");
	eq_str(object_annotation(dep, "deployment.kubernetes.io/revision"), "1");
	patch(&w, kind_named("Deployment"), "web", NULL, "{'spec':{'replicas':1}}");
	settle(&w);
	eq_int(pods_of(&w, NULL), 1);
	world_done(&w);
}

TEST(a_pod_that_is_lost_is_replaced)
{
	struct tally t = { 0 };
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Deployment"), DEPLOYMENT("1"));
	run_all(&w);
	client_each(w.client, kind_named("Pod"), NS, add_pod, &t);
	t.names.len--; /* the space */
	delete_now(&w, kind_named("Pod"), buf_str(&t.names));
	settle(&w);
	eq_int(pods_of(&w, NULL), 1);
	buf_done(&t.names);
	world_done(&w);
}

TEST(a_new_template_replaces_pods_without_a_gap)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Deployment"), DEPLOYMENT("4"));
	run_all(&w);
	patch(&w, kind_named("Deployment"), "web", NULL,
	      "{'spec':{'template':{'spec':{'containers':[{'name':'c','image':'two'}]}}}}");
	settle(&w);
	eq_int(pods_of(&w, "two"), 2); /* one more than four, in place of one that may be missing */
	eq_int(pods_of(&w, "one"), 3);
	for (int i = 0; i < 4; i++) {
		pods_end(&w);
		run_all(&w);
	}
	pods_end(&w);
	settle(&w);
	eq_int(pods_of(&w, "one"), 0);
	eq_int(pods_of(&w, "two"), 4);
	eq_int(count(&w, kind_named("ReplicaSet")), 2);
	eq_int(status_of(&w, "updatedReplicas"), 4);
	is_true(str_starts(progress(&w), "True/NewReplicaSetAvailable/"));
	world_done(&w);
}

TEST(a_template_that_was_used_before_gets_its_set_back)
{
	autoptr(object) dep = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Deployment"), DEPLOYMENT("1"));
	run_all(&w);
	for (int i = 0; i < 2; i++) {
		patch(&w, kind_named("Deployment"), "web", NULL,
		      i ? "{'spec':{'template':{'spec':{'containers':[{'name':'c','image':'one'}]}}}}"
			: "{'spec':{'template':{'spec':{'containers':[{'name':'c','image':'two'}]}}}}");
		run_all(&w);
		pods_end(&w);
		run_all(&w);
	}
	eq_int(count(&w, kind_named("ReplicaSet")), 2);
	eq_int(pods_of(&w, "one"), 1);
	eq_int(pods_of(&w, "two"), 0);
	dep = get(&w, kind_named("Deployment"), "web");
	eq_str(object_annotation(dep, "deployment.kubernetes.io/revision"), "3");
	world_done(&w);
}

TEST(sets_without_pods_are_kept_up_to_the_limit)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Deployment"), DEPLOYMENT("0"));
	patch(&w, kind_named("Deployment"), "web", NULL, "{'spec':{'revisionHistoryLimit':1}}");
	for (int i = 0; i < 4; i++) {
		autofree char *text = xasprintf(
			"{'spec':{'template':{'metadata':{'annotations':{'n':'%d'}}}}}", i);

		settle(&w);
		patch(&w, kind_named("Deployment"), "web", NULL, text);
	}
	settle(&w);
	eq_int(count(&w, kind_named("ReplicaSet")), 2);
	world_done(&w);
}

TEST(a_rollout_without_progress_is_late)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Deployment"), DEPLOYMENT("1"));
	settle(&w);
	step(&w, 601 * 1000);
	settle(&w);
	is_true(str_starts(progress(&w), "False/ProgressDeadlineExceeded/"));
	run_all(&w);
	is_true(str_starts(progress(&w), "True/NewReplicaSetAvailable/"));
	world_done(&w);
}

TEST(a_pass_over_a_settled_deployment_writes_nothing)
{
	uint64_t rev;
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Deployment"), DEPLOYMENT("2"));
	run_all(&w);
	rev = world_rev(&w);
	world_stop(&w);
	world_start(&w, NULL); /* every key runs again */
	settle(&w);
	eq_int(world_rev(&w), rev);
	world_done(&w);
}

TEST(a_deployment_that_is_deleted_takes_its_pods_along)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Deployment"), DEPLOYMENT("2"));
	run_all(&w);
	delete_now(&w, kind_named("Deployment"), "web");
	settle(&w);
	pods_end(&w);
	settle(&w);
	eq_int(count(&w, kind_named("ReplicaSet")), 0);
	eq_int(count(&w, kind_named("Pod")), 0);
	world_done(&w);
}

/* A set by hand, with the name that the Deployment's own would have. */
static void create_set(struct world *w, const char *labels, const char *image)
{
	autoptr(object) dep = NULL;
	autofree char *text = NULL;
	char hash[9];

	create(w, kind_named("Deployment"), DEPLOYMENT("2"));
	dep = get(w, kind_named("Deployment"), "web");
	name_hash_json(json_get(object_spec(dep), "template"), hash);
	delete_now(w, kind_named("Deployment"), "web");
	settle(w);
	pods_end(w);
	text = xasprintf("{'metadata':{'name':'web-%s','labels':{%s}},'spec':{'replicas':1,"
			 "'selector':{'matchLabels':{'a':'b'}},'template':{'metadata':{'labels':{"
			 "'a':'b'}},'spec':{'nodeName':'node','containers':[{'name':'c',"
			 "'image':'%s'}]}}}}",
			 hash, labels, image);
	create(w, kind_named("ReplicaSet"), text);
	run_all(w);
	create(w, kind_named("Deployment"), DEPLOYMENT("2"));
	for (int i = 0; i < 4; i++) {
		run_all(w);
		pods_end(w);
	}
	run_all(w);
}

TEST(a_set_of_the_same_template_that_nobody_controls_is_adopted)
{
	autoptr(object) dep = NULL;
	struct world w;

	world_open(&w, NULL);
	create_set(&w, "'a':'b'", "one");
	eq_int(count(&w, kind_named("ReplicaSet")), 1);
	eq_int(pods_of(&w, NULL), 2);
	eq_int(status_of(&w, "collisionCount"), 0);
	eq_int(status_of(&w, "availableReplicas"), 2);
	dep = get(&w, kind_named("Deployment"), "web");
	eq_str(object_annotation(dep, "deployment.kubernetes.io/revision"), "1");
	world_done(&w);
}

TEST(a_set_of_another_template_is_replaced_whatever_its_name_is)
{
	struct world w;

	world_open(&w, NULL);
	create_set(&w, "'a':'b'", "other");
	eq_int(count(&w, kind_named("ReplicaSet")), 2);
	eq_int(pods_of(&w, "one"), 2);
	eq_int(pods_of(&w, "other"), 0);
	eq_int(status_of(&w, "collisionCount"), 1);
	is_true(str_starts(progress(&w), "True/NewReplicaSetAvailable/"));
	world_done(&w);
}

TEST(a_set_that_a_deployment_does_not_select_stays_alone)
{
	struct world w;

	world_open(&w, NULL);
	create_set(&w, "'a':'z'", "one");
	eq_int(count(&w, kind_named("ReplicaSet")), 2);
	eq_int(pods_of(&w, "one"), 3);
	eq_int(status_of(&w, "replicas"), 2);
	eq_int(status_of(&w, "collisionCount"), 1);
	world_done(&w);
}

TEST(a_pass_over_a_deployment_with_a_collision_writes_nothing)
{
	uint64_t rev;
	struct world w;

	world_open(&w, NULL);
	create_set(&w, "'a':'b'", "other");
	rev = world_rev(&w);
	world_stop(&w);
	world_start(&w, NULL);
	settle(&w);
	eq_int(world_rev(&w), rev);
	world_done(&w);
}
