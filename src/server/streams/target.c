/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/share.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http_client.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/streams/streams_priv.h"
#include "tls/tls.h"

/*
 * Which container of which Pod a call means, according to the stored object, so that a wrong name
 * is answered as Kubernetes answers it. Only the node knows whether the container runs.
 */
enum {
	STREAMS_MAX = 2048, /* upgraded connections of one server */
};

static const char *container_list(struct call *c, const struct json *containers)
{
	autobuf b = { 0 };

	json_each(it, containers)
		buf_printf(&b, "%s%s", b.len ? " " : "", str_or(json_get_str(it.val, "name"), ""));
	return arena_strdup(c->arena, buf_str(&b));
}

static bool has_container(const struct json *containers, const char *name)
{
	json_each(it, containers)
		if (str_eq(json_get_str(it.val, "name"), name))
			return true;
	return false;
}

static struct err *must_choose(struct call *c, const struct json *main, const struct json *init)
{
	autobuf b = { 0 };

	if (json_len(init))
		buf_printf(&b, " or one of the init containers: [%s]", container_list(c, init));
	return err_new(ERR_MALFORMED,
		       "a container name must be specified for pod %s, choose one of: [%s]%s",
		       c->route.name, container_list(c, main), buf_str(&b));
}

static struct err *choose_container(struct call *c, const struct object *pod, const char **ret)
{
	const struct json *spec = object_spec(pod);
	const struct json *main = json_get(spec, "containers");
	const struct json *init = json_get(spec, "initContainers");
	const char *name = call_query(c, "container");

	if (str_empty(name)) {
		if (json_len(main) + json_len(init) != 1)
			return must_choose(c, main, init);
		name = pod_default_container(pod->root);
	} else if (!has_container(main, name) && !has_container(init, name) &&
		   !has_container(json_get(spec, "ephemeralContainers"), name)) {
		return err_new(ERR_MALFORMED, "container %s is not valid for pod %s", name,
			       pod->name);
	}
	*ret = arena_strdup(c->arena, str_or(name, ""));
	return NULL;
}

bool pod_container_has(const struct streams *ps, const struct call *c, const char *name,
		       const char *flag)
{
	static const char *const lists[] = { "containers", "initContainers",
					     "ephemeralContainers" };
	const struct objects *os = ps->objects;
	struct object *pod = objects_find(os, os->pod, c->route.ns, c->route.name);

	for (size_t i = 0; pod && i < ARRAY_LEN(lists); i++)
		json_each(it, json_get(object_spec(pod), lists[i]))
			if (str_eq(json_get_str(it.val, "name"), name))
				return json_get_bool(it.val, flag, false);
	return false;
}

const char *pod_owner(const struct streams *ps, const struct call *c)
{
	const struct objects *os = ps->objects;
	const struct object *pod = objects_find(os, os->pod, c->route.ns, c->route.name);
	const struct json *controller = pod ? object_controller(pod) : NULL;

	return pod ? str_or(json_get_str(controller, "uid"), pod->uid) : NULL;
}

static struct err *check_phase(const struct object *pod, enum pod_use use)
{
	static const char *const what[POD_USE_MAX_] = {
		[POD_USE_EXEC] = "exec into",
		[POD_USE_ATTACH] = "attach to",
		[POD_USE_FORWARD] = "forward ports of",
	};
	const char *phase = json_get_str(object_status(pod), "phase");

	if (!what[use] || !pod_phase_over(phase))
		return NULL;
	return err_new(ERR_MALFORMED,
		       "cannot %s a container in a completed pod; current phase is %s", what[use],
		       phase);
}

struct err *pod_target(const struct streams *ps, struct call *c, enum pod_use use,
		       struct access_target *ret)
{
	const struct objects *os = ps->objects;
	struct object *pod = objects_find(os, os->pod, c->route.ns, c->route.name);
	struct access_target to = {
		.ns = c->route.ns,
		.pod = c->route.name,
		.user = c->user.name,
		.from = c->from,
		.groups = c->user.groups,
		.account_ns = c->user.sa_ns,
	};
	const char *container = NULL;
	struct err *e = NULL;

	if (use == POD_USE_FORWARD && ps->access && access_is_door(ps->access, &to)) {
		*ret = to;
		return NULL;
	}
	if (!pod)
		return err_absent(os->pod, c->route.name);
	if (use != POD_USE_FORWARD)
		e = choose_container(c, pod, &container);
	if (!e)
		e = check_phase(pod, use);
	if (!e && !ps->access)
		e = err_new(ERR_UNAVAILABLE, "reach pod %s: no node runs it", pod->name);
	if (e)
		return e;
	to.container = container;
	*ret = to;
	return NULL;
}

/* Streams that outlive their request */

static size_t open_of(const struct streams *ps, const char *user)
{
	const struct pod_stream *p;
	size_t n = 0;

	list_each(p, &ps->open, link)
		n += str_eq(user_payer(&p->call->user), user);
	return n;
}

struct err *pod_stream_add(struct pod_stream *p, struct streams *ps, struct call *c)
{
	if (!share_has_room(open_of(ps, user_payer(&c->user)), ps->n_open, STREAMS_MAX))
		return err_new(
			ERR_EXHAUSTED,
			"%zu streams into pods are open, of which this user may have no more",
			ps->n_open);
	p->call = call_ref(c);
	list_add_tail(&ps->open, &p->link);
	ends_name(&c->calls->ends, call_end(c));
	ps->n_open++;
	p->streams = ps;
	return NULL;
}

void pod_stream_del(struct pod_stream *p)
{
	if (!p->streams)
		return;
	list_del(&p->link);
	p->streams->n_open--;
	p->streams = NULL;
	call_unref(take(p->call));
}

void streams_init(struct streams *ps, const struct objects *objects, struct loop *l)
{
	*ps = (struct streams){ .objects = objects, .loop = l };
	list_init(&ps->open);
	list_init(&ps->waking);
}

void streams_done(struct streams *ps)
{
	streams_cut(ps);
	http_pool_free(take(ps->proxy_pool));
	tls_ctx_unref(take(ps->proxy_tls));
}

void streams_set_access(struct streams *ps, struct access *a)
{
	if (a != ps->access)
		streams_cut(ps); /* they are sessions of the old one */
	ps->access = a;
}

void streams_recheck(struct streams *ps, bool (*may)(void *arg, const struct call *c), void *arg)
{
	struct pod_stream *p, *next;

	list_each_safe(p, next, &ps->open, link)
		if (!may(arg, p->call))
			(p->revoke ? p->revoke : p->cut)(p);
}

void streams_cut(struct streams *ps)
{
	struct pod_stream *p, *next;

	list_each_safe(p, next, &ps->open, link)
		p->cut(p);
	streams_wake_done(ps);
}
