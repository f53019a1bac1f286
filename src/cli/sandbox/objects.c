/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay get` and `cay apply`: objects of any kind that this program knows, so that a machine without
 * kubectl can be used all the same. apply creates what is not there and merges into what is; it
 * does not remember what an earlier file had.
 */
#include <stdio.h>
#include <unistd.h>

#include "api/kind.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/sandbox/sandbox_priv.h"

#define ACCEPT_TABLE "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

static const char *const get_formats[] = { "text", "json", "yaml", "name", NULL };

const struct setting get_settings[] = {
	{ "all-namespaces", SETTING_BOOL, "false", NULL, "In all namespaces", .letter = 'A' },
	{ "selector", SETTING_TEXT, NULL, "LABELS", "Only those with these labels", .letter = 'l' },
	REMOTE_SETTINGS,
	{ "output", SETTING_CHOICE, "text", "FORMAT", "Output format: text, json, yaml or name",
	  .choices = get_formats, .letter = 'o' },
	{ 0 },
};

const struct setting apply_settings[] = {
	{ "file", SETTING_LIST, NULL, "FILE",
	  "Manifests in YAML or JSON, - for standard input; may be given again", .letter = 'f' },
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

/* Malloc'd; name NULL: all; ns is left out where the kind has none. */
static char *kind_path(const struct kind *k, const char *ns, const char *name)
{
	autofree char *encoded = url_encode(name ? name : "");
	bool in_ns = ns && (k->flags & KIND_NAMESPACED);

	return xasprintf("%s%s%s%s/%s%s%s", *k->group ? "/apis/" : "/api/", k->api_version,
			 in_ns ? "/namespaces/" : "", in_ns ? ns : "", k->plural, name ? "/" : "",
			 encoded);
}

/* Get */

static bool called(const struct kind *k, const char *word)
{
	if (str_eq_nocase(k->plural, word) || str_eq_nocase(k->singular, word) ||
	    str_eq_nocase(k->kind, word))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(k->short_names) && k->short_names[i]; i++)
		if (str_eq(k->short_names[i], word))
			return true;
	return false;
}

/* Of several versions the one that is stored. */
static const struct kind *find_kind(const struct kinds *ks, const char *word)
{
	size_t n;
	const struct kind *const *all = kinds_all(ks, &n);

	for (size_t i = 0; i < n; i++)
		if (called(all[i], word) && !all[i]->storage && !(all[i]->flags & KIND_MEASURED))
			return all[i];
	return NULL;
}

static void cell_text(const struct json *v, struct buf *out)
{
	if (json_is(v, JSON_STR))
		buf_add_str(out, json_str(v));
	else if (v && !json_is(v, JSON_NULL))
		json_write(v, out);
}

static void put_row(struct grid *g, const struct json *row, const struct json *columns,
		    bool everywhere)
{
	const struct json *cells = json_get(row, "cells");

	if (everywhere)
		grid_cell(g, TERM_PLAIN, json_str(json_at_path(row, "object.metadata.namespace")));
	for (size_t i = 0; i < json_len(columns); i++) {
		autobuf text = { 0 };

		if (json_get_int(json_at(columns, i), "priority", 0))
			continue; /* for those who want it wide */
		cell_text(json_at(cells, i), &text);
		grid_cell(g, TERM_PLAIN, buf_str(&text));
	}
}

static void print_table(const struct json *table, bool everywhere)
{
	const struct json *columns = json_get(table, "columnDefinitions");
	autofree const char **heads = xnew_n(const char *, json_len(columns) + 2);
	autoptr(json_doc) d = json_doc_new();
	autoptr(grid) g = NULL;
	autobuf out = { 0 };
	size_t n = 0;

	if (everywhere)
		heads[n++] = "NAMESPACE";
	json_each(it, columns) {
		char *name;

		if (json_get_int(it.val, "priority", 0))
			continue;
		name = (char *)json_str(json_new_str(d, str_or(json_get_str(it.val, "name"), "?")));
		for (char *p = name; *p; p++)
			if (*p >= 'a' && *p <= 'z')
				*p = (char)(*p - 'a' + 'A');
		heads[n++] = name;
	}
	if (!n)
		return;
	g = grid_new(heads);
	json_each(it, json_get(table, "rows"))
		put_row(g, it.val, columns, everywhere);
	grid_write(g, true, term_has_colour(STDOUT_FILENO), &out);
	cli_write(&out);
}

static void print_names(const struct kind *k, const struct json *root)
{
	const struct json *items = json_get(root, "items");

	if (!items) {
		(void)printf("%s/%s\n", k->singular, json_str(json_at_path(root, "metadata.name")));
		return;
	}
	json_each(it, items)
		(void)printf("%s/%s\n", k->singular,
			     str_or(json_str(json_at_path(it.val, "metadata.name")), "?"));
}

static struct err *get(struct remote *r, const struct kinds *ks, const struct settings *s)
{
	const struct kind *k = find_kind(ks, settings_arg(s, 0));
	const char *format = settings_text(s, "output");
	const char *labels = settings_text(s, "selector");
	bool everywhere = settings_bool(s, "all-namespaces");
	autofree char *path = NULL, *full = NULL, *selector = url_encode(labels ? labels : "");
	autoptr(json_doc) doc = NULL;
	struct err *e;

	if (!k)
		return err_new(ERR_INVALID,
			       "no kind is called \"%s\" here; try sandboxes, "
			       "sandboxclaims, sandboxtemplates, sandboxwarmpools, pods",
			       settings_arg(s, 0));
	everywhere &= !settings_arg(s, 1) && (k->flags & KIND_NAMESPACED);
	path = kind_path(k, everywhere ? NULL : remote_ns(r), settings_arg(s, 1));
	full = xasprintf("%s%s%s", path, labels ? "?labelSelector=" : "", selector);
	e = remote_ask(r,
		       &(struct ask){ .path = full,
				      .accept = str_eq(format, "text") ? ACCEPT_TABLE : NULL },
		       &doc);
	if (e)
		return e;
	if (str_eq(format, "text"))
		print_table(json_root(doc), everywhere);
	else if (str_eq(format, "name"))
		print_names(k, json_root(doc));
	else
		cli_print(json_root(doc), format);
	return NULL;
}

int get_run(const struct command *c unused, const struct settings *s)
{
	autoptr(kinds) ks = kinds_new();
	autoptr(remote) r = NULL;
	struct err *e = NULL;

	if (!settings_n_args(s) || settings_n_args(s) > 2)
		e = err_new(ERR_INVALID,
			    "it needs a kind, and takes one name: cay get KIND [NAME]");
	if (!e)
		e = remote_open(s, &r);
	if (!e)
		e = get(r, ks, s);
	return e ? cli_fail(err_wrap(e, "get")) : EXIT_OK;
}

/* Apply */

struct applied {
	struct remote *r;
	struct kinds *ks;
	bool text;
	struct json_doc *doc;
	struct json *list; /* [{kind,name,namespace,result}] */
};

static void tell(struct applied *a, const struct kind *k, const struct json *object,
		 const char *result)
{
	const struct json *meta = json_get(object, "metadata");
	struct json *one = json_obj(a->doc);

	if (a->text)
		(void)printf("%s/%s %s\n", k->singular, json_get_str(meta, "name"), result);
	json_set_str(a->doc, one, "kind", k->kind);
	json_set_str(a->doc, one, "namespace", json_get_str(meta, "namespace"));
	json_set_str(a->doc, one, "name", json_get_str(meta, "name"));
	json_set_str(a->doc, one, "result", result);
	json_push(a->doc, a->list, one);
}

/* It is there: merges into it. */
static struct err *merge(struct applied *a, const struct kind *k, const char *path,
			 const char *body)
{
	autoptr(json_doc) was = NULL;
	autoptr(json_doc) now = NULL;
	struct err *e = remote_get(a->r, path, &was);

	if (!e)
		e = remote_ask(a->r,
			       &(struct ask){ .method = "PATCH",
					      .path = path,
					      .body = body,
					      .type = "application/merge-patch+json" },
			       &now);
	if (e)
		return e;
	tell(a, k, json_root(now),
	     str_eq(json_str(json_at_path(json_root(was), "metadata.resourceVersion")),
		    json_str(json_at_path(json_root(now), "metadata.resourceVersion")))
		     ? "unchanged"
		     : "changed");
	return NULL;
}

static const struct kind *kind_of(const struct kinds *ks, const char *version, const char *word)
{
	size_t n;
	const struct kind *const *all = kinds_all(ks, &n);

	for (size_t i = 0; i < n; i++)
		if (str_eq(all[i]->api_version, version) && str_eq(all[i]->kind, word))
			return all[i];
	return NULL;
}

static struct err *apply_one(struct applied *a, const struct json *object)
{
	const char *version = json_get_str(object, "apiVersion"),
		   *word = json_get_str(object, "kind");
	const struct json *meta = json_get(object, "metadata");
	const struct kind *k;
	const char *name = json_get_str(meta, "name"), *ns;
	autofree char *all = NULL, *one = NULL, *body = NULL;
	autoptr(json_doc) made = NULL;
	struct err *e;

	k = kind_of(a->ks, version, word);
	if (!k)
		return err_new(ERR_INVALID,
			       "apiVersion %s, kind %s: this program knows no such kind",
			       str_or(version, "(none)"), str_or(word, "(none)"));
	if (str_empty(name))
		return err_new(ERR_INVALID, "a %s has no metadata.name", word);
	ns = str_or(json_get_str(meta, "namespace"), remote_ns(a->r));
	all = kind_path(k, ns, NULL);
	one = kind_path(k, ns, name);
	body = json_to_text(object);
	e = remote_ask(a->r, &(struct ask){ .method = "POST", .path = all, .body = body }, &made);
	if (err_is(e, ERR_EXISTS)) {
		err_free(e);
		return err_wrap(merge(a, k, one, body), "%s %s", word, name);
	}
	if (e)
		return err_wrap(e, "%s %s", word, name);
	tell(a, k, json_root(made), "created");
	return NULL;
}

static struct err *apply_file(struct applied *a, const char *path)
{
	autoptr(json_doc) doc = NULL;
	struct err *e = cli_yaml_load(path, &doc);

	if (e)
		return e;
	json_each(it, json_root(doc)) {
		bool is_list = str_eq(json_get_str(it.val, "kind"), "List");

		if (!is_list)
			e = apply_one(a, it.val);
		json_each(item, is_list ? json_get(it.val, "items") : NULL)
			if (!e)
				e = apply_one(a, item.val);
		if (e)
			return err_wrap(e, "%s", path);
	}
	return NULL;
}

int apply_run(const struct command *c unused, const struct settings *s)
{
	autoptr(kinds) ks = kinds_new();
	autoptr(json_doc) d = json_doc_new();
	autoptr(remote) r = NULL;
	struct applied a = { .ks = ks,
			     .doc = d,
			     .text = str_eq(settings_text(s, "output"), "text") };
	struct json *o = json_obj(d);
	struct err *e = NULL;

	json_set_root(d, o);
	a.list = json_need_arr(d, o, "items");
	if (!settings_nth(s, "file", 0) || settings_n_args(s))
		e = err_new(ERR_INVALID, "it needs a file: cay apply -f FILE");
	if (!e)
		e = remote_open(s, &r);
	a.r = r;
	for (size_t i = 0; !e && settings_nth(s, "file", i); i++)
		e = apply_file(&a, settings_nth(s, "file", i));
	if (!a.text)
		cli_print(o, settings_text(s, "output"));
	return e ? cli_fail(err_wrap(e, "apply")) : EXIT_OK;
}
