/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * A script of ours in the sandbox of a call, run by its /bin/sh over an exec: whatever the image
 * listens on, and with the rights of the container's own command. When the exec ends, the guest
 * kills what it started, so a call that is cancelled or late leaves nothing behind.
 *
 * Every script begins in the directory that the runtime API calls its base (guest/README.md), so
 * that commands and files of both are in the same place.
 */
#define IN_BASE                                                                                   \
	"d=${SANDBOX_BASE_DIR-}\n"                                                                \
	"if [ -z \"$d\" ]; then\n"                                                                \
	"[ \"$PWD\" != / ] || [ -d /app ] || [ -d /workspace ] || mkdir /workspace 2>/dev/null\n" \
	"for d in /app \"$PWD\" /workspace /tmp; do\n"                                            \
	"[ \"$d\" != / ] && [ -d \"$d\" ] && [ -w \"$d\" ] && break\n"                            \
	"done; fi\n"                                                                              \
	"cd -- \"$d\" || exit 126\n"

struct run {
	struct rpc *rpc;
	struct run_spec spec;
	struct access_session *session;
	struct timer *timer;
	struct deferred end;
	char *input;
	size_t sent;
	struct err *error; /* how it ends, if not by itself */
};

static void run_free(struct run *run)
{
	if (run->session)
		access_cancel(take(run->session));
	deferred_cancel(&run->end);
	timer_free(run->timer);
	err_free(run->error);
	free(run->input);
	free(run);
}

void run_stop(struct run *run)
{
	run_free(run);
}

static void finish(struct run *run, const struct err *e, int code)
{
	void (*ended)(void *arg, const struct err *e, int code) = run->spec.ended;
	void *owner = run->spec.owner;
	autoptr(err) copy = e ? err_copy(e) : NULL;

	run_free(run);
	ended(owner, copy, code);
}

static void on_end(void *arg)
{
	struct run *run = arg;

	finish(run, run->error, 0);
}

/* From inside a callback of the session, which may not be ended there. Takes e over. */
static void end_soon(struct run *run, struct err *e)
{
	if (run->error)
		err_free(e);
	else
		run->error = e;
	access_pause(run->session, true);
	deferred_call(&run->end);
}

static void on_output(void *arg, int fd, const char *data, size_t len)
{
	struct run *run = arg;

	if (run->error || !run->spec.output)
		return;
	if (!run->spec.output(run->spec.owner, fd, data, len))
		end_soon(run, err_new(ERR_CANCELED, "no more output is wanted"));
}

static void feed(struct run *run)
{
	while (run->sent < run->spec.input_len && !access_full(run->session)) {
		size_t len = MIN(run->spec.input_len - run->sent, (size_t)16384);

		access_write(run->session, run->input + run->sent, len);
		run->sent += len;
	}
	if (run->sent == run->spec.input_len)
		access_end_input(run->session);
}

static void on_drained(void *arg)
{
	feed(arg);
}

static void on_ended(void *arg, const struct err *e, int code, int signal)
{
	struct run *run = arg;

	run->session = NULL;
	finish(run, run->error ? run->error : e, signal ? -signal : code);
}

static void on_late(void *arg)
{
	struct run *run = arg;
	autoptr(err) e = err_new(ERR_TIMEOUT, "it was killed after %g seconds",
				 (double)run->spec.timeout_ms / 1000);

	finish(run, e, 0);
}

/* A path that begins with a dash is no flag. */
static char *plain_arg(const char *arg)
{
	return arg[0] == '-' ? xasprintf("./%s", arg) : xstrdup(arg);
}

static struct err *start(struct run *run, const char *ns, const char *pod)
{
	static const struct access_events events = { on_output, on_drained, on_ended };
	autofree char *script = xasprintf(IN_BASE "%s", run->spec.script);
	autofree char *arg = plain_arg(run->spec.arg);
	const char *const argv[] = { "/bin/sh", "-c", script, "sh", arg, NULL };
	struct access_exec_spec spec = { .to = run->rpc->post->caller->who,
					 .argv = argv,
					 .stdin_open = run->spec.input };

	spec.to.ns = ns;
	spec.to.pod = pod;
	return access_exec(run->rpc->mcp->spec.access, &spec, &events, run, &run->session);
}

struct err *run_start(struct rpc *r, const struct run_spec *spec, struct run **ret)
{
	autofree char *pod = NULL;
	struct err *e = claims_pod(r, &pod);
	struct run *run;

	if (e)
		return e;
	if (!r->mcp->spec.access)
		return err_new(ERR_UNAVAILABLE, "there is no node");
	run = xnew(struct run);
	run->rpc = r;
	run->spec = *spec;
	run->timer = timer_new(r->mcp->loop, on_late, run);
	deferred_init(&run->end, r->mcp->loop, on_end, run);
	if (spec->input)
		run->input = xmemdup(spec->input, spec->input_len);
	e = start(run, arg_ns(r), pod);
	if (e) {
		run_free(run);
		return e;
	}
	timer_set(run->timer, spec->timeout_ms);
	if (spec->input)
		feed(run);
	*ret = run;
	return NULL;
}
