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
#include "node/host/instance.h"
#include "node/launch/launch.h"
#include "node/runtime/native_priv.h"

/*
 * Two launcher processes, one for slots and one for networks, so that neither waits for the other.
 * Each answers its requests in order. One that ends is replaced after a moment.
 */
enum {
	RESTART_MS = 1000,
	BUDGET = 16, /* answers per callback */
};

static void failed(struct maker *m, struct err *e)
{
	log_warn("launcher cannot be used, starting another", KV("err", e));
	err_free(e);
	if (m->fd >= 0)
		(void)shutdown(m->fd, SHUT_RDWR); /* it ends; its end starts the next */
}

void maker_ask(struct maker *m, const struct message *request)
{
	struct err *e;

	if (m->fd < 0)
		return;
	m->n_asked++;
	e = message_send(m->fd, request);
	if (e)
		failed(m, e);
}

bool maker_ready(const struct maker *m)
{
	return m->fd >= 0 && m->n_asked < ASKED_MAX && !timer_armed(m->retry);
}

void maker_pause(struct maker *m, unsigned ms)
{
	if (m->retry)
		timer_set(m->retry, ms);
}

static void on_refused(struct maker *m, const struct message_refused *r)
{
	struct native *n = m->native;

	if (str_eq(r->what, message_type_name(MESSAGE_SLOT))) {
		slots_refused(n, r);
	} else if (str_eq(r->what, message_type_name(MESSAGE_NET))) {
		nets_refused(n, r);
	} else {
		native_trouble_is(n, r->text);
		failed(m, err_new(ERR_UNAVAILABLE, "set up the launcher: %s", r->text));
	}
}

static void on_answer(struct maker *m, struct message *answer)
{
	m->n_asked -= MIN(m->n_asked, 1u);
	if (answer->type == MESSAGE_SLOT_MADE)
		slots_made(m->native, answer);
	else if (answer->type == MESSAGE_NET_MADE)
		nets_made(m->native, answer);
	else if (answer->type == MESSAGE_REFUSED)
		on_refused(m, &answer->refused);
	slots_fill(m->native);
	nets_fill(m->native);
}

static void on_ready(void *arg, unused unsigned ready)
{
	struct maker *m = arg;

	for (int i = 0; i < BUDGET; i++) {
		autoptr(arena) a = arena_new();
		enum message_got got = MESSAGE_END;
		struct message answer;
		struct err *e = message_recv(m->fd, a, &answer, &got);

		if (!e && got == MESSAGE_ONE) {
			on_answer(m, &answer);
			message_close(&answer);
			continue;
		}
		if (e || got == MESSAGE_END)
			watch_want(m->watch, 0); /* its exit is the event */
		if (e)
			failed(m, e);
		return;
	}
}

static void on_exit_of(void *arg, int status, int term_signal)
{
	struct maker *m = arg;
	struct native *n = m->native;

	m->child = NULL;
	watch_free(take(m->watch));
	if (m->fd >= 0)
		(void)close(take_fd(m->fd));
	m->n_asked = 0;
	if (!n->ending)
		log_warn("launcher ended, starting another", KV("status", status),
			 KV("signal", term_signal));
	if (m->kind == MAKER_SLOTS)
		slots_maker_lost(n);
	else
		nets_maker_lost(n);
	maker_pause(m, RESTART_MS);
}

static void set_up(struct maker *m)
{
	struct native *n = m->native;
	autofree char *cgroup = instance_cgroup(n->spec.instance);

	maker_ask(m, &(struct message){ .type = MESSAGE_SETUP,
					.setup = { .stage = n->stage,
						   .run = n->spec.instance->run_dir,
						   .slots_dir = n->slots_dir,
						   .init = n->init,
						   .cgroup = cgroup } });
}

static struct err *spawn(struct maker *m)
{
	struct native *n = m->native;
	const char *argv[] = { n->launcher, "launch", NULL };
	int pair[2], fds[LAUNCH_FD + 1] = { -1, -1, 2, -1 };
	struct child_spec spec = { .argv = argv, .fds = fds, .n_fds = ARRAY_LEN(fds) };
	struct err *e;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(errno, "create a socket pair");
	fds[LAUNCH_FD] = pair[1];
	e = child_spawn(n->loop, &spec, on_exit_of, m, &m->child);
	(void)close(pair[1]);
	m->fd = pair[0];
	if (!e)
		e = fd_set_nonblock(m->fd);
	if (e) {
		(void)close(take_fd(m->fd));
		return err_wrap(e, "start %s launch", n->launcher);
	}
	m->watch = watch_new(n->loop, m->fd, on_ready, m);
	watch_want(m->watch, WATCH_READ);
	set_up(m);
	return NULL;
}

static void start(struct maker *m)
{
	struct err *e = spawn(m);

	if (!e)
		return;
	native_trouble_is(m->native, err_text(e));
	err_free(e);
	maker_pause(m, RESTART_MS);
}

static void on_retry(void *arg)
{
	struct maker *m = arg;

	if (m->native->ending)
		return;
	if (!m->child)
		start(m);
	if (m->kind == MAKER_NETS)
		nets_retry(m->native);
	slots_fill(m->native);
	nets_fill(m->native);
}

void makers_start(struct native *n)
{
	for (int i = 0; i < MAKER_KIND_MAX_; i++) {
		struct maker *m = &n->makers[i];

		*m = (struct maker){ .native = n, .kind = (enum maker_kind)i, .fd = -1 };
		m->retry = timer_new(n->loop, on_retry, m);
		start(m);
	}
}

/* They end by themselves when their socket closes; their ends are callbacks of the loop. */
static void await_end(struct native *n, struct maker *m)
{
	for (int turns = 0; m->child; turns++) {
		if (turns == 100)
			child_kill(m->child, SIGKILL);
		(void)loop_turn(n->loop, 20);
	}
}

void makers_stop(struct native *n)
{
	for (int i = 0; i < MAKER_KIND_MAX_; i++) {
		struct maker *m = &n->makers[i];

		watch_free(take(m->watch));
		timer_free(take(m->retry));
		if (m->native && m->fd >= 0)
			(void)close(take_fd(m->fd));
	}
	for (int i = 0; i < MAKER_KIND_MAX_; i++)
		await_end(n, &n->makers[i]);
}
