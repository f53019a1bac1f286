/* SPDX-License-Identifier: Apache-2.0 */
#include "server/watch/watch.h"

#include "api/encode.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "net/websocket.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/read/cursor.h"
#include "server/read/render.h"
#include "store/store.h"

/*
 * A watch over HTTP: one line of JSON, or one frame of protobuf, for each event, in a chunk of its
 * own, or in a message of its own where a client asked for a WebSocket. It pulls from the history
 * while the connection takes more; a peer that reads too slowly falls out of the history and gets
 * 410.
 *
 * What existed before is sent as ADDED from a view of a committed revision, and the events after
 * that revision follow.
 */
enum {
	BOOKMARK_MS = 60 * 1000,
	LAST_MS = 2000,          /* for the last events of a kind that is gone */
	TIMEOUT_MIN_S = 30 * 60, /* when the client names no time: between this and twice this */
	TIMEOUT_MAX_S = 7 * 24 * 3600,
	WATCHES_PER_USER = 1000,
	WATCH_LINE_MAX = 64 * 1024, /* longer ones are encoded for each watch */
	EVENTS_AT_ONCE = 64,        /* what is looked at in one go, whether it is sent or not */
	SAID_MAX = 4096,            /* bytes of a message from a client, which nobody reads */
	CLOSE_NORMAL = 1000,
};

struct watcher {
	struct list link;
	struct watchers *watchers;
	struct call *call;
	struct http_request *req; /* one of these two carries it */
	struct websocket *ws;
	struct filter filter;
	struct render how;
	struct store_watch *watch;
	struct slice slice; /* of what existed before, and of events that are too many for one go */
	struct cursor
		existing; /* its view is NULL when all of that was sent, or nothing was asked for */
	uint64_t from;
	uint64_t last; /* its kind is gone: nothing comes after this revision; 0: it goes on */
	struct timer *timer;
	usec ends;
	bool bookmarks;
	bool mark; /* a bookmark follows what existed before */
};

static void watcher_free(struct watcher *w)
{
	list_del(&w->link);
	slice_cancel(&w->slice);
	cursor_done(&w->existing);
	store_watch_free(w->watch);
	timer_free(w->timer);
	filter_done(&w->filter);
	websocket_free(w->ws);
	free(w);
}

static void uncount(struct watcher *w)
{
	struct watchers *ws = w->watchers;
	const char *payer = user_payer(&w->call->user);
	uintptr_t n = (uintptr_t)map_get(ws->by_user, payer);

	if (n > 1)
		map_put(ws->by_user, payer, (void *)(n - 1));
	else
		(void)map_take(ws->by_user, payer);
	ws->n--;
	call_charge(w->call, 0);
}

/* One that was counted. */
static void watcher_end(struct watcher *w)
{
	struct call *c = w->call;

	uncount(w);
	watcher_free(w);
	call_unref(c);
}

static void watch_line_done(struct watch_line *l)
{
	object_unref(l->object);
	bytes_unref(l->text);
	*l = (struct watch_line){ 0 };
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
		watcher_end(w);
	map_free(take(ws->by_user));
	for (size_t i = 0; i < ARRAY_LEN(ws->lines); i++)
		watch_line_done(&ws->lines[i]);
}

/* The peer left or the answer ended. */
static void on_ended(void *owner)
{
	struct watcher *w = owner;

	w->call->req = NULL;
	watcher_end(w);
}

/* One event. */
static void put(struct watcher *w, const void *p, size_t len)
{
	if (w->ws)
		websocket_send(w->ws, w->how.media != MEDIA_JSON, p, len);
	else
		http_respond_write(w->req, p, len);
}

static bool is_full(const struct watcher *w)
{
	return w->ws ? websocket_full(w->ws) : http_respond_full(w->req);
}

static void send_line(struct watcher *w, struct buf *line)
{
	buf_add_str(line, "}\n");
	put(w, buf_head(line), line->len);
}

static struct err *encode(const struct render *how, const char *type, struct object *o,
			  struct bytes **ret)
{
	bool json = how->media == MEDIA_JSON;
	autobuf line = { 0 };
	struct err *e;

	if (json)
		buf_printf(&line, "{\"type\":\"%s\",\"object\":", type);
	e = render_add(how, o, &line);
	if (e)
		return e;
	if (json)
		buf_add_str(&line, "}\n");
	else
		encode_event(type, 0, &line);
	*ret = bytes_from_buf(&line);
	return NULL;
}

static bool same_render(const struct render *a, const struct render *b)
{
	return a->kind == b->kind && a->shape == b->shape && a->media == b->media &&
	       a->include == b->include && str_eq(a->version, b->version);
}

/* Watches that follow the same objects want the same line one after the other. */
static struct err *line_of(struct watchers *ws, const struct render *how, const char *type,
			   struct object *o, struct bytes **ret)
{
	struct watch_line *l =
		&ws->lines[((o->rev * SHAPE_MAX_ + how->shape) * MEDIA_MAX_ + how->media) %
			   ARRAY_LEN(ws->lines)];
	struct bytes *text = NULL;
	struct err *e;

	if (l->object == o && str_eq(l->type, type) && same_render(&l->how, how)) {
		*ret = bytes_ref(l->text);
		return NULL;
	}
	e = encode(how, type, o, &text);
	if (e)
		return e;
	ws->n_encoded++;
	*ret = text;
	if (text->len > WATCH_LINE_MAX)
		return NULL;
	watch_line_done(l);
	*l = (struct watch_line){
		.object = object_ref(o), .type = type, .how = *how, .text = bytes_ref(text)
	};
	return NULL;
}

static struct err *send_object(struct watcher *w, const char *type, struct object *o)
{
	autoptr(bytes) text = NULL;
	struct err *e = line_of(w->watchers, &w->how, type, o, &text);

	if (!e)
		put(w, text->data, text->len);
	return e;
}

static void send_bookmark_protobuf(struct watcher *w, uint64_t rev, bool initial_end)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");
	autobuf frame = { 0 };

	(void)json_set(d, meta, "resourceVersion",
		       json_new_strf(d, "%llu", (unsigned long long)rev));
	if (initial_end)
		json_set_str(d, json_need_obj(d, meta, "annotations"), "k8s.io/initial-events-end",
			     "true");
	render_add_protobuf(&w->how, root, &frame);
	encode_event("BOOKMARK", 0, &frame);
	put(w, buf_head(&frame), frame.len);
}

static void send_bookmark(struct watcher *w, uint64_t rev, bool initial_end)
{
	const struct encode_name name = render_name(&w->how);
	autobuf line = { 0 };

	if (w->how.media == MEDIA_PROTOBUF) {
		send_bookmark_protobuf(w, rev, initial_end);
		return;
	}
	buf_printf(&line,
		   "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"apiVersion\":\"%s\","
		   "\"metadata\":{\"resourceVersion\":\"%llu\"%s}}",
		   name.kind, name.api_version, (unsigned long long)rev,
		   initial_end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
	send_line(w, &line);
}

static void send_error(struct watcher *w, struct err *e)
{
	autoptr(json_doc) d = status_failure(e, NULL);
	const struct encode_name name = { "v1", "Status" };
	autobuf line = { 0 };

	if (w->how.media == MEDIA_PROTOBUF) {
		encode_object(&name, json_root(d), encode_status, &line);
		encode_event("ERROR", 0, &line);
		put(w, buf_head(&line), line.len);
	} else {
		buf_add_str(&line, "{\"type\":\"ERROR\",\"object\":");
		json_write(json_root(d), &line);
		send_line(w, &line);
	}
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
	autoptr(object) now = objects_of_entry(w->watchers->objects, ev->entry);
	autoptr(object) was =
		selective && ev->prev ? objects_of_entry(w->watchers->objects, ev->prev) : NULL;
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
	w->last = 0;
	slice_cancel(&w->slice);
	if (w->ws)
		websocket_close(w->ws, CLOSE_NORMAL, NULL); /* on_closed() frees the watcher */
	else
		http_respond_end(w->req); /* on_ended() does, later in this turn */
}

/* The last objects of a kind are gone before it is, and whoever watches is told so first. */
static void finish_if_told(struct watcher *w)
{
	if (w->last && store_watch_rev(w->watch) >= w->last)
		finish(w);
}

void watchers_end(struct watchers *ws, const struct kind *k)
{
	struct watcher *w, *next;

	for (size_t i = 0; i < ARRAY_LEN(ws->lines); i++)
		watch_line_done(&ws->lines[i]); /* they name kinds without a reference */

	list_each_safe(w, next, &ws->list, link) {
		if (w->how.kind != k)
			continue;
		if (w->existing.view) {
			finish(w);
			continue;
		}
		w->last = store_rev(ws->objects->store);
		timer_set(w->timer, LAST_MS);
		finish_if_told(w);
	}
}

void watchers_recheck(struct watchers *ws, bool (*may)(void *arg, const struct call *c), void *arg)
{
	struct watcher *w, *next;

	list_each_safe(w, next, &ws->list, link)
		if (!may(arg, w->call))
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

static void fail(struct watcher *w, struct err *e)
{
	send_error(w, too_old(e, w->watchers->objects->store, store_watch_rev(w->watch)));
	finish(w);
}

static struct err *send_existing(struct watcher *w, struct object *o)
{
	autoptr(bytes) text = NULL;
	struct err *e = encode(&w->how, "ADDED", o, &text);

	if (!e)
		put(w, text->data, text->len);
	return e;
}

/* Sends what there is while the connection takes it. True: this was enough for once, and there may
 * be more. */
static bool send_some(struct watcher *w)
{
	struct store_event ev;
	bool have = true;

	for (int n = 0; n < EVENTS_AT_ONCE && have && !is_full(w); n++) {
		struct err *e = store_watch_next(w->watch, &ev, &have);

		if (!e && have)
			e = send_event(w, &ev);
		if (e) {
			fail(w, e);
			return false;
		}
	}
	return have && !is_full(w); /* full: on_drain() goes on */
}

/* A selector may match nothing in a long history, so one go has an end, and slices follow. */
static void pump(struct watcher *w)
{
	if (w->existing.view || !list_empty(&w->slice.link))
		return; /* that goes first */
	if (send_some(w))
		slice_wake(&w->call->calls->slices, &w->slice);
	else
		finish_if_told(w);
}

/* True: there is more, of this or of what has happened since, and the connection takes it. */
static bool send_existing_until(struct watcher *w, usec until)
{
	struct err *e = NULL;

	while (!e && !w->existing.ended && !is_full(w)) {
		autoptr(object) o = NULL;

		if (clock_mono() >= until)
			return true;
		e = cursor_next(&w->existing, &o);
		if (!e && o)
			e = send_existing(w, o);
	}
	if (e) {
		fail(w, e);
		return false;
	}
	if (!w->existing.ended)
		return false; /* on_drain() goes on */
	cursor_done(&w->existing);
	call_charge(w->call, 0);
	if (w->mark)
		send_bookmark(w, w->from, true);
	return true;
}

/* What existed before, then what has happened since. */
static bool on_slice(struct slice *s, usec until)
{
	struct watcher *w = container_of(s, struct watcher, slice);

	if (w->existing.view)
		return send_existing_until(w, until);
	while (send_some(w))
		if (clock_mono() >= until)
			return true;
	finish_if_told(w);
	return false;
}

static void on_wake(void *arg)
{
	pump(arg);
}

static void on_drain(void *owner)
{
	struct watcher *w = owner;

	if (w->existing.view)
		slice_wake(&w->call->calls->slices, &w->slice);
	else
		pump(w);
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

	if (w->last) {
		finish(w);
		return;
	}
	if (w->bookmarks && !w->existing.view && !is_full(w))
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
			       "resourceVersion: Invalid value: \"%s\": "
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

static struct err *count_watch(struct watchers *ws, const struct call *c)
{
	uintptr_t n = (uintptr_t)map_get(ws->by_user, user_payer(&c->user));

	if (n >= WATCHES_PER_USER)
		return err_new(ERR_EXHAUSTED, "user \"%s\" has %d watches open, which is the limit",
			       user_payer(&c->user), WATCHES_PER_USER);
	map_put(ws->by_user, user_payer(&c->user), (void *)(n + 1));
	return NULL;
}

/* A time beyond a week is as good as a week: the watch ends, and the client starts another. */
static usec timeout_of(const struct list_options *o)
{
	uint64_t asked_s = o->timeout_s > 0 ? (uint64_t)MIN(o->timeout_s, TIMEOUT_MAX_S) : 0;

	return (usec)(asked_s ? asked_s : TIMEOUT_MIN_S + random_u64() % TIMEOUT_MIN_S) * 1000000;
}

/* What a watch follows, and what it sends first. */
static struct err *watcher_read(struct watcher *w, const struct list_options *o)
{
	struct store *store = w->watchers->objects->store;
	struct beginning b = { 0 };
	struct err *e = read_beginning(o, store_committed_rev(store), &b);

	if (!e)
		e = filter_init(&w->filter, w->call, o);
	if (!e)
		e = render_of(w->call, &w->how);
	if (!e && b.initial)
		e = cursor_init(&w->existing, w->watchers->objects, &w->filter, b.from);
	if (!e)
		e = too_old(store_watch_new(store, buf_head(&w->filter.prefix), b.from,
					    (struct store_wake){ on_wake, w }, &w->watch),
			    store, b.from);
	w->from = b.from;
	w->mark = b.mark;
	return e;
}

static void on_message(void *arg, bool binary, const char *data, size_t len)
{
	(void)arg, (void)binary, (void)data, (void)len; /* a watch has nothing to be told */
}

static void on_closed(void *arg, uint16_t code)
{
	(void)code;
	watcher_end(arg);
}

/* False: it was refused, and the request has its answer. */
static bool start_websocket(struct watcher *w)
{
	static const struct websocket_events events = {
		.message = on_message,
		.drained = on_drain,
		.closed = on_closed,
	};
	/* A single protocol is confirmed, whatever it is called, as a kube-apiserver does. */
	const char *offered = http_request_header(w->req, "Sec-WebSocket-Protocol");
	const char *const protocols[] = { offered, NULL };

	w->ws = websocket_accept(w->req, offered ? protocols : NULL, SAID_MAX, NULL);
	if (!w->ws) {
		uncount(w);
		watcher_free(w);
		return false;
	}
	websocket_set_events(w->ws, &events, w);
	w->req = w->call->req = NULL; /* its reference to the call is ours now */
	w->call->status = STATUS_SWITCHING;
	return true;
}

static void start(struct watcher *w)
{
	if (w->existing.view)
		call_charge(w->call, ANSWER_OUT_MAX);
	if (w->how.media == MEDIA_PROTOBUF)
		w->call->type = ENCODE_PROTOBUF ";stream=watch";
	if (!websocket_wanted(w->req))
		call_stream(w->call, w, on_ended, on_drain);
	else if (!start_websocket(w))
		return;
	arm(w);
	if (w->existing.view)
		slice_wake(&w->call->calls->slices, &w->slice);
	else
		pump(w);
}

void watchers_serve(struct watchers *ws, struct call *c)
{
	struct watcher *w = xnew(struct watcher);
	struct list_options o;
	struct err *e = options_read_list(c, &o);

	w->watchers = ws;
	w->req = c->req;
	w->call = c; /* the request's reference */
	list_init(&w->link);
	slice_init(&w->slice, w->call, on_slice);
	if (!e)
		e = watcher_read(w, &o);
	if (!e)
		e = count_watch(ws, c);
	if (e) {
		watcher_free(w);
		call_fail(c, e);
		return;
	}
	w->timer = timer_new(ws->loop, on_timer, w);
	w->bookmarks = o.bookmarks;
	w->ends = clock_mono() + timeout_of(&o);
	list_add_tail(&ws->list, &w->link);
	ends_name(&c->calls->ends, call_end(c));
	ws->n++;
	ws->n_started++;
	start(w);
}
