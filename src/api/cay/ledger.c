/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/ledger.h"

#include <stdio.h>
#include <string.h>

#include "api/cay/read_priv.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"

static void read_payer(const struct json *o, struct payer *ret)
{
	*ret = (struct payer){ read_text(o, "agent"), read_text(o, "user"),
			       read_text(o, "template") };
}

static void read_rows(const struct json *list, struct arena *a, struct ledger *l)
{
	l->rows = arena_new_n(a, struct ledger_row, LEDGER_ROWS_MAX + 1);
	json_each(it, list) {
		struct ledger_row *r = &l->rows[l->n_rows];

		if (l->n_rows > LEDGER_ROWS_MAX)
			return;
		read_payer(it.val, &r->who);
		costs_read(it.val, 0, &r->used);
		l->n_rows++;
	}
}

static void read_marks(const struct json *list, size_t more, struct arena *a, struct ledger *l)
{
	l->marks = arena_new_n(a, struct ledger_mark, json_len(list) + more + 1);
	json_each(it, list) {
		struct ledger_mark *m = &l->marks[l->n_marks++];

		m->uid = read_text(it.val, "uid");
		m->attachment = json_get_bool(it.val, "attachment", false);
		m->session = read_text(it.val, "session");
		m->session_uid = read_text(it.val, "sessionUid");
		read_payer(it.val, &m->who);
		costs_read(it.val, 0, &m->counted);
	}
}

static void read_sessions(const struct json *list, size_t more, struct arena *a, struct ledger *l)
{
	l->sessions = arena_new_n(a, struct ledger_session, json_len(list) + more + 1);
	json_each(it, list) {
		struct ledger_session *s = &l->sessions[l->n_sessions++];

		s->uid = read_text(it.val, "uid");
		s->name = read_text(it.val, "name");
		costs_read(it.val, 0, &s->used);
	}
}

static void read_budget(const struct json *o, struct arena *a, struct ledger_budget *ret)
{
	*ret = (struct ledger_budget){
		.uid = read_text(o, "uid"),
		.name = read_text(o, "name"),
		.start = view_time(json_get_str(o, "periodStart")),
		.shares = arena_new_n(a, struct ledger_share, LEDGER_SHARES_MAX + 1),
	};
	costs_read(o, 0, &ret->used);
	json_each(it, json_get(o, "agents")) {
		struct ledger_share *s = &ret->shares[ret->n_shares];

		if (ret->n_shares > LEDGER_SHARES_MAX)
			return;
		s->agent = read_text(it.val, "agent");
		costs_read(it.val, 0, &s->used);
		ret->n_shares++;
	}
}

void ledger_read(const struct json *status, size_t more, struct arena *a, struct ledger *ret)
{
	*ret = (struct ledger){ .budgets =
					arena_new_n(a, struct ledger_budget, LEDGER_BUDGETS_MAX) };
	read_rows(json_get(status, "rows"), a, ret);
	read_marks(json_get(status, "marks"), more, a, ret);
	read_sessions(json_get(status, "sessions"), more, a, ret);
	json_each(it, json_get(status, "budgets"))
		if (ret->n_budgets < LEDGER_BUDGETS_MAX)
			read_budget(it.val, a, &ret->budgets[ret->n_budgets++]);
}

bool ledger_read_budget(const struct json *status, const char *uid, struct arena *a,
			struct ledger_budget *ret)
{
	json_each(it, json_get(status, "budgets"))
		if (str_eq(json_get_str(it.val, "uid"), uid)) {
			read_budget(it.val, a, ret);
			return true;
		}
	return false;
}

/* Writing */

static void put_text(struct json_doc *d, struct json *o, const char *key, const char *text)
{
	if (!str_empty(text))
		json_set_str(d, o, key, text);
}

static void put_payer(struct json_doc *d, struct json *o, const struct payer *who)
{
	put_text(d, o, "agent", who->agent);
	put_text(d, o, "user", who->user);
	put_text(d, o, "template", who->template);
}

static struct json *mark_write(const struct ledger_mark *m, struct json_doc *d)
{
	struct json *o = costs_write(&m->counted, d);

	json_set_str(d, o, "uid", m->uid);
	if (m->attachment)
		json_set_bool(d, o, "attachment", true);
	put_payer(d, o, &m->who);
	put_text(d, o, "session", m->session);
	put_text(d, o, "sessionUid", m->session_uid);
	return o;
}

static struct json *budget_write(const struct ledger_budget *b, struct json_doc *d)
{
	struct json *o = costs_write(&b->used, d), *agents = json_arr(d);
	char start[CLOCK_TEXT_MAX];

	clock_format(b->start, start);
	json_set_str(d, o, "uid", b->uid);
	put_text(d, o, "name", b->name);
	json_set_str(d, o, "periodStart", start);
	for (size_t i = 0; i < b->n_shares; i++) {
		struct json *one = costs_write(&b->shares[i].used, d);

		put_text(d, one, "agent", b->shares[i].agent);
		json_push(d, agents, one);
	}
	json_set(d, o, "agents", agents);
	return o;
}

struct json *ledger_write(const struct ledger *l, usec now, struct json_doc *d)
{
	struct json *o = json_obj(d), *rows = json_arr(d), *marks = json_arr(d),
		    *sessions = json_arr(d), *budgets = json_arr(d);
	char text[CLOCK_TEXT_MAX];

	for (size_t i = 0; i < l->n_rows; i++) {
		struct json *one = costs_write(&l->rows[i].used, d);

		put_payer(d, one, &l->rows[i].who);
		json_push(d, rows, one);
	}
	for (size_t i = 0; i < l->n_marks; i++)
		json_push(d, marks, mark_write(&l->marks[i], d));
	for (size_t i = 0; i < l->n_sessions; i++) {
		struct json *one = costs_write(&l->sessions[i].used, d);

		json_set_str(d, one, "uid", l->sessions[i].uid);
		put_text(d, one, "name", l->sessions[i].name);
		json_push(d, sessions, one);
	}
	for (size_t i = 0; i < l->n_budgets; i++)
		json_push(d, budgets, budget_write(&l->budgets[i], d));
	clock_format(now, text);
	json_set(d, o, "rows", rows);
	json_set(d, o, "marks", marks);
	json_set(d, o, "sessions", sessions);
	json_set(d, o, "budgets", budgets);
	json_set_str(d, o, "counted", text);
	return o;
}

void ledger_name(usec at, unsigned days, char ret[LEDGER_NAME_MAX])
{
	char text[CLOCK_TEXT_MAX];

	clock_format(at - (usec)days * 24 * 3600 * 1000000, text);
	(void)snprintf(ret, LEDGER_NAME_MAX, "%.10s", text);
}
