/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/agents.h"
#include "api/pod.h"
#include "api/registry.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "client/access.h"
#include "loop/loop.h"
#include "loop/queue.h"
#include "net/http_client.h"
#include "node/pod/pod_priv.h"
#include "node/pod/probe_priv.h"
#include "tls/tls.h"

/*
 * All Pods of the node, and the queue of those that want a pass. A change of an object only queues
 * its Pod; passes run later in the same turn.
 */
usec pods_now(const struct pods *ps)
{
	return clock_mono() + ps->skew;
}

usec pods_wall(const struct pods *ps)
{
	return clock_wall() + ps->skew;
}

void pods_step(struct pods *ps, uint64_t ms)
{
	ps->skew += (usec)ms * 1000;
	queue_step(ps->queue, ms);
	queue_step(ps->probes, ms);
	events_flush(ps->events);
}

void pod_wake(struct pod *p)
{
	(void)queue_add(p->pods->queue, p->obj->uid);
}

static bool all_left(const struct pods *ps)
{
	if (ps->jobs.n || ps->stopping)
		return !ps->jobs.n && !map_len(ps->pods);
	map_each(it, ps->pods)
		if (pod_leaves(it.value))
			return false;
	return true;
}

static void check_stopped(void *arg)
{
	struct pods *ps = arg;
	void (*stopped)(void *arg_);

	pods_next_round(ps);
	if (!ps->stopped || !all_left(ps))
		return;
	stopped = take(ps->stopped);
	stopped(ps->stopped_arg);
}

/* Later, because stopped() may free us. */
static void job_ended(void *arg)
{
	struct pods *ps = arg;

	deferred_call(&ps->check);
}

static void pod_added(struct pods *ps, struct object *obj)
{
	struct pod *p = pod_new(ps, obj);

	map_put(ps->pods, obj->uid, p);
	if (ps->left)
		recover_pod(p);
	for (size_t i = 0; i < p->n_containers; i++)
		ephemeral_started_before(p->containers[i]);
	pod_wake(p);
}

static void forget(struct pods *ps, struct pod *p)
{
	autoptr(object) obj = object_ref(p->obj);
	bool again = p->renews && !p->gone && !ps->stopping && !ps->settling;

	usage_pod_gone(p);
	(void)map_del(ps->pods, obj->uid);
	volumes_sweep(ps->volumes);
	if (again)
		pod_added(ps, obj);
	deferred_call(&ps->check);
}

static struct again pod_pass(void *arg, struct queue_item *it)
{
	struct pods *ps = arg;
	struct pod *p = map_get(ps->pods, it->key);
	uint64_t ms;
	bool over;

	if (!p)
		return again_never();
	ms = pod_reconcile(p, &over);
	if (!over)
		return ms ? again_after(ms) : again_never();
	forget(ps, p);
	return again_never();
}

static void pod_slowed(unused void *arg, const struct queue_item *it, const struct err *e)
{
	log_warn("passes over a Pod do not come to an end, pausing", KV("uid", it->key),
		 KV("err", e));
}

static bool volume_in_use(void *arg, const char *handle)
{
	struct pods *ps = arg;

	map_each(it, ps->pods)
		if (map_has(((struct pod *)it.value)->pvcs, handle))
			return true;
	return ps->left != NULL; /* an earlier life's Pods may yet turn up */
}

static void source_changed(void *arg, const struct object *o)
{
	waits_object_changed(arg, o);
}

static void volume_event(void *arg, struct object *about, bool warning, const char *reason,
			 const char *message)
{
	const struct pods *ps = arg;

	events_add(ps->events, about, warning, reason, message);
}

/* One that is not prepared yet gets its files when it is. */
static void volumes_stale(void *arg, const char *uid)
{
	struct pods *ps = arg;
	struct pod *p = map_get(ps->pods, uid);
	struct volume_pod v;
	struct err *e;

	if (!p || (p->phase != POD_CONNECTING && p->phase != POD_ACTIVE))
		return;
	v = pod_volumes(p);
	e = volumes_refresh(ps->volumes, &v);
	if (e)
		pod_event(p, true, "FailedMount", "%s", err_text(e));
	err_free(e);
}

/* That one alone: a Pod of anybody else who says so would be left running, and its address given
 * away while its status still has it. */
static bool pod_is_mirror(const struct object *pod)
{
	return str_eq(pod->ns, SYSTEM_NAMESPACE) && str_eq(pod->name, ROUTER_POD) &&
	       object_annotation(pod, ANNOTATION_MIRROR);
}

/* What matters of an object is its deletion, its spec (generation), and what others write to its
 * status. */
static void pod_changed(void *arg, struct object *was, struct object *now)
{
	struct pods *ps = arg;
	struct pod *p = map_get(ps->pods, now ? now->uid : was->uid);

	if (p && !now) {
		p->gone = true;
		(void)pod_hurry(p);
		pod_wake(p);
	} else if (p) {
		bool deleting = p->view->deleting, lost = pod_report_lost(p, now);
		int64_t generation = object_generation(p->obj);

		pod_update(p, now);
		pod_address_reported(p);
		volumes_pod_changed(ps->volumes, p->obj->uid);
		if (p->view->deleting != deleting || pod_hurry(p) || lost ||
		    object_generation(p->obj) != generation)
			pod_wake(p);
	} else if (now && !ps->stopping && !ps->settling &&
		   str_eq(json_get_str(object_spec(now), "nodeName"), ps->node_name) &&
		   !pod_is_mirror(now)) {
		pod_added(ps, now);
	}
}

/* Heartbeats come this way too. */
static void node_changed(void *arg, unused struct object *was, struct object *now)
{
	struct pods *ps = arg;
	bool cordoned;

	if (!now || !str_eq(now->name, ps->node_name))
		return;
	cordoned = json_get_bool(object_spec(now), "unschedulable", false);
	if (cordoned == ps->cordoned)
		return;
	ps->cordoned = cordoned;
	map_each(it, ps->pods)
		if (((struct pod *)it.value)->phase == POD_ADMITTING)
			pod_wake(it.value);
}

static void on_pods_known(void *arg)
{
	struct pods *ps = arg;

	if (!ps->left)
		return;
	recover_sweep(ps);
	usage_pods_known(ps->usage);
	volumes_sweep(ps->volumes);
	queue_open(ps->queue);
}

static void free_pod(void *p)
{
	pod_free(p);
}

static struct volumes *make_volumes(struct pods *ps)
{
	const struct volumes_spec spec = {
		.loop = ps->loop,
		.client = ps->client,
		.jobs = &ps->jobs,
		.disk = ps->disk,
		.run_dir = ps->run_dir,
		.node_name = ps->node_name,
		.host_paths = ps->host_paths,
		.tokens = ps->tokens,
		.in_use = volume_in_use,
		.event = volume_event,
		.changed = source_changed,
		.stale = volumes_stale,
		.arg = ps,
	};

	return volumes_new(&spec);
}

static struct err *make_dirs(struct pods *ps)
{
	static const char *const in_memory[] = { "state", "volumes" };

	ps->run_fd = open(ps->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ps->run_fd < 0)
		return err_sys(errno, "open %s", ps->run_dir);
	for (size_t i = 0; i < ARRAY_LEN(in_memory); i++)
		if (mkdirat(ps->run_fd, in_memory[i], 0700) < 0 && errno != EEXIST)
			return err_sys(errno, "create %s/%s", ps->run_dir, in_memory[i]);
	return NULL;
}

struct err *pods_open(const struct pods_spec *spec, struct pods **ret)
{
	static const struct http_limits probe_limits = { .max_head = 16 * 1024, .max_headers = 64 };
	const struct kinds *kinds = client_kinds(spec->client);
	autoptr(pods) ps = xnew(struct pods);
	const struct queue_spec queue = {
		.loop = spec->loop, .run = pod_pass, .slowed = pod_slowed, .arg = ps
	};
	struct err *e;

	ps->loop = spec->loop;
	ps->client = spec->client;
	ps->rt = spec->runtime->ops;
	ps->rt_ctx = spec->runtime->ctx;
	ps->find_image = spec->find_image;
	ps->images = spec->images;
	ps->pull_image = spec->pull_image;
	ps->pulls = spec->pulls;
	ps->budget = spec->budget;
	ps->holds = spec->holds;
	ps->inside = spec->inside;
	ps->tries = spec->tries ? spec->tries : &probe_real_tries;
	ps->node_name = xstrdup(spec->node_name);
	ps->disk = spec->disk;
	ps->handlers = spec->handlers;
	ps->host_paths = spec->host_paths;
	ps->tokens = spec->tokens;
	ps->run_dir = xstrdup(spec->run_dir);
	ps->mark = spec->mark;
	ps->resolver = spec->resolver;
	ps->name_server = xstrdup(spec->name_server);
	ps->domain = xstrdup(spec->domain);
	ps->run_fd = -1;
	ps->kind_pod = kinds_need(kinds, "v1", "Pod");
	ps->kind_class = kinds_need(kinds, "node.k8s.io/v1", "RuntimeClass");
	jobs_init(&ps->jobs, ps->loop, job_ended, ps);
	waits_init(&ps->waits);
	deferred_init(&ps->check, ps->loop, check_stopped, ps);
	ps->pods = map_new(free_pod);
	ps->queue = queue_new(&queue);
	ps->probes = probes_queue_new(ps);
	ps->events = events_new(ps);
	ps->volumes = make_volumes(ps);
	e = make_dirs(ps);
	if (e)
		return e;
	e = tls_client_ctx(&(struct tls_client_spec){ .insecure = true }, &ps->probe_tls);
	if (e)
		return e;
	ps->probe_pool = http_pool_new(ps->loop, &probe_limits, 0);
	http_pool_set_mark(ps->probe_pool, ps->mark);
	ps->usage = usage_new(ps, spec->data_dir, spec->usage_interval_ms);
	recover_load(ps);
	*ret = take(ps);
	return NULL;
}

static void class_changed(void *arg, struct object *was, struct object *now)
{
	waits_class_changed(arg, now ? now->name : was->name);
}

void pods_start(struct pods *ps)
{
	static const struct client_watch_events class_events = { .changed = class_changed };
	const struct client_watch_spec classes = { .kind = ps->kind_class };
	static const struct client_watch_events events = { .changed = pod_changed,
							   .synced = on_pods_known };
	static const struct client_watch_events node_events = { .changed = node_changed };
	const struct client_watch_spec spec = { .kind = ps->kind_pod };
	const struct client_watch_spec node = { .kind = kinds_need(client_kinds(ps->client), "v1",
								   "Node") };

	volumes_start(ps->volumes);
	ps->class_watch = client_watch(ps->client, &classes, &class_events, ps);
	ps->node_watch = client_watch(ps->client, &node, &node_events, ps); /* before any Pod */
	ps->watch = client_watch(ps->client, &spec, &events, ps);
}

const struct object *pods_at(const struct pods *ps, const char *ip)
{
	map_each(it, ps->pods) {
		const struct pod *p = it.value;

		if (p->net && str_eq(p->net->ip, ip))
			return p->obj;
	}
	return NULL;
}

void pods_set_access(struct pods *ps, struct access *a)
{
	ps->access = a;
}

void pods_free(struct pods *ps)
{
	if (!ps)
		return;
	client_watch_free(ps->watch);
	client_watch_free(ps->class_watch);
	client_watch_free(ps->node_watch);
	volumes_stop(ps->volumes);
	ps->stopped = NULL;
	if (ps->usage)
		usage_stop(ps->usage);
	/* Pods first, then the jobs, which look for their Pods when they end. */
	queue_free(take(ps->queue));
	map_free(take(ps->pods));
	ps->pods = map_new(NULL);
	jobs_wait(&ps->jobs);
	deferred_cancel(&ps->check);
	map_free(ps->pods);
	queue_free(ps->probes);
	volumes_free(ps->volumes);
	usage_free(ps->usage);
	events_free(ps->events);
	map_free(ps->left);
	tls_ctx_unref(ps->probe_tls);
	http_pool_free(ps->probe_pool);
	if (ps->run_fd >= 0)
		(void)close(ps->run_fd);
	free(ps->node_name);
	free(ps->run_dir);
	free(ps->name_server);
	free(ps->domain);
	free(ps);
}

void pods_settle(struct pods *ps, void (*stopped)(void *arg), void *arg)
{
	ps->stopped = stopped;
	ps->stopped_arg = arg;
	ps->settling = true;
	deferred_call(&ps->check);
}

void pods_look(struct pods *ps)
{
	usage_look(ps->usage);
	while (usage_looks(ps->usage))
		(void)loop_turn(ps->loop, 20);
}

void pods_measure(struct pods *ps)
{
	usage_look(ps->usage);
}

bool pods_usage(struct pods *ps, const struct access_target *of, struct access_usage *ret)
{
	struct container *c = NULL;
	struct err *e;

	if (!of->pod)
		return usage_of_machine(ps->usage, ret);
	e = pods_container(ps, of->ns, of->pod, of->container, &c);
	err_free(e);
	return c && usage_of_container(c, ret);
}

bool pods_attachment_usage(struct pods *ps, const char *uid, struct access_usage *ret)
{
	return usage_of_attachment(ps->usage, uid, ret);
}

void pods_usage_each(struct pods *ps, void (*fn)(void *arg, const struct access_source *s),
		     void *arg)
{
	usage_each(ps->usage, fn, arg);
}

void pods_usage_settled(struct pods *ps, const char *uid)
{
	usage_settled(ps->usage, uid);
}

void pods_metrics(const struct pods *ps, struct buf *b)
{
	usage_metrics(ps->usage, b);
	page_outs_metrics(ps, b);
}

struct err *pods_container(struct pods *ps, const char *ns, const char *pod, const char *name,
			   struct container **ret)
{
	autoptr(object) o = client_get(ps->client, ps->kind_pod, ns, pod);
	struct pod *p = o ? map_get(ps->pods, o->uid) : NULL;
	const struct pod_container_view *v;

	if (!p || p->gone)
		return err_new(ERR_NOT_FOUND, "pods \"%s\" not found", pod);
	v = str_empty(name) ? pod_view_default_container(p->view)
			    : pod_view_container(p->view, name);
	if (!v)
		return err_new(ERR_NOT_FOUND, "container %s is not valid for pod %s",
			       str_or(name, ""), pod);
	*ret = pod_container(p, v->name);
	return NULL;
}

bool pods_task_runs(struct pods *ps, const char *uid, const char *container, const char *task_id)
{
	struct pod *p = map_get(ps->pods, uid);
	struct container *c = p ? pod_container(p, container) : NULL;

	return c && container_live(c->state) && str_eq(c->log, task_id);
}

const struct object *pods_of_task(struct pods *ps, const char *uid, const char *task_id)
{
	const struct pod *p = map_get(ps->pods, uid);

	for (size_t i = 0; p && !p->gone && i < p->n_containers; i++)
		if (container_live(p->containers[i]->state) &&
		    str_eq(p->containers[i]->log, task_id))
			return p->obj;
	return NULL;
}

void pods_guest_broke(struct pods *ps, const char *task_id, const struct err *e)
{
	map_each(it, ps->pods) {
		struct pod *p = it.value;

		for (size_t i = 0; i < p->n_containers; i++)
			if (p->containers[i]->task && str_eq(p->containers[i]->log, task_id))
				container_broken(p->containers[i], e);
	}
}
