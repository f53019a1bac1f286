/* SPDX-License-Identifier: Apache-2.0 */
#include "api/selector.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "client/http_priv.h"
#include "json/json.h"
#include "loop/loop.h"

/*
 * An informer lists once, then watches from the list's revision. A watch that was cut resumes from
 * the last revision it saw. Only when the server no longer has that revision (410) is the list
 * fetched again and compared with the cache, so that listeners hear of each difference once.
 *
 *   LIST → (pages) → WATCH → (server ends it after the agreed time) → WATCH
 *     ↑                 | failure        | 410
 *     +-- WAIT ←--------+                +→ LIST
 */
enum {
	PAGE = 500,
	WATCH_MIN_S = 300,
	WATCH_MAX_S = 600,
	LIST_MS = 60000,
	BACK_OFF_MS = 500,
	BACK_OFF_MAX_MS = 30000,
};
static const usec short_us = 1000000; /* a watch shorter than this backs off: no hot loop */
static const usec fresh_us = 5000000; /* and so does a list that soon after another */

struct listener {
	struct list link;
	struct client_watch_events ev;
	void *arg;
	bool dead;
};

struct informer {
	struct transport *t;
	const struct kind *kind;
	char *ns, *selector; /* NULL: all */
	struct selector *match;
	struct cache *cache;
	struct list listeners;
	unsigned depth;     /* of nested callbacks */
	bool synced, stale; /* stale: a list is needed */
	struct exchange *exchange;
	struct timer *timer;
	uint64_t rev; /* everything up to here is in the cache */
	char *more;   /* token of the list's next page */
	uint64_t list_rev;
	unsigned fails; /* in a row */
	usec began;     /* when this request began */
	usec listed;    /* when the last list began */
	bool moved;     /* this watch has delivered something */
};

static void list_start(struct informer *i);
static void watch_start(struct informer *i);

static void sweep(struct informer *i)
{
	struct listener *l, *next;

	list_each_safe(l, next, &i->listeners, link) {
		if (!l->dead)
			continue;
		list_del(&l->link);
		free(l);
	}
}

static void tell(void *arg, struct object *was, struct object *now)
{
	struct informer *i = arg;
	struct listener *l;

	i->depth++;
	list_each(l, &i->listeners, link) {
		if (!l->dead)
			l->ev.changed(l->arg, was, now);
	}
	if (!--i->depth)
		sweep(i);
}

static void tell_synced(struct informer *i)
{
	struct listener *l;

	if (i->synced)
		return;
	i->synced = true;
	i->depth++;
	list_each(l, &i->listeners, link) {
		if (!l->dead && l->ev.synced)
			l->ev.synced(l->arg);
	}
	if (!--i->depth)
		sweep(i);
}

static void go_on(struct informer *i)
{
	if (i->stale)
		list_start(i);
	else
		watch_start(i);
}

static void on_wait_over(void *arg)
{
	go_on(arg);
}

/* Takes e over. */
static void wait_after(struct informer *i, struct err *e)
{
	unsigned doubled = MIN(i->fails, 8u);
	uint64_t ms = MIN((uint64_t)BACK_OFF_MS << doubled, (uint64_t)BACK_OFF_MAX_MS);

	ms = ms / 2 + random_u64() % (ms / 2 + 1);
	i->fails++;
	/* Above debug although this is not a role folder: listeners do not hear of it, so nobody
	 * else could log it. */
	log_warn("watch was interrupted, trying again", KV("kind", i->kind->kind), KV("in_ms", ms),
		 KV("err", e));
	err_free(e);
	timer_set(i->timer, ms);
}

/* Takes e over. The stream or list has ended with it. */
static void failed(struct informer *i, struct err *e)
{
	if (!err_is(e, ERR_GONE)) {
		wait_after(i, e);
		return;
	}
	i->stale = true;
	if (clock_mono() - i->listed < fresh_us) {
		wait_after(i, e);
		return;
	}
	err_free(e);
	go_on(i);
}

static void add_query(struct buf *path, const char *name, const char *value)
{
	autofree char *text = url_encode(value);

	buf_printf(path, "&%s=%s", name, text);
}

/* The label, such as "LIST pods", is what the request is counted as and what its errors name. */
static struct exchange *request(struct informer *i, const char *verb, struct buf *path,
				struct exchange_spec *spec)
{
	autofree char *label = xasprintf("%s %s", verb, i->kind->plural);

	if (i->selector)
		add_query(path, "labelSelector", i->selector);
	spec->method = "GET";
	spec->path = buf_str(path);
	spec->label = label;
	spec->arg = i;
	i->began = clock_mono();
	return exchange_start(i->t, spec);
}

static struct err *take_page(struct informer *i, const struct reply *r)
{
	const struct json_limits limits = { .max_len = r->len +
						       1 }; /* transport.c enforces the limit */
	autoptr(json_doc) page = NULL;
	const struct json *meta;
	const char *more;
	struct err *e = json_parse(r->body, r->len, &limits, &page);

	if (e)
		return err_wrap(e, "list %s", i->kind->plural);
	meta = json_get(json_root(page), "metadata");
	e = parse_uint(str_or(json_get_str(meta, "resourceVersion"), "none"), UINT64_MAX,
		       &i->list_rev);
	if (e)
		return err_wrap(e, "list %s: read resourceVersion", i->kind->plural);
	json_each(it, json_get(json_root(page), "items")) {
		struct json_doc *d = json_doc_new();
		autoptr(object) o = NULL;

		json_set_root(d, json_is(it.val, JSON_OBJ) ? json_copy(d, it.val) : json_obj(d));
		o = http_object(i->kind, d);
		if (*o->name)
			cache_list_item(i->cache, o);
	}
	more = json_get_str(meta, "continue");
	free(i->more);
	i->more = str_empty(more) ? NULL : xstrdup(more);
	return NULL;
}

static void list_page(struct informer *i);

static void on_page(void *arg, struct err *e, const struct reply *r)
{
	struct informer *i = arg;

	i->exchange = NULL;
	if (!e && r->status != 200)
		e = status_err_text(r->body, r->len, r->status, "list");
	if (!e)
		e = take_page(i, r);
	if (e) {
		failed(i, e);
		return;
	}
	if (i->more) {
		list_page(i);
		return;
	}
	cache_list_end(i->cache, i->list_rev);
	i->rev = i->list_rev;
	i->stale = false;
	i->fails = 0;
	tell_synced(i);
	watch_start(i);
}

static void list_page(struct informer *i)
{
	struct exchange_spec spec = { .done = on_page, .timeout_ms = LIST_MS };
	autofree char *base = http_path(&(struct client_ref){ .kind = i->kind, .ns = i->ns });
	autobuf path = { 0 };

	buf_printf(&path, "%s?limit=%d", base, PAGE);
	if (i->more)
		add_query(&path, "continue", i->more);
	i->exchange = request(i, "LIST", &path, &spec);
}

static void list_start(struct informer *i)
{
	free(take(i->more));
	i->listed = clock_mono();
	cache_list_begin(i->cache);
	list_page(i);
}

/* One event. An error ends the watch. Takes d over. */
static struct err *take_event(struct informer *i, struct json_doc *d)
{
	struct json *root = json_root(d), *body = json_get(root, "object");
	const char *type = json_get_str(root, "type");
	enum {
		PUT,
		DEL,
		MARK
	} what = PUT;
	autoptr(object) o = NULL;
	struct err *e;

	if (str_eq(type, "ERROR") || !json_is(body, JSON_OBJ)) {
		e = status_err(body, 500, "watch");
		json_doc_free(d);
		return e;
	}
	if (str_eq(type, "DELETED"))
		what = DEL;
	else if (str_eq(type, "BOOKMARK"))
		what = MARK;
	json_set_root(d, body);
	o = http_object(i->kind, d);
	if (what == DEL)
		cache_del(i->cache, o);
	else if (what == PUT && *o->name)
		cache_put(i->cache, o);
	i->rev = MAX(i->rev, o->rev);
	i->fails = 0;
	i->moved = true;
	return NULL;
}

static struct err *take_line(struct informer *i, const char *line, size_t len)
{
	const struct json_limits limits = { .max_len = len + 1 };
	struct json_doc *d;
	struct err *e;

	if (!len || (len == 1 && *line == '\r'))
		return NULL;
	e = json_parse(line, len, &limits, &d);
	return e ? err_wrap(e, "watch %s", i->kind->plural) : take_event(i, d);
}

static void on_watch_data(void *arg, struct buf *in)
{
	struct informer *i = arg;
	const char *end;
	struct err *e = NULL;

	while (!e && in->len && (end = memchr(buf_head(in), '\n', in->len))) {
		size_t len = (size_t)(end - buf_head(in));

		e = take_line(i, buf_head(in), len);
		buf_eat(in, len + 1);
	}
	if (e) {
		exchange_cancel(take(i->exchange));
		failed(i, e);
	}
}

static void on_watch_end(void *arg, struct err *e, const struct reply *r)
{
	struct informer *i = arg;

	i->exchange = NULL;
	if (!e && r->status != 200)
		e = status_err_text(r->body, r->len, r->status, "watch");
	if (!e && !i->moved && clock_mono() - i->began < short_us)
		e = err_new(ERR_UNAVAILABLE, "watch %s: the server ended it at once",
			    i->kind->plural);
	if (e)
		failed(i, e);
	else
		watch_start(i);
}

static void watch_start(struct informer *i)
{
	unsigned s = WATCH_MIN_S + (unsigned)(random_u64() % (WATCH_MAX_S - WATCH_MIN_S));
	struct exchange_spec spec = { .data = on_watch_data,
				      .done = on_watch_end,
				      .timeout_ms = (s + 30) * 1000 };
	autofree char *base = http_path(&(struct client_ref){ .kind = i->kind, .ns = i->ns });
	autobuf path = { 0 };

	buf_printf(&path,
		   "%s?watch=true&allowWatchBookmarks=true&resourceVersion=%llu&timeoutSeconds=%u",
		   base, (unsigned long long)i->rev, s);
	i->moved = false;
	i->exchange = request(i, "WATCH", &path, &spec);
}

struct informer *informer_new(struct transport *t, const struct client_watch_spec *spec)
{
	struct informer *i = xnew(struct informer);

	i->t = t;
	i->kind = kind_ref(spec->kind);
	i->ns = str_empty(spec->ns) ? NULL : xstrdup(spec->ns);
	i->selector = str_empty(spec->label_selector) ? NULL : xstrdup(spec->label_selector);
	if (i->selector) {
		struct err *e = selector_parse_labels(i->selector, &i->match);

		err_free(e); /* the server will reject it and say why; nothing of ours matches */
	}
	i->cache = cache_new(tell, i);
	i->timer = timer_new(transport_loop(t), on_wait_over, i);
	i->stale = true;
	list_init(&i->listeners);
	list_start(i);
	return i;
}

void informer_free(struct informer *i)
{
	struct listener *l;

	if (!i)
		return;
	exchange_cancel(i->exchange);
	timer_free(i->timer);
	list_each(l, &i->listeners, link)
		l->dead = true;
	sweep(i);
	cache_free(i->cache);
	selector_free(i->match);
	kind_unref(i->kind);
	free(i->more);
	free(i->ns);
	free(i->selector);
	free(i);
}

bool informer_is(const struct informer *i, const struct client_watch_spec *spec)
{
	return i->kind == spec->kind && str_eq(str_or(i->ns, ""), str_or(spec->ns, "")) &&
	       str_eq(str_or(i->selector, ""), str_or(spec->label_selector, ""));
}

const struct kind *informer_kind(const struct informer *i)
{
	return i->kind;
}

bool informer_covers_all(const struct informer *i)
{
	return !i->ns && !i->selector;
}

struct cache *informer_cache(struct informer *i)
{
	return i->cache;
}

static bool tell_new(void *arg, struct object *o)
{
	struct listener *l = arg;

	l->ev.changed(l->arg, NULL, o);
	return !l->dead;
}

struct listener *informer_listen(struct informer *i, const struct client_watch_events *ev,
				 void *arg)
{
	struct listener *l = xnew(struct listener);

	l->ev = *ev;
	l->arg = arg;
	i->depth++; /* keeps l alive until we are done */
	list_add_tail(&i->listeners, &l->link);
	(void)cache_each(i->cache, NULL, tell_new, l);
	if (i->synced && !l->dead && l->ev.synced)
		l->ev.synced(l->arg);
	if (!--i->depth)
		sweep(i);
	return l;
}

bool informer_unlisten(struct informer *i, struct listener *l)
{
	struct listener *other;

	l->dead = true;
	if (!i->depth)
		sweep(i);
	list_each(other, &i->listeners, link) {
		if (!other->dead)
			return false;
	}
	return true;
}

bool informer_busy(const struct informer *i)
{
	return i->depth > 0;
}

static bool is_ours(const struct informer *i, const char *ns)
{
	return !i->ns || str_eq(i->ns, ns);
}

void informer_wrote(struct informer *i, struct object *o)
{
	const struct json *labels = json_at_path(o->root, "metadata.labels");

	/* What the watch has passed, the cache knows already. If the object is not there, it was
	 * deleted after this write, and nothing would ever remove it again. */
	if (!is_ours(i, o->ns) || o->rev <= i->rev)
		return;
	if (i->selector && (!i->match || !selector_matches_labels(i->match, labels)))
		cache_del(i->cache, o);
	else
		cache_put(i->cache, o);
}

void informer_deleted(struct informer *i, const char *ns, const char *name, const char *uid)
{
	if (is_ours(i, ns))
		cache_bury(i->cache, ns, name, uid);
}
