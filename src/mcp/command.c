/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * execute_command. Of each output the beginning and the end are kept; what lies between is counted,
 * and said to be missing in the text itself and in `truncated`.
 */
enum {
	KEEP = 32 * 1024, /* at each end */
};

struct capture {
	struct buf head, tail; /* the tail is cut to KEEP when it is twice as long */
	uint64_t total;
};

struct command {
	struct rpc *rpc;
	struct run *run;
	struct capture out[2];
};

static void command_free(struct command *c)
{
	for (int i = 0; i < 2; i++) {
		buf_done(&c->out[i].head);
		buf_done(&c->out[i].tail);
	}
	free(c);
}

static void command_stop(void *work)
{
	struct command *c = work;

	run_stop(c->run);
	command_free(c);
}

static void capture_add(struct capture *c, const char *data, size_t len)
{
	size_t first = MIN(len, KEEP - c->head.len);

	c->total += len;
	buf_add(&c->head, data, first);
	buf_add(&c->tail, data + first, len - first);
	if (c->tail.len > 2 * KEEP)
		buf_eat(&c->tail, c->tail.len - KEEP);
}

static bool on_output(void *arg, int fd, const char *data, size_t len)
{
	struct command *c = arg;

	capture_add(&c->out[fd == STDERR_FILENO], data, len);
	return true;
}

/* True if something is missing. */
static bool capture_text(struct capture *c, struct buf *out)
{
	uint64_t missing;

	if (c->tail.len > KEEP)
		buf_eat(&c->tail, c->tail.len - KEEP);
	missing = c->total - c->head.len - c->tail.len;
	if (c->head.len) /* an empty one has no memory to begin at */
		buf_add(out, buf_head(&c->head), c->head.len);
	if (missing)
		buf_printf(out, "\n[%llu bytes are left out here]\n", (unsigned long long)missing);
	if (c->tail.len)
		buf_add(out, buf_head(&c->tail), c->tail.len);
	return missing;
}

static struct json *result_of(struct command *c, int code, bool late)
{
	static const char *const names[] = { "stdout", "stderr" };
	struct json_doc *d = c->rpc->post->out;
	struct json *o = json_obj(d);
	bool cut = false;

	json_set_int(d, o, "exit_code", code);
	for (int i = 0; i < 2; i++) {
		autobuf text = { 0 };

		cut |= capture_text(&c->out[i], &text);
		json_set(d, o, names[i], json_new_strn(d, buf_str(&text), text.len));
	}
	if (cut)
		json_set_bool(d, o, "truncated", true);
	if (late)
		json_set_bool(d, o, "timed_out", true);
	return o;
}

static void on_ended(void *arg, const struct err *e, int code)
{
	struct command *c = arg;
	struct rpc *r = c->rpc;
	bool late = err_is(e, ERR_TIMEOUT);
	struct json *out = result_of(c, e ? -1 : code, late);

	command_free(c);
	r->stop = NULL;
	if (e)
		tool_failed(r, err_copy(e), late ? out : NULL);
	else
		tool_done(r, out);
}

void command_start(struct rpc *r)
{
	struct command *c = xnew(struct command);
	struct run_spec spec = {
		.script = "exec /bin/sh -c \"$1\"",
		.arg = arg_text(r, "command"),
		.timeout_ms = (uint64_t)arg_int(r, "timeout"),
		.output = on_output,
		.ended = on_ended,
		.owner = c,
	};
	struct err *e;

	c->rpc = r;
	e = run_start(r, &spec, &c->run);
	if (e) {
		command_free(c);
		tool_failed(r, e, NULL);
		return;
	}
	r->work = c;
	r->stop = command_stop;
}
