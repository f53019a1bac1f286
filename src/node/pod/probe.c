/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "loop/loop.h"
#include "node/access/session_priv.h"

/*
 * Probes: exec, httpGet, tcpSocket, one try after the other on a timer. A verdict changes after as
 * many tries in a row as the thresholds say, and wakes the Pod.
 *
 * HTTP is asked by hand: a request line out, the status line in; nothing else of it matters.
 */
struct probe {
	struct container *c;
	char *what;
	unsigned period_ms, timeout_ms, need_ok, need_bad;
	unsigned n_ok, n_bad;
	bool ok, dead;
	struct timer *next, *deadline;

	const char **argv; /* exec */
	struct access_session *run;
	char *request; /* http; NULL: the connection is enough */
	uint16_t port;
	int fd;
	struct watch *watch;
	struct buf in;
	bool sent;
};

static void probe_start(void *arg);

static void stop_try(struct probe *p)
{
	struct access_session *run = take(p->run);

	if (run)
		access_cancel(run);
	watch_free(take(p->watch));
	if (p->fd >= 0)
		(void)close(take_fd(p->fd));
	buf_done(&p->in);
	timer_clear(p->deadline);
}

static void verdict(struct probe *p, bool good, const char *why)
{
	bool was_ok = p->ok, was_dead = p->dead;

	stop_try(p);
	p->n_ok = good ? p->n_ok + 1 : 0;
	p->n_bad = good ? 0 : p->n_bad + 1;
	if (p->n_ok >= p->need_ok)
		p->ok = true;
	if (p->n_bad >= p->need_bad) {
		p->ok = false;
		p->dead = true;
	}
	if (!good && p->n_bad == p->need_bad)
		event_add(p->c->pod->node, p->c->pod->obj, true, "Unhealthy", "%s probe failed: %s",
			  p->what, why);
	timer_set(p->next, p->period_ms);
	if (was_ok != p->ok || was_dead != p->dead)
		node_wake(p->c->pod->node, p->c->pod);
}

static void on_deadline(void *arg)
{
	verdict(arg, false, "it took too long");
}

static void exec_output(unused void *arg, unused int fd, unused const char *data, unused size_t len)
{
}

static void exec_ended(void *arg, const struct err *e, int code, unused int signal)
{
	struct probe *p = arg;

	p->run = NULL;
	verdict(p, !e && !code, e ? err_text(e) : "the command's exit code was not 0");
}

static void try_exec(struct probe *p)
{
	static const struct access_events events = { .output = exec_output, .ended = exec_ended };
	struct access_exec_spec spec = {
		.to = { p->c->pod->obj->ns, p->c->pod->obj->name, p->c->name, "system:cay:probe" },
		.argv = p->argv,
	};
	struct err *e = access_exec(p->c->pod->node->access, &spec, &events, p, &p->run);

	if (e)
		verdict(p, false, err_text(e));
	err_free(e);
}

/* "HTTP/1.1 204 ..." is enough of an answer. */
static void read_status(struct probe *p)
{
	ssize_t n = recv(p->fd, buf_reserve(&p->in, 64), 64, 0);
	const char *text;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		buf_wrote(&p->in, (size_t)n);
	if (n > 0 && p->in.len < 12)
		return;
	text = buf_str(&p->in);
	verdict(p,
		p->in.len >= 12 && str_starts(text, "HTTP/1.") &&
			(text[9] == '2' || text[9] == '3'),
		"HTTP probe failed with another status than 200 to 399");
}

static void on_socket(void *arg, unused unsigned ready)
{
	struct probe *p = arg;
	int error = 0;
	socklen_t len = sizeof(error);

	if (p->sent) {
		read_status(p);
		return;
	}
	if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
		verdict(p, false, "connection refused");
		return;
	}
	if (!p->request) {
		verdict(p, true, NULL);
		return;
	}
	if (send(p->fd, p->request, strlen(p->request), MSG_NOSIGNAL) < 0) {
		verdict(p, false, "connection reset");
		return;
	}
	p->sent = true;
	watch_want(p->watch, WATCH_READ);
}

static void try_connect(struct probe *p)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(p->port) };

	p->sent = false;
	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0 || !p->c->pod->net ||
	    inet_pton(AF_INET, p->c->pod->net->ip, &a.sin_addr) != 1 ||
	    (connect(p->fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS)) {
		verdict(p, false, "cannot connect");
		return;
	}
	p->watch = watch_new(p->c->pod->node->loop, p->fd, on_socket, p);
	watch_want(p->watch, WATCH_WRITE);
}

static void probe_start(void *arg)
{
	struct probe *p = arg;

	timer_set(p->deadline, p->timeout_ms);
	if (p->argv)
		try_exec(p);
	else
		try_connect(p);
}

/* By number or by the name of a port of the container. */
static uint16_t port_of(const struct container *c, const struct json *v)
{
	const char *name = json_str(v);

	json_each(p, name ? json_get(c->spec, "ports") : NULL)
		if (str_eq(json_get_str(p.val, "name"), name))
			return (uint16_t)json_get_int(p.val, "containerPort", 0);
	return (uint16_t)json_int(v, 0);
}

static void read_action(struct probe *p, const struct json *spec)
{
	const struct json *http = json_get(spec, "httpGet"),
			  *command = json_at_path(spec, "exec.command");
	size_t n = 0;

	if (http) {
		p->port = port_of(p->c, json_get(http, "port"));
		p->request =
			xasprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: cay-probe\r\n"
				  "Connection: close\r\n\r\n",
				  str_or(json_get_str(http, "path"), "/"));
	} else if (json_len(command)) {
		p->argv = xnew_n(const char *, json_len(command) + 1);
		json_each(w, command)
			p->argv[n++] = xstrdup(str_or(json_str(w.val), ""));
	} else {
		p->port = port_of(p->c, json_at_path(spec, "tcpSocket.port"));
	}
}

static unsigned setting(const struct json *spec, const char *name, int64_t otherwise, int64_t max)
{
	int64_t v = json_get_int(spec, name, otherwise);

	return (unsigned)MIN(MAX(v, (int64_t)0), max);
}

struct probe *probe_new(struct container *c, const struct json *spec, const char *what)
{
	struct probe *p;
	bool readiness = str_eq(what, "Readiness");

	if (!spec)
		return NULL;
	p = xnew(struct probe);
	p->c = c;
	p->fd = -1;
	p->what = xstrdup(what);
	p->ok = str_eq(what, "Liveness");
	p->period_ms = MAX(setting(spec, "periodSeconds", 10, 86400), 1u) * 1000;
	p->timeout_ms = MAX(setting(spec, "timeoutSeconds", 1, 3600), 1u) * 1000;
	p->need_ok = MAX(setting(spec, "successThreshold", 1, 1000), 1u);
	p->need_bad = MAX(setting(spec, "failureThreshold", 3, 1000), 1u);
	p->next = timer_new(c->pod->node->loop, probe_start, p);
	p->deadline = timer_new(c->pod->node->loop, on_deadline, p);
	read_action(p, spec);
	/* The first try comes early: a program that is quick should not wait a whole period. */
	timer_set(p->next, MAX(setting(spec, "initialDelaySeconds", 0, 86400) * 1000,
			       readiness ? 5u : 100u));
	return p;
}

void probe_free(struct probe *p)
{
	if (!p)
		return;
	stop_try(p);
	timer_free(p->next);
	timer_free(p->deadline);
	for (const char **a = p->argv; a && *a; a++)
		free((void *)(uintptr_t)*a);
	free(p->argv);
	free(p->request);
	free(p->what);
	free(p);
}

bool probe_ok(const struct probe *p)
{
	return p && p->ok;
}

bool probe_dead(const struct probe *p)
{
	return p && p->dead;
}
