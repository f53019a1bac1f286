/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "guest/execute/process.h"
#include "guest/runtime/reply.h"
#include "net/http_server.h"

/*
 * POST /v1/processes/ID/stdin: the body goes to the input of the process as it arrives, at the pace
 * at which the process reads. The answer says that the process (or its pipe) has all of it.
 */
struct writer {
	struct process_writer w;
	struct http_request *r;
	bool eof, ended; /* ended: the body is complete */
};

static void writer_free(void *owner)
{
	struct writer *w = owner;

	list_del(&w->w.on);
	free(w);
}

static void refuse(struct http_request *r)
{
	rest_error(r, 409, "CONFLICT", "the process has no open input");
}

/* Goes on, waits, or answers. */
static void writer_settle(struct process_writer *waits)
{
	struct writer *w = container_of(waits, struct writer, w);
	struct process *p = waits->p;

	if (!p || p->in < 0 || p->input_end) {
		/* What the process closed before the end of the body is lost, and that is said. */
		if (w->ended && p && p->input_end && !p->input.len)
			http_respond(w->r, 204, NULL, (struct http_body){ 0 });
		else
			refuse(w->r);
		return;
	}
	if (p->input.len >= PROCESS_INPUT_MAX || (w->ended && p->input.len)) {
		http_request_pause(w->r, true);
		return;
	}
	http_request_pause(w->r, false);
	if (!w->ended)
		return;
	if (w->eof) {
		w->eof = false;
		process_input_end(p);
	}
	http_respond(w->r, 204, NULL, (struct http_body){ 0 });
}

static void on_data(void *owner, unused struct http_request *r, const char *data, size_t len)
{
	struct writer *w = owner;

	if (w->w.p)
		process_input(w->w.p, data, len);
	writer_settle(&w->w);
}

static void on_end(void *owner, unused struct http_request *r)
{
	struct writer *w = owner;

	w->ended = true;
	writer_settle(&w->w);
}

void process_tell_writers(struct process *p)
{
	struct process_writer *w, *next;

	list_each_safe(w, next, &p->writers, on)
		w->settle(w);
}

void process_drop_writers(struct process *p)
{
	struct process_writer *w, *next;

	list_each_safe(w, next, &p->writers, on) {
		list_del(&w->on);
		w->p = NULL;
		w->settle(w);
	}
}

void process_write(struct process *p, struct http_request *r)
{
	static const struct http_body_events body = { on_data, on_end };
	autofree char *eof = http_query_get(http_request_query(r), "eof");
	struct writer *w;

	if (p->in < 0 || p->input_end) {
		refuse(r);
		return;
	}
	w = xnew(struct writer);
	w->w.p = p;
	w->w.settle = writer_settle;
	w->r = r;
	w->eof = str_eq(eof, "true") || str_eq(eof, "1");
	list_add_tail(&p->writers, &w->w.on);
	http_request_set_owner(r, w, writer_free);
	http_request_stream(r, &body);
}
