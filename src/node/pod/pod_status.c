/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/pod/pod_priv.h"

/*
 * The status that the API shows: computed whole from what runs, and written only where it differs
 * from what was written last. A start that goes well writes it once, when the Pod is ready.
 */
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
	case CONTAINER_LAUNCHING:
	case CONTAINER_STARTING:
	case CONTAINER_STATE_MAX_:
		break;
	}
	s = json_need_obj(d, state, "waiting");
	json_set_str(d, s, "reason", str_or(c->reason, "ContainerCreating"));
	json_set_str(d, s, "message", str_or(c->message, NULL));
}

static struct json *container_status(struct json_doc *d, const struct container *c)
{
	struct json *o = json_obj(d);
	bool running = c->state == CONTAINER_RUNNING;

	json_set_str(d, o, "name", c->name);
	put_state(d, o, c);
	put_ending(d, json_need_obj(d, o, "lastState"), &c->last);
	json_set_bool(d, o, "ready",
		      c->init ? c->state == CONTAINER_ENDED && !c->end.code : running && c->ready);
	json_set_int(d, o, "restartCount", c->restarts);
	json_set_str(d, o, "image", str_or(json_get_str(c->spec, "image"), ""));
	json_set_str(d, o, "imageID", c->image ? c->image->digest : "");
	if (c->slot)
		json_set(d, o, "containerID", json_new_strf(d, "cay://%s", c->slot));
	else if (c->end.id)
		json_set_str(d, o, "containerID", c->end.id);
	json_set_bool(d, o, "started",
		      running && (!c->startup_probe || probe_ok(c->startup_probe)));
	return o;
}

const char *pod_qos(const struct json *spec)
{
	bool any = false, all = true;

	json_each(c, json_get(spec, "containers")) {
		const struct json *max = json_at_path(c.val, "resources.limits");
		const struct json *min = json_at_path(c.val, "resources.requests");

		any = any || json_len(max) || json_len(min);
		all = all && json_get(max, "cpu") && json_get(max, "memory") &&
		      (!json_get(min, "cpu") ||
		       quantity_equal(json_get(min, "cpu"), json_get(max, "cpu"))) &&
		      (!json_get(min, "memory") ||
		       quantity_equal(json_get(min, "memory"), json_get(max, "memory")));
	}
	return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

struct summary {
	bool initialized, ready, any_started;
	const char *unready; /* a container that is not ready */
};

static struct summary summarise(const struct pod *p)
{
	struct summary s = { .initialized = true, .ready = true };

	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = &p->containers[i];

		if (c->init) {
			s.initialized =
				s.initialized && c->state == CONTAINER_ENDED && !c->end.code;
			continue;
		}
		s.any_started = s.any_started || c->started || c->end.reason || c->last.reason;
		if (c->state == CONTAINER_RUNNING && c->ready)
			continue;
		s.ready = false;
		s.unready = c->name;
	}
	return s;
}

static const char *phase_of(const struct pod *p, const struct summary *s)
{
	if (p->phase == POD_DONE && !object_deleting(p->obj))
		return p->failed ? "Failed" : "Succeeded";
	return s->initialized && s->any_started ? "Running" : "Pending";
}

static void put_conditions(struct json_doc *d, struct json *status, const struct pod *p,
			   const struct summary *s)
{
	const struct json *was = json_get(object_status(p->obj), "conditions");
	bool over = p->phase == POD_DONE && !p->failed;
	bool ready = s->ready && p->phase == POD_ACTIVE && !object_deleting(p->obj);
	const char *reason = over ? "PodCompleted" : ready ? NULL : "ContainersNotReady";
	autofree char *text =
		!ready && s->unready ? xasprintf("containers with unready status: [%s]", s->unready)
				     : NULL;
	struct condition list[] = {
		{ .type = "PodScheduled", .status = "True" },
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
		conditions_upsert(d, conditions, &list[i], clock_wall());
}

static void put_addresses(struct json_doc *d, struct json *status, const struct pod *p)
{
	struct json *list, *one;

	json_set_str(d, status, "hostIP", "127.0.0.1");
	if (!p->net)
		return;
	json_set_str(d, status, "podIP", p->net->ip);
	list = json_need_arr(d, status, "podIPs");
	one = json_obj(d);
	json_set_str(d, one, "ip", p->net->ip);
	json_push(d, list, one);
}

static struct json_doc *make_status(const struct pod *p)
{
	struct json_doc *d = json_doc_new();
	struct json *status = json_obj(d);
	struct summary s = summarise(p);

	json_set_root(d, status);
	json_set_str(d, status, "phase", phase_of(p, &s));
	put_conditions(d, status, p, &s);
	json_set_str(d, status, "reason", p->reason);
	json_set_str(d, status, "message", p->reason ? p->message : NULL);
	put_addresses(d, status, p);
	set_time(d, status, "startTime", p->started);
	json_set_str(d, status, "qosClass", pod_qos(pod_spec(p)));
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = &p->containers[i];

		json_push(d,
			  json_need_arr(d, status,
					c->init ? "initContainerStatuses" : "containerStatuses"),
			  container_status(d, c));
	}
	return d;
}

static void on_reported(struct client_write *w, struct err *e, unused struct object *obj)
{
	struct pod *p = container_of(w, struct pod, report_write);

	p->report_busy = false;
	if (e && !err_is(e, ERR_NOT_FOUND)) {
		json_doc_free(take(p->reported));
		timer_set(p->retry, 1000);
		log_warn("status of a Pod was not written, trying again", KV("err", e));
	}
	err_free(e);
}

/* Nothing but "it is being created" would be said, and soon there is better news. */
static bool too_early(const struct pod *p)
{
	if (p->phase != POD_ACTIVE || p->recovered || !timer_armed(p->slow))
		return false;
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = &p->containers[i];

		if (c->state == CONTAINER_RUNNING && !c->init)
			continue;
		if (c->state == CONTAINER_LAUNCHING || c->state == CONTAINER_STARTING)
			return true;
		if (c->state == CONTAINER_WAITING && str_empty(c->message) && !c->restarts)
			return true;
	}
	return false;
}

/* Whether the object still says what was reported; others may write there too. */
static bool report_stands(const struct pod *p)
{
	const struct json *has = object_status(p->obj);

	json_each(it, json_root(p->reported))
		if (!json_equal(json_get(has, it.key), it.val))
			return false;
	return true;
}

bool pod_report_lost(const struct pod *p)
{
	return p->reported && !p->report_busy && !report_stands(p);
}

void pod_report(struct pod *p)
{
	autoptr(json_doc) status = NULL;
	struct json_doc *patch;
	struct json *o;

	if (p->gone || p->report_busy || too_early(p) || (p->phase == POD_DONE && p->killed))
		return;
	if (p->phase == POD_DONE && p->recovered && !p->reported)
		return; /* its end was told in an earlier life */
	status = make_status(p);
	if (p->reported && !pod_report_lost(p) &&
	    json_equal(json_root(p->reported), json_root(status)))
		return;
	patch = json_doc_new();
	o = json_obj(patch);
	json_set_root(patch, o);
	json_set_str(patch, json_need_obj(patch, o, "metadata"), "uid", p->uid);
	json_set(patch, o, "status", json_copy(patch, json_root(status)));
	json_doc_free(p->reported);
	p->reported = take(status);
	p->report_busy = true;
	p->report_write.done = on_reported;
	client_patch(p->node->client,
		     &(struct client_ref){ .kind = p->node->kinds.pod,
					   .ns = p->obj->ns,
					   .name = p->obj->name,
					   .sub = "status" },
		     PATCH_MERGE, patch, &p->report_write);
}
