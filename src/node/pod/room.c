/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "base/wall.h"
#include "node/pod/pod_priv.h"

/*
 * How many Pods there may be, and how much they may request. As a kubelet does, a Pod for which
 * there is no room is failed rather than kept waiting: whoever made it can decide what to do. It
 * waits only for Pods that are on their way out, as the one that it replaces may be, and then in
 * line behind those who came before it.
 *
 * Requests may be overcommitted (budget.h), because most sandboxes idle; one Pod alone may not
 * request more than there is.
 */
int64_t pod_requested(const struct pod *p, const char *what, bool wanted)
{
	int64_t most = 0, together = 0; /* together: of those that run on */

	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];
		int64_t q =
			wanted ? pod_container_quantity(c->view, what) : container_amount(c, what);

		if (__builtin_add_overflow(together, q, &q))
			q = INT64_MAX;
		if (!c->view->init || c->view->sidecar)
			together = q;
		most = MAX(most, q);
	}
	return most;
}

static int64_t count(const struct pod *p)
{
	int64_t n = 0;

	for (size_t i = 0; i < p->n_containers; i++)
		n += !p->containers[i]->view->ephemeral || p->containers[i]->counted;
	return n;
}

static struct pod_room room_of(const struct pod *p, bool wanted)
{
	return (struct pod_room){
		.pods = 1,
		.containers = count(p),
		.memory = pod_requested(p, "requests.memory", wanted) / 1000,
		.cpu_milli = pod_requested(p, "requests.cpu", wanted),
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

static const char *lacks(const struct pod *p, const struct pod_room *used, bool wanted, char **ret)
{
	const struct host_budget *b = &p->pods->budget;
	const struct pod_room want = room_of(p, wanted);
	const struct {
		const char *reason, *what, *unit;
		const char *flag; /* of the limit; NULL: it may be overcommitted */
		int64_t want, used, have;
	} rows[] = {
		{ "OutOfpods", "Pods", "", "--max-pods", want.pods, used->pods, b->pods },
		{ "OutOfcontainers", "containers", "", "--max-containers", want.containers,
		  used->containers, b->containers },
		{ "OutOfmemory", "memory", " bytes", NULL, want.memory, used->memory, b->memory },
		{ "OutOfcpu", "CPUs", "m", NULL, want.cpu_milli, used->cpu_milli, b->cpu_milli },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		long long n_want = rows[i].want, n_used = rows[i].used, have = rows[i].have;
		long long times = rows[i].flag ? 1 : b->overcommit;

		if (!exceeds(n_want, n_used, have, times))
			continue;
		*ret = rows[i].flag ? xasprintf("this node runs at most %lld %s, and %lld are in "
						"use; delete some Pods, or raise %s of cay serve",
						have, rows[i].what, n_used, rows[i].flag)
				    : xasprintf("it requests %lld%s of %s; this node has %lld%s, "
						"and Pods requested %lld%s of %lld times that "
						"(--overcommit of cay serve)",
						n_want, rows[i].unit, rows[i].what, have,
						rows[i].unit, n_used, rows[i].unit, times);
		return rows[i].reason;
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
	reason = lacks(p, &used, false, ret);
	if (!reason)
		return NULL;
	soon = leaving(p->pods);
	add(&used, &soon, -1);
	*ret_soon = !lacks(p, &used, false, &unused_text);
	return reason;
}

bool pod_room_lacks_more(const struct pod *p, bool *ret_never, char **ret)
{
	const struct pod_room none = { 0 };
	struct pod_room others = p->pods->used;
	autofree char *text = NULL;

	add(&others, &p->room, -1);
	*ret_never = lacks(p, &none, true, &text) != NULL;
	return lacks(p, &others, true, ret) != NULL;
}

void pod_room_take(struct pod *p)
{
	pod_room_put(p);
	p->room = room_of(p, false);
	add(&p->pods->used, &p->room, 1);
}

bool pod_room_one_more(struct pod *p)
{
	const struct pods *ps = p->pods;

	if (wall_stands("max-pods") && exceeds(1, ps->used.containers, ps->budget.containers, 1))
		return false;
	p->room.containers++;
	p->pods->used.containers++;
	return true;
}

void pod_room_put(struct pod *p)
{
	if (!p->room.pods)
		return;
	add(&p->pods->used, &p->room, -1);
	p->room = (struct pod_room){ 0 };
	waits_room_left(p->pods);
}
