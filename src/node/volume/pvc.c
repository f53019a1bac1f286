/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/kind.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/pod/pod_priv.h"

/*
 * PersistentVolumeClaims: bound at once to a directory of their own, which the first use makes and
 * which lives as long as the claim. It is removed when the claim's deletion is durable and no Pod
 * uses it any more.
 */
struct claim {
	struct node *node;
	char *ns, *name, *uid;
	bool gone, durable;
	struct deferred later;
	struct client_write bind, sync;
};

static void claim_free(void *arg)
{
	struct claim *c = arg;

	client_cancel(&c->bind);
	client_cancel(&c->sync);
	free(c->ns);
	free(c->name);
	free(c->uid);
	free(c);
}

char *claim_dir(const struct node *n, const char *uid)
{
	return xasprintf("%s/volumes/%s", n->data_dir, uid);
}

static void on_bound(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	if (e && !err_is(e, ERR_NOT_FOUND) && !err_is(e, ERR_CONFLICT))
		log_warn("claim was not bound", KV("err", e));
	err_free(e);
}

static void bind_claim(struct claim *c, const struct object *o)
{
	const struct json *spec = object_spec(o);
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *status;

	json_set_root(d, root);
	json_set_str(d, json_need_obj(d, root, "metadata"), "uid", o->uid);
	status = json_need_obj(d, root, "status");
	json_set_str(d, status, "phase", "Bound");
	json_set(d, status, "accessModes", json_copy(d, json_get(spec, "accessModes")));
	json_set(d, json_need_obj(d, status, "capacity"), "storage",
		 json_copy(d, json_at_path(spec, "resources.requests.storage")));
	client_cancel(&c->bind);
	c->bind.done = on_bound;
	client_patch(
		c->node->client,
		&(struct client_ref){
			.kind = c->node->kinds.pvc, .ns = o->ns, .name = o->name, .sub = "status" },
		PATCH_MERGE, d, &c->bind);
}

static void bind_all(void *arg)
{
	struct claim *ref = arg, *c = map_get(ref->node->claims, ref->uid);
	autoptr(object) o = client_get(ref->node->client, ref->node->kinds.pvc, ref->ns, ref->name);

	if (c && o && !str_eq(json_get_str(object_status(o), "phase"), "Bound"))
		bind_claim(c, o);
	claim_free(ref);
}

static struct claim *claim_new(struct node *n, const struct object *o)
{
	struct claim *c = xnew(struct claim);

	c->node = n;
	c->ns = xstrdup(o->ns);
	c->name = xstrdup(o->name);
	c->uid = xstrdup(o->uid);
	return c;
}

/* fn with a claim of its own, which it frees. */
static void claim_defer(struct node *n, const struct object *o, void (*fn)(void *arg))
{
	struct claim *c = claim_new(n, o);

	deferred_init(&c->later, n->loop, fn, c);
	deferred_call(&c->later);
}

static bool in_use(struct node *n, const struct claim *c)
{
	map_each(it, n->pods) {
		struct pod *p = it.value;

		if (str_eq(p->obj->ns, c->ns) && volumes_use_claim(p, c->name))
			return true;
	}
	return false;
}

void claims_sweep(struct node *n)
{
	map_each(it, n->claims) {
		struct claim *c = it.value;

		if (!c->gone || !c->durable || in_use(n, c))
			continue;
		node_remove_tree(n, claim_dir(n, c->uid));
		(void)map_del(n->claims, it.key);
	}
}

static void on_durable(struct client_write *w, unused struct err *e, unused struct object *obj)
{
	struct claim *c = container_of(w, struct claim, sync);

	c->durable = true;
	claims_sweep(c->node);
}

static void ask_durable(void *arg)
{
	struct claim *ref = arg, *c = map_get(ref->node->claims, ref->uid);

	if (c) {
		c->sync.done = on_durable;
		client_sync(ref->node->client, &c->sync);
	}
	claim_free(ref);
}

static void claim_changed(void *arg, unused struct object *was, struct object *now)
{
	struct node *n = arg;
	struct object *o = now ? now : was;
	struct claim *c;

	if (now) {
		if (!str_eq(json_get_str(object_status(now), "phase"), "Bound"))
			claim_defer(n, now, bind_all);
		if (!map_has(n->claims, now->uid))
			map_put(n->claims, now->uid, claim_new(n, now));
		if (!was)
			node_wake_waiting(n);
		return;
	}
	c = map_get(n->claims, o->uid);
	if (!c)
		return;
	c->gone = true;
	claim_defer(n, o, ask_durable);
}

/* What an earlier life could not remove. */
static void claims_known(void *arg)
{
	struct node *n = arg;
	autofree char *path = xasprintf("%s/volumes", n->data_dir);
	DIR *d = opendir(path);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.' && !map_has(n->claims, de->d_name))
			node_remove_tree(n, claim_dir(n, de->d_name));
	if (d)
		(void)closedir(d);
}

void claims_start(struct node *n)
{
	static const struct client_watch_events events = { .changed = claim_changed,
							   .synced = claims_known };
	struct client_watch_spec spec = { .kind = n->kinds.pvc };

	n->claims = map_new(claim_free);
	n->watch_claims = client_watch(n->client, &spec, &events, n);
}

void claims_stop(struct node *n)
{
	client_watch_free(n->watch_claims);
	n->watch_claims = NULL;
}
