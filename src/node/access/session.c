/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "node/access/session_priv.h"
#include "node/pod/pod.h"
#include "node/runtime/guest_conn.h"
#include "node/runtime/runtime.h"
#include "wire/peer.h"
#include "wire/wire.h"

/*
 * Exec, attach and dial: one connection to the guest for each, with one stream. When the connection
 * ends, the guest kills what was started on it, so a cancelled session leaves nothing behind.
 *
 * Output is credited back as it is passed on; a paused session stops reading its connection. Input
 * that the guest gave no credit for, or does not read, waits here, which full() reports.
 *
 * What an attachment grants goes to a seat of its own in the container (node/runtime/runtime.h),
 * which may have to be made first: until then there is no connection, and input waits here.
 *
 * A guest that breaks the protocol is no longer the program that we put there. The session ends,
 * and the Pod is told: it ends the container. A seat ends alone, with all that was started from it.
 */
enum {
	INPUT_MAX = 64 * 1024, /* waiting for room */
};

struct session {
	struct session_head head;
	struct ways *ways;
	const struct access_events *ev;
	void *arg;
	char *task_id, *uid;
	const char *way; /* for those who count what wakes a Pod; NULL: it is no use of it */
	struct guest_conn *conn;
	bool dial, counted, input_ended, end_sent, was_full;
	struct buf input;
	char *seat_key;                /* NULL: it goes to the container's own guest */
	struct runtime_seat_wait seat; /* in line while it is being made */
	struct buf start;              /* what is to be executed then */
	bool paused, resized;
	uint16_t cols, rows;
};

static const struct session_kind kind;

static void used(struct session *s)
{
	if (s->way)
		pods_used(s->ways->pods, s->uid, s->way);
}

static void session_free(struct session *s)
{
	list_del(&s->seat.on);
	guest_conn_free(take(s->conn));
	if (s->counted)
		pods_session(s->ways->pods, s->uid, -1);
	buf_done(&s->input);
	buf_done(&s->start);
	free(s->seat_key);
	free(s->uid);
	free(s->task_id);
	free(s);
}

static void finish(struct session *s, const struct err *e, int code, int signum)
{
	guest_conn_free(take(s->conn));
	s->ev->ended(s->arg, e, code, signum);
	session_free(s);
}

/* Sends what the guest takes, and the end of input after the last byte. */
static void push_input(struct session *s)
{
	if (!s->conn)
		return; /* its seat is being made */
	if (s->input.len)
		buf_eat(&s->input, guest_conn_write(s->conn, buf_head(&s->input), s->input.len));
	if (s->input.len)
		return;
	buf_done(&s->input);
	if (s->input_ended && !s->end_sent) {
		s->end_sent = true;
		guest_conn_end_input(s->conn);
	}
}

static void on_room(void *arg)
{
	struct session *s = arg;

	push_input(s);
	if (s->was_full && s->input.len < INPUT_MAX) {
		s->was_full = false;
		if (s->ev->drained)
			s->ev->drained(s->arg);
	}
}

static void on_output(struct session *s, const struct wire_frame *f)
{
	guest_conn_passed(s->conn, f->len);
	used(s);
	s->ev->output(s->arg, f->type == WIRE_STDOUT ? 1 : 2, f->payload, f->len);
}

static void on_failed(struct session *s, const struct wire_frame *f)
{
	autofree char *text = NULL;
	autoptr(err) e = NULL;
	int errnum = 0;

	e = wire_failed_read(f, &errnum, &text);
	if (!e)
		e = err_new(errnum == ENOENT         ? ERR_NOT_FOUND
			    : errnum == EAGAIN       ? ERR_EXHAUSTED
			    : errnum == ECONNREFUSED ? ERR_UNAVAILABLE
						     : ERR_SYS,
			    "%s", text);
	finish(s, e, 0, 0);
}

static void on_exited(struct session *s, const struct wire_frame *f)
{
	uint32_t code = 0, signum = 0;
	bool oom;
	autoptr(err) e = wire_exited_read(f, &code, &signum, &oom);

	finish(s, e, (int)code, (int)signum);
}

static void on_frame(void *arg, const struct wire_frame *f)
{
	struct session *s = arg;

	if (f->stream != WIRE_NODE_STREAM)
		return;
	if ((f->type == WIRE_STDOUT || f->type == WIRE_STDERR) && f->len)
		on_output(s, f);
	else if (f->type == WIRE_STDOUT && s->dial)
		finish(s, NULL, 0, 0); /* a forwarded port ends when its peer has sent all */
	else if (f->type == WIRE_FAILED)
		on_failed(s, f);
	else if (f->type == WIRE_EXITED)
		on_exited(s, f);
}

static void on_closed(void *arg, struct err *e)
{
	struct session *s = arg;
	autoptr(err) owned = e;

	if (err_is(e, ERR_MALFORMED) && s->seat_key)
		pods_seats_end(s->ways->pods, s->seat_key);
	else if (err_is(e, ERR_MALFORMED))
		pods_guest_broke(s->ways->pods, s->task_id, e);
	finish(s, owned, 0, 0);
}

static const struct guest_conn_events events = {
	.frame = on_frame,
	.room = on_room,
	.closed = on_closed,
};

/* id: of the task, or of a seat in it. */
static struct err *session_connect(struct session *s, const char *id)
{
	const struct guest_conn_spec guest = { .loop = s->ways->loop,
					       .run_fd = s->ways->run_fd,
					       .id = id,
					       .events = &events,
					       .arg = s };

	return guest_connect(&guest, &s->conn);
}

/* way: as in struct session. The guest of a frozen Pod would not take the connection. */
static struct err *session_open(struct ways *w, const struct access_target *to, const char *way,
				struct container **ret_c, struct session **ret)
{
	struct container *c;
	struct session *s;
	struct err *e = pods_container(w->pods, to->ns, to->pod, to->container, &c);

	if (e)
		return e;
	if (!container_runs(c))
		return err_new(ERR_UNAVAILABLE, "container %s of pod %s is not running",
			       container_name(c), to->pod);
	s = xnew(struct session);
	s->head.kind = &kind;
	s->ways = w;
	s->way = way;
	s->uid = xstrdup(container_pod_uid(c));
	list_init(&s->seat.on);
	used(s);
	s->task_id = xstrdup(container_task_id(c));
	*ret_c = c;
	*ret = s;
	return NULL;
}

static const char **with_term(struct arena *a, const char **env)
{
	const char **list;
	size_t n = 0;

	for (; env[n]; n++)
		if (str_starts(env[n], "TERM="))
			return env;
	list = arena_new_n(a, const char *, n + 2);
	memcpy(list, env, n * sizeof(*env));
	list[n] = "TERM=xterm";
	return list;
}

static struct err *put_exec(struct session *s, struct container *c,
			    const struct access_exec_spec *spec)
{
	autoptr(arena) a = arena_new();
	struct wire_start w;
	struct err *e = container_start(c, a, &w);

	if (e)
		return e;
	w.argv = (const char **)(uintptr_t)spec->argv;
	w.flags = (spec->tty ? WIRE_TTY : 0) | (spec->stdin_open ? WIRE_STDIN_OPEN : 0);
	if (spec->tty)
		w.env = with_term(a, w.env);
	w.cols = spec->cols;
	w.rows = spec->rows;
	if (!wire_start_fits(&w))
		return err_new(ERR_TOO_LARGE,
			       "arguments and environment are too long to be executed");
	if (s->conn)
		guest_conn_exec(s->conn, &w);
	else
		wire_put_start(&s->start, WIRE_EXEC, WIRE_NODE_STREAM, &w);
	return NULL;
}

/* The seat is there, and what was kept for it goes on. */
static void on_seat(struct runtime_seat_wait *wait, const char *id, const struct err *e)
{
	struct session *s = container_of(wait, struct session, seat);
	autoptr(err) mine = e ? NULL : session_connect(s, id);

	if (e || mine) {
		finish(s, e ? e : mine, 0, 0);
		return;
	}
	guest_conn_exec_frame(s->conn, buf_head(&s->start), s->start.len);
	buf_done(&s->start);
	if (s->resized)
		guest_conn_resize(s->conn, s->cols, s->rows);
	if (s->paused)
		guest_conn_pause(s->conn, true);
	on_room(s);
}

/* *ret_id: of the guest to connect to; NULL: on_seat() will be told. */
static struct err *find_guest(struct session *s, struct container *c, const struct access_permit *p,
			      const char **ret_id)
{
	static const enum runtime_view views[] = {
		[ACCESS_VIEW_SHARED] = RUNTIME_VIEW_SHARED,
		[ACCESS_VIEW_READ_ONLY] = RUNTIME_VIEW_READ_ONLY,
		[ACCESS_VIEW_SCRATCH] = RUNTIME_VIEW_SCRATCH,
	};
	const struct runtime_seat spec = { .key = p->uid, .view = views[p->view] };

	if (!p->uid && p->view != ACCESS_VIEW_SHARED)
		return err_new(ERR_INTERNAL, "a view belongs to no attachment");
	if (!p->uid) {
		*ret_id = s->task_id;
		return NULL;
	}
	s->seat_key = xstrdup(p->uid);
	s->seat.done = on_seat;
	return container_seat(c, &spec, &s->seat, ret_id);
}

static struct err *begin_exec(struct session *s, struct container *c,
			      const struct access_exec_spec *spec)
{
	const char *id = NULL;
	struct err *e = find_guest(s, c, &spec->permit, &id);

	if (!e && id)
		e = session_connect(s, id);
	return e ? e : put_exec(s, c, spec);
}

static struct err *begin_attach(struct session *s, const struct access_exec_spec *spec)
{
	struct err *e = session_connect(s, s->task_id);

	if (!e)
		guest_conn_attach(s->conn, spec->stdin_open);
	return e;
}

struct err *session_exec(void *ctx, const struct access_exec_spec *spec,
			 const struct access_events *ev, void *arg, void **ret)
{
	const char *way = spec->probe ? NULL : spec->attach ? "attach" : "exec";
	struct container *c;
	struct session *s;
	struct err *e;

	if (!spec->attach && (!spec->argv || !spec->argv[0]))
		return err_new(ERR_INVALID, "there is no command to execute; name one");
	e = session_open(ctx, &spec->to, way, &c, &s);
	if (e)
		return e;
	s->ev = ev;
	s->arg = arg;
	s->input_ended = s->end_sent = !spec->stdin_open;
	e = spec->attach ? begin_attach(s, spec) : begin_exec(s, c, spec);
	if (e) {
		session_free(s);
		return e;
	}
	if (way && !spec->attach) {
		s->counted = true;
		pods_session(s->ways->pods, s->uid, 1);
	}
	*ret = s;
	return NULL;
}

struct err *session_dial(void *ctx, const struct access_dial_spec *spec,
			 const struct access_events *ev, void *arg, void **ret)
{
	struct container *c;
	struct session *s;
	struct err *e = session_open(ctx, &spec->to, "dial", &c, &s);

	if (e)
		return e;
	s->ev = ev;
	s->arg = arg;
	s->dial = true;
	e = session_connect(s, s->task_id);
	if (e) {
		session_free(s);
		return e;
	}
	guest_conn_dial(s->conn, spec->port);
	*ret = s;
	return NULL;
}

static void session_write(void *arg, const void *p, size_t len)
{
	struct session *s = arg;

	if (s->input_ended)
		return;
	used(s);
	buf_add(&s->input, p, len);
	push_input(s);
}

static bool session_full(void *arg)
{
	struct session *s = arg;

	if (s->input.len >= INPUT_MAX)
		s->was_full = true;
	return s->was_full;
}

static void session_end_input(void *arg)
{
	struct session *s = arg;

	s->input_ended = true;
	push_input(s);
}

static void session_resize(void *arg, uint16_t cols, uint16_t rows)
{
	struct session *s = arg;

	s->resized = true;
	s->cols = cols;
	s->rows = rows;
	if (s->conn)
		guest_conn_resize(s->conn, cols, rows);
}

static void session_pause(void *arg, bool paused)
{
	struct session *s = arg;

	s->paused = paused;
	if (s->conn)
		guest_conn_pause(s->conn, paused);
}

static void session_cancel(void *arg)
{
	session_free(arg);
}

static const struct session_kind kind = {
	.write = session_write,
	.full = session_full,
	.end_input = session_end_input,
	.resize = session_resize,
	.pause = session_pause,
	.cancel = session_cancel,
};
