/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/execute/process.h"
#include "guest/runtime/sse.h"
#include "guest/spawn/spawn.h"
#include "net/http_server.h"

/*
 * GET /v1/processes/ID/output. Each reader has a place in the ring and goes on from there at its
 * own pace; if the ring has lost bytes that it has not had, it is told which.
 */
struct reader {
	struct process_reader rd;
	struct sse *sse;
	uint64_t at;
	unsigned channel;
	struct sse_text text;
};

static const char *channel_name(unsigned channel)
{
	return channel == PROCESS_STDERR ? "stderr" : "stdout";
}

void process_reader_add(struct process *p, struct process_reader *rd)
{
	rd->p = p;
	list_add_tail(&p->readers, &rd->on);
	process_attended(p);
}

void process_reader_del(struct process_reader *rd)
{
	list_del(&rd->on);
	process_attended(rd->p);
}

static void reader_free(struct reader *rd)
{
	process_reader_del(&rd->rd);
	free(rd);
}

static void reader_flush(struct reader *rd)
{
	sse_text_end(rd->sse, &rd->text, channel_name(rd->channel), (int64_t)rd->at);
}

static void reader_skip(struct reader *rd)
{
	uint64_t to = rd->rd.p->ring.begin;
	autofree char *json = xasprintf("{\"from\":%llu,\"to\":%llu}", (unsigned long long)rd->at,
					(unsigned long long)to);

	reader_flush(rd);
	rd->at = to;
	sse_event(rd->sse, "dropped", (int64_t)to, json);
}

static void reader_end(struct reader *rd)
{
	const struct process *p = rd->rd.p;
	autofree char *json = xasprintf("{\"exit_code\":%u,\"signal\":%u,\"timed_out\":%s}",
					status_code(p->status), status_signal(p->status),
					p->timed_out ? "true" : "false");

	reader_flush(rd);
	sse_event(rd->sse, "exit", (int64_t)rd->at, json);
	sse_end(take(rd->sse));
	reader_free(rd);
}

/* Sends what the reader can take; frees it after the end. */
static void reader_push(struct process_reader *reads)
{
	struct reader *rd = container_of(reads, struct reader, rd);
	struct ring *ring = &reads->p->ring;

	while (!sse_full(rd->sse)) {
		struct span piece;
		unsigned channel;

		if (rd->at < ring->begin)
			reader_skip(rd);
		if (rd->at == ring->end)
			break;
		piece = ring_at(ring, rd->at, &channel);
		if (channel != rd->channel)
			reader_flush(rd);
		rd->channel = channel;
		rd->at += piece.len;
		sse_text(rd->sse, &rd->text, channel_name(channel), (int64_t)rd->at, piece);
	}
	if (reads->p->over && rd->at == ring->end && !sse_full(rd->sse))
		reader_end(rd);
}

static void reader_drop(struct process_reader *reads)
{
	struct reader *rd = container_of(reads, struct reader, rd);

	sse_free(rd->sse);
	free(rd);
}

static void on_drained(void *arg)
{
	reader_push(&((struct reader *)arg)->rd);
}

static void on_gone(void *arg)
{
	struct reader *rd = arg;

	sse_free(take(rd->sse));
	reader_free(rd);
}

void process_tell_readers(struct process *p)
{
	struct process_reader *rd, *next;

	list_each_safe(rd, next, &p->readers, on)
		rd->push(rd);
}

void process_drop_readers(struct process *p)
{
	struct process_reader *rd, *next;

	list_each_safe(rd, next, &p->readers, on) {
		list_del(&rd->on);
		rd->drop(rd);
	}
}

void process_read(struct process *p, struct http_request *r, uint64_t from)
{
	static const struct sse_events events = { on_drained, on_gone };
	struct reader *rd = xnew(struct reader);

	rd->rd.push = reader_push;
	rd->rd.drop = reader_drop;
	rd->at = MIN(from, p->ring.end);
	rd->channel = PROCESS_STDOUT;
	rd->sse = sse_new(r, &events, rd);
	process_reader_add(p, &rd->rd);
	reader_push(&rd->rd);
}
