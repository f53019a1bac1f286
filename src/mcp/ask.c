/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * What an agent's rules say about its tools. Those that go into a sandbox are asked about on their
 * way in, by client/access.h; the others here, before they start: their arguments, as one text of
 * JSON, are what a rule or a person sees of them.
 *
 * A call that waits for a person takes as long as a command may at most. The question outlives it.
 */
enum {
	WAIT_MS = 600 * 1000,
};

struct enquiry {
	struct rpc *rpc;
	struct access_question question;
	struct timer *timer;
	char *said;
	bool within, allowed; /* the call that asks */
	struct err *refusal;
};

static void enquiry_free(struct enquiry *q)
{
	timer_free(q->timer);
	err_free(q->refusal);
	free(q->said);
	free(q);
}

static void enquiry_stop(void *work)
{
	struct enquiry *q = work;
	const struct mcp_spec *spec = &q->rpc->mcp->spec;

	spec->agents->cancel(spec->arg, &q->question);
	enquiry_free(q);
}

/* The answer is there. */
static void settle(struct enquiry *q)
{
	struct rpc *r = q->rpc;
	struct err *e = take(q->refusal);

	r->stop = NULL;
	r->work = NULL;
	enquiry_free(q);
	if (e)
		tool_failed(r, e, NULL);
	else
		r->tool->start(r);
}

static void answered(struct enquiry *q)
{
	if (!q->within)
		settle(q);
}

static void on_allowed(struct access_question *question, const struct access_permit *p unused)
{
	struct enquiry *q = container_of(question, struct enquiry, question);

	q->allowed = true;
	answered(q);
}

static void on_refused(struct access_question *question, struct err *e)
{
	struct enquiry *q = container_of(question, struct enquiry, question);

	q->refusal = e;
	answered(q);
}

static void on_say(struct access_question *question, const char *text)
{
	struct enquiry *q = container_of(question, struct enquiry, question);

	free(q->said);
	q->said = question_text(text);
	rpc_progress(q->rpc, q->said);
}

static void on_late(void *arg)
{
	struct enquiry *q = arg;
	const struct mcp_spec *spec = &q->rpc->mcp->spec;

	spec->agents->cancel(spec->arg, &q->question);
	q->refusal = question_open(q->said);
	settle(q);
}

char *question_text(const char *said)
{
	struct span line = SPAN(said);

	if (str_starts(said, "cay: "))
		line = SPAN(said + strlen("cay: "));
	while (line.len && line.p[line.len - 1] == '\n')
		line.len--;
	return xstrndup(line.p, line.len);
}

struct err *question_open(const char *text)
{
	return err_new(ERR_UNAVAILABLE,
		       "nothing was done yet: it %s; once that is answered, the same call again "
		       "finds the answer",
		       str_or(text, "waits for an approval"));
}

/* The arguments, with those that the address of the session has in place of the call. */
static char *arguments(const struct rpc *r)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = r->args ? json_copy(d, r->args) : json_obj(d);

	json_set_str(d, o, "namespace", arg_ns(r));
	for (const struct arg *a = r->tool->args; a->name; a++)
		if (a->type == ARG_POOL)
			json_set_str(d, o, a->name, arg_text(r, a->name));
	return json_to_text(o);
}

/* Asks. The answer may be there when this returns. */
static void ask(struct enquiry *q)
{
	struct rpc *r = q->rpc;
	const struct mcp_spec *spec = &r->mcp->spec;
	autofree char *text = arguments(r);
	const char *const argv[] = { text, NULL };
	struct access_target to = r->post->caller->who;
	const struct access_ask ask = { .way = "tool",
					.to = &to,
					.deed = { .tool = r->tool->name, .argv = argv },
					.input_known = true,
					.input = "" };

	to.ns = arg_ns(r);
	spec->agents->ask(spec->arg, &ask, &q->question);
}

void tool_start(struct rpc *r)
{
	struct enquiry *q;

	if (!r->mcp->spec.agents || r->tool->enters) {
		r->tool->start(r);
		return;
	}
	q = xnew(struct enquiry);
	q->rpc = r;
	q->question = (struct access_question){ .allowed = on_allowed,
						.refused = on_refused,
						.say = on_say };
	q->within = true;
	ask(q);
	q->within = false;
	if (q->allowed || q->refusal) {
		settle(q);
		return;
	}
	q->timer = timer_new(r->mcp->loop, on_late, q);
	timer_set(q->timer, WAIT_MS);
	r->work = q;
	r->stop = enquiry_stop;
}
