/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "server/server_priv.h"

/*
 * Namespaces: the ones that always exist, the service account that each has, and their end: first
 * everything in one is deleted, then, once nothing is left, the namespace itself.
 */
enum {
	AGAIN_MS = 1000, /* an end that something holds up is looked at again this often */
};

struct namespaces {
	struct server *s;
	struct map *touched; /* names to look at */
	struct timer *again;
	struct deferred run;
};

static void touch(struct namespaces *n, const char *name)
{
	map_put(n->touched, name, n);
	deferred_call(&n->run);
}

static bool terminating(const struct server *s, const char *name)
{
	const struct object *ns = find_object(s, s->kinds.namespace, "", name);

	return ns && object_deleting(ns);
}

struct err *namespace_open(const struct server *s, const struct kind *k, const char *ns,
			   const char *name)
{
	autofree char *why = NULL;

	if (!(k->flags & KIND_NAMESPACED))
		return NULL;
	if (!find_object(s, s->kinds.namespace, "", ns))
		return err_absent(s->kinds.namespace, ns);
	if (!terminating(s, ns))
		return NULL;
	why = xasprintf(
		"unable to create new content in namespace %s because it is being terminated", ns);
	return err_forbidden(k, name, why);
}

static struct err *create(struct server *s, const struct kind *k, const char *ns, const char *name)
{
	struct json_doc *d = json_doc_new();
	autoop op = { .s = s,
		      .user = "system:cay:namespaces",
		      .kind = k,
		      .ns = ns,
		      .name = name,
		      .sub = "" };
	struct err *e;

	json_set_root(d, json_obj(d));
	e = op_decode(&op, &(struct decode_input){ .media = DECODE_TREE, .tree = d }, &d);
	return e ? e : op_create(&op, d);
}

static struct err *need(struct server *s, const struct kind *k, const char *ns, const char *name)
{
	return find_object(s, k, ns, name) ? NULL : create(s, k, ns, name);
}

/* Deletes what is there; the number that stays for now, because something holds it. */
static size_t empty_kind(struct namespaces *n, const struct kind *k, const char *name)
{
	struct delete_options options = { .propagation = "Background", .grace_s = -1 };
	autobuf prefix = { 0 };
	struct store_entry *en;
	autofree char *after = NULL;
	size_t left = 0;

	key_prefix(&prefix, k, name);
	while ((en = store_next(n->s->store, buf_str(&prefix), after))) {
		autoptr(object) o = object_ref(en->tag);
		autoop op = { .s = n->s,
			      .user = "system:cay:namespaces",
			      .kind = k,
			      .ns = o->ns,
			      .name = o->name,
			      .sub = "" };

		free(after);
		after = xstrdup(en->key);
		if (object_deleting(o)) {
			left++;
			continue;
		}
		err_free(op_delete(&op, &options)); /* tried again as long as it is there */
		left += !op.removed;
	}
	return left;
}

static size_t empty(struct namespaces *n, const char *name)
{
	const struct kind *const *all;
	size_t count, left = 0;

	all = kinds_all(n->s->registry, &count);
	for (size_t i = 0; i < count; i++)
		if ((all[i]->flags & KIND_NAMESPACED) && kind_storage(all[i]) == all[i])
			left += empty_kind(n, all[i], name);
	return left;
}

static void end(struct namespaces *n, const struct object *ns)
{
	autoop op = { .s = n->s,
		      .user = "system:cay:namespaces",
		      .kind = n->s->kinds.namespace,
		      .ns = "",
		      .name = ns->name,
		      .sub = "" };

	if (json_len(json_get(json_get(ns->root, "metadata"), "finalizers")))
		return; /* its change will bring us back */
	log_info("namespace ended", KV("namespace", ns->name));
	err_free(op_remove(&op)); /* tried again */
}

static void look_at(struct namespaces *n, const char *name)
{
	autoptr(object) ns = object_ref(find_object(n->s, n->s->kinds.namespace, "", name));
	struct err *e;

	if (!ns)
		return;
	if (!object_deleting(ns)) {
		e = need(n->s, n->s->kinds.service_account, name, "default");
		if (e)
			log_warn("cannot make the default service account, trying again with the "
				 "next change",
				 KV("namespace", name), KV("err", e));
		err_free(e);
		return;
	}
	if (empty(n, name) == 0)
		end(n, ns);
	if (find_object(n->s, n->s->kinds.namespace, "", name))
		timer_set(n->again, AGAIN_MS);
}

static void run(void *arg)
{
	struct namespaces *n = arg;
	autoptr(map) todo = n->touched;

	n->touched = map_new(NULL);
	map_each(it, todo)
		look_at(n, it.key);
}

static void look_at_all(void *arg)
{
	struct namespaces *n = arg;
	struct store_entry *en = NULL;

	while ((en = store_next(n->s->store, "namespaces/", en ? en->key : NULL)))
		if (object_deleting(en->tag))
			touch(n, ((struct object *)en->tag)->name);
}

void namespaces_changed(struct namespaces *n, const struct store_event *ev)
{
	const struct object *o = ev->entry->tag;

	if (!n)
		return;
	if (o->kind == n->s->kinds.namespace) {
		if (ev->type != STORE_DELETED)
			touch(n, o->name);
		return;
	}
	/* The last object of a namespace that ends, or an account that has to be there. */
	if (ev->type == STORE_DELETED && *o->ns &&
	    (o->kind == n->s->kinds.service_account || terminating(n->s, o->ns)))
		touch(n, o->ns);
}

struct err *namespaces_bootstrap(struct server *s)
{
	static const char *const names[] = { "default", "kube-system", "agent-sandbox-system" };
	struct store_entry *en = NULL;
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		e = need(s, s->kinds.namespace, "", names[i]);
		if (e)
			return err_wrap(e, "make namespace %s", names[i]);
		if (terminating(s, names[i]))
			continue;
		e = need(s, s->kinds.service_account, names[i], "default");
		if (e)
			return err_wrap(e, "make service account %s/default", names[i]);
	}
	while ((en = store_next(s->store, "namespaces/", en ? en->key : NULL)))
		touch(s->namespaces, ((struct object *)en->tag)->name);
	return NULL;
}

struct namespaces *namespaces_new(struct server *s)
{
	struct namespaces *n = xnew(struct namespaces);

	n->s = s;
	n->touched = map_new(NULL);
	n->again = timer_new(s->loop, look_at_all, n);
	deferred_init(&n->run, s->loop, run, n);
	return n;
}

void namespaces_free(struct namespaces *n)
{
	if (!n)
		return;
	map_free(n->touched);
	timer_free(n->again);
	deferred_cancel(&n->run);
	free(n);
}
