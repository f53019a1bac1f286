/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/features.h"
#include "node/host/instance.h"
#include "node/launch/launch.h"
#include "node/runtime/native_priv.h"

/*
 * Two launcher processes, one for slots and one for networks, so that neither waits for the other.
 * Each answers its requests in order. One that ends is replaced after a moment.
 */
enum {
	RESTART_MS = 1000,
	BUDGET = 16, /* answers for each callback */
};

static void failed(struct launcher_proc *p, struct err *e)
{
	log_warn("launcher cannot be used, starting another", KV("err", e));
	err_free(e);
	if (p->fd >= 0)
		(void)shutdown(p->fd, SHUT_RDWR); /* it ends; its end starts the next */
}

void launcher_ask(struct launcher_proc *p, const struct message *request)
{
	struct err *e;

	if (p->fd < 0)
		return;
	p->n_asked++;
	e = message_send(p->fd, request);
	if (e)
		failed(p, e);
}

bool launcher_ready(const struct launcher_proc *p)
{
	return p->fd >= 0 && p->n_asked < ASKED_MAX && !timer_armed(p->retry);
}

void launcher_pause(struct launcher_proc *p, unsigned ms)
{
	if (p->retry)
		timer_set(p->retry, ms);
}

/* Of those who wait for what it makes. */
static struct line *line_of(struct launcher_proc *p)
{
	return p->kind == LAUNCHER_SLOTS ? &p->native->slots.line : &p->native->nets.line;
}

static void on_refused(struct launcher_proc *p, const struct message_refused *r)
{
	struct native *n = p->native;

	if (str_eq(r->what, message_type_name(MESSAGE_SLOT))) {
		slots_refused(n, r);
	} else if (str_eq(r->what, message_type_name(MESSAGE_NET))) {
		nets_refused(n, r);
	} else if (str_eq(r->what, message_type_name(MESSAGE_NET_CHECK))) {
		nets_worn(n, r);
	} else if (str_eq(r->what, message_type_name(MESSAGE_NET_PEERS))) {
		nets_not_peered(n, r);
	} else if (str_eq(r->what, message_type_name(MESSAGE_SEAT))) {
		seats_refused(n, r);
	} else {
		native_trouble_is(n, line_of(p), r->text);
		failed(p, err_new(ERR_UNAVAILABLE, "set up the launcher: %s", r->text));
	}
}

static void on_answer(struct launcher_proc *p, struct message *answer)
{
	p->n_asked -= MIN(p->n_asked, 1u);
	if (answer->type == MESSAGE_SLOT_MADE)
		slots_made(p->native, answer);
	else if (answer->type == MESSAGE_SEAT_MADE)
		seats_made(p->native, answer);
	else if (answer->type == MESSAGE_NET_MADE)
		nets_made(p->native, answer);
	else if (answer->type == MESSAGE_NET_AS_NEW)
		nets_as_new(p->native, answer->check.name);
	else if (answer->type == MESSAGE_NET_PEERED)
		nets_peered(p->native, answer->check.name);
	else if (answer->type == MESSAGE_REFUSED)
		on_refused(p, &answer->refused);
	slots_fill(p->native);
	nets_fill(p->native);
}

static void on_ready(void *arg, unused unsigned ready)
{
	struct launcher_proc *p = arg;

	for (int i = 0; i < BUDGET; i++) {
		autoptr(arena) a = arena_new();
		enum message_got got = MESSAGE_END;
		struct message answer;
		struct err *e = message_recv(p->fd, a, &answer, &got);

		if (!e && got == MESSAGE_ONE) {
			on_answer(p, &answer);
			message_close(&answer);
			continue;
		}
		if (e || got == MESSAGE_END)
			watch_want(p->watch, 0); /* its exit is the event */
		if (e)
			failed(p, e);
		return;
	}
}

static void on_exit_of(void *arg, int status, int term_signal)
{
	struct launcher_proc *p = arg;
	struct native *n = p->native;

	p->child = NULL;
	watch_free(take(p->watch));
	if (p->fd >= 0)
		(void)close(take_fd(p->fd));
	p->n_asked = 0;
	if (!n->ending)
		log_warn("launcher ended, starting another", KV("status", status),
			 KV("signal", term_signal));
	if (!n->ending && !line_of(p)->trouble) /* it may have said why before */
		native_trouble_is(n, line_of(p), "the launcher ended");
	if (p->kind == LAUNCHER_SLOTS) {
		slots_launcher_lost(n);
		seats_launcher_lost(n);
	} else {
		nets_launcher_lost(n);
	}
	launcher_pause(p, RESTART_MS);
}

static void set_up(struct launcher_proc *p)
{
	struct native *n = p->native;
	autofree char *features = features_names(n->spec.features);
	const struct diskpool *disk = n->spec.disk;

	launcher_ask(p, &(struct message){ .type = MESSAGE_SETUP,
					   .setup = { .stage = n->stage,
						      .run = n->spec.instance->run_dir,
						      .slots_dir = n->slots_dir,
						      .disk = diskpool_ops(disk)->name,
						      .disk_limit = diskpool_sandbox_limit(disk),
						      .log_limit = diskpool_log_limit(disk),
						      .init = n->init,
						      .cgroup = cgroups_parent(n->spec.cgroups),
						      .features = features } });
}

static struct err *spawn(struct launcher_proc *p)
{
	struct native *n = p->native;
	const char *argv[] = { n->launcher, NULL };
	int pair[2], fds[LAUNCH_FD + 1] = { -1, -1, 2, -1 };
	struct child_spec spec = { .argv = argv, .fds = fds, .n_fds = ARRAY_LEN(fds) };
	struct err *e;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(errno, "make a socket pair");
	fds[LAUNCH_FD] = pair[1];
	e = child_spawn(n->loop, &spec, on_exit_of, p, &p->child);
	(void)close(pair[1]);
	p->fd = pair[0];
	if (!e)
		e = fd_set_nonblock(p->fd);
	if (e) {
		(void)close(take_fd(p->fd));
		return err_wrap(e, "start %s", n->launcher);
	}
	p->watch = watch_new(n->loop, p->fd, on_ready, p);
	watch_want(p->watch, WATCH_READ);
	set_up(p);
	return NULL;
}

static void start(struct launcher_proc *p)
{
	struct err *e = spawn(p);

	if (!e)
		return;
	native_trouble_is(p->native, line_of(p), err_text(e));
	err_free(e);
	launcher_pause(p, RESTART_MS);
}

static void on_retry(void *arg)
{
	struct launcher_proc *p = arg;

	if (p->native->ending)
		return;
	if (!p->child)
		start(p);
	slots_fill(p->native);
	nets_fill(p->native);
}

void launchers_start(struct native *n)
{
	for (int i = 0; i < LAUNCHER_KIND_MAX_; i++) {
		struct launcher_proc *p = &n->launchers[i];

		*p = (struct launcher_proc){ .native = n, .kind = (enum launcher_kind)i, .fd = -1 };
		p->retry = timer_new(n->loop, on_retry, p);
		start(p);
	}
}

/* They end by themselves when their socket closes; their ends are callbacks of the loop. */
static void await_end(struct native *n, struct launcher_proc *p)
{
	for (int turns = 0; p->child; turns++) {
		if (turns == 100)
			child_kill(p->child, SIGKILL);
		(void)loop_turn(n->loop, 20);
	}
}

void launchers_stop(struct native *n)
{
	for (int i = 0; i < LAUNCHER_KIND_MAX_; i++) {
		struct launcher_proc *p = &n->launchers[i];

		watch_free(take(p->watch));
		timer_free(take(p->retry));
		if (p->native && p->fd >= 0)
			(void)close(take_fd(p->fd));
	}
	for (int i = 0; i < LAUNCHER_KIND_MAX_; i++)
		await_end(n, &n->launchers[i]);
}
