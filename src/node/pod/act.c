/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/meta.h"
#include "api/view.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "node/disk/trash.h"
#include "node/inside/inside.h"
#include "node/launch/plan.h"
#include "node/pod/pod_priv.h"
#include "node/volume/host_path.h"

/* The steps that a plan may ask for, each as small as possible. */
enum {
	PREPARE_RETRY_MS = 5000,
	MISSING_RETRY_MS = 10000, /* an object that appears wakes the Pod anyway */
	LET_GO_RETRY_MS = 2000,
	GRACE_MAX_S = 3600,
};

static void retry_in(struct pod *p, usec ms)
{
	p->retry_at = pods_now(p->pods) + ms * 1000;
}

static bool tolerates_cordon(const struct pod *p)
{
	json_each(it, json_get(object_spec(p->obj), "tolerations")) {
		const char *key = json_get_str(it.val, "key");
		const char *effect = json_get_str(it.val, "effect");
		bool any = str_empty(key) && str_eq(json_get_str(it.val, "operator"), "Exists");

		if ((any || str_eq(key, "node.kubernetes.io/unschedulable")) &&
		    (str_empty(effect) || str_eq(effect, "NoSchedule")))
			return true;
	}
	return false;
}

/* A scheduler would not choose this node for it. One that had been admitted before is not asked
 * again: a cordon keeps nothing from running that was there. */
static bool is_kept_out(struct pod *p)
{
	const struct json *was = json_get(object_status(p->obj), "conditions");

	if (!p->pods->cordoned || tolerates_cordon(p) || conditions_true(was, "PodScheduled"))
		return false;
	if (!p->unscheduled)
		pod_event(p, true, "FailedScheduling", "%s", POD_UNSCHEDULED);
	p->unscheduled = true;
	waits_pass_on_room(p);
	return true;
}

static bool act_admit(struct pod *p)
{
	autofree char *bad = pod_unsupported(object_spec(p->obj)), *text = NULL;
	bool soon = false;
	const char *lacks = NULL;

	if (!bad && is_kept_out(p))
		return false;
	p->unscheduled = false;
	if (!bad)
		bad = pod_disk_unsupported(p->pods->disk, p->view);
	if (!bad)
		bad = host_paths_refuse(p->pods->host_paths, p->view);
	if (!bad)
		lacks = pod_room_lacks(p, &soon, &text);
	if (!bad && lacks && soon) {
		waits_pass_on_room(p);
		return false;
	}
	if (!bad && !lacks) {
		pod_event(p, false, "Scheduled", "Successfully assigned %s/%s to %s", p->obj->ns,
			  p->obj->name, p->pods->node_name);
		pod_enter(p, POD_PREPARING);
		return true;
	}
	if (bad)
		text = xasprintf("this node does not support %s", bad);
	p->rejected = true;
	pod_event(p, true, lacks ? lacks : "UnsupportedField", "%s", text);
	pod_fail(p, lacks ? lacks : "UnsupportedField", text);
	return true;
}

/* All containers show what the Pod waits for. True: that is news. */
static bool held_up(struct pod *p, const char *text)
{
	if (str_eq(p->message, text))
		return false;
	free(p->message);
	p->message = xstrdup(text);
	for (size_t i = 0; i < p->n_containers; i++)
		container_wait(p->containers[i], WAIT_CREATING, text);
	return true;
}

/* A class whose program is missing holds the Pod up until it is there. */
static bool has_runtime(struct pod *p)
{
	autoptr(arena) a = arena_new();
	struct plan_oci oci;
	struct err *e = pod_runtime_find(p, a, &oci);

	if (!e)
		return true;
	if (held_up(p, err_text(e)))
		pod_event(p, true, "FailedCreatePodSandBox", "Failed to create pod sandbox: %s",
			  err_text(e));
	retry_in(p, MISSING_RETRY_MS);
	err_free(e);
	return false;
}

static void tell_what_lacks(struct pod *p)
{
	const char *lacks = pod_runtime_lacks(p);

	if (lacks)
		pod_event(p, true, "RuntimeLacks", "RuntimeClass \"%s\": %s",
			  p->view->runtime_class, lacks);
}

/* Every Pod of a Sandbox may ask who it is, unless its template wants no such thing: members of a
 * pool do not know yet whose they will be. */
static struct err *offer_identity(struct pod *p)
{
	if (!p->pods->inside || owner_view_of(p->obj).type != OWNER_SANDBOX ||
	    str_eq(object_annotation(p->obj, KEY_IDENTITY), "none"))
		return NULL;
	return inside_offer(p->pods->inside, p->obj->uid);
}

static bool act_prepare(struct pod *p)
{
	struct volume_pod v = pod_volumes(p);
	struct err *e;

	if (!has_runtime(p))
		return false;
	e = volumes_prepare(p->pods->volumes, &v);
	if (!e)
		e = offer_identity(p);
	if (!e) {
		tell_what_lacks(p);
		pod_enter(p, POD_CONNECTING);
		return true;
	}
	if (held_up(p, err_text(e)) && !err_is(e, ERR_TIMEOUT))
		pod_event(p, true, "FailedMount", "%s", err_text(e));
	retry_in(p, err_is(e, ERR_UNAVAILABLE) ? MISSING_RETRY_MS : PREPARE_RETRY_MS);
	err_free(e);
	return false;
}

/* Usually there is a network soon. If the host cannot make any, that must be visible. */
static void wait_for_net(struct pod *p)
{
	const char *trouble = p->pods->rt->trouble(p->pods->rt_ctx);

	if (trouble && held_up(p, trouble))
		pod_event(p, true, "FailedCreatePodSandBox", "Failed to create pod sandbox: %s",
			  trouble);
}

/* A Pod that was there before keeps its address, if nobody has it, and so does its Sandbox. */
static const char *wanted_address(struct pod *p)
{
	struct holds *h = p->pods->holds;
	const char *held = holds_address(h, p->obj);

	if (held)
		return held;
	return p->want_ip && !holds_for_other(h, p->obj, p->want_ip) ? p->want_ip : NULL;
}

static bool act_connect(struct pod *p)
{
	struct pods *ps = p->pods;

	if (!p->net) {
		p->net = ps->rt->net_take(ps->rt_ctx, wanted_address(p), &p->net_wait);
		usage_net_new(p);
	}
	if (!p->net) {
		wait_for_net(p);
		return false;
	}
	holds_taken(ps->holds, p->obj, p->net->ip);
	free(take(p->want_ip));
	pod_enter(p, POD_ACTIVE);
	return true;
}

/* The network may be another's soon: no descriptor of it stays in a socket that leads outside. */
static void put_net(struct pod *p)
{
	if (p->pods->inside)
		inside_withdraw(p->pods->inside, p->obj->uid);
	if (p->net)
		p->pods->rt->net_put(p->pods->rt_ctx, take(p->net));
}

/* Nothing of it runs any more. What an evicted one has on disk is what it was evicted for; any
 * other keeps it until it is deleted. */
static bool act_disconnect(struct pod *p)
{
	put_net(p);
	pod_save(p); /* the address may soon be another Pod's */
	if (p->evicted && volumes_on_disk(p->view))
		trash_remove_disk(&p->pods->jobs, p->pods->disk, INSTANCE_PODS, p->obj->uid);
	return true;
}

static bool act_fail(struct pod *p, const struct pod_plan *plan)
{
	const struct container *c = p->containers[plan->culprit];
	autofree char *text = NULL;

	switch (plan->failure) {
	case POD_FAILURE_NONE:
		pod_enter(p, POD_FAILED);
		break;
	case POD_FAILURE_DEADLINE:
		pod_fail(p, "DeadlineExceeded",
			 "Pod was active on the node longer than the specified deadline");
		break;
	case POD_FAILURE_EVICTED:
		pod_event(p, true, "Evicted", "%s", p->evicted);
		pod_fail(p, "Evicted", p->evicted);
		break;
	case POD_FAILURE_INIT:
		text = xasprintf("init container %s failed with exit code %d", c->view->name,
				 c->end.code);
		pod_fail(p, "InitContainerFailed", text);
		break;
	}
	return true;
}

static void on_synced(struct client_write *w, struct err *e, unused struct object *obj)
{
	struct pod *p = container_of(w, struct pod, sync);

	err_free(e);
	pod_enter(p, POD_STOPPING);
	pod_wake(p);
}

/* Nobody deleted it: it ends with the node. */
static void shut_down(struct pod *p)
{
	p->shut_down = true;
	p->reason = "Terminated";
	free(p->message);
	p->message = xstrdup(POD_SHUT_DOWN);
}

static bool act_sync(struct pod *p)
{
	if (p->phase <= POD_FINISHING && !p->gone && !p->view->deleting)
		shut_down(p);
	pod_enter(p, POD_SYNCING);
	p->sync.done = on_synced;
	client_sync(p->pods->client, &p->sync);
	return p->phase != POD_SYNCING;
}

static usec grace_of(const struct pod *p)
{
	usec own = MIN(p->view->grace_s, (int64_t)GRACE_MAX_S) * 1000000;

	if (p->gone)
		return 0;
	return p->pods->stopping ? MIN(own, pod_stop_round(p)) : own;
}

bool pod_hurry(struct pod *p)
{
	usec until = pods_now(p->pods) + grace_of(p);

	if (p->phase != POD_TERMINATING || until >= p->grace_until)
		return false;
	p->grace_until = until;
	return true;
}

bool pod_leaves(const struct pod *p)
{
	if (!p->gone && !p->view->deleting)
		return false;
	return p->phase < POD_TERMINATING ? !grace_of(p) : p->grace_until <= pods_now(p->pods);
}

static bool act_stop(struct pod *p)
{
	usec grace = grace_of(p);

	pod_enter(p, POD_TERMINATING);
	p->grace_until = pods_now(p->pods) + grace;
	if (p->shut_down)
		pod_save(p); /* before anything of it ends */
	for (size_t i = 0; i < p->n_containers; i++) {
		struct container *c = p->containers[i];

		if (!container_live(c->state) || (grace && c->view->sidecar))
			continue; /* a sidecar's turn comes when the others have ended */
		pod_event(p, false, "Killing", "Stopping container %s", c->view->name);
		if (grace)
			container_term(c);
	}
	return true;
}

/* A sidecar has as much time as if the Pod were deleted. */
static bool act_finish(struct pod *p)
{
	pod_enter(p, POD_FINISHING);
	p->grace_until = pods_now(p->pods) + grace_of(p);
	return true;
}

struct cleaning {
	struct pods *pods;
	char *uid;
	struct err *err;
};

static void clean_work(void *arg)
{
	struct cleaning *c = arg;

	c->err = diskpool_remove(c->pods->disk, INSTANCE_PODS, c->uid);
}

static void clean_done(void *arg)
{
	struct cleaning *c = arg;
	struct pod *p = map_get(c->pods->pods, c->uid);

	if (c->err)
		log_warn("cannot remove the directory of a Pod, leaving it to the next start",
			 KV("uid", c->uid), KV("err", c->err));
	if (p) {
		pod_enter(p, POD_LETTING_GO);
		pod_wake(p);
	}
	err_free(c->err);
	free(c->uid);
	free(c);
}

static void drop_logs(struct pod *p)
{
	const struct runtime_ops *rt = p->pods->rt;

	for (size_t i = 0; i < p->n_containers; i++) {
		struct container *c = p->containers[i];

		if (c->log)
			rt->drop_log(p->pods->rt_ctx, c->log);
		if (c->prev_log)
			rt->drop_log(p->pods->rt_ctx, c->prev_log);
	}
}

/* What is in memory is removed at once. What is on disk is removed by a job, or after a crash by
 * the next start. */
static bool clean(struct pod *p)
{
	struct cleaning *c;

	volumes_forget(p->pods->volumes, p->obj->uid);
	pod_record_remove(p->pods->run_fd, p->obj->uid);
	drop_logs(p);
	if (!volumes_on_disk(p->view)) {
		pod_enter(p, POD_LETTING_GO);
		return true;
	}
	c = xnew(struct cleaning);
	*c = (struct cleaning){ .pods = p->pods, .uid = xstrdup(p->obj->uid) };
	jobs_run(&p->pods->jobs, clean_work, clean_done, c);
	return false;
}

static void on_held(struct holds_wait *w)
{
	struct pod *p = container_of(w, struct pod, hold_wait);

	if (clean(p))
		pod_wake(p);
}

/* Its state file has the address until the hold is on the disk. */
static bool act_clean(struct pod *p)
{
	pod_enter(p, POD_CLEANING);
	put_net(p);
	p->hold_wait.saved = on_held;
	if (p->address_held && holds_await(p->pods->holds, &p->hold_wait))
		return false;
	return clean(p);
}

static void on_let_go(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	if (e && !err_is(e, ERR_NOT_FOUND) && !err_is(e, ERR_CONFLICT))
		log_warn("cannot delete a Pod, trying again", KV("err", e));
	err_free(e);
}

/* The watch reports when the object is gone, and that ends the Pod. */
static bool act_let_go(struct pod *p)
{
	autoptr(object) o = object_ref(p->obj); /* the write may replace it */
	const struct client_delete_spec spec = { .uid = o->uid, .grace_s = 0 };
	const struct client_ref ref = { .kind = p->pods->kind_pod, .ns = o->ns, .name = o->name };

	retry_in(p, LET_GO_RETRY_MS); /* if it is still there then */
	client_cancel(&p->letting_go);
	p->letting_go.done = on_let_go;
	client_delete(p->pods->client, &ref, &spec, &p->letting_go);
	return p->gone;
}

static bool container_act(struct container *c, enum container_step step)
{
	switch (step) {
	case CONTAINER_STEP_NONE:
	case CONTAINER_STEP_MAX_:
		return false;
	case CONTAINER_STEP_LAUNCH:
		return container_launch(c);
	case CONTAINER_STEP_RESTART:
		container_restart(c);
		return true;
	case CONTAINER_STEP_REPLACE:
		pod_event(c->pod, false, "Killing",
			  "Container %s failed its probe or hook and is ended", c->view->name);
		container_replace(c);
		return true;
	case CONTAINER_STEP_TERM:
		pod_event(c->pod, false, "Killing", "Stopping container %s", c->view->name);
		container_term(c);
		return true;
	case CONTAINER_STEP_KILL:
		container_kill(c);
		return true;
	}
	return false;
}

static bool pod_step(struct pod *p, const struct pod_plan *plan)
{
	switch (plan->step) {
	case POD_STEP_NONE:
	case POD_STEP_FORGET: /* the caller's */
	case POD_STEP_MAX_:
		return false;
	case POD_STEP_ADMIT:
		return act_admit(p);
	case POD_STEP_PREPARE:
		return act_prepare(p);
	case POD_STEP_CONNECT:
		return act_connect(p);
	case POD_STEP_FINISH:
		return act_finish(p);
	case POD_STEP_SUCCEED:
		pod_enter(p, POD_SUCCEEDED);
		return true;
	case POD_STEP_DISCONNECT:
		return act_disconnect(p);
	case POD_STEP_FAIL:
		return act_fail(p, plan);
	case POD_STEP_SYNC:
		return act_sync(p);
	case POD_STEP_STOP:
		return act_stop(p);
	case POD_STEP_CLEAN:
		return act_clean(p);
	case POD_STEP_LET_GO:
		return act_let_go(p);
	}
	return false;
}

bool pod_act(struct pod *p, const struct pod_plan *plan, const enum container_step *steps)
{
	bool moved = false;

	for (size_t i = 0; i < p->n_containers; i++)
		if (container_act(p->containers[i], steps[i]))
			moved = true;
	return pod_step(p, plan) || moved;
}
