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
#include "net/conn.h"
#include "net/http_client.h"
#include "net/stream.h"
#include "node/pod/health_priv.h"
#include "node/pod/pod_priv.h"
#include "node/pod/probe_priv.h"
#include "tls/tls.h"

/*
 * One try of a probe: an exec through client/access.h, like any other, or a connection to a port.
 *
 * HTTP is spoken by hand: a request out, the status line in; nothing else of it matters. With
 * HTTPS, nobody looks at the certificate: what is asked is whether the server answers, not who it
 * is. gRPC is one call of grpc.health.v1.Health/Check. All of it comes from a sandbox, and is read
 * only up to a limit; the time is limited by the probe.
 */
enum {
	STATUS_LEN = 12,      /* of "HTTP/1.1 204" */
	GRPC_BODY_MAX = 4096, /* a health message has few bytes */
};

struct probe_try {
	struct probe *probe;
	struct access_session *run; /* exec */
	int fd;                     /* while it connects */
	struct watch *watch;
	struct conn *conn;            /* http */
	struct http_exchange *call;   /* grpc */
	int status;                   /* of its answer */
	struct http_headers answered; /* headers and trailers */
	struct buf body;
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
	conn_free(t->conn);
	if (t->call)
		http_exchange_cancel(t->call);
	http_headers_done(&t->answered);
	buf_done(&t->body);
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
		.probe = true,
	};
	struct err *e = access_exec(c->pod->pods->access, &spec, &events, t, &t->run);

	if (e)
		probe_tried(t->probe, false, err_text(e));
	err_free(e);
}

/* HTTP */

/* "HTTP/1.1 204 ..." is enough of an answer. */
static void on_answer(void *arg, struct buf *in)
{
	struct probe_try *t = arg;
	const char *text;

	if (in->len < STATUS_LEN)
		return;
	text = buf_str(in);
	if (!str_starts(text, "HTTP/1."))
		answered(t, false, "the answer is not HTTP");
	else
		answered(t, text[9] == '2' || text[9] == '3' || probe_is_hook(t->probe),
			 "HTTP probe failed with statuscode: %.3s", text + 9);
}

static void on_answer_end(void *arg)
{
	answered(arg, false, "the answer is not HTTP");
}

static void on_conn_closed(void *arg, const struct err *e)
{
	struct probe_try *t = arg;

	if (e)
		answered(t, false, "%s", err_text(e)); /* e ends with the try */
	else
		on_answer_end(t);
}

static void put_request(struct buf *b, const struct pod_probe_view *rule)
{
	const char *host = "localhost", *agent = "cay-probe";

	buf_printf(b, "GET %s%s HTTP/1.1\r\n", rule->http_path[0] == '/' ? "" : "/",
		   rule->http_path);
	for (const struct pod_header_view *h = rule->http_headers; h && h->name; h++) {
		if (str_eq_nocase(h->name, "host"))
			host = h->value;
		else if (str_eq_nocase(h->name, "user-agent"))
			agent = h->value;
		else
			buf_printf(b, "%s: %s\r\n", h->name, h->value);
	}
	buf_printf(b, "Host: %s\r\nUser-Agent: %s\r\nConnection: close\r\n\r\n", host, agent);
}

static void ask_http(struct probe_try *t, const struct pod_probe_view *rule)
{
	static const struct conn_events events = { .data = on_answer,
						   .eof = on_answer_end,
						   .closed = on_conn_closed };
	struct pods *ps = probe_container(t->probe)->pod->pods;
	int fd = take_fd(t->fd);
	autobuf request = { 0 };

	put_request(&request, rule);
	t->conn = conn_new(ps->loop,
			   rule->https ? tls_connect(ps->probe_tls, fd, NULL) : stream_plain(fd),
			   &events, t);
	conn_write(t->conn, buf_head(&request), request.len);
}

/* gRPC */

static void keep_headers(struct probe_try *t, const struct http_headers *h)
{
	for (size_t i = 0; i < h->n; i++)
		http_headers_add(&t->answered, h->list[i].name, h->list[i].value);
}

static void on_call_head(void *arg, int status, struct http_headers *h)
{
	struct probe_try *t = arg;

	t->status = status;
	keep_headers(t, h);
}

static void on_call_data(void *arg, const char *data, size_t len)
{
	struct probe_try *t = arg;

	if (t->body.len + len > GRPC_BODY_MAX)
		answered(t, false, "health rpc probe failed: the answer is longer than %d bytes",
			 GRPC_BODY_MAX);
	else
		buf_add(&t->body, data, len);
}

/* In the words of a kubelet, where it has any. */
static void on_call_end(void *arg, struct http_headers *trailers)
{
	struct probe_try *t = arg;
	const char *code, *text, *type;
	uint64_t status = 0;
	struct err *e;

	t->call = NULL;
	keep_headers(t, trailers);
	code = http_headers_get(&t->answered, "grpc-status");
	text = str_or(http_headers_get(&t->answered, "grpc-message"), "");
	type = str_or(http_headers_get(&t->answered, "content-type"), "");
	if (t->status != 200 || !str_starts(type, "application/grpc") || !code) {
		answered(t, false, "the answer is not gRPC: HTTP status %d", t->status);
		return;
	}
	if (!str_eq(code, "0")) {
		answered(t, false, "%s: %s: %s",
			 str_eq(code, "12") ? "this server does not implement the grpc health "
					      "protocol (grpc.health.v1.Health)"
					    : "health rpc probe failed",
			 grpc_code_name(code), text);
		return;
	}
	e = health_response(t->body.len ? buf_head(&t->body) : "", t->body.len, &status);
	if (e)
		probe_tried(t->probe, false, err_text(e));
	else
		answered(t, status == HEALTH_SERVING, "service unhealthy (responded with \"%s\")",
			 health_name(status));
	err_free(e);
}

static void on_call_failed(void *arg, const struct err *e)
{
	struct probe_try *t = arg;

	t->call = NULL;
	answered(t, false, "health rpc probe failed: %s", err_text(e));
}

static void try_grpc(struct probe_try *t, const struct pod_probe_view *rule)
{
	static const struct http_exchange_events events = { .head = on_call_head,
							    .data = on_call_data,
							    .end = on_call_end,
							    .failed = on_call_failed };
	static struct http_header list[] = { { (char *)"content-type", (char *)"application/grpc" },
					     { (char *)"user-agent", (char *)"cay-probe" } };
	static const struct http_headers headers = { list, ARRAY_LEN(list) };
	struct container *c = probe_container(t->probe);
	autofree char *addr = NULL;
	autobuf message = { 0 };
	struct http_exchange_spec spec = { .version = 2,
					   .method = "POST",
					   .target = "/grpc.health.v1.Health/Check",
					   .headers = &headers };

	if (!c->pod->net) {
		answered(t, false, "the Pod has no address");
		return;
	}
	addr = xasprintf("%s:%d", c->pod->net->ip, rule->port);
	health_request(&message, rule->grpc_service);
	spec.addr = addr;
	spec.body_len = (int64_t)message.len;
	t->call = http_exchange_start(c->pod->pods->probe_pool, &spec, &events, t);
	http_exchange_write(t->call, buf_head(&message), message.len);
	http_exchange_end_body(t->call, NULL);
}

/* Connecting */

static void cannot_connect(struct probe_try *t, int errnum)
{
	const struct container *c = probe_container(t->probe);

	answered(t, false, "connect to %s:%d: %s", c->pod->net ? c->pod->net->ip : "",
		 probe_rule(t->probe)->port, strerror(errnum));
}

static void on_socket(void *arg, unused unsigned ready)
{
	struct probe_try *t = arg;
	const struct pod_probe_view *rule = probe_rule(t->probe);
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
		cannot_connect(t, error ? error : errno);
		return;
	}
	watch_free(take(t->watch));
	if (rule->http_path)
		ask_http(t, rule);
	else
		probe_tried(t->probe, true, NULL);
}

static void try_connect(struct probe_try *t, const struct pod_probe_view *rule)
{
	struct container *c = probe_container(t->probe);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(rule->port) };
	const uint32_t mark = c->pod->pods->mark; /* the packet filter asks for it */

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
	else if (rule->grpc_service)
		try_grpc(t, rule);
	else
		try_connect(t, rule);
	return t;
}

const struct probe_ops probe_real_tries = { .start = try_start, .stop = try_stop };
