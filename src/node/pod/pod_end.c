/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "api/kind.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/pod/pod_priv.h"

/*
 * The end of a Pod: wait until its deletion is durable, ask the commands to end, kill what is left
 * when the grace is over, remove every trace, and only then let go of the object. A crash anywhere
 * in between is repaired by the next start, which finds the same object or none.
 */
enum {
	STOP_GRACE_S = 5, /* when the whole node stops */
};

struct cleaning {
	struct node *node;
	char *uid;
	char *dir;
	struct err *err;
};

void pod_drop(struct pod *p)
{
	if (p->net)
		net_free(p->node, take(p->net));
}

static void on_synced(struct client_write *w, unused struct err *e, unused struct object *obj)
{
	struct pod *p = container_of(w, struct pod, end_sync);

	p->sync_done = true;
	node_wake(p->node, p);
}

static bool durable(struct pod *p)
{
	if (p->sync_done)
		return true;
	if (p->sync_asked)
		return false;
	p->sync_asked = true;
	p->end_sync.done = on_synced;
	client_sync(p->node->client, &p->end_sync);
	return p->sync_done;
}

static uint64_t grace_ms(const struct pod *p)
{
	const struct json *meta = json_get(p->obj->root, "metadata");
	int64_t s = json_get_int(meta, "deletionGracePeriodSeconds",
				 json_get_int(pod_spec(p), "terminationGracePeriodSeconds", 30));

	if (p->node->stopping)
		s = MIN(s, (int64_t)STOP_GRACE_S);
	else if (p->gone)
		return 0;
	return (uint64_t)MIN(MAX(s, (int64_t)0), (int64_t)3600) * 1000;
}

static void begin(struct pod *p)
{
	uint64_t ms = grace_ms(p);

	p->phase = POD_TERMINATING;
	timer_clear(p->retry);
	for (size_t i = 0; i < p->n_containers; i++) {
		struct container *c = &p->containers[i];

		if (!container_live(c))
			continue;
		event_add(p->node, p->obj, false, "Killing", "Stopping container %s", c->name);
		if (ms)
			container_term(c);
	}
	if (ms)
		timer_set(p->grace, ms);
}

static void on_deleted(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	if (e && !err_is(e, ERR_NOT_FOUND) && !err_is(e, ERR_CONFLICT))
		log_warn("Pod was not deleted, the next pass tries again", KV("err", e));
	err_free(e);
}

/* The watch tells of the object's end, and that frees the Pod. */
static void let_go(struct pod *p)
{
	struct client_delete_spec spec = { .uid = p->uid, .grace_s = 0 };
	struct node *n = p->node;
	autofree char *ns = xstrdup(p->obj->ns), *name = xstrdup(p->obj->name);

	if (p->gone) {
		(void)map_del(n->pods, p->uid);
		claims_sweep(n);
		return;
	}
	timer_set(p->retry, 2000); /* if it is still there then */
	client_cancel(&p->end_delete);
	p->end_delete.done = on_deleted;
	client_delete(n->client,
		      &(struct client_ref){ .kind = n->kinds.pod, .ns = ns, .name = name }, &spec,
		      &p->end_delete);
}

static void clean_work(void *arg)
{
	struct cleaning *c = arg;

	c->err = file_remove_tree(AT_FDCWD, c->dir);
}

static void clean_done(void *arg)
{
	struct cleaning *c = arg;
	struct pod *p = map_get(c->node->pods, c->uid);

	if (c->err)
		log_warn("directory of a Pod was not removed, the next start tries again",
			 KV("uid", c->uid), KV("err", c->err));
	if (p) {
		p->phase = POD_DONE;
		let_go(p);
	}
	err_free(c->err);
	free(c->uid);
	free(c->dir);
	free(c);
}

/* What is in memory goes at once; roots go in their own time, and a crash leaves them to the next
 * start. */
static void forget(struct pod *p)
{
	autofree char *state = pod_state_path(p), *objects = pod_objects_dir(p);
	struct err *e = file_remove_tree(AT_FDCWD, objects);

	if (e)
		log_warn("volumes of a Pod were not removed", KV("err", e));
	err_free(e);
	(void)unlinkat(p->node->run_fd, state, 0);
	for (size_t i = 0; i < p->n_containers; i++) {
		struct container *c = &p->containers[i];

		if (c->root)
			node_remove_tree(p->node, root_path(p->node, c->root));
		if (c->prev)
			node_remove_tree(p->node, root_path(p->node, c->prev));
	}
}

static bool has_disk_volume(const struct pod *p)
{
	json_each(v, json_get(pod_spec(p), "volumes"))
		if (json_get(v.val, "emptyDir"))
			return true;
	return false;
}

static void clean(struct pod *p)
{
	struct cleaning *c;

	p->phase = POD_CLEANING;
	pod_drop(p);
	forget(p);
	if (!has_disk_volume(p)) {
		p->phase = POD_DONE;
		let_go(p);
		return;
	}
	c = xnew(struct cleaning);
	c->node = p->node;
	c->uid = xstrdup(p->uid);
	c->dir = pod_dir(p);
	node_job(p->node, clean_work, clean_done, c);
}

void pod_terminate(struct pod *p)
{
	bool live = false;

	if (p->phase == POD_CLEANING || !durable(p))
		return;
	if (p->phase == POD_ACTIVE || (p->phase == POD_DONE && !p->killed)) {
		p->killed = true;
		begin(p);
	}
	for (size_t i = 0; i < p->n_containers; i++)
		live = live || container_live(&p->containers[i]);
	if (live && !timer_armed(p->grace))
		for (size_t i = 0; i < p->n_containers; i++)
			container_kill(&p->containers[i]);
	if (p->phase == POD_TERMINATING && !live)
		clean(p);
	else if (p->phase == POD_DONE)
		let_go(p);
}
