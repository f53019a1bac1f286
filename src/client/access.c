/* SPDX-License-Identifier: Apache-2.0 */
#include "client/access.h"

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/series.h"
#include "base/str.h"

/*
 * Every way into a Pod goes through session_open() at its start and session_close() at its end: the
 * first decides and records the start, the second records the end. The session handed to the caller
 * wraps the implementation's, so that neither can be bypassed.
 */
struct access {
	const struct access_ops *ops;
	void *ctx;
	access_policy decide; /* NULL: everyone is let in */
	void *decide_arg;
	struct audit *audit;     /* NULL: there is no record */
	struct access_door door; /* is NULL: there is none */
	access_woken woken;      /* NULL: nobody wants to know */
	void *woken_arg;
	access_knocked knocked; /* the same */
	void *knocked_arg;
	struct series *entries, *took; /* what was opened, and how long it lasted */
};

struct access_session {
	struct access *access;
	const struct access_ops *ops;
	void *inner; /* the implementation's session */
	struct access_events ev;
	void *arg;
	const char *way; /* static */
	char *ns, *pod, *user;
	usec started;
};

static const uint32_t took_us[] = { 1000,    5000,    10000,    50000,    100000,   500000,
				    1000000, 5000000, 10000000, 60000000, 600000000 };
static const struct series_spec entries_spec = {
	"cay_entries_total",
	"Ways into Pods that were asked for: exec, attach, logs and ports.",
	SERIES_COUNTER,
	{ "way", "result" },
	.max = 8,
};
static const struct series_spec took_spec = {
	"cay_entry_seconds",
	"How long they lasted, from the start to the end.",
	SERIES_HISTOGRAM,
	{ "way" },
	took_us,
	ARRAY_LEN(took_us),
	1000000,
	.max = 4,
};

struct access *access_new(const struct access_ops *ops, void *ctx)
{
	struct access *a = xnew(struct access);

	a->ops = ops;
	a->ctx = ctx;
	a->entries = series_new(&entries_spec);
	a->took = series_new(&took_spec);
	return a;
}

void access_free(struct access *a)
{
	if (!a)
		return;
	series_free(a->entries);
	series_free(a->took);
	free(a);
}

void access_set_policy(struct access *a, access_policy decide, void *arg)
{
	a->decide = decide;
	a->decide_arg = arg;
}

void access_set_audit(struct access *a, struct audit *log)
{
	a->audit = log;
}

void access_set_door(struct access *a, const struct access_door *door)
{
	a->door = door ? *door : (struct access_door){ 0 };
}

bool access_is_door(struct access *a, const struct access_target *to)
{
	return a->door.is && a->door.is(a->door.ctx, to);
}

static void session_free(struct access_session *s)
{
	free(s->ns);
	free(s->pod);
	free(s->user);
	free(s);
}

/*
 * The one record of an end; result is "ended", "killed", "failed", "refused" or "canceled".
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

/* Of what somebody asked for: probes and hooks are nobody's. */
static void record(const struct access *a, const char *sub, const struct access_target *to,
		   const struct err *e)
{
	struct audit_record r = {
		.user = to->user,
		.from = to->from,
		.verb = "connect",
		.resource = "pods",
		.sub = sub,
		.ns = to->ns,
		.name = to->pod,
		.note = e ? err_text(e) : NULL,
	};

	if (!str_empty(to->user))
		audit_write(a->audit, &r);
}

/* The one decision, and the one record of a start. sub: by which subresource of a Pod. *ret is set
 * on success only. */
static struct err *session_open(struct access *a, const char *way, const char *sub,
				const struct access_target *to, struct access_session **ret)
{
	struct access_session *s = xnew(struct access_session);
	struct err *e = NULL;

	s->access = a;
	s->ops = a->ops;
	s->way = way;
	s->ns = xstrdup(to->ns ? to->ns : "");
	s->pod = xstrdup(to->pod ? to->pod : "");
	s->user = xstrdup(to->user ? to->user : "");
	s->started = clock_mono();
	if (a->decide)
		e = a->decide(a->decide_arg, way, to);
	record(a, sub, to, e);
	series_add(a->entries, (const char *const[]){ way, e ? "refused" : "allowed" }, 1);
	if (e) {
		session_close(s, "refused", e, 0);
		return e;
	}
	log_info("access", KV("event", "start"), KV("way", way), KV("namespace", s->ns),
		 KV("pod", s->pod), KV("user", s->user));
	*ret = s;
	return NULL;
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

static void session_tell(struct access_session *s, const struct access_events *ev, void *arg)
{
	s->ev = *ev;
	s->arg = arg;
}

/* Takes e over; s is the caller's when there is none. */
static struct err *session_begun(struct access_session *s, struct err *e,
				 struct access_session **ret)
{
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
	struct access_session *s = NULL;
	const char *way = spec->attach ? "attach" : "exec";
	struct err *e = session_open(a, way, way, &spec->to, &s);

	if (e)
		return e;
	session_tell(s, ev, arg);
	return session_begun(s, a->ops->exec(a->ctx, spec, &session_events, s, &s->inner), ret);
}

struct err *access_logs(struct access *a, const struct access_log_spec *spec,
			const struct access_events *ev, void *arg, struct access_session **ret)
{
	struct access_session *s = NULL;
	struct err *e = session_open(a, "logs", "log", &spec->to, &s);

	if (e)
		return e;
	session_tell(s, ev, arg);
	return session_begun(s, a->ops->logs(a->ctx, spec, &session_events, s, &s->inner), ret);
}

struct err *access_dial(struct access *a, const struct access_dial_spec *spec,
			const struct access_events *ev, void *arg, struct access_session **ret)
{
	bool door = access_is_door(a, &spec->to);
	void *ctx = door ? a->door.ctx : a->ctx;
	struct access_session *s = NULL;
	struct err *e =
		session_open(a, "dial", spec->sub ? spec->sub : "portforward", &spec->to, &s);

	if (e)
		return e;
	if (door)
		s->ops = a->door.ops;
	session_tell(s, ev, arg);
	return session_begun(s, s->ops->dial(ctx, spec, &session_events, s, &s->inner), ret);
}

void access_metrics(const struct access *a, struct buf *b)
{
	series_write(a->entries, b);
	series_write(a->took, b);
}

bool access_usage(struct access *a, const struct access_target *of, struct access_usage *ret)
{
	return a->ops->usage && a->ops->usage(a->ctx, of, ret);
}

bool access_activity(struct access *a, const struct access_target *of, struct access_activity *ret)
{
	return a->ops->activity && a->ops->activity(a->ctx, of, ret);
}

struct err *access_freeze(struct access *a, const struct access_target *of)
{
	if (!a->ops->freeze)
		return err_new(ERR_UNSUPPORTED, "this node cannot freeze Pods");
	return a->ops->freeze(a->ctx, of);
}

void access_thaw(struct access *a, const struct access_target *of)
{
	if (a->ops->thaw)
		a->ops->thaw(a->ctx, of);
}

void access_set_woken(struct access *a, access_woken fn, void *arg)
{
	a->woken = fn;
	a->woken_arg = arg;
}

void access_tell_woken(struct access *a, const struct access_wake *w)
{
	if (a->woken)
		a->woken(a->woken_arg, w);
}

void access_set_knocked(struct access *a, access_knocked fn, void *arg)
{
	a->knocked = fn;
	a->knocked_arg = arg;
}

void access_tell_knocked(struct access *a, const char *ns, const char *sandbox)
{
	if (a->knocked)
		a->knocked(a->knocked_arg, ns, sandbox);
}

void access_write(struct access_session *s, const void *p, size_t len)
{
	s->ops->write(s->inner, p, len);
}

bool access_full(struct access_session *s)
{
	return s->ops->full(s->inner);
}

void access_end_input(struct access_session *s)
{
	s->ops->end_input(s->inner);
}

void access_resize(struct access_session *s, uint16_t cols, uint16_t rows)
{
	s->ops->resize(s->inner, cols, rows);
}

void access_pause(struct access_session *s, bool paused)
{
	s->ops->pause(s->inner, paused);
}

void access_cancel(struct access_session *s)
{
	s->ops->cancel(s->inner);
	session_close(s, "canceled", NULL, 0);
}
