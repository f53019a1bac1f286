/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/approval.h"
#include "api/cay/cay.h"
#include "base/mem.h"
#include "base/str.h"
#include "hooks/hooks_priv.h"
#include "json/json.h"

/*
 * The command of a delivery, over an exec as the trigger's agent: who guards the ways into
 * sandboxes decides about it as about any other. If a person has to be asked, the delivery says so;
 * the question is known by the session and by the digest of the event, which is the command's
 * input.
 */

/* What a terminal or a client can show: UTF-8 without NUL. In place. */
static void clean(struct buf *b)
{
	char *p = b->len ? buf_head(b) : NULL;
	size_t at = 0;

	while (at < b->len && ((unsigned char)p[at] & 0xc0) == 0x80 && at < 3)
		p[at++] = '?'; /* the rest of a character that was cut */
	at = 0;
	while (at < b->len) {
		at += utf8_prefix(p + at, b->len - at);
		if (at < b->len)
			p[at] = '?';
	}
	for (at = 0; at < b->len; at++)
		if (!p[at])
			p[at] = '?';
}

static void cut(struct buf *b, size_t max)
{
	if (b->len > max)
		buf_eat(b, b->len - max);
}

static void on_output(void *arg, int fd unused, const char *data, size_t len)
{
	struct delivery *d = arg;

	buf_add(&d->output, data, len);
	if (d->output.len > (size_t)4 * HOOKS_OUTPUT_MAX)
		cut(&d->output, HOOKS_OUTPUT_MAX);
}

static void feed(struct delivery *d)
{
	while (d->sent < d->len && !access_full(d->exec)) {
		size_t len = MIN(d->len - d->sent, (size_t)16384);

		access_write(d->exec, d->event + d->sent, len);
		d->sent += len;
	}
	if (d->sent == d->len)
		access_end_input(d->exec);
}

static void on_drained(void *arg)
{
	struct delivery *d = arg;

	if (d->exec && d->sent < d->len)
		feed(d);
}

static void fail(struct delivery *d, const struct err *e)
{
	cut(&d->output, HOOKS_OUTPUT_MAX);
	clean(&d->output);
	delivery_end(d, err_is(e, ERR_FORBIDDEN) ? "Refused" : "Failed", xstrdup(err_text(e)));
}

static void on_ended(void *arg, const struct err *e, int code, int signal)
{
	struct delivery *d = arg;

	d->exec = NULL;
	if (e) {
		fail(d, e);
		return;
	}
	cut(&d->output, HOOKS_OUTPUT_MAX);
	clean(&d->output);
	d->code = signal ? 128 + signal : code;
	delivery_end(d, "Ran",
		     signal ? xasprintf("the command was ended by signal %d", signal)
			    : xasprintf("the command ended with %d", code));
}

void delivery_run(struct delivery *d, const char *const *argv)
{
	static const struct access_events events = { on_output, on_drained, on_ended };
	static const char *const groups[] = { GROUP_OF_AGENTS, NULL };
	autofree char *user = xasprintf("%s%s:%s", AGENT_USER, d->ns, d->agent);
	const struct access_exec_spec spec = {
		.to = { .ns = d->ns,
			.pod = d->pod,
			.user = user,
			.from = d->from,
			.groups = groups },
		.argv = argv,
		.stdin_open = true,
	};
	autoptr(err) e = NULL;

	if (!d->hooks->spec.access)
		e = err_new(ERR_UNAVAILABLE, "there is no node");
	else if (!argv[0])
		e = err_new(ERR_INVALID, "the trigger has no command any more");
	else
		e = access_exec(d->hooks->spec.access, &spec, &events, d, &d->exec);
	if (e) {
		fail(d, e);
		return;
	}
	timer_set(d->timer, HOOKS_COMMAND_MS);
	feed(d);
	deferred_call(&d->hooks->look); /* it may have to be approved */
}

struct question {
	const struct delivery *d;
	struct object *best;
};

static bool consider(void *arg, struct object *o)
{
	const struct approval_view *v = approval_view(o);
	struct question *q = arg;

	if (v->deleting || !str_eq(v->session, q->d->session) || !str_eq(v->agent, q->d->agent) ||
	    !str_eq(json_get_str(object_spec(o), "inputDigest"), q->d->digest))
		return true;
	if (!q->best || v->created >= approval_view(q->best)->created) {
		object_unref(q->best);
		q->best = object_ref(o);
	}
	return true;
}

struct object *approval_of(struct hooks *h, const struct delivery *d)
{
	struct question q = { .d = d };

	client_each(h->spec.client, h->approval, d->ns, consider, &q);
	return q.best;
}

static void on_noted(struct client_write *w unused, struct err *e, struct object *obj unused)
{
	err_free(e); /* after a restart it is said to be interrupted then, which is safe */
}

static void wait_for(struct delivery *d, const char *approval)
{
	autofree char *text = xasprintf("waits for approval %s", approval);
	const struct shown s = { .id = d->id,
				 .session = d->session,
				 .outcome = "Waiting",
				 .message = text,
				 .approval = approval,
				 .at = d->at,
				 .code = -1 };

	d->state = DELIVERY_WAITING;
	free(d->approval);
	d->approval = xstrdup(approval);
	timer_clear(d->timer); /* the question has an end of its own */
	journal_show(d->hooks, d->ns, d->trigger, &s);
	d->write.done = on_noted;
	journal_state(d);
}

void delivery_ask(struct delivery *d)
{
	autoptr(object) o = approval_of(d->hooks, d);
	bool open = o && approval_decision_at(approval_view(o), clock_wall()) == APPROVAL_OPEN;

	if (open && d->state == DELIVERY_STARTED && !approval_view(o)->used) {
		wait_for(d, o->name);
	} else if (o && d->state == DELIVERY_WAITING && approval_view(o)->used) {
		d->state = DELIVERY_STARTED;
		timer_set(d->timer, HOOKS_COMMAND_MS);
	}
}

void delivery_kill(struct delivery *d)
{
	if (d->exec)
		access_cancel(take(d->exec));
}
