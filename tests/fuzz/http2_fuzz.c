/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "net/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * Sends the input to the server as the frames of an HTTP/2 client that has greeted, in two pieces:
 * the first byte says where the second begins. Every request must end exactly once, whatever was
 * sent.
 */
static struct loop *loop;
static struct http_server *server;
static int n_open;

static void on_ended(unused void *owner)
{
	n_open--;
}

static void on_body(unused void *owner, struct http_request *r, const char *data, size_t len)
{
	http_respond(r, 200, http_request_headers(r),
		     (struct http_body){ "text/plain", data, len });
}

static void on_piece(unused void *owner, struct http_request *r, const char *data, size_t len)
{
	http_respond_start(r, 200, NULL, -1);
	http_respond_write(r, data, len);
	if (len && data[0] == 'p')
		http_request_pause(r, true);
	if (len && data[0] == 'a')
		http_respond_abort(r);
}

static void on_end(unused void *owner, struct http_request *r)
{
	http_respond_start(r, 200, NULL, -1);
	http_respond_trailers(r, http_request_trailers(r));
	http_respond_end(r);
}

static void on_head(unused void *arg, struct http_request *r)
{
	static const struct http_body_events pieces = { on_piece, on_end };
	const char *path = http_request_path(r);

	n_open++;
	http_request_set_owner(r, NULL, on_ended);
	if (!http_request_header(r, "Host"))
		abort();
	if (path[0] == '/' && path[1] == 'b')
		http_request_buffer(r, 100, on_body);
	else if (path[0] == '/' && path[1] == 's')
		http_request_stream(r, &pieces);
	else if (path[0] != '/' || path[1] != 'h') /* that one is not answered at all */
		http_respond_text(r, 200, http_request_target(r));
}

static void setup(void)
{
	static const struct http_handler handler = { on_head };
	const struct http_server_spec spec = { .limits = { .max_head = 2048, .max_headers = 8 },
					       .handler = &handler,
					       .http2 = &http2_protocol };

	if (loop)
		return;
	if (loop_new(&loop) || http_server_start(loop, -1, &spec, &server))
		abort();
}

static void feed(int fd, const uint8_t *data, size_t len)
{
	char sink[4096];

	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			break;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
		(void)loop_turn(loop, 0);
		while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
			;
	}
	for (int i = 0; i < 3; i++)
		(void)loop_turn(loop, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	int fds[2];
	size_t cut;

	if (!len)
		return 0;
	setup();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		abort();
	cut = 1 + (len - 1) * data[0] / 255;
	http_server_adopt(server, stream_plain(fds[0]), "fuzz");
	feed(fds[1], (const uint8_t *)greeting, sizeof(greeting)); /* its NUL ends the frame */
	feed(fds[1], data + 1, cut - 1);
	feed(fds[1], data + cut, len - cut);
	(void)close(fds[1]);
	for (int i = 0; i < 200 && http_server_conns(server); i++)
		(void)loop_turn(loop, 1);
	if (http_server_conns(server) || n_open)
		abort();
	return 0;
}
