/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "guest/session_priv.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"

/* Both ends of what a process reads and writes: theirs are passed to it, ours to the session. */
struct ends {
	int theirs[3], ours[3];
};

static void ends_done(struct ends *e)
{
	for (int i = 0; i < 3; i++) {
		if (e->theirs[i] > 2 && (i == 0 || e->theirs[i] != e->theirs[0]))
			(void)close(e->theirs[i]);
		if (e->ours[i] > 2)
			(void)close(e->ours[i]);
	}
}

/* One terminal for all three. Input has a descriptor of its own because it is polled separately. */
static struct err *ends_tty(struct ends *e, const struct wire_start *start)
{
	int slave;
	struct err *err = tty_open(start->uid, &e->ours[1], &slave);

	if (err)
		return err;
	e->theirs[0] = e->theirs[1] = e->theirs[2] = slave;
	tty_resize(e->ours[1], start->cols, start->rows);
	e->ours[0] = fcntl(e->ours[1], F_DUPFD_CLOEXEC, 3);
	return e->ours[0] < 0 ? err_sys(errno, "copy terminal") : NULL;
}

static struct err *ends_pipes(struct ends *e, const struct wire_start *start)
{
	int p[2];

	for (int i = 0; i < 3; i++) {
		if (i == 0 && !(start->flags & WIRE_STDIN_OPEN))
			continue; /* our own stdin is /dev/null */
		if (pipe2(p, O_CLOEXEC) < 0)
			return err_sys(errno, "create a pipe");
		e->theirs[i] = p[i ? 1 : 0];
		e->ours[i] = p[i ? 0 : 1];
	}
	return NULL;
}

static struct err *start_process(const struct wire_start *start, struct ends *e, pid_t *ret)
{
	struct spawn spec = {
		.argv = start->argv,
		.env = start->env,
		.cwd = start->cwd,
		.who = start,
		.tty = start->flags & WIRE_TTY,
	};
	struct err *err = spec.tty ? ends_tty(e, start) : ends_pipes(e, start);

	if (err)
		return err;
	memcpy(spec.fds, e->theirs, sizeof(spec.fds));
	return spawn(&spec, ret);
}

static void on_over_time(void *arg)
{
	struct session *s = arg;

	s->over_time = true;
	session_settle(s);
}

static void on_exit_status(void *arg, int status)
{
	struct session *s = arg;
	int waiting;

	s->pid = 0;
	s->status = status;
	if (!s->link) {
		session_free(s);
		return;
	}
	for (int i = 0; i < SESSION_OUTS; i++)
		if (s->out[i].fd >= 0 && !ioctl(s->out[i].fd, FIONREAD, &waiting))
			s->out[i].owed = (size_t)waiting;
	s->timer = timer_new(s->guest->loop, on_over_time, s);
	timer_set(s->timer, SESSION_DRAIN_MS);
	session_settle(s);
}

static void join(struct session *s, struct ends *e, bool tty)
{
	s->tty = tty;
	session_set_out(s, 0, take_fd(e->ours[1]), WIRE_STDOUT);
	if (e->ours[2] >= 0)
		session_set_out(s, 1, take_fd(e->ours[2]), WIRE_STDERR);
	if (e->ours[0] >= 0)
		session_set_in(s, take_fd(e->ours[0]));
}

void exec_open(struct link *l, uint32_t id, const struct wire_start *start)
{
	struct guest *g = link_guest(l);
	struct ends ends = { { 0, -1, -1 }, { -1, -1, -1 } };
	autoptr(err) e = NULL;
	struct session *s;
	pid_t pid = 0;

	if (!start->argv[0])
		e = err_sys(EINVAL, "exec without a command");
	else if (g->n_execs >= GUEST_EXECS_MAX)
		e = err_sys(EAGAIN, "exec more than %d commands at a time", GUEST_EXECS_MAX);
	else
		e = start_process(start, &ends, &pid);
	if (e) {
		wire_put_failed(link_out(l), id, err_errno(e), err_text(e));
		ends_done(&ends);
		return;
	}
	g->n_execs++;
	s = session_new(l, id);
	s->pid = pid;
	children_add(g->children, pid, on_exit_status, s);
	join(s, &ends, start->flags & WIRE_TTY);
	ends_done(&ends);
	wire_put_u32s(link_out(l), WIRE_STARTED_OK, id, &(uint32_t){ (uint32_t)pid }, 1);
	session_settle(s);
}
