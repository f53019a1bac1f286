/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "guest/session_priv.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"

struct session *session_new(struct link *l, uint32_t id)
{
	struct session *s = xnew(struct session);

	s->link = l;
	s->guest = link_guest(l);
	s->id = id;
	s->credit = WIRE_WINDOW;
	s->in = -1;
	for (int i = 0; i < SESSION_OUTS; i++)
		s->out[i] = (struct session_out){ .session = s, .fd = -1 };
	list_add_tail(link_sessions(l), &s->on_link);
	return s;
}

struct session *session_find(struct link *l, uint32_t id)
{
	struct session *s;

	list_each(s, link_sessions(l), on_link)
		if (s->id == id)
			return s;
	return NULL;
}

static void fd_drop(int *fd, struct watch **w)
{
	watch_free(take(*w));
	if (*fd >= 0)
		(void)close(take_fd(*fd));
}

static void close_all(struct session *s)
{
	for (int i = 0; i < SESSION_OUTS; i++)
		fd_drop(&s->out[i].fd, &s->out[i].watch);
	fd_drop(&s->in, &s->in_watch);
	timer_free(take(s->timer));
	buf_done(&s->input);
}

void session_free(struct session *s)
{
	if (s->attach)
		attach_leave(s);
	close_all(s);
	list_del(&s->on_link);
	if (s->dial)
		s->guest->n_dials--;
	else
		s->guest->n_execs--;
	free(s);
}

void session_orphan(struct session *s)
{
	if (!s->pid) {
		session_free(s);
		return;
	}
	(void)kill(-s->pid, SIGKILL);
	close_all(s);
	list_del(&s->on_link);
	s->link = NULL;
}

/* One read into the link's own buffer, leaving space for the frame's head. */
static void read_some(struct session_out *o)
{
	struct session *s = o->session;
	struct buf *out = link_out(s->link);
	int waiting = 0;
	size_t want;
	char *frame;
	ssize_t n;

	(void)ioctl(o->fd, FIONREAD, &waiting);
	want = MIN((size_t)MAX(waiting, 512), (size_t)WIRE_DATA_MAX);
	want = MIN(want, (size_t)s->credit);
	frame = buf_reserve(out, WIRE_HEAD + want);
	n = read(o->fd, frame + WIRE_HEAD, want);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* a terminal that has hung up returns EIO */
		fd_drop(&o->fd, &o->watch);
		if (s->dial)
			wire_put(out, WIRE_STDOUT, s->id, NULL, 0);
		return;
	}
	wire_head(frame, o->type, s->id, (size_t)n);
	buf_wrote(out, WIRE_HEAD + (size_t)n);
	s->credit -= n;
	o->owed -= MIN(o->owed, (size_t)n);
}

static void on_output(void *arg, unused unsigned ready)
{
	struct session_out *o = arg;
	struct session *s = o->session;

	if (s->credit > 0 && !link_full(s->link))
		read_some(o);
	link_kick(s->link);
	session_settle(s);
}

static void input_drop(struct session *s)
{
	s->to_grant += (uint32_t)s->input.len;
	buf_done(&s->input);
	fd_drop(&s->in, &s->in_watch);
}

static void input_write(struct session *s)
{
	ssize_t n;

	if (s->in >= 0 && s->input.len) {
		n = write(s->in, buf_head(&s->input), s->input.len);
		if (n > 0) {
			buf_eat(&s->input, (size_t)n);
			s->to_grant += (uint32_t)n;
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			input_drop(s); /* nobody reads it: as with a pipe, that is not our error */
		}
	}
	if (s->input.len)
		return;
	buf_done(&s->input);
	if (s->input_end && s->in >= 0) {
		if (s->dial)
			(void)shutdown(s->in, SHUT_WR);
		if (s->attach)
			attach_leave(s);
		fd_drop(&s->in, &s->in_watch);
	}
}

void session_flush(struct session *s)
{
	if (!s->connecting)
		input_write(s);
	session_settle(s);
}

static void on_input(void *arg, unused unsigned ready)
{
	struct session *s = arg;

	if (s->connecting)
		dial_connected(s);
	else
		session_flush(s);
}

void session_set_out(struct session *s, unsigned i, int fd, enum wire_type type)
{
	s->out[i].fd = fd;
	s->out[i].type = type;
	s->out[i].watch = watch_new(s->guest->loop, fd, on_output, &s->out[i]);
}

void session_set_in(struct session *s, int fd)
{
	s->in = fd;
	s->in_watch = watch_new(s->guest->loop, fd, on_input, s);
}

void session_input(struct session *s, const char *data, size_t len)
{
	if (!len)
		s->input_end = true;
	else if (s->in < 0 || s->input_end)
		s->to_grant += (uint32_t)len;
	else
		buf_add(&s->input, data, len);
	session_flush(s);
}

void session_credit(struct session *s, uint32_t more)
{
	s->credit = MIN(s->credit + more, (int64_t)1 << 40);
	session_settle(s);
}

void session_signal(struct session *s, int signum)
{
	if (s->pid)
		(void)kill(-s->pid, signum);
}

void session_resize(struct session *s, uint16_t cols, uint16_t rows)
{
	if (s->attach)
		command_resize(s->guest, cols, rows);
	else if (s->tty && s->out[0].fd >= 0)
		tty_resize(s->out[0].fd, cols, rows);
}

/*
 * True for a process that ended and whose output was sent, or a socket both of whose directions
 * have ended.
 */
static bool done(const struct session *s)
{
	bool outs_ended = true;

	for (int i = 0; i < SESSION_OUTS; i++)
		if (s->out[i].fd >= 0 && (!s->over_time || s->out[i].owed))
			outs_ended = false;
	if (s->pid || s->connecting || !outs_ended || s->attach)
		return false;
	return !s->dial || s->in < 0;
}

static void grant(struct session *s)
{
	if (s->to_grant < SESSION_GRANT)
		return;
	wire_put_u32s(link_out(s->link), WIRE_CREDIT, s->id, &s->to_grant, 1);
	s->to_grant = 0;
}

/* The only place that decides what a session polls for. */
void session_settle(struct session *s)
{
	struct link *l = s->link;
	bool space = s->credit > 0 && !link_full(l);

	if (done(s)) {
		wire_put_exited(link_out(l), s->id, s->dial ? 0 : status_code(s->status),
				s->dial ? 0 : status_signal(s->status), false);
		session_free(s);
		link_kick(l);
		return;
	}
	grant(s);
	for (int i = 0; i < SESSION_OUTS; i++)
		if (s->out[i].watch)
			watch_want(s->out[i].watch, space && !s->connecting ? WATCH_READ : 0);
	if (s->in_watch)
		watch_want(s->in_watch, s->connecting || s->input.len ? WATCH_WRITE : 0);
	link_kick(l);
}
