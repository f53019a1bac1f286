/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/session_priv.h"

/*
 * Streams that are attached to the container's command. Input goes to its pipe or terminal, whoever
 * else writes there; output is passed on as it is read for the log. A stream that does not keep up
 * ends: the command is not held up for it, and the log has all of it.
 */
void attach_open(struct link *l, uint32_t id, uint32_t flags)
{
	struct guest *g = link_guest(l);
	struct command *c = &g->command;
	autoptr(err) e = NULL;
	struct session *s;
	int in = -1;

	if (!c->state.pid || c->state.exited)
		e = err_sys(ESRCH, "attach to a command that does not run");
	else if (g->n_execs >= GUEST_EXECS_MAX)
		e = err_sys(EAGAIN, "attach and exec more than %d times", GUEST_EXECS_MAX);
	if (e) {
		wire_put_failed(link_out(l), id, err_errno(e), err_text(e));
		return;
	}
	g->n_execs++;
	s = session_new(l, id);
	s->attach = true;
	s->attach_in = flags & WIRE_STDIN_OPEN;
	if (s->attach_in)
		in = fcntl(c->tty >= 0 ? c->tty : c->in, F_DUPFD_CLOEXEC, 3);
	if (in >= 0)
		session_set_in(s, in);
	wire_put_u32s(link_out(l), WIRE_STARTED_OK, id, &c->state.pid, 1);
	session_settle(s);
}

bool attach_output(struct session *s, enum wire_type type, const char *data, size_t len)
{
	if (s->credit < (int64_t)len || link_full(s->link))
		return false;
	wire_put(link_out(s->link), type, s->id, data, len);
	s->credit -= (int64_t)len;
	return true;
}

void attach_end(struct session *s, uint32_t code, uint32_t signum)
{
	wire_put_exited(link_out(s->link), s->id, code, signum, false);
	session_free(s);
}

/* The write end of a pipe that nobody else has: the command reads the end of its input. */
void attach_leave(struct session *s)
{
	struct command *c = &s->guest->command;

	if (s->attach_in && (c->start.flags & WIRE_STDIN_ONCE) && c->in >= 0)
		(void)close(take_fd(c->in));
	s->attach_in = false;
}
