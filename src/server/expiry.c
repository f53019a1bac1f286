/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server_priv.h"

/*
 * Events end an hour after their last change, and the oldest go when there are too many: they tell
 * of the past and must not become it. A list in the order of their changes follows the store.
 */
enum {
	KEEP_S = 3600,
	KEEP_MAX = 10000,
	BUDGET = 128,     /* deleted in one turn */
	AGAIN_MS = 10000, /* while the store takes no writes */
};

struct aged {
	struct list link;
	usec until;
	char key[];
};

struct expiry {
	struct server *s;
	struct map *known; /* key → struct aged, in `order` */
	struct list order; /* the next to end first */
	struct timer *timer;
};

static void forget(struct expiry *x, const char *key)
{
	struct aged *a = map_take(x->known, key);

	if (!a)
		return;
	list_del(&a->link);
	free(a);
}

static void arm(struct expiry *x)
{
	usec left;

	if (list_empty(&x->order))
		return;
	left = list_first(&x->order, struct aged, link)->until - clock_wall();
	timer_set(x->timer,
		  map_len(x->known) > KEEP_MAX ? 0 : (uint64_t)MAX(left, (usec)0) / 1000 + 1);
}

static void note(struct expiry *x, const char *key, usec until)
{
	struct aged *a;

	forget(x, key);
	a = xcalloc(1, sizeof(*a) + strlen(key) + 1);
	a->until = until;
	memcpy(a->key, key, strlen(key) + 1);
	list_add_tail(&x->order, &a->link);
	map_put(x->known, key, a);
}

void expiry_changed(struct expiry *x, const struct store_event *ev)
{
	const struct object *o = ev->entry->tag;

	if (!x || o->kind != x->s->kinds.event)
		return;
	if (ev->type == STORE_DELETED)
		forget(x, ev->entry->key);
	else
		note(x, ev->entry->key, clock_wall() + KEEP_S * 1000000LL);
	if (!timer_armed(x->timer) || map_len(x->known) > KEEP_MAX)
		arm(x);
}

/* False: the store takes no writes. */
static bool end_event(struct expiry *x, const struct aged *a)
{
	struct store_entry *en = store_get(x->s->store, a->key);
	autoptr(object) o = en ? object_ref(en->tag) : NULL;
	autoop op = {
		.s = x->s, .user = "system:cay:expiry", .kind = x->s->kinds.event, .sub = ""
	};
	struct err *e;

	if (!o) {
		forget(x, a->key);
		return true;
	}
	op.ns = o->ns;
	op.name = o->name;
	e = op_remove(&op);
	err_free(e); /* it is tried again */
	return !e;
}

static void on_timer(void *arg)
{
	struct expiry *x = arg;
	usec now = clock_wall();
	struct aged *a;

	for (int i = 0; i < BUDGET && !list_empty(&x->order); i++) {
		a = list_first(&x->order, struct aged, link);
		if (a->until > now && map_len(x->known) <= KEEP_MAX)
			break;
		if (!end_event(x, a)) {
			timer_set(x->timer, AGAIN_MS);
			return;
		}
	}
	arm(x);
}

/* When it last changed, as far as it says so. */
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
		err_free(clock_parse(texts[i], &when)); /* unreadable: as old as can be */
		return when;
	}
	return 0;
}

static int by_revision(const void *a, const void *b)
{
	const struct object *x = *(struct object *const *)a, *y = *(struct object *const *)b;

	return x->rev < y->rev ? -1 : x->rev > y->rev;
}

static void note_existing(struct expiry *x)
{
	struct store_entry *en = NULL;
	struct object **list = NULL;
	size_t n = 0;

	while ((en = store_next(x->s->store, "events/", en ? en->key : NULL))) {
		list = xrealloc(list, (n + 1) * sizeof(struct object *));
		list[n++] = en->tag;
	}
	if (n)
		qsort(list, n, sizeof(struct object *), by_revision);
	for (size_t i = 0; i < n; i++) {
		autofree char *key = key_of(x->s->kinds.event, list[i]->ns, list[i]->name);

		note(x, key, last_change(list[i]) + KEEP_S * 1000000LL);
	}
	free(list);
}

struct expiry *expiry_new(struct server *s)
{
	struct expiry *x = xnew(struct expiry);

	x->s = s;
	x->known = map_new(NULL);
	list_init(&x->order);
	x->timer = timer_new(s->loop, on_timer, x);
	note_existing(x);
	arm(x);
	return x;
}

void expiry_free(struct expiry *x)
{
	struct aged *a, *next;

	if (!x)
		return;
	list_each_safe(a, next, &x->order, link)
		free(a);
	map_free(x->known);
	timer_free(x->timer);
	free(x);
}
