/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy.h"

#include "base/mem.h"
#include "kinds.h"
#include "test.h"

static bool take_held(bool *held)
{
	bool was = *held;

	*held = false;
	return was;
}

static struct object *proxy_get(void *ctx, const struct kind *k, const char *ns, const char *name)
{
	return client_get(((struct proxy *)ctx)->inner, k, ns, name);
}

static void proxy_each(void *ctx, const struct kind *k, const char *ns,
		       bool (*fn)(void *arg, struct object *o), void *arg)
{
	client_each(((struct proxy *)ctx)->inner, k, ns, fn, arg);
}

static void *proxy_watch(void *ctx, const struct client_watch_spec *spec,
			 const struct client_watch_events *ev, void *arg)
{
	return client_watch(((struct proxy *)ctx)->inner, spec, ev, arg);
}

static void proxy_watch_free(unused void *ctx, void *watch)
{
	client_watch_free(watch);
}

static void proxy_create(void *ctx, const struct client_ref *to, struct json_doc *obj,
			 struct client_write *w)
{
	client_create(((struct proxy *)ctx)->inner, to, obj, w);
}

static void proxy_patch(void *ctx, const struct client_ref *to, enum patch_type how,
			struct json_doc *patch, struct client_write *w)
{
	struct proxy *p = ctx;

	p->n_patches++;
	if (!p->patches_fail && !p->hold_patches) {
		client_patch(p->inner, to, how, patch, w);
		return;
	}
	is_false(p->patch_held);
	client_waiter_init(&p->patch, w);
	if (p->hold_patches) {
		p->patch_held = true;
		client_patch(p->inner, to, how, patch, NULL);
		return;
	}
	json_doc_free(patch);
	client_waiter_end(&p->patch, err_new(ERR_UNAVAILABLE, "the test says so"), NULL);
}

static void proxy_delete(void *ctx, const struct client_ref *to,
			 const struct client_delete_spec *spec, struct client_write *w)
{
	client_delete(((struct proxy *)ctx)->inner, to, spec, w);
}

static void proxy_sync(void *ctx, struct client_write *w)
{
	struct proxy *p = ctx;

	if (!p->hold_syncs) {
		client_sync(p->inner, w);
		return;
	}
	is_false(p->sync_held);
	p->sync_held = true;
	client_waiter_init(&p->sync, w);
}

static void proxy_free(void *ctx)
{
	struct proxy *p = ctx;

	if (take_held(&p->patch_held))
		client_waiter_done(&p->patch);
	if (take_held(&p->sync_held))
		client_waiter_done(&p->sync);
	client_free(take(p->inner));
}

struct client *proxy_client(struct proxy *p, struct client *inner)
{
	static const struct client_ops ops = {
		.get = proxy_get,
		.each = proxy_each,
		.watch = proxy_watch,
		.watch_free = proxy_watch_free,
		.create = proxy_create,
		.patch = proxy_patch,
		.delete_ = proxy_delete,
		.sync = proxy_sync,
		.free = proxy_free,
	};

	p->inner = inner;
	return client_new(&ops, p, test_kinds());
}

void proxy_let_go(struct proxy *p)
{
	p->hold_patches = p->hold_syncs = false;
	if (take_held(&p->patch_held))
		client_waiter_end(&p->patch, NULL, NULL);
	if (take_held(&p->sync_held))
		client_waiter_end(&p->sync, NULL, NULL);
}
