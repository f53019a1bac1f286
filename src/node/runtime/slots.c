/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/numbers.h"
#include "node/launch/launch.h"
#include "node/runtime/native_priv.h"

/*
 * Slots are made ahead and parked; what a task takes is asked for anew. A slot is `parking` from
 * the request until it says that it is parked, then it is `ready`. Slots are parked for the image
 * that was asked for last. One that dies is replaced, ready or not.
 */
enum {
	RETRY_MS = 1000,
};

/* A slot without a permit to launch it is of no use yet. */
uint32_t slots_base(unsigned range)
{
	return (uint32_t)(range + SLOTS_FIRST_BASE) * ID_RANGE;
}

static unsigned stock(void *arg, bool later)
{
	struct native *n = arg;

	return MIN(n->slots.n_ready, permits_left(&n->permits, !later));
}

void slots_init(struct native *n)
{
	list_init(&n->slots.parking);
	list_init(&n->slots.ready);
	line_init(&n->slots.line, n->loop, stock, n);
}

void slot_free(struct native_slot *s)
{
	if (!s)
		return;
	permit_put(&s->permit);
	watch_free(s->watch);
	if (s->ctl >= 0)
		(void)close(s->ctl);
	if (s->pidfd >= 0)
		(void)close(s->pidfd);
	free(s->id);
	free(s);
}

/* One that nobody took: its process ends when its socket closes, and is killed to be quick. */
static void discard(struct native_slot *s)
{
	list_del(&s->on);
	leave(s->native, &(struct leave_spec){ .id = s->id,
					       .pidfd = take_fd(s->pidfd),
					       .range = (int)s->range,
					       .kill = true });
	slot_free(s);
}

void slots_done(struct native *n)
{
	struct native_slot *s, *next;

	line_done(&n->slots.line);
	list_each_safe(s, next, &n->slots.parking, on)
		discard(s);
	list_each_safe(s, next, &n->slots.ready, on)
		discard(s);
	arena_free(n->slots.arena);
}

static void ask(struct native *n, const struct native_slot *s)
{
	struct message m = { .type = MESSAGE_SLOT,
			     .slot = { .name = s->id,
				       .base = slots_base(s->range),
				       .oom_score = n->slots.oom_score } };

	if (n->slots.expected) {
		m.slot.expects = true;
		m.slot.image = *n->slots.expected;
	}
	launcher_ask(&n->launchers[LAUNCHER_SLOTS], &m);
}

static bool make_one(struct native *n)
{
	struct native_slot *s;
	unsigned range;
	char hex[13];

	if (!numbers_take(n->ranges, &range)) {
		native_trouble_is(n, &n->slots.line, "all ranges of user ids are in use");
		return false;
	}
	s = xnew(struct native_slot);
	s->native = n;
	s->range = range;
	s->pidfd = s->ctl = -1;
	random_hex(hex, 12);
	s->id = xasprintf("s%s", hex); /* no control group, socket or record had it before */
	list_add_tail(&n->slots.parking, &s->on);
	n->slots.n_parking++;
	permit_take(&n->permits, &s->permit);
	ask(n, s);
	return true;
}

void slots_fill(struct native *n)
{
	while (!n->ending && launcher_ready(&n->launchers[LAUNCHER_SLOTS]) && native_may_make(n) &&
	       n->slots.n_parking < ASKED_MAX && n->slots.n_ready + n->slots.n_parking < n->target)
		if (!make_one(n))
			return;
}

static void drop(struct native_slot *s)
{
	s->native->slots.n_parking--;
	discard(s);
}

static void lost(struct native_slot *s, const char *why)
{
	struct native *n = s->native;

	drop(s);
	native_trouble_is(n, &n->slots.line, why);
	launcher_pause(&n->launchers[LAUNCHER_SLOTS], RETRY_MS);
}

static void parked(struct native_slot *s)
{
	struct native *n = s->native;

	permit_put(&s->permit);
	list_del(&s->on);
	n->slots.n_parking--;
	s->ready = true;
	list_add_tail(&n->slots.ready, &s->on);
	n->slots.n_ready++;
	native_trouble_is(n, &n->slots.line, NULL);
	slots_fill(n);
	line_stocked(&n->slots.line);
}

/* A parked slot waits for its plan and says nothing: this is its end. */
static void died(struct native_slot *s)
{
	struct native *n = s->native;

	n->slots.n_ready--;
	discard(s);
	launcher_pause(&n->launchers[LAUNCHER_SLOTS], RETRY_MS);
}

/* The first message from a slot: it is parked, or the reason why it is not. */
static void on_message(void *arg, unused unsigned ready)
{
	struct native_slot *s = arg;
	autoptr(arena) a = NULL;
	enum message_got got = MESSAGE_END;
	struct message m;
	struct err *e;

	if (s->ready) {
		died(s);
		return;
	}
	a = arena_new();
	e = message_recv(s->ctl, a, &m, &got);
	if (e)
		lost(s, err_text(e));
	else if (got == MESSAGE_END)
		lost(s, "the slot ended before it was parked");
	else if (got == MESSAGE_ONE && m.type == MESSAGE_PARKED)
		parked(s);
	else if (got == MESSAGE_ONE)
		lost(s, m.type == MESSAGE_FAILED ? m.failed.text : "the slot did not park");
	if (!e && got == MESSAGE_ONE)
		message_close(&m);
	err_free(e);
}

static struct native_slot *find_parking(struct native *n, const char *id)
{
	struct native_slot *s;

	list_each(s, &n->slots.parking, on)
		if (str_eq(s->id, id) && s->ctl < 0)
			return s;
	return NULL;
}

void slots_made(struct native *n, struct message *m)
{
	struct native_slot *s = find_parking(n, m->made.name);

	if (!s)
		return;
	s->ctl = take_fd(m->fds[0]);
	s->pidfd = take_fd(m->fds[1]);
	s->pid = m->made.pid;
	s->watch = watch_new(n->loop, s->ctl, on_message, s);
	watch_want(s->watch, WATCH_READ);
}

void slots_refused(struct native *n, const struct message_refused *r)
{
	struct native_slot *s = find_parking(n, r->name);

	if (s)
		lost(s, r->text);
}

void slots_launcher_lost(struct native *n)
{
	struct native_slot *s, *next;

	list_each_safe(s, next, &n->slots.parking, on)
		if (s->ctl < 0)
			drop(s);
}

/* Whether the paths of its layers do not fit into a request. */
static bool too_long(const struct plan_image *image)
{
	size_t len = strlen(str_or(image->usr, ""));

	for (const char **l = image->lower; l && *l; l++)
		len += strlen(*l) + 3;
	return len > MESSAGE_MAX / 2;
}

static void expect(struct native *n, const struct plan_image *image)
{
	if ((n->slots.expected && plan_image_equal(n->slots.expected, image)) || too_long(image))
		return;
	arena_free(n->slots.arena);
	n->slots.arena = arena_new();
	n->slots.expected = plan_image_copy(image, n->slots.arena);
}

bool native_has_slot(void *ctx, const struct plan_image *image, struct runtime_wait *w)
{
	struct native *n = ctx;

	expect(n, image);
	if (line_would_serve(&n->slots.line, w))
		return true;
	native_refill(n);
	return false;
}

struct native_slot *slots_take(struct native *n, struct runtime_wait *w)
{
	struct native_slot *s = NULL;

	if (line_ask(&n->slots.line, w)) {
		s = list_first(&n->slots.ready, struct native_slot, on);
		list_del(&s->on);
		n->slots.n_ready--;
		watch_free(take(s->watch)); /* what it says from here on is for its task */
	}
	native_refill(n);
	return s;
}
