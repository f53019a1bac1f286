/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "client/access.h"
#include "net/conn.h"
#include "net/stream.h"
#include "server/streams/streams_priv.h"

/*
 * A port of a Pod as a descriptor, for what speaks over streams: a pair of sockets, of which one
 * end is the caller's, and what comes out of the other goes through the node.
 */
struct pod_pipe {
	struct access_session *session; /* NULL: over */
	struct conn *conn;              /* our end; NULL: closed */
	struct err *e;                  /* why the session could not begin, or broke */
};

static void on_output(void *arg, unused int fd, const char *data, size_t len)
{
	struct pod_pipe *p = arg;

	if (!p->conn)
		return;
	conn_write(p->conn, data, len);
	if (conn_full(p->conn))
		access_pause(p->session, true);
}

static void on_input_drained(void *arg)
{
	struct pod_pipe *p = arg;

	if (p->conn)
		conn_pause(p->conn, false);
}

static void on_session_ended(void *arg, const struct err *e, unused int code, unused int signal)
{
	struct pod_pipe *p = arg;

	p->session = NULL;
	p->e = e ? err_copy(e) : NULL;
	if (p->conn)
		conn_close_after_flush(p->conn);
}

static void on_data(void *arg, struct buf *in)
{
	struct pod_pipe *p = arg;

	if (p->session)
		access_write(p->session, buf_head(in), in->len);
	buf_eat(in, in->len);
	if (p->session && access_full(p->session))
		conn_pause(p->conn, true);
}

static void on_eof(void *arg)
{
	struct pod_pipe *p = arg;

	if (p->session)
		access_end_input(p->session);
}

static void on_drained(void *arg)
{
	struct pod_pipe *p = arg;

	if (p->session)
		access_pause(p->session, false);
}

static void on_closed(void *arg, unused const struct err *e)
{
	struct pod_pipe *p = arg;

	conn_free(take(p->conn));
	if (p->session)
		access_cancel(take(p->session));
}

struct err *pod_pipe_open(const struct streams *ps, const struct access_dial_spec *spec,
			  struct pod_pipe **ret, int *ret_fd)
{
	static const struct access_events session_events = { on_output, on_input_drained,
							     on_session_ended };
	static const struct conn_events conn_events = { on_data, on_eof, on_drained, on_closed };
	struct pod_pipe *p = xnew(struct pod_pipe);
	int ends[2];
	struct err *e = NULL;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0) {
		e = err_sys(errno, "make a pair of sockets");
		free(p);
		return e;
	}
	p->conn = conn_new(ps->loop, stream_plain(ends[0]), &conn_events, p);
	e = access_dial(ps->access, spec, &session_events, p, &p->session);
	if (e) {
		(void)close(ends[1]);
		pod_pipe_free(p);
		return e;
	}
	*ret = p;
	*ret_fd = ends[1];
	return NULL;
}

const struct err *pod_pipe_error(const struct pod_pipe *p)
{
	return p ? p->e : NULL;
}

void pod_pipe_free(struct pod_pipe *p)
{
	if (!p)
		return;
	conn_free(p->conn);
	if (p->session)
		access_cancel(p->session);
	err_free(p->e);
	free(p);
}
