/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/apps.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/cluster/rollout_priv.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "json/json.h"

/*
 * Deployments: a ReplicaSet for each template that a Deployment has had, and how many Pods each of
 * them should have (rollout.c). A key is a Deployment; the changes of its sets wake it. A set is
 * found by its template, so one that was used before is used again, with a new revision. Before it
 * makes a set, a Deployment takes over those that it selects and that nobody controls: what another
 * of its name left behind.
 */
enum deployment_write {
	DEPLOYMENT_WRITE_SET, /* a new one, or one that nobody controls */
	DEPLOYMENT_WRITE_SCALE,
	DEPLOYMENT_WRITE_PRUNE,
	DEPLOYMENT_WRITE_STATUS,
	DEPLOYMENT_WRITE_MAX_,
};
_Static_assert(DEPLOYMENT_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

static uint64_t revision_of(const struct object *o)
{
	uint64_t n = 0;

	err_free(parse_uint(str_or(object_annotation(o, ANNOTATION_REVISION), "0"), INT64_MAX, &n));
	return n;
}

static int by_revision(const void *a, const void *b)
{
	const struct object *x = *(struct object *const *)a, *y = *(struct object *const *)b;
	uint64_t rx = revision_of(x), ry = revision_of(y);

	return rx != ry ? (rx < ry ? -1 : 1) : strcmp(x->name, y->name);
}

static bool has_template(const struct object *set, const struct json *template)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *own = json_copy(d, json_get(object_spec(set), "template"));

	json_set_root(d, own);
	(void)json_del(json_at_path(own, "metadata.labels"), LABEL_TEMPLATE_HASH);
	return json_equal(own, template);
}

/* The index of the set of the Deployment's template, or n. */
static size_t find_newest(const struct object *dep, const struct dependents *sets)
{
	const struct json *template = json_get(object_spec(dep), "template");

	for (size_t i = 0; i < sets->n; i++)
		if (!object_deleting(sets->list[i]) && has_template(sets->list[i], template))
			return i;
	return sets->n;
}

/* The newest set, when there is none yet */

enum {
	ADOPTED_MAX = 32, /* in one pass; the next takes the others */
};

static struct json_doc *set_build(const struct object *dep, const char *name, const char *hash,
				  uint64_t revision)
{
	const struct json *spec = object_spec(dep);
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, API_APPS, "ReplicaSet");
	struct json *meta = draft_meta(d, root, name, dep), *own, *labels;

	labels = json_set(d, meta, "labels",
			  json_copy(d, json_at_path(spec, "template.metadata.labels")));
	json_set_str(d, labels, LABEL_TEMPLATE_HASH, hash);
	json_set(d, json_need_obj(d, meta, "annotations"), ANNOTATION_REVISION,
		 json_new_strf(d, "%llu", (unsigned long long)revision));
	own = json_need_obj(d, root, "spec");
	json_set_int(d, own, "replicas", 0);
	json_set(d, own, "minReadySeconds", json_copy(d, json_get(spec, "minReadySeconds")));
	json_set(d, own, "selector", json_copy(d, json_get(spec, "selector")));
	json_set_str(d, json_need_obj(d, json_get(own, "selector"), "matchLabels"),
		     LABEL_TEMPLATE_HASH, hash);
	json_set(d, own, "template", json_copy(d, json_get(spec, "template")));
	json_set_str(d, json_at_path(own, "template.metadata.labels"), LABEL_TEMPLATE_HASH, hash);
	return d;
}

static uint64_t next_revision(const struct dependents *sets)
{
	return sets->n ? revision_of(sets->list[sets->n - 1]) + 1 : 1;
}

/* Sets that nobody controls, borrowed while their references are held. */
struct orphans {
	const struct object *dep;
	struct object *list[ADOPTED_MAX];
	size_t n;
};

static bool add_orphan(void *arg, struct object *set)
{
	struct orphans *o = arg;

	if (!object_deleting(set) && !object_controller(set) &&
	    label_selector_matches(json_get(object_spec(o->dep), "selector"),
				   json_get(json_get(set->root, "metadata"), "labels"), false))
		o->list[o->n++] = object_ref(set);
	return o->n < ARRAY_LEN(o->list);
}

/* False: there is nothing to adopt. */
static bool adopt_orphans(struct pass *p, const struct object *dep)
{
	const struct cluster *cl = p->own;
	struct orphans o = { .dep = dep };

	client_each(p->c->client, cl->replica_set, dep->ns, add_orphan, &o);
	for (size_t i = 0; i < o.n; i++) {
		const struct write w = { .name = DEPLOYMENT_WRITE_SET,
					 .to = ref_of(o.list[i]),
					 .what = "adopt a ReplicaSet",
					 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
		struct json_doc *d = json_doc_new();

		json_set_root(d, json_obj(d));
		draft_adopt(d, json_need_obj(d, json_root(d), "metadata"), o.list[i], dep);
		pass_patch(p, &w, d);
		object_unref(o.list[i]);
	}
	return o.n > 0;
}

static int64_t collisions(const struct object *dep)
{
	return json_get_int(object_status(dep), "collisionCount", 0);
}

/* Another hash for each collision, of a template that stays the same. */
static void template_hash(const struct object *dep, char ret[9])
{
	const struct json *template = json_get(object_spec(dep), "template");
	autoptr(json_doc) d = NULL;

	if (!collisions(dep)) {
		name_hash_json(template, ret);
		return;
	}
	d = json_doc_new();
	json_set_root(d, json_obj(d));
	json_set_int(d, json_root(d), "collisionCount", collisions(dep));
	json_set(d, json_root(d), "template", json_copy(d, template));
	name_hash_json(json_root(d), ret);
}

static void note_collision(struct pass *p, const struct object *dep)
{
	autoptr(json_doc) want = draft_status(dep);
	struct write w = { .name = DEPLOYMENT_WRITE_STATUS,
			   .to = ref_of(dep),
			   .what = "count a collision of hashes",
			   .flags = WRITE_GONE_OK };

	w.to.sub = "status";
	json_set_int(want, json_root(want), "collisionCount", collisions(dep) + 1);
	pass_patch(p, &w, draft_status_patch(dep, json_root(want)));
}

/* The name is another's, or was that of another template. */
static bool collides(const struct object *dep, const struct object *set)
{
	return !object_controlled_by(set, dep->uid) ||
	       !has_template(set, json_get(object_spec(dep), "template"));
}

static void make_newest(struct pass *p, const struct object *dep, const struct dependents *sets)
{
	const struct cluster *cl = p->own;
	char hash[9];
	autofree char *name = NULL;
	autoptr(object) there = NULL;
	struct write w = { .name = DEPLOYMENT_WRITE_SET,
			   .to = { .kind = cl->replica_set, .ns = dep->ns },
			   .what = "make its ReplicaSet" };

	if (adopt_orphans(p, dep))
		return;
	template_hash(dep, hash);
	w.to.name = name = xasprintf("%s-%s", dep->name, hash);
	there = client_get(p->c->client, cl->replica_set, dep->ns, name);
	if (there && collides(dep, there))
		note_collision(p, dep);
	else
		pass_create(p, &w, set_build(dep, name, hash, next_revision(sets)));
}

/* How many Pods each set has */

static int64_t count_of(const struct object *set, const char *name)
{
	return json_get_int(object_status(set), name, 0);
}

static int64_t wanted(const struct object *set)
{
	return json_get_int(object_spec(set), "replicas", 0);
}

static void scale(struct pass *p, const struct object *set, int64_t n, uint64_t revision)
{
	const struct write w = { .name = DEPLOYMENT_WRITE_SCALE,
				 .to = ref_of(set),
				 .what = "scale a ReplicaSet",
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");

	json_set_root(d, root);
	draft_guard(d, meta, set);
	if (revision)
		json_set(d, json_need_obj(d, meta, "annotations"), ANNOTATION_REVISION,
			 json_new_strf(d, "%llu", (unsigned long long)revision));
	json_set_int(d, json_need_obj(d, root, "spec"), "replicas", n);
	pass_patch(p, &w, d);
}

static void scale_all(struct pass *p, const struct object *dep, const struct dependents *sets,
		      size_t newest)
{
	const struct json *spec = object_spec(dep);
	autofree struct rollout_set *have = xnew_n(struct rollout_set, sets->n + 1);
	autofree int64_t *want = xnew_n(int64_t, sets->n + 1);
	struct rollout_seen seen = {
		.replicas = json_get_int(spec, "replicas", 1),
		.recreate = str_eq(json_str(json_at_path(spec, "strategy.type")), "Recreate"),
		.paused = json_get_bool(spec, "paused", false),
		.sets = have,
		.n = sets->n,
		.newest = newest,
	};

	deployment_bounds(spec, &seen.surge, &seen.missing);
	for (size_t i = 0; i < sets->n; i++)
		have[i] = (struct rollout_set){
			.want = wanted(sets->list[i]),
			.have = count_of(sets->list[i], "replicas") +
				count_of(sets->list[i], "terminatingReplicas"),
			.available = count_of(sets->list[i], "availableReplicas"),
		};
	rollout_decide(&seen, want);
	for (size_t i = 0; i < sets->n; i++) {
		/* Used before, or adopted, and now the newest. */
		bool again = i == newest && (i + 1 < sets->n || !revision_of(sets->list[i]));

		if (want[i] != wanted(sets->list[i]) || again)
			scale(p, sets->list[i], want[i], again ? next_revision(sets) : 0);
	}
}

/* Sets without Pods are kept to go back to, but not for ever. */
static void prune(struct pass *p, const struct object *dep, const struct dependents *sets,
		  size_t newest)
{
	int64_t keep = json_get_int(object_spec(dep), "revisionHistoryLimit", INT32_MAX), idle = 0;

	for (size_t i = sets->n; i-- > 0;) {
		const struct object *set = sets->list[i];
		const struct write w = { .name = DEPLOYMENT_WRITE_PRUNE,
					 .to = ref_of(set),
					 .what = "delete an old ReplicaSet",
					 .flags = WRITE_GONE_OK };

		if (i == newest || wanted(set) || count_of(set, "replicas") || object_deleting(set))
			continue;
		if (++idle > keep)
			pass_delete_uid(p, &w, set->uid);
	}
}

/* The report */

struct totals {
	int64_t replicas, ready, available, ending, updated, wanted;
};

static struct totals totals_of(const struct dependents *sets, size_t newest)
{
	struct totals t = { .updated = count_of(sets->list[newest], "replicas") };

	for (size_t i = 0; i < sets->n; i++) {
		t.replicas += count_of(sets->list[i], "replicas");
		t.ready += count_of(sets->list[i], "readyReplicas");
		t.available += count_of(sets->list[i], "availableReplicas");
		t.ending += count_of(sets->list[i], "terminatingReplicas");
		t.wanted += wanted(sets->list[i]);
	}
	return t;
}

/* What the status of dep becomes, and what follows from it. */
struct report {
	const struct object *dep, *newest;
	struct totals t;
	struct json_doc *d; /* the status */
	struct json *list;  /* its conditions */
	usec now;
};

static void touch(const struct report *r, const char *type)
{
	char stamp[CLOCK_TEXT_MAX];

	clock_format(r->now, stamp);
	json_set_str(r->d, conditions_get(r->list, type), "lastUpdateTime", stamp);
}

static void set_condition(const struct report *r, const struct condition *c)
{
	const struct json *was = conditions_get(r->list, c->type);
	bool changed = !was || !str_eq(json_get_str(was, "status"), c->status) ||
		       !str_eq(json_get_str(was, "reason"), c->reason) ||
		       !str_eq(json_get_str(was, "message"), c->message);

	conditions_upsert(r->d, r->list, c, r->now);
	if (changed)
		touch(r, c->type);
}

static void note_available(const struct report *r)
{
	const struct json *spec = object_spec(r->dep);
	int64_t surge, missing;
	bool enough;

	deployment_bounds(spec, &surge, &missing);
	if (str_eq(json_str(json_at_path(spec, "strategy.type")), "Recreate"))
		missing = 0;
	enough = r->t.available >= json_get_int(spec, "replicas", 1) - missing;
	set_condition(
		r, &(struct condition){
			   .type = "Available",
			   .status = enough ? "True" : "False",
			   .reason = enough ? "MinimumReplicasAvailable"
					    : "MinimumReplicasUnavailable",
			   .message = enough ? "Deployment has minimum availability."
					     : "Deployment does not have minimum availability." });
}

/* Whether more Pods are where they should be than the status says. */
static bool has_moved(const struct json *was, const struct totals *t)
{
	int64_t old = json_get_int(was, "replicas", 0) - json_get_int(was, "updatedReplicas", 0);

	return t->updated > json_get_int(was, "updatedReplicas", 0) ||
	       t->replicas - t->updated < old || t->ready > json_get_int(was, "readyReplicas", 0) ||
	       t->available > json_get_int(was, "availableReplicas", 0);
}

/* Milliseconds until the deadline for the next sign of progress; 0: it has passed. */
static uint64_t time_left(const struct json *progressing, const struct json *spec, usec now)
{
	usec since = now, end;

	err_free(clock_parse(str_or(json_get_str(progressing, "lastUpdateTime"), ""), &since));
	end = since + json_get_int(spec, "progressDeadlineSeconds", INT32_MAX) * 1000000;
	return end > now ? (uint64_t)(end - now) / 1000 + 1 : 0;
}

static bool is_done(const struct report *r)
{
	int64_t replicas = json_get_int(object_spec(r->dep), "replicas", 1);

	return r->t.updated == replicas && r->t.replicas == replicas && r->t.available == replicas;
}

/* Returns when to look again, in milliseconds; 0: no need. */
static uint64_t note_progress(const struct report *r)
{
	const struct json *spec = object_spec(r->dep);
	const struct json *was = conditions_get(r->list, "Progressing");
	const char *said = json_get_str(was, "message"), *name = r->newest->name;
	autofree char *moves = xasprintf("ReplicaSet \"%s\" is progressing.", name);
	autofree char *good = xasprintf("ReplicaSet \"%s\" has successfully progressed.", name);
	autofree char *late = xasprintf("ReplicaSet \"%s\" has timed out progressing.", name);
	bool done = is_done(r), moved = has_moved(object_status(r->dep), &r->t);
	struct condition c = { "Progressing", "True", "NewReplicaSetAvailable", good };
	uint64_t left = 0;

	if (!done && (str_eq(said, good) || (str_eq(said, late) && !moved)))
		return 0; /* of one that is good, a Pod is missing, but nothing is rolled out */
	if (!done) {
		left = time_left(moved || !str_eq(said, moves) ? NULL : was, spec, r->now);
		c.status = left ? "True" : "False";
		c.reason = left ? "ReplicaSetUpdated" : "ProgressDeadlineExceeded";
		c.message = left ? moves : late;
	}
	set_condition(r, &c);
	if (left && moved)
		touch(r, c.type);
	return left;
}

static void note_failure(const struct report *r)
{
	const struct json *failed =
		conditions_get(json_get(object_status(r->newest), "conditions"), "ReplicaFailure");

	if (failed)
		set_condition(r, &(struct condition){ "ReplicaFailure", "True",
						      json_get_str(failed, "reason"),
						      json_get_str(failed, "message") });
	else
		conditions_remove(r->list, "ReplicaFailure");
}

/* Returns when to look again, in milliseconds; 0: no need. */
static uint64_t report(struct pass *p, const struct object *dep, const struct dependents *sets,
		       size_t newest)
{
	autoptr(json_doc) want = draft_status(dep);
	struct json *status = json_root(want);
	const char *revision = object_annotation(sets->list[newest], ANNOTATION_REVISION);
	struct report r = { .dep = dep,
			    .newest = sets->list[newest],
			    .t = totals_of(sets, newest),
			    .d = want,
			    .list = json_get(status, "conditions"),
			    .now = p->now };
	struct write w = { .name = DEPLOYMENT_WRITE_STATUS,
			   .to = ref_of(dep),
			   .what = "report the status",
			   .flags = WRITE_QUIET | WRITE_GONE_OK };
	struct json_doc *patch;
	uint64_t again_ms;

	if (!r.list)
		r.list = json_set(want, status, "conditions", json_arr(want));
	note_available(&r);
	again_ms = note_progress(&r);
	note_failure(&r);
	draft_count(want, status, "replicas", r.t.replicas);
	draft_count(want, status, "updatedReplicas", r.t.updated);
	draft_count(want, status, "readyReplicas", r.t.ready);
	draft_count(want, status, "availableReplicas", r.t.available);
	draft_count(want, status, "unavailableReplicas", r.t.wanted - r.t.available);
	json_set_int(want, status, "terminatingReplicas", r.t.ending);
	json_set_int(want, status, "observedGeneration", object_generation(dep));
	patch = draft_status_patch(dep, status);
	if (!patch && str_eq(object_annotation(dep, ANNOTATION_REVISION), revision))
		return again_ms;
	if (!patch) {
		patch = json_doc_new();
		json_set_root(patch, json_obj(patch));
		draft_guard_uid(patch, json_need_obj(patch, json_root(patch), "metadata"), dep);
	}
	json_set_str(patch,
		     json_need_obj(patch, json_get(json_root(patch), "metadata"), "annotations"),
		     ANNOTATION_REVISION, revision);
	w.to.sub = CLIENT_WHOLE;
	pass_patch(p, &w, patch);
	return again_ms;
}

static struct again pass_over(struct pass *p, const struct object *dep,
			      const struct dependents *sets)
{
	size_t newest = find_newest(dep, sets);
	struct err *e = pass_take_error(p);
	uint64_t again_ms;

	if (e)
		return again_retry(e);
	if (newest == sets->n) {
		make_newest(p, dep, sets);
		return again_wait();
	}
	scale_all(p, dep, sets, newest);
	prune(p, dep, sets, newest);
	if (p->started)
		return again_wait();
	again_ms = report(p, dep, sets, newest);
	return again_ms ? again_after(again_ms) : again_never();
}

struct again deployment_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	autoptr(object) dep = client_get(p->c->client, cl->deployment, p->key->ns, p->key->name);
	struct dependents sets = { 0 };
	struct again again = again_never();

	if (dep && !object_deleting(dep)) {
		sets = gc_dependents(cl->gc, dep, cl->replica_set);
		if (sets.n)
			qsort(sets.list, sets.n, sizeof(*sets.list), by_revision);
		again = pass_over(p, dep, &sets);
	}
	dependents_done(&sets);
	return again;
}
