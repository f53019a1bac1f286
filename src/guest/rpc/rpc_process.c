/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "guest/execute/process.h"
#include "guest/rpc/rpc_priv.h"
#include "guest/rpc/rpc_process_priv.h"
#include "guest/runtime/path.h"
#include "guest/runtime/runtime.h"
#include "guest/spawn/spawn.h"

/*
 * process.v1: a process that is started by a call belongs to it. If the client leaves or its time
 * is up, the whole group is killed; if it does not keep up with the output, the process waits.
 */
static const struct rpc_method methods[] = {
	{ "Start", &start_request_message, &start_response_message, rpc_start,
	  .many_answers = true },
	{ "Execute", &execute_request_message, &execute_response_message, rpc_execute },
	{ "WriteStdin", &stdin_request_message, &stdin_response_message, rpc_write_stdin,
	  .keeps = true },
	{ "SendSignal", &signal_request_message, &signal_response_message, rpc_send_signal },
	{ "ResizeTTY", &resize_request_message, &resize_response_message, rpc_resize_tty },
	{ 0 },
};
const struct rpc_service process_service = { "process.v1", "ProcessService",
					     "process/v1/process.proto", methods };

/* The path below the base, as those of files are read. */
static struct err *cwd_clean(struct rpc *c, const char *cwd, char **ret)
{
	struct base b;
	struct err *e = base_open(rpc_base(c), &b);

	if (e)
		return e;
	e = path_clean(&b, cwd, ret);
	base_done(&b);
	return e;
}

/* {"env", "cwd"}, as the requests of the other APIs have them. */
static struct err *surroundings(struct rpc *c, const struct process_config *cfg, json_t *body)
{
	json_t *env = json_object();
	autofree char *cwd = NULL;
	struct err *e = NULL;

	for (size_t i = 0; i + 1 < cfg->env.n; i += 2)
		(void)json_object_set_new(env, cfg->env.list[i], json_string(cfg->env.list[i + 1]));
	(void)json_object_set_new(body, "env", env);
	if (!cfg->cwd || !*cfg->cwd)
		return NULL;
	e = cwd_clean(c, cfg->cwd, &cwd);
	if (!e)
		(void)json_object_set_new(body, "cwd", json_string(cwd));
	return e;
}

static struct err *spawn_in(struct rpc *c, json_t *body, struct process_wish *w,
			    struct process **ret)
{
	struct complaint bad;
	struct err *e;

	if (!setting_check(body, &bad))
		return err_new(ERR_INVALID, "config.env_vars: a name is not empty and has no '='");
	e = setting_open(rpc_base(c), rpc_rt(c)->env, body, &w->setting);
	if (!e)
		e = process_start(rpc_rt(c), w, ret);
	setting_done(&w->setting);
	return e;
}

struct err *rpc_spawn(struct rpc *c, const struct process_config *cfg, struct process_wish *w,
		      struct process **ret)
{
	const char **argv;
	json_t *body;
	struct err *e;

	if (!cfg->command.n)
		return err_new(ERR_INVALID, "command is required");
	argv = xnew_n(const char *, cfg->command.n + 1);
	body = json_object();
	w->base = rpc_base(c);
	w->shown = json_array();
	w->argv = argv;
	for (size_t i = 0; i < cfg->command.n; i++) {
		argv[i] = cfg->command.list[i];
		(void)json_array_append_new(w->shown, json_string(argv[i]));
	}
	e = surroundings(c, cfg, body);
	if (!e)
		e = spawn_in(c, body, w, ret);
	json_decref(body);
	json_decref(w->shown);
	free(argv);
	return e;
}

struct started {
	struct rpc *c;
	struct process *p;
};

static bool on_full(void *arg)
{
	return rpc_full(((struct started *)arg)->c);
}

static void on_data(void *arg, enum process_channel channel, const char *data, size_t len)
{
	struct started *s = arg;
	autobuf message = { 0 };

	pb_put_head(&message, channel + START_STDOUT - PROCESS_STDOUT, len);
	rpc_send_head(s->c, (uint32_t)(message.len + len));
	rpc_send_piece(s->c, buf_head(&message), message.len);
	rpc_send_piece(s->c, data, len);
}

/* An event with a message of one number in it. */
static void send_number(struct rpc *c, uint32_t event, int64_t number)
{
	autobuf inner = { 0 }, message = { 0 };

	pb_put_int(&inner, 1, number);
	pb_put_bytes(&message, event, buf_head(&inner), inner.len);
	rpc_send(c, &message);
}

static void on_over(void *arg, const struct process *p)
{
	struct started *s = arg;

	send_number(s->c, START_EXIT, status_code(p->status));
	rpc_finish(s->c, RPC_OK, "%s", "");
	free(s);
}

static void on_gone(void *arg)
{
	struct started *s = arg;

	s->p->sink = NULL;
	process_delete(s->p);
	free(s);
}

static void on_drained(void *arg)
{
	process_drained(((struct started *)arg)->p);
}

static bool size_fits(const struct process_pty *pty)
{
	return pty->cols <= UINT16_MAX && pty->rows <= UINT16_MAX;
}

void rpc_start(struct rpc *c, const void *request)
{
	static const struct process_sink sink = { on_full, on_data, on_over };
	static const struct rpc_events events = { on_gone, on_drained };
	const struct start_request *q = request;
	struct started *s = xnew(struct started);
	struct process_wish wish = {
		.input = true,
		.tty = q->has_pty != 0,
		.sink = &sink,
		.sink_arg = s,
		.cols = (uint16_t)q->pty.cols,
		.rows = (uint16_t)q->pty.rows,
	};
	struct err *e = size_fits(&q->pty)
				? NULL
				: err_new(ERR_INVALID, "pty: cols and rows are at most 65535");

	s->c = c;
	if (!e)
		e = rpc_spawn(c, &q->config, &wish, &s->p);
	if (e) {
		free(s);
		rpc_fail(c, e);
		return;
	}
	rpc_own(c, &events, s);
	send_number(c, START_INIT, (int64_t)s->p->id);
}
