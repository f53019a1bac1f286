/* SPDX-License-Identifier: Apache-2.0 */
#include "late.h"

#include "base/mem.h"
#include "client/client.h"
#include "fixture.h"
#include "kinds.h"
#include "loop/loop.h"

struct late {
	struct loop *loop;
	struct client *inner;
	unsigned n_pending;
	bool closed;
};

struct late_write {
	struct late *late;
	enum {
		LATE_CREATE,
		LATE_PATCH,
		LATE_DELETE
	} verb;
	const struct kind *kind;
	char *ns, *name, *sub, *uid;
	enum patch_type how;
	struct json_doc *doc;
	struct client_delete_spec spec;
	client_done done;
	void *arg;
	struct err *e;
	struct object *obj;
};

static void late_unref(struct late *l)
{
	if (l->n_pending || !l->closed)
		return;
	client_free(l->inner);
	free(l);
}

static void write_told(void *arg)
{
	struct late_write *w = arg;
	struct late *l = w->late;

	w->done(w->arg, take(w->e), w->obj);
	object_unref(w->obj);
	free(w->ns);
	free(w->name);
	free(w->sub);
	free(w->uid);
	free(w);
	l->n_pending--;
	late_unref(l);
}

static void write_ended(void *arg, struct err *e, struct object *obj)
{
	struct late_write *w = arg;

	w->e = e;
	w->obj = object_ref(obj);
	loop_post(w->late->loop, write_told, w);
}

static void write_begins(void *arg)
{
	struct late_write *w = arg;
	struct client *c = w->late->inner;

	switch (w->verb) {
	case LATE_CREATE:
		client_create(c, w->kind, w->ns, w->doc, write_ended, w);
		break;
	case LATE_PATCH:
		client_patch(c, w->kind, w->ns, w->name, w->sub, w->how, w->doc, write_ended, w);
		break;
	case LATE_DELETE:
		client_delete(c, w->kind, w->ns, w->name, &w->spec, write_ended, w);
		break;
	}
}

static struct late_write *later(void *ctx, const struct kind *k, const char *ns, client_done done,
				void *arg)
{
	struct late *l = ctx;
	struct late_write *w = xnew(struct late_write);

	w->late = l;
	w->kind = k;
	w->ns = xstrdup(ns);
	w->done = done;
	w->arg = arg;
	l->n_pending++;
	loop_post(l->loop, write_begins, w);
	return w;
}

static void late_create(void *ctx, const struct kind *k, const char *ns, struct json_doc *obj,
			client_done done, void *arg)
{
	struct late_write *w = later(ctx, k, ns, done, arg);

	w->verb = LATE_CREATE;
	w->doc = obj;
}

static void late_patch(void *ctx, const struct kind *k, const char *ns, const char *name,
		       const char *sub, enum patch_type how, struct json_doc *patch,
		       client_done done, void *arg)
{
	struct late_write *w = later(ctx, k, ns, done, arg);

	w->verb = LATE_PATCH;
	w->name = xstrdup(name);
	w->sub = xstrdup(sub);
	w->how = how;
	w->doc = patch;
}

static void late_delete(void *ctx, const struct kind *k, const char *ns, const char *name,
			const struct client_delete_spec *spec, client_done done, void *arg)
{
	struct late_write *w = later(ctx, k, ns, done, arg);

	w->verb = LATE_DELETE;
	w->name = xstrdup(name);
	w->spec.grace_s = -1;
	if (spec)
		w->spec = *spec;
	w->uid = xstrdup(w->spec.uid);
	w->spec.uid = w->uid;
}

static struct object *late_get(void *ctx, const struct kind *k, const char *ns, const char *name)
{
	return client_get(((struct late *)ctx)->inner, k, ns, name);
}

static void late_each(void *ctx, const struct kind *k, const char *ns,
		      bool (*fn)(void *arg, struct object *o), void *arg)
{
	client_each(((struct late *)ctx)->inner, k, ns, fn, arg);
}

static void *late_watch(void *ctx, const struct client_watch_spec *spec,
			const struct client_watch_events *ev, void *arg)
{
	return client_watch(((struct late *)ctx)->inner, spec, ev, arg);
}

static void late_watch_free(void *ctx unused, void *watch)
{
	client_watch_free(watch);
}

static void late_free(void *ctx)
{
	struct late *l = ctx;

	l->closed = true;
	late_unref(l);
}

struct client *late_client(struct loop *l, struct client *inner)
{
	static const struct client_ops ops = {
		.get = late_get,
		.each = late_each,
		.watch = late_watch,
		.watch_free = late_watch_free,
		.create = late_create,
		.patch = late_patch,
		.delete_ = late_delete,
		.free = late_free,
	};
	struct late *late = xnew(struct late);

	late->loop = l;
	late->inner = inner;
	return client_new(&ops, late, test_kinds());
}
