/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/execute/process.h"
#include "guest/execute/spool.h"
#include "guest/rpc/rpc_priv.h"
#include "guest/rpc/rpc_process_priv.h"
#include "guest/runtime/runtime.h"
#include "guest/spawn/spawn.h"

/*
 * Execute: the output is kept as that of POST /execute is, and sent as one message when the command
 * has ended. It is never cut: a client that accepts no message of that size refuses it from its
 * head, and an output that could not be kept is an error.
 */
#define ANSWER_MAX INT32_MAX /* no implementation reads more */

struct execute {
	struct rpc *c;
	struct process *p; /* NULL: it has ended */
	struct spool out[2];
	unsigned part; /* of the answer: out[part], from at on */
	uint64_t at;
};

static void execute_free(struct execute *x)
{
	spool_done(&x->out[0]);
	spool_done(&x->out[1]);
	free(x);
}

static bool on_full(unused void *arg)
{
	return false;
}

static void on_data(void *arg, enum process_channel channel, const char *data, size_t len)
{
	struct execute *x = arg;
	struct spool_place place = { rpc_base(x->c), rpc_rt(x->c)->output_max };

	spool_add(&x->out[channel - PROCESS_STDOUT], &place, data, len);
}

static void put_output_head(struct execute *x, struct buf *out)
{
	if (x->out[x->part].kept)
		pb_put_head(out, EXECUTE_STDOUT + x->part, x->out[x->part].kept);
}

/* Goes on sending what the client can take. */
static void push(struct execute *x)
{
	while (x->part < 2 && !rpc_full(x->c)) {
		char data[RT_PIECE];
		autobuf head = { 0 };
		ssize_t n = spool_read(&x->out[x->part], x->at, data, sizeof(data));

		if (n < 0) {
			rpc_cut(x->c);
			execute_free(x);
			return;
		}
		rpc_send_piece(x->c, data, (size_t)n);
		x->at += (uint64_t)n;
		if (x->at < x->out[x->part].kept)
			continue;
		x->at = 0;
		if (++x->part < 2)
			put_output_head(x, &head);
		rpc_send_piece(x->c, buf_head(&head), head.len);
	}
	if (x->part < 2)
		return;
	rpc_finish(x->c, RPC_OK, "%s", "");
	execute_free(x);
}

static void answer(struct execute *x, uint32_t exit_code)
{
	autobuf first = { 0 }, second = { 0 };
	uint64_t kept = x->out[0].kept + x->out[1].kept, len;

	pb_put_int(&first, EXECUTE_EXIT_CODE, exit_code);
	put_output_head(x, &first);
	x->part = 1;
	put_output_head(x, &second);
	x->part = 0;
	len = first.len + second.len + kept;
	if (len > ANSWER_MAX) {
		rpc_finish(x->c, RPC_RESOURCE_EXHAUSTED,
			   "the command wrote %llu bytes, more than a message can have; use Start",
			   (unsigned long long)kept);
		execute_free(x);
		return;
	}
	rpc_send_head(x->c, (uint32_t)len);
	rpc_send_piece(x->c, buf_head(&first), first.len);
	push(x);
}

static void on_over(void *arg, const struct process *p)
{
	static const char *const names[] = { "stdout", "stderr" };
	struct execute *x = arg;

	x->p = NULL;
	for (int i = 0; i < 2; i++)
		if (spool_cut(&x->out[i])) {
			rpc_finish(x->c, RPC_RESOURCE_EXHAUSTED,
				   "%s: only %llu of %llu bytes could be kept; use Start", names[i],
				   (unsigned long long)x->out[i].kept,
				   (unsigned long long)x->out[i].total);
			execute_free(x);
			return;
		}
	answer(x, status_code(p->status));
}

static void on_gone(void *arg)
{
	struct execute *x = arg;

	if (x->p) {
		x->p->sink = NULL;
		process_delete(x->p);
	}
	execute_free(x);
}

static void on_drained(void *arg)
{
	struct execute *x = arg;

	if (!x->p)
		push(x);
}

void rpc_execute(struct rpc *c, const void *request)
{
	static const struct process_sink sink = { on_full, on_data, on_over };
	static const struct rpc_events events = { on_gone, on_drained };
	const struct execute_request *q = request;
	struct execute *x = xnew(struct execute);
	struct process_wish wish = { .unlisted = true, .sink = &sink, .sink_arg = x };
	struct err *e;

	x->c = c;
	spool_init(&x->out[0]);
	spool_init(&x->out[1]);
	e = rpc_spawn(c, &q->config, &wish, &x->p);
	if (e) {
		execute_free(x);
		rpc_fail(c, e);
		return;
	}
	rpc_own(c, &events, x);
}
