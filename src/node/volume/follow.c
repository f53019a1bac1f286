/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/queue.h"
#include "node/volume/volume_priv.h"

/*
 * Which Pods' volumes are made from an object: when it changes, their files do, a moment later.
 * However many changes there are in that moment, the files are written once.
 */
enum {
	REFRESH_MS = 250,
};

struct following { /* what one Pod follows */
	char **keys;
	size_t n;
	bool self; /* its own labels and annotations, by a downwardAPI */
};

static char *key_of(bool secret, const char *ns, const char *name)
{
	return xasprintf("%s/%s/%s", source_noun(secret), ns, name);
}

static void following_free(void *arg)
{
	struct following *f = arg;

	for (size_t i = 0; i < f->n; i++)
		free(f->keys[i]);
	free(f->keys);
	free(f);
}

static void free_map(void *arg)
{
	map_free(arg);
}

static void follow_key(struct volumes *v, struct following *f, const char *uid, char *key)
{
	struct map *uids = map_get(v->followers, key);

	if (!uids) {
		uids = map_new(NULL);
		map_put(v->followers, key, uids);
	}
	map_put(uids, uid, v);
	f->keys = xrealloc(f->keys, (f->n + 1) * sizeof(*f->keys));
	f->keys[f->n++] = key;
}

void follow_start(struct volumes *v, const struct pod_view *p)
{
	struct following *f;

	if (map_has(v->following, p->uid))
		return;
	f = xnew(struct following);
	for (size_t i = 0; i < p->n_volumes; i++)
		for (size_t k = 0; k < p->volumes[i].n_sources; k++) {
			const struct pod_volume_source *s = &p->volumes[i].sources[k];

			if (s->type == POD_VOLUME_DOWNWARD)
				f->self = true;
			else if (!str_empty(s->object))
				follow_key(v, f, p->uid,
					   key_of(s->type == POD_VOLUME_SECRET, p->ns, s->object));
		}
	map_put(v->following, p->uid, f);
}

void follow_stop(struct volumes *v, const char *uid)
{
	struct following *f = map_get(v->following, uid);

	for (size_t i = 0; f && i < f->n; i++) {
		struct map *uids = map_get(v->followers, f->keys[i]);

		if (!uids) /* it named the object twice */
			continue;
		(void)map_del(uids, uid);
		if (!map_len(uids))
			(void)map_del(v->followers, f->keys[i]);
	}
	(void)map_del(v->following, uid);
}

/* An object that was immutable cannot have changed; one that was deleted and made anew is another
 * object, which only Pods to come know. */
void follow_changed(struct volumes *v, const struct object *was, const struct object *now)
{
	const struct object *o = now ? now : was;
	autofree char *key = key_of(str_eq(o->kind->kind, "Secret"), o->ns, o->name);

	if (was && json_get_bool(was->root, "immutable", false))
		return;
	map_each(it, map_get(v->followers, key))
		queue_add_later(v->refresh, it.key, REFRESH_MS);
}

void volumes_pod_changed(struct volumes *v, const char *uid)
{
	const struct following *f = map_get(v->following, uid);

	if (f && f->self && v->refresh)
		queue_add_later(v->refresh, uid, REFRESH_MS);
}

static struct again refresh_pass(void *arg, struct queue_item *it)
{
	struct volumes *v = arg;

	if (map_has(v->following, it->key))
		v->spec.stale(v->spec.arg, it->key);
	return again_never();
}

void follow_open(struct volumes *v)
{
	const struct queue_spec spec = { .loop = v->spec.loop, .run = refresh_pass, .arg = v };

	v->followers = map_new(free_map);
	v->following = map_new(following_free);
	v->refresh = queue_new(&spec);
	queue_open(v->refresh);
}

void follow_close(struct volumes *v)
{
	queue_free(take(v->refresh));
	map_free(take(v->following));
	map_free(take(v->followers));
}
