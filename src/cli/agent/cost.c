/* SPDX-License-Identifier: Apache-2.0 */
/* `cay cost`: who used what, added up from ledgers, or from sessions. */
#include <string.h>
#include <unistd.h>

#include "api/cay/ledger.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/agent/agent_priv.h"
#include "cli/sandbox/term.h"

static const char *const bys[] = { "agent", "user", "template", "session", NULL };
static const char *const by_heads[] = { "AGENT", "USER", "TEMPLATE", "SESSION" };

const struct setting cost_settings[] = {
	{ "by", SETTING_CHOICE, "agent", "WHAT",
	  "What is added up: agent, user, template or session", .choices = bys },
	{ "since", SETTING_TEXT, NULL, "WHEN",
	  "From the day (UTC) of WHEN on: a time before now, such as 24h, or a date, such as "
	  "2026-11-01 (default: all that is known)" },
	LIST_SETTING,
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

struct line {
	char *ns, *who;
	struct costs used;
};
struct bill {
	struct map *by_key; /* "NS/who" → struct line, owned by lines */
	struct line **lines;
	size_t n;
	struct costs total;
};

static void bill_done(struct bill *b)
{
	for (size_t i = 0; i < b->n; i++) {
		free(b->lines[i]->ns);
		free(b->lines[i]->who);
		free(b->lines[i]);
	}
	free(b->lines);
	map_free(b->by_key);
}

static void bill_add(struct bill *b, const char *ns, const char *who, const struct json *costs)
{
	autofree char *key = xasprintf("%s/%s", ns, who);
	struct line *l = map_get(b->by_key, key);
	struct costs more;

	if (!l) {
		l = xnew(struct line);
		*l = (struct line){ .ns = xstrdup(ns), .who = xstrdup(who) };
		map_put(b->by_key, key, l);
		b->lines = xrealloc(b->lines, (b->n + 1) * sizeof(*b->lines));
		b->lines[b->n++] = l;
	}
	costs_read(costs, 0, &more);
	costs_add(&l->used, &more);
	costs_add(&b->total, &more);
}

/* Those that used most of a processor first. */
static int by_use(const void *a, const void *b)
{
	const struct line *x = *(struct line *const *)a, *y = *(struct line *const *)b;

	for (enum cost i = 0; i < COST_MAX_; i++)
		if (x->used.of[i] != y->used.of[i])
			return x->used.of[i] > y->used.of[i] ? -1 : 1;
	return strcmp(x->who, y->who);
}

/* Reading */

static const char *ns_of(const struct json *o)
{
	return str_or(json_str(json_at_path(o, "metadata.namespace")), "");
}

static void add_ledgers(struct bill *b, const struct json *items, const char *by, const char *since)
{
	json_each(it, items) {
		if (since &&
		    strcmp(str_or(json_str(json_at_path(it.val, "metadata.name")), ""), since) < 0)
			continue;
		json_each(row, json_at_path(it.val, "status.rows"))
			bill_add(b, ns_of(it.val), str_or(json_get_str(row.val, by), ""), row.val);
	}
}

static void add_sessions(struct bill *b, const struct json *items)
{
	json_each(it, items) {
		const struct json *cost = json_at_path(it.val, "status.cost");

		if (cost)
			bill_add(b, ns_of(it.val),
				 str_or(json_str(json_at_path(it.val, "metadata.name")), ""), cost);
	}
}

static bool is_date(const char *text)
{
	autofree char *whole = xasprintf("%sT00:00:00Z", text);
	usec at;
	struct err *e = clock_parse(whole, &at);
	bool ok = !e && strlen(text) == 10;

	err_free(e);
	return ok;
}

/* The first day, as the name of its ledger. */
static struct err *first_day(const char *since, char ret[LEDGER_NAME_MAX])
{
	uint64_t ms;
	struct err *e;

	if (is_date(since)) {
		memcpy(ret, since, 11);
		return NULL;
	}
	e = parse_duration_ms(since, &ms);
	if (e || ms > (uint64_t)36500 * 24 * 3600 * 1000) {
		err_free(e);
		return err_new(ERR_INVALID,
			       "--since is a time such as 24h, or a date such as 2026-11-01: %s",
			       since);
	}
	ledger_name(clock_wall() - (usec)ms * 1000, 0, ret);
	return NULL;
}

/* Printing */

static void costs_cells(struct grid *g, const struct costs *c)
{
	char text[COST_TEXT_MAX];

	for (enum cost i = 0; i < COST_MAX_; i++) {
		cost_text(i, c->of[i], text);
		/* Billionths are for sums; people see thousandths. */
		if (strchr(text, '.') && strlen(strchr(text, '.')) > 4)
			strchr(text, '.')[4] = '\0';
		grid_cell(g, TERM_PLAIN, text);
	}
}

static const char *head_of(const char *by)
{
	size_t i = 0;

	while (!str_eq(bys[i], by))
		i++;
	return by_heads[i];
}

static void print_table(const struct bill *b, const char *by, bool everywhere)
{
	const char *heads[] = { "NAMESPACE", head_of(by),     "CPU-SECONDS", "MEMORY-GIBH",
				"DISK-GIBH", "NETWORK-BYTES", NULL };
	autoptr(grid) g = grid_new(everywhere ? heads : heads + 1);
	autobuf out = { 0 };

	for (size_t i = 0; i < b->n; i++) {
		if (everywhere)
			grid_cell(g, TERM_PLAIN, b->lines[i]->ns);
		grid_cell(g, TERM_PLAIN, *b->lines[i]->who ? b->lines[i]->who : "-");
		costs_cells(g, &b->lines[i]->used);
	}
	if (everywhere)
		grid_cell(g, TERM_BOLD, "");
	grid_cell(g, TERM_BOLD, "TOTAL");
	costs_cells(g, &b->total);
	grid_write(g, true, term_has_colour(STDOUT_FILENO), &out);
	cli_write(&out);
}

static void print_tree(const struct bill *b, const char *by, const char *format)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d), *items = json_arr(d);

	json_set_root(d, root);
	for (size_t i = 0; i < b->n; i++) {
		struct json *one = costs_write(&b->lines[i]->used, d);

		json_set_str(d, one, "namespace", b->lines[i]->ns);
		json_set_str(d, one, by, b->lines[i]->who);
		json_push(d, items, one);
	}
	json_set(d, root, "items", items);
	json_set(d, root, "total", costs_write(&b->total, d));
	cli_print(root, format);
}

static struct err *show(struct remote *r, const struct settings *s)
{
	static const struct cay_kind ledgers = { "ledgers", "ledger", NULL };
	const char *by = settings_text(s, "by"), *since = settings_text(s, "since");
	bool sessions = str_eq(by, "session"), everywhere = settings_bool(s, "all-namespaces");
	autofree char *path = cay_path(sessions ? &kind_sessions : &ledgers,
				       everywhere ? NULL : remote_ns(r), NULL);
	struct bill b = { .by_key = map_new(NULL) };
	autoptr(json_doc) doc = NULL;
	char day[LEDGER_NAME_MAX];
	struct err *e = NULL;

	if (since && sessions)
		e = err_new(ERR_INVALID, "--since cannot be used with --by session: what a "
					 "session has used is known from its beginning");
	else if (since)
		e = first_day(since, day);
	if (!e)
		e = remote_get(r, path, &doc);
	if (!e && sessions)
		add_sessions(&b, json_get(json_root(doc), "items"));
	else if (!e)
		add_ledgers(&b, json_get(json_root(doc), "items"), by, since ? day : NULL);
	if (b.n)
		qsort(b.lines, b.n, sizeof(*b.lines), by_use);
	if (!e && str_eq(settings_text(s, "output"), "text"))
		print_table(&b, by, everywhere);
	else if (!e)
		print_tree(&b, by, settings_text(s, "output"));
	bill_done(&b);
	return e;
}

int cost_cmd(const struct command *c, const struct settings *s)
{
	return names_run(c, s, 0, show);
}
