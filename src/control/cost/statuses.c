/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/session.h"
#include "api/object.h"
#include "api/view.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cost/cost_priv.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/pass.h"

/*
 * What the ledger says of attachments and sessions, in their statuses. Those are for people: they
 * are written about once a minute while something goes on, and when it has ended.
 */
_Static_assert(KEEP_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

enum {
	WRITES_OF_A_PASS = 64,
};

struct report {
	struct pass *p;
	const struct statuses *s;
	struct map *running; /* uids of attachments, and of sessions, of which something runs */
	struct map *last;    /* uid of a session → const int64_t *: when it was last used */
	size_t n;
};

static bool says(const struct object *o, const struct costs *used)
{
	struct costs is;

	costs_read(json_get(object_status(o), "cost"), 0, &is);
	for (enum cost i = 0; i < COST_MAX_; i++)
		if (is.of[i] != used->of[i])
			return false;
	return true;
}

bool session_says(const struct object *session, const struct costs *used)
{
	return says(session, used);
}

static void write_cost(struct report *r, const struct object *o, const struct costs *used,
		       int64_t last)
{
	struct write w = { .name = KEEP_WRITE_STATUS,
			   .to = ref_of(o),
			   .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };
	autoptr(json_doc) want = draft_status(o);
	struct json_doc *patch;
	char text[CLOCK_TEXT_MAX];

	json_set(want, json_root(want), "cost", costs_write(used, want));
	clock_format(last, text);
	if (last > view_time(json_get_str(object_status(o), "lastActivity")))
		json_set_str(want, json_root(want), "lastActivity", text);
	patch = draft_status_patch(o, json_root(want));
	if (!patch)
		return;
	w.to.sub = "status";
	r->n++;
	pass_patch(r->p, &w, patch);
}

/* Which sources still run, and when sessions were last used. */
static void see_sources(struct report *r)
{
	autoptr(map) marks = map_new(NULL);

	for (size_t i = 0; i < r->s->l->n_marks; i++)
		map_put(marks, r->s->l->marks[i].uid, &r->s->l->marks[i]);
	for (size_t i = 0; i < r->s->sources->n; i++) {
		const struct source *one = &r->s->sources->list[i];
		const struct ledger_mark *m = map_get(marks, one->uid);
		const int64_t *last;

		if (!m)
			continue;
		if (!one->over) {
			map_put(r->running, m->uid, r);
			map_put(r->running, m->session_uid, r);
		}
		last = map_get(r->last, m->session_uid);
		if (one->attachment && (!last || *last < one->at_us))
			map_put(r->last, m->session_uid, (void *)&one->at_us);
	}
}

static void report_attachments(struct report *r)
{
	const struct ledger *l = r->s->l;

	for (size_t i = 0; i < l->n_marks && r->n < WRITES_OF_A_PASS; i++) {
		const struct ledger_mark *m = &l->marks[i];
		struct object *o =
			m->attachment ? map_get(r->s->attachments->by_uid, m->uid) : NULL;

		if (o && (r->s->all || !map_has(r->running, m->uid)) && !says(o, &m->counted))
			write_cost(r, o, &m->counted, 0);
	}
}

static void report_sessions(struct report *r)
{
	const struct context *c = r->p->c;
	const struct ledger *l = r->s->l;

	for (size_t i = 0; i < l->n_sessions && r->n < WRITES_OF_A_PASS; i++) {
		const struct ledger_session *e = &l->sessions[i];
		autoptr(object) o = client_get(c->client, c->kinds.session, r->p->key->ns, e->name);
		const int64_t *last = map_get(r->last, e->uid);

		if (o && str_eq(o->uid, e->uid) && (r->s->all || !map_has(r->running, e->uid)) &&
		    !says(o, &e->used))
			write_cost(r, o, &e->used, last ? *last : 0);
	}
}

bool statuses_report(struct pass *p, const struct statuses *s)
{
	struct report r = { .p = p, .s = s, .running = map_new(NULL), .last = map_new(NULL) };

	see_sources(&r);
	report_attachments(&r);
	report_sessions(&r);
	map_free(r.running);
	map_free(r.last);
	return r.n >= WRITES_OF_A_PASS;
}
