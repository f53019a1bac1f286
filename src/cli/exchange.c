/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its whole answer, for commands that have nothing else to do meanwhile. */
#include "base/buf.h"
#include "cli/cli.h"
#include "loop/loop.h"
#include "net/http_client.h"

enum {
	CONNECT_MS = 10 * 1000,
	ANSWER_MS = 60 * 1000,
	ANSWER_MAX = 1024 * 1024,
};

struct waiting {
	struct loop *loop;
	int status;
	struct buf answer;
	struct err *failure;
};

static void on_head(void *arg, int status, unused struct http_headers *h)
{
	((struct waiting *)arg)->status = status;
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct waiting *w = arg;

	if (w->answer.len + len <= ANSWER_MAX) {
		buf_add(&w->answer, data, len);
	} else if (!w->failure) {
		w->failure =
			err_new(ERR_TOO_LARGE, "the answer has more than %d bytes", ANSWER_MAX);
		loop_stop(w->loop);
	}
}

static void on_end(void *arg, unused struct http_headers *trailers)
{
	loop_stop(((struct waiting *)arg)->loop);
}

static void on_failed(void *arg, const struct err *e)
{
	struct waiting *w = arg;

	if (!w->failure)
		w->failure = err_copy(e);
	loop_stop(w->loop);
}

static void send_request(struct waiting *w, struct http_pool *pool, const struct cli_request *r)
{
	static const struct http_exchange_events events = {
		.head = on_head, .data = on_data, .end = on_end, .failed = on_failed
	};
	struct http_exchange *x =
		http_exchange_start(pool,
				    &(struct http_exchange_spec){ .addr = r->addr,
								  .method = r->method,
								  .target = r->target,
								  .headers = r->headers,
								  .body_len = (int64_t)r->body->len,
								  .connect_ms = CONNECT_MS,
								  .head_ms = ANSWER_MS },
				    &events, w);

	if (r->body->len)
		http_exchange_write(x, buf_head(r->body), r->body->len);
	http_exchange_end_body(x, NULL);
}

struct err *cli_exchange(const struct cli_request *r, int *ret_status, struct buf *ret_answer)
{
	static const struct http_limits limits = { 0 };
	struct waiting w = { 0 };
	struct http_pool *pool;
	struct err *e = loop_new(&w.loop);

	if (e)
		return e;
	pool = http_pool_new(w.loop, &limits, 1);
	http_pool_set_wrap(pool, r->wrap, r->wrap_arg);
	send_request(&w, pool, r);
	loop_run(w.loop);
	http_pool_free(pool);
	loop_free(w.loop);
	if (w.failure) {
		buf_done(&w.answer);
		return w.failure;
	}
	*ret_status = w.status;
	*ret_answer = w.answer;
	return NULL;
}
