/* SPDX-License-Identifier: Apache-2.0 */
#include "server/read/read.h"

#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/read/filter.h"
#include "server/read/render.h"
#include "store/store.h"

/*
 * Get and list. Both read at the newest committed revision, so that what they show is durable and
 * no reader waits for a commit that another request has started.
 *
 * A page of a list names, in its continue token, the revision of the first page and the last key it
 * showed; the next page is read at that same revision, as long as the history reaches it.
 */
void read_get(const struct objects *os, struct call *c)
{
	const struct route *r = &c->route;
	autofree char *key = key_of(r->kind, r->ns, r->name);
	autoptr(store_view) v = NULL;
	autoptr(object) o = NULL;
	struct render how;
	struct bytes *text;
	struct store_entry *en;
	struct err *e;

	e = render_of(c, &how);
	if (!e)
		e = store_view_new(os->store, key, store_committed_rev(os->store), &v);
	if (!e) {
		en = store_view_get(v, key);
		o = en ? objects_of_entry(os, en) : NULL;
		e = o ? render_text(&how, o, &text) : err_absent(r->kind, r->name);
	}
	if (e)
		call_fail(c, e);
	else
		call_reply_bytes(c, STATUS_OK, text);
}

struct page {
	uint64_t rev;
	const char *after; /* the last key of the page before; NULL: the first page */
	uint64_t limit;    /* 0: none */
};

static struct err *read_continue(struct call *c, const char *token, struct page *p)
{
	autoptr(json_doc) d = NULL;
	autofree void *text = NULL;
	size_t len = 0;
	struct err *e;

	e = base64_decode(token, true, &text, &len);
	if (!e)
		e = json_parse(text, len, NULL, &d);
	if (e) {
		err_free(e);
		return err_new(ERR_MALFORMED, "continue key is not valid");
	}
	p->rev = (uint64_t)json_get_int(json_root(d), "rv", 0);
	p->after = arena_strdup(c->arena, str_or(json_get_str(json_root(d), "start"), ""));
	return NULL;
}

static struct err *read_version(struct call *c, const struct list_options *o, struct page *p)
{
	const char *rev = o->resource_version;
	uint64_t wanted = 0;
	struct err *e;

	if (str_empty(rev))
		return NULL;
	e = parse_uint(rev, UINT64_MAX, &wanted);
	if (e) {
		err_free(e);
		return err_new(ERR_MALFORMED,
			       "invalid resource version: resourceVersion: Invalid value: \"%s\": "
			       "strconv.ParseUint: parsing \"%s\": invalid syntax",
			       rev, rev);
	}
	if (wanted > p->rev) {
		/* client-go recognises it by this message, and lists again without a version. */
		causes_add(&c->causes, CAUSE_INVALID, "resourceVersion",
			   "Too large resource version");
		return err_new(ERR_TIMEOUT,
			       "Timeout: Too large resource version: %llu, current: %llu",
			       (unsigned long long)wanted, (unsigned long long)p->rev);
	}
	if (str_eq(o->version_match, "Exact") && wanted < p->rev)
		p->rev = wanted;
	return NULL;
}

/* At the revision p->rev, unless the options name another. */
static struct err *page_read(struct call *c, const struct list_options *o, struct page *p)
{
	p->limit = o->limit > 0 ? (uint64_t)o->limit : 0;
	return str_empty(o->continue_token) ? read_version(c, o, p)
					    : read_continue(c, o->continue_token, p);
}

static struct err *too_old(struct err *e, const struct page *p)
{
	err_free(e);
	if (p->after)
		return err_new(
			ERR_GONE,
			"The provided continue parameter is too old to display a consistent "
			"list result. You can start a new list without the continue parameter.");
	return err_new(ERR_GONE, "The resourceVersion for the provided list is too old.");
}

/* A list in progress: what was asked for, and what was gathered, as text or as rows of a table. */
struct listing {
	const struct objects *objects;
	struct call *call;
	const struct filter *filter;
	struct render how;
	struct page page;
	struct store_view *view;

	struct buf items;
	struct json_doc *table;
	uint64_t n;
	const char *last;   /* the key where the page ended; NULL: it is the last page */
	uint64_t remaining; /* after it, when there is no selector */
};

static struct err *gather_one(struct listing *l, struct store_entry *en)
{
	autoptr(object) o = objects_of_entry(l->objects, en);

	if (!o || !filter_matches(l->filter, o))
		return NULL;
	l->n++;
	if (l->table)
		return render_list_table(&l->how, o, l->table);
	if (l->items.len)
		buf_add_char(&l->items, ',');
	return render_add(&l->how, o, &l->items);
}

static struct store_entry *next_entry(const struct listing *l, const char *after)
{
	if (!l->filter->exact)
		return store_view_next(l->view, after);
	return after ? NULL : store_view_get(l->view, buf_head(&l->filter->prefix));
}

static struct err *gather(struct listing *l)
{
	bool selective = l->filter->labels || l->filter->fields;
	const char *key = l->page.after;
	struct store_entry *en;
	struct err *e = NULL;

	while (!e && (en = next_entry(l, key))) {
		if (!l->page.limit || l->n < l->page.limit) {
			e = gather_one(l, en);
		} else {
			if (!l->last)
				l->last = arena_strdup(l->call->arena, key);
			l->remaining++;
			if (selective)
				break; /* counting the matches is not worth the time */
		}
		key = en->key;
	}
	return e;
}

static char *continue_token(const struct page *p, const char *last)
{
	autoptr(json_doc) d = json_doc_new();
	autofree char *text = NULL;

	json_set_root(d, json_obj(d));
	json_set_int(d, json_root(d), "rv", (int64_t)p->rev);
	json_set_str(d, json_root(d), "start", last);
	text = json_to_text(json_root(d));
	return base64_encode(text, strlen(text), true);
}

static void list_meta(struct buf *b, const struct listing *l)
{
	autofree char *token = l->last ? continue_token(&l->page, l->last) : NULL;

	buf_printf(b, "{\"resourceVersion\":\"%llu\"", (unsigned long long)l->page.rev);
	if (token)
		buf_printf(b, ",\"continue\":\"%s\"", token);
	if (token && !l->filter->labels && !l->filter->fields)
		buf_printf(b, ",\"remainingItemCount\":%llu", (unsigned long long)l->remaining);
	buf_add_char(b, '}');
}

static void write_list(struct buf *out, const struct listing *l, struct buf *meta)
{
	const struct kind *k = l->how.kind;
	bool partial = l->how.shape == SHAPE_PARTIAL;

	buf_printf(out, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":",
		   partial ? "PartialObjectMetadataList" : k->list_kind,
		   partial ? l->how.version : kind_api_version(k));
	buf_add(out, buf_head(meta), meta->len);
	buf_add_str(out, ",\"items\":[");
	if (l->items.len)
		buf_add(out, buf_head(&l->items), l->items.len);
	buf_add_str(out, "]}\n");
}

static void write_table(struct buf *out, const struct listing *l, struct buf *meta)
{
	autoptr(json_doc) md = NULL;
	struct json *root = json_root(l->table);

	/* We have just written this text, so it parses. */
	err_free(json_parse(buf_head(meta), meta->len, NULL, &md));
	json_set_str(l->table, root, "apiVersion", l->how.version);
	(void)json_set(l->table, root, "metadata", json_copy(l->table, json_root(md)));
	json_write(root, out);
}

static struct err *list(struct listing *l, struct buf *out)
{
	autobuf meta = { 0 };
	struct err *e;

	e = store_view_new(l->objects->store, buf_head(&l->filter->prefix), l->page.rev, &l->view);
	if (e)
		return too_old(e, &l->page);
	if (l->how.shape == SHAPE_TABLE) {
		l->table = json_doc_new();
		json_set_root(l->table, table_new(l->table, l->how.kind));
	}
	e = gather(l);
	if (e)
		return e;
	list_meta(&meta, l);
	(l->table ? write_table : write_list)(out, l, &meta);
	return NULL;
}

void read_list(const struct objects *os, struct call *c)
{
	struct list_options o;
	struct filter f = { 0 };
	struct listing l = { .objects = os, .call = c, .filter = &f };
	autobuf out = { 0 };
	struct err *e = options_read_list(c, &o);

	l.page.rev = store_committed_rev(os->store);
	if (!e)
		e = filter_init(&f, c, &o);
	if (!e)
		e = render_of(c, &l.how);
	if (!e)
		e = page_read(c, &o, &l.page);
	if (!e)
		e = list(&l, &out);
	filter_done(&f);
	store_view_free(l.view);
	buf_done(&l.items);
	json_doc_free(l.table);
	if (e)
		call_fail(c, e);
	else
		call_reply_text(c, STATUS_OK, "application/json", &out);
}
