/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cost/count.h"

#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

enum {
	FIXED_SIZE = 300, /* of a member, beside its texts */
};

static char *row_key(const struct payer *who)
{
	return xasprintf("%s\n%s\n%s", who->agent, who->user, who->template);
}

static size_t text_size(const struct payer *who)
{
	return FIXED_SIZE + strlen(who->agent) + strlen(who->user) + strlen(who->template);
}

static size_t mark_size(const struct ledger_mark *m)
{
	return text_size(&m->who) + 2 * strlen(m->session) + 64;
}

void count_begin(struct count *ct, struct ledger *l, usec now, struct arena *a)
{
	*ct = (struct count){ .l = l,
			      .now = now,
			      .a = a,
			      .rows = map_new(NULL),
			      .marks = map_new(NULL),
			      .sessions = map_new(NULL),
			      .budgets = map_new(NULL),
			      .agents = map_new(free),
			      .live = map_new(NULL) };
	for (size_t i = 0; i < l->n_rows; i++) {
		autofree char *key = row_key(&l->rows[i].who);

		map_put(ct->rows, key, &l->rows[i]);
		ct->size += text_size(&l->rows[i].who);
	}
	for (size_t i = 0; i < l->n_marks; i++) {
		map_put(ct->marks, l->marks[i].uid, &l->marks[i]);
		ct->size += mark_size(&l->marks[i]);
	}
	for (size_t i = 0; i < l->n_sessions; i++) {
		map_put(ct->sessions, l->sessions[i].uid, &l->sessions[i]);
		ct->size += FIXED_SIZE + strlen(l->sessions[i].name);
	}
	for (size_t i = 0; i < l->n_budgets; i++)
		map_put(ct->budgets, l->budgets[i].uid, &l->budgets[i]);
}

void count_done(struct count *ct)
{
	map_free(ct->rows);
	map_free(ct->marks);
	map_free(ct->sessions);
	map_free(ct->budgets);
	map_free(ct->agents);
	map_free(ct->live);
}

/* Budgets */

static void begin_period(struct ledger_budget *b, usec start)
{
	b->start = start;
	b->used = (struct costs){ 0 };
	b->n_shares = 0;
}

static const struct count_budget *find(const struct count_budget *budgets, size_t n,
				       const char *uid)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(budgets[i].uid, uid))
			return &budgets[i];
	return NULL;
}

void count_budgets(struct count *ct, const struct count_budget *budgets, size_t n)
{
	struct ledger *l = ct->l;
	size_t kept = 0;

	for (size_t i = 0; i < l->n_budgets; i++) {
		struct ledger_budget *b = &l->budgets[i];
		const struct count_budget *is = find(budgets, n, b->uid);
		usec start;

		if (!is)
			continue;
		start = budget_period_start(b->start, is->period, ct->now);
		if (start != b->start) {
			begin_period(b, start);
			ct->changed = true;
		}
		l->budgets[kept++] = *b;
	}
	ct->changed |= kept < l->n_budgets;
	l->n_budgets = kept;
	map_free(ct->budgets);
	ct->budgets = map_new(NULL);
	for (size_t i = 0; i < l->n_budgets; i++)
		map_put(ct->budgets, l->budgets[i].uid, &l->budgets[i]);
}

static struct ledger_budget *budget_of(struct count *ct, const struct count_budget *is)
{
	struct ledger_budget *b = map_get(ct->budgets, is->uid);

	if (b || ct->l->n_budgets == LEDGER_BUDGETS_MAX)
		return b;
	b = &ct->l->budgets[ct->l->n_budgets++];
	*b = (struct ledger_budget){
		.uid = arena_strdup(ct->a, is->uid),
		.name = arena_strdup(ct->a, is->name),
		.start = budget_period_start(is->created, is->period, ct->now),
		.shares = arena_new_n(ct->a, struct ledger_share, LEDGER_SHARES_MAX + 1),
	};
	map_put(ct->budgets, b->uid, b);
	return b;
}

static struct ledger_share *share_of(struct ledger_budget *b, const char *agent)
{
	for (size_t i = 0; i < b->n_shares; i++)
		if (str_eq(b->shares[i].agent, agent))
			return &b->shares[i];
	if (b->n_shares >= LEDGER_SHARES_MAX && !str_eq(agent, LEDGER_OTHERS))
		return share_of(b, LEDGER_OTHERS);
	b->shares[b->n_shares] = (struct ledger_share){ .agent = agent };
	return &b->shares[b->n_shares++];
}

static void charge_budgets(struct count *ct, const struct count_source *s, const char *agent,
			   const struct costs *more)
{
	for (size_t i = 0; s->budgets && s->budgets[i]; i++) {
		struct ledger_budget *b = budget_of(ct, s->budgets[i]);

		if (!b)
			continue;
		costs_add(&b->used, more);
		costs_add(&share_of(b, agent)->used, more);
	}
}

/* Rows and sessions */

static struct ledger_row *row_of(struct count *ct, const struct payer *who)
{
	static const struct payer others = { LEDGER_OTHERS, "", "" };
	autofree char *key = row_key(who);
	struct ledger_row *r = map_get(ct->rows, key);

	if (r)
		return r;
	if (ct->l->n_rows >= LEDGER_ROWS_MAX && !str_eq(who->agent, LEDGER_OTHERS))
		return row_of(ct, &others);
	r = &ct->l->rows[ct->l->n_rows++];
	*r = (struct ledger_row){ .who = *who };
	ct->size += text_size(who);
	map_put(ct->rows, key, r);
	return r;
}

static void charge_session(struct count *ct, const struct ledger_mark *m,
			   const struct count_source *s, const struct costs *more)
{
	struct ledger_session *e;

	if (str_empty(m->session_uid))
		return;
	e = map_get(ct->sessions, m->session_uid);
	if (!e) {
		e = &ct->l->sessions[ct->l->n_sessions++];
		*e = (struct ledger_session){ m->session_uid, m->session, s->session_before };
		costs_round(&e->used);
		map_put(ct->sessions, e->uid, e);
	}
	costs_add(&e->used, more);
}

static void note_agent(struct count *ct, const char *agent, const struct costs *more)
{
	struct costs *c = map_get(ct->agents, agent);

	if (!c) {
		c = xnew(struct costs);
		map_put(ct->agents, agent, c);
	}
	costs_add(c, more);
}

/* Sources */

/* Whatever is beyond the mark. It never goes back: what was counted once stays. */
static struct costs beyond(const struct costs *total, const struct ledger_mark *m)
{
	struct costs more = *total;

	costs_round(&more);
	for (enum cost i = 0; i < COST_MAX_; i++)
		more.of[i] = MAX(more.of[i] - (m ? m->counted.of[i] : 0), (int64_t)0);
	return more;
}

static struct ledger_mark *new_mark(struct count *ct, const struct count_source *s)
{
	struct ledger_mark m = { .uid = s->uid,
				 .attachment = s->attachment,
				 .who = s->who,
				 .session = s->session,
				 .session_uid = s->session_uid };
	struct ledger_mark *at;

	if (ct->l->n_marks >= LEDGER_MARKS_MAX || ct->l->n_sessions >= LEDGER_MARKS_MAX ||
	    ct->size + mark_size(&m) > LEDGER_SIZE_MAX) {
		ct->n_waiting++;
		return NULL;
	}
	at = &ct->l->marks[ct->l->n_marks++];
	*at = m;
	ct->size += mark_size(at);
	map_put(ct->marks, at->uid, at);
	return at;
}

bool count_source(struct count *ct, const struct count_source *s)
{
	struct ledger_mark *m = map_get(ct->marks, s->uid);
	struct costs more = beyond(&s->total, m);

	if (m)
		m->told = true;
	if (costs_none(&more))
		return false;
	if (!m)
		m = new_mark(ct, s);
	if (!m)
		return false;
	m->told = true;
	if (s->known) {
		m->who = s->who;
		m->session = s->session;
		m->session_uid = s->session_uid;
	}
	costs_add(&m->counted, &more);
	costs_add(&row_of(ct, &m->who)->used, &more);
	charge_session(ct, m, s, &more);
	charge_budgets(ct, s, m->who.agent, &more);
	note_agent(ct, m->who.agent, &more);
	ct->changed = true;
	return true;
}

bool count_covers(const struct count *ct, const char *uid, const struct costs *total)
{
	struct costs more = beyond(total, map_get(ct->marks, uid));

	return costs_none(&more);
}

void count_end(struct count *ct)
{
	struct ledger *l = ct->l;
	size_t kept = 0;

	for (size_t i = 0; i < l->n_marks; i++)
		if (l->marks[i].told)
			l->marks[kept++] = l->marks[i];
	ct->changed |= kept < l->n_marks;
	l->n_marks = kept;
	map_free(ct->marks);
	ct->marks = map_new(NULL);
	for (size_t i = 0; i < l->n_marks; i++) {
		map_put(ct->marks, l->marks[i].uid, &l->marks[i]);
		map_put(ct->live, l->marks[i].session_uid, ct);
	}
}

bool count_has_session(const struct count *ct, const char *uid)
{
	return map_has(ct->live, uid);
}

void count_drop_session(struct count *ct, const char *uid)
{
	struct ledger *l = ct->l;

	for (size_t i = 0; i < l->n_sessions; i++) {
		if (!str_eq(l->sessions[i].uid, uid))
			continue;
		l->sessions[i] = l->sessions[--l->n_sessions];
		ct->changed = true;
		return;
	}
}
