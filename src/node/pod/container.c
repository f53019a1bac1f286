/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <signal.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "node/image/image.h"
#include "node/launch/plan.h"
#include "node/pod/pod_priv.h"
#include "node/pod/probe_priv.h"
#include "wire/wire.h"

/*
 * One container, from its plan to its end. The runtime runs it and reports what became of it; the
 * state file names the task before it gets its plan, so that it can always be found again, and is
 * marked before the guest is told to start the command. What ended without that mark never ran: it
 * is launched anew, and not counted.
 *
 *   WAITING → LAUNCHING → RUNNING → ENDING → ENDED → (WAITING, by the restart policy)
 *      └─────→ FOUND ────────┘  after a restart of the daemon
 */
enum {
	KILLED = 128 + SIGKILL,
	RELAUNCHES_AT_ONCE = 4, /* in a row */
	GRACE_MAX_S = 3600,
};

static const char *const wait_reasons[WAIT_REASON_MAX_] = {
	[WAIT_CREATING] = "ContainerCreating",     [WAIT_INIT] = "PodInitializing",
	[WAIT_IMAGE_MADE] = "ContainerCreating",   [WAIT_IMAGE_NAME] = "InvalidImageName",
	[WAIT_IMAGE_NEVER] = "ErrImageNeverPull",  [WAIT_IMAGE] = "ErrImagePull",
	[WAIT_IMAGE_BACKOFF] = "ImagePullBackOff", [WAIT_CONFIG] = "CreateContainerConfigError",
	[WAIT_CREATE] = "CreateContainerError",    [WAIT_CRASH] = "CrashLoopBackOff",
};

const char *container_reason(const struct container *c)
{
	return wait_reasons[c->why];
}

void container_enter(struct container *c, enum container_state next)
{
	assert(container_may_move(c->state, next));
	c->state = next;
	list_del(&c->slot.on);
	pod_wake(c->pod);
}

static void set_text(char **at, char *text)
{
	free(*at);
	*at = text;
}

void ending_done(struct ending *e)
{
	free(e->reason);
	free(e->message);
	free(e->id);
	*e = (struct ending){ 0 };
}

void container_wait(struct container *c, enum wait_reason why, const char *message)
{
	c->why = why;
	set_text(&c->message, xstrdup(message));
}

static void on_slot(struct runtime_wait *w)
{
	pod_wake(container_of(w, struct container, slot)->pod);
}

struct container *container_new(struct pod *p, const struct pod_container_view *v)
{
	struct container *c = xnew(struct container);

	*c = (struct container){ .pod = p, .view = v, .slot.ready = on_slot };
	c->slot.later = pod_made_ahead(p);
	list_init(&c->slot.on);
	container_pull_init(c);
	c->why = v->init || v->ephemeral || !p->n_init ? WAIT_CREATING : WAIT_INIT;
	return c;
}

static void free_probes(struct container *c)
{
	probe_free(take(c->startup));
	probe_free(take(c->readiness));
	probe_free(take(c->liveness));
	probe_free(take(c->post_start));
	probe_free(take(c->pre_stop));
}

void container_free(struct container *c)
{
	free_probes(c);
	list_del(&c->slot.on);
	image_pull_leave(&c->pull);
	if (c->task)
		c->pod->pods->rt->forget(c->task);
	image_free(c->image);
	ending_done(&c->end);
	ending_done(&c->last);
	container_size_done(c);
	meter_done(&c->meter);
	free(c->message);
	free(c->log);
	free(c->prev_log);
	free(c);
}

void container_probe(struct container *c)
{
	c->readiness = probe_new(c, PROBE_READINESS);
	c->liveness = probe_new(c, PROBE_LIVENESS);
}

/* Its postStart hook, if it has one, has ended. */
static void begin_probes(struct container *c)
{
	/* One that was found frozen was ready: only that is frozen, and it cannot show it now. */
	if (!c->pod->sleep.frozen)
		c->startup = probe_new(c, PROBE_STARTUP);
	if (!c->startup)
		container_probe(c);
	if (c->pod->sleep.frozen)
		probe_assume_ok(c->readiness);
}

bool container_started(const struct container *c)
{
	return c->state == CONTAINER_RUNNING && probe_ok(c->post_start) && probe_ok(c->startup);
}

bool container_ready(const struct container *c)
{
	return container_started(c) && probe_ok(c->readiness);
}

void container_kill(struct container *c)
{
	pod_sleep_ends(c->pod);
	c->pod->pods->rt->kill(c->task);
	container_enter(c, CONTAINER_ENDING);
}

static void ask(struct container *c)
{
	c->pod->pods->rt->signal(c->task, image_stop_signal(c->image));
}

/* A container that is not up yet has no command that could be asked to end. One that was found is
 * asked as soon as its guest has answered. */
void container_term(struct container *c)
{
	if (c->asked && c->state == CONTAINER_RUNNING)
		return; /* it was asked, or will be when its hook has ended */
	pod_sleep_ends(c->pod);
	c->asked = true;
	if (c->state == CONTAINER_RUNNING) {
		c->pre_stop = probe_new(c, PROBE_PRE_STOP);
		if (!c->pre_stop)
			ask(c);
	} else if (c->state == CONTAINER_FOUND)
		c->term_due = true;
	else if (c->state != CONTAINER_ENDING)
		container_kill(c);
}

void container_hooked(struct container *c, bool pre_stop)
{
	if (c->state != CONTAINER_RUNNING)
		return;
	if (pre_stop) /* however it went */
		ask(c);
	else if (probe_ok(c->post_start))
		begin_probes(c);
	pod_wake(c->pod);
}

static int64_t replace_grace_s(const struct container *c)
{
	const struct pod_container_view *v = c->view;
	int64_t own = probe_dead(c->startup)    ? v->startup.grace_s
		      : probe_dead(c->liveness) ? v->liveness.grace_s
						: -1;

	return own >= 0 ? own : c->pod->view->grace_s;
}

void container_replace(struct container *c)
{
	int64_t s = replace_grace_s(c);

	if (s <= 0) {
		container_kill(c);
		return;
	}
	c->kill_at = pods_now(c->pod->pods) + MIN(s, (int64_t)GRACE_MAX_S) * 1000000;
	container_term(c);
}

char *container_id(const char *task_id)
{
	return xasprintf("cay://%s", task_id);
}

static void end_with(struct container *c, const char *reason, const char *message)
{
	set_text(&c->end.reason, xstrdup(reason));
	set_text(&c->end.message, xstrdup(message));
}

/* Until more is known, an end counts as a kill. */
static void expect_kill(struct container *c)
{
	ending_done(&c->end);
	c->end.code = KILLED;
	c->end.signal = SIGKILL;
}

/* Completes the ending; a reason that was set before stays. */
static void make_ending(struct container *c, const struct runtime_end *end)
{
	struct ending *e = &c->end;

	e->started = c->started;
	e->finished = pods_wall(c->pod->pods);
	set_text(&e->id, container_id(c->log));
	if (!e->reason)
		end_with(c,
			 end->oom && e->signal == SIGKILL ? "OOMKilled"
			 : e->code                        ? "Error"
							  : "Completed",
			 e->message);
}

void container_lost(struct container *c, const struct runtime_end *end)
{
	usage_ended(c, end);
	if (!c->exited)
		expect_kill(c);
	if (!c->exited && !end->oom)
		end_with(c, "ContainerStatusUnknown", "it ended while the node was away");
	make_ending(c, end);
	container_enter(c, CONTAINER_ENDED);
}

void container_hold_back(struct container *c, unsigned s)
{
	c->backoff_until = pods_now(c->pod->pods) + (usec)s * 1000000;
}

/* The runtime: what became of the task */

static struct err *on_starting(void *arg)
{
	struct container *c = arg;
	struct err *e;

	c->unstarted = false;
	e = pod_try_save(c->pod);
	c->unstarted = e != NULL;
	return e;
}

static void on_started(void *arg)
{
	struct container *c = arg;
	bool fresh = c->state == CONTAINER_LAUNCHING;

	if (!fresh && c->state != CONTAINER_FOUND)
		return; /* it is already meant to end */
	c->relaunches = c->create_backoff_s = 0;
	if (fresh || !c->started)
		c->started = pods_wall(c->pod->pods);
	c->post_start = fresh ? probe_new(c, PROBE_POST_START) : NULL;
	if (!c->post_start)
		begin_probes(c);
	container_enter(c, CONTAINER_RUNNING);
	if (c->term_due) {
		c->asked = false;
		container_term(c);
	}
	if (fresh)
		pod_event(c->pod, false, "Started", "Started container %s", c->view->name);
}

/* Takes e over. */
static void start_failed(struct container *c, struct err *e, int code)
{
	log_info("container did not start", KV("pod", c->pod->obj->name),
		 KV("container", c->view->name), KV("err", e));
	pod_event(c->pod, true, "Failed", "Error: %s", err_text(e));
	end_with(c, "StartError", err_text(e));
	c->end.code = code;
	c->end.signal = 0;
	err_free(e);
}

/* How it ended is written down before its guest is killed, which could tell it again; but of a Pod
 * that is being deleted nobody asks. */
static void exited(struct container *c)
{
	c->exited = true;
	if (!c->pod->gone && !c->pod->view->deleting)
		pod_save(c->pod);
	container_enter(c, CONTAINER_ENDING);
}

/* The mark was written, and then the daemon died: nobody can say whether the command was sent. The
 * guest can, and takes it once. */
static void on_idle(void *arg)
{
	struct container *c = arg;
	autoptr(arena) a = arena_new();
	struct wire_start start = { 0 };
	struct err *e = container_start(c, a, &start);

	if (!e)
		e = c->pod->pods->rt->start(c->task, &start);
	if (!e)
		return;
	start_failed(c, e, 128);
	container_kill(c);
}

/* Takes e over. */
static void start_failed_or_again(struct container *c, struct err *e, int code)
{
	if (err_is(e, ERR_UNAVAILABLE) && c->unstarted) {
		log_warn("slot was gone before its container started, taking another",
			 KV("pod", c->pod->obj->name), KV("container", c->view->name),
			 KV("err", e));
		err_free(e);
		container_enter(c, CONTAINER_ENDING);
	} else {
		start_failed(c, e, code);
		exited(c);
	}
}

static void on_failed(void *arg, struct err *e, int code)
{
	struct container *c = arg;

	if (c->state == CONTAINER_ENDING) {
		err_free(e); /* it was expected to end */
		return;
	}
	start_failed_or_again(c, e, code);
}

void container_broken(struct container *c, const struct err *e)
{
	if (c->state == CONTAINER_ENDING || !container_live(c->state))
		return;
	log_warn("guest broke the protocol, ending its container", KV("pod", c->pod->obj->name),
		 KV("container", c->view->name), KV("err", e));
	pod_event(c->pod, true, "GuestProtocolError", "Killing container %s: %s", c->view->name,
		  err_text(e));
	expect_kill(c);
	end_with(c, "GuestProtocolError", err_text(e));
	container_kill(c);
}

static void on_broken(void *arg, struct err *e)
{
	container_broken(arg, e);
	err_free(e);
}

/* As the API can show it. Whoever wrote it may have had other ideas about text. */
static char *readable(struct span text)
{
	char *s = text.len ? xcalloc(1, text.len + 1) : NULL;

	for (size_t i = 0; i < text.len; i++)
		s[i] = text.p[i] ? text.p[i] : '?';
	for (size_t at = 0; at < text.len; at++) {
		at += utf8_prefix(s + at, text.len - at);
		if (at < text.len)
			s[at] = '?';
	}
	return s;
}

static void on_exited(void *arg, int code, int signum, struct span message)
{
	struct container *c = arg;

	if (c->state == CONTAINER_ENDING)
		return;
	c->end.code = code;
	c->end.signal = signum;
	set_text(&c->end.message, readable(message));
	exited(c);
}

/* The slot was gone before it ran anything: the same attempt, with another one. The runtime
 * replaces slots that die while they are parked: only one that dies between its choice and the
 * start of the command is met here, and a few of those in a row are no reason to wait. */
static void launch_again(struct container *c)
{
	c->pod->pods->rt->release(take(c->task), false);
	free(take(c->log));
	ending_done(&c->end);
	container_enter(c, CONTAINER_ENDED);
	container_enter(c, CONTAINER_WAITING);
	container_wait(c, WAIT_CREATING, "");
	if (++c->relaunches > RELAUNCHES_AT_ONCE) {
		c->create_backoff_s = create_backoff_s(c->create_backoff_s);
		container_hold_back(c, c->create_backoff_s);
	}
}

static void on_ended(void *arg, const struct runtime_end *end)
{
	struct container *c = arg;
	bool keep_log = c->pod->phase != POD_TERMINATING;

	pod_sleep_ends(c->pod); /* what follows may need the others */
	usage_ended(c, end);
	if (c->unstarted && !c->end.reason && c->pod->phase == POD_ACTIVE) {
		launch_again(c);
		return;
	}
	make_ending(c, end);
	free_probes(c);
	c->pod->pods->rt->release(take(c->task), keep_log);
	if (!keep_log)
		free(take(c->log));
	log_debug("container ended", KV("pod", c->pod->obj->name), KV("container", c->view->name),
		  KV("code", c->end.code), KV("reason", c->end.reason));
	container_enter(c, CONTAINER_ENDED);
	if (((c->view->init && !c->view->sidecar) || c->view->ephemeral) && !c->pod->gone)
		pod_save(c->pod); /* it must not run a second time */
}

static void on_busy(void *arg, uint32_t n)
{
	((struct container *)arg)->commands = n;
}

static const struct runtime_events events = {
	.starting = on_starting,
	.idle = on_idle,
	.started = on_started,
	.failed = on_failed,
	.broken = on_broken,
	.exited = on_exited,
	.busy = on_busy,
	.ended = on_ended,
};

/* Until the runtime says otherwise, assume that it was killed. */
static void take_task(struct container *c, struct runtime_task *t)
{
	const struct runtime_ops *rt = c->pod->pods->rt;

	c->task = t;
	set_text(&c->log, xstrdup(rt->record(t)->id));
	usage_started(c, c->log);
	if (!c->exited)
		expect_kill(c);
	rt->watch(t, &events, c);
}

void container_attach(struct container *c, struct runtime_task *t)
{
	take_task(c, t);
	container_enter(c, CONTAINER_FOUND);
}

/* Launching */

/* Takes e over. */
static void cannot_create(struct container *c, struct err *e)
{
	if (!str_eq(c->message, err_text(e)))
		pod_event(c->pod, true, "Failed", "Error: %s", err_text(e));
	container_wait(c, err_is(e, ERR_UNAVAILABLE) ? WAIT_CONFIG : WAIT_CREATE, err_text(e));
	c->create_backoff_s = create_backoff_s(c->create_backoff_s);
	container_hold_back(c, c->create_backoff_s);
	err_free(e);
}

/* Everything that a start needs is made before a slot is taken, as an object may be missing; but
 * not before there is a slot to take. */
static struct err *make_start(struct container *c, struct arena *a, struct plan *plan,
			      struct wire_start *start)
{
	struct err *e = container_start(c, a, start);

	if (!e && !start->uid && c->view->nonroot)
		e = err_new(ERR_UNAVAILABLE, "container has runAsNonRoot and would run as root");
	return e ? e : container_plan(c, a, plan);
}

/* A slot will be free soon, unless the host cannot make any: then the status must say so. */
static void wait_for_slot(struct container *c)
{
	const char *trouble = c->pod->pods->rt->trouble(c->pod->pods->rt_ctx);

	if (!trouble || str_eq(c->message, trouble))
		return;
	container_wait(c, WAIT_CREATING, trouble);
	pod_event(c->pod, true, "FailedCreatePodSandBox", "Failed to create pod sandbox: %s",
		  trouble);
}

/* The first container that runs owns the IPC and UTS namespaces that the others join. */
static struct runtime_task *first_task(const struct pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];

		if (c->state == CONTAINER_RUNNING && (!c->view->init || c->view->sidecar))
			return c->task;
	}
	return NULL;
}

bool container_launch(struct container *c)
{
	struct pods *ps = c->pod->pods;
	autoptr(arena) a = arena_new();
	struct plan plan = { 0 };
	struct wire_start start = { 0 };
	const struct runtime_launch launch = {
		.plan = &plan, .start = &start, .net = c->pod->net, .first = first_task(c->pod)
	};
	struct plan_image image;
	struct runtime_task *t;
	struct err *e;

	if (c->pod->sleep.frozen) /* one for debugging is added */
		pod_used(c->pod, "container");
	if (!ephemeral_admit(c) || !container_find_image(c))
		return false;
	image = container_image(c, a);
	if (!ps->rt->has_slot(ps->rt_ctx, &image, &c->slot)) {
		wait_for_slot(c);
		return false;
	}
	e = make_start(c, a, &plan, &start);
	if (e) {
		cannot_create(c, e);
		return false;
	}
	t = ps->rt->reserve(ps->rt_ctx, &c->slot);
	if (!t)
		return false;
	c->started = 0;
	c->unstarted = true;
	c->exited = c->asked = false;
	c->kill_at = 0;
	container_size_applied(c);
	take_task(c, t);
	container_enter(c, CONTAINER_LAUNCHING);
	pod_mounts_pvcs(c->pod, volumes_handles(ps->volumes, c->pod->view, a));
	pod_save(c->pod);
	pod_event(c->pod, false, "Created", "Created container: %s", c->view->name);
	e = ps->rt->launch(t, &launch);
	if (e)
		start_failed_or_again(c, e, 128);
	return true;
}

/* The last attempt's log is kept as "previous"; the one before it is removed. */
static void next_attempt(struct container *c)
{
	struct pods *ps = c->pod->pods;

	if (c->prev_log)
		ps->rt->drop_log(ps->rt_ctx, c->prev_log);
	set_text(&c->prev_log, take(c->log));
	ending_done(&c->last);
	c->last = c->end;
	c->end = (struct ending){ 0 };
	c->restarts++;
	c->pulled = false;
	c->started = 0;
	container_enter(c, CONTAINER_WAITING);
}

void container_restart(struct container *c)
{
	usec ran = c->end.started ? c->end.finished - c->end.started : 0;
	unsigned s = c->resize_restarts
			     ? 0
			     : restart_backoff_s(c->restarts + 1, ran, c->crash_backoff_s);
	autofree char *text = NULL;

	next_attempt(c);
	c->resize_restarts = false;
	c->crash_backoff_s = s;
	if (s) {
		container_hold_back(c, s);
		text = xasprintf("back-off %us restarting failed container=%s pod=%s", s,
				 c->view->name, c->pod->obj->name);
		container_wait(c, WAIT_CRASH, text);
		pod_event(c->pod, true, "BackOff",
			  "Back-off restarting failed container %s in pod %s", c->view->name,
			  c->pod->obj->name);
	} else {
		container_wait(c, WAIT_CREATING, "");
	}
	pod_save(c->pod);
}

/* The ways in */

const char *container_name(const struct container *c)
{
	return c->view->name;
}

bool container_runs(const struct container *c)
{
	return c->state == CONTAINER_RUNNING;
}

const char *container_pod_uid(const struct container *c)
{
	return c->pod->obj->uid;
}

const char *container_task_id(const struct container *c)
{
	return c->log;
}

const char *container_last_task_id(const struct container *c)
{
	return c->prev_log;
}
