/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay top`: what sandboxes use, as metrics.k8s.io reports it. On a terminal the table is drawn
 * again every few seconds; elsewhere it is printed once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/meta.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "cli/sandbox/sandbox_priv.h"

const struct setting top_settings[] = {
	{ "all-namespaces", SETTING_BOOL, "false", NULL, "In all namespaces", .letter = 'A' },
	{ "once", SETTING_BOOL, "false", NULL, "Print once, also on a terminal" },
	{ "interval", SETTING_DURATION, "2s", "TIME", "How often to look", .max = 3600 * 1000 },
	{ "sort", SETTING_CHOICE, "cpu", "BY", "Order of the rows: cpu, memory or name",
	  .choices = (const char *const[]){ "cpu", "memory", "name", NULL } },
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

static const char *const heads[] = { "NAMESPACE", "NAME", "CLAIM", "CPU", "MEMORY", NULL };

struct use {
	const char *ns, *name, *claim;
	int64_t cpu_milli, memory;
};

struct view {
	struct use *rows;
	size_t n;
	struct json_doc *metrics, *sandboxes; /* own the texts */
	struct map *claims;                   /* "ns/sandbox" → claim, borrowed */
};

static void view_done(struct view *v)
{
	free(v->rows);
	map_free(v->claims);
	json_doc_free(v->metrics);
	json_doc_free(v->sandboxes);
}

static int64_t milli(const struct json *quantity)
{
	int64_t value = 0;

	err_free(quantity ? quantity_parse_milli(quantity, &value) : NULL); /* unknown is 0 */
	return value;
}

/* "NS/NAME" of an object; malloc'd. */
static char *key_of(const struct json *o)
{
	const struct json *meta = json_get(o, "metadata");

	return xasprintf("%s/%s", str_or(json_get_str(meta, "namespace"), ""),
			 str_or(json_get_str(meta, "name"), ""));
}

static void read_claims(struct view *v)
{
	v->claims = map_new(NULL);
	json_each(it, json_get(json_root(v->sandboxes), "items")) {
		autofree char *key = key_of(it.val);
		const char *claim = "";

		json_each(ref, json_at_path(it.val, "metadata.ownerReferences"))
			if (str_eq(json_get_str(ref.val, "kind"), "SandboxClaim"))
				claim = str_or(json_get_str(ref.val, "name"), "");
		map_put(v->claims, key, (void *)claim);
	}
}

/* Only Pods of sandboxes are shown. */
static void read_rows(struct view *v)
{
	const struct json *items = json_get(json_root(v->metrics), "items");

	v->rows = xnew_n(struct use, json_len(items) + 1);
	json_each(it, items) {
		autofree char *key = key_of(it.val);
		struct use *u = &v->rows[v->n];

		if (!map_has(v->claims, key))
			continue;
		*u = (struct use){ .ns = json_str(json_at_path(it.val, "metadata.namespace")),
				   .name = json_str(json_at_path(it.val, "metadata.name")),
				   .claim = map_get(v->claims, key) };
		json_each(c, json_get(it.val, "containers")) {
			u->cpu_milli += milli(json_at_path(c.val, "usage.cpu"));
			u->memory += milli(json_at_path(c.val, "usage.memory")) / 1000;
		}
		v->n++;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct use *x = a, *y = b;
	int r = strcmp(str_or(x->ns, ""), str_or(y->ns, ""));

	return r ? r : strcmp(str_or(x->name, ""), str_or(y->name, ""));
}

static int by_cpu(const void *a, const void *b)
{
	const struct use *x = a, *y = b;
	int r = (x->cpu_milli < y->cpu_milli) - (x->cpu_milli > y->cpu_milli);

	return r ? r : by_name(a, b);
}

static int by_memory(const void *a, const void *b)
{
	const struct use *x = a, *y = b;
	int r = (x->memory < y->memory) - (x->memory > y->memory);

	return r ? r : by_name(a, b);
}

static struct err *look(struct remote *r, const struct settings *s, struct view *v)
{
	const char *ns = settings_bool(s, "all-namespaces") ? NULL : remote_ns(r);
	autofree char *sandboxes = path_sandboxes(ns, NULL);
	autofree char *metrics = xasprintf("/apis/metrics.k8s.io/v1beta1%s%s/pods",
					   ns ? "/namespaces/" : "", ns ? ns : "");
	const char *sort = settings_text(s, "sort");
	struct err *e = remote_get(r, metrics, &v->metrics);

	if (!e)
		e = remote_get(r, sandboxes, &v->sandboxes);
	if (e)
		return e;
	read_claims(v);
	read_rows(v);
	qsort(v->rows, v->n, sizeof(*v->rows),
	      str_eq(sort, "cpu")      ? by_cpu
	      : str_eq(sort, "memory") ? by_memory
				       : by_name);
	return NULL;
}

static void show_text(const struct view *v, bool everywhere, struct buf *out)
{
	autoptr(grid) g = grid_new(everywhere ? heads : heads + 1);

	for (size_t i = 0; i < v->n; i++) {
		const struct use *u = &v->rows[i];
		autofree char *cpu = xasprintf("%lldm", (long long)u->cpu_milli);
		char memory[TERM_SIZE_MAX];

		term_size((double)u->memory, memory);
		if (everywhere)
			grid_cell(g, TERM_PLAIN, u->ns);
		grid_cell(g, TERM_PLAIN, u->name);
		grid_cell(g, TERM_PLAIN, u->claim);
		grid_cell(g, TERM_PLAIN, cpu);
		grid_cell(g, TERM_PLAIN, memory);
	}
	grid_write(g, true, term_has_colour(STDOUT_FILENO), out);
}

static void show_json(const struct view *v, const char *format)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *items = json_need_arr(d, o, "items");

	json_set_root(d, o);
	for (size_t i = 0; i < v->n; i++) {
		struct json *row = json_obj(d);

		json_set_str(d, row, "namespace", v->rows[i].ns);
		json_set_str(d, row, "name", v->rows[i].name);
		json_set_str(d, row, "claim", *v->rows[i].claim ? v->rows[i].claim : NULL);
		json_set_int(d, row, "cpu_milli", v->rows[i].cpu_milli);
		json_set_int(d, row, "memory_bytes", v->rows[i].memory);
		json_push(d, items, row);
	}
	cli_print(o, format);
}

static struct err *show(struct remote *r, const struct settings *s, bool live)
{
	struct view v = { 0 };
	autobuf out = { 0 };
	struct err *e = look(r, s, &v);

	if (!e && !str_eq(settings_text(s, "output"), "text")) {
		show_json(&v, settings_text(s, "output"));
	} else if (!e) {
		if (live)
			buf_add_str(&out, "\033[H\033[2J");
		show_text(&v, settings_bool(s, "all-namespaces"), &out);
		cli_write(&out);
	}
	view_done(&v);
	return e;
}

int top_run(const struct command *c unused, const struct settings *s)
{
	bool live = isatty(STDOUT_FILENO) && !settings_bool(s, "once") &&
		    str_eq(settings_text(s, "output"), "text");
	uint64_t interval = (uint64_t)MAX(settings_int(s, "interval"), (int64_t)100);
	autoptr(remote) r = NULL;
	struct err *e = remote_open(s, &r);

	if (!e)
		e = show(r, s, live);
	while (!e && live) {
		e = remote_pause(r, interval);
		if (!e)
			e = show(r, s, live);
	}
	return e ? cli_fail(err_wrap(e, "top")) : EXIT_OK;
}
