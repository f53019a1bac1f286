/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"

/*
 * Events expire an hour after their last change, and the oldest are removed when there are too
 * many: each is an object in memory and in the store, and a machine that starts dozens of sandboxes
 * a second makes as many Events. All Events share one key, whose next pass is due when the first of
 * them expires; those that are already being deleted are ignored.
 */
enum {
	KEEP_S = 3600,
	KEEP_MAX = 5000,
	BUDGET = 128,   /* deleted in one pass */
	UNTIL_LEN = 17, /* 16 digits and a slash */
};

enum expiry_write {
	EXPIRY_WRITE_DELETE,
	EXPIRY_WRITE_MAX_,
};
_Static_assert(EXPIRY_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

/* Not the object itself: whoever held thousands of them would keep their decoded forms alive. */
struct aged {
	usec until;
	const char *uid, *ns, *name; /* in rank, behind the text that orders by until */
	char rank[];
};

struct event_expiry {
	struct cluster *cl;
	struct map *known;  /* uid → struct aged, owned */
	struct tree *order; /* rank → struct aged, the next to expire first */
};

static struct aged *aged_new(usec until, const char *uid, const char *ns, const char *name)
{
	size_t uid_size = strlen(uid) + 1, ns_size = strlen(ns) + 1, name_size = strlen(name) + 1;
	struct aged *a = xmalloc(sizeof(*a) + UNTIL_LEN + uid_size + ns_size + name_size);
	char *at = a->rank + UNTIL_LEN;

	(void)snprintf(a->rank, UNTIL_LEN + 1, "%016llx/", (unsigned long long)until);
	a->until = until;
	a->uid = memcpy(at, uid, uid_size);
	a->ns = memcpy(at + uid_size, ns, ns_size);
	a->name = memcpy(at + uid_size + ns_size, name, name_size);
	return a;
}

static void forget(struct event_expiry *x, const char *uid)
{
	struct aged *a = map_get(x->known, uid);

	if (!a)
		return;
	(void)tree_take(x->order, a->rank);
	(void)map_del(x->known, uid);
}

static void note(struct event_expiry *x, const struct object *event, usec until)
{
	struct aged *a = aged_new(until, event->uid, event->ns, event->name);

	forget(x, event->uid);
	map_put(x->known, a->uid, a);
	tree_put(x->order, a->rank, a);
}

/* When it last changed, as far as it says. */
static usec last_change(const struct object *o)
{
	const char *texts[] = { json_get_str(o->root, "lastTimestamp"),
				json_get_str(json_get(o->root, "series"), "lastObservedTime"),
				json_get_str(o->root, "eventTime"),
				json_get_str(json_get(o->root, "metadata"), "creationTimestamp") };
	usec when = 0;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (!texts[i])
			continue;
		err_free(clock_parse(texts[i], &when)); /* unreadable: counts as the oldest */
		return MAX(when, (usec)0);
	}
	return 0;
}

void event_expiry_changed(struct event_expiry *x, struct object *was, struct object *now)
{
	const struct object *any = now ? now : was;
	bool first = !map_len(x->known);
	usec from;

	if (any->kind != x->cl->event)
		return;
	if (!now || object_deleting(now)) {
		forget(x, any->uid);
		return;
	}
	from = cluster_synced(x->cl) ? context_now(x->cl->c) : last_change(now);
	note(x, now, from + KEEP_S * 1000000LL);
	if (first || map_len(x->known) > KEEP_MAX)
		item_wake(x->cl->c->chores, CONTROL_EVENT_EXPIRY, "", "");
}

/* Those that are due, at most BUDGET, as copies. */
static size_t find_due(const struct event_expiry *x, usec now, struct aged **ret)
{
	size_t len = map_len(x->known), n = 0;
	const char *at = "";
	struct aged *a;

	for (a = tree_seek(x->order, at, false, &at); a && n < BUDGET;
	     a = tree_seek(x->order, at, true, &at)) {
		if (a->until > now && n + KEEP_MAX >= len)
			break;
		ret[n++] = aged_new(a->until, a->uid, a->ns, a->name);
	}
	return n;
}

static void delete_event(struct pass *p, const struct kind *k, const struct aged *a)
{
	const struct client_delete_spec spec = { .uid = a->uid, .grace_s = 0 };
	const struct write w = { .name = EXPIRY_WRITE_DELETE,
				 .to = { .kind = k, .ns = a->ns, .name = a->name },
				 .what = "delete an event",
				 .flags = WRITE_GONE_OK };

	pass_delete(p, &w, &spec);
}

struct again event_expiry_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	const struct event_expiry *x = cl->event_expiry;
	struct err *e = pass_take_error(p);
	struct aged *due[BUDGET];
	const struct aged *next;
	const char *rank;
	size_t n;

	if (e)
		return again_retry(e);
	n = find_due(x, p->now, due);
	for (size_t i = 0; i < n; i++) {
		delete_event(p, cl->event, due[i]);
		free(due[i]);
	}
	next = tree_seek(x->order, "", false, &rank);
	if (!next)
		return again_never();
	return again_after((uint64_t)MAX(next->until - p->now, (usec)0) / 1000 + 1);
}

struct event_expiry *event_expiry_new(struct cluster *cl)
{
	struct event_expiry *x = xnew(struct event_expiry);

	x->cl = cl;
	x->known = map_new_borrowing(free);
	x->order = tree_new_borrowing(NULL);
	return x;
}

void event_expiry_free(struct event_expiry *x)
{
	if (!x)
		return;
	tree_free(x->order);
	map_free(x->known);
	free(x);
}
