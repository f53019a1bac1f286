/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "guest/files/watcher_tree_priv.h"

void watch_tree_init(struct watch_tree *t)
{
	*t = (struct watch_tree){ .n = 0 };
	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		list_init(&t->buckets[i]);
}

void watch_tree_del(struct watch_tree *t, struct watch_dir *d)
{
	list_del(&d->on);
	t->n--;
	free(d->name);
	free(d);
}

void watch_tree_done(struct watch_tree *t)
{
	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		while (!list_empty(&t->buckets[i]))
			watch_tree_del(t, list_first(&t->buckets[i], struct watch_dir, on));
}

static struct list *bucket_of(const struct watch_tree *t, int wd)
{
	return (struct list *)&t->buckets[(unsigned)wd % WATCH_BUCKETS];
}

struct watch_dir *watch_tree_find(const struct watch_tree *t, int wd)
{
	struct watch_dir *d;

	list_each(d, bucket_of(t, wd), on)
		if (d->wd == wd)
			return d;
	return NULL;
}

struct watch_dir *watch_tree_add(struct watch_tree *t, int wd, struct watch_dir *above,
				 const char *name)
{
	struct watch_dir *d;

	if (watch_tree_find(t, wd))
		return NULL;
	d = xnew(struct watch_dir);
	*d = (struct watch_dir){ .above = above, .wd = wd, .name = xstrdup(name) };
	list_add_tail(bucket_of(t, wd), &d->on);
	t->n++;
	return d;
}

void watch_tree_move(struct watch_dir *d, struct watch_dir *above, const char *name)
{
	free(d->name);
	d->name = xstrdup(name);
	d->above = above;
}

bool watch_tree_below(const struct watch_dir *d, const struct watch_dir *top)
{
	for (; d; d = d->above)
		if (d == top)
			return true;
	return false;
}

void watch_tree_path(const struct watch_dir *d, const char *name, struct buf *out)
{
	if (d->above)
		watch_tree_path(d->above, NULL, out);
	if (out->len && *d->name)
		buf_add_char(out, '/');
	buf_add_str(out, d->name);
	if (!name || !*name)
		return;
	if (out->len)
		buf_add_char(out, '/');
	buf_add_str(out, name);
}
