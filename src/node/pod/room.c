/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "base/wall.h"
#include "node/pod/pod_priv.h"

/*
 * How many Pods there may be, and how much they may request. As a kubelet does, a Pod for which
 * there is no room is failed rather than kept waiting: whoever made it can decide what to do. It
 * waits only for Pods that are on their way out, as the one that it replaces may be.
 *
 * Requests may be overcommitted (budget.h), because most sandboxes idle; one Pod alone may not
 * request more than there is.
 */
static int64_t requested(const struct pod_view *v, const char *what)
{
	int64_t first = 0, together = 0;

	for (size_t i = 0; i < v->n_containers; i++) {
		int64_t q = pod_container_quantity(&v->containers[i], what);

		if (v->containers[i].init)
			first = MAX(first, q); /* one after the other */
		else if (!__builtin_add_overflow(together, q, &together))
			continue;
		else
			together = INT64_MAX;
	}
	return MAX(first, together);
}

static struct pod_room room_of(const struct pod *p)
{
	return (struct pod_room){
		.pods = 1,
		.containers = (int64_t)p->n_containers,
		.memory = requested(p->view, "requests.memory") / 1000,
		.cpu_milli = requested(p->view, "requests.cpu"),
	};
}

static bool exceeds(int64_t want, int64_t used, int64_t have, int64_t times)
{
	return have && (want > have || want > have * times - used);
}

static void add(struct pod_room *to, const struct pod_room *r, int64_t sign)
{
	to->pods += sign * r->pods;
	to->containers += sign * r->containers;
	to->memory += sign * r->memory;
	to->cpu_milli += sign * r->cpu_milli;
}

static const char *lacks(const struct pod *p, const struct pod_room *used, char **ret)
{
	const struct host_budget *b = &p->pods->budget;
	const struct pod_room want = room_of(p);

	if (exceeds(want.pods, used->pods, b->pods, 1)) {
		*ret = xasprintf("this node runs at most %lld Pods; delete some, or raise "
				 "--max-pods of cay serve",
				 (long long)b->pods);
		return "OutOfpods";
	}
	if (exceeds(want.containers, used->containers, b->containers, 1)) {
		*ret = xasprintf("this node runs at most %lld containers, and %lld are in use; "
				 "delete some Pods, or raise --max-containers of cay serve",
				 (long long)b->containers, (long long)used->containers);
		return "OutOfcontainers";
	}
	if (exceeds(want.memory, used->memory, b->memory, b->overcommit)) {
		*ret = xasprintf("it requests %lld bytes of memory; this node has %lld, and Pods "
				 "requested %lld of %lld times that (--overcommit of cay serve)",
				 (long long)want.memory, (long long)b->memory,
				 (long long)used->memory, (long long)b->overcommit);
		return "OutOfmemory";
	}
	if (exceeds(want.cpu_milli, used->cpu_milli, b->cpu_milli, b->overcommit)) {
		*ret = xasprintf("it requests %lldm CPUs; this node has %lldm, and Pods requested "
				 "%lldm of %lld times that (--overcommit of cay serve)",
				 (long long)want.cpu_milli, (long long)b->cpu_milli,
				 (long long)used->cpu_milli, (long long)b->overcommit);
		return "OutOfcpu";
	}
	return NULL;
}

/* What Pods that are on their way out still hold. */
static struct pod_room leaving(const struct pods *ps)
{
	struct pod_room sum = { 0 };

	map_each(it, ps->pods) {
		const struct pod *p = it.value;

		if (p->view->deleting || p->gone)
			add(&sum, &p->room, 1);
	}
	return sum;
}

const char *pod_room_lacks(const struct pod *p, bool *ret_soon, char **ret)
{
	struct pod_room used = p->pods->used, soon;
	autofree char *unused_text = NULL;
	const char *reason;

	*ret_soon = false;
	if (!wall_stands("max-pods"))
		return NULL;
	reason = lacks(p, &used, ret);
	if (!reason)
		return NULL;
	soon = leaving(p->pods);
	add(&used, &soon, -1);
	*ret_soon = !lacks(p, &used, &unused_text);
	return reason;
}

void pod_room_take(struct pod *p)
{
	pod_room_put(p);
	p->room = room_of(p);
	add(&p->pods->used, &p->room, 1);
}

void pod_room_put(struct pod *p)
{
	add(&p->pods->used, &p->room, -1);
	p->room = (struct pod_room){ 0 };
}
