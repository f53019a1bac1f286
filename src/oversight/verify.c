/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "audit/reader.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "oversight/oversight_priv.h"

/*
 * The check of the audit log's chain. One runs at a time, and everybody who asks gets its verdict.
 * The files are opened while nothing is written, so that what is checked belongs together; then
 * they are read in pieces, each a job.
 */
enum {
	PIECE = 8 * 1024 * 1024,
	PATIENCE_MS = 5000,
	WAITING_MAX = 64,
};
static const usec verdict_lasts = INT64_C(10) * 1000 * 1000;

struct waiter {
	struct visitor v;
	struct timer *patience;
};

static void waiter_free(struct waiter *w)
{
	w->v.o->n_waiting--;
	timer_free(w->patience);
	visitor_done(&w->v);
	free(w);
}

static void on_ended(void *owner)
{
	struct waiter *w = owner;

	w->v.req = NULL;
	waiter_free(w);
}

static void answer(struct http_request *req, int status, const char *text)
{
	struct http_headers h = { 0 };

	http_headers_add(&h, "Cache-Control", "no-store");
	http_respond(req, status, &h, (struct http_body){ "application/json", text, strlen(text) });
	http_headers_done(&h);
}

/* Nobody waits any more: req is answered by the caller. */
static struct http_request *waiter_leave(struct waiter *w)
{
	struct http_request *req = take(w->v.req);

	http_request_set_owner(req, NULL, NULL);
	waiter_free(w);
	return req;
}

static void on_impatient(void *arg)
{
	struct waiter *w = arg;
	const struct oversight *o = w->v.o;
	char since[CLOCK_TEXT_MAX];
	autofree char *text = NULL;

	clock_format_micro(o->verify_since, since);
	text = xasprintf("{\"running\":true,\"checkedBytes\":%llu,\"totalBytes\":%llu,"
			 "\"startedAt\":\"%s\"}\n",
			 (unsigned long long)o->verify_bytes, (unsigned long long)o->verify_of,
			 since);
	answer(waiter_leave(w), 202, text);
}

/* Names of files without the directory, which is nobody's business. */
static void add_findings(struct json_doc *d, struct json *to, const struct json *findings)
{
	struct json *list = json_set(d, to, "findings", json_copy(d, findings));

	json_each(it, list) {
		const char *file = str_or(json_get_str(it.val, "file"), "");
		const char *slash = strrchr(file, '/');
		autofree char *name = xstrdup(slash ? slash + 1 : file);

		json_set_str(d, it.val, "file", name);
	}
}

static char *verdict_text(const struct oversight *o)
{
	const struct audit_verdict v = audit_verify_verdict(o->verify);
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d);
	char now[CLOCK_TEXT_MAX];
	autobuf b = { 0 };

	json_set_root(d, root);
	json_set_bool(d, root, "ok", !v.faults);
	json_set_int(d, root, "records", (int64_t)v.lines);
	json_set_int(d, root, "segments", (int64_t)v.files);
	if (*v.from)
		json_set_str(d, root, "from", v.from);
	if (*v.to)
		json_set_str(d, root, "to", v.to);
	json_set_int(d, root, "checkpoints", (int64_t)v.checkpoints);
	json_set_int(d, root, "signedUpTo", (int64_t)v.signed_up_to);
	json_set_int(d, root, "faults", (int64_t)v.faults);
	add_findings(d, root, v.findings);
	clock_format_micro(clock_wall(), now);
	json_set_str(d, root, "checkedAt", now);
	(void)json_set(
		d, root, "tookSeconds",
		json_new_real(d, round((double)(clock_mono() - o->verify_began) / 1000) / 1000));
	json_write(root, &b);
	buf_add_char(&b, '\n');
	(void)buf_str(&b);
	return buf_steal(&b, NULL);
}

static void end(struct oversight *o, struct err *e)
{
	if (!e) {
		free(o->verdict);
		o->verdict = verdict_text(o);
		o->verify_ended = clock_mono();
	}
	audit_verify_free(take(o->verify));
	o->verifying = false;
	while (!list_empty(&o->waiting)) {
		struct waiter *w = list_first(&o->waiting, struct waiter, v.on);
		struct http_request *req = waiter_leave(w);

		if (e)
			o->spec.refuse(req, err_copy(e));
		else
			answer(req, 200, o->verdict);
	}
	err_free(e);
}

static void work(void *arg)
{
	struct oversight *o = arg;

	o->verify_err = audit_verify_step(o->verify, PIECE, &o->verified);
}

static void step(struct oversight *o);

static void done(void *arg)
{
	struct oversight *o = arg;
	struct audit_verdict v = audit_verify_verdict(o->verify);

	o->n_jobs--;
	o->verify_bytes = v.bytes;
	o->verify_of = v.of;
	if (o->ending)
		return;
	if (o->verify_err)
		end(o, take(o->verify_err));
	else if (o->verified)
		end(o, NULL);
	else
		step(o);
}

static void step(struct oversight *o)
{
	o->n_jobs++;
	job_run(o->loop, work, done, o);
}

/* In the thread that writes. */
static void on_look(struct audit_look *l)
{
	struct oversight *o = container_of(l, struct oversight, look);

	o->verify_err = audit_verify_open(o->spec.audit_path, o->spec.audit_key, &o->verify);
}

static void on_looked(struct audit_look *l)
{
	struct oversight *o = container_of(l, struct oversight, look);

	o->n_jobs--;
	if (o->ending)
		return;
	if (o->verify_err)
		end(o, take(o->verify_err));
	else
		step(o);
}

static void start(struct oversight *o)
{
	o->verifying = true;
	o->verified = false;
	o->verify_began = clock_mono();
	o->verify_since = clock_wall();
	o->verify_bytes = o->verify_of = 0;
	o->n_jobs++;
	o->look = (struct audit_look){ .look = on_look, .done = on_looked };
	audit_look(o->spec.audit, &o->look);
}

static struct err *check(struct oversight *o, struct http_request *req,
			 const struct access_target *who)
{
	static const char *const none[] = { NULL };
	struct err *e =
		*http_request_query(req) ? query_check(http_request_query(req), none) : NULL;

	if (!e)
		e = o->spec.may_get(o->spec.arg, who, OVERSIGHT_VERIFY);
	if (!e && !o->spec.audit)
		e = err_new(ERR_NOT_FOUND, "there is no audit log that can be read: it is off, or "
					   "goes to standard output (--audit-log)");
	if (!e && o->n_waiting >= WAITING_MAX)
		e = err_new(ERR_EXHAUSTED, "%d requests wait for the verdict", WAITING_MAX);
	return e;
}

void verify_visit(struct oversight *o, struct http_request *req, const struct access_target *who)
{
	struct err *e = check(o, req, who);
	struct waiter *w;

	if (e) {
		o->spec.refuse(req, e);
		return;
	}
	if (!o->verifying && o->verdict && clock_mono() - o->verify_ended < verdict_lasts) {
		answer(req, 200, o->verdict);
		return;
	}
	w = xnew(struct waiter);
	visitor_init(&w->v, o, req, who);
	list_add_tail(&o->waiting, &w->v.on);
	o->n_waiting++;
	http_request_set_owner(req, w, on_ended);
	w->patience = timer_new(o->loop, on_impatient, w);
	timer_set(w->patience, PATIENCE_MS);
	if (!o->verifying)
		start(o);
}

void verify_done(struct oversight *o)
{
	while (!list_empty(&o->waiting))
		(void)waiter_leave(list_first(&o->waiting, struct waiter, v.on));
}
