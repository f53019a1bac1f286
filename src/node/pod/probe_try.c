/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "client/access.h"
#include "loop/loop.h"
#include "node/pod/pod_priv.h"
#include "node/pod/probe_priv.h"

/*
 * One try of a probe: an exec through client/access.h, like any other, or a connection to a port.
 *
 * HTTP is spoken by hand: a request line out, the status line in; nothing else of it matters.
 */
struct probe_try {
	struct probe *probe;
	struct access_session *run; /* exec */
	char *request;              /* http; NULL: the connection is enough */
	int fd;
	struct watch *watch;
	struct buf in;
	bool sent;
};

static void try_stop(void *arg)
{
	struct probe_try *t = arg;
	struct access_session *run = take(t->run);

	if (run)
		access_cancel(run);
	watch_free(t->watch);
	if (t->fd >= 0)
		(void)close(t->fd);
	buf_done(&t->in);
	free(t->request);
	free(t);
}

static void exec_output(unused void *arg, unused int fd, unused const char *data, unused size_t len)
{
}

static void exec_ended(void *arg, const struct err *e, int code, unused int signal)
{
	struct probe_try *t = arg;

	t->run = NULL;
	probe_tried(t->probe, !e && !code, e ? err_text(e) : "the command's exit code was not 0");
}

static void try_exec(struct probe_try *t, const char **argv)
{
	static const struct access_events events = { .output = exec_output, .ended = exec_ended };
	struct container *c = probe_container(t->probe);
	const struct access_exec_spec spec = {
		.to = { c->pod->obj->ns, c->pod->obj->name, c->view->name, "system:cay:probe" },
		.argv = argv,
	};
	struct err *e = access_exec(c->pod->pods->access, &spec, &events, t, &t->run);

	if (e)
		probe_tried(t->probe, false, err_text(e));
	err_free(e);
}

/* "HTTP/1.1 204 ..." is enough of an answer. */
static void read_status(struct probe_try *t)
{
	ssize_t n = recv(t->fd, buf_reserve(&t->in, 64), 64, 0);
	const char *text;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		buf_wrote(&t->in, (size_t)n);
	if (n > 0 && t->in.len < 12)
		return;
	text = buf_str(&t->in);
	probe_tried(t->probe,
		    t->in.len >= 12 && str_starts(text, "HTTP/1.") &&
			    (text[9] == '2' || text[9] == '3'),
		    "HTTP probe failed with another status than 200 to 399");
}

static void on_socket(void *arg, unused unsigned ready)
{
	struct probe_try *t = arg;
	int error = 0;
	socklen_t len = sizeof(error);

	if (t->sent) {
		read_status(t);
	} else if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
		probe_tried(t->probe, false, "connection refused");
	} else if (!t->request) {
		probe_tried(t->probe, true, NULL);
	} else if (send(t->fd, t->request, strlen(t->request), MSG_NOSIGNAL) < 0) {
		probe_tried(t->probe, false, "connection reset");
	} else {
		t->sent = true;
		watch_want(t->watch, WATCH_READ);
	}
}

static void try_connect(struct probe_try *t, const struct pod_probe_view *rule)
{
	struct container *c = probe_container(t->probe);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(rule->port) };

	if (rule->http_path)
		t->request =
			xasprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: cay-probe\r\n"
				  "Connection: close\r\n\r\n",
				  rule->http_path);
	t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->fd < 0 || !c->pod->net || inet_pton(AF_INET, c->pod->net->ip, &a.sin_addr) != 1 ||
	    (connect(t->fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS)) {
		probe_tried(t->probe, false, "cannot connect");
		return;
	}
	t->watch = watch_new(c->pod->pods->loop, t->fd, on_socket, t);
	watch_want(t->watch, WATCH_WRITE);
}

static void *try_start(struct probe *p)
{
	const struct pod_probe_view *rule = probe_rule(p);
	struct probe_try *t = xnew(struct probe_try);

	t->probe = p;
	t->fd = -1;
	if (rule->command)
		try_exec(t, rule->command);
	else
		try_connect(t, rule);
	return t;
}

const struct probe_ops probe_real_tries = { .start = try_start, .stop = try_stop };
