/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"

#include <string.h>

#include "audit/audit_priv.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"

/*
 * Records become lines at once and wait in a buffer, those of a turn of the loop together. One job
 * at a time takes the whole buffer and appends it to the file; what comes meanwhile is for the
 * next. A line is in memory until then, so a process that is killed loses those of its last moment.
 *
 * Somebody who waits for a line would pay for the way to the job's thread and back, which costs
 * more than the write. So audit_after() appends what is there itself, if that is one small write to
 * the page cache and no job has the file. Such a write can block nevertheless, when the kernel
 * holds up whoever makes pages dirty, and cannot be asked not to: RWF_NOWAIT is not supported by
 * ext4 and tmpfs, and btrfs refused each such write that was tried (Linux 6.18). One that took SLOW
 * is therefore the last for SLOW_REST. Syncs and rotations are always the job's.
 */
enum {
	RETRY_MS = 1000,
	SYNC_MS = 100,                /* from a line to the disk at most, while the disk keeps up */
	AT_ONCE_MAX = 16 * 1024,      /* bytes of lines that are written on the loop */
	SLOW = 2 * 1000,              /* µs, of a write on the loop */
	SLOW_REST = 10 * 1000 * 1000, /* µs in which there is none */
};

struct audit {
	struct loop *loop;
	struct audit_spec spec; /* its path is the file's */
	struct audit_file *file;
	struct timer *retry, *sync;
	struct deferred turn;
	usec at_once_from;     /* not on the loop before then */
	struct list waits;     /* struct audit_wait, in the order in which they were asked for */
	struct list listeners; /* struct audit_listener */
	struct list looks;     /* struct audit_look, for the next job */
	uint64_t n_handed, n_written; /* lines since the start, lost ones not counted */
	bool sync_due;
	bool news; /* was written on the loop, and listeners have not been told */
	struct buf pending;
	uint64_t n_pending, n_lost; /* records; lost ones that no line tells of yet */
	struct audit_counts counts;
	bool in_trouble, ending;

	/* Of the job, which runs while busy. */
	bool busy, syncing;
	struct list looking; /* struct audit_look */
	struct buf batch;
	uint64_t n_batch;
	struct err *err;
};

/*
 * Lines are put together by hand: there is one for each request through the router, and a tree of
 * JSON for each took twice as long.
 */
static bool is_plain(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\')
			return false;
	return true;
}

/* The bytes of s as a JSON string; len ends no character in its middle. */
static void put_string(struct buf *b, const char *s, size_t len)
{
	autoptr(json_doc) d = NULL;
	autofree char *text = NULL;

	if (is_plain(s, len)) {
		buf_add_char(b, '"');
		buf_add(b, s, len);
		buf_add_char(b, '"');
		return;
	}
	text = xstrndup(s, len);
	d = json_doc_new();
	json_set_root(d, json_new_str(d, text));
	json_write(json_root(d), b);
}

/* Keys are constants and need no escape. */
static void put_key(struct buf *b, const char *key)
{
	buf_add(b, ",\"", 2);
	buf_add_str(b, key);
	buf_add(b, "\":", 2);
}

static void put_number(struct buf *b, const char *key, uint64_t n)
{
	put_key(b, key);
	buf_add_uint(b, n);
}

/* The length of s, or as much of it as max permits. A text is never cut inside a character. */
static size_t length_of(const char *s, size_t max)
{
	size_t len = s ? strlen(s) : 0;

	if (len <= max)
		return len;
	len = max;
	while (len && ((unsigned char)s[len] & 0xc0) == 0x80)
		len--;
	return len;
}

static void put_text(struct buf *b, const char *key, const char *s)
{
	size_t len = length_of(s, AUDIT_TEXT_MAX);

	if (!len)
		return;
	put_key(b, key);
	put_string(b, s, len);
}

static void put_notes(struct buf *b, const struct audit_note *notes)
{
	if (!notes || !notes->key)
		return;
	put_key(b, "annotations");
	for (const struct audit_note *n = notes; n->key; n++) {
		buf_add_char(b, n == notes ? '{' : ',');
		put_string(b, n->key, strlen(n->key));
		buf_add_char(b, ':');
		put_string(b, str_or(n->text, ""), length_of(n->text, AUDIT_NOTE_MAX));
	}
	buf_add_char(b, '}');
}

static void begin_line(struct buf *b)
{
	char now[CLOCK_TEXT_MAX];

	clock_format_micro(clock_wall(), now);
	buf_add_str(b, "{\"time\":\"");
	buf_add_str(b, now);
	buf_add_char(b, '"');
}

static void end_line(struct buf *b)
{
	buf_add(b, "}\n", 2);
}

static void add_record(struct buf *b, const struct audit_record *r)
{
	const struct {
		const char *key, *value;
	} texts[] = {
		{ "user", r->user },       { "as", r->as },        { "from", r->from },
		{ "verb", r->verb },       { "group", r->group },  { "resource", r->resource },
		{ "subresource", r->sub }, { "namespace", r->ns }, { "name", r->name },
	};

	begin_line(b);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		put_text(b, texts[i].key, texts[i].value);
	put_text(b, "pod", r->pod);
	if (r->port)
		put_number(b, "port", r->port);
	if (r->dry_run) {
		put_key(b, "dryRun");
		buf_add_str(b, "true");
	}
	if (r->status)
		put_number(b, "status", (uint64_t)r->status);
	put_text(b, "note", r->note);
	if (r->received)
		put_number(b, "received", r->received);
	if (r->sent)
		put_number(b, "sent", r->sent);
	put_notes(b, r->notes);
	put_number(b, "tookMicros", (uint64_t)MAX(r->took, (usec)0));
	end_line(b);
}

static void tell_of_lost(struct audit *a)
{
	if (!a->n_lost)
		return;
	begin_line(&a->pending);
	put_number(&a->pending, "lost", a->n_lost);
	end_line(&a->pending);
	a->n_lost = 0;
}

static void trouble(struct audit *a, const struct err *e)
{
	if (a->in_trouble == !!e)
		return;
	a->in_trouble = !!e;
	if (a->spec.trouble)
		a->spec.trouble(a->spec.arg, e);
}

/* In a thread of its own: the loop leaves batch, file and err alone while it runs. */
static void work(void *arg)
{
	struct audit *a = arg;
	struct audit_look *l;

	a->err = audit_file_append(a->file, &a->batch);
	if (!a->err && a->syncing)
		a->err = audit_file_sync(a->file);
	list_each(l, &a->looking, on)
		l->look(l);
}

/* All whose records are written, or cannot be. */
static void tell_waits(struct audit *a, const struct err *e)
{
	while (!list_empty(&a->waits)) {
		struct audit_wait *w = list_first(&a->waits, struct audit_wait, on);
		struct err *why = NULL;

		if (!e && !w->lost && w->n > a->n_written)
			return;
		if (e)
			why = err_new(ERR_UNAVAILABLE, "the audit log cannot be written: %s",
				      err_text(e));
		else if (w->lost)
			why = err_new(ERR_UNAVAILABLE, "the audit log cannot keep up");
		audit_after_cancel(w);
		w->done(w, why);
	}
}

static void batch_written(struct audit *a)
{
	a->counts.written += a->n_batch;
	a->n_written += a->n_batch;
	a->n_batch = 0;
	if (!a->syncing && !timer_armed(a->sync))
		timer_set(a->sync, SYNC_MS);
}

static void tell_listeners(struct audit *a)
{
	struct audit_listener *l;

	list_each(l, &a->listeners, on)
		l->written(l);
}

static void tell_looked(struct audit *a)
{
	while (!list_empty(&a->looking)) {
		struct audit_look *l = list_first(&a->looking, struct audit_look, on);

		list_del(&l->on);
		l->done(l);
	}
}

static void go(struct audit *a);

static void done(void *arg)
{
	struct audit *a = arg;
	struct err *e = take(a->err);

	a->busy = false;
	trouble(a, e);
	if (!e)
		batch_written(a);
	tell_waits(a, e);
	tell_listeners(a);
	tell_looked(a);
	if (!e)
		go(a);
	else if (!a->ending)
		timer_set(a->retry, RETRY_MS);
	err_free(e);
}

static void take_pending(struct audit *a)
{
	struct buf empty = a->batch;

	a->batch = a->pending;
	a->pending = empty;
	a->n_batch += a->n_pending;
	a->n_pending = 0;
}

/* The next batch, unless one is being written or has to be tried again first. */
static void go(struct audit *a)
{
	if (a->busy)
		return;
	if (!a->batch.len) {
		tell_of_lost(a);
		take_pending(a);
	}
	if (!list_empty(&a->looks)) {
		list_take_all(&a->looks, &a->looking);
		a->sync_due = true; /* the head has to be that of the file */
	}
	if (!a->batch.len && !a->n_batch && !a->sync_due)
		return;
	a->syncing = a->sync_due;
	a->sync_due = false;
	a->busy = true;
	job_run(a->loop, work, done, a);
}

static bool can_write_at_once(const struct audit *a)
{
	return a->pending.len && a->pending.len <= AT_ONCE_MAX && !a->batch.len && !a->n_batch &&
	       !a->n_lost && clock_mono() >= a->at_once_from &&
	       audit_file_is_quick(a->file, a->pending.len, a->n_pending);
}

/* What fails is tried once more by the job, which is where errors are told. */
static void write_at_once(struct audit *a)
{
	usec started = clock_mono(), ended;
	struct err *e;

	take_pending(a);
	a->syncing = false;
	e = audit_file_append(a->file, &a->batch);
	ended = clock_mono();
	if (ended - started >= SLOW)
		a->at_once_from = ended + SLOW_REST;
	if (!e) {
		batch_written(a);
		a->news = true;
	}
	err_free(e);
}

/* The end of a turn in which something was handed over, or written on the loop. */
static void on_turn(void *arg)
{
	struct audit *a = arg;

	tell_waits(a, NULL);
	if (a->news)
		tell_listeners(a);
	a->news = false;
	if (!timer_armed(a->retry))
		go(a);
}

static void on_retry(void *arg)
{
	go(arg);
}

static void on_sync(void *arg)
{
	struct audit *a = arg;

	a->sync_due = true;
	go(a);
}

struct err *audit_open(struct loop *l, const struct audit_spec *spec, struct audit **ret)
{
	autoptr(audit_file) file = NULL;
	struct err *e = audit_file_open(spec, &file);
	struct audit *a;

	if (e)
		return err_wrap(e, "open the audit log %s", spec->path);
	a = xnew(struct audit);
	a->loop = l;
	a->spec = *spec;
	a->file = take(file);
	list_init(&a->waits);
	list_init(&a->listeners);
	list_init(&a->looks);
	list_init(&a->looking);
	a->retry = timer_new(l, on_retry, a);
	a->sync = timer_new(l, on_sync, a);
	deferred_init(&a->turn, l, on_turn, a);
	*ret = a;
	return NULL;
}

/* The last of the process: nothing else wants the loop, and this may wait for the disk. */
void audit_free(struct audit *a)
{
	if (!a)
		return;
	a->ending = true;
	timer_clear(a->retry);
	timer_clear(a->sync);
	while (a->busy)
		(void)loop_turn(a->loop, 100);
	deferred_cancel(&a->turn);
	tell_of_lost(a);
	if (a->pending.len)
		buf_add(&a->batch, buf_head(&a->pending), a->pending.len);
	a->err = audit_file_append(a->file, &a->batch);
	if (!a->err)
		a->err = audit_file_end(a->file);
	trouble(a, a->err);
	err_free(a->err);
	timer_free(a->retry);
	timer_free(a->sync);
	audit_file_free(a->file);
	buf_done(&a->batch);
	buf_done(&a->pending);
	free(a);
}

void audit_write(struct audit *a, const struct audit_record *r)
{
	if (!a)
		return;
	if (a->pending.len >= AUDIT_PENDING_MAX) {
		a->n_lost++;
		a->counts.lost++;
		return;
	}
	add_record(&a->pending, r);
	a->n_pending++;
	a->n_handed++;
	deferred_call(&a->turn);
}

void audit_after(struct audit *a, struct audit_wait *w)
{
	w->n = a->n_handed;
	w->lost = a->n_lost;
	list_add_tail(&a->waits, &w->on);
	if (!a->busy && !timer_armed(a->retry) && can_write_at_once(a))
		write_at_once(a);
	deferred_call(&a->turn);
}

void audit_after_cancel(struct audit_wait *w)
{
	if (w->on.next)
		list_del(&w->on);
	w->on = (struct list){ 0 };
}

void audit_listen(struct audit *a, struct audit_listener *l)
{
	list_add_tail(&a->listeners, &l->on);
}

void audit_unlisten(struct audit_listener *l)
{
	if (l->on.next)
		list_del(&l->on);
	l->on = (struct list){ 0 };
}

void audit_look(struct audit *a, struct audit_look *l)
{
	list_add_tail(&a->looks, &l->on);
	if (!timer_armed(a->retry))
		go(a);
}

struct audit_counts audit_counts(const struct audit *a)
{
	return a ? a->counts : (struct audit_counts){ 0 };
}
