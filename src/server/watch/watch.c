/* SPDX-License-Identifier: Apache-2.0 */
#include "server/watch/watch.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/read/filter.h"
#include "server/read/render.h"
#include "store/store.h"

/*
 * A watch over HTTP: one line of JSON for each event, in a chunk of its own. It pulls from the
 * history while the connection takes more; a peer that reads too slowly falls out of the history
 * and gets 410.
 *
 * What existed before is sent as ADDED from a view of a committed revision, and the events after
 * that revision follow.
 */
enum {
	BOOKMARK_MS = 60 * 1000,
	TIMEOUT_MIN_S = 30 * 60, /* when the client names no time: between this and twice this */
	TIMEOUT_MAX_S = 7 * 24 * 3600,
	WATCHES_PER_USER = 1000,
};

struct watcher {
	struct list link;
	struct watchers *ws;
	struct call *call;
	struct http_request *req;
	struct filter filter;
	struct render how;
	struct store_watch *watch;
	struct timer *timer;
	usec ends;
	bool bookmarks;
};

static void watcher_free(struct watcher *w)
{
	const char *user = w->call->user.name;
	uintptr_t n = (uintptr_t)map_get(w->ws->by_user, user);

	if (n > 1)
		map_put(w->ws->by_user, user, (void *)(n - 1));
	else
		(void)map_take(w->ws->by_user, user);
	w->ws->n--;
	list_del(&w->link);
	store_watch_free(w->watch);
	timer_free(w->timer);
	filter_done(&w->filter);
	call_unref(w->call);
	free(w);
}

void watchers_init(struct watchers *ws, const struct objects *objects, struct loop *l)
{
	*ws = (struct watchers){ .objects = objects, .loop = l, .by_user = map_new(NULL) };
	list_init(&ws->list);
}

void watchers_done(struct watchers *ws)
{
	struct watcher *w, *next;

	list_each_safe(w, next, &ws->list, link)
		watcher_free(w);
	map_free(take(ws->by_user));
}

/* The peer left or the answer ended. */
static void on_ended(void *owner)
{
	struct watcher *w = owner;

	w->call->req = NULL;
	watcher_free(w);
}

static void send_line(struct watcher *w, struct buf *line)
{
	buf_add_str(line, "}\n");
	http_respond_write(w->req, buf_head(line), line->len);
}

static struct err *send_object(struct watcher *w, const char *type, struct object *o)
{
	autobuf line = { 0 };
	struct err *e;

	buf_printf(&line, "{\"type\":\"%s\",\"object\":", type);
	e = render_add(&w->how, o, &line);
	if (!e)
		send_line(w, &line);
	return e;
}

static void send_bookmark(struct watcher *w, uint64_t rev, bool initial_end)
{
	const struct kind *k = w->how.kind;
	bool partial = w->how.shape == SHAPE_PARTIAL;
	autobuf line = { 0 };

	buf_printf(&line,
		   "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"apiVersion\":\"%s\","
		   "\"metadata\":{\"resourceVersion\":\"%llu\"%s}}",
		   w->how.shape == SHAPE_TABLE ? "Table"
		   : partial                   ? "PartialObjectMetadata"
					       : k->kind,
		   w->how.shape == SHAPE_OBJECT ? kind_api_version(k) : w->how.version,
		   (unsigned long long)rev,
		   initial_end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
	send_line(w, &line);
}

static void send_error(struct watcher *w, struct err *e)
{
	autoptr(json_doc) d = status_failure(e, NULL);
	autobuf line = { 0 };

	buf_add_str(&line, "{\"type\":\"ERROR\",\"object\":");
	json_write(json_root(d), &line);
	send_line(w, &line);
	err_free(e);
}

/* To a watch with a selector, an object that stops matching is deleted: as it was, at the revision
 * at which it stopped. */
static struct err *send_left(struct watcher *w, const struct object *was, uint64_t rev)
{
	struct json_doc *d = object_edit(was);
	autoptr(object) o = NULL;

	(void)json_set(d, json_need_obj(d, json_root(d), "metadata"), "resourceVersion",
		       json_new_strf(d, "%llu", (unsigned long long)rev));
	o = object_new(was->kind, d);
	return send_object(w, "DELETED", o);
}

static struct err *send_event(struct watcher *w, const struct store_event *ev)
{
	bool selective = w->filter.labels || w->filter.fields;
	autoptr(object) now = objects_of_entry(w->ws->objects, ev->entry);
	autoptr(object) was =
		selective && ev->prev ? objects_of_entry(w->ws->objects, ev->prev) : NULL;
	bool did = was ? filter_matches(&w->filter, was) : ev->prev != NULL && !selective;
	bool does = ev->type != STORE_DELETED && now && filter_matches(&w->filter, now);

	if (!now)
		return NULL; /* the kind is gone, and this watch is about to end */
	if (did && does)
		return send_object(w, "MODIFIED", now);
	if (does)
		return send_object(w, "ADDED", now);
	if (did && ev->type == STORE_DELETED)
		return send_object(w, "DELETED", now);
	return did && was ? send_left(w, was, ev->entry->rev) : NULL;
}

static void finish(struct watcher *w)
{
	struct http_request *req = w->req;

	http_respond_end(req); /* on_ended() frees the watcher, later in this turn */
}

void watchers_end(struct watchers *ws, const struct kind *k)
{
	struct watcher *w, *next;

	list_each_safe(w, next, &ws->list, link)
		if (w->how.kind == k)
			finish(w);
}

/* ERR_GONE in the words that clients know; other errors pass. */
static struct err *too_old(struct err *e, const struct store *s, uint64_t rev)
{
	if (!err_is(e, ERR_GONE))
		return e;
	err_free(e);
	return err_new(ERR_GONE, "too old resource version: %llu (%llu)", (unsigned long long)rev,
		       (unsigned long long)store_oldest_rev(s));
}

/* Sends what there is while the connection takes it. */
static void pump(struct watcher *w)
{
	struct store_event ev;
	struct err *e = NULL;
	bool have = true;

	while (!e && have && !http_respond_full(w->req)) {
		e = store_watch_next(w->watch, &ev, &have);
		if (!e && have)
			e = send_event(w, &ev);
	}
	if (!e)
		return;
	send_error(w, too_old(e, w->ws->objects->store, store_watch_rev(w->watch)));
	finish(w);
}

static void on_wake(void *arg)
{
	pump(arg);
}

static void on_drain(void *owner)
{
	pump(owner);
}

static void arm(struct watcher *w)
{
	usec left_ms = (w->ends - clock_mono()) / 1000;

	if (w->bookmarks)
		left_ms = MIN(left_ms, (usec)BOOKMARK_MS);
	timer_set(w->timer, (uint64_t)MAX(left_ms, (usec)1));
}

static void on_timer(void *arg)
{
	struct watcher *w = arg;

	if (w->bookmarks && !http_respond_full(w->req))
		send_bookmark(w, store_watch_rev(w->watch), false);
	if (clock_mono() + 2000 >= w->ends)
		finish(w);
	else
		arm(w);
}

/* How a watch begins */

struct beginning {
	uint64_t from;
	bool initial; /* send what exists first */
	bool mark;    /* and a bookmark when that is complete */
};

static struct err *read_beginning(const struct list_options *o, uint64_t newest,
				  struct beginning *ret)
{
	const char *rev = o->resource_version;
	uint64_t from = 0;
	struct err *e = str_empty(rev) ? NULL : parse_uint(rev, UINT64_MAX, &from);

	if (e) {
		err_free(e);
		return err_new(ERR_MALFORMED,
			       "invalid resource version: resourceVersion: Invalid value: \"%s\": "
			       "strconv.ParseUint: parsing \"%s\": invalid syntax",
			       rev, rev);
	}
	if (from > newest) /* from a store that no longer exists: the client must start over */
		return err_new(ERR_GONE, "resource version %llu is in the future (%llu)",
			       (unsigned long long)from, (unsigned long long)newest);
	ret->mark = o->initial_events == CHOICE_TRUE;
	ret->initial = ret->mark || (o->initial_events == CHOICE_UNSET && from == 0);
	ret->from = ret->initial || from == 0 ? newest : from;
	return NULL;
}

static struct err *send_existing(struct watcher *w, uint64_t rev)
{
	const char *prefix = buf_head(&w->filter.prefix);
	autoptr(store_view) v = NULL;
	struct store_entry *en = NULL;
	struct err *e = store_view_new(w->ws->objects->store, prefix, rev, &v);

	if (e)
		return e;
	for (;;) {
		autoptr(object) o = NULL;

		if (w->filter.exact)
			en = en ? NULL : store_view_get(v, prefix);
		else
			en = store_view_next(v, en ? en->key : NULL);
		if (!en)
			return NULL;
		o = objects_of_entry(w->ws->objects, en);
		if (!filter_matches(&w->filter, o))
			continue;
		e = send_object(w, "ADDED", o);
		if (e)
			return e;
	}
}

static struct err *count_watch(struct watchers *ws, const struct call *c)
{
	uintptr_t n = (uintptr_t)map_get(ws->by_user, c->user.name);

	if (n >= WATCHES_PER_USER)
		return err_new(ERR_EXHAUSTED, "user \"%s\" has %d watches open, which is the limit",
			       c->user.name, WATCHES_PER_USER);
	map_put(ws->by_user, c->user.name, (void *)(n + 1));
	return NULL;
}

/* A time beyond a week is as good as a week: the watch ends, and the client starts another. */
static usec timeout_of(const struct list_options *o)
{
	uint64_t asked_s = o->timeout_s > 0 ? (uint64_t)MIN(o->timeout_s, TIMEOUT_MAX_S) : 0;

	return (usec)(asked_s ? asked_s : TIMEOUT_MIN_S + random_u64() % TIMEOUT_MIN_S) * 1000000;
}

/* What a watch follows. Takes the filter over on success. */
static struct err *watcher_read(struct watcher *w, struct filter *f, uint64_t from)
{
	struct store *store = w->ws->objects->store;
	struct err *e = render_of(w->call, &w->how);

	if (!e)
		e = too_old(store_watch_new(store, buf_head(&f->prefix), from,
					    (struct store_wake){ on_wake, w }, &w->watch),
			    store, from);
	if (!e)
		e = count_watch(w->ws, w->call);
	if (e)
		return e;
	w->filter = *f;
	*f = (struct filter){ 0 };
	return NULL;
}

static struct err *watcher_new(struct watchers *ws, struct call *c, struct filter *f, uint64_t from,
			       struct watcher **ret)
{
	struct watcher *w = xnew(struct watcher);
	struct err *e;

	w->ws = ws;
	w->req = c->req;
	w->call = c; /* the request's reference */
	e = watcher_read(w, f, from);
	if (e) {
		store_watch_free(w->watch);
		free(w);
		return e;
	}
	w->timer = timer_new(ws->loop, on_timer, w);
	list_add_tail(&ws->list, &w->link);
	ws->n++;
	ws->n_started++;
	*ret = w;
	return NULL;
}

static void start(struct watcher *w, const struct beginning *b)
{
	struct http_headers h = w->call->headers;
	struct err *e = NULL;

	w->call->headers = (struct http_headers){ 0 };
	http_headers_add(&h, "Content-Type", "application/json");
	http_headers_add(&h, "Cache-Control", "no-cache, private");
	http_request_set_owner(w->req, w, on_ended);
	http_respond_on_drain(w->req, on_drain);
	http_respond_start(w->req, STATUS_OK, &h, -1);
	http_headers_done(&h);
	if (b->initial)
		e = send_existing(w, b->from);
	if (e) {
		send_error(w, e);
		finish(w);
		return;
	}
	if (b->mark)
		send_bookmark(w, b->from, true);
	arm(w);
	pump(w);
}

void watchers_serve(struct watchers *ws, struct call *c)
{
	struct filter f = { 0 };
	struct watcher *w = NULL;
	struct beginning b = { 0 };
	struct list_options o;
	struct err *e = options_read_list(c, &o);

	if (!e)
		e = read_beginning(&o, store_committed_rev(ws->objects->store), &b);
	if (!e)
		e = filter_init(&f, c, &o);
	if (!e)
		e = watcher_new(ws, c, &f, b.from, &w);
	filter_done(&f);
	if (e) {
		call_fail(c, e);
		return;
	}
	w->bookmarks = o.bookmarks;
	w->ends = clock_mono() + timeout_of(&o);
	start(w, &b);
}
