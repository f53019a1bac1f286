/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/encode.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http_server.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/read/cursor.h"
#include "server/read/read.h"
#include "server/read/render.h"
#include "store/store.h"

/*
 * Lists. They are read at the newest committed revision, so that what they show is durable and no
 * reader waits for a commit that another request has started.
 *
 * A page of a list names, in its continue token, the revision of the first page, the last key it
 * showed and how many objects were shown until there; the next page is read at that same revision,
 * as long as the history reaches it.
 *
 * A list is produced in slices, in turns with others, while the peer takes it; between slices it is
 * a cursor over a view of the store. What fits into the first slice is answered at once. What goes
 * wrong later cuts the connection: a list that is not complete must not look like one that is.
 *
 * In protobuf the length of the whole is at its beginning. The walk is therefore made twice, in
 * slices both times: first to add up the lengths of the items, then to send them. A list that fits
 * into one slice is kept from the first walk. Objects remember how long they are, so that lists
 * after the first encode them once. Measurements differ each time they are looked at: all of them
 * are kept from the first walk, and charged to the reader.
 */
enum {
	SLICE_BYTES = 32 * 1024,
	MEASURED_MAX = 16 * 1024 * 1024, /* bytes of measurements that are kept */
	FIRST_US = 200,                  /* for the first slice */
};

struct page {
	uint64_t rev;
	const char *after; /* the last key of the page before; NULL: the first page */
	uint64_t limit;    /* 0: none */
	uint64_t shown;    /* on the pages before */
};

#define BAD_TOKEN "invalid continue token: continue key is not valid"
#define BAD_KEY   BAD_TOKEN ": "

/* Where Go stops reading it. */
static size_t bad_digit(const char *token)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t len = strlen(token), good = strspn(token, digits);

	return good < len ? good : len - len % 4;
}

static struct err *read_continue(struct call *c, const char *token, struct page *p)
{
	autoptr(json_doc) d = NULL;
	autofree void *text = NULL;
	size_t len = 0;
	struct err *e;

	e = base64_decode(token, true, &text, &len);
	if (e) {
		err_free(e);
		return err_new(ERR_MALFORMED, BAD_KEY "illegal base64 data at input byte %zu",
			       bad_digit(token));
	}
	e = json_parse(text, len, NULL, &d);
	if (e)
		return err_recode(err_wrap(e, BAD_TOKEN), ERR_MALFORMED);
	if (!json_get(json_root(d), "rv") || !json_get(json_root(d), "start"))
		return err_new(ERR_MALFORMED,
			       BAD_KEY "server does not recognize this encoded version %s",
			       str_or(json_get_str(json_root(d), "v"), ""));
	p->rev = (uint64_t)json_get_int(json_root(d), "rv", 0);
	p->shown = (uint64_t)json_get_int(json_root(d), "n", 0);
	p->after = arena_strdup(c->arena, str_or(json_get_str(json_root(d), "start"), ""));
	return NULL;
}

static struct err *read_version(struct call *c, const struct list_options *o, struct page *p)
{
	uint64_t wanted = p->rev;
	struct err *e = version_read(c, o->resource_version, p->rev, &wanted);

	if (err_is(e, ERR_MALFORMED))
		return err_wrap(e, "invalid resource version");
	if (!e && str_eq(o->version_match, "Exact"))
		p->rev = wanted;
	return e;
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

/* A list in progress: what was asked for, and how far it is. */
struct listing {
	struct slice slice;
	struct call *call;
	struct filter filter;
	struct cursor cursor;
	struct render how;
	struct page page;
	struct buf out; /* of this slice */
	uint64_t n;
	bool begun, ended; /* its head, its tail is in the answer */
	/* In protobuf: */
	bool measuring;    /* on the first walk */
	bool long_;        /* too long to be kept */
	bool sending_kept; /* of measurements: all of them are in kept */
	struct buf kept;   /* the items so far, of the first walk */
	size_t items_len;  /* of all items */
	size_t items_sent; /* of those on the second walk */
};

static char *continue_token(const struct page *p, const char *last, uint64_t shown)
{
	autoptr(json_doc) d = json_doc_new();
	autofree char *text = NULL;

	json_set_root(d, json_obj(d));
	json_set_int(d, json_root(d), "rv", (int64_t)p->rev);
	json_set_str(d, json_root(d), "start", last);
	json_set_int(d, json_root(d), "n", (int64_t)shown);
	text = json_to_text(json_root(d));
	return base64_encode(text, strlen(text), true);
}

/* malloc'd: where the next page begins; NULL: there is none. *ret_remaining is -1 where it is not
 * told: counting the matches of a selector is not worth the time. */
static char *next_page(const struct listing *l, int64_t *ret_remaining)
{
	const struct filter *f = &l->filter;
	uint64_t shown = l->page.shown + l->n, all;

	*ret_remaining = -1;
	if (!l->page.limit || l->n != l->page.limit || !cursor_more(&l->cursor))
		return NULL;
	if (!f->labels && !f->fields && !f->exact) {
		all = store_view_count(l->cursor.view);
		*ret_remaining = (int64_t)(all > shown ? all - shown : 0);
	}
	return continue_token(&l->page, cursor_key(&l->cursor), shown);
}

static void add_meta(struct listing *l)
{
	int64_t remaining;
	autofree char *token = next_page(l, &remaining);

	buf_printf(&l->out, "\"metadata\":{\"resourceVersion\":\"%llu\"",
		   (unsigned long long)l->page.rev);
	if (token)
		buf_printf(&l->out, ",\"continue\":\"%s\"", token);
	if (remaining >= 0)
		buf_printf(&l->out, ",\"remainingItemCount\":%lld", (long long)remaining);
	buf_add_char(&l->out, '}');
}

/* Up to the first item. The metadata comes first if it is known already, otherwise last. */
static void add_head(struct listing *l)
{
	const struct encode_name name = render_list_name(&l->how);
	bool table = l->how.shape == SHAPE_TABLE;

	buf_printf(&l->out, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",", name.kind, name.api_version);
	if (!l->page.limit) {
		add_meta(l);
		buf_add_char(&l->out, ',');
	}
	if (table)
		render_columns(&l->how, &l->out);
	buf_add_str(&l->out, table ? ",\"rows\":[" : "\"items\":[");
}

static void begin(struct listing *l)
{
	l->begun = true;
	if (l->how.media == MEDIA_PROTOBUF)
		l->measuring = true;
	else
		add_head(l);
}

static bool is_measured(const struct listing *l)
{
	return l->how.kind->flags & KIND_MEASURED;
}

/* As much of what was measured as belongs into one slice. */
static void add_kept(struct listing *l)
{
	size_t len = MIN(l->kept.len, (size_t)SLICE_BYTES);

	buf_add(&l->out, buf_head(&l->kept), len);
	buf_eat(&l->kept, len);
	if (l->kept.len)
		return;
	encode_list_tail(&l->out);
	l->ended = true;
}

/* The end of the first walk: what was kept is the list, or the second walk begins. */
static void end_measuring(struct listing *l)
{
	struct encode_list list = { .name = render_list_name(&l->how), .rev = l->page.rev };
	autofree char *token = next_page(l, &list.remaining);

	list.next = token;
	encode_list_head(&list, l->items_len, &l->out);
	l->measuring = false;
	l->sending_kept = is_measured(l);
	if (l->sending_kept)
		return;
	if (l->long_) {
		cursor_rewind(&l->cursor);
		l->n = 0;
		return;
	}
	buf_add(&l->out, buf_head(&l->kept), l->kept.len);
	encode_list_tail(&l->out);
	l->ended = true;
}

static struct err *add_tail_protobuf(struct listing *l)
{
	if (l->items_sent != l->items_len)
		return err_new(ERR_INTERNAL, "items of %zu bytes were announced, and %zu sent",
			       l->items_len, l->items_sent);
	encode_list_tail(&l->out);
	l->ended = true;
	return NULL;
}

/* The view may have been lost since the last item, and with it whether more follows. */
static struct err *add_tail(struct listing *l)
{
	struct err *e = cursor_check(&l->cursor);

	if (e)
		return e;
	if (l->measuring) {
		end_measuring(l);
		return NULL;
	}
	if (l->how.media == MEDIA_PROTOBUF)
		return add_tail_protobuf(l);
	buf_add_char(&l->out, ']');
	if (l->page.limit) {
		buf_add_char(&l->out, ',');
		add_meta(l);
	}
	buf_add_str(&l->out, "}\n");
	l->ended = true;
	return NULL;
}

/* An object is as long in the next list, unless it is shown in another way than it is stored. */
static struct err *measure_item(struct listing *l, struct object *o)
{
	bool remembers = l->how.shape == SHAPE_OBJECT && !l->how.kind->storage;
	size_t before = l->kept.len;
	struct err *e;

	l->n++;
	if (l->long_ && remembers && o->item_len) {
		l->items_len += o->item_len;
		return NULL;
	}
	e = render_item(&l->how, o, &l->kept);
	if (e)
		return e;
	if (remembers)
		o->item_len = (uint32_t)(l->kept.len - before);
	l->items_len += l->kept.len - before;
	if (is_measured(l))
		return l->kept.len <= MEASURED_MAX
			       ? NULL
			       : err_new(ERR_EXHAUSTED,
					 "more than %d bytes of measurements; ask for pages of them",
					 MEASURED_MAX);
	if (l->kept.len > SLICE_BYTES)
		l->long_ = true;
	if (l->long_)
		buf_clear(&l->kept);
	return NULL;
}

static struct err *add_item_protobuf(struct listing *l, struct object *o)
{
	size_t before = l->out.len;
	struct err *e = render_item(&l->how, o, &l->out);

	l->n++;
	l->items_sent += l->out.len - before;
	return e;
}

static struct err *add_item(struct listing *l, struct object *o)
{
	if (l->measuring)
		return measure_item(l, o);
	if (l->how.media == MEDIA_PROTOBUF)
		return add_item_protobuf(l, o);
	if (l->n++)
		buf_add_char(&l->out, ',');
	return l->how.shape == SHAPE_TABLE ? render_row(&l->how, o, &l->out)
					   : render_add(&l->how, o, &l->out);
}

/* The kind may have been removed since the last slice; its objects would be missing. */
static struct err *check_kind(const struct listing *l)
{
	const struct route *r = &l->call->route;

	if (kinds_find(l->call->calls->kinds, r->group, r->version, r->plural) == r->kind)
		return NULL;
	return err_no_resource();
}

static bool is_full(const struct listing *l)
{
	return l->page.limit && l->n == l->page.limit;
}

/* Fills out with what belongs into one slice. */
static struct err *produce(struct listing *l, usec until)
{
	struct err *e = check_kind(l);

	if (!l->begun)
		begin(l);
	if (!e && l->sending_kept)
		add_kept(l);
	while (!e && !l->ended && !l->sending_kept && l->out.len < SLICE_BYTES) {
		autoptr(object) o = NULL;

		if (!is_full(l))
			e = cursor_next(&l->cursor, &o);
		if (!e && o && render_shows(&l->how, o))
			e = add_item(l, o);
		else if (!e && !o && (is_full(l) || l->cursor.ended))
			e = add_tail(l);
		if (clock_mono() >= until)
			break;
	}
	return e;
}

static void listing_free(struct listing *l)
{
	slice_cancel(&l->slice);
	cursor_done(&l->cursor);
	filter_done(&l->filter);
	buf_done(&l->out);
	buf_done(&l->kept);
	free(l);
}

/* The peer left or the answer ended. */
static void on_ended(void *owner)
{
	struct listing *l = owner;
	struct call *c = l->call;

	listing_free(l);
	c->req = NULL;
	call_charge(c, 0);
	call_unref(c);
}

static bool on_slice(struct slice *s, usec until)
{
	struct listing *l = container_of(s, struct listing, slice);
	struct http_request *req = l->call->req;
	struct err *e = produce(l, until);

	call_charge(l->call, ANSWER_OUT_MAX + SLICE_BYTES + (is_measured(l) ? l->kept.len : 0));
	if (e) {
		log_warn("list cannot be completed, cutting it", KV("path", l->call->route.path),
			 KV("user", l->call->user.name), KV("err", e));
		err_free(e);
		http_respond_abort(req);
		return false;
	}
	if (l->out.len)
		http_respond_write(req, buf_head(&l->out), l->out.len);
	buf_clear(&l->out);
	if (l->ended)
		http_respond_end(req); /* on_ended() frees the listing, later in this turn */
	return !l->ended && !http_respond_full(req);
}

static void on_drain(void *owner)
{
	struct listing *l = owner;

	if (!l->ended)
		slice_wake(&l->call->calls->slices, &l->slice);
}

static struct err *listing_read(struct listing *l, const struct objects *os)
{
	struct list_options o;
	struct err *e = options_read_list(l->call, &o);

	l->page.rev = store_committed_rev(os->store);
	if (!e)
		e = filter_init(&l->filter, l->call, &o);
	if (!e)
		e = render_of(l->call, &l->how);
	if (!e)
		e = page_read(l->call, &o, &l->page);
	if (e)
		return e;
	e = cursor_init(&l->cursor, os, &l->filter, l->page.rev);
	if (e)
		return too_old(e, &l->page);
	l->cursor.after = l->page.after ? xstrdup(l->page.after) : NULL;
	return NULL;
}

void read_list(const struct objects *os, struct call *c)
{
	struct listing *l = xnew(struct listing);
	struct err *e;

	l->call = c;
	slice_init(&l->slice, l->call, on_slice);
	e = listing_read(l, os);
	if (!e)
		e = produce(l, clock_mono() + FIRST_US);
	if (!e && l->sending_kept && l->kept.len <= SLICE_BYTES)
		add_kept(l);
	if (e)
		call_fail(c, e);
	else if (l->ended)
		call_reply_text(c, STATUS_OK, c->type, &l->out);
	if (e || l->ended) {
		listing_free(l);
		return;
	}
	call_charge(c, ANSWER_OUT_MAX + SLICE_BYTES);
	call_stream(c, l, on_ended, on_drain);
	slice_wake(&c->calls->slices, &l->slice);
}
