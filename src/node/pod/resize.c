/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/log.h"
#include "base/str.h"
#include "node/launch/plan.h"
#include "node/pod/pod_priv.h"

/*
 * Resizing in place, in the terms of a kubelet: the spec says what is wanted, a Pod is given all of
 * it at once if the node has room for it (or else nothing of it yet), and each container that runs
 * then gets its new limits by a job, or is restarted if its resizePolicy says so:
 *
 *   wanted (spec) ── room? ── given (status: allocatedResources) ── job ── has (status: resources)
 *
 * Nearly always all three are the same, and then nothing is kept of the other two. After a restart
 * of the daemon, what the status says a container has is what it was given.
 */
enum {
	RETRY_MS = 3000, /* memory that is in use may be free later */
};

static struct json_doc *doc_of(const struct json *v)
{
	struct json_doc *d = json_doc_new();

	json_set_root(d, v ? json_copy(d, v) : json_obj(d));
	return d;
}

static void drop(struct json_doc **d)
{
	json_doc_free(take(*d));
}

const struct json *container_given(const struct container *c)
{
	return c->given ? json_root(c->given) : c->view->resources;
}

const struct json *container_has(const struct container *c)
{
	return c->has ? json_root(c->has) : container_given(c);
}

static bool same(const struct json *a, const struct json *b, const char *what)
{
	const struct json *x = json_at_path(a, what), *y = json_at_path(b, what);

	return x && y ? quantity_equal(x, y) : !x == !y;
}

static bool same_size(const struct json *a, const struct json *b)
{
	return same(a, b, "limits.cpu") && same(a, b, "limits.memory") &&
	       same(a, b, "requests.cpu") && same(a, b, "requests.memory");
}

/* In thousandths. what: "limits.cpu". */
int64_t container_amount(const struct container *c, const char *what)
{
	const struct json *q;
	int64_t v = 0;

	if (!c->given)
		return pod_container_quantity(c->view, what);
	q = json_at_path(json_root(c->given), what);
	if (q)
		err_free(quantity_parse_milli(q, &v)); /* unreadable: none */
	return v;
}

/* Before its view becomes that of an object which wants something else. */
void container_resized(struct container *c, const struct pod_container_view *next)
{
	if (same_size(c->view->resources, next->resources))
		return;
	if (!c->has)
		c->has = doc_of(container_has(c));
	if (!c->given)
		c->given = doc_of(container_given(c));
}

static const struct json *status_named(const struct json *list, const char *name)
{
	json_each(it, list)
		if (str_eq(json_get_str(it.val, "name"), name))
			return it.val;
	return NULL;
}

void container_size_restore(struct container *c)
{
	const struct json *status = object_status(c->pod->obj);
	const struct json *list =
		json_get(status, c->view->init ? "initContainerStatuses" : "containerStatuses");
	const struct json *has = json_get(status_named(list, c->view->name), "resources");

	if (!has || same_size(has, c->view->resources))
		return;
	c->given = doc_of(has);
	c->has = doc_of(has);
}

/* Its next task begins with what it was given. */
void container_size_applied(struct container *c)
{
	drop(&c->has);
	c->resize_restarts = false;
	free(take(c->resize_trouble));
}

void container_size_done(struct container *c)
{
	container_size_applied(c);
	drop(&c->given);
}

/* The job */

struct resizing {
	struct pods *pods;
	char *uid, *task;
	size_t index;
	struct plan_limits limits;
	struct json_doc *to;
	struct err *err;
};

static void resize_work(void *arg)
{
	struct resizing *r = arg;

	r->err = r->pods->rt->resize(r->pods->rt_ctx, r->task, &r->limits);
}

static void resize_ended(struct container *c, const struct resizing *r)
{
	c->resizing = false;
	if (r->err) {
		autofree char *text =
			xasprintf("container %s: %s", c->view->name, err_text(r->err));

		if (!str_eq(c->resize_trouble, text))
			pod_event(c->pod, true, "ResizeError", "%s", text);
		free(c->resize_trouble);
		c->resize_trouble = take(text);
		c->resize_after = pods_now(c->pod->pods) + RETRY_MS * 1000;
		return;
	}
	drop(&c->has);
	free(take(c->resize_trouble));
	if (same_size(json_root(r->to), container_given(c)))
		pod_event(c->pod, false, "ResizeCompleted", "Resized container %s", c->view->name);
	else
		c->has = doc_of(json_root(r->to)); /* it was given something else meanwhile */
}

static void resize_done(void *arg)
{
	struct resizing *r = arg;
	struct pod *p = map_get(r->pods->pods, r->uid);
	struct container *c = p ? &p->containers[r->index] : NULL;

	if (c && str_eq(c->log, r->task))
		resize_ended(c, r);
	else if (c)
		c->resizing = false;
	if (p)
		pod_wake(p);
	json_doc_free(r->to);
	err_free(r->err);
	free(r->uid);
	free(r->task);
	free(r);
}

static void resize_live(struct container *c)
{
	struct pods *ps = c->pod->pods;
	struct resizing *r;

	if (c->resizing || c->resize_after > pods_now(ps))
		return;
	r = xnew(struct resizing);
	*r = (struct resizing){ .pods = ps,
				.uid = xstrdup(c->pod->obj->uid),
				.task = xstrdup(c->log),
				.index = (size_t)(c - c->pod->containers),
				.limits = container_limits(c),
				.to = doc_of(container_given(c)) };
	c->resizing = true;
	jobs_run(&ps->jobs, resize_work, resize_done, r);
}

/* Whether a resource changes whose policy is to restart. */
static bool wants_restart(const struct container *c)
{
	static const char *const names[] = { "cpu", "memory" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		autofree char *limit = xasprintf("limits.%s", names[i]);
		autofree char *request = xasprintf("requests.%s", names[i]);

		if (same(container_has(c), container_given(c), limit) &&
		    same(container_has(c), container_given(c), request))
			continue;
		if (c->view->resize_restarts[i])
			return true;
	}
	return false;
}

static void resize_container(struct container *c)
{
	if (!c->has || c->state != CONTAINER_RUNNING || c->asked)
		return;
	if (same_size(container_has(c), container_given(c))) {
		container_size_applied(c);
	} else if (wants_restart(c)) {
		pod_event(c->pod, false, "Killing", "Container %s resize requires restart",
			  c->view->name);
		c->resize_restarts = true;
		container_replace(c);
	} else {
		resize_live(c);
	}
}

/* The Pod */

static bool is_pending(const struct pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (p->containers[i].given)
			return true;
	return false;
}

static void say_pending(struct pod *p, bool never, const char *text)
{
	const char *reason = never ? "Infeasible" : "Deferred";

	if (str_eq(p->resize_reason, reason) && str_eq(p->resize_message, text))
		return;
	p->resize_reason = reason;
	free(p->resize_message);
	p->resize_message = xstrdup(text);
	pod_event(p, true, never ? "ResizeInfeasible" : "ResizeDeferred", "%s", text);
}

static void not_pending(struct pod *p)
{
	p->resize_reason = NULL;
	free(take(p->resize_message));
}

/* All of it or nothing. */
static void give(struct pod *p)
{
	autofree char *text = NULL;
	bool never = false;

	for (size_t i = 0; i < p->n_containers; i++) { /* the wish may have been taken back */
		struct container *c = &p->containers[i];

		if (c->given && same_size(json_root(c->given), c->view->resources))
			drop(&c->given);
	}
	if (!is_pending(p)) {
		not_pending(p);
		return;
	}
	if (!p->pods->rt->resize) {
		say_pending(p, true, "the runtime of this Pod cannot resize containers");
		return;
	}
	if (pod_room_lacks_more(p, &never, &text)) {
		say_pending(p, never, text);
		waits_pass_on_room(p);
		return;
	}
	not_pending(p);
	for (size_t i = 0; i < p->n_containers; i++)
		drop(&p->containers[i].given);
	pod_room_take(p);
	pod_event(p, false, "ResizeStarted", "Resizing the Pod for generation %lld",
		  (long long)object_generation(p->obj));
}

void pod_resize(struct pod *p)
{
	if (p->phase < POD_PREPARING || p->phase > POD_ACTIVE || p->view->deleting)
		return;
	if (is_pending(p))
		give(p);
	for (size_t i = 0; i < p->n_containers; i++)
		resize_container(&p->containers[i]);
}

bool pod_resize_deferred(const struct pod *p)
{
	return p->phase <= POD_ACTIVE && str_eq(p->resize_reason, "Deferred");
}

bool pod_resizes(const struct pod *p, const char **ret_trouble)
{
	bool any = false;

	*ret_trouble = NULL;
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = &p->containers[i];

		if (!c->has || same_size(container_has(c), container_given(c)))
			continue;
		any = true;
		if (c->resize_trouble)
			*ret_trouble = c->resize_trouble;
	}
	return any && p->phase <= POD_ACTIVE;
}
