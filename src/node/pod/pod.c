/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/instance.h"
#include "node/pod/pod_priv.h"

/*
 * A Pod, pass by pass: admit it, prepare its volumes and network, run its init containers one after
 * the other, then its containers, and bring back what ended as the restart policy says.
 */
enum {
	SLOW_MS = 300,             /* a start that takes longer is told of before it is done */
	STEADY_US = 600 * 1000000, /* a run as long as this forgives earlier crashes */
	BACKOFF_FIRST_S = 10,
	BACKOFF_MAX_S = 300,
};

const struct json *pod_spec(const struct pod *p)
{
	return object_spec(p->obj);
}

char *pod_dir(const struct pod *p)
{
	return xasprintf("%s/pods/%s", p->node->data_dir, p->uid);
}

char *pod_objects_dir(const struct pod *p)
{
	return xasprintf("%s/volumes/%s", p->node->run_dir, p->uid);
}

char *pod_state_path(const struct pod *p)
{
	return xasprintf("state/%s.json", p->uid);
}

struct container *pod_container(struct pod *p, const char *name)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (str_eq(p->containers[i].name, name))
			return &p->containers[i];
	return NULL;
}

static void on_wake(void *arg)
{
	struct pod *p = arg;

	node_wake(p->node, p);
}

static void make_containers(struct pod *p)
{
	const struct json *init = json_get(pod_spec(p), "initContainers");
	const struct json *main = json_get(pod_spec(p), "containers");
	size_t n = 0;

	p->n_init = json_len(init);
	p->n_containers = p->n_init + json_len(main);
	p->containers = xnew_n(struct container, p->n_containers);
	json_each(c, init)
		container_init(&p->containers[n++], p, c.val, true);
	json_each(c, main)
		container_init(&p->containers[n++], p, c.val, false);
}

struct pod *pod_new(struct node *n, struct object *obj)
{
	struct pod *p = xnew(struct pod);
	const char *phase = json_get_str(object_status(obj), "phase");

	list_init(&p->on_dirty);
	p->node = n;
	p->obj = object_ref(obj);
	p->uid = xstrdup(obj->uid);
	p->started = clock_wall();
	p->grace = timer_new(n->loop, on_wake, p);
	p->retry = timer_new(n->loop, on_wake, p);
	p->deadline = timer_new(n->loop, on_wake, p);
	p->slow = timer_new(n->loop, on_wake, p);
	timer_set(p->slow, SLOW_MS);
	if (str_eq(phase, "Succeeded") || str_eq(phase, "Failed")) {
		p->phase = POD_DONE;
		p->failed = *phase == 'F';
	}
	make_containers(p);
	return p;
}

void pod_free(struct pod *p)
{
	if (!p)
		return;
	list_del(&p->on_dirty);
	for (size_t i = 0; i < p->n_containers; i++)
		container_done(&p->containers[i]);
	free(p->containers);
	if (p->net_asked)
		nursery_forget(p->node->nursery, p);
	if (p->net)
		net_free(p->node, p->net);
	timer_free(p->grace);
	timer_free(p->retry);
	timer_free(p->deadline);
	timer_free(p->slow);
	client_cancel(&p->report_write);
	client_cancel(&p->end_sync);
	client_cancel(&p->end_delete);
	json_doc_free(p->reported);
	object_unref(p->obj);
	free(p->uid);
	free(p->reason);
	free(p->message);
	free(p->want_ip);
	free(p);
}

void pod_update(struct pod *p, struct object *obj)
{
	size_t n = 0;

	object_ref(obj);
	object_unref(p->obj);
	p->obj = obj;
	/* The specs live in the object. Their number cannot change after creation. */
	json_each(c, json_get(pod_spec(p), "initContainers"))
		if (n < p->n_init)
			p->containers[n++].spec = c.val;
	json_each(c, json_get(pod_spec(p), "containers"))
		if (n < p->n_containers)
			p->containers[n++].spec = c.val;
}

void pod_fail(struct pod *p, const char *reason, const char *message)
{
	free(p->reason);
	free(p->message);
	p->reason = xstrdup(reason);
	p->message = xstrdup(message);
	p->phase = POD_DONE;
	p->failed = true;
}

/* False: the Pod asks for what this node does not do. */
static bool admit(struct pod *p)
{
	autofree char *bad = NULL, *text = NULL;

	if (p->admitted)
		return true;
	bad = pod_unsupported(pod_spec(p));
	if (!bad) {
		p->admitted = true;
		event_add(p->node, p->obj, false, "Scheduled", "Successfully assigned %s/%s to %s",
			  p->obj->ns, p->obj->name, p->node->name);
		return true;
	}
	text = xasprintf("this node does not support %s", bad);
	event_add(p->node, p->obj, true, "UnsupportedField", "%s", text);
	pod_fail(p, "UnsupportedField", text);
	return false;
}

static bool prepare(struct pod *p)
{
	struct err *e;

	if (p->prepared)
		return true;
	e = volumes_prepare(p);
	if (!e) {
		p->prepared = true;
		return true;
	}
	if (!str_eq(p->message, err_text(e)))
		event_add(p->node, p->obj, true, "FailedMount", "%s", err_text(e));
	free(p->message);
	p->message = xstrdup(err_text(e));
	for (size_t i = 0; i < p->n_containers; i++)
		container_wait(&p->containers[i], "ContainerCreating", "%s", err_text(e));
	p->waiting = true;
	timer_set(p->retry, err_is(e, ERR_UNAVAILABLE) ? 10000 : 5000);
	err_free(e);
	return false;
}

static void on_net(void *arg, struct net *net)
{
	struct pod *p = arg;

	p->net = net;
	p->net_asked = false;
	node_wake(p->node, p);
}

/* A Pod that was there before keeps its address, if nobody has it. */
static bool have_net(struct pod *p)
{
	unsigned place;

	if (p->net)
		return true;
	if (p->net_asked)
		return false;
	if (p->want_ip && instance_addr_place(p->node->inst, p->want_ip, &place) &&
	    nursery_want_net(p->node->nursery, place, on_net, p)) {
		p->net_asked = true;
		free(take(p->want_ip));
		return false;
	}
	p->net = nursery_take_net(p->node->nursery);
	if (!p->net)
		p->waiting = true;
	return p->net != NULL;
}

static bool may_restart(const struct container *c)
{
	const char *policy = str_or(json_get_str(pod_spec(c->pod), "restartPolicy"), "Always");

	if (str_eq(policy, "Never"))
		return false;
	return c->end.code != 0 || (!c->init && str_eq(policy, "Always"));
}

static void restart(struct container *c)
{
	bool steady = c->end.started && c->end.finished - c->end.started > STEADY_US;

	container_again(c);
	if (steady)
		c->backoff_s = 0;
	if (c->restarts > 1 && !steady) {
		c->backoff_s = c->backoff_s ? MIN(c->backoff_s * 2, (unsigned)BACKOFF_MAX_S)
					    : (unsigned)BACKOFF_FIRST_S;
		timer_set(c->backoff, c->backoff_s * 1000ULL);
		container_wait(c, "CrashLoopBackOff",
			       "back-off %us restarting failed container=%s pod=%s", c->backoff_s,
			       c->name, c->pod->obj->name);
		event_add(c->pod->node, c->pod->obj, true, "BackOff",
			  "Back-off restarting failed container %s in pod %s", c->name,
			  c->pod->obj->name);
	} else {
		container_wait(c, "ContainerCreating", "%s", "");
	}
	pod_save(c->pod);
}

/* True: all init containers have done their work. */
static bool run_init(struct pod *p)
{
	for (size_t i = 0; i < p->n_init; i++) {
		struct container *c = &p->containers[i];

		if (c->state == CONTAINER_ENDED && !c->end.code)
			continue;
		if (c->state == CONTAINER_ENDED && !may_restart(c)) {
			autofree char *text = xasprintf(
				"init container %s failed with exit code %d", c->name, c->end.code);

			pod_fail(p, "InitContainerFailed", text);
			return false;
		}
		if (c->state == CONTAINER_ENDED)
			restart(c);
		container_advance(c);
		return false;
	}
	return true;
}

static void check_probes(struct container *c)
{
	bool started = !c->startup_probe || probe_ok(c->startup_probe);

	c->ready = c->state == CONTAINER_RUNNING && started &&
		   (!c->ready_probe || probe_ok(c->ready_probe));
	if (c->state != CONTAINER_RUNNING)
		return;
	if (probe_dead(c->startup_probe) || (started && probe_dead(c->live_probe))) {
		event_add(c->pod->node, c->pod->obj, false, "Killing",
			  "Container %s failed its probe, will be restarted", c->name);
		container_kill(c);
	}
}

static void run_main(struct pod *p)
{
	bool over = true, failed = false;

	for (size_t i = p->n_init; i < p->n_containers; i++) {
		struct container *c = &p->containers[i];

		if (c->state == CONTAINER_ENDED && may_restart(c))
			restart(c);
		container_advance(c);
		check_probes(c);
		over = over && c->state == CONTAINER_ENDED;
		failed = failed || (c->state == CONTAINER_ENDED && c->end.code);
	}
	if (!over)
		return;
	p->phase = POD_DONE;
	p->failed = failed;
	pod_drop(p);
}

/* activeDeadlineSeconds counts from the start, also over restarts of the daemon. */
static bool in_time(struct pod *p)
{
	int64_t s = json_get_int(pod_spec(p), "activeDeadlineSeconds", 0);
	usec left = p->started + s * 1000000 - clock_wall();

	if (!s)
		return true;
	if (left > 0) {
		if (!timer_armed(p->deadline))
			timer_set(p->deadline, (uint64_t)left / 1000 + 1);
		return true;
	}
	pod_fail(p, "DeadlineExceeded",
		 "Pod was active on the node longer than the specified deadline");
	return false;
}

static void advance(struct pod *p)
{
	p->waiting = false;
	if (!in_time(p)) {
		for (size_t i = 0; i < p->n_containers; i++)
			container_kill(&p->containers[i]);
		return;
	}
	if (!admit(p) || !prepare(p) || !have_net(p))
		return;
	if (run_init(p))
		run_main(p);
	if (p->phase == POD_DONE)
		for (size_t i = 0; i < p->n_containers; i++)
			container_kill(&p->containers[i]);
}

void pod_pass(struct pod *p)
{
	if (p->gone || object_deleting(p->obj))
		pod_terminate(p); /* it may be freed by this */
	else if (p->phase == POD_ACTIVE) {
		advance(p);
		pod_report(p);
	} else {
		pod_report(p);
	}
}

static void save_ending(struct json_doc *d, struct json *o, const char *key, const struct ending *e)
{
	struct json *v;

	if (!e->reason)
		return;
	v = json_need_obj(d, o, key);
	json_set_str(d, v, "reason", e->reason);
	json_set_str(d, v, "message", e->message);
	json_set_int(d, v, "code", e->code);
	json_set_int(d, v, "signal", e->signal);
	json_set_int(d, v, "started", e->started);
	json_set_int(d, v, "finished", e->finished);
	json_set_str(d, v, "id", e->id);
}

static struct json *save_container(struct json_doc *d, const struct container *c)
{
	struct json *o = json_obj(d);

	json_set_str(d, o, "name", c->name);
	json_set_str(d, o, "root", c->root);
	json_set_str(d, o, "prev", c->prev);
	json_set_int(d, o, "restarts", c->restarts);
	if (c->slot) {
		json_set_str(d, o, "slot", c->slot);
		json_set_int(d, o, "pid", c->pid);
		json_set_int(d, o, "range", c->range);
		json_set_int(d, o, "started", c->started);
	}
	if (c->image)
		json_set_str(d, o, "image", c->image->id);
	save_ending(d, o, "end", &c->end);
	save_ending(d, o, "last", &c->last);
	return o;
}

/* In memory: after a crash of the machine nothing of it would be true. */
static struct err *write_state(const struct pod *p, const char *text, size_t len)
{
	autofree char *path = pod_state_path(p), *beside = xasprintf("%s.new", path);
	autoclose fd = openat(p->node->run_fd, beside,
			      O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "create %s", beside);
	e = fd_write_all(fd, text, len);
	if (!e && renameat(p->node->run_fd, beside, p->node->run_fd, path) < 0)
		e = err_sys(errno, "rename %s", beside);
	return e;
}

void pod_save(struct pod *p)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *list = json_need_arr(d, o, "containers");
	autobuf text = { 0 };
	struct err *e;

	json_set_root(d, o);
	json_set_str(d, o, "namespace", p->obj->ns);
	json_set_str(d, o, "name", p->obj->name);
	json_set_str(d, o, "uid", p->uid);
	json_set_int(d, o, "started", p->started);
	if (p->net)
		json_set_str(d, o, "ip", p->net->ip);
	for (size_t i = 0; i < p->n_containers; i++)
		json_push(d, list, save_container(d, &p->containers[i]));
	json_write(o, &text);
	e = write_state(p, buf_head(&text), text.len);
	if (e)
		log_error("state of a Pod was not written", KV("pod", p->obj->name), KV("err", e));
	err_free(e);
}
