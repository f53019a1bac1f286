/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "loop/loop.h"
#include "node/host/cgroup.h"
#include "node/runtime/guest_conn.h"
#include "node/runtime/native_priv.h"
#include "wire/wire.h"

/*
 * One task, from its slot to its end.
 *
 * A process is held by its pidfd, which is also how its end is learned: the slot is pid 1 of its
 * namespace, so nothing of the task outlives it. How the command ended is told by the guest before,
 * and the guest is killed once that is known.
 */
static const struct {
	const char *name;
	unsigned next;
} states[TASK_STATE_MAX_] = {
	[TASK_RESERVED] = { "reserved", B(TASK_LAUNCHING) | B(TASK_ENDING) | B(TASK_ENDED) },
	[TASK_LAUNCHING] = { "launching", B(TASK_STARTING) | B(TASK_ENDING) | B(TASK_ENDED) },
	[TASK_STARTING] = { "starting", B(TASK_RUNNING) | B(TASK_ENDING) | B(TASK_ENDED) },
	[TASK_ATTACHED] = { "attached",
			    B(TASK_STARTING) | B(TASK_RUNNING) | B(TASK_ENDING) | B(TASK_ENDED) },
	[TASK_RUNNING] = { "running", B(TASK_ENDING) | B(TASK_ENDED) },
	[TASK_ENDING] = { "ending", B(TASK_ENDED) },
	[TASK_ENDED] = { "ended", 0 },
};

static void enter(struct runtime_task *t, enum task_state next)
{
	assert(states[t->state].next & B(next));
	log_debug("task moves", KV("id", t->id), KV("from", states[t->state].name),
		  KV("to", states[next].name));
	t->state = next;
	if (next >= TASK_RUNNING)
		permit_put(&t->permit);
}

struct runtime_task *task_new(struct native *n, const struct runtime_record *r, int pidfd,
			      enum task_state state)
{
	struct runtime_task *t = xnew(struct runtime_task);

	t->native = n;
	t->state = state;
	t->id = xstrdup(r->id);
	t->record = *r;
	t->record.id = t->id;
	t->owns_range = true;
	t->pidfd = pidfd;
	t->ctl = -1;
	map_put(n->tasks, t->id, t);
	return t;
}

struct runtime_task *native_reserve(void *ctx, struct runtime_wait *w)
{
	struct native *n = ctx;
	struct native_slot *s = slots_take(n, w);
	struct runtime_task *t;

	if (!s)
		return NULL;
	t = task_new(n, &(struct runtime_record){ s->id, s->pid, s->range }, take_fd(s->pidfd),
		     TASK_RESERVED);
	t->ctl = take_fd(s->ctl);
	permit_take(&n->permits, &t->permit);
	slot_free(s);
	return t;
}

/* Lets go of the process, dead or alive. */
static void let_go(struct runtime_task *t)
{
	guest_conn_free(take(t->guest));
	watch_free(take(t->exit_watch));
	watch_free(take(t->ctl_watch));
	if (t->ctl >= 0)
		(void)close(take_fd(t->ctl));
	if (t->pidfd >= 0)
		(void)close(take_fd(t->pidfd));
	deferred_cancel(&t->found);
	buf_done(&t->start);
	net_leave(take(t->net));
}

static void task_free(struct runtime_task *t)
{
	let_go(t);
	seats_forget(t);
	permit_put(&t->permit);
	(void)map_take(t->native->tasks, t->id);
	free(t->id);
	free(t);
}

void native_kill(struct runtime_task *t)
{
	if (t->state >= TASK_ENDING)
		return;
	if (t->frozen)
		err_free(cgroup_freeze(t->native->spec.cgroups, t->id, false));
	(void)syscall(SYS_pidfd_send_signal, t->pidfd, SIGKILL, NULL, 0);
	enter(t, TASK_ENDING);
}

/* The last process is gone. */
static void on_exit_of(void *arg, unused unsigned ready)
{
	struct runtime_task *t = arg;
	struct native *n = t->native;
	struct runtime_end end = { .oom = cgroup_oom_kills(n->spec.cgroups, t->id) > 0,
				   .usage = usage_of_ended(n, t->id) };

	if (t->had_seats)
		usage_of_parts(n, t->id, &end);
	seats_task_over(t);
	let_go(t);
	enter(t, TASK_ENDED);
	t->events->ended(t->arg, &end);
	runtime_end_done(&end);
}

static void failed(struct runtime_task *t, struct err *e, int code)
{
	t->events->failed(t->arg, e, code); /* written down first */
	native_kill(t);
}

static void command_ended(struct runtime_task *t, const struct wire_state *s)
{
	/* written down first */
	t->events->exited(t->arg, (int)s->exit_code, (int)s->signal, s->message);
	native_kill(t);
}

static void now_running(struct runtime_task *t)
{
	enter(t, TASK_RUNNING);
	t->events->started(t->arg);
}

static void on_state(struct runtime_task *t, const struct wire_frame *f)
{
	struct wire_state s = { 0 };

	err_free(wire_state_read(f, &s)); /* it was checked */
	if (s.exited)
		command_ended(t, &s);
	else if (s.started && (t->state == TASK_ATTACHED || t->state == TASK_STARTING))
		now_running(t);
	else if (s.started && t->state == TASK_RUNNING)
		return; /* it was found frozen, and has been running all the time */
	else if (t->state == TASK_ATTACHED)
		t->events->idle(t->arg); /* the daemon died before it could say what to run */
	else
		failed(t, err_new(ERR_SYS, "start the command: the guest did not"), 128);
}

static void on_failed(struct runtime_task *t, const struct wire_frame *f)
{
	autofree char *text = NULL;
	int errnum = 0;
	struct err *e = wire_failed_read(f, &errnum, &text);

	if (!e && errnum == EALREADY) { /* by a daemon that died at that moment */
		guest_conn_ask_state(t->guest);
		return;
	}
	if (!e)
		e = err_new(ERR_SYS, "start the command: %s", text);
	failed(t, e, errnum == ENOENT ? 127 : errnum == EACCES ? 126 : 128);
}

static void on_exited(struct runtime_task *t, const struct wire_frame *f)
{
	struct wire_state s = { .message = wire_exited_message(f) };

	/* it was checked */
	err_free(wire_exited_read(f, &s.exit_code, &s.signal, &s.oom));
	command_ended(t, &s);
}

static void on_busy(struct runtime_task *t, const struct wire_frame *f)
{
	uint32_t n = 0;

	err_free(wire_u32s_read(f, &n, 1)); /* it was checked */
	if (t->events->busy)
		t->events->busy(t->arg, n);
}

static void on_frame(void *arg, const struct wire_frame *f)
{
	struct runtime_task *t = arg;

	if (f->stream || t->state >= TASK_ENDING)
		return;
	if (f->type == WIRE_STARTED_OK && t->state == TASK_STARTING)
		now_running(t);
	else if (f->type == WIRE_FAILED)
		on_failed(t, f);
	else if (f->type == WIRE_STATE)
		on_state(t, f);
	else if (f->type == WIRE_EXITED)
		on_exited(t, f);
	else if (f->type == WIRE_BUSY)
		on_busy(t, f);
}

/* Pid 1 does not hang up on us while all is well. */
static void on_closed(void *arg, struct err *e)
{
	struct runtime_task *t = arg;
	bool told = t->state >= TASK_ENDING;

	log_debug("connection to a guest ended", KV("id", t->id), KV("err", e));
	guest_conn_free(take(t->guest));
	native_kill(t);
	if (err_is(e, ERR_MALFORMED) && !told)
		t->events->broken(t->arg, e);
	else
		err_free(e);
}

static struct err *connect_guest(struct runtime_task *t)
{
	static const struct guest_conn_events events = { .frame = on_frame, .closed = on_closed };
	struct guest_conn_spec spec = {
		.loop = t->native->loop,
		.run_fd = t->native->spec.run_fd,
		.id = t->id,
		.events = &events,
		.arg = t,
	};

	return guest_connect(&spec, &t->guest);
}

static void start_command(struct runtime_task *t)
{
	struct err *e;

	enter(t, TASK_STARTING);
	e = connect_guest(t);
	if (!e)
		e = t->events->starting(t->arg);
	if (e) {
		failed(t, e, 128);
		return;
	}
	guest_conn_start(t->guest, buf_head(&t->start), t->start.len);
	buf_done(&t->start);
}

/* The slot will say nothing more. */
static void on_last_word(struct runtime_task *t, struct err *e)
{
	watch_free(take(t->ctl_watch));
	(void)close(take_fd(t->ctl));
	if (t->state != TASK_LAUNCHING)
		err_free(e);
	else if (e)
		failed(t, e, 128);
	else
		start_command(t);
}

/* "launched" and then the end of the socket: it has become cay-init. */
static void on_ctl(void *arg, unused unsigned ready)
{
	struct runtime_task *t = arg;

	for (;;) {
		autoptr(arena) a = arena_new();
		enum message_got got = MESSAGE_NONE;
		struct message m;
		struct err *e = message_recv(t->ctl, a, &m, &got);

		if (!e && got == MESSAGE_NONE)
			return;
		if (!e && got == MESSAGE_ONE)
			message_close(&m);
		if (!e && got == MESSAGE_ONE && m.type == MESSAGE_LAUNCHED) {
			t->said_launched = true;
			continue;
		}
		if (!e && got == MESSAGE_ONE)
			e = err_new(ERR_SYS, "%s",
				    m.type == MESSAGE_FAILED ? m.failed.text
							     : message_type_name(m.type));
		else if (!e && !t->said_launched)
			e = err_new(ERR_UNAVAILABLE, "the slot ended before it was launched");
		on_last_word(t, e);
		return;
	}
}

/* Asks a task that was attached for its state. */
static void ask_state(struct runtime_task *t)
{
	struct err *e = connect_guest(t);

	if (e) {
		/* It has no guest yet: the daemon died during its launch. */
		log_info("sandbox cannot be reached, ending it", KV("id", t->id), KV("err", e));
		err_free(e);
		native_kill(t);
		return;
	}
	guest_conn_ask_state(t->guest);
}

/* Only what runs is ever frozen, and a guest that is cannot say so itself. Nor is it connected to:
 * connections that it does not take would be in line until it goes on. */
static void on_found_frozen(void *arg)
{
	struct runtime_task *t = arg;

	if (t->state == TASK_ATTACHED)
		now_running(t);
}

void native_watch(struct runtime_task *t, const struct runtime_events *ev, void *arg)
{
	bool first = !t->events;

	t->events = ev;
	t->arg = arg;
	if (!first)
		return;
	t->exit_watch = watch_new(t->native->loop, t->pidfd, on_exit_of, t);
	watch_want(t->exit_watch, WATCH_READ);
	if (t->state == TASK_ATTACHED && t->frozen) {
		deferred_init(&t->found, t->native->loop, on_found_frozen, t);
		deferred_call(&t->found);
	} else if (t->state == TASK_ATTACHED) {
		ask_state(t);
	}
}

struct err *native_freeze(struct runtime_task *t, bool frozen)
{
	struct err *e;

	if (frozen && t->state != TASK_RUNNING)
		return err_new(ERR_UNAVAILABLE, "%s does not run", t->id);
	e = cgroup_freeze(t->native->spec.cgroups, t->id, frozen);
	if (e)
		return e;
	if (!frozen)
		cgroup_let_swap(t->native->spec.cgroups, t->id, false);
	t->frozen = frozen;
	if (!frozen && !t->guest && t->state < TASK_ENDING)
		ask_state(t);
	return NULL;
}

bool native_frozen(const struct runtime_task *t)
{
	return t->frozen && cgroup_frozen(t->native->spec.cgroups, t->id);
}

bool native_ask_busy(struct runtime_task *t)
{
	return t->guest && guest_conn_ask_busy(t->guest);
}

/* Only one that has become cay-init is sure to keep its namespaces until this launch is done. */
static bool can_be_joined(const struct runtime_task *t)
{
	return t && t->state >= TASK_STARTING && t->state < TASK_ENDING;
}

static struct err *send_plan(struct runtime_task *t, const struct runtime_launch *l)
{
	const struct net *net = l->net ? container_of(l->net, struct net, face) : NULL;
	bool join = can_be_joined(l->first);
	struct plan plan = *l->plan;
	autoclose fd = -1;
	int ns = join ? l->first->pidfd : net ? net->fd : -1;
	struct err *e;

	if (ns < 0)
		return err_new(ERR_UNAVAILABLE, "the Pod has no network");
	plan.join = join;
	t->native->slots.oom_score = plan.limits.oom_score; /* the next is likely to have it too */
	e = plan_to_memfd(&plan, &fd);
	if (e)
		return e;
	e = message_send(
		t->ctl, &(struct message){ .type = MESSAGE_LAUNCH, .fds = { fd, ns }, .n_fds = 2 });
	return e ? err_recode(err_wrap(e, "tell the slot what to become"), ERR_UNAVAILABLE) : NULL;
}

/* A descriptor of the network could be handed on through a directory that others see. */
static bool stays_inside(const struct plan *p)
{
	for (size_t i = 0; i < p->n_mounts; i++)
		if (!p->mounts[i].own)
			return false;
	return true;
}

struct err *native_launch(struct runtime_task *t, const struct runtime_launch *l)
{
	struct err *e = NULL;

	assert(t->events && t->state == TASK_RESERVED);
	if (!wire_start_fits(l->start))
		e = err_new(ERR_TOO_LARGE,
			    "arguments and environment of the command have more than %d bytes",
			    WIRE_MAX);
	if (!e)
		e = send_plan(t, l);
	if (e) {
		native_kill(t);
		return e;
	}
	wire_put_start(&t->start, WIRE_START, 0, l->start);
	if (l->net) {
		t->net = container_of(l->net, struct net, face);
		t->net->confined &= stays_inside(l->plan);
		net_join(t->net);
	}
	enter(t, TASK_LAUNCHING);
	t->ctl_watch = watch_new(t->native->loop, t->ctl, on_ctl, t);
	watch_want(t->ctl_watch, WATCH_READ);
	return NULL;
}

struct err *native_start(struct runtime_task *t, const struct wire_start *start)
{
	autobuf frame = { 0 };

	assert(t->state == TASK_ATTACHED && t->guest);
	if (!wire_start_fits(start))
		return err_new(ERR_TOO_LARGE,
			       "arguments and environment of the command have more than %d bytes",
			       WIRE_MAX);
	wire_put_start(&frame, WIRE_START, 0, start);
	enter(t, TASK_STARTING);
	guest_conn_start(t->guest, buf_head(&frame), frame.len);
	return NULL;
}

/* A task that is not up yet has no command that could be signalled. */
void native_signal(struct runtime_task *t, int signum)
{
	if (t->state != TASK_RUNNING || !t->guest) {
		native_kill(t);
		return;
	}
	guest_conn_signal(t->guest, signum);
}

void native_release(struct runtime_task *t, bool keep_log)
{
	assert(t->state == TASK_ENDED);
	leave(t->native,
	      &(struct leave_spec){ .id = t->id,
				    .pidfd = -1,
				    .range = t->owns_range ? (int)t->record.range : NO_RANGE,
				    .keep_log = keep_log,
				    .kill = t->had_seats });
	task_free(t);
}

void native_forget(struct runtime_task *t)
{
	task_free(t);
}
