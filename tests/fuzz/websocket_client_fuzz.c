/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "net/stream.h"
#include "net/websocket.h"
#include "net/websocket_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * The bytes as what a server sends to a client. Of the first byte the lowest bit says whether they
 * are the answer to the handshake, or frames after a good one. Messages are echoed; one that begins
 * with 'x' frees the socket.
 */
static struct loop *loop;
static struct http_pool *pool;
static struct websocket *ws;
static struct websocket_dial *dial;
static int listener = -1;
static char addr[64];

static void on_message(unused void *arg, bool binary, const char *data, size_t len)
{
	if (len > 1000)
		abort();
	websocket_send(ws, binary, data, len);
	if (len && data[0] == 'x')
		websocket_free(take(ws));
}

static void on_closed(unused void *arg, unused uint16_t code)
{
	websocket_free(take(ws));
}

static void on_opened(unused void *arg, struct websocket *w, unused const char *protocol)
{
	static const struct websocket_events events = { .message = on_message,
							.closed = on_closed };

	dial = NULL;
	ws = w;
	websocket_set_events(w, &events, NULL);
}

static void on_refused(unused void *arg, unused int status, unused struct span body)
{
	dial = NULL;
}

static void on_failed(unused void *arg, unused const struct err *e)
{
	dial = NULL;
}

static void setup(void)
{
	if (loop)
		return;
	if (loop_new(&loop) || net_listen("127.0.0.1:0", &listener) ||
	    net_local_addr(listener, addr, sizeof(addr)))
		abort();
	pool = http_pool_new(loop, NULL, 0);
}

/* The answer that the client expects, from its key. */
static void shake(int fd)
{
	char head[4096];
	ssize_t n = recv(fd, head, sizeof(head) - 1, 0);
	autofree char *key = NULL, *proof = NULL, *text = NULL;
	const char *p;

	if (n <= 0)
		return;
	head[n] = 0;
	p = strstr(head, "Sec-WebSocket-Key: ");
	if (!p)
		abort();
	p += strlen("Sec-WebSocket-Key: ");
	key = xstrndup(p, strcspn(p, "\r"));
	proof = websocket_accept_key(key);
	text = xasprintf("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			 "Sec-WebSocket-Protocol: p\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			 proof);
	(void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct websocket_dial_events events = { on_opened, on_refused, on_failed };
	static const char *const protocols[] = { "p", NULL };
	int fd = -1;

	setup();
	if (!len || len > 64 * 1024)
		return 0;
	dial = websocket_dial(
		pool,
		&(struct websocket_dial_spec){
			.addr = addr, .target = "/", .protocols = protocols, .max_message = 1000 },
		&events, NULL);
	for (int i = 0; i < 100 && fd < 0; i++) {
		(void)loop_turn(loop, 1);
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	for (int i = 0; i < 3; i++)
		(void)loop_turn(loop, 1);
	if (fd >= 0 && (data[0] & 1))
		shake(fd);
	if (fd >= 0 && len > 1)
		(void)send(fd, data + 1, len - 1, MSG_NOSIGNAL);
	for (int i = 0; i < 5; i++)
		(void)loop_turn(loop, 1);
	if (fd >= 0)
		(void)close(fd);
	for (int i = 0; i < 4; i++)
		(void)loop_turn(loop, 1);
	websocket_dial_cancel(take(dial));
	websocket_free(take(ws));
	(void)loop_turn(loop, 0);
	return 0;
}
