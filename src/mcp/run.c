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
	char *asked; /* what is said about a question that nobody has answered; NULL: none is open
		      */
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
	free(run->asked);
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

/* It has not begun: the client is told whom it waits for. */
static void on_said(void *arg, const char *text)
{
	struct run *run = arg;

	free(run->asked);
	run->asked = question_text(text);
	rpc_progress(run->rpc, run->asked);
}

/* Its time begins with it, and not with a question. */
static void on_began(void *arg)
{
	struct run *run = arg;

	free(take(run->asked));
	timer_set(run->timer, run->spec.timeout_ms);
}

static void on_late(void *arg)
{
	struct run *run = arg;
	autoptr(err) e = run->asked ? question_open(run->asked)
				    : err_new(ERR_TIMEOUT, "it was killed after %g seconds",
					      (double)run->spec.timeout_ms / 1000);

	finish(run, e, 0);
}

/* A path that begins with a dash is no flag. */
static char *plain_arg(const char *arg)
{
	return arg[0] == '-' ? xasprintf("./%s", arg) : xstrdup(arg);
}

/* Where a path decides, it is the one that was decided about, or nothing happens. */
static struct err *fix_path(const struct rpc *r, struct access_deed *deed, char **ret)
{
	const struct mcp_spec *spec = &r->mcp->spec;
	autofree char *normal = path_normal(deed->path);
	struct access_deed as = *deed;

	as.path = normal ? normal : deed->path;
	if (!spec->agents ||
	    !spec->agents->minds_path(spec->arg, &r->post->caller->who, arg_ns(r), &as))
		return NULL;
	if (!normal)
		return err_new(ERR_INVALID,
			       "path: \"%s\": must be absolute, because approval rules of this "
			       "agent decide by it",
			       deed->path);
	deed->loose = false;
	deed->path = *ret = take(normal);
	return NULL;
}

static struct err *start(struct run *run, const char *ns, const char *pod)
{
	static const struct access_events events = { .output = on_output,
						     .drained = on_drained,
						     .ended = on_ended,
						     .said = on_said,
						     .began = on_began };
	const struct tool *tool = run->rpc->tool;
	const char *const command[] = { "/bin/sh", "-c", run->spec.arg, NULL };
	autofree char *arg = plain_arg(run->spec.arg), *real = NULL, *script = NULL;
	const char *argv[] = { "/bin/sh", "-c", NULL, "sh", arg, NULL };
	struct access_exec_spec spec = { .to = run->rpc->post->caller->who,
					 .argv = argv,
					 .stdin_open = run->spec.input,
					 .as = { .tool = tool->name,
						 .argv = tool->path ? NULL : command,
						 .path = tool->path ? run->spec.arg : NULL,
						 .loose = tool->path } };
	struct err *e = tool->path ? fix_path(run->rpc, &spec.as, &real) : NULL;

	if (e)
		return e;
	script = xasprintf(IN_BASE "%s%s", real ? path_check : "", run->spec.script);
	argv[2] = script;
	argv[4] = real ? real : arg;
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
