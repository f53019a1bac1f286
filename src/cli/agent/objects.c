/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of cay.dev for people: as a table, one by one, and removed. */
#include <stdio.h>
#include <unistd.h>

#include "api/cay/cay.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/agent/agent_priv.h"
#include "cli/sandbox/term.h"

enum {
	CELL_MAX = 120,
	COLUMNS_MAX = 12,
};

#define AGE  { "AGE", CELL_AGE, "metadata.creationTimestamp" }
#define NAME { "NAME", CELL_TEXT, "metadata.name" }

static const struct column agent_columns[] = {
	NAME,
	{ "MODE", CELL_TEXT, "spec.sandbox.mode" },
	{ "POOL", CELL_TEXT, "spec.sandbox.warmPoolRef.name" },
	{ "PARENT", CELL_TEXT, "spec.parent" },
	{ "VERIFIED", CELL_TEXT, "status.verified" },
	{ "SANDBOXES", CELL_TEXT, "status.sandboxes" },
	{ "STATE", CELL_READY, NULL },
	AGE,
	{ 0 },
};
static const struct column session_columns[] = {
	NAME,
	{ "AGENT", CELL_TEXT, "spec.agent" },
	{ "PHASE", CELL_TEXT, "status.phase" },
	{ "STATE", CELL_READY, NULL },
	{ "SANDBOX", CELL_TEXT, "status.sandbox" },
	{ "DELETED IN", CELL_LEFT, "status.deleteAt" },
	AGE,
	{ "TITLE", CELL_TEXT, "spec.title" },
	{ 0 },
};
static const struct column attachment_columns[] = {
	NAME,
	{ "SESSION", CELL_TEXT, "spec.session" },
	{ "SANDBOX", CELL_TEXT, "spec.sandbox" },
	{ "VIEW", CELL_TEXT, "spec.view" },
	{ "STATE", CELL_READY, NULL },
	AGE,
	{ 0 },
};
static const struct column approval_columns[] = {
	NAME,
	{ "AGENT", CELL_TEXT, "spec.agent" },
	{ "OPERATION", CELL_TEXT, "spec.operation" },
	{ "ASKS", CELL_DEED, NULL },
	{ "SANDBOX", CELL_TEXT, "spec.sandbox" },
	{ "DECISION", CELL_TEXT, "status.decision" },
	{ "EXPIRES IN", CELL_LEFT, "spec.expires" },
	AGE,
	{ 0 },
};

static const struct column trigger_columns[] = {
	NAME,
	{ "AGENT", CELL_TEXT, "spec.agent" },
	{ "FORM", CELL_TEXT, "spec.form" },
	{ "SESSION KEY", CELL_TEXT, "spec.sessionKey" },
	{ "LAST", CELL_TEXT, "status.deliveries.0.outcome" },
	{ "CAME", CELL_AGE, "status.deliveries.0.time" },
	AGE,
	{ 0 },
};

/* Nobody waits for an answer to it any more. */
static bool answered(const struct json *approval)
{
	const char *expires = json_str(json_at_path(approval, "spec.expires"));
	usec when = 0;
	struct err *e = expires ? clock_parse(expires, &when) : NULL;
	bool late = !e && when <= clock_wall();

	err_free(e);
	return late || json_at_path(approval, "status.decision");
}

const struct cay_kind kind_agents = { "agents", "agent", agent_columns };
const struct cay_kind kind_sessions = { "sessions", "session", session_columns };
const struct cay_kind kind_attachments = { "attachments", "attachment", attachment_columns };
const struct cay_kind kind_approvals = { "approvals", "approval", approval_columns, answered };
const struct cay_kind kind_triggers = { "triggers", "trigger", trigger_columns };

char *cay_path(const struct cay_kind *k, const char *ns, const char *name)
{
	autofree char *ns_text = url_encode(ns ? ns : ""),
		      *name_text = url_encode(name ? name : "");

	return xasprintf("/apis/" API_CAY "%s%s/%s%s%s", ns ? "/namespaces/" : "", ns_text,
			 k->plural, name ? "/" : "", name_text);
}

/* Cells */

static void put_time(struct buf *b, const struct json *at, bool left)
{
	char text[TERM_AGE_MAX];
	usec when = 0, now = clock_wall();
	struct err *e = json_str(at) ? clock_parse(json_str(at), &when) : NULL;

	if (json_str(at) && !e) {
		term_age(left ? MAX(when - now, (usec)0) : now - when, text);
		buf_add_str(b, text);
	}
	err_free(e);
}

static void put_deed(struct buf *b, const struct json *o)
{
	static const char *const names[] = { "tool", "host", "path" };
	const struct json *spec = json_get(o, "spec");

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (json_get_str(spec, names[i]))
			buf_printf(b, "%s%s", b->len ? " " : "", json_get_str(spec, names[i]));
	json_each(it, json_get(spec, "argv"))
		buf_printf(b, "%s%s", b->len ? " " : "", str_or(json_str(it.val), ""));
}

static void put_cell(struct buf *b, const struct json *o, const struct column *c)
{
	const struct json *at = c->path ? json_at_path(o, c->path) : NULL;
	const struct json *ready;

	switch (c->cell) {
	case CELL_TEXT:
		if (json_str(at))
			buf_add_str(b, json_str(at));
		else if (at)
			json_write(at, b);
		break;
	case CELL_AGE:
	case CELL_LEFT:
		put_time(b, at, c->cell == CELL_LEFT);
		break;
	case CELL_READY:
		ready = condition_of(o, "Ready");
		buf_add_str(b, str_eq(json_get_str(ready, "status"), "True")
				       ? "Ready"
				       : str_or(json_get_str(ready, "reason"), ""));
		break;
	case CELL_DEED:
		put_deed(b, o);
		break;
	}
}

/* Lists */

/* What is cut says so: nobody should approve the first half of a command. */
static const char *shortened(struct buf *cell)
{
	autofree char *all = NULL;
	size_t len = cell->len;

	if (len <= CELL_MAX)
		return buf_str(cell);
	all = buf_steal(cell, NULL);
	buf_add(cell, all, utf8_prefix(all, CELL_MAX));
	buf_printf(cell, "... (%zu bytes in all)", len);
	return buf_str(cell);
}

static void print_table(const struct cay_kind *k, const struct json *items, bool everywhere)
{
	const char *heads[COLUMNS_MAX + 2] = { "NAMESPACE" };
	size_t n = everywhere;
	autoptr(grid) g = NULL;
	autobuf out = { 0 };

	for (const struct column *c = k->columns; c->head; c++)
		heads[n++] = c->head;
	heads[n] = NULL;
	g = grid_new(heads);
	json_each(it, items) {
		if (everywhere)
			grid_cell(g, TERM_PLAIN,
				  json_str(json_at_path(it.val, "metadata.namespace")));
		for (const struct column *c = k->columns; c->head; c++) {
			autobuf cell = { 0 };

			put_cell(&cell, it.val, c);
			grid_cell(g, TERM_PLAIN, shortened(&cell));
		}
	}
	grid_write(g, true, term_has_colour(STDOUT_FILENO), &out);
	cli_write(&out);
}

static void leave_out(const struct cay_kind *k, struct json_doc *doc)
{
	struct json *root = json_copy(doc, json_root(doc)), *items;

	json_set_root(doc, root);
	items = json_need_arr(doc, root, "items");
	for (size_t i = json_len(items); i-- > 0;)
		if (k->over(json_at(items, i)))
			json_remove(items, i);
}

struct err *cay_list(struct remote *r, const struct settings *s, const struct cay_kind *k)
{
	bool everywhere = settings_bool(s, "all-namespaces");
	autofree char *path = cay_path(k, everywhere ? NULL : remote_ns(r), NULL);
	const char *format = settings_text(s, "output");
	autoptr(json_doc) doc = NULL;
	struct err *e = remote_get(r, path, &doc);

	if (e)
		return e;
	if (k->over && !settings_bool(s, "all"))
		leave_out(k, doc);
	if (str_eq(format, "text"))
		print_table(k, json_get(json_root(doc), "items"), everywhere);
	else
		cli_print(json_root(doc), format);
	return NULL;
}

/* One */

/* Of a trigger, the latest first; what a command wrote is left to -o yaml. */
static void print_deliveries(const struct json *list)
{
	static const char *const heads[] = { "DELIVERY", "CAME",    "OUTCOME",
					     "SESSION",  "MESSAGE", NULL };
	autoptr(grid) g = NULL;
	autobuf out = { 0 };

	if (!json_len(list))
		return;
	g = grid_new(heads);
	json_each(it, list) {
		autobuf came = { 0 };

		put_time(&came, json_get(it.val, "time"), false);
		grid_cell(g, TERM_PLAIN, json_get_str(it.val, "id"));
		grid_cell(g, TERM_PLAIN, buf_str(&came));
		grid_cell(g, TERM_PLAIN, json_get_str(it.val, "outcome"));
		grid_cell(g, TERM_PLAIN, json_get_str(it.val, "session"));
		grid_cell(g, TERM_PLAIN, json_get_str(it.val, "message"));
	}
	grid_write(g, true, term_has_colour(STDOUT_FILENO), &out);
	cli_write(&out);
}

static void print_one(const struct cay_kind *k, const struct json *o)
{
	static const char *const no_heads[] = { "", "", NULL };
	autoptr(grid) g = grid_new(no_heads);
	autobuf out = { 0 };

	for (const struct column *c = k->columns; c->head; c++) {
		autobuf cell = { 0 };

		put_cell(&cell, o, c);
		if (!cell.len)
			continue;
		grid_cell(g, TERM_DIM, c->head);
		grid_cell(g, TERM_PLAIN, buf_str(&cell));
	}
	json_each(it, json_at_path(o, "status.conditions")) {
		autofree char *head = xasprintf("%s=%s", str_or(json_get_str(it.val, "type"), ""),
						str_or(json_get_str(it.val, "status"), ""));

		grid_cell(g, TERM_DIM, head);
		grid_cell(g, TERM_PLAIN, json_get_str(it.val, "message"));
	}
	json_each(it, json_at_path(o, "status.attachments")) {
		grid_cell(g, TERM_DIM, "ATTACHMENT");
		grid_cell(g, TERM_PLAIN, json_get_str(it.val, "name"));
	}
	grid_write(g, false, term_has_colour(STDOUT_FILENO), &out);
	cli_write(&out);
	print_deliveries(json_at_path(o, "status.deliveries"));
}

struct err *cay_show(struct remote *r, const struct settings *s, const struct cay_kind *k,
		     const char *name)
{
	autofree char *path = cay_path(k, remote_ns(r), name);
	autoptr(json_doc) doc = NULL;
	struct err *e = remote_get(r, path, &doc);

	if (e)
		return e;
	if (str_eq(settings_text(s, "output"), "text"))
		print_one(k, json_root(doc));
	else
		cli_print(json_root(doc), settings_text(s, "output"));
	return NULL;
}

/* Writes */

void cay_said(const struct settings *s, const struct cay_kind *k, const struct json *o,
	      const char *what)
{
	if (str_eq(settings_text(s, "output"), "text"))
		(void)printf("%s/%s %s\n", k->word,
			     str_or(json_str(json_at_path(o, "metadata.name")), ""), what);
	else
		cli_print(o, settings_text(s, "output"));
}

struct err *cay_remove(struct remote *r, const struct settings *s, const struct cay_kind *k,
		       const char *name)
{
	autofree char *path = cay_path(k, remote_ns(r), name);
	autoptr(json_doc) doc = json_doc_new();
	struct json *o = json_obj(doc);
	struct err *e = remote_ask(r, &(struct ask){ .method = "DELETE", .path = path }, NULL);

	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		return err_new(ERR_NOT_FOUND,
			       "there is no %s %s in namespace %s; it may be gone already", k->word,
			       name, remote_ns(r));
	}
	if (e)
		return e;
	json_set_root(doc, o);
	json_set_str(doc, json_need_obj(doc, o, "metadata"), "name", name);
	cay_said(s, k, o, "deleted");
	return NULL;
}

struct err *cay_patch(struct remote *r, const char *path, const char *sub, const char *body,
		      struct json_doc **ret)
{
	autofree char *whole = xasprintf("%s%s", path, sub);

	return remote_ask(r,
			  &(struct ask){ .method = "PATCH",
					 .path = whole,
					 .body = body,
					 .type = "application/merge-patch+json" },
			  ret);
}

struct err *cay_create(struct remote *r, const struct cay_kind *k, const struct json *o,
		       struct json_doc **ret)
{
	autofree char *path = cay_path(k, remote_ns(r), NULL);
	autobuf body = { 0 };

	json_write(o, &body);
	return remote_ask(
		r, &(struct ask){ .method = "POST", .path = path, .body = buf_str(&body) }, ret);
}

struct json_doc *cay_draft(const char *kind, const char *name, struct json **ret_spec)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d);

	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", API_CAY);
	json_set_str(d, root, "kind", kind);
	json_set_str(d, json_need_obj(d, root, "metadata"), "name", name);
	*ret_spec = json_need_obj(d, root, "spec");
	return d;
}
