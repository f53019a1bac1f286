/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `kubectl port-forward` to the router: the door behind the Pod that stands for it. A forwarded
 * connection becomes one end of a pair of sockets whose other end the router serves.
 *
 * It is not trusted for coming from ourselves. Whoever forwards has a ticket, under which the
 * router's policy finds the user, and each request through the tunnel is decided by the rights of
 * that user in the namespace of its sandbox.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/agents.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/share.h"
#include "base/str.h"
#include "base/strv.h"
#include "client/access.h"
#include "client/client.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/stream.h"
#include "role/serve_priv.h"
#include "router/router.h"

enum {
	TUNNELS_MAX = 1024,
};

struct tunnel {
	struct list on; /* serve.tunnels */
	uint64_t ticket;
	struct conn *conn;
	const struct access_events *ev;
	void *arg;
	char *user, *account_ns;
	char **groups; /* NULL-terminated */
};

static void tunnel_free(struct tunnel *t)
{
	list_del(&t->on);
	conn_free(t->conn);
	strv_free(t->groups);
	free(t->user);
	free(t->account_ns);
	free(t);
}

static void tunnel_end(struct tunnel *t, const struct err *e)
{
	t->ev->ended(t->arg, e, 0, 0);
	tunnel_free(t);
}

static void on_data(void *arg, struct buf *in)
{
	struct tunnel *t = arg;

	t->ev->output(t->arg, STDOUT_FILENO, buf_head(in), in->len);
	buf_eat(in, in->len);
}

static void on_eof(void *arg)
{
	tunnel_end(arg, NULL);
}

static void on_drained(void *arg)
{
	struct tunnel *t = arg;

	if (t->ev->drained)
		t->ev->drained(t->arg);
}

static void on_closed(void *arg, const struct err *e)
{
	tunnel_end(arg, e);
}

static bool has_room(const struct serve *s, const char *user)
{
	size_t mine = 0, all = 0;
	const struct tunnel *t;

	list_each(t, &s->tunnels, on) {
		mine += str_eq(t->user, user);
		all++;
	}
	return share_has_room(mine, all, TUNNELS_MAX);
}

static struct err *door_dial(void *ctx, const struct access_dial_spec *spec,
			     const struct access_events *ev, void *arg, void **ret)
{
	static const struct conn_events events = { on_data, on_eof, on_drained, on_closed };
	struct serve *s = ctx;
	struct tunnel *t;
	struct err *e;
	int ends[2];

	if (spec->port != ROUTER_POD_PORT)
		return err_new(ERR_UNAVAILABLE, "the router has port %d, and not %u",
			       ROUTER_POD_PORT, spec->port);
	if (!has_room(s, spec->to.user))
		return err_new(ERR_EXHAUSTED, "this user has too many connections to the router");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(errno, "make a pair of sockets");
	e = router_adopt(s->router, ends[1], s->next_ticket + 1);
	if (e) {
		(void)close(ends[0]);
		return e;
	}
	t = xnew(struct tunnel);
	t->ticket = ++s->next_ticket;
	t->ev = ev;
	t->arg = arg;
	t->user = xstrdup(spec->to.user);
	t->account_ns = xstrdup(spec->to.account_ns);
	t->groups = strv_copy(spec->to.groups);
	list_add_tail(&s->tunnels, &t->on);
	t->conn = conn_new(s->loop, stream_plain(ends[0]), &events, t);
	*ret = t;
	return NULL;
}

static void door_write(void *session, const void *p, size_t len)
{
	conn_write(((struct tunnel *)session)->conn, p, len);
}

static bool door_full(void *session)
{
	return conn_full(((struct tunnel *)session)->conn);
}

static void door_end_input(void *session)
{
	conn_end(((struct tunnel *)session)->conn);
}

static void door_pause(void *session, bool paused)
{
	conn_pause(((struct tunnel *)session)->conn, paused);
}

static void door_cancel(void *session)
{
	tunnel_free(session);
}

/* Under its own name in its own namespace; elsewhere a Pod that has the name comes first. */
static bool is_router(void *ctx, const struct access_target *to)
{
	struct serve *s = ctx;
	autoptr(object) pod = NULL;

	if (!str_eq(to->pod, ROUTER_POD) || !s->router)
		return false;
	if (str_eq(to->ns, SYSTEM_NAMESPACE))
		return true;
	pod = client_get(s->node_client, s->pods, to->ns, to->pod);
	return !pod;
}

bool serve_find_ticket(struct serve *s, uint64_t ticket, struct access_target *ret)
{
	struct tunnel *t;

	list_each(t, &s->tunnels, on)
		if (t->ticket == ticket) {
			*ret = (struct access_target){ .user = t->user,
						       .groups = (const char *const *)t->groups,
						       .account_ns = t->account_ns };
			return true;
		}
	return false;
}

void serve_open_door(struct serve *s, struct access *a)
{
	static const struct access_ops ops = {
		.dial = door_dial,
		.write = door_write,
		.full = door_full,
		.end_input = door_end_input,
		.pause = door_pause,
		.cancel = door_cancel,
	};

	access_set_door(a, &(struct access_door){ is_router, &ops, s });
}
