/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "audit/audit.h"
#include "base/log.h"
#include "base/series.h"
#include "base/str.h"
#include "client/access_priv.h"

/*
 * Every way into a Pod goes through session_open() at its start and session_close() at its end: the
 * first asks the policy, the second records the end. The session handed to the caller wraps the
 * implementation's, so that neither can be bypassed.
 *
 * A policy that answers at once is asked and obeyed within session_open(). If its answer takes
 * longer, the session waits (SESSION_WAITING) without one of the implementation; an answer that
 * comes then takes effect in a deferred call, because callers must not hear of an end from within
 * their own calls.
 */
enum {
	AHEAD_MAX = 64 * 1024,     /* of input, before somebody is let in */
	INPUT_WAIT_MS = 60 * 1000, /* for the end of an input that a policy wants to know */
	FOR_INPUT_MAX = 64,        /* that wait so at a time */
};

static void input_known(struct access_session *s)
{
	if (!s->input_deadline)
		return;
	timer_free(take(s->input_deadline));
	s->access->n_for_input--;
}

static void session_free(struct access_session *s)
{
	list_del(&s->on_access);
	input_known(s);
	audit_after_cancel(&s->recorded);
	if (s->held)
		deferred_cancel(&s->late);
	held_free(s->held);
	err_free(s->refusal);
	free((char *)s->permit.attachment);
	free((char *)s->permit.uid);
	free((char *)s->permit.digest);
	free((char *)s->permit.approval);
	free(s->ns);
	free(s->pod);
	free(s->user);
	free(s);
}

/*
 * The one record of an end; result is "ended", "killed", "failed", "refused", "revoked" or
 * "canceled".
 * Logged at info although this is not a role folder: every access must be found in the log,
 * whichever role it came through.
 */
static void session_close(struct access_session *s, const char *result, const struct err *e,
			  int code)
{
	usec took = clock_mono() - s->started;
	int64_t took_ms = took / 1000;

	if (e)
		log_info("access", KV("event", "end"), KV("way", s->way), KV("namespace", s->ns),
			 KV("pod", s->pod), KV("user", s->user), KV("result", result),
			 KV("took_ms", took_ms), KV("err", e));
	else
		log_info("access", KV("event", "end"), KV("way", s->way), KV("namespace", s->ns),
			 KV("pod", s->pod), KV("user", s->user), KV("result", result),
			 KV("took_ms", took_ms), KV("code", code));
	if (!str_eq(result, "refused"))
		series_observe(s->access->took, &s->way, (uint64_t)took);
	session_free(s);
}

enum {
	NOTES_MAX = 5,
};

static void put_note(struct audit_note *list, const char *key, const char *text)
{
	while (list->key)
		list++;
	if (!str_empty(text))
		*list = (struct audit_note){ key, text };
}

/* What was granted, and for what. */
static void put_notes(const struct access_session *s, const struct errand *to,
		      struct audit_note ret[NOTES_MAX + 1])
{
	put_note(ret, "attachment", s->permit.attachment);
	put_note(ret, "digest", s->permit.digest);
	put_note(ret, "approval", s->permit.approval);
	put_note(ret, "tool", to->exec ? to->exec->as.tool : NULL);
	put_note(ret, "path", to->exec ? to->exec->as.path : NULL);
}

/* Of what somebody asked for: probes and hooks are nobody's. */
static void record(const struct access_session *s, const struct errand *to, const struct err *e)
{
	const struct access_target *target = errand_to(to);
	struct audit_note notes[NOTES_MAX + 1] = { 0 };
	struct audit_record r = {
		.user = target->user,
		.from = target->from,
		.verb = "connect",
		.resource = "pods",
		.sub = to->sub,
		.ns = target->ns,
		.name = target->pod,
		.note = e ? err_text(e) : NULL,
		.notes = notes,
	};

	put_notes(s, to, notes);
	if (!str_empty(target->user))
		audit_write(s->access->audit, &r);
	series_add(s->access->entries, (const char *const[]){ s->way, e ? "refused" : "allowed" },
		   1);
	if (!e)
		log_info("access", KV("event", "start"), KV("way", s->way), KV("namespace", s->ns),
			 KV("pod", s->pod), KV("user", s->user));
}

static void on_output(void *arg, int fd, const char *data, size_t len)
{
	struct access_session *s = arg;

	s->ev.output(s->arg, fd, data, len);
}

static void on_drained(void *arg)
{
	struct access_session *s = arg;

	if (s->ev.drained)
		s->ev.drained(s->arg);
}

static void on_ended(void *arg, const struct err *e, int code, int signal)
{
	struct access_session *s = arg;

	s->ev.ended(s->arg, e, code, signal);
	session_close(s, e ? "failed" : signal ? "killed" : "ended", e, signal ? signal : code);
}

static const struct access_events session_events = {
	.output = on_output,
	.drained = on_drained,
	.ended = on_ended,
};

static struct access_session *session_new(struct access *a, const struct errand *to,
					  const struct access_events *ev, void *arg)
{
	const struct access_target *target = errand_to(to);
	struct access_session *s = xnew(struct access_session);

	s->access = a;
	s->ops = a->ops;
	s->ev = *ev;
	s->arg = arg;
	s->way = to->way;
	s->ns = xstrdup(str_or(target->ns, ""));
	s->pod = xstrdup(str_or(target->pod, ""));
	s->user = xstrdup(str_or(target->user, ""));
	s->started = clock_mono();
	list_add_tail(&a->sessions, &s->on_access);
	return s;
}

/* Hands the errand to the implementation. */
static struct err *session_begin(struct access_session *s, const struct errand *to)
{
	struct access *a = s->access;
	struct access_exec_spec exec;

	s->state = SESSION_OPEN;
	if (to->logs)
		return a->ops->logs(a->ctx, to->logs, &session_events, s, &s->inner);
	if (to->exec) {
		exec = *to->exec;
		exec.permit = s->permit;
		return a->ops->exec(a->ctx, &exec, &session_events, s, &s->inner);
	}
	if (!access_is_door(a, &to->dial->to))
		return a->ops->dial(a->ctx, to->dial, &session_events, s, &s->inner);
	s->ops = a->door.ops;
	return s->ops->dial(a->door.ctx, to->dial, &session_events, s, &s->inner);
}

/* What the client sent while it waited. */
static void session_catch_up(struct access_session *s)
{
	struct held *h = s->held;

	if (h->cols)
		s->ops->resize(s->inner, h->cols, h->rows);
	if (h->paused)
		s->ops->pause(s->inner, true);
	if (h->input.len)
		s->ops->write(s->inner, buf_head(&h->input), h->input.len);
	if (h->ended)
		s->ops->end_input(s->inner);
	buf_done(&h->input);
	if (s->was_full && !s->ops->full(s->inner))
		on_drained(s);
}

static void session_fail(struct access_session *s, struct err *e, const char *result)
{
	s->ev.ended(s->arg, e, 0, 0);
	session_close(s, result, e, 0);
	err_free(e);
}

/* What the policy says goes where the command would complain. */
static void session_say(struct access_session *s)
{
	struct buf *said = &s->held->said;

	if (said->len && s->ev.said)
		s->ev.said(s->arg, buf_str(said));
	else if (said->len)
		s->ev.output(s->arg, 2, buf_head(said), said->len);
	buf_done(said);
}

static struct access_deed deed_of(const struct access_exec_spec *exec)
{
	if (!exec || exec->attach)
		return (struct access_deed){ 0 };
	return exec->as.tool ? exec->as : (struct access_deed){ .argv = exec->argv };
}

static struct access_ask ask_of(const struct access_session *s)
{
	const struct errand *to = &s->held->errand;
	const struct access_exec_spec *exec = to->exec;

	return (struct access_ask){
		.way = to->way,
		.to = errand_to(to),
		.deed = deed_of(exec),
		.tty = exec && exec->tty,
		.port = to->dial ? to->dial->port : 0,
		.input_known = !exec || !exec->stdin_open || s->held->ended,
		.input = s->held->input.len ? buf_head(&s->held->input) : "",
		.input_len = s->held->input.len,
	};
}

static bool session_stands(const struct access_session *s)
{
	const struct access *a = s->access;
	struct access_ask ask;

	if (!s->held || !a->policy.stands)
		return true;
	ask = ask_of(s);
	return a->policy.stands(a->policy_arg, &ask, &s->permit);
}

static struct err *no_longer(void)
{
	return err_new(ERR_FORBIDDEN, "what allowed this is no longer there");
}

/* What was allowed may have gone since. */
static void session_begin_late(struct access_session *s)
{
	struct err *e;

	if (!session_stands(s)) {
		session_fail(s, no_longer(), "revoked");
		return;
	}
	e = session_begin(s, &s->held->errand);
	if (e) {
		session_fail(s, e, "failed");
		return;
	}
	if (s->ev.began)
		s->ev.began(s->arg);
	session_catch_up(s);
}

static void on_recorded(struct audit_wait *w, struct err *e)
{
	struct access_session *s = container_of(w, struct access_session, recorded);

	if (e)
		session_fail(s, e, "failed");
	else
		session_begin_late(s);
}

/* What was granted to somebody by name begins when it is in the log, not before: a process that is
 * killed in between leaves a record without a deed, never a deed without a record. */
static bool session_waits_for_record(struct access_session *s)
{
	if (!s->permit.attachment || !s->access->audit)
		return false;
	s->state = SESSION_RECORDING;
	s->recorded.done = on_recorded;
	audit_after(s->access->audit, &s->recorded);
	return true;
}

static void on_late(void *arg)
{
	struct access_session *s = arg;

	session_say(s);
	if (s->state == SESSION_REFUSED) {
		record(s, &s->held->errand, s->refusal);
		session_fail(s, take(s->refusal), "refused");
	} else if (s->state == SESSION_ALLOWED) {
		record(s, &s->held->errand, NULL);
		if (!session_waits_for_record(s))
			session_begin_late(s);
	}
}

static void session_answered(struct access_session *s, enum session_state answer)
{
	bool late = s->state == SESSION_WAITING;

	assert(late || s->state == SESSION_ASKING);
	s->state = answer;
	if (late)
		deferred_call(&s->late);
}

static void on_allowed(struct access_question *q, const struct access_permit *p)
{
	struct access_session *s = container_of(q, struct access_session, question);

	if (p)
		s->permit = (struct access_permit){
			.attachment = p->attachment ? xstrdup(p->attachment) : NULL,
			.uid = p->uid ? xstrdup(p->uid) : NULL,
			.view = p->view,
			.digest = p->digest ? xstrdup(p->digest) : NULL,
			.approval = p->approval ? xstrdup(p->approval) : NULL,
		};
	session_answered(s, SESSION_ALLOWED);
}

static void on_refused(struct access_question *q, struct err *e)
{
	struct access_session *s = container_of(q, struct access_session, question);

	s->refusal = e;
	session_answered(s, SESSION_REFUSED);
}

static void on_input_late(void *arg)
{
	struct access_session *s = arg;

	if (s->held->for_input && s->state == SESSION_WAITING)
		on_refused(&s->question,
			   err_new(ERR_FORBIDDEN, "input of what must be approved ends within %d s",
				   INPUT_WAIT_MS / 1000));
}

/* It costs memory while it waits, so there are not many, and not for long. */
static void on_after_input(struct access_question *q)
{
	struct access_session *s = container_of(q, struct access_session, question);

	if (s->access->n_for_input >= FOR_INPUT_MAX) {
		on_refused(q, err_new(ERR_EXHAUSTED, "too many operations wait for their input"));
		return;
	}
	s->held->for_input = true;
	s->access->n_for_input++;
	s->input_deadline = timer_new(s->access->policy.loop, on_input_late, s);
	timer_set(s->input_deadline, INPUT_WAIT_MS);
}

static void on_say(struct access_question *q, const char *text)
{
	struct access_session *s = container_of(q, struct access_session, question);

	if (!s->held->errand.exec)
		return; /* what comes out of a log or a port is not for us to add to */
	buf_add_str(&s->held->said, text);
	deferred_call(&s->late);
}

static void session_ask(struct access_session *s)
{
	const struct access_ask ask = ask_of(s);

	s->held->for_input = false;
	input_known(s);
	s->access->policy.ask(s->access->policy_arg, &ask, &s->question);
}

/* Asks for the first time: the answer may be there when this returns. */
static void session_ask_first(struct access_session *s, const struct errand *to)
{
	s->held = held_new(to);
	s->question = (struct access_question){ .allowed = on_allowed,
						.refused = on_refused,
						.after_input = on_after_input,
						.say = on_say };
	deferred_init(&s->late, s->access->policy.loop, on_late, s);
	s->state = SESSION_ASKING;
	session_ask(s);
	if (s->state == SESSION_ASKING)
		s->state = SESSION_WAITING;
}

/* The one decision about whoever goes in. */
static struct err *session_open(struct access *a, const struct errand *to,
				const struct access_events *ev, void *arg,
				struct access_session **ret)
{
	struct access_session *s = session_new(a, to, ev, arg);
	struct err *e;

	if (a->policy.ask && !(to->exec && to->exec->probe)) {
		session_ask_first(s, to);
		if (s->state == SESSION_WAITING) {
			*ret = s;
			return NULL;
		}
	}
	if (s->state == SESSION_REFUSED) {
		e = take(s->refusal);
		record(s, to, e);
		session_close(s, "refused", e, 0);
		return e;
	}
	record(s, to, NULL);
	e = session_waits_for_record(s) ? NULL : session_begin(s, to);
	if (e) {
		session_close(s, "failed", e, 0);
		return e;
	}
	*ret = s;
	return NULL;
}

struct err *access_exec(struct access *a, const struct access_exec_spec *spec,
			const struct access_events *ev, void *arg, struct access_session **ret)
{
	const char *way = spec->attach ? "attach" : "exec";
	const struct errand to = { .way = way, .sub = way, .exec = spec };

	return session_open(a, &to, ev, arg, ret);
}

struct err *access_logs(struct access *a, const struct access_log_spec *spec,
			const struct access_events *ev, void *arg, struct access_session **ret)
{
	const struct errand to = { .way = "logs", .sub = "log", .logs = spec };

	return session_open(a, &to, ev, arg, ret);
}

struct err *access_dial(struct access *a, const struct access_dial_spec *spec,
			const struct access_events *ev, void *arg, struct access_session **ret)
{
	const struct errand to = { .way = "dial",
				   .sub = str_or(spec->sub, "portforward"),
				   .dial = spec };

	return session_open(a, &to, ev, arg, ret);
}

/* Each is taken from the list of those that are left: the end of one may end others. */
void access_review(struct access *a)
{
	struct access_session *s;
	LIST_HEAD(left);

	list_take_all(&a->sessions, &left);
	while (!list_empty(&left)) {
		s = list_first(&left, struct access_session, on_access);
		list_del(&s->on_access);
		list_add_tail(&a->sessions, &s->on_access);
		if (s->state != SESSION_OPEN || session_stands(s))
			continue;
		s->ops->cancel(s->inner);
		session_fail(s, no_longer(), "revoked");
	}
}

static bool waits(const struct access_session *s)
{
	return !s->inner;
}

static void held_write(struct access_session *s, const void *p, size_t len)
{
	struct held *h = s->held;

	if (h->for_input && h->input.len + len > ACCESS_INPUT_MAX && s->state == SESSION_WAITING)
		on_refused(&s->question, err_new(ERR_TOO_LARGE,
						 "input of what must be approved is at most %d "
						 "bytes",
						 ACCESS_INPUT_MAX));
	else if (!h->ended && s->state != SESSION_REFUSED)
		buf_add(&h->input, p, len);
}

void access_write(struct access_session *s, const void *p, size_t len)
{
	if (waits(s))
		held_write(s, p, len);
	else
		s->ops->write(s->inner, p, len);
}

bool access_full(struct access_session *s)
{
	if (!waits(s))
		return s->ops->full(s->inner);
	if (s->held->for_input) /* its end, or one byte too many, must be able to arrive */
		return false;
	s->was_full |= s->held->input.len >= AHEAD_MAX;
	return s->held->input.len >= AHEAD_MAX;
}

void access_end_input(struct access_session *s)
{
	if (!waits(s)) {
		s->ops->end_input(s->inner);
		return;
	}
	s->held->ended = true;
	if (s->held->for_input && s->state == SESSION_WAITING)
		session_ask(s);
}

void access_resize(struct access_session *s, uint16_t cols, uint16_t rows)
{
	if (!waits(s)) {
		s->ops->resize(s->inner, cols, rows);
		return;
	}
	s->held->cols = cols;
	s->held->rows = rows;
}

void access_pause(struct access_session *s, bool paused)
{
	if (waits(s))
		s->held->paused = paused;
	else
		s->ops->pause(s->inner, paused);
}

void access_cancel(struct access_session *s)
{
	if (!waits(s))
		s->ops->cancel(s->inner);
	else if (s->state == SESSION_WAITING)
		s->access->policy.cancel(s->access->policy_arg, &s->question);
	session_close(s, "canceled", NULL, 0);
}
