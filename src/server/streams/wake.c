/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "base/share.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "server/call/call.h"
#include "server/objects/objects.h"
#include "server/streams/streams_priv.h"
#include "store/store.h"

/*
 * Calls that wait for a Pod whose Sandbox sleeps, and is being woken for them. The Pod is made
 * anew, so it is followed by its name, until it is Ready; then the call goes on as if it had just
 * come.
 */
enum {
	WAKE_MS = 30 * 1000,
	WAKING_MAX = 512,
};

struct waking {
	struct list link; /* of streams.waking */
	struct streams *streams;
	struct call *call;
	const char *pod; /* the call's */
	streams_handler go;
	struct store_watch *watch;
	struct timer *timer;
};

static void waking_free(struct waking *w)
{
	list_del(&w->link);
	w->streams->n_waking--;
	store_watch_free(w->watch);
	timer_free(w->timer);
	w->call->left = NULL;
	call_unref(w->call);
	free(w);
}

void streams_wake_done(struct streams *ps)
{
	struct waking *w, *next;

	list_each_safe(w, next, &ps->waking, link)
		waking_free(w);
}

/* Whatever is still missing then is told as usual. */
static void go_on(struct waking *w)
{
	autoptr(call) c = call_ref(w->call);
	struct streams *ps = w->streams;
	streams_handler go = w->go;

	waking_free(w);
	if (c->req)
		go(ps, c);
}

static const struct object *pod_of(const struct streams *ps, const struct call *c, const char *pod)
{
	return objects_find(ps->objects, ps->objects->pod, c->route.ns, pod);
}

static bool is_there(const struct object *pod)
{
	return pod && !object_deleting(pod) &&
	       conditions_true(json_get(object_status(pod), "conditions"), "Ready");
}

static void on_change(void *arg)
{
	struct waking *w = arg;
	struct store_event ev;
	bool have = true;
	struct err *e = NULL;

	while (!e && have)
		e = store_watch_next(w->watch, &ev, &have);
	if (e || !w->call->req || is_there(pod_of(w->streams, w->call, w->pod)))
		go_on(w);
	err_free(e);
}

static void on_late(void *arg)
{
	struct waking *w = arg;
	autoptr(call) c = call_ref(w->call);
	const char *pod = w->pod;

	waking_free(w);
	call_fail(c, err_new(ERR_TIMEOUT,
			     "pod %s sleeps, and was not Ready within %d s of being woken", pod,
			     WAKE_MS / 1000));
}

static void on_left(void *arg)
{
	waking_free(arg);
}

static size_t waking_of(const struct streams *ps, const char *user)
{
	const struct waking *w;
	size_t n = 0;

	list_each(w, &ps->waking, link)
		n += str_eq(w->call->user.name, user);
	return n;
}

const char *streams_announced(const struct call *c)
{
	static const struct {
		const char *command, *sub;
	} rows[] = {
		{ "kubectl exec", "exec" },
		{ "kubectl cp", "exec" },
		{ "kubectl attach", "attach" },
		{ "kubectl port-forward", "portforward" },
	};
	const char *command = http_request_header(c->req, "Kubectl-Command");

	for (size_t i = 0; command && i < ARRAY_LEN(rows); i++)
		if (str_eq(command, rows[i].command))
			return rows[i].sub;
	return NULL;
}

bool streams_wake(struct streams *ps, struct call *c, streams_handler go)
{
	return streams_wake_pod(ps, c, c->route.name, go);
}

bool streams_wake_pod(struct streams *ps, struct call *c, const char *pod, streams_handler go)
{
	const struct objects *os = ps->objects;
	autofree char *key = NULL;
	struct waking *w;
	struct err *e;

	if (!ps->wake || is_there(pod_of(ps, c, pod)))
		return false;
	e = ps->may_wake ? ps->may_wake(ps->may_wake_arg, c, pod) : NULL;
	if (e) {
		call_fail(c, e);
		return true;
	}
	if (!ps->wake(ps->wake_arg, c->route.ns, pod))
		return false;
	if (!share_has_room(waking_of(ps, c->user.name), ps->n_waking, WAKING_MAX)) {
		call_fail(c, err_new(ERR_EXHAUSTED,
				     "%zu calls wait for Pods that sleep, of which this user may "
				     "have no more",
				     ps->n_waking));
		return true;
	}
	w = xnew(struct waking);
	w->streams = ps;
	w->call = call_ref(c);
	c->left = on_left;
	c->left_arg = w;
	w->pod = pod;
	w->go = go;
	list_add_tail(&ps->waking, &w->link);
	ps->n_waking++;
	w->timer = timer_new(ps->loop, on_late, w);
	timer_set(w->timer, WAKE_MS);
	key = key_of(os->pod, c->route.ns, pod);
	e = store_watch_new(os->store, key, store_rev(os->store),
			    (struct store_wake){ on_change, w }, &w->watch);
	if (e) {
		waking_free(w);
		call_fail(c, e);
	}
	return true;
}
