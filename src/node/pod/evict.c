/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "node/pod/evict_priv.h"
#include "node/pod/pod_priv.h"

/*
 * Eviction: a node that is short of memory or disk ends one Pod after the other until it is not.
 * What they use is what was measured last (usage.c); as disk, a kubelet's sum: layers, logs and
 * emptyDirs.
 */
static const struct {
	const char *resource, *request;
} lacks[PODS_LACK_MAX_] = {
	[PODS_LACK_DISK] = { "ephemeral-storage", "requests.ephemeral-storage" },
	[PODS_LACK_MEMORY] = { "memory", "requests.memory" },
};

static int64_t used_by(const struct container *c, enum pods_lack lack)
{
	return lack == PODS_LACK_DISK ? c->meter.disk : c->meter.memory;
}

static bool goes_before(const struct evict_seen *a, const struct evict_seen *b)
{
	bool over_a = a->used > a->requested, over_b = b->used > b->requested;

	if (over_a != over_b)
		return over_a;
	if (a->priority != b->priority)
		return a->priority < b->priority;
	return a->used - a->requested > b->used - b->requested;
}

size_t evict_choose(const struct evict_seen *list, size_t n)
{
	size_t best = n;

	for (size_t i = 0; i < n; i++)
		if (list[i].used > 0 && (best == n || goes_before(&list[i], &list[best])))
			best = i;
	return best;
}

static struct evict_seen observe(const struct pod *p, enum pods_lack lack)
{
	struct evict_seen s = { .used = lack == PODS_LACK_DISK ? p->disk : 0,
				.requested = pod_requested(p, lacks[lack].request, true) / 1000,
				.priority = p->view->priority };

	for (size_t i = 0; i < p->n_containers; i++)
		s.used += used_by(p->containers[i], lack);
	return s;
}

/* In a kubelet's words. */
static void evict(struct pod *p, enum pods_lack lack, const char *why)
{
	const struct container *most = p->containers[0];
	autobuf text = { 0 };

	for (size_t i = 1; i < p->n_containers; i++)
		if (used_by(p->containers[i], lack) > used_by(most, lack))
			most = p->containers[i];
	buf_printf(&text,
		   "The node was low on resource: %s (%s). Container %s was using %lldKi, request "
		   "is %lldKi.",
		   lacks[lack].resource, why, most->view->name,
		   (long long)used_by(most, lack) >> 10,
		   (long long)pod_container_quantity(most->view, lacks[lack].request) / 1000 >> 10);
	if (lack == PODS_LACK_DISK && p->disk)
		buf_printf(&text, " The Pod's emptyDirs and older logs had %lldKi.",
			   (long long)p->disk >> 10);
	free(p->evicted);
	p->evicted = xstrdup(buf_str(&text));
	pod_wake(p);
}

bool pods_evict(struct pods *ps, enum pods_lack lack, const char *why)
{
	autoptr(arena) a = arena_new();
	struct evict_seen *seen = arena_new_n(a, struct evict_seen, map_len(ps->pods) + 1);
	struct pod **list = arena_new_n(a, struct pod *, map_len(ps->pods) + 1);
	size_t n = 0, chosen;

	map_each(it, ps->pods) {
		struct pod *p = it.value;

		if (p->evicted && (p->phase <= POD_ACTIVE || p->net))
			return true; /* one at a time: the last has not made its room yet */
		if (p->phase != POD_ACTIVE || p->gone || p->view->deleting)
			continue;
		list[n] = p;
		seen[n++] = observe(p, lack);
	}
	chosen = evict_choose(seen, n);
	if (chosen == n)
		return false;
	evict(list[chosen], lack, why);
	return true;
}

int64_t pods_memory(const struct pods *ps)
{
	int64_t sum = 0;

	map_each(it, ps->pods) {
		const struct pod *p = it.value;

		for (size_t i = 0; i < p->n_containers; i++)
			sum += p->containers[i]->meter.memory;
	}
	return sum;
}
