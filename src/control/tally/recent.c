/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "base/str.h"
#include "control/control.h"
#include "control/tally/tally.h"

/*
 * The claims that became Ready lately, for whoever shows them: those of the last minute, and some
 * in any case. Each costs a list element; what is too old goes when the next one comes.
 */
enum {
	RECENT_MAX = 4096,
	RECENT_MIN = 50,
};
static const usec recent_time = INT64_C(60) * 1000 * 1000;

struct entry {
	struct list on;
	struct control_claim claim;
};

struct recent {
	struct list list; /* struct entry, the newest first */
	size_t n;
	uint64_t seen;
};

struct recent *recent_new(void)
{
	struct recent *r = xnew(struct recent);

	list_init(&r->list);
	return r;
}

static void drop(struct recent *r, struct entry *en)
{
	list_del(&en->on);
	r->n--;
	free((char *)(uintptr_t)en->claim.ns);
	free((char *)(uintptr_t)en->claim.name);
	free(en);
}

void recent_free(struct recent *r)
{
	if (!r)
		return;
	while (!list_empty(&r->list))
		drop(r, list_first(&r->list, struct entry, on));
	free(r);
}

static void drop_old(struct recent *r, usec mono)
{
	while (r->n > RECENT_MIN) {
		struct entry *last = list_item(r->list.prev, struct entry, on);

		if (r->n <= RECENT_MAX && mono - last->claim.mono <= recent_time)
			return;
		drop(r, last);
	}
}

void recent_add(struct recent *r, const struct control_claim *c)
{
	struct entry *en = xnew(struct entry);

	en->claim = *c;
	en->claim.ns = xstrdup(c->ns);
	en->claim.name = xstrdup(c->name);
	list_add_head(&r->list, &en->on);
	r->n++;
	r->seen++;
	drop_old(r, c->mono);
}

void recent_each(const struct recent *r, bool (*fn)(void *arg, const struct control_claim *c),
		 void *arg)
{
	const struct entry *en;

	list_each(en, &r->list, on)
		if (!fn(arg, &en->claim))
			return;
}

uint64_t recent_seen(const struct recent *r)
{
	return r->seen;
}
