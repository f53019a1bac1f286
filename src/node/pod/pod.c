/* SPDX-License-Identifier: Apache-2.0 */
#include "node/pod/pod.h"

#include <assert.h>

#include "api/agents.h"
#include "api/meta.h"
#include "api/view.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "node/image/image.h"
#include "node/pod/pod_priv.h"

/* The Pod object itself: its creation, phases, state file and end. act.c does things to it. */
enum {
	/* A start that takes longer is reported before it is complete. */
	QUIET_MS = 300,
	QUIET_AHEAD_MS = 30 * 1000, /* of a Pod that nobody waits for */
};

static void on_net(struct runtime_wait *w)
{
	pod_wake(container_of(w, struct pod, net_wait));
}

static void view_again(struct pod *p)
{
	arena_free(p->arena);
	p->arena = arena_new();
	p->view = pod_view_new(p->obj, p->arena);
}

/* A member of a warm pool that no claim has yet. */
bool pod_made_ahead(const struct pod *p)
{
	return json_get(p->view->labels, KEY_POOL);
}

struct pod *pod_new(struct pods *ps, struct object *obj)
{
	struct pod *p = xnew(struct pod);

	p->pods = ps;
	p->obj = object_ref(obj);
	view_again(p);
	p->started = pods_wall(ps);
	p->quiet_until = pods_now(ps) + (pod_made_ahead(p) ? QUIET_AHEAD_MS : QUIET_MS) * 1000;
	p->pvcs = map_new(NULL);
	pod_waits_init(p);
	p->net_wait.ready = on_net;
	p->net_wait.later = pod_made_ahead(p);
	list_init(&p->net_wait.on);
	list_init(&p->hold_wait.on);
	p->n_init = p->view->n_init;
	p->n_containers = p->view->n_containers;
	p->containers = xnew_n(struct container *, p->n_containers + 1);
	for (size_t i = 0; i < p->n_containers; i++) {
		p->containers[i] = container_new(p, &p->view->containers[i]);
		container_size_restore(p->containers[i]);
	}
	usage_restore(p);
	if (pod_view_over(p->view))
		pod_enter(p, POD_OVER);
	return p;
}

void pod_free(struct pod *p)
{
	if (!p)
		return;
	pod_sleep_done(p);
	pod_waits_done(p);
	pod_room_put(p);
	client_cancel(&p->report_write);
	client_cancel(&p->sync);
	client_cancel(&p->letting_go);
	for (size_t i = 0; i < p->n_containers; i++)
		container_free(p->containers[i]);
	free(p->containers);
	list_del(&p->net_wait.on);
	list_del(&p->hold_wait.on);
	if (p->net)
		p->pods->rt->net_put(p->pods->rt_ctx, p->net);
	map_free(p->pvcs);
	arena_free(p->arena);
	object_unref(p->obj);
	free(p->message);
	free(p->resize_message);
	free(p->want_ip);
	free(p->evicted);
	free(p);
}

/* Its containers never change, but for ephemeral ones that are added. */
static bool keeps_containers(const struct pod *p, const struct pod_view *v)
{
	if (v->n_init != p->n_init ||
	    v->n_containers - v->n_ephemeral != p->view->n_containers - p->view->n_ephemeral)
		return false;
	for (size_t i = 0; i < p->n_containers; i++)
		if (!pod_view_container(v, p->containers[i]->view->name))
			return false;
	return true;
}

/* The order in the object is nobody's business: ours is that of their arrival. */
static void add_ephemeral(struct pod *p, const struct pod_view *v)
{
	if (v->n_containers <= p->n_containers)
		return;
	p->containers = xrealloc(p->containers, (v->n_containers + 1) * sizeof(*p->containers));
	for (size_t i = v->n_containers - v->n_ephemeral; i < v->n_containers; i++)
		if (!pod_container(p, v->containers[i].name))
			p->containers[p->n_containers++] = container_new(p, &v->containers[i]);
}

/* An object that says otherwise is ignored. */
void pod_update(struct pod *p, struct object *obj)
{
	autoptr(arena) a = arena_new_sized(arena_used(p->arena));
	struct pod_view *v = pod_view_new(obj, a);

	if (!keeps_containers(p, v)) {
		log_warn("containers of a Pod have changed, keeping the old ones",
			 KV("pod", obj->name));
		return;
	}
	for (size_t i = 0; i < p->n_containers; i++)
		container_resized(p->containers[i],
				  pod_view_container(v, p->containers[i]->view->name));
	object_ref(obj);
	object_unref(p->obj);
	p->obj = obj;
	for (size_t i = 0; i < p->n_containers; i++)
		p->containers[i]->view = pod_view_container(v, p->containers[i]->view->name);
	arena_free(p->arena);
	p->arena = take(a);
	p->view = v;
	add_ephemeral(p, v);
}

/* A Pod that will not start any more leaves the lines that it waits in. */
static void leave_lines(struct pod *p)
{
	list_del(&p->net_wait.on);
	for (size_t i = 0; i < p->n_containers; i++)
		list_del(&p->containers[i]->slot.on);
}

void pod_enter(struct pod *p, enum pod_phase next)
{
	assert(pod_may_move(p->phase, next));
	log_debug("Pod changed phase", KV("pod", p->obj->name),
		  KV("from", pod_phase_name(p->phase)), KV("to", pod_phase_name(next)));
	p->phase = next;
	p->retry_at = 0;
	if (next > POD_ACTIVE)
		leave_lines(p);
	if (next == POD_PREPARING)
		pod_room_take(p);
	else if (next == POD_SUCCEEDED || next == POD_FAILED || next == POD_CLEANING)
		pod_room_put(p);
}

struct container *pod_container(struct pod *p, const char *name)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (str_eq(p->containers[i]->view->name, name))
			return p->containers[i];
	return NULL;
}

struct volume_pod pod_volumes(const struct pod *p)
{
	return (struct volume_pod){ .view = p->view,
				    .ip = p->net ? p->net->ip : NULL,
				    .ip6 = p->net ? p->net->ip6 : NULL,
				    .obj = p->obj,
				    .mounted = p->pvcs };
}

void pod_fail(struct pod *p, const char *reason, const char *message)
{
	p->reason = reason;
	free(p->message);
	p->message = xstrdup(message);
	pod_enter(p, POD_FAILED);
}

void pod_address_reported(struct pod *p)
{
	const struct json *status = object_status(p->obj);

	if (p->net && str_eq(json_get_str(status, "podIP"), p->net->ip) &&
	    conditions_true(json_get(status, "conditions"), "Ready"))
		holds_ready(p->pods->holds, p->obj);
}

/* Only a Pod that was deleted leaves its address to its successor, which may come before it has
 * ended: one that ends with the node runs again by itself. */
void pod_keep_address(struct pod *p)
{
	const char *ip = p->net ? p->net->ip : p->want_ip;

	if (ip && !p->address_held && (p->gone || p->view->deleting))
		p->address_held = holds_keep(p->pods->holds, p->obj, ip);
}

void pod_mounts_pvcs(struct pod *p, const char *const *handles)
{
	for (; handles && *handles; handles++)
		map_put(p->pvcs, *handles, p);
}

static const char **pvc_list(const struct pod *p, struct arena *a)
{
	const char **list = arena_new_n(a, const char *, map_len(p->pvcs) + 1);
	size_t n = 0;

	map_each(it, p->pvcs)
		list[n++] = arena_strdup(a, it.key);
	return list;
}

static struct container_record container_record(const struct container *c)
{
	struct container_record r = {
		.name = c->view->name,
		.log = c->log,
		.prev_log = c->prev_log,
		.restarts = c->restarts,
		.unstarted = c->task && c->unstarted,
		.exited = c->task && c->exited,
		.end = c->end,
		.last = c->last,
	};

	if (c->task) {
		r.task = *c->pod->pods->rt->record(c->task);
		r.image = c->image ? c->image->id : NULL;
		r.started = c->started;
	}
	return r;
}

struct err *pod_try_save(struct pod *p)
{
	autoptr(arena) a = arena_new();
	const struct owner_view owner = owner_view_of(p->obj);
	const bool owned = owner.type == OWNER_SANDBOX;
	struct pod_record r = {
		.ns = p->obj->ns,
		.name = p->obj->name,
		.ip = p->net ? p->net->ip : NULL,
		.sandbox = owned ? owner.name : NULL,
		.sandbox_uid = owned ? owner.uid : NULL,
		.pvcs = pvc_list(p, a),
		.started = p->started,
		.shut_down = p->shut_down,
		.containers = arena_new_n(a, struct container_record, p->n_containers + 1),
		.n_containers = p->n_containers,
	};

	for (size_t i = 0; i < p->n_containers; i++)
		r.containers[i] = container_record(p->containers[i]);
	return pod_record_save(p->pods->run_fd, p->obj->uid, &r);
}

void pod_save(struct pod *p)
{
	struct err *e = pod_try_save(p);

	if (e)
		log_error(
			"cannot write the state of a Pod; if the daemon restarts, the Pod does too",
			KV("pod", p->obj->name), KV("err", e));
	err_free(e);
}
