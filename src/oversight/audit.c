/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "audit/reader.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "oversight/oversight_priv.h"

/*
 * The audit log: first a page of the newest records, read from the end of the log, or with `after`
 * what follows a record; with `follow`, what is written from then on.
 *
 * One job at a time reads a piece for a reading; the next begins when its lines have been handed to
 * the connection and that is not full. So nothing waits in memory but a page or a piece, and a
 * client that reads slowly is paused where it is in the log, until it is cut.
 */
enum {
	LIMIT = 500,
	LIMIT_MAX = 10000,
	ANSWERS_MAX = 16, /* that do not follow, or not yet; each may need AUDIT_PAGE_MAX */
	FOLLOWERS_MAX = 64,
	BEAT_MS = 15 * 1000,
	STALL_MS = 60 * 1000,
	BATCH = 64 * 1024,
	STEPS_MAX = AUDIT_LOOK_MAX / AUDIT_STEP,
};

#define GROUP   "cay.dev"
#define RECORDS "auditrecords"

struct reading {
	struct visitor v;
	struct audit_filter filter; /* of the texts here */
	char *user, *agent, *sandbox, *ns, *verb;
	uint64_t before, after;
	size_t left;                   /* lines that may still be sent */
	bool has_after, follow, whole; /* whole: not only one namespace */
	bool counted;                  /* among the answers */

	struct audit_page *page; /* or the cursor */
	size_t n_sent;           /* lines of the page */
	struct audit_cursor *cursor;
	unsigned n_steps;
	bool begun, marked, finished;
	struct timer *beat, *stall;

	/* Of the job, which runs while busy. */
	bool busy, again; /* again: more was written meanwhile */
	bool over;
	struct buf out;
	struct err *err;
};

static void uncount(struct reading *r)
{
	r->v.o->n_answers -= r->counted;
	r->counted = false;
}

static void reading_free(struct reading *r)
{
	struct oversight *o = r->v.o;

	uncount(r);
	o->n_followers -= r->follow;
	if (!o->n_followers)
		audit_unlisten(&o->listener);
	visitor_done(&r->v);
	audit_page_free(r->page);
	audit_cursor_free(r->cursor);
	timer_free(r->beat);
	timer_free(r->stall);
	err_free(r->err);
	buf_done(&r->out);
	free(r->user);
	free(r->agent);
	free(r->sandbox);
	free(r->ns);
	free(r->verb);
	free(r);
}

static void on_ended(void *owner)
{
	struct reading *r = owner;

	r->v.req = NULL;
	if (!r->busy)
		reading_free(r);
}

static void on_stall(void *arg)
{
	struct reading *r = arg;

	if (r->v.req)
		http_respond_abort(r->v.req);
}

/* The answer is complete, and on_ended() is next: what the client has not read yet is the
 * connection's concern. */
static void finish(struct reading *r)
{
	r->finished = true;
	timer_clear(r->beat);
	timer_clear(r->stall);
	http_respond_end(r->v.req);
}

static void fail(struct reading *r, struct err *e)
{
	autoptr(json_doc) d = NULL;
	autobuf b = { 0 };

	if (!r->begun) {
		r->finished = true;
		r->v.o->spec.refuse(r->v.req, e);
		return;
	}
	d = json_doc_new();
	json_set_root(d, json_obj(d));
	json_set_str(d, json_root(d), "error", err_text(e));
	json_write(json_root(d), &b);
	buf_add_char(&b, '\n');
	err_free(e);
	http_respond_write(r->v.req, buf_head(&b), b.len);
	finish(r);
}

static void begin(struct reading *r)
{
	if (!r->begun)
		visitor_begin(&r->v, "application/x-ndjson");
	r->begun = true;
}

static void mark(struct reading *r, uint64_t n, uint64_t before, bool more)
{
	char now[CLOCK_TEXT_MAX];
	autobuf b = { 0 };

	clock_format_micro(clock_wall(), now);
	buf_printf(&b, "{\"bookmark\":{\"n\":%llu,\"time\":\"%s\"", (unsigned long long)n, now);
	if (before)
		buf_printf(&b, ",\"before\":%llu", (unsigned long long)before);
	buf_printf(&b, "%s}}\n", more ? ",\"more\":true" : "");
	http_respond_write(r->v.req, buf_head(&b), b.len);
}

static struct err *may_read(const struct reading *r)
{
	const struct oversight_spec *s = &r->v.o->spec;
	struct err *e = visitor_check_end(&r->v);

	if (e)
		return e;
	return r->whole ? s->may_get(s->arg, &r->v.who, OVERSIGHT_AUDIT)
			: s->may(s->arg, &r->v.who,
				 &(struct oversight_act){ "get", GROUP, RECORDS, r->ns });
}

/* Jobs */

static void work(void *arg)
{
	struct reading *r = arg;

	if (r->page)
		r->err = audit_page_step(r->page, &r->over);
	else
		r->err = audit_cursor_step(r->cursor, &r->out, &r->left, &r->over);
}

static void read_on(struct reading *r);

static void follow_from(struct reading *r, uint64_t after)
{
	audit_page_free(take(r->page));
	r->cursor = audit_cursor_new(&(struct audit_cursor_spec){
		.path = r->v.o->spec.audit_path, .filter = &r->filter, .after = after });
	if (r->follow) {
		r->left = SIZE_MAX;
		uncount(r);
	}
	read_on(r);
}

/* True: the connection takes no more at the moment; it is cut if that lasts. */
static bool is_full(struct reading *r)
{
	if (!http_respond_full(r->v.req)) {
		timer_clear(r->stall);
		return false;
	}
	if (!timer_armed(r->stall))
		timer_set(r->stall, STALL_MS);
	return true;
}

static void send_page(struct reading *r)
{
	size_t n = audit_page_len(r->page);
	uint64_t last = audit_page_last(r->page);

	while (r->n_sent < n && !is_full(r)) {
		autobuf b = { 0 };

		while (r->n_sent < n && b.len < BATCH) {
			struct span line = audit_page_line(r->page, r->n_sent++);

			buf_add(&b, line.p, line.len);
			buf_add_char(&b, '\n');
		}
		http_respond_write(r->v.req, buf_head(&b), b.len);
	}
	if (r->n_sent < n)
		return; /* on_drain() goes on */
	mark(r, last, audit_page_next(r->page), false);
	r->marked = true;
	if (r->follow) {
		follow_from(r, last);
	} else {
		finish(r);
	}
}

static void page_read(struct reading *r)
{
	uint64_t last;

	if (!r->over) {
		read_on(r);
		return;
	}
	if (!r->has_after) {
		begin(r);
		send_page(r);
		return;
	}
	last = audit_page_last(r->page);
	if (r->after > last)
		fail(r, err_new(ERR_GONE,
				"after=%llu: the log ends with record %llu, so it was begun anew; "
				"ask without after",
				(unsigned long long)r->after, (unsigned long long)last));
	else
		follow_from(r, r->after);
}

static void piece_read(struct reading *r)
{
	bool enough = !r->follow && (!r->left || ++r->n_steps >= STEPS_MAX);

	begin(r);
	if (r->out.len)
		http_respond_write(r->v.req, buf_head(&r->out), r->out.len);
	buf_clear(&r->out);
	if (!r->follow && (r->over || enough)) {
		mark(r, audit_cursor_last(r->cursor), 0, !r->over);
		finish(r);
		return;
	}
	if (r->over && !r->again) {
		if (!r->marked)
			mark(r, audit_cursor_last(r->cursor), 0, false);
		r->marked = true;
		if (!timer_armed(r->beat))
			timer_set(r->beat, BEAT_MS);
		return; /* until more is written */
	}
	if (!is_full(r))
		read_on(r);
}

static void done(void *arg)
{
	struct reading *r = arg;

	r->busy = false;
	r->v.o->n_jobs--;
	if (!r->v.req) {
		reading_free(r);
		return;
	}
	if (!r->err)
		r->err = may_read(r); /* what was read may be the record of the right's end */
	if (r->err)
		fail(r, take(r->err));
	else if (r->page)
		page_read(r);
	else
		piece_read(r);
}

/* Rights may have changed since the last piece. */
static void read_on(struct reading *r)
{
	struct err *e = r->cursor ? may_read(r) : NULL;

	if (e) {
		fail(r, e);
		return;
	}
	r->busy = true;
	r->again = r->over = false;
	r->v.o->n_jobs++;
	job_run(r->v.o->loop, work, done, r);
}

static void on_drain(void *owner)
{
	struct reading *r = owner;

	timer_clear(r->stall);
	if (r->finished || r->busy || !r->begun)
		return;
	if (r->page)
		send_page(r);
	else
		read_on(r);
}

static void on_written(struct audit_listener *l)
{
	struct oversight *o = container_of(l, struct oversight, listener);
	struct reading *r, *tmp;

	list_each_safe(r, tmp, &o->readings, v.on) {
		if (!r->cursor || !r->follow || r->finished || !r->v.req)
			continue;
		r->again = true;
		if (!r->busy && !is_full(r))
			read_on(r);
	}
}

/* A job that runs finds out by itself. */
static void on_over(struct visitor *v)
{
	struct reading *r = container_of(v, struct reading, v);

	if (v->req && !r->busy && !r->finished)
		fail(r, visitor_check_end(v));
}

/* Shows the client that the stream is alive, and whoever lost the right that it ends. */
static void on_beat(void *arg)
{
	struct reading *r = arg;
	struct err *e;

	timer_set(r->beat, BEAT_MS);
	if (r->busy || is_full(r))
		return;
	e = may_read(r);
	if (e)
		fail(r, e);
	else
		mark(r, audit_cursor_last(r->cursor), 0, false);
}

/* Requests */

static struct err *read_numbers(struct reading *r, const char *q)
{
	uint64_t limit = LIMIT;
	bool given = false, limited = false;
	struct err *e = query_bool(q, "follow", &r->follow);

	if (!e)
		e = query_bool(q, "refused", &r->filter.refused);
	if (!e)
		e = query_uint(q, "limit", LIMIT_MAX, &limit, &limited);
	if (!e)
		e = query_uint(q, "before", INT64_MAX, &r->before, &given);
	if (!e)
		e = query_uint(q, "after", INT64_MAX, &r->after, &r->has_after);
	if (e)
		return e;
	if (given && !r->before)
		return err_new(ERR_MALFORMED, "before=0: records are counted from 1");
	if (limited && !limit && !r->follow)
		return err_new(ERR_MALFORMED, "limit=0: only with follow=true");
	if (given && (r->follow || r->has_after))
		return err_new(ERR_MALFORMED, "before goes with neither follow nor after");
	r->left = (size_t)limit;
	return NULL;
}

static struct err *read_query(struct reading *r)
{
	static const char *const known[] = { "user",    "agent",  "sandbox", "namespace", "verb",
					     "refused", "since",  "until",   "limit",     "before",
					     "after",   "follow", NULL };
	const char *q = http_request_query(r->v.req);
	usec now = clock_wall();
	struct err *e = query_check(q, known);

	if (!e)
		e = read_numbers(r, q);
	if (!e)
		e = query_time(q, "since", now, &r->filter.since);
	if (!e)
		e = query_time(q, "until", now, &r->filter.until);
	if (!e && r->filter.until && r->follow)
		e = err_new(ERR_MALFORMED, "until does not go with follow");
	r->filter.user = r->user = query_text(q, "user");
	r->filter.agent = r->agent = query_text(q, "agent");
	r->filter.sandbox = r->sandbox = query_text(q, "sandbox");
	r->filter.ns = r->ns = query_text(q, "namespace");
	r->filter.verb = r->verb = query_text(q, "verb");
	return e;
}

/* All of it, or the records of a namespace. The refusal names the right that is missing. */
static struct err *let_in(struct reading *r)
{
	struct err *all, *some;

	r->whole = true;
	all = may_read(r);
	if (!all)
		return NULL;
	if (!r->ns)
		return err_wrap(err_recode(all, ERR_FORBIDDEN),
				"to read the whole log takes get on the path " OVERSIGHT_AUDIT
				", and namespace= with get on " RECORDS "." GROUP
				" to read that of a namespace");
	r->whole = false;
	some = may_read(r);
	err_free(all);
	return some;
}

static struct err *check(struct reading *r)
{
	const struct oversight *o = r->v.o;
	struct err *e = read_query(r);

	if (!e)
		e = let_in(r);
	if (e)
		return e;
	if (!o->spec.audit)
		return err_new(ERR_NOT_FOUND, "there is no audit log that can be read: it is off, "
					      "or goes to standard output (--audit-log)");
	if (o->n_answers >= ANSWERS_MAX)
		return err_new(ERR_EXHAUSTED, "%d readers of the audit log are being answered",
			       ANSWERS_MAX);
	if (r->follow && o->n_followers >= FOLLOWERS_MAX)
		return err_new(ERR_EXHAUSTED, "%d readers follow the audit log", FOLLOWERS_MAX);
	return NULL;
}

void audit_visit(struct oversight *o, struct http_request *req, const struct access_target *who)
{
	struct reading *r = xnew(struct reading);
	struct err *e;

	visitor_init(&r->v, o, req, who);
	list_add_tail(&o->readings, &r->v.on);
	e = check(r);
	if (e) {
		r->follow = false; /* it was not counted */
		r->v.req = NULL;
		reading_free(r);
		o->spec.refuse(req, e);
		return;
	}
	http_request_set_owner(req, r, on_ended);
	http_respond_on_drain(req, on_drain);
	r->beat = timer_new(o->loop, on_beat, r);
	r->stall = timer_new(o->loop, on_stall, r);
	o->n_answers++;
	r->counted = true;
	visitor_on_end(&r->v, on_over);
	if (r->follow && !o->n_followers++) {
		o->listener.written = on_written;
		audit_listen(o->spec.audit, &o->listener);
	}
	r->page = audit_page_new(&(struct audit_page_spec){ .path = o->spec.audit_path,
							    .filter = &r->filter,
							    .before = r->before,
							    .limit = r->has_after ? 0 : r->left });
	read_on(r);
}

void audit_done(struct oversight *o)
{
	struct reading *r, *tmp;

	list_each_safe(r, tmp, &o->readings, v.on) {
		if (r->v.req)
			http_request_set_owner(r->v.req, NULL, NULL);
		r->v.req = NULL;
		timer_free(take(r->v.end));
		timer_clear(r->beat);
		timer_clear(r->stall);
		if (!r->busy)
			reading_free(r);
	}
}
