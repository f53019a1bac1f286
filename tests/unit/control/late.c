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
	struct list writes; /* struct late_write.link */
	bool closed;
};

struct late_write {
	struct list link;
	struct late *late;
	struct client_waiter waiter;
	struct client_write write; /* of the inner client */
	enum {
		LATE_CREATE,
		LATE_PATCH,
		LATE_DELETE
	} verb;
	struct client_ref to;
	char *ns, *name, *sub, *uid;
	enum patch_type how;
	struct json_doc *doc;
	struct client_delete_spec spec;
	struct err *e;
	struct object *obj;
};

static void late_unref(struct late *l)
{
	if (!list_empty(&l->writes) || !l->closed)
		return;
	client_free(l->inner);
	free(l);
}

static void write_told(void *arg)
{
	struct late_write *w = arg;
	struct late *l = w->late;

	client_waiter_end(&w->waiter, take(w->e), w->obj);
	list_del(&w->link);
	object_unref(w->obj);
	free(w->ns);
	free(w->name);
	free(w->sub);
	free(w->uid);
	free(w);
	late_unref(l);
}

static void write_ended(struct client_write *write, struct err *e, struct object *obj)
{
	struct late_write *w = container_of(write, struct late_write, write);

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
		client_create(c, &w->to, w->doc, &w->write);
		break;
	case LATE_PATCH:
		client_patch(c, &w->to, w->how, w->doc, &w->write);
		break;
	case LATE_DELETE:
		client_delete(c, &w->to, &w->spec, &w->write);
		break;
	}
}

static struct late_write *later(void *ctx, const struct client_ref *to, struct client_write *write)
{
	struct late *l = ctx;
	struct late_write *w = xnew(struct late_write);

	w->late = l;
	client_waiter_init(&w->waiter, write);
	w->write.done = write_ended;
	w->ns = xstrdup(to->ns);
	w->name = xstrdup(to->name);
	w->sub = xstrdup(to->sub);
	w->to = (struct client_ref){ to->kind, w->ns, w->name, w->sub };
	list_add_tail(&l->writes, &w->link);
	loop_post(l->loop, write_begins, w);
	return w;
}

static void late_create(void *ctx, const struct client_ref *to, struct json_doc *obj,
			struct client_write *write)
{
	struct late_write *w = later(ctx, to, write);

	w->verb = LATE_CREATE;
	w->doc = obj;
}

static void late_patch(void *ctx, const struct client_ref *to, enum patch_type how,
		       struct json_doc *patch, struct client_write *write)
{
	struct late_write *w = later(ctx, to, write);

	w->verb = LATE_PATCH;
	w->how = how;
	w->doc = patch;
}

static void late_delete(void *ctx, const struct client_ref *to,
			const struct client_delete_spec *spec, struct client_write *write)
{
	struct late_write *w = later(ctx, to, write);

	w->verb = LATE_DELETE;
	w->spec = *spec;
	w->uid = xstrdup(spec->uid);
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
	struct late_write *w;

	list_each(w, &l->writes, link)
		client_waiter_done(&w->waiter);
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
	list_init(&late->writes);
	return client_new(&ops, late, test_kinds());
}
