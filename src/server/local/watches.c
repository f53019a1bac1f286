/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/mem.h"
#include "base/str.h"
#include "server/local/local_priv.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * The watches of this process. The store calls locals_changed() within each write, so whoever
 * watches may only note the change and queue a key.
 */
struct local_watch {
	struct list link;        /* of locals->watches */
	const struct kind *kind; /* a reference */
	char *ns;                /* NULL: all */
	struct selector *labels;
	struct client_watch_events ev;
	void *arg;
};

static bool watch_wants(const struct local_watch *w, const struct object *o)
{
	return (!w->ns || str_eq(w->ns, o->ns)) &&
	       (!w->labels ||
		selector_matches_labels(w->labels,
					json_get(json_get(o->root, "metadata"), "labels")));
}

void locals_changed(void *arg, const struct store_event *ev)
{
	struct locals *ls = arg;
	struct object *any = ev->entry->tag;
	struct object *now = ev->type == STORE_DELETED ? NULL : any;
	autoptr(object) prev = ev->prev ? objects_of_entry(ls->objects, ev->prev) : NULL;
	/* A deleted object is shown in its last state, with the revision of its deletion. */
	struct object *was = ev->type == STORE_DELETED ? any : prev;
	struct local_watch *w, *next;

	list_each_safe(w, next, &ls->watches, link) {
		struct object *a = was, *b = now;

		if (w->kind != any->kind)
			continue;
		if (a && !watch_wants(w, a))
			a = NULL;
		if (b && !watch_wants(w, b))
			b = NULL;
		if (a || b)
			w->ev.changed(w->arg, a, b);
	}
}

static bool tell_existing(void *arg, struct object *o)
{
	struct local_watch *w = arg;

	if (watch_wants(w, o))
		w->ev.changed(w->arg, NULL, o);
	return true;
}

void *local_watch(void *ctx, const struct client_watch_spec *spec,
		  const struct client_watch_events *ev, void *arg)
{
	struct local *l = ctx;
	struct local_watch *w = xnew(struct local_watch);
	struct err *e;

	w->kind = kind_ref(kind_storage(spec->kind));
	w->ns = str_empty(spec->ns) ? NULL : xstrdup(spec->ns);
	w->ev = *ev;
	w->arg = arg;
	if (!str_empty(spec->label_selector)) {
		e = selector_parse_labels(spec->label_selector, &w->labels);
		assert(!e); /* a constant of our own */
		err_free(e);
	}
	list_add_tail(&l->all->watches, &w->link);
	local_each(l, w->kind, w->ns, tell_existing, w);
	if (ev->synced)
		ev->synced(arg);
	return w;
}

void local_watch_free(void *ctx unused, void *watch)
{
	struct local_watch *w = watch;

	list_del(&w->link);
	selector_free(w->labels);
	kind_unref(w->kind);
	free(w->ns);
	free(w);
}
