/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "node/disk/trash.h"
#include "node/host/instance.h"
#include "node/image/image.h"
#include "node/pod/pod_priv.h"

/*
 * After a start, the state files say what ran and the runtime says what still does. A Pod whose
 * state cannot be read is started anew. What belongs to no Pod any more is removed by jobs once all
 * Pods are known.
 */
struct left { /* a state of an earlier run */
	struct arena *arena;
	struct pod_record record;
};

static void left_free(void *arg)
{
	struct left *l = arg;

	arena_free(l->arena);
	free(l);
}

/* What running sandboxes use must not be given out before their Pods are known. */
static void hold(struct pods *ps, const struct pod_record *r)
{
	if (r->ip)
		ps->rt->hold(ps->rt_ctx, NULL, r->ip);
	for (size_t i = 0; i < r->n_containers; i++)
		if (r->containers[i].task.id)
			ps->rt->hold(ps->rt_ctx, &r->containers[i].task, NULL);
}

static void load_state(void *arg, const char *uid)
{
	struct pods *ps = arg;
	struct left *l = xnew(struct left);
	struct err *e;

	l->arena = arena_new();
	e = pod_record_load(ps->run_fd, uid, l->arena, &l->record);
	if (e) {
		log_warn("state of a Pod cannot be read, starting it anew", KV("uid", uid),
			 KV("err", e));
		err_free(e);
		left_free(l);
		return;
	}
	hold(ps, &l->record);
	map_put(ps->left, uid, l);
}

void recover_load(struct pods *ps)
{
	ps->left = map_new(left_free);
	pod_records_each(ps->run_dir, load_state, ps);
}

static struct ending ending_copy(const struct ending *e)
{
	struct ending c = *e;

	if (!e->reason)
		return (struct ending){ 0 };
	c.reason = xstrdup(e->reason);
	c.message = xstrdup(e->message);
	c.id = xstrdup(e->id);
	return c;
}

static void find_task(struct container *c, const struct container_record *r)
{
	struct pods *ps = c->pod->pods;
	struct runtime_end end = { 0 };
	struct runtime_task *t = ps->rt->attach(ps->rt_ctx, &r->task, &end);

	if (!t) {
		container_lost(c, &end);
		runtime_end_done(&end);
		return;
	}
	err_free(ps->find_image(ps->images, c->view->image, &c->image));
	if (!c->image)
		c->image = xnew(struct image); /* the name is gone; the container runs on */
	if (r->image) {                        /* the name may stand for another one by now */
		free(c->image->id);
		c->image->id = xstrdup(r->image);
	}
	c->counted = c->view->ephemeral;
	container_attach(c, t);
}

/*
 * A record from before the start does not say when that was; the object's status does. A task whose
 * guest was never told to start the command has run nothing: the sweep removes it, and the
 * container waits as if it had not been launched.
 */
static void load_container(struct container *c, const struct container_record *r)
{
	bool ran = r->task.id && !r->unstarted;

	c->log = xstrdup(ran ? r->task.id : r->unstarted ? NULL : r->log);
	c->prev_log = xstrdup(r->prev_log);
	c->restarts = r->restarts;
	c->started = r->started ? r->started : c->view->status_started;
	c->exited = ran && r->exited;
	c->end = ending_copy(&r->end);
	if (c->exited) {
		c->end.code = r->end.code;
		c->end.signal = r->end.signal;
	}
	c->last = ending_copy(&r->last);
	if (ran)
		find_task(c, r);
	else if (c->end.reason)
		container_enter(c, CONTAINER_ENDED);
}

/* The network is held by the processes in it. Without any, it is recreated at the same address. */
static void load_net(struct pod *p, const char *ip)
{
	struct pods *ps = p->pods;

	for (size_t i = 0; ip && i < p->n_containers && !p->net; i++)
		if (p->containers[i]->task)
			p->net = ps->rt->net_adopt(ps->rt_ctx, p->containers[i]->task, ip);
	if (!p->net) {
		p->want_ip = xstrdup(ip);
		return;
	}
	holds_taken(ps->holds, p->obj, p->net->ip);
	pod_address_reported(p);
}

void recover_pod(struct pod *p)
{
	struct left *l = map_take(p->pods->left, p->obj->uid);
	const struct pod_record *r = l ? &l->record : NULL;

	if (!r)
		return;
	p->started = r->started ? r->started : p->started;
	p->renews = r->shut_down;
	for (size_t i = 0; i < r->n_containers; i++) {
		struct container *c = pod_container(p, r->containers[i].name);

		if (c && !c->log && c->state == CONTAINER_WAITING)
			load_container(c, &r->containers[i]);
	}
	load_net(p, r->ip);
	pod_slept(p);
	pod_mounts_pvcs(p, r->pvcs);
	if (r->n_containers && p->phase == POD_ADMITTING) {
		pod_enter(p, POD_PREPARING);
		p->quiet_until = 0;
	}
	left_free(l);
}

/* Leftovers */

struct sweep {
	struct pods *pods;
	size_t n;
};

static void remove_unknown_dir(void *arg, const char *uid)
{
	struct sweep *s = arg;

	if (map_has(s->pods->pods, uid))
		return;
	trash_remove_disk(&s->pods->jobs, s->pods->disk, INSTANCE_PODS, uid);
	s->n++;
}

/* Removes what a directory has under names that, less a suffix, are no Pod's uid. */
static size_t remove_unknown(struct pods *ps, enum instance_dir sub, const char *suffix)
{
	autofree char *dir = xasprintf("%s/%s", ps->run_dir, instance_dir_name(sub));
	DIR *d = opendir(dir);
	struct dirent *de;
	size_t n = 0;

	while (d && (de = readdir(d))) {
		autofree char *uid = NULL;

		if (de->d_name[0] == '.')
			continue;
		uid = str_ends(de->d_name, suffix)
			      ? xstrndup(de->d_name, strlen(de->d_name) - strlen(suffix))
			      : NULL;
		if (uid && map_has(ps->pods, uid))
			continue;
		trash_remove(&ps->jobs, xasprintf("%s/%s", dir, de->d_name));
		n++;
	}
	if (d)
		(void)closedir(d);
	return n;
}

static bool keeps_log(void *arg, const char *id)
{
	struct pods *ps = arg;

	map_each(it, ps->pods) {
		struct pod *p = it.value;

		for (size_t i = 0; i < p->n_containers; i++)
			if (str_eq(p->containers[i]->log, id) ||
			    str_eq(p->containers[i]->prev_log, id))
				return true;
	}
	return false;
}

/* Pods that were deleted, and had not ended when the daemon did. */
static void keep_addresses(struct pods *ps)
{
	map_each(it, ps->left) {
		const struct pod_record *r = &((const struct left *)it.value)->record;

		holds_keep_left(ps->holds, &(struct holds_left){ .ns = r->ns,
								 .pod = r->name,
								 .sandbox = r->sandbox,
								 .sandbox_uid = r->sandbox_uid,
								 .ip = r->ip });
	}
}

void recover_sweep(struct pods *ps)
{
	struct sweep s = { .pods = ps };

	keep_addresses(ps);
	diskpool_each(ps->disk, INSTANCE_PODS, remove_unknown_dir, &s);
	s.n += remove_unknown(ps, INSTANCE_STATE, ".json") +
	       remove_unknown(ps, INSTANCE_OBJECTS, "") + remove_unknown(ps, INSTANCE_IDENTITY, "");
	map_free(take(ps->left));
	if (s.n)
		log_info("removing what an earlier run left behind", KV("files", (uint64_t)s.n));
	ps->rt->sweep(ps->rt_ctx, keeps_log, ps);
}
