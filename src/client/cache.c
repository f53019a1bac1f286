/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "client/http_priv.h"

/*
 * News of an object arrives in two ways, through the watch and in the answers to our own writes,
 * and neither waits for the other. Revisions tell which is newer, so old news is dropped whichever
 * way it comes. A delete has no revision to compare: its uid is remembered ("buried") until the
 * watch reports the deletion, since a uid never comes back.
 *
 *   objects: "ns/name" → entry        graves: uid → usec, the time of burial
 */
enum {
	MAX_GRAVES = 65536,
};
static const usec grave_us = 15 * 60 * 1000000ll; /* no watch lags that far behind */

struct entry {
	struct object *o;
	unsigned round; /* of the last list that contained it, 0: none */
};

struct cache {
	struct tree *objects;
	struct map *graves;
	unsigned round; /* counts lists */
	void (*tell)(void *arg, struct object *was, struct object *now);
	void *arg;
};

static void entry_free(void *p)
{
	struct entry *en = p;

	if (!en)
		return;
	object_unref(en->o);
	free(en);
}

struct cache *cache_new(void (*tell)(void *arg, struct object *was, struct object *now), void *arg)
{
	struct cache *c = xnew(struct cache);

	c->objects = tree_new(entry_free);
	c->graves = map_new(free);
	c->tell = tell;
	c->arg = arg;
	return c;
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	tree_free(c->objects);
	map_free(c->graves);
	free(c);
}

static char *key_of(const char *ns, const char *name)
{
	return xasprintf("%s/%s", ns ? ns : "", name);
}

static struct entry *find(struct cache *c, const char *ns, const char *name)
{
	char small[512];
	autofree char *large = NULL;
	int n = snprintf(small, sizeof(small), "%s/%s", ns ? ns : "", name);

	if (n >= 0 && (size_t)n < sizeof(small))
		return tree_get(c->objects, small);
	large = key_of(ns, name);
	return tree_get(c->objects, large);
}

struct object *cache_get(struct cache *c, const char *ns, const char *name)
{
	struct entry *en = find(c, ns, name);

	return en ? en->o : NULL;
}

bool cache_each(struct cache *c, const char *ns, bool (*fn)(void *arg, struct object *o), void *arg)
{
	autofree char *prefix = ns ? key_of(ns, "") : xstrdup("");
	const char *key = prefix;
	struct entry *en = tree_seek(c->objects, prefix, false, &key);

	for (; en && str_starts(key, prefix); en = tree_seek(c->objects, key, true, &key)) {
		if (!fn(arg, en->o))
			return false;
	}
	return true;
}

static void add(struct cache *c, struct object *o, unsigned round)
{
	autofree char *key = key_of(o->ns, o->name);
	struct entry *en = xnew(struct entry);

	en->o = object_ref(o);
	en->round = round;
	tree_put(c->objects, key, en);
	c->tell(c->arg, NULL, o);
}

static void drop(struct cache *c, struct object *o)
{
	autofree char *key = key_of(o->ns, o->name);
	struct entry *en = tree_take(c->objects, key);

	c->tell(c->arg, en->o, NULL);
	entry_free(en);
}

static void put(struct cache *c, struct object *o, unsigned round)
{
	struct entry *en = find(c, o->ns, o->name);
	struct object *was;

	if (map_has(c->graves, o->uid) || (en && en->o->rev >= o->rev))
		return;
	if (!en) {
		add(c, o, round);
		return;
	}
	if (!str_eq(en->o->uid, o->uid)) { /* a new object of that name: the old one ended unseen */
		drop(c, en->o);
		add(c, o, round);
		return;
	}
	was = en->o;
	en->o = object_ref(o);
	c->tell(c->arg, was, o);
	object_unref(was);
}

void cache_put(struct cache *c, struct object *o)
{
	put(c, o, 0);
}

void cache_list_item(struct cache *c, struct object *o)
{
	struct entry *en = find(c, o->ns, o->name);

	if (en && str_eq(en->o->uid, o->uid))
		en->round = c->round;
	put(c, o, c->round);
}

void cache_del(struct cache *c, struct object *o)
{
	struct entry *en = find(c, o->ns, o->name);

	(void)map_del(c->graves, o->uid);
	if (en && en->o->rev <= o->rev)
		drop(c, en->o);
}

static void forget_old_graves(struct cache *c)
{
	usec now = clock_mono();

	map_each(it, c->graves) {
		if (now - *(usec *)it.value > grave_us)
			(void)map_del(c->graves, it.key);
	}
}

void cache_bury(struct cache *c, const char *ns, const char *name, const char *uid)
{
	struct entry *en = find(c, ns, name);
	usec *when;

	if (!en || (!str_empty(uid) && !str_eq(en->o->uid, uid)))
		return; /* the watch was faster, or a new object has its name */
	if (map_len(c->graves) >= MAX_GRAVES)
		forget_old_graves(c);
	if (map_len(c->graves) < MAX_GRAVES) {
		when = xnew(usec);
		*when = clock_mono();
		map_put(c->graves, en->o->uid, when);
	}
	drop(c, en->o);
}

void cache_list_begin(struct cache *c)
{
	forget_old_graves(c);
	c->round++;
}

void cache_list_end(struct cache *c, uint64_t list_rev)
{
	const char *key = "";
	struct entry *en = tree_seek(c->objects, "", false, &key);

	while (en) {
		autofree char *at = xstrdup(key);

		if (en->round != c->round && en->o->rev <= list_rev)
			drop(c, en->o);
		en = tree_seek(c->objects, at, true, &key);
	}
}

size_t cache_len(const struct cache *c)
{
	return tree_len(c->objects);
}
