/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "guest/guest_priv.h"
#include "guest/spawn_priv.h"
#include "loop/loop.h"

/*
 * The runtime's port. Pid 1 only listens and never reads a byte of HTTP: when the first connection
 * arrives, it forks a process without privileges that accepts this and all later connections, and
 * takes the port back when that process has ended, whether idle or by accident. A sandbox whose
 * runtime nobody uses pays only for a socket.
 */
enum {
	LOOK_AFTER_MS = 1000, /* the command has this long to listen there itself */
	SHORT_LIFE_US = 1000 * 1000,
	RETRY_MS = 100, /* doubled after every short life, RETRY_DOUBLINGS times at most */
	RETRY_DOUBLINGS = 8,
	BACKLOG = 128,
};

struct runtime {
	struct guest *guest;
	int fd; /* -1: not listening */
	struct watch *watch;
	struct timer *timer;
	pid_t pid; /* 0: not running */
	unsigned short_lives;
	usec forked_at;
};

static int listen_on(int family, uint16_t port)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = { 0 };
	autoclose fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = family == AF_INET ? sizeof(at.v4) : sizeof(at.v6);
	int off = 0, on = 1;

	if (fd < 0)
		return -1;
	at.sa.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		at.v4.sin_port = htons(port);
	else
		at.v6.sin6_port = htons(port);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
		return -1;
	if (bind(fd, &at.sa, len) < 0 || listen(fd, BACKLOG) < 0)
		return -1;
	return take_fd(fd);
}

static void on_end(void *arg, int status)
{
	struct runtime *r = arg;

	r->pid = 0;
	if (status && clock_mono() - r->forked_at < SHORT_LIFE_US) {
		r->short_lives = MIN(r->short_lives + 1, (unsigned)RETRY_DOUBLINGS);
		timer_set(r->timer, RETRY_MS << r->short_lives);
		return;
	}
	r->short_lives = 0;
	watch_want(r->watch, WATCH_READ);
}

static void on_connection(void *arg, unused unsigned ready)
{
	struct runtime *r = arg;

	watch_want(r->watch, 0);
	r->forked_at = clock_mono();
	r->pid = fork();
	if (r->pid == 0)
		runtime_main(r->fd, &r->guest->command.start);
	if (r->pid < 0) {
		r->pid = 0;
		timer_set(r->timer,
			  LOOK_AFTER_MS); /* out of processes or memory: try again later */
		return;
	}
	children_add(r->guest->children, r->pid, on_end, r);
}

/* If the port is taken, the command serves its own runtime: nothing to do, nothing to report. */
static void listen_now(struct runtime *r)
{
	uint16_t port = r->guest->command.start.runtime_port;

	r->fd = listen_on(AF_INET6, port);
	if (r->fd < 0 && errno != EADDRINUSE)
		r->fd = listen_on(AF_INET, port);
	if (r->fd < 0)
		return;
	r->watch = watch_new(r->guest->loop, r->fd, on_connection, r);
	watch_want(r->watch, WATCH_READ);
}

static void on_timer(void *arg)
{
	struct runtime *r = arg;

	if (r->fd < 0)
		listen_now(r);
	else
		watch_want(r->watch, WATCH_READ);
}

void runtime_arm(struct guest *g)
{
	const struct wire_start *s = &g->command.start;
	struct runtime *r;

	if (!(s->flags & WIRE_RUNTIME_HTTP) || !s->runtime_port)
		return;
	r = g->runtime = xnew(struct runtime);
	r->guest = g;
	r->fd = -1;
	r->timer = timer_new(g->loop, on_timer, r);
	if (s->flags & WIRE_RUNTIME_NOW)
		listen_now(r);
	else
		timer_set(r->timer, LOOK_AFTER_MS);
}

/* Only for a start that failed, within the turn that armed it: nothing has been forked yet. */
void runtime_disarm(struct guest *g)
{
	struct runtime *r = take(g->runtime);

	if (!r)
		return;
	watch_free(r->watch);
	timer_free(r->timer);
	if (r->fd >= 0)
		(void)close(r->fd);
	free(r);
}
