/* SPDX-License-Identifier: Apache-2.0 */
#include "api/diff.h"
#include "api/meta.h"
#include "base/log.h"
#include "base/str.h"
#include "node/image/image.h"
#include "node/pod/pod_priv.h"
#include "node/pod/probe_priv.h"

/*
 * The status that the API shows: computed as a whole from what runs, and written only when it
 * differs from what the object says. A start that goes well writes it once, when the Pod is ready.
 */
enum {
	REPORT_RETRY_MS = 1000,
};

static void set_time(struct json_doc *d, struct json *o, const char *key, usec t)
{
	char text[CLOCK_TEXT_MAX];

	if (!t)
		return;
	clock_format(t, text);
	json_set_str(d, o, key, text);
}

static void put_ending(struct json_doc *d, struct json *state, const struct ending *e)
{
	struct json *t;

	if (!e->reason)
		return;
	t = json_need_obj(d, state, "terminated");
	json_set_int(d, t, "exitCode", e->code);
	if (e->signal)
		json_set_int(d, t, "signal", e->signal);
	json_set_str(d, t, "reason", e->reason);
	json_set_str(d, t, "message", e->message);
	set_time(d, t, "startedAt", e->started);
	set_time(d, t, "finishedAt", e->finished);
	json_set_str(d, t, "containerID", e->id);
}

static void put_state(struct json_doc *d, struct json *o, const struct container *c)
{
	struct json *state = json_need_obj(d, o, "state"), *s;

	switch (c->state) {
	case CONTAINER_RUNNING:
	case CONTAINER_ENDING:
		if (c->started) {
			s = json_need_obj(d, state, "running");
			set_time(d, s, "startedAt", c->started);
			return;
		}
		break;
	case CONTAINER_ENDED:
		put_ending(d, state, &c->end);
		return;
	case CONTAINER_WAITING:
	case CONTAINER_FOUND:
	case CONTAINER_LAUNCHING:
	case CONTAINER_STATE_MAX_:
		break;
	}
	s = json_need_obj(d, state, "waiting");
	json_set_str(d, s, "reason", container_reason(c));
	json_set_str(d, s, "message", str_or(c->message, NULL));
}

static const char *status_list(const struct container *c)
{
	return c->view->ephemeral ? "ephemeralContainerStatuses"
	       : c->view->init    ? "initContainerStatuses"
				  : "containerStatuses";
}

const struct json *container_status_was(const struct container *c)
{
	json_each(it, json_get(object_status(c->pod->obj), status_list(c)))
		if (str_eq(json_get_str(it.val, "name"), c->view->name))
			return it.val;
	return NULL;
}

/* What it was given, and what it has. */
static void put_size(struct json_doc *d, struct json *o, const struct container *c)
{
	const struct json *given = json_get(container_given(c), "requests");
	const struct json *has = container_has(c);

	if (json_len(given))
		json_set(d, o, "allocatedResources", json_copy(d, given));
	json_set(d, o, "resources", has ? json_copy(d, has) : json_obj(d));
}

static struct json *container_status(struct json_doc *d, const struct container *c)
{
	bool done = c->state == CONTAINER_ENDED && !c->end.code;
	autofree char *id = container_live(c->state) ? container_id(c->log) : xstrdup(c->end.id);
	struct json *o = json_obj(d);

	json_set_str(d, o, "name", c->view->name);
	put_state(d, o, c);
	put_ending(d, json_need_obj(d, o, "lastState"), &c->last);
	json_set_bool(d, o, "ready",
		      c->view->init && !c->view->sidecar ? done : container_ready(c));
	json_set_int(d, o, "restartCount", c->restarts);
	json_set_str(d, o, "image", c->view->image);
	json_set_str(d, o, "imageID", c->image ? c->image->digest : "");
	json_set_str(d, o, "containerID", id);
	json_set_bool(d, o, "started", container_started(c));
	put_size(d, o, c);
	return o;
}

struct summary {
	bool initialized, ready, any_started;
	const char *unready; /* a container that is not ready */
	const char *probe;   /* what its probe says; NULL: nothing */
};

static bool has_run(const struct container *c)
{
	return c->started || c->end.reason || c->last.reason;
}

/* A sidecar that has started once has done its part of the initialisation, even if it is down
 * later: those after it have run then. */
static bool init_done(const struct pod *p, size_t i)
{
	const struct container *c = p->containers[i];

	if (!c->view->sidecar)
		return c->state == CONTAINER_ENDED && !c->end.code;
	for (size_t k = i + 1; k < p->n_containers; k++)
		if (has_run(p->containers[k]))
			return true;
	return container_started(c);
}

static struct summary summarise(const struct pod *p)
{
	struct summary s = { .initialized = true, .ready = true };

	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];

		if (c->view->init && !init_done(p, i))
			s.initialized = false;
		if (c->view->ephemeral || (c->view->init && !c->view->sidecar))
			continue;
		if (!c->view->init && has_run(c))
			s.any_started = true;
		if (container_ready(c))
			continue;
		s.ready = false;
		s.unready = c->view->name;
		s.probe = probe_trouble(container_started(c) ? c->readiness : c->startup);
	}
	return s;
}

static const char *phase_of(const struct pod *p, const struct summary *s)
{
	if (p->phase == POD_SUCCEEDED)
		return "Succeeded";
	if (p->phase == POD_FAILED)
		return "Failed";
	return s->initialized && s->any_started ? "Running" : "Pending";
}

/* These two are there only while there is something to say. */
static void put_resize_conditions(struct json_doc *d, struct json *conditions, const struct pod *p)
{
	const char *trouble;
	bool resizes = pod_resizes(p, &trouble);
	const struct condition pending = { .type = "PodResizePending",
					   .status = "True",
					   .reason = p->resize_reason,
					   .message = p->resize_message,
					   .observed_generation = object_generation(p->obj) };
	const struct condition progress = { .type = "PodResizeInProgress",
					    .status = "True",
					    .reason = trouble ? "Error" : NULL,
					    .message = trouble,
					    .observed_generation = object_generation(p->obj) };

	if (p->resize_reason && p->phase <= POD_ACTIVE)
		conditions_upsert(d, conditions, &pending, pods_wall(p->pods));
	else
		conditions_remove(conditions, pending.type);
	if (resizes)
		conditions_upsert(d, conditions, &progress, pods_wall(p->pods));
	else
		conditions_remove(conditions, progress.type);
}

static void put_conditions(struct json_doc *d, struct json *status, const struct pod *p,
			   const struct summary *s)
{
	const struct json *was = json_get(object_status(p->obj), "conditions");
	bool over = p->phase == POD_SUCCEEDED;
	bool ready = s->ready && p->phase == POD_ACTIVE;
	const char *reason = over ? "PodCompleted" : ready ? NULL : "ContainersNotReady";
	autofree char *text =
		!ready && s->unready
			? xasprintf("containers with unready status: [%s]%s%s", s->unready,
				    s->probe ? ": " : "", str_or(s->probe, ""))
			: NULL;
	const struct condition disrupted = { .type = "DisruptionTarget",
					     .status = "True",
					     .reason = "TerminationByKubelet",
					     .message = POD_SHUT_DOWN };
	struct condition list[] = {
		{ .type = "PodScheduled",
		  .status = p->unscheduled ? "False" : "True",
		  .reason = p->unscheduled ? "Unschedulable" : NULL,
		  .message = p->unscheduled ? POD_UNSCHEDULED : NULL },
		{ .type = "Initialized",
		  .status = s->initialized ? "True" : "False",
		  .reason = s->initialized ? NULL : "ContainersNotInitialized" },
		{ .type = "ContainersReady",
		  .status = ready ? "True" : "False",
		  .reason = reason,
		  .message = p->reason ? p->message : text },
		{ .type = "Ready",
		  .status = ready ? "True" : "False",
		  .reason = p->reason ? p->reason : reason,
		  .message = p->reason ? p->message : text },
	};
	struct json *conditions;

	conditions = json_set(d, status, "conditions", was ? json_copy(d, was) : json_arr(d));
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		conditions_upsert(d, conditions, &list[i], pods_wall(p->pods));
	if (p->shut_down)
		conditions_upsert(d, conditions, &disrupted, pods_wall(p->pods));
	else
		conditions_remove(conditions, disrupted.type);
	put_resize_conditions(d, conditions, p);
}

/* An empty one is none. */
static void put_ips(struct json_doc *d, struct json *status, const char *name, const char *first,
		    const char *second)
{
	struct json *list = json_need_arr(d, status, name);
	const char *const ips[] = { first, second };

	for (size_t i = 0; i < ARRAY_LEN(ips); i++) {
		struct json *one = json_obj(d);

		if (!*ips[i])
			continue;
		json_set_str(d, one, "ip", ips[i]);
		json_push(d, list, one);
	}
}

static void put_addresses(struct json_doc *d, struct json *status, const struct pod *p)
{
	json_set_str(d, status, "hostIP", "127.0.0.1");
	put_ips(d, status, "hostIPs", "127.0.0.1", "");
	if (!p->net)
		return;
	json_set_str(d, status, "podIP", p->net->ip);
	put_ips(d, status, "podIPs", p->net->ip, p->net->ip6);
}

/* Like a kubelet: the containers of a Pod that was rejected are not mentioned. Empty lists also
 * take back what was said while it waited for room. */
static void put_containers(struct json_doc *d, struct json *status, const struct pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];
		struct json *list = json_need_arr(d, status, status_list(c));

		if (!p->rejected && !p->unscheduled)
			json_push(d, list, container_status(d, c));
	}
}

/* A merge keeps what is not mentioned, and an earlier run may have written there. */
static void set_or_drop(struct json_doc *d, struct json *o, const char *key, const char *text)
{
	json_set(d, o, key, text ? json_new_str(d, text) : json_new_null(d));
}

static struct json_doc *make_status(const struct pod *p)
{
	struct json_doc *d = json_doc_new();
	struct json *status = json_obj(d);
	struct summary s = summarise(p);

	json_set_root(d, status);
	json_set_int(d, status, "observedGeneration", object_generation(p->obj));
	json_set_str(d, status, "phase", phase_of(p, &s));
	put_conditions(d, status, p, &s);
	set_or_drop(d, status, "reason", p->reason);
	set_or_drop(d, status, "message", p->reason ? p->message : NULL);
	put_addresses(d, status, p);
	set_time(d, status, "startTime", p->started);
	json_set_str(d, status, "qosClass", p->view->qos);
	put_containers(d, status, p);
	return d;
}

static void on_reported(struct client_write *w, struct err *e, unused struct object *obj)
{
	struct pod *p = container_of(w, struct pod, report_write);

	if (p->report == REPORT_STALE)
		pod_wake(p);
	p->report = REPORT_NONE;
	if (e && !err_is(e, ERR_NOT_FOUND)) {
		log_warn("cannot write the status of a Pod, trying again", KV("err", e));
		p->reported = false;
		p->report_after = pods_now(p->pods) + REPORT_RETRY_MS * 1000;
		pod_wake(p);
	}
	err_free(e);
}

/* The report would say only that it is being created, and will soon be out of date. */
static bool says_little(const struct container *c)
{
	if (c->state == CONTAINER_LAUNCHING)
		return true;
	return c->state == CONTAINER_WAITING && str_empty(c->message) && !c->restarts;
}

static bool too_early(const struct pod *p)
{
	bool quiet = p->quiet_until > pods_now(p->pods);

	if (p->phase > POD_ACTIVE)
		return false;
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];

		if (c->state == CONTAINER_FOUND)
			return true; /* it may still run, as the status says */
		if (quiet && says_little(c))
			return true;
	}
	return false;
}

/* Whether the object says all of it already; others may write there too. Empty values are not
 * stored. */
static bool report_stands(const struct pod *p, const struct json *status)
{
	const struct json *has = object_status(p->obj);

	json_each(it, status)
		if (!semantic_equal(json_get(has, it.key), it.val))
			return false;
	return true;
}

bool pod_report_lost(const struct pod *p, const struct object *now)
{
	return p->reported && p->report == REPORT_NONE &&
	       !json_equal(object_status(p->obj), object_status(now));
}

static struct json_doc *make_patch(const struct pod *p, const struct json *status)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, json_need_obj(d, o, "metadata"), "uid", p->obj->uid);
	json_set(d, o, "status", json_copy(d, status));
	return d;
}

/* The end of a Pod that is over was reported by an earlier run, and one that is removed needs none.
 */
static bool is_told(const struct pod *p)
{
	return (p->phase < POD_OVER || p->shut_down) && !p->gone && !p->view->deleting &&
	       p->report_after <= pods_now(p->pods) && !too_early(p);
}

void pod_report(struct pod *p)
{
	autoptr(object) o = object_ref(p->obj); /* the write may replace it */
	const struct client_ref ref = {
		.kind = p->pods->kind_pod, .ns = o->ns, .name = o->name, .sub = "status"
	};
	autoptr(json_doc) status = NULL;

	if (!is_told(p))
		return;
	if (p->report != REPORT_NONE) {
		p->report = REPORT_STALE;
		return;
	}
	status = make_status(p);
	if (p->reported && report_stands(p, json_root(status)))
		return;
	p->reported = true;
	p->report = REPORT_BUSY;
	p->report_write.done = on_reported;
	client_patch(p->pods->client, &ref, PATCH_MERGE, make_patch(p, json_root(status)),
		     &p->report_write);
}
