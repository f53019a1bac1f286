/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay ls`: the sandboxes of a namespace, or of all, with what they belong to. A row is made from
 * the Sandbox alone: its owner reference names the claim or the pool, its annotation the template.
 */
#include <stdio.h>
#include <unistd.h>

#include "api/agents.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/sandbox/sandbox_priv.h"

enum {
	AGAIN_MS = 200, /* a watch that ended is begun anew */
};

static const char *const formats[] = { "text", "json", "yaml", "name", NULL };

const struct setting ls_settings[] = {
	{ "all-namespaces", SETTING_BOOL, "false", NULL, "In all namespaces", .letter = 'A' },
	{ "watch", SETTING_BOOL, "false", NULL, "Go on with a line for each change",
	  .letter = 'w' },
	REMOTE_SETTINGS,
	{ "output", SETTING_CHOICE, "text", "FORMAT", "Output format: text, json, yaml or name",
	  .choices = formats, .letter = 'o' },
	{ 0 },
};

static const char *const heads[] = { "NAMESPACE", "NAME", "STATE",   "CLAIM", "POOL",
				     "TEMPLATE",  "AGE",  "ADDRESS", NULL };

struct ls {
	struct feed feed;
	bool everywhere, colour;
	const char *format;
	char *revision; /* to watch from; NULL: all of it again */
	struct err *e;
};

static const char *owner(const struct json *meta, const char *kind)
{
	json_each(it, json_get(meta, "ownerReferences"))
		if (str_eq(json_get_str(it.val, "kind"), kind))
			return json_get_str(it.val, "name");
	return NULL;
}

/* By idleness, as its condition says; that follows the mode a moment later. */
static bool is_asleep(const struct json *o)
{
	const struct json *c = condition_of(o, "Asleep");
	bool suspended = str_eq(json_str(json_at_path(o, "spec.operatingMode")), "Suspended");

	return str_eq(json_get_str(c, "status"), "True") &&
	       str_eq(json_get_str(c, "reason"), "Suspended") == suspended;
}

/* In one word. */
static const char *state_of(const struct json *o, enum term_style *style)
{
	const struct json *ready = condition_of(o, "Ready");

	*style = TERM_WARN;
	if (json_at_path(o, "metadata.deletionTimestamp"))
		return "Ending";
	*style = TERM_DIM;
	if (is_asleep(o))
		return "Asleep";
	if (str_eq(json_str(json_at_path(o, "spec.operatingMode")), "Suspended"))
		return "Suspended";
	*style = TERM_WARN;
	if (is_ready(o)) {
		*style = TERM_GOOD;
		return "Ready";
	}
	if (str_eq(json_get_str(condition_of(o, "Finished"), "status"), "True")) {
		*style = TERM_BAD;
		return "Finished";
	}
	return str_or(json_get_str(ready, "reason"), "Pending");
}

/* A sandbox of ours: {namespace,name,state,ready,claim,pool,template,age,address} */
static struct json *row_of(struct json_doc *d, const struct json *o, enum term_style *style)
{
	const struct json *meta = json_get(o, "metadata");
	const char *created = json_get_str(meta, "creationTimestamp");
	struct json *row = json_obj(d);
	char age[TERM_AGE_MAX] = "";
	usec at;

	if (created) {
		struct err *e = clock_parse(created, &at);

		if (!e)
			term_age(clock_wall() - at, age);
		err_free(e);
	}
	json_set_str(d, row, "namespace", json_get_str(meta, "namespace"));
	json_set_str(d, row, "name", json_get_str(meta, "name"));
	json_set_str(d, row, "state", state_of(o, style));
	json_set_bool(d, row, "ready", is_ready(o));
	json_set_bool(d, row, "asleep", is_asleep(o));
	json_set_str(d, row, "claim", owner(meta, "SandboxClaim"));
	json_set_str(d, row, "pool", owner(meta, "SandboxWarmPool"));
	json_set_str(d, row, "template",
		     json_get_str(json_get(meta, "annotations"), KEY_TEMPLATE_REF));
	json_set_str(d, row, "age", age);
	json_set_str(d, row, "created", created);
	json_set_str(d, row, "address", json_str(json_at_path(o, "status.podIPs.0")));
	return row;
}

static void grid_row(const struct ls *l, struct grid *g, const struct json *row,
		     enum term_style style)
{
	if (l->everywhere)
		grid_cell(g, TERM_PLAIN, json_get_str(row, "namespace"));
	grid_cell(g, TERM_PLAIN, json_get_str(row, "name"));
	grid_cell(g, style, json_get_str(row, "state"));
	grid_cell(g, TERM_PLAIN, json_get_str(row, "claim"));
	grid_cell(g, TERM_PLAIN, json_get_str(row, "pool"));
	grid_cell(g, TERM_PLAIN, json_get_str(row, "template"));
	grid_cell(g, TERM_PLAIN, json_get_str(row, "age"));
	grid_cell(g, TERM_PLAIN, json_get_str(row, "address"));
}

/* Names for completion: those that other commands take. */
static void print_names(const struct json *rows)
{
	autobuf out = { 0 };

	json_each(it, rows) {
		const char *claim = json_get_str(it.val, "claim");

		if (claim)
			buf_printf(&out, "%s\n", claim);
		buf_printf(&out, "%s\n", str_or(json_get_str(it.val, "name"), ""));
	}
	cli_write(&out);
}

static void print_rows(const struct ls *l, const struct json *items, bool first)
{
	autoptr(grid) g = grid_new(l->everywhere ? heads : heads + 1);
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *rows = json_need_arr(d, o, "items");
	autobuf out = { 0 };

	json_set_root(d, o);
	json_each(it, items) {
		enum term_style style;
		struct json *row = row_of(d, it.val, &style);

		grid_row(l, g, row, style);
		json_push(d, rows, row);
	}
	if (str_eq(l->format, "name")) {
		print_names(rows);
	} else if (!str_eq(l->format, "text")) {
		cli_print(first ? o : json_at(rows, 0), l->format);
	} else {
		grid_write(g, first, l->colour, &out);
		cli_write(&out);
		if (first && !json_len(rows) && isatty(STDERR_FILENO))
			(void)fprintf(stderr,
				      "no sandboxes here; `cay run -- COMMAND` makes one\n");
	}
}

static bool on_event(struct feed *f, const char *p, size_t len)
{
	struct ls *l = container_of(f, struct ls, feed);
	autoptr(json_doc) doc = NULL;
	const struct json *o;
	struct json *one;

	l->e = json_parse(p, len, NULL, &doc);
	free(take(l->revision));
	if (l->e || str_eq(json_get_str(json_root(doc), "type"), "ERROR"))
		return false; /* ERROR: the revision is too old to go on from */
	o = json_get(json_root(doc), "object");
	l->revision = xstrdup(json_str(json_at_path(o, "metadata.resourceVersion")));
	if (str_eq(json_get_str(json_root(doc), "type"), "BOOKMARK"))
		return true;
	one = json_arr(doc);
	json_push(doc, one, json_copy(doc, o));
	print_rows(l, one, false);
	return true;
}

static struct err *ls(struct remote *r, const struct settings *s)
{
	struct ls l = { .feed = { .line = on_event },
			.everywhere = settings_bool(s, "all-namespaces"),
			.colour = term_has_colour(STDOUT_FILENO),
			.format = settings_text(s, "output") };
	autofree char *path = path_sandboxes(l.everywhere ? NULL : remote_ns(r), NULL);
	autoptr(json_doc) doc = NULL;
	struct err *e = remote_get(r, path, &doc);

	if (e)
		return e;
	l.revision = xstrdup(json_str(json_at_path(json_root(doc), "metadata.resourceVersion")));
	print_rows(&l, json_get(json_root(doc), "items"), true);
	while (!e && settings_bool(s, "watch")) {
		autofree char *watch =
			xasprintf("%s?watch=true&resourceVersion=%s", path, str_or(l.revision, ""));

		e = remote_feed(r, watch, &l.feed);
		if (!e)
			e = take(l.e);
		if (!e)
			e = remote_pause(r, AGAIN_MS);
	}
	free(l.revision);
	return e;
}

int ls_run(const struct command *c unused, const struct settings *s)
{
	autoptr(remote) r = NULL;
	struct err *e = remote_open(s, &r);

	if (!e)
		e = ls(r, s);
	return e ? cli_fail(err_wrap(e, "ls")) : EXIT_OK;
}
