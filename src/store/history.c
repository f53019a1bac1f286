/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"
#include "base/mem.h"
#include "store/store_priv.h"

/*
 * The history: a ring of events, from which watches and views read. It is bounded in events and in
 * the bytes of the past states that it alone keeps alive.
 */
enum {
	HISTORY = 16384,
	HISTORY_BYTES = 8 << 20,
	WARM = 128,     /* this many events keep the decoded form of past states */
	BLOCK_MIN = 16, /* what the allocator adds to a block, at most */
};

void history_init(struct store *s, const struct store_spec *spec)
{
	s->ring_cap = spec->max_history ? spec->max_history : HISTORY;
	s->ring = xnew_n(struct store_event, s->ring_cap);
	s->max_history_bytes = spec->max_history_bytes ? spec->max_history_bytes : HISTORY_BYTES;
}

static size_t entry_bytes(const struct store_entry *e)
{
	size_t tag = e->tag && e->tags && e->tags->bytes ? e->tags->bytes(e->tag) : 0;

	return sizeof(*e) + strlen(e->key) + 1 + BLOCK_MIN + sizeof(*e->value) + e->value->len + 1 +
	       BLOCK_MIN + tag;
}

/*
 * An event holds the state before it, and a deletion also the last one. Any other state is either
 * live or held by the event that ended it.
 */
static void count_held(struct store *s, struct store_event *ev)
{
	size_t held = (ev->prev ? entry_bytes(ev->prev) : 0) +
		      (ev->type == STORE_DELETED ? entry_bytes(ev->entry) : 0);

	s->history_bytes -= ev->held;
	ev->held = (uint32_t)MIN(held, UINT32_MAX);
	s->history_bytes += ev->held;
}

static void drop_oldest(struct store *s)
{
	struct store_event *ev = store_slot(s, ++s->base);

	s->history_bytes -= ev->held;
	store_entry_unref(ev->entry);
	store_entry_unref(ev->prev);
	*ev = (struct store_event){ 0 };
}

/* Events that are not committed yet are never dropped: the ring grows instead. */
static void make_space(struct store *s)
{
	struct store_event *ring;
	size_t cap = s->ring_cap;

	if (s->rev - s->base < cap)
		return;
	if (s->base < s->committed) {
		drop_oldest(s);
		return;
	}
	ring = xnew_n(struct store_event, cap * 2);
	for (uint64_t r = s->base + 1; r <= s->rev; r++)
		ring[r % (cap * 2)] = *store_slot(s, r);
	free(s->ring);
	s->ring = ring;
	s->ring_cap = cap * 2;
}

/*
 * Past states keep their text; their decoded form is several times larger and seldom read. So are
 * the live states that tags->seldom() names.
 */
static void cool(struct store *s, struct store_event *ev)
{
	struct store_entry *e = ev->entry;

	if (ev->prev)
		store_entry_drop_tag(ev->prev);
	if (e->tag &&
	    (ev->type == STORE_DELETED || (s->tags && s->tags->seldom && s->tags->seldom(e->tag))))
		store_entry_drop_tag(e);
	count_held(s, ev);
}

/* Whoever watches has usually read the last few events long before there are as many new ones. */
static void cool_past(struct store *s)
{
	s->cooled = MAX(s->cooled, s->base);
	while (s->cooled < s->committed && s->cooled + WARM < s->rev)
		cool(s, store_slot(s, ++s->cooled));
}

static void trim(struct store *s)
{
	while (s->history_bytes > s->max_history_bytes && s->base < s->committed)
		drop_oldest(s);
}

void history_add(struct store *s, const struct store_event *ev)
{
	struct store_event *slot;

	make_space(s);
	s->rev = ev->entry->rev;
	slot = store_slot(s, s->rev);
	*slot = *ev;
	count_held(s, slot);
	cool_past(s);
	trim(s);
}

void history_done(struct store *s)
{
	while (s->base < s->rev && s->ring)
		drop_oldest(s);
	free(take(s->ring));
}
