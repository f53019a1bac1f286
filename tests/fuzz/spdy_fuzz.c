/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/spdy.h"
#include "net/spdy_headers_priv.h"
#include "net/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Passes the bytes to a SPDY session, and the same bytes to the decompression of a header block. */
static struct loop *loop;
static struct spdy *session;

static void on_opened(unused void *arg, uint32_t id, unused const struct http_headers *h)
{
	spdy_write(session, id, "hi", 2);
}

static void on_data(unused void *arg, uint32_t id, const char *data, size_t len)
{
	spdy_write(session, id, data, len);
	if (len && data[0] == 'x')
		spdy_free(take(session));
}

static void on_ended(unused void *arg, uint32_t id)
{
	spdy_end(session, id);
}

static void on_reset(unused void *arg, uint32_t id)
{
	spdy_end(session, id);
}

static void on_closed(unused void *arg)
{
	spdy_free(take(session));
}

static void nothing(unused void *arg, unused struct buf *in)
{
}

static void closed(unused void *arg, unused const struct err *e)
{
}

static void feed_block(const uint8_t *data, size_t len)
{
	struct spdy_zip *z = spdy_zip_new();
	struct http_headers h = { 0 };

	(void)spdy_zip_read(z, data, len, &h);
	http_headers_done(&h);
	spdy_zip_free(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct spdy_events events = { on_opened, on_data, on_ended,
						   on_reset,  NULL,    on_closed };
	static const struct conn_events none = { .data = nothing, .closed = closed };
	int fds[2];

	feed_block(data, len);
	if (!loop && loop_new(&loop))
		abort();
	if (len > 64 * 1024 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return 0;
	session = spdy_new(conn_new(loop, stream_plain(fds[0]), &none, NULL), &events, NULL);
	if (len && send(fds[1], data, len, MSG_NOSIGNAL) < 0)
		abort();
	for (int i = 0; i < 4; i++)
		(void)loop_turn(loop, 0);
	(void)close(fds[1]);
	for (int i = 0; i < 4; i++)
		(void)loop_turn(loop, 0);
	spdy_free(take(session));
	(void)loop_turn(loop, 0);
	return 0;
}
