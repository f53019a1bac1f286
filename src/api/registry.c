/* SPDX-License-Identifier: Apache-2.0 */
#include "api/registry.h"

#include <assert.h>
#include <stdio.h>

#include "api/kind_priv.h"
#include "base/map.h"
#include "base/str.h"

/*
 * The registered kinds: a list in the order of discovery, and one map for all look-ups, whose keys
 * say what is looked up:
 *
 *   r/GROUP/VERSION/PLURAL    a resource, as in a request's path
 *   k/GROUP/VERSION/KIND      a kind, as in an object
 *   s/PLURAL[.GROUP]          what is stored, as in a key of the store
 */
enum {
	KEY_MAX = 512,
};

struct kinds {
	const struct kind **list; /* references */
	size_t n;
	const struct kind **served; /* those of list that are */
	size_t n_served;
	struct map *by_key; /* → const struct kind, in list */
	uint64_t version;
	struct list watches; /* struct kinds_watch */
};

struct key {
	char s[KEY_MAX];
};

/* A peer may ask for a longer name than any kind has: the key is cut off, and not found. */
static struct key key_of(char what, const char *group, const char *version, const char *name)
{
	struct key key;

	(void)snprintf(key.s, sizeof(key.s), "%c/%s/%s/%s", what, group, version, name);
	return key;
}

static struct key stored_key(const struct kind *k)
{
	struct key key;

	(void)snprintf(key.s, sizeof(key.s), "s/%s%s%s", k->plural, *k->group ? "." : "", k->group);
	return key;
}

static void *lookup(const struct kinds *ks, struct key key)
{
	return map_get(ks->by_key, key.s);
}

const struct kind *kinds_find(const struct kinds *ks, const char *group, const char *version,
			      const char *plural)
{
	const struct kind *k = lookup(ks, key_of('r', group, version, plural));

	return k && !(k->flags & KIND_UNSERVED) ? k : NULL;
}

const struct kind *kinds_by_name(const struct kinds *ks, const char *group, const char *version,
				 const char *kind)
{
	return lookup(ks, key_of('k', group, version, kind));
}

const struct kind *kinds_stored(const struct kinds *ks, const char *resource)
{
	struct key key;

	(void)snprintf(key.s, sizeof(key.s), "s/%s", resource);
	return lookup(ks, key);
}

const struct kind *kinds_need(const struct kinds *ks, const char *api_version, const char *kind)
{
	const struct kind *k;
	struct key key;

	(void)snprintf(key.s, sizeof(key.s), "k/%s%s/%s", strchr(api_version, '/') ? "" : "/",
		       api_version, kind);
	k = lookup(ks, key);
	assert(k && k->flags & KIND_PROTECTED);
	return k;
}

const struct kind *const *kinds_all(const struct kinds *ks, size_t *ret_n)
{
	*ret_n = ks->n;
	return ks->list;
}

const struct kind *const *kinds_served(const struct kinds *ks, size_t *ret_n)
{
	*ret_n = ks->n_served;
	return ks->served;
}

/* After each change, in the order of list. */
static void sort_out(struct kinds *ks)
{
	ks->served = xrealloc(ks->served, (ks->n + 1) * sizeof(*ks->served));
	ks->n_served = 0;
	for (size_t i = 0; i < ks->n; i++)
		if (!(ks->list[i]->flags & KIND_UNSERVED))
			ks->served[ks->n_served++] = ks->list[i];
}

uint64_t kinds_version(const struct kinds *ks)
{
	return ks->version;
}

static void changed(struct kinds *ks, const struct kind *k, bool added)
{
	struct kinds_watch *w, *next;

	ks->version++;
	sort_out(ks);
	list_each_safe(w, next, &ks->watches, link)
		w->changed(w->arg, k, added);
}

static bool is_known(const struct kinds *ks, const struct kind *k)
{
	return lookup(ks, key_of('r', k->group, k->version, k->plural)) == k;
}

struct err *kinds_add(struct kinds *ks, const struct kind *k)
{
	struct key resource = key_of('r', k->group, k->version, k->plural);
	struct key name = key_of('k', k->group, k->version, k->kind);

	if (k->storage && !is_known(ks, k->storage))
		return err_new(ERR_INVALID, "%s %s is stored as %s, which is not registered",
			       k->api_version, k->kind, k->storage->api_version);
	if (lookup(ks, resource) || lookup(ks, name) || (!k->storage && lookup(ks, stored_key(k))))
		return err_new(ERR_EXISTS, "%s %s (%s) is registered already", k->api_version,
			       k->kind, k->plural);
	ks->list = xrealloc(ks->list, (ks->n + 1) * sizeof(*ks->list));
	ks->list[ks->n++] = kind_ref(k);
	map_put(ks->by_key, resource.s, (void *)k);
	map_put(ks->by_key, name.s, (void *)k);
	if (!k->storage)
		map_put(ks->by_key, stored_key(k).s, (void *)k);
	changed(ks, k, true);
	return NULL;
}

static struct err *check_removal(const struct kinds *ks, const struct kind *k)
{
	if (!is_known(ks, k))
		return err_new(ERR_NOT_FOUND, "%s %s is not registered", k->api_version, k->kind);
	if (k->flags & KIND_PROTECTED)
		return err_new(ERR_FORBIDDEN, "%s %s is built in and cannot be removed",
			       k->api_version, k->kind);
	for (size_t i = 0; i < ks->n; i++)
		if (ks->list[i]->storage == k)
			return err_new(ERR_CONFLICT,
				       "objects of %s are stored as %s %s; remove it first",
				       ks->list[i]->api_version, k->api_version, k->kind);
	return NULL;
}

struct err *kinds_remove(struct kinds *ks, const struct kind *k)
{
	struct err *e = check_removal(ks, k);
	size_t at = 0;

	if (e)
		return e;
	while (ks->list[at] != k)
		at++;
	memmove(&ks->list[at], &ks->list[at + 1], (ks->n - at - 1) * sizeof(*ks->list));
	ks->n--;
	(void)map_del(ks->by_key, key_of('r', k->group, k->version, k->plural).s);
	(void)map_del(ks->by_key, key_of('k', k->group, k->version, k->kind).s);
	if (!k->storage)
		(void)map_del(ks->by_key, stored_key(k).s);
	changed(ks, k, false);
	kind_unref(k);
	return NULL;
}

void kinds_watch(struct kinds *ks, struct kinds_watch *w)
{
	list_add_tail(&ks->watches, &w->link);
}

void kinds_unwatch(struct kinds_watch *w)
{
	if (w->link.next)
		list_del(&w->link);
}

static void add_builtin(struct kinds *ks, const struct kind *row)
{
	struct kind like = *row, *k;
	struct err *e;

	like.flags |= KIND_PROTECTED;
	if (row->storage)
		like.storage = kinds_by_name(ks, row->storage->group, row->storage->version,
					     row->storage->kind);
	k = kind_new(&like);
	e = kinds_add(ks, k);
	assert(!e); /* the table has each kind once, and after the kind that it is stored as */
	kind_unref(k);
}

struct kinds *kinds_new(void)
{
	struct kinds *ks = xnew(struct kinds);

	ks->by_key = map_new(NULL);
	list_init(&ks->watches);
	for (size_t i = 0; kinds_builtin[i]; i++)
		add_builtin(ks, kinds_builtin[i]);
	return ks;
}

void kinds_free(struct kinds *ks)
{
	if (!ks)
		return;
	assert(list_empty(&ks->watches));
	for (size_t i = 0; i < ks->n; i++)
		kind_unref(ks->list[i]);
	free(ks->list);
	free(ks->served);
	map_free(ks->by_key);
	free(ks);
}
