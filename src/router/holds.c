/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "base/map.h"
#include "client/client.h"
#include "loop/loop.h"
#include "router/router_priv.h"

/*
 * The requests that wait for their sandbox. We learn of a Sandbox's change from within the write
 * that makes it, so the requests that wait for it are only noted there and looked at in the next
 * turn.
 */
enum {
	HELD_MAX = 2048,
	HELD_MAX_EACH = 512,
};

static void hold_key(const char *ns, const char *name, char ret[512])
{
	(void)snprintf(ret, 512, "%s/%s", ns, name);
}

bool router_hold(struct router *r, const struct route *route, struct waiter *w)
{
	struct hold *h;
	char key[512];

	hold_key(route->ns, route->id, key);
	h = map_get(r->holds, key);
	if (r->stats.held >= HELD_MAX || (h && h->n >= HELD_MAX_EACH))
		return false;
	if (!h) {
		h = xnew(struct hold);
		list_init(&h->waiters);
		map_put(r->holds, key, h);
	}
	h->n++;
	r->stats.held++;
	w->held = true;
	list_add_tail(&h->waiters, &w->link);
	return true;
}

void router_unhold(struct router *r, const struct route *route, struct waiter *w)
{
	struct hold *h;
	char key[512];

	if (!w->held)
		return;
	w->held = false;
	hold_key(route->ns, route->id, key);
	h = map_get(r->holds, key);
	list_del(&w->link);
	r->stats.held--;
	if (h && !--h->n)
		(void)map_del(r->holds, key);
}

struct object *router_find(struct router *r, const struct route *route, struct target *ret)
{
	struct object *sandbox = client_get(r->client, r->sandboxes, route->ns, route->id);

	target_find(sandbox, route, r->spec.allow_loopback, ret);
	if (ret->state == TARGET_UNKNOWN && !r->synced)
		ret->state = TARGET_STARTING; /* the watch has not told us everything yet */
	if (ret->state == TARGET_DOWN && r->spec.wake &&
	    r->spec.wake(r->spec.wake_arg, route->ns, route->id))
		ret->state = TARGET_STARTING;
	return sandbox;
}

void holds_changed(void *arg, struct object *was, struct object *now)
{
	struct router *r = arg;
	struct object *o = now ? now : was;
	struct hold *h;
	char key[512];

	if (!r->stats.held)
		return;
	hold_key(o->ns, o->name, key);
	h = map_get(r->holds, key);
	if (!h)
		return;
	while (!list_empty(&h->waiters)) {
		struct list *link = h->waiters.next;

		list_del(link);
		list_add_tail(&r->woken, link);
	}
	timer_set(r->waker, 0);
}

void holds_synced(void *arg)
{
	struct router *r = arg;

	r->synced = true;
	map_each(it, r->holds) {
		struct hold *h = it.value;

		while (!list_empty(&h->waiters)) {
			struct list *link = h->waiters.next;

			list_del(link);
			list_add_tail(&r->woken, link);
		}
	}
	timer_set(r->waker, 0);
}

void holds_wake(void *arg)
{
	struct router *r = arg;
	LIST_HEAD(now);

	while (!list_empty(&r->woken)) { /* those that must wait longer are held again */
		struct list *link = r->woken.next;

		list_del(link);
		list_add_tail(&now, link);
	}
	while (!list_empty(&now)) {
		struct waiter *w = list_first(&now, struct waiter, link);

		w->look(w);
	}
}
