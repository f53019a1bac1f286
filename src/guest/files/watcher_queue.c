/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "guest/files/watcher_queue_priv.h"

void watch_queue_init(struct watch_queue *q)
{
	q->n = 0;
	q->last = map_new(NULL);
	list_init(&q->list);
}

static void forget(struct watch_queue *q, const char *path, const struct queued *c)
{
	if (map_get(q->last, path) == c)
		(void)map_del(q->last, path);
}

void watch_queue_drop(struct watch_queue *q, struct queued *c)
{
	list_del(&c->on);
	q->n--;
	forget(q, c->path, c);
	if (c->old)
		forget(q, c->old, c);
	free(c->path);
	free(c->old);
	free(c);
}

void watch_queue_done(struct watch_queue *q)
{
	while (!list_empty(&q->list))
		watch_queue_drop(q, list_first(&q->list, struct queued, on));
	map_free(q->last);
}

struct queued *watch_queue_first(const struct watch_queue *q)
{
	return list_empty(&q->list) ? NULL : list_first(&q->list, struct queued, on);
}

static bool repeats(const struct watch_queue *q, enum watch_change type, const char *path)
{
	const struct queued *last = map_get(q->last, path);

	if (!last || !str_eq(last->path, path))
		return false;
	return last->type == type ||
	       (last->type == WATCH_CREATE && (type == WATCH_CHANGED || type == WATCH_CHMOD));
}

static bool add(struct watch_queue *q, enum watch_change type, const char *path, uint32_t cookie)
{
	struct queued *c;

	if (q->n >= WATCH_QUEUE_MAX)
		return false;
	c = xnew(struct queued);
	*c = (struct queued){ .type = type, .path = xstrdup(path), .cookie = cookie };
	list_add_tail(&q->list, &c->on);
	map_put(q->last, path, c);
	q->n++;
	return true;
}

bool watch_queue_add(struct watch_queue *q, enum watch_change type, const char *path)
{
	return repeats(q, type, path) || add(q, type, path, 0);
}

bool watch_queue_gone(struct watch_queue *q, const char *path, uint32_t cookie)
{
	return add(q, WATCH_REMOVE, path, cookie);
}

bool watch_queue_back(struct watch_queue *q, const char *path, uint32_t cookie)
{
	struct queued *c;

	list_each(c, &q->list, on)
		if (cookie && c->cookie == cookie) {
			c->type = WATCH_RENAME;
			c->cookie = 0;
			c->old = c->path;
			c->path = xstrdup(path);
			map_put(q->last, path, c);
			return true;
		}
	return false;
}
