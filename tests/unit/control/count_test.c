/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cost/count.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/cay/ledger.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "test.h"

/* The arithmetic of ledgers: tables, and random use with a crash at any point. */

#define S   1000000LL
#define DAY ((usec)24 * 3600 * S)
#define T0  ((usec)1800000000 * S)

static const struct count_budget forever = { "ub", "b", T0, 0 };
static const struct count_budget *const against[] = { &forever, NULL };

static struct count_source source(const char *uid, const char *agent, int64_t cpu_us)
{
	return (struct count_source){ .uid = uid,
				      .known = true,
				      .who = { agent, "", "" },
				      .session = "",
				      .session_uid = "",
				      .budgets = against,
				      .total.of = { [COST_CPU_US] = cpu_us } };
}

TEST(what_is_beyond_the_mark_is_added_once_and_a_mark_never_goes_back)
{
	autoptr(arena) a = arena_new();
	struct ledger l;
	struct count ct;
	struct count_source s = source("u", "x", 5 * S);

	ledger_read(NULL, 4, a, &l);
	count_begin(&ct, &l, T0, a);
	is_true(count_source(&ct, &s));
	is_false(count_source(&ct, &s));
	s.total.of[COST_CPU_US] = 3 * S; /* an old file */
	is_false(count_source(&ct, &s));
	s.total.of[COST_CPU_US] = 6 * S;
	is_true(count_source(&ct, &s));
	eq_int(l.n_rows, 1);
	eq_int(l.rows[0].used.of[COST_CPU_US], 6 * S);
	eq_int(l.budgets[0].used.of[COST_CPU_US], 6 * S);
	eq_int(l.budgets[0].shares[0].used.of[COST_CPU_US], 6 * S);
	count_done(&ct);
}

TEST(who_paid_before_pays_when_nobody_knows_any_more)
{
	autoptr(arena) a = arena_new();
	struct ledger l;
	struct count ct;
	struct count_source s = source("u", "x", 5 * S);

	ledger_read(NULL, 4, a, &l);
	count_begin(&ct, &l, T0, a);
	(void)count_source(&ct, &s);
	s = source("u", "", 9 * S);
	s.known = false;
	(void)count_source(&ct, &s);
	eq_int(l.n_rows, 1);
	eq_str(l.rows[0].who.agent, "x");
	eq_int(l.rows[0].used.of[COST_CPU_US], 9 * S);
	count_done(&ct);
}

TEST(what_is_too_much_for_rows_shares_and_marks_is_in_the_sums_or_waits)
{
	autoptr(arena) a = arena_new();
	struct ledger l;
	struct count ct;
	size_t n = LEDGER_MARKS_MAX + 10;

	ledger_read(NULL, n, a, &l);
	count_begin(&ct, &l, T0, a);
	for (size_t i = 0; i < n; i++) {
		struct count_source s =
			source(arena_printf(a, "u%zu", i), arena_printf(a, "agent-%zu", i), S);

		(void)count_source(&ct, &s);
	}
	eq_int(l.n_rows, LEDGER_ROWS_MAX + 1);
	eq_str(l.rows[LEDGER_ROWS_MAX].who.agent, LEDGER_OTHERS);
	eq_int(l.n_marks + ct.n_waiting, n);
	is_true(l.n_marks <= LEDGER_MARKS_MAX);
	eq_int(l.rows[LEDGER_ROWS_MAX].used.of[COST_CPU_US],
	       (int64_t)(l.n_marks - LEDGER_ROWS_MAX) * S);
	eq_int(l.budgets[0].n_shares, LEDGER_SHARES_MAX + 1);
	eq_int(l.budgets[0].used.of[COST_CPU_US], (int64_t)l.n_marks * S);
	count_done(&ct);
}

TEST(a_ledger_of_the_longest_names_stays_below_the_size_of_an_object)
{
	autoptr(arena) a = arena_new();
	autoptr(json_doc) d = json_doc_new();
	autofree char *text = NULL;
	char name[254];
	struct ledger l;
	struct count ct;

	memset(name, 'n', 253);
	name[253] = '\0';
	ledger_read(NULL, LEDGER_MARKS_MAX, a, &l);
	count_begin(&ct, &l, T0, a);
	for (size_t i = 0; i < LEDGER_MARKS_MAX; i++) {
		struct count_source s =
			source(arena_printf(a, "00000000-0000-4000-8000-%012zu", i),
			       arena_printf(a, "%.247s%06zu", name, i), INT64_MAX / 2);

		s.who.user = name;
		s.who.template = name;
		s.session = s.who.agent;
		s.session_uid = s.uid;
		for (enum cost c = 0; c < COST_MAX_; c++)
			s.total.of[c] = INT64_MAX / (int64_t)LEDGER_MARKS_MAX;
		(void)count_source(&ct, &s);
	}
	is_true(ct.n_waiting > 0);
	json_set_root(d, ledger_write(&l, T0, d));
	text = json_to_text(json_root(d));
	is_true(strlen(text) < (size_t)3 << 20);
	count_done(&ct);
}

TEST(a_period_begins_anew_at_whole_multiples_and_a_budget_that_is_gone_is_forgotten)
{
	autoptr(arena) a = arena_new();
	const struct count_budget hourly = { "ub", "b", T0, (usec)3600 * S };
	struct count_source s = source("u", "x", 5 * S);
	struct ledger l;
	struct count ct;

	ledger_read(NULL, 4, a, &l);
	count_begin(&ct, &l, T0, a);
	(void)count_source(&ct, &s);
	ct.now = T0 + 3599 * S;
	count_budgets(&ct, &hourly, 1);
	eq_int(l.budgets[0].used.of[COST_CPU_US], 5 * S);
	ct.now = T0 + 2 * 3600 * S + 5;
	count_budgets(&ct, &hourly, 1);
	eq_int(l.budgets[0].used.of[COST_CPU_US], 0);
	eq_int(l.budgets[0].n_shares, 0);
	eq_int(l.budgets[0].start, T0 + 2 * 3600 * S);
	s.total.of[COST_CPU_US] = 6 * S;
	(void)count_source(&ct, &s);
	eq_int(l.budgets[0].used.of[COST_CPU_US], 1 * S);
	count_budgets(&ct, NULL, 0);
	eq_int(l.n_budgets, 0);
	count_done(&ct);
}

TEST(what_counts_first_in_a_later_period_is_not_taken_for_that_of_an_earlier_one)
{
	autoptr(arena) a = arena_new();
	const struct count_budget hourly = { "ub", "b", T0, (usec)3600 * S };
	const struct count_budget *const those[] = { &hourly, NULL };
	struct count_source s = source("u", "x", 5 * S);
	struct ledger l;
	struct count ct;

	s.budgets = those;
	ledger_read(NULL, 4, a, &l);
	count_begin(&ct, &l, T0 + 5 * 3600 * S + 7, a);
	(void)count_source(&ct, &s);
	eq_int(l.budgets[0].start, T0 + 5 * 3600 * S);
	count_budgets(&ct, &hourly, 1);
	eq_int(l.budgets[0].used.of[COST_CPU_US], 5 * S);
	count_done(&ct);
}

/*
 * Random use and crashes. A node has counters that survive it, and forgets a source only after it
 * was settled and that was written down. What is stored of the ledger is text, as on a disk.
 */
enum {
	SOURCES = 40,
	STEPS = 400,
	DAYS = 400,
};
struct model {
	struct costs used[SOURCES]; /* as the kernel has it */
	enum {
		SOURCE_LIVES,
		SOURCE_OVER,
		SOURCE_SETTLED, /* told of until the file is without it */
		SOURCE_FORGOTTEN,
	} state[SOURCES];
	char *stored[DAYS]; /* ledgers */
	unsigned day;
	unsigned seed;
};

static unsigned rnd(struct model *m, unsigned n)
{
	return (unsigned)rand_r(&m->seed) % n;
}

static struct json_doc *stored_doc(const struct model *m, unsigned day)
{
	struct json_doc *d = NULL;

	if (m->stored[day])
		works(json_parse(m->stored[day], strlen(m->stored[day]), NULL, &d));
	return d;
}

static int newest_day(const struct model *m)
{
	for (int i = DAYS - 1; i >= 0; i--)
		if (m->stored[i])
			return i;
	return -1;
}

/* One pass: settle what the stored ledger covers, count, and write unless it crashes before. */
static void keep_once(struct model *m, bool crash_before_write)
{
	autoptr(arena) a = arena_new();
	int newest = newest_day(m);
	autoptr(json_doc) old = newest >= 0 ? stored_doc(m, (unsigned)newest) : NULL;
	autoptr(json_doc) out = json_doc_new();
	struct ledger l;
	struct count ct;

	ledger_read(json_root(old), SOURCES, a, &l);
	if (newest < (int)m->day)
		l.n_rows = 0;
	count_begin(&ct, &l, T0, a);
	for (unsigned i = 0; i < SOURCES; i++)
		if (m->state[i] == SOURCE_OVER &&
		    count_covers(&ct, arena_printf(a, "u%u", i), &m->used[i]))
			m->state[i] = SOURCE_SETTLED;
	count_budgets(&ct, &forever, 1);
	for (unsigned i = 0; i < SOURCES; i++) {
		struct count_source s =
			source(arena_printf(a, "u%u", i), arena_printf(a, "agent-%u", i % 7), 0);

		if (m->state[i] == SOURCE_FORGOTTEN)
			continue;
		s.total = m->used[i];
		s.session = s.session_uid = arena_printf(a, "s%u", i % 3);
		(void)count_source(&ct, &s);
	}
	count_end(&ct);
	if (ct.changed && !crash_before_write) {
		unsigned day = newest > (int)m->day ? (unsigned)newest : m->day;

		json_set_root(out, ledger_write(&l, T0, out));
		free(m->stored[day]);
		m->stored[day] = json_to_text(json_root(out));
	}
	count_done(&ct);
}

static void use_some(struct model *m)
{
	for (unsigned i = 0; i < SOURCES; i++) {
		if (m->state[i] != SOURCE_LIVES)
			continue;
		m->used[i].of[COST_CPU_US] += rnd(m, 5000000);
		m->used[i].of[COST_MEMORY_BYTE_S] += (int64_t)rnd(m, 1 << 30) * 37;
		m->used[i].of[COST_DISK_BYTE_S] += rnd(m, 3) ? rnd(m, 100) : 0;
		m->used[i].of[COST_NETWORK_BYTES] += rnd(m, 1000);
		if (!rnd(m, 200))
			m->state[i] = SOURCE_OVER;
	}
}

/* The node's file is written: those that are settled are not in it, and are forgotten. */
static void write_file(struct model *m)
{
	for (unsigned i = 0; i < SOURCES; i++)
		if (m->state[i] == SOURCE_SETTLED)
			m->state[i] = SOURCE_FORGOTTEN;
}

/* Killed: that something was settled is not remembered. */
static void restart(struct model *m)
{
	for (unsigned i = 0; i < SOURCES; i++)
		if (m->state[i] == SOURCE_SETTLED)
			m->state[i] = SOURCE_OVER;
}

static struct costs sum_of_rows(const struct model *m)
{
	struct costs sum = { 0 };

	for (unsigned i = 0; i < DAYS; i++) {
		autoptr(arena) a = arena_new();
		autoptr(json_doc) d = stored_doc(m, i);
		struct ledger l;

		ledger_read(json_root(d), 0, a, &l);
		for (size_t k = 0; k < l.n_rows; k++)
			costs_add(&sum, &l.rows[k].used);
	}
	return sum;
}

static void check_sums(const struct model *m)
{
	autoptr(arena) a = arena_new();
	autoptr(json_doc) d = stored_doc(m, (unsigned)newest_day(m));
	struct costs want = { 0 }, rows = sum_of_rows(m), sessions = { 0 };
	struct ledger l;

	for (unsigned i = 0; i < SOURCES; i++) {
		struct costs c = m->used[i];

		costs_round(&c);
		costs_add(&want, &c);
	}
	ledger_read(json_root(d), 0, a, &l);
	for (size_t k = 0; k < l.n_sessions; k++)
		costs_add(&sessions, &l.sessions[k].used);
	eq_int(l.n_marks, 0); /* all are forgotten */
	eq_int(rows.of[COST_CPU_US], want.of[COST_CPU_US]);
	eq_int(rows.of[COST_NETWORK_BYTES], want.of[COST_NETWORK_BYTES]);
	/* Billionths of GiB-hours are whole multiples of 3,865 and a half, which are not whole. */
	for (enum cost c = 0; c < COST_MAX_; c++) {
		is_true(llabs(rows.of[c] - want.of[c]) < 3866 * 2);
		is_true(llabs(l.budgets[0].used.of[c] - want.of[c]) < 3866 * 2);
		is_true(llabs(sessions.of[c] - want.of[c]) < 3866 * 2);
	}
}

TEST(whatever_crashes_when_nothing_is_lost_or_counted_twice)
{
	for (unsigned round = 0; round < 30; round++) {
		struct model m = { .seed = round + 1 };

		for (unsigned i = 0; i < STEPS; i++) {
			use_some(&m);
			keep_once(&m, !rnd(&m, 4));
			if (!rnd(&m, 3))
				write_file(&m);
			if (!rnd(&m, 5))
				restart(&m);
			if (!rnd(&m, 50))
				m.day++;
			if (!rnd(&m, 100) && m.day)
				m.day--; /* a clock that goes back */
		}
		for (unsigned i = 0; i < SOURCES; i++)
			m.state[i] = m.state[i] == SOURCE_LIVES ? SOURCE_OVER : m.state[i];
		for (unsigned i = 0; i < 4; i++) {
			keep_once(&m, false);
			write_file(&m);
		}
		check_sums(&m);
		for (unsigned i = 0; i < DAYS; i++)
			free(m.stored[i]);
	}
}
