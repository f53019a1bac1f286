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
enum {
	STATUS_LEN = 12, /* of "HTTP/1.1 204" */
};

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

/* The try has its answer. The text says what was wrong with it. */
static void printf_like(3, 4) answered(struct probe_try *t, bool good, const char *fmt, ...)
{
	autobuf why = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&why, fmt, ap);
	va_end(ap);
	probe_tried(t->probe, good, buf_str(&why));
}

static void exec_output(unused void *arg, unused int fd, unused const char *data, unused size_t len)
{
}

static void exec_ended(void *arg, const struct err *e, int code, unused int signal)
{
	struct probe_try *t = arg;

	t->run = NULL;
	if (e)
		probe_tried(t->probe, false, err_text(e));
	else
		answered(t, !code, "command ended with exit code %d", code);
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
	if (n < 0) {
		answered(t, false, "read the answer: %s", strerror(errno));
		return;
	}
	buf_wrote(&t->in, (size_t)n);
	if (n > 0 && t->in.len < STATUS_LEN)
		return;
	text = buf_str(&t->in);
	if (t->in.len < STATUS_LEN || !str_starts(text, "HTTP/1."))
		answered(t, false, "the answer is not HTTP");
	else
		answered(t, text[9] == '2' || text[9] == '3' || probe_is_hook(t->probe),
			 "HTTP probe failed with statuscode: %.3s", text + 9);
}

static void cannot_connect(struct probe_try *t, int errnum)
{
	const struct container *c = probe_container(t->probe);

	answered(t, false, "connect to %s:%d: %s", c->pod->net ? c->pod->net->ip : "",
		 probe_rule(t->probe)->port, strerror(errnum));
}

static void on_socket(void *arg, unused unsigned ready)
{
	struct probe_try *t = arg;
	int error = 0;
	socklen_t len = sizeof(error);

	if (t->sent) {
		read_status(t);
	} else if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
		cannot_connect(t, error ? error : errno);
	} else if (!t->request) {
		probe_tried(t->probe, true, NULL);
	} else if (send(t->fd, t->request, strlen(t->request), MSG_NOSIGNAL) < 0) {
		answered(t, false, "send the request: %s", strerror(errno));
	} else {
		t->sent = true;
		watch_want(t->watch, WATCH_READ);
	}
}

static void try_connect(struct probe_try *t, const struct pod_probe_view *rule)
{
	struct container *c = probe_container(t->probe);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(rule->port) };
	const uint32_t mark = c->pod->pods->mark; /* the packet filter asks for it */

	if (rule->http_path)
		t->request =
			xasprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: cay-probe\r\n"
				  "Connection: close\r\n\r\n",
				  rule->http_path);
	if (!c->pod->net || inet_pton(AF_INET, c->pod->net->ip, &a.sin_addr) != 1) {
		answered(t, false, "the Pod has no address");
		return;
	}
	t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->fd < 0 ||
	    (mark && setsockopt(t->fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0) ||
	    (connect(t->fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS)) {
		cannot_connect(t, errno);
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
