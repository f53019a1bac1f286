/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "guest/execute/process.h"
#include "guest/rpc/rpc_priv.h"
#include "guest/rpc/rpc_process_priv.h"
#include "guest/runtime/runtime.h"
#include "guest/spawn/spawn.h"

/*
 * WriteStdin, SendSignal and ResizeTTY. An input is answered when the process or its pipe has all
 * of it, and waits for those that came before: no more than one is in the process's own buffer.
 */
struct feed {
	struct process_writer w;
	struct rpc *c;
	struct span data;
	bool eof, given;
};

static struct process *find(struct rpc *c, int32_t id)
{
	struct process *p = id > 0 ? process_find(rpc_rt(c), (uint64_t)id) : NULL;

	if (!p)
		rpc_finish(c, RPC_NOT_FOUND, "no process %d", id);
	return p;
}

/* Every method here answers with an empty message. */
static void succeed(struct rpc *c)
{
	rpc_send(c, &(struct buf){ 0 });
	rpc_finish(c, RPC_OK, "%s", "");
}

static void feed_free(struct feed *f)
{
	list_del(&f->w.on);
	free(f);
}

static void feed_gone(void *arg)
{
	feed_free(arg);
}

static bool closed(const struct process *p)
{
	return !p || p->in < 0 || p->input_end;
}

static void feed_settle(struct process_writer *w)
{
	struct feed *f = container_of(w, struct feed, w);
	struct process *p = w->p;

	if (!closed(p) && !p->input.len && !f->given) {
		f->given = true;
		if (f->eof)
			process_input_end(p);
		else
			process_input(p, f->data.p, f->data.len);
	}
	if (!closed(p) && p->input.len)
		return;
	if (closed(p) && !f->eof)
		rpc_finish(f->c, RPC_FAILED_PRECONDITION, "the process has no open input");
	else
		succeed(f->c);
	feed_free(f);
}

void rpc_write_stdin(struct rpc *c, const void *request)
{
	static const struct rpc_events events = { feed_gone, NULL };
	const struct stdin_request *q = request;
	struct process *p = find(c, q->id);
	struct feed *f;

	if (!p)
		return;
	if (!q->which) {
		rpc_finish(c, RPC_INVALID_ARGUMENT, "payload: give input or eof");
		return;
	}
	f = xnew(struct feed);
	*f = (struct feed){ .w = { .p = p, .settle = feed_settle },
			    .c = c,
			    .data = q->input,
			    .eof = q->which == STDIN_EOF };
	list_add_tail(&p->writers, &f->w.on);
	rpc_own(c, &events, f);
	feed_settle(&f->w);
}

void rpc_send_signal(struct rpc *c, const void *request)
{
	const struct signal_request *q = request;
	struct process *p;

	if (q->signal != SIGINT && q->signal != SIGKILL && q->signal != SIGTERM) {
		rpc_finish(c, RPC_INVALID_ARGUMENT,
			   "signal: %d is none of SIGINT (2), SIGKILL (9) and SIGTERM (15)",
			   q->signal);
		return;
	}
	p = find(c, q->id);
	if (!p)
		return;
	process_signal(p, q->signal);
	succeed(c);
}

void rpc_resize_tty(struct rpc *c, const void *request)
{
	const struct resize_request *q = request;
	struct process *p = find(c, q->id);

	if (!p)
		return;
	if (p->tty < 0) {
		rpc_finish(c, RPC_FAILED_PRECONDITION, "the process has no terminal");
		return;
	}
	if (!q->cols || !q->rows || q->cols > UINT16_MAX || q->rows > UINT16_MAX) {
		rpc_finish(c, RPC_INVALID_ARGUMENT, "cols and rows are 1 to 65535");
		return;
	}
	tty_resize(p->tty, (uint16_t)q->cols, (uint16_t)q->rows);
	succeed(c);
}
