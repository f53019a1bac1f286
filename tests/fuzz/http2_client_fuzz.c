/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "net/http_client.h"
#include "net/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * The input is what a server of HTTP/2 says to three exchanges after it has greeted, in two pieces:
 * the first byte says where the second begins. Every exchange must end exactly once, whatever was
 * said.
 */
static struct loop *loop;
static struct http_pool *pool;
static int server; /* the far end of the next connection */

struct deal {
	struct http_exchange *x;
	bool pauses;
};
static struct deal deals[3];

static void on_head(void *arg, int status, struct http_headers *h)
{
	(void)arg;
	for (size_t i = 0; i < h->n; i++)
		if (!*h->list[i].name)
			abort();
	if (status < 200 || status > 999)
		abort();
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct deal *d = arg;

	if (!len)
		abort();
	if (data[0] == 'c')
		http_exchange_cancel(take(d->x));
	else if (d->pauses)
		http_exchange_pause(d->x, true);
}

static void on_end(void *arg, struct http_headers *trailers)
{
	struct deal *d = arg;

	(void)trailers;
	if (!d->x)
		abort();
	d->x = NULL;
}

static void on_failed(void *arg, const struct err *e)
{
	struct deal *d = arg;

	if (!d->x || !e)
		abort();
	d->x = NULL;
}

/* The pool dials an address where nobody is, and gets a pair of sockets instead. */
static struct stream *wrap(void *arg, int fd)
{
	int fds[2];

	(void)arg;
	(void)close(fd);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		abort();
	if (server >= 0)
		(void)close(server);
	server = fds[1];
	return stream_plain(fds[0]);
}

static char addr[64];

static void setup(void)
{
	const struct http_limits limits = { .max_head = 2048, .max_headers = 8 };
	static int listener;

	if (loop)
		return;
	if (loop_new(&loop) || net_listen("127.0.0.1:0", &listener) ||
	    net_local_addr(listener, addr, sizeof(addr)))
		abort();
	pool = http_pool_new(loop, &limits, 0);
	http_pool_set_wrap(pool, wrap, NULL);
}

static void start(struct deal *d, int64_t body_len)
{
	static const struct http_exchange_events events = {
		.head = on_head, .data = on_data, .end = on_end, .failed = on_failed
	};
	const struct http_exchange_spec spec = {
		.version = 2, .addr = addr, .method = "POST", .target = "/x", .body_len = body_len
	};

	*d = (struct deal){ .pauses = d == &deals[1] };
	d->x = http_exchange_start(pool, &spec, &events, d);
	if (body_len)
		http_exchange_write(d->x, "body", 4);
	if (body_len > 0)
		http_exchange_end_body(d->x, NULL);
}

static void feed(const uint8_t *data, size_t len)
{
	char sink[4096];

	while (len && server >= 0) {
		ssize_t n = send(server, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			break;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
		(void)loop_turn(loop, 0);
		while (recv(server, sink, sizeof(sink), MSG_DONTWAIT) > 0)
			;
	}
	for (int i = 0; i < 3; i++)
		(void)loop_turn(loop, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const uint8_t greeting[] = { 0, 0, 0, 4, 0, 0, 0, 0, 0 };
	size_t cut;

	if (!len)
		return 0;
	setup();
	server = -1;
	start(&deals[0], 0);
	start(&deals[1], -1);
	start(&deals[2], 4);
	for (int i = 0; i < 200 && server < 0; i++)
		(void)loop_turn(loop, 1);
	cut = 1 + (len - 1) * data[0] / 255;
	feed(greeting, sizeof(greeting));
	feed(data + 1, cut - 1);
	feed(data + cut, len - cut);
	for (size_t i = 0; i < ARRAY_LEN(deals); i++)
		if (deals[i].x)
			http_exchange_cancel(take(deals[i].x));
	if (server >= 0)
		(void)close(server);
	for (int i = 0; i < 5; i++)
		(void)loop_turn(loop, 0);
	return 0;
}
