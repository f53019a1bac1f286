/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "net/stream.h"
#include "outlet/outlet_priv.h"

/* Addresses are tried one after the other. Nothing is sent before one has answered. */
enum {
	TRY_MS = 5000,
	ADDR_TEXT_MAX = IP_TEXT_MAX + 8,
};

struct dial {
	struct dial_spec spec;
	struct ip addrs[DIAL_ADDRS_MAX];
	size_t at; /* the next to try */
	int fd;
	struct watch *watch;
	struct timer *timer;
	struct err *why; /* of the last one that failed */
};

static void close_try(struct dial *d)
{
	watch_free(take(d->watch));
	if (d->fd >= 0)
		(void)close(take_fd(d->fd));
}

static void dial_free(struct dial *d)
{
	close_try(d);
	timer_free(d->timer);
	err_free(d->why);
	free(d);
}

void dial_cancel(struct dial *d)
{
	if (d)
		dial_free(d);
}

static void addr_text(const struct ip *a, uint16_t port, char ret[ADDR_TEXT_MAX])
{
	char ip[IP_TEXT_MAX];

	ip_text(a, ip);
	(void)snprintf(ret, ADDR_TEXT_MAX, ip_is4(a) ? "%s:%u" : "[%s]:%u", ip, port);
}

static void finish(struct dial *d, int fd)
{
	d->spec.done(d->spec.arg, fd, d->why);
	dial_free(d);
}

static void try_next(struct dial *d);

static void failed(struct dial *d, struct err *e)
{
	close_try(d);
	err_free(d->why);
	d->why = e;
	try_next(d);
}

static void on_ready(void *arg, unused unsigned ready)
{
	struct dial *d = arg;
	int errnum = 0;
	socklen_t len = sizeof(errnum);

	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
		errnum = errno;
	if (errnum) {
		failed(d, err_recode(err_sys(errnum, "connect"), ERR_UNAVAILABLE));
		return;
	}
	watch_free(take(d->watch));
	finish(d, take_fd(d->fd));
}

/* It also begins: nobody is called back from within dial_start(). */
static void on_timer(void *arg)
{
	struct dial *d = arg;

	if (d->fd < 0)
		try_next(d);
	else
		failed(d, err_new(ERR_TIMEOUT, "connect: no answer within %d s", TRY_MS / 1000));
}

static void try_next(struct dial *d)
{
	char addr[ADDR_TEXT_MAX];
	struct err *e;

	if (d->at == d->spec.n) {
		finish(d, -1);
		return;
	}
	addr_text(&d->addrs[d->at++], d->spec.port, addr);
	e = net_connect(addr, &d->fd);
	if (e) {
		err_free(d->why);
		d->why = err_recode(e, ERR_UNAVAILABLE);
		timer_set(d->timer, 0);
		return;
	}
	d->watch = watch_new(d->spec.loop, d->fd, on_ready, d);
	watch_want(d->watch, WATCH_WRITE);
	timer_set(d->timer, TRY_MS);
}

struct dial *dial_start(const struct dial_spec *spec)
{
	struct dial *d = xnew(struct dial);

	d->spec = *spec;
	d->spec.n = MIN(spec->n, (size_t)DIAL_ADDRS_MAX);
	for (size_t i = 0; i < d->spec.n; i++)
		d->addrs[i] = spec->addrs[i];
	d->fd = -1;
	d->timer = timer_new(spec->loop, on_timer, d);
	timer_set(d->timer, 0);
	return d;
}
