/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/apps.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "json/json.h"

/*
 * ReplicaSets: as many Pods of a template as their spec says. A key is a ReplicaSet; it is due a
 * moment after a change of one of its Pods, because a Pod that starts changes several times within
 * that moment. Which Pods a set has is what their controller references say; a Pod that nobody
 * controls is left alone, whatever its labels are.
 */
enum set_write {
	SET_WRITE_CREATE,
	SET_WRITE_REMOVE,
	SET_WRITE_STATUS,
	SET_WRITE_MAX_,
};
_Static_assert(SET_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

enum {
	LATER_MS = 10,
	OVER_KEPT = 10,     /* Pods that are over: they show what went wrong, and how often */
	PAUSE_MAX_S = 300,  /* before the next one is made */
	STARTING_MAX = 100, /* Pods that are not ready; more are made when these are */
};

struct set_seen {
	struct object *set;
	struct dependents pods;
	struct object **active; /* borrowed: neither over nor being deleted, surplus ones first */
	size_t n_active, n_ending, n_ready, n_available, n_labelled;
	struct object **over; /* borrowed: the oldest first */
	size_t n_over;
	uint64_t again_ms; /* until the next one has been ready for long enough; 0: none will */
};

static void seen_done(struct set_seen *s)
{
	dependents_done(&s->pods);
	free(s->active);
	free(s->over);
	object_unref(s->set);
}

static bool is_ready(const struct object *pod)
{
	return conditions_true(json_get(object_status(pod), "conditions"), "Ready");
}

/* In microseconds; 0: not ready. */
static usec ready_for(const struct object *pod, usec now)
{
	const struct json *at = conditions_get(json_get(object_status(pod), "conditions"), "Ready");
	usec since = now;

	if (!is_ready(pod))
		return 0;
	err_free(clock_parse(str_or(json_get_str(at, "lastTransitionTime"), ""), &since));
	return MAX(1, now - since);
}

static const char *created(const struct object *o)
{
	return str_or(json_get_str(json_get(o->root, "metadata"), "creationTimestamp"), "");
}

/* Those that would be missed least come first: not ready, then the youngest. */
static int by_worth(const void *a, const void *b)
{
	const struct object *x = *(struct object *const *)a, *y = *(struct object *const *)b;
	int order = is_ready(x) - is_ready(y);

	if (!order)
		order = strcmp(created(y), created(x));
	return order ? order : strcmp(y->name, x->name);
}

static int by_age(const void *a, const void *b)
{
	const struct object *x = *(struct object *const *)a, *y = *(struct object *const *)b;
	int order = strcmp(created(x), created(y));

	return order ? order : strcmp(x->name, y->name);
}

static bool has_labels(const struct object *pod, const struct json *labels)
{
	json_each(it, labels)
		if (!str_eq(object_label(pod, it.key), json_str(it.val)))
			return false;
	return true;
}

static void count(struct set_seen *s, struct object *pod, usec now)
{
	const struct json *spec = object_spec(s->set);
	usec least = json_get_int(spec, "minReadySeconds", 0) * 1000000;
	usec for_ = ready_for(pod, now);
	uint64_t left_ms = for_ ? (uint64_t)MAX(0, least - for_) / 1000 + 1 : 0;

	s->active[s->n_active++] = pod;
	s->n_labelled += has_labels(pod, json_at_path(spec, "template.metadata.labels"));
	s->n_ready += for_ > 0;
	if (for_ && for_ >= least)
		s->n_available++;
	else if (left_ms && (!s->again_ms || left_ms < s->again_ms))
		s->again_ms = left_ms;
}

static void observe(struct set_seen *s, usec now)
{
	s->active = xnew_n(struct object *, s->pods.n + 1);
	s->over = xnew_n(struct object *, s->pods.n + 1);
	for (size_t i = 0; i < s->pods.n; i++) {
		struct object *pod = s->pods.list[i];

		if (pod_phase_over(json_get_str(object_status(pod), "phase")))
			s->over[s->n_over++] = pod;
		else if (object_deleting(pod))
			s->n_ending++;
		else
			count(s, pod, now);
	}
	qsort(s->active, s->n_active, sizeof(*s->active), by_worth);
	qsort(s->over, s->n_over, sizeof(*s->over), by_age);
}

/* A Pod that the node refuses is over at once. The more of them there are, the longer the next one
 * waits; 0: no longer. */
static uint64_t pause_ms(const struct set_seen *s, usec now)
{
	unsigned doubled = 1u << MIN(s->n_over, (size_t)9);
	usec since = 0, until;

	if (!s->n_over)
		return 0;
	err_free(clock_parse(created(s->over[s->n_over - 1]), &since));
	until = since + (usec)MIN(doubled, (unsigned)PAUSE_MAX_S) * 1000000;
	return until > now ? (uint64_t)(until - now) / 1000 + 1 : 0;
}

static void forget_some(struct pass *p, const struct set_seen *s)
{
	for (size_t i = 0; i + OVER_KEPT < s->n_over && !pass_rests(p, SET_WRITE_REMOVE); i++) {
		const struct write w = { .name = SET_WRITE_REMOVE,
					 .to = ref_of(s->over[i]),
					 .what = "delete a Pod that is over",
					 .flags = WRITE_GONE_OK };

		if (!object_deleting(s->over[i]))
			pass_delete_uid(p, &w, s->over[i]->uid);
	}
}

static struct json_doc *pod_build(const struct object *set)
{
	static const char *const taken[] = { "labels", "annotations", "finalizers" };
	const struct json *template = json_get(object_spec(set), "template");
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, "v1", "Pod"), *meta = draft_meta(d, root, NULL, set);

	json_set(d, meta, "generateName", json_new_strf(d, "%s-", set->name));
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		json_set(d, meta, taken[i],
			 json_copy(d, json_get(json_get(template, "metadata"), taken[i])));
	json_set(d, root, "spec", json_copy(d, json_get(template, "spec")));
	return d;
}

static void create(struct pass *p, const struct set_seen *s, int64_t n)
{
	const struct write w = { .name = SET_WRITE_CREATE,
				 .to = { .kind = p->c->kinds.pod, .ns = s->set->ns },
				 .what = "create a Pod" };
	int64_t room = STARTING_MAX - (int64_t)(s->n_active - s->n_ready);

	if (pass_rests(p, SET_WRITE_CREATE))
		return;
	for (int64_t i = 0; i < MIN(n, room); i++)
		pass_create(p, &w, pod_build(s->set));
}

static void remove_some(struct pass *p, const struct set_seen *s, int64_t n)
{
	for (int64_t i = 0; i < MIN(n, STARTING_MAX) && !pass_rests(p, SET_WRITE_REMOVE); i++) {
		const struct write w = { .name = SET_WRITE_REMOVE,
					 .to = ref_of(s->active[i]),
					 .what = "delete a Pod",
					 .flags = WRITE_GONE_OK };

		pass_delete_uid(p, &w, s->active[i]->uid);
	}
}

/* The first of several refusals for the same reason is told: each names a Pod of its own. */
static void note_failure(struct pass *p, struct json_doc *d, struct json *status)
{
	const struct err *e = p->out[SET_WRITE_CREATE].e;
	const char *reason = e ? "FailedCreate" : "FailedDelete";
	struct json *list = json_get(status, "conditions");

	if (!e)
		e = p->out[SET_WRITE_REMOVE].e;
	if (e && !list)
		list = json_set(d, status, "conditions", json_arr(d));
	if (!e)
		conditions_remove(list, "ReplicaFailure");
	else if (!str_eq(json_get_str(conditions_get(list, "ReplicaFailure"), "reason"), reason))
		conditions_upsert(d, list,
				  &(struct condition){ .type = "ReplicaFailure",
						       .status = "True",
						       .reason = reason,
						       .message = err_text(e) },
				  p->now);
	if (list && !json_len(list))
		(void)json_del(status, "conditions");
}

static void report(struct pass *p, const struct set_seen *s)
{
	autoptr(json_doc) want = draft_status(s->set);
	struct json *status = json_root(want);
	struct write w = { .name = SET_WRITE_STATUS,
			   .to = ref_of(s->set),
			   .what = "report the status",
			   .flags = WRITE_QUIET | WRITE_GONE_OK };
	struct json_doc *patch;

	json_set_int(want, status, "replicas", (int64_t)s->n_active);
	json_set_int(want, status, "terminatingReplicas", (int64_t)s->n_ending);
	json_set_int(want, status, "observedGeneration", object_generation(s->set));
	draft_count(want, status, "fullyLabeledReplicas", (int64_t)s->n_labelled);
	draft_count(want, status, "readyReplicas", (int64_t)s->n_ready);
	draft_count(want, status, "availableReplicas", (int64_t)s->n_available);
	note_failure(p, want, status);
	patch = draft_status_patch(s->set, status);
	w.to.sub = "status";
	if (patch)
		pass_patch(p, &w, patch);
}

static struct again pass_over(struct pass *p, struct set_seen *s)
{
	int64_t more = json_get_int(object_spec(s->set), "replicas", 1) - (int64_t)s->n_active;
	uint64_t pause = more > 0 ? pause_ms(s, p->now) : 0;
	struct err *e;

	if (more > 0 && !pause)
		create(p, s, more);
	else if (more < 0)
		remove_some(p, s, -more);
	forget_some(p, s);
	if (p->started)
		return again_wait(); /* the pass after these writes reports */
	report(p, s);
	e = pass_take_error(p);
	if (e)
		return again_retry(e);
	if (pause && (!s->again_ms || pause < s->again_ms))
		s->again_ms = pause;
	return s->again_ms ? again_after(s->again_ms) : again_never();
}

struct again replica_set_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	struct set_seen s = { .set = client_get(p->c->client, cl->replica_set, p->key->ns,
						p->key->name) };
	struct again again = again_never();

	if (s.set && !object_deleting(s.set)) {
		s.pods = gc_dependents(cl->gc, s.set, p->c->kinds.pod);
		observe(&s, p->now);
		again = pass_over(p, &s);
	}
	seen_done(&s);
	return again;
}

/* The owner that controls o, if it is of the kind, is due. */
static void wake_owner(const struct cluster *cl, enum control_kind due, const char *kind,
		       const struct object *o)
{
	const struct json *owner = o ? object_controller(o) : NULL;

	if (owner && str_eq(json_get_str(owner, "kind"), kind) &&
	    str_eq(json_get_str(owner, "apiVersion"), API_APPS))
		item_wake_later(cl->c->chores,
				&(struct key){ due, o->ns, json_get_str(owner, "name") }, LATER_MS);
}

void apps_changed(struct cluster *cl, const struct object *was, const struct object *now)
{
	const struct object *o = now ? now : was;

	if (o->kind == cl->c->kinds.pod) {
		wake_owner(cl, CONTROL_REPLICA_SET, "ReplicaSet", was);
		wake_owner(cl, CONTROL_REPLICA_SET, "ReplicaSet", now);
	} else if (o->kind == cl->replica_set) {
		if (!was || !now || !pass_tells(cl->c, CONTROL_REPLICA_SET, now))
			item_wake(cl->c->chores, CONTROL_REPLICA_SET, o->ns, o->name);
		wake_owner(cl, CONTROL_DEPLOYMENT, "Deployment", was);
		wake_owner(cl, CONTROL_DEPLOYMENT, "Deployment", now);
	} else if (o->kind == cl->deployment &&
		   (!was || !now || !pass_tells(cl->c, CONTROL_DEPLOYMENT, now))) {
		item_wake(cl->c->chores, CONTROL_DEPLOYMENT, o->ns, o->name);
	}
}
