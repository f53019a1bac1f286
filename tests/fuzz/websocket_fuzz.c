/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "net/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * A handshake, then the bytes as frames. Messages are echoed; one that begins with 'x' frees the
 * socket.
 */
static struct loop *loop;
static struct http_server *server;
static struct websocket *ws;

static void on_message(unused void *arg, bool binary, const char *data, size_t len)
{
	if (len > 1000)
		abort();
	websocket_send(ws, binary, data, len);
	if (len && data[0] == 'x')
		websocket_free(take(ws));
	else if (len && data[0] == 'c')
		websocket_close(ws, 1000, "bye");
}

static void on_closed(unused void *arg, unused uint16_t code)
{
	websocket_free(take(ws));
}

static void on_head(unused void *arg, struct http_request *r)
{
	static const struct websocket_events events = { .message = on_message,
							.closed = on_closed };

	ws = websocket_accept(r, NULL, 1000, NULL);
	if (ws)
		websocket_set_events(ws, &events, NULL);
}

static void setup(void)
{
	static const struct http_handler handler = { on_head };
	struct http_server_spec spec = { .handler = &handler };

	if (!loop && (loop_new(&loop) || http_server_start(loop, -1, &spec, &server)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char shake[] =
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
	int fds[2];

	setup();
	if (len > 64 * 1024 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return 0;
	http_server_adopt(server, stream_plain(fds[0]), "fuzz");
	if (send(fds[1], shake, strlen(shake), MSG_NOSIGNAL) < 0 ||
	    (len && send(fds[1], data, len, MSG_NOSIGNAL) < 0))
		abort();
	for (int i = 0; i < 5; i++)
		(void)loop_turn(loop, 0);
	(void)close(fds[1]);
	for (int i = 0; i < 4; i++)
		(void)loop_turn(loop, 0);
	websocket_free(take(ws));
	(void)loop_turn(loop, 0);
	return 0;
}
