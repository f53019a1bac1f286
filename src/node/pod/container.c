/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/cgroup.h"
#include "node/launch/launch.h"
#include "node/pod/pod_priv.h"

/*
 * One container, from its plan to its end. Every move between states is here.
 *
 *   WAITING → LAUNCHING → STARTING → RUNNING → ENDING → ENDED → (WAITING, by the restart policy)
 *
 * A process is held by its pidfd, which is also how its end is learned; how the command ended is
 * told by the guest before, and the guest's pid 1 is killed once that is known.
 */
static const struct {
	const char *name;
	unsigned next;
} states[CONTAINER_STATE_MAX_] = {
	[CONTAINER_WAITING] = { "waiting", B(CONTAINER_LAUNCHING) | B(CONTAINER_RUNNING) |
						   B(CONTAINER_ENDED) | B(CONTAINER_ENDING) },
	[CONTAINER_LAUNCHING] = { "launching", B(CONTAINER_STARTING) | B(CONTAINER_ENDING) |
						       B(CONTAINER_ENDED) },
	[CONTAINER_STARTING] = { "starting",
				 B(CONTAINER_RUNNING) | B(CONTAINER_ENDING) | B(CONTAINER_ENDED) },
	[CONTAINER_RUNNING] = { "running", B(CONTAINER_ENDING) | B(CONTAINER_ENDED) },
	[CONTAINER_ENDING] = { "ending", B(CONTAINER_ENDED) },
	[CONTAINER_ENDED] = { "ended", B(CONTAINER_WAITING) },
};

static const struct guest_conn_events guest_events;

static void enter(struct container *c, enum container_state next)
{
	if (c->state == next)
		return;
	if (!(states[c->state].next & B(next)))
		log_error("container moved as it must not", KV("from", states[c->state].name),
			  KV("to", states[next].name));
	c->state = next;
	node_wake(c->pod->node, c->pod);
}

void ending_done(struct ending *e)
{
	free(e->reason);
	free(e->message);
	free(e->id);
	*e = (struct ending){ 0 };
}

static void set_text(char **at, char *text)
{
	free(*at);
	*at = text;
}

void container_wait(struct container *c, const char *reason, const char *fmt, ...)
{
	autobuf b = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	set_text(&c->reason, xstrdup(reason));
	set_text(&c->message, buf_steal(&b, NULL));
}

static void on_backoff(void *arg)
{
	struct container *c = arg;

	node_wake(c->pod->node, c->pod);
}

void container_init(struct container *c, struct pod *p, const struct json *spec, bool init)
{
	*c = (struct container){ .pod = p, .spec = spec, .init = init, .pidfd = -1, .ctl = -1 };
	c->name = xstrdup(str_or(json_get_str(spec, "name"), ""));
	c->backoff = timer_new(p->node->loop, on_backoff, c);
	container_wait(c, init || !p->n_init ? "ContainerCreating" : "PodInitializing", "%s", "");
}

/* Lets go of the process, dead or alive. */
static void release(struct container *c)
{
	guest_conn_free(take(c->guest));
	watch_free(take(c->exit_watch));
	watch_free(take(c->ctl_watch));
	if (c->ctl >= 0)
		(void)close(take_fd(c->ctl));
	if (c->pidfd >= 0)
		(void)close(take_fd(c->pidfd));
	probe_free(take(c->ready_probe));
	probe_free(take(c->live_probe));
	probe_free(take(c->startup_probe));
}

void container_done(struct container *c)
{
	release(c);
	timer_free(take(c->backoff));
	image_free(take(c->image));
	ending_done(&c->end);
	ending_done(&c->last);
	free(c->name);
	free(c->reason);
	free(c->message);
	free(c->slot);
	free(c->root);
	free(c->prev);
}

bool container_live(const struct container *c)
{
	return c->slot != NULL;
}

void container_kill(struct container *c)
{
	if (!container_live(c))
		return;
	if (!c->kill_sent && c->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
	c->kill_sent = true;
	if (c->state != CONTAINER_ENDED)
		enter(c, CONTAINER_ENDING);
}

/* A container that is not up yet has no command that could be asked to end. */
void container_term(struct container *c)
{
	uint32_t signum = SIGTERM;

	if (c->term_sent || !container_live(c))
		return;
	c->term_sent = true;
	if (c->state != CONTAINER_RUNNING || !c->guest) {
		container_kill(c);
		return;
	}
	wire_put_u32s(guest_conn_out(c->guest), WIRE_SIGNAL, 0, &signum, 1);
	guest_conn_kick(c->guest);
}

static void end_with(struct container *c, const char *reason, const char *message, int code)
{
	set_text(&c->end.reason, xstrdup(reason));
	set_text(&c->end.message, xstrdup(message));
	c->end.code = code;
}

/* It could not be started: what is there of it goes. */
static void start_failed(struct container *c, struct err *e)
{
	log_info("container did not start", KV("pod", c->pod->obj->name), KV("container", c->name),
		 KV("err", e));
	event_add(c->pod->node, c->pod->obj, true, "Failed", "Error: %s", err_text(e));
	end_with(c, "StartError", err_text(e), 128);
	err_free(e);
	c->exit_known = true;
	container_kill(c);
}

static void fill_ending(struct container *c, bool oom)
{
	struct ending *e = &c->end;

	e->started = c->started;
	e->finished = clock_wall();
	set_text(&e->id, xasprintf("cay://%s", c->slot));
	if (e->reason)
		return;
	e->code = c->exit_known ? c->exit_code : 128 + SIGKILL;
	e->signal = c->exit_known ? c->exit_signal : SIGKILL;
	if (oom && e->signal == SIGKILL)
		end_with(c, "OOMKilled", NULL, e->code);
	else
		end_with(c, e->code ? "Error" : "Completed", NULL, e->code);
}

/* The last process is gone. */
static void on_exit_ready(void *arg, unused unsigned ready)
{
	struct container *c = arg;
	struct node *n = c->pod->node;
	autofree char *sock = xasprintf("%s.sock", c->slot);
	bool oom = cgroup_oom_kills(n->cgroups, c->slot) > 0;
	bool keep_log = c->pod->phase != POD_TERMINATING;

	fill_ending(c, oom);
	release(c);
	(void)unlinkat(n->run_fd, sock, 0);
	slot_release(n, c->slot, c->range, keep_log);
	if (!keep_log)
		free(take(c->root));
	free(take(c->slot));
	c->pid = 0;
	c->ready = false;
	log_debug("container ended", KV("pod", c->pod->obj->name), KV("container", c->name),
		  KV("code", c->end.code), KV("reason", c->end.reason));
	if (c->init && !c->pod->gone)
		pod_save(c->pod); /* it must not run a second time */
	enter(c, CONTAINER_ENDED);
}

static void hold(struct container *c)
{
	c->exit_watch = watch_new(c->pod->node->loop, c->pidfd, on_exit_ready, c);
	watch_want(c->exit_watch, WATCH_READ);
}

static void now_running(struct container *c)
{
	if (!c->started)
		c->started = clock_wall();
	c->startup_probe = probe_new(c, json_get(c->spec, "startupProbe"), "Startup");
	c->ready_probe = probe_new(c, json_get(c->spec, "readinessProbe"), "Readiness");
	c->live_probe = probe_new(c, json_get(c->spec, "livenessProbe"), "Liveness");
	enter(c, CONTAINER_RUNNING);
}

static void on_started(struct container *c)
{
	c->started = clock_wall();
	now_running(c);
	event_add(c->pod->node, c->pod->obj, false, "Started", "Started container %s", c->name);
}

static void command_ended(struct container *c, uint32_t code, uint32_t signum)
{
	c->exit_known = true;
	c->exit_code = (int)code;
	c->exit_signal = (int)signum;
	container_kill(c);
}

static void on_state(struct container *c, const struct wire_frame *f)
{
	struct wire_state s;
	struct err *e = wire_state_read(f, &s);

	if (e) {
		start_failed(c, e);
		return;
	}
	if (s.exited)
		command_ended(c, s.exit_code, s.signal);
	else if (s.started && c->state == CONTAINER_WAITING)
		now_running(c);
	else if (!s.started)
		container_kill(c); /* the daemon died before it could say what to run */
}

static void on_failed(struct container *c, const struct wire_frame *f)
{
	autofree char *text = NULL;
	int errnum;
	struct err *e = wire_failed_read(f, &errnum, &text);

	if (e) {
		start_failed(c, e);
		return;
	}
	start_failed(c, err_new(ERR_SYS, "start the command: %s", text));
	c->end.code = errnum == ENOENT ? 127 : errnum == EACCES ? 126 : 128;
}

static void on_frame(void *arg, const struct wire_frame *f)
{
	struct container *c = arg;
	uint32_t code = 0, signum = 0;
	bool oom;

	if (f->stream || c->state == CONTAINER_ENDING)
		return;
	if (f->type == WIRE_STARTED_OK && c->state == CONTAINER_STARTING) {
		on_started(c);
	} else if (f->type == WIRE_FAILED) {
		on_failed(c, f);
	} else if (f->type == WIRE_STATE) {
		on_state(c, f);
	} else if (f->type == WIRE_EXITED) {
		struct err *e = wire_exited_read(f, &code, &signum, &oom);

		err_free(e); /* whatever it meant to say, it is over */
		command_ended(c, code, signum);
	}
}

/* Pid 1 does not hang up on us while all is well. */
static void on_closed(void *arg, struct err *e)
{
	struct container *c = arg;

	log_debug("guest hung up", KV("container", c->name), KV("err", e));
	err_free(e);
	guest_conn_free(take(c->guest));
	container_kill(c);
}

static const struct guest_conn_events guest_events = { .frame = on_frame, .closed = on_closed };

static struct err *tell_start(struct container *c)
{
	autoptr(arena) a = arena_new();
	struct wire_start s;
	struct err *e = plan_start(c, a, &s);

	if (!e && !wire_start_fits(&s))
		e = err_new(ERR_TOO_LARGE,
			    "start the command: arguments and environment are too long");
	if (!e)
		e = guest_connect(c->pod->node, c->slot, &guest_events, c, &c->guest);
	if (e)
		return e;
	wire_put_start(guest_conn_out(c->guest), WIRE_START, 0, &s);
	guest_conn_kick(c->guest);
	return NULL;
}

/* The slot's last word: an error, or its end because it has become cay-init. */
static void on_ctl(void *arg, unused unsigned ready)
{
	static struct launch_msg m;
	struct container *c = arg;
	autoptr(json_doc) d = NULL;
	bool again;
	struct err *e = launch_recv(c->ctl, &m, &again);

	if (!e && again)
		return;
	watch_free(take(c->ctl_watch));
	(void)close(take_fd(c->ctl));
	if (c->state != CONTAINER_LAUNCHING) {
		err_free(e);
		return;
	}
	if (!e && m.len) {
		e = json_parse(m.text, m.len, NULL, &d);
		if (!e)
			e = err_new(ERR_SYS, "%s",
				    str_or(json_get_str(json_root(d), "error"), "launch"));
	}
	if (!e) {
		enter(c, CONTAINER_STARTING);
		e = tell_start(c);
	}
	if (e)
		start_failed(c, e);
}

static struct err *plan_memfd(const struct json_doc *plan, int *ret)
{
	autobuf text = { 0 };
	autoclose fd = memfd_create("cay-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "make a memory file");
	json_write(json_root(plan), &text);
	e = fd_write_all(fd, buf_head(&text), text.len);
	if (e)
		return e;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_sys(errno, "seal the plan");
	*ret = take_fd(fd);
	return NULL;
}

/* The first container that runs brings the IPC and UTS namespaces that the others join. */
static struct container *first_live(const struct pod *p)
{
	for (size_t i = p->n_init; i < p->n_containers; i++)
		if (container_live(&p->containers[i]) &&
		    p->containers[i].state >= CONTAINER_STARTING &&
		    p->containers[i].state < CONTAINER_ENDING)
			return &p->containers[i];
	return NULL;
}

static struct err *send_plan(struct container *c, struct json_doc *plan)
{
	struct container *first = first_live(c->pod);
	autoclose fd = -1;
	int fds[2];
	struct err *e;

	json_set_bool(plan, json_root(plan), "join", first != NULL);
	e = plan_memfd(plan, &fd);
	if (e)
		return e;
	fds[0] = fd;
	fds[1] = first ? first->pidfd : c->pod->net->fd;
	return launch_send(c->ctl, "{}", 2, fds, 2);
}

/* The state file names the process before it gets its plan: whatever happens, it will be found. */
static void adopt(struct container *c, struct berth *b)
{
	free(c->slot);
	c->slot = take(b->name);
	set_text(&c->root, xstrdup(c->slot));
	c->range = b->range;
	c->pid = b->pid;
	c->pidfd = take_fd(b->pidfd);
	c->ctl = take_fd(b->ctl);
	watch_free(take(b->watch));
	free(b);
	c->exit_known = c->kill_sent = c->term_sent = false;
	c->started = 0;
	ending_done(&c->end);
	pod_save(c->pod);
	hold(c);
	c->ctl_watch = watch_new(c->pod->node->loop, c->ctl, on_ctl, c);
	watch_want(c->ctl_watch, WATCH_READ);
	enter(c, CONTAINER_LAUNCHING);
}

/* The last attempt's log stays to be read as "previous"; the one before it goes. */
void container_again(struct container *c)
{
	if (c->prev)
		node_remove_tree(c->pod->node, root_path(c->pod->node, c->prev));
	set_text(&c->prev, take(c->root));
	ending_done(&c->last);
	c->last = c->end;
	c->end = (struct ending){ 0 };
	c->restarts++;
	c->started = 0;
	enter(c, CONTAINER_WAITING);
}

static void retry_later(struct container *c, unsigned first_s)
{
	c->backoff_s = c->backoff_s ? MIN(c->backoff_s * 2, 300u) : first_s;
	timer_set(c->backoff, c->backoff_s * 1000ULL);
}

static bool find_image(struct container *c)
{
	const char *name = str_or(json_get_str(c->spec, "image"), "");
	bool never = str_eq(json_get_str(c->spec, "imagePullPolicy"), "Never");
	struct image *img = NULL;
	struct err *e = images_find(c->pod->node->images, name, &img);

	if (!e) {
		image_free(c->image);
		c->image = img;
		return true;
	}
	c->pod->waiting = true;
	if (!str_eq(c->message, err_text(e)))
		event_add(c->pod->node, c->pod->obj, true, "Failed",
			  "Failed to pull image \"%s\": %s", name, err_text(e));
	container_wait(c,
		       err_is(e, ERR_INVALID) ? "InvalidImageName"
		       : never                ? "ErrImageNeverPull"
					      : "ErrImagePull",
		       "%s", err_text(e));
	err_free(e);
	return false;
}

static void cannot_create(struct container *c, struct err *e)
{
	const char *reason =
		err_is(e, ERR_UNAVAILABLE) ? "CreateContainerConfigError" : "CreateContainerError";

	c->pod->waiting = true;
	if (!str_eq(c->message, err_text(e)))
		event_add(c->pod->node, c->pod->obj, true, "Failed", "Error: %s", err_text(e));
	container_wait(c, reason, "%s", err_text(e));
	err_free(e);
	retry_later(c, 5);
}

/* What a start needs is tried before a slot is taken: the environment may lack an object. */
static struct err *check_start(struct container *c)
{
	autoptr(arena) a = arena_new();
	struct wire_start s;
	struct err *e = plan_start(c, a, &s);

	if (!e && !s.uid && plan_wants_nonroot(c))
		e = err_new(ERR_UNAVAILABLE, "container has runAsNonRoot and would run as root");
	return e;
}

/* A slot is there soon, unless the host cannot make any: that must be seen. */
static void wait_for_slot(struct container *c)
{
	const char *trouble = nursery_trouble(c->pod->node->nursery);

	c->pod->waiting = true;
	if (!trouble || str_eq(c->message, trouble))
		return;
	container_wait(c, "ContainerCreating", "%s", trouble);
	event_add(c->pod->node, c->pod->obj, true, "FailedCreatePodSandBox",
		  "Failed to create pod sandbox: %s", trouble);
}

void container_advance(struct container *c)
{
	autoptr(json_doc) plan = NULL;
	struct berth *b;
	struct err *e;

	if (c->state != CONTAINER_WAITING || timer_armed(c->backoff) || !find_image(c))
		return;
	e = check_start(c);
	if (!e)
		e = plan_make(c, &plan);
	if (e) {
		cannot_create(c, e);
		return;
	}
	nursery_expect(c->pod->node->nursery, json_get(json_root(plan), "image"));
	b = nursery_take_berth(c->pod->node->nursery);
	if (!b) {
		wait_for_slot(c);
		return;
	}
	adopt(c, b);
	event_add(c->pod->node, c->pod->obj, false, "Created", "Created container: %s", c->name);
	e = send_plan(c, plan);
	if (e)
		start_failed(c, e);
}

/* c has slot, pid and pidfd from the state file, and the process is alive. */
void container_attach(struct container *c)
{
	struct err *e;

	hold(c);
	e = guest_connect(c->pod->node, c->slot, &guest_events, c, &c->guest);
	if (e) {
		/* It has no guest (yet): the daemon died within its launch. Start it anew. */
		log_info("sandbox cannot be reached, ending it", KV("container", c->name),
			 KV("err", e));
		err_free(e);
		container_kill(c);
		return;
	}
	wire_put(guest_conn_out(c->guest), WIRE_STATUS, 0, NULL, 0);
	guest_conn_kick(c->guest);
}
