/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_client.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "loop/loop.h"
#include "net/http_client_priv.h"
#include "net/stream.h"

/* What exchanges of both versions share: how they begin, and how connections are made. */

void http_dial_init(struct http_dial *d, const struct http_dialer *with, const char *addr,
		    void (*done)(void *owner, struct stream *s, const struct err *e), void *owner)
{
	*d = (struct http_dial){
		.with = *with, .fd = -1, .addr = addr, .done = done, .owner = owner
	};
}

static void on_connected(void *arg, unused unsigned ready)
{
	struct http_dial *d = arg;
	autoptr(err) e = NULL;
	int errnum = 0, fd;
	socklen_t len = sizeof(errnum);

	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
		errnum = errno;
	watch_free(take(d->watch));
	fd = take_fd(d->fd);
	if (errnum) {
		(void)close(fd);
		e = err_recode(err_sys(errnum, "connect to %s", d->addr), ERR_UNAVAILABLE);
		d->done(d->owner, NULL, e);
		return;
	}
	d->done(d->owner, d->with.wrap ? d->with.wrap(d->with.wrap_arg, fd) : stream_plain(fd),
		NULL);
}

struct err *http_dial_start(struct http_dial *d)
{
	struct err *e = net_connect_marked(d->addr, d->with.mark, &d->fd);

	if (e)
		return e;
	d->watch = watch_new(d->with.loop, d->fd, on_connected, d);
	watch_want(d->watch, WATCH_WRITE);
	return NULL;
}

void http_dial_stop(struct http_dial *d)
{
	watch_free(take(d->watch));
	if (d->fd >= 0)
		(void)close(take_fd(d->fd));
}

void http_exchange_init(struct http_exchange *x, struct http_pool *p,
			const struct http_exchange_ops *ops, const struct http_exchange_events *ev,
			void *arg)
{
	x->ops = ops;
	x->pool = p;
	x->limits = p->limits;
	x->ev = *ev;
	x->arg = arg;
	list_add_tail(&p->exchanges, &x->link);
}

bool http_repeatable(const char *method)
{
	static const char *const methods[] = { "GET", "HEAD", "OPTIONS", NULL };

	return str_in(method, methods);
}

/* A method or a target must not contain a space or line break, which would end it early. */
static bool word_valid(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == 0x7f)
			return false;
	return true;
}

struct http_exchange *http_exchange_start(struct http_pool *p,
					  const struct http_exchange_spec *spec,
					  const struct http_exchange_events *ev, void *arg)
{
	struct err *bad = NULL;

	if (!word_valid(spec->method) || !word_valid(spec->target))
		bad = err_new(ERR_INVALID, "the method or target is not a single word");
	return spec->version == 2 ? http2_exchange_start(p, spec, ev, arg, bad)
				  : http1_exchange_start(p, spec, ev, arg, bad);
}

void http_exchange_write(struct http_exchange *x, const void *p, size_t len)
{
	x->ops->write(x, p, len);
}

bool http_exchange_full(const struct http_exchange *x)
{
	return x->ops->full(x);
}

void http_exchange_end_body(struct http_exchange *x, const struct http_headers *trailers)
{
	x->ops->end_body(x, trailers);
}

void http_exchange_pause(struct http_exchange *x, bool paused)
{
	x->ops->pause(x, paused);
}

struct conn *http_exchange_take_conn(struct http_exchange *x)
{
	return x->ops->take_conn(x);
}

void http_exchange_cancel(struct http_exchange *x)
{
	x->ops->cancel(x);
}
