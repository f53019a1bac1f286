/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/guest_conn.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/framed.h"
#include "node/host/instance.h"
#include "wire/wire.h"

/*
 * Frames to and from a guest. The guest cannot be trusted: code in the sandbox may have taken it
 * over. So what it sends is bounded, and a frame that cannot be read ends the connection.
 */
struct guest_conn {
	struct framed *framed;
	const struct guest_conn_events *ev;
	void *arg;
};

static struct err *on_frame(void *arg, const char *p, size_t len, size_t *ret_used)
{
	struct guest_conn *c = arg;
	struct wire_frame f;
	int have;
	struct err *e = wire_next(p, len, &f, ret_used, &have);

	if (!e && have)
		c->ev->frame(c->arg, &f);
	return e;
}

static void on_closed(void *arg, struct err *e)
{
	struct guest_conn *c = arg;

	c->ev->closed(c->arg, err_wrap(e, "talk to the guest"));
}

void guest_conn_free(struct guest_conn *c)
{
	if (!c)
		return;
	framed_free(c->framed);
	free(c);
}

void guest_conn_kick(struct guest_conn *c)
{
	framed_kick(c->framed);
}

void guest_conn_pause(struct guest_conn *c, bool paused)
{
	framed_pause(c->framed, paused);
}

struct buf *guest_conn_out(struct guest_conn *c)
{
	return framed_out(c->framed);
}

struct err *guest_connect(const struct guest_conn_spec *spec, struct guest_conn **ret)
{
	static const struct framed_events events = { .frame = on_frame, .closed = on_closed };
	autofree char *name = instance_socket(spec->id);
	autoclose fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	uint32_t version = WIRE_VERSION;
	struct guest_conn *c;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", spec->run_fd, name);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_recode(err_sys(errno, "connect to the guest of %s", spec->id),
				  ERR_UNAVAILABLE);
	c = xnew(struct guest_conn);
	c->ev = spec->events;
	c->arg = spec->arg;
	c->framed = framed_new(spec->loop, take_fd(fd), &events, c);
	wire_put_u32s(guest_conn_out(c), WIRE_HELLO, 0, &version, 1);
	guest_conn_kick(c);
	*ret = c;
	return NULL;
}
