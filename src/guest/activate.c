/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "guest/guest_priv.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"

/*
 * The runtime's ports. Pid 1 only listens and never reads a byte of HTTP: when the first connection
 * arrives, it forks a process without privileges that accepts this and all later connections, and
 * takes the ports back when that process has ended, whether idle or by accident. A sandbox whose
 * runtime nobody uses pays only for the sockets.
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
	struct port {
		uint16_t number; /* 0: not wanted */
		bool now;        /* whatever else may want to listen there */
		int fd;          /* -1: not listening */
		struct watch *watch;
	} ports[RUNTIME_PORT_MAX_];
	struct timer *timer;
	pid_t pid; /* 0: not running */
	unsigned short_lives;
	usec armed_at, forked_at;
	uint32_t *busy; /* shared with that process; NULL: there was no memory for it */
};

/* The only place that decides whether connections are looked for. */
static void watch_ports(struct runtime *r, bool wanted)
{
	for (int i = 0; i < RUNTIME_PORT_MAX_; i++)
		if (r->ports[i].watch)
			watch_want(r->ports[i].watch, wanted ? WATCH_READ : 0);
}

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
	/* Connections inherit it: an event must not wait until the head before it is acknowledged.
	 */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
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
	if (r->busy)
		__atomic_store_n(r->busy, 0, __ATOMIC_RELAXED); /* nobody waits for them now */
	if (status && clock_mono() - r->forked_at < SHORT_LIFE_US) {
		r->short_lives = MIN(r->short_lives + 1, (unsigned)RETRY_DOUBLINGS);
		timer_set(r->timer, RETRY_MS << r->short_lives);
		return;
	}
	r->short_lives = 0;
	watch_ports(r, true);
}

static void on_connection(void *arg, unused unsigned ready)
{
	struct runtime *r = arg;
	int fds[RUNTIME_PORT_MAX_];

	for (int i = 0; i < RUNTIME_PORT_MAX_; i++)
		fds[i] = r->ports[i].fd;
	watch_ports(r, false);
	r->forked_at = clock_mono();
	r->pid = fork();
	if (r->pid == 0)
		runtime_main(fds, &r->guest->command.start, r->armed_at, r->busy);
	if (r->pid < 0) {
		r->pid = 0;
		timer_set(r->timer,
			  LOOK_AFTER_MS); /* out of processes or memory: try again later */
		return;
	}
	children_add(r->guest->children, r->pid, on_end, r);
}

/* If the port is taken, the command serves its own runtime: nothing to do, nothing to report. */
static void listen_now(struct runtime *r, struct port *p)
{
	p->fd = listen_on(AF_INET6, p->number);
	if (p->fd < 0 && errno != EADDRINUSE)
		p->fd = listen_on(AF_INET, p->number);
	if (p->fd < 0)
		return;
	p->watch = watch_new(r->guest->loop, p->fd, on_connection, r);
	watch_want(p->watch, r->pid ? 0 : WATCH_READ);
}

static void on_timer(void *arg)
{
	struct runtime *r = arg;

	for (int i = 0; i < RUNTIME_PORT_MAX_; i++)
		if (r->ports[i].number && !r->ports[i].now) {
			r->ports[i].now = true;
			listen_now(r, &r->ports[i]);
		}
	if (!r->pid)
		watch_ports(r, true);
}

static void port_arm(struct runtime *r, enum runtime_port which, uint16_t number, bool now)
{
	struct port *p = &r->ports[which];

	*p = (struct port){ .number = number, .now = now, .fd = -1 };
	if (number && now)
		listen_now(r, p);
	else if (number)
		timer_set(r->timer, LOOK_AFTER_MS);
}

void runtime_arm(struct guest *g)
{
	const struct wire_start *s = &g->command.start;
	bool python = s->flags & WIRE_RUNTIME_HTTP && s->runtime_port;
	bool rest = s->flags & WIRE_RUNTIME_REST;
	struct runtime *r;

	if (!python && !rest)
		return;
	r = g->runtime = xnew(struct runtime);
	r->guest = g;
	r->busy = mmap(NULL, sizeof(*r->busy), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (r->busy == MAP_FAILED)
		r->busy = NULL;
	r->armed_at = clock_mono();
	r->timer = timer_new(g->loop, on_timer, r);
	port_arm(r, RUNTIME_PORT_PYTHON, python ? s->runtime_port : 0, s->flags & WIRE_RUNTIME_NOW);
	port_arm(r, RUNTIME_PORT_REST, rest ? WIRE_REST_PORT : 0, s->flags & WIRE_REST_NOW);
	port_arm(r, RUNTIME_PORT_GRPC, rest ? WIRE_GRPC_PORT : 0, s->flags & WIRE_REST_NOW);
}

/* Only for a start that failed, within the turn that armed it: nothing has been forked yet. */
void runtime_disarm(struct guest *g)
{
	struct runtime *r = take(g->runtime);

	if (!r)
		return;
	for (int i = 0; i < RUNTIME_PORT_MAX_; i++) {
		watch_free(r->ports[i].watch);
		if (r->ports[i].fd >= 0)
			(void)close(r->ports[i].fd);
	}
	timer_free(r->timer);
	if (r->busy)
		(void)munmap(r->busy, sizeof(*r->busy));
	free(r);
}

uint32_t runtime_busy(const struct guest *g)
{
	const struct runtime *r = g->runtime;

	return r && r->busy ? __atomic_load_n(r->busy, __ATOMIC_RELAXED) : 0;
}
