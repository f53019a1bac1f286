/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/native.h"

#include <assert.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/disk/trash.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"

/*
 * The runtime as a whole: its start and its end, and what its parts share. Tasks are in task.c,
 * slots and networks that are made ahead in slots.c and nets.c, the processes that make them in
 * launchers.c, what goes away in leave.c, what an earlier run of the daemon left in attach.c.
 */
enum {
	N_RANGES = 32000, /* id ranges from 1 << 20 on */
	POOL = 16,
	REFILL_MS = 20, /* what was taken is replaced once its taker has had the processors */
	END_S = 10,     /* so long the end waits for what is leaving */
};

static_assert((SLOTS_FIRST_BASE + N_RANGES) * (int64_t)ID_RANGE < INT32_MAX,
	      "Linux 6.12 mounts no devpts for a group from 1 << 31 on");

void native_trouble_is(struct native *n, struct line *l, const char *text)
{
	if (!line_trouble_is(l, text))
		return;
	log_warn("cannot prepare sandboxes, trying again", KV("err", text));
	n->troubled = l;
	if (l == &n->nets.line)
		nets_line_up(n);
}

static const char *trouble(void *ctx)
{
	const struct native *n = ctx;
	const char *last = n->troubled ? n->troubled->trouble : NULL;

	if (last)
		return last;
	return n->slots.line.trouble ? n->slots.line.trouble : n->nets.line.trouble;
}

bool native_may_make(const struct native *n)
{
	bool urgent = line_hurries(&n->slots.line) || line_hurries(&n->nets.line);

	return permits_left(&n->permits, urgent) > line_len(&n->slots.line, n->slots.n_ready);
}

static void fill(void *arg)
{
	struct native *n = arg;

	slots_fill(n);
	nets_fill(n);
}

void native_refill_later(struct native *n)
{
	if (!n->ending && !timer_armed(n->refill))
		timer_set(n->refill, REFILL_MS);
}

/* In a lull later, or at once when there is little left. */
void native_refill(struct native *n)
{
	if (n->slots.n_ready < n->target / 2 || n->nets.n[NET_READY] < n->target / 2)
		fill(n);
	else
		native_refill_later(n);
}

/* In this order: what can be launched, what must be removed, what is made ahead. */
static void permits_freed(void *arg)
{
	struct native *n = arg;

	line_stocked(&n->slots.line);
	leave_next(n);
	fill(n);
}

uint32_t native_last_id(void)
{
	return slots_base(N_RANGES) - 1;
}

void native_set_pace(struct runtime *r, bool yield)
{
	struct native *n = r->ctx;

	permits_yield(&n->permits, yield);
}

static unsigned list_len(const struct list *l)
{
	unsigned n = 0;

	for (const struct list *it = l->next; it != l; it = it->next)
		n++;
	return n;
}

void native_metrics(const struct runtime *r, struct buf *b)
{
	const struct native *n = r->ctx;

	metrics_gauge(b, "cay_launches_in_flight",
		      "Slots, networks, tasks and removals that are under way.", n->permits.n);
	metrics_gauge(b, "cay_launches_slots_waited_for", "Containers in line for a slot.",
		      list_len(&n->slots.line.waiting));
	metrics_gauge(b, "cay_launches_networks_waited_for", "Pods in line for a network.",
		      list_len(&n->nets.line.waiting));
	metrics_counter(b, "cay_networks_as_new_total",
			"Networks that were looked at after their sandbox ended, and kept.",
			n->nets.as_new);
	metrics_counter(b, "cay_networks_worn_total",
			"Networks that were looked at after their sandbox ended, and closed.",
			n->nets.worn);
	metrics_gauge(b, "cay_launches_removals_waiting", "Removals that wait for their turn.",
		      list_len(&n->ends));
}

static void drop_log(void *ctx, const char *id)
{
	struct native *n = ctx;

	if (!leave_drop_log(n, id))
		trash_remove_disk(&n->jobs, n->spec.disk, INSTANCE_SLOTS, id);
}

static const struct runtime_record *record(const struct runtime_task *t)
{
	return &t->record;
}

/* Only when nothing is being made any more is it known what there is to remove. */
static void await_answers(struct native *n)
{
	usec deadline = clock_mono() + END_S * 1000000LL;

	while ((n->slots.n_parking || n->launchers[LAUNCHER_NETS].n_asked) &&
	       clock_mono() < deadline)
		(void)loop_turn(n->loop, 20);
}

static void await_leaving(struct native *n)
{
	usec deadline = clock_mono() + END_S * 1000000LL;

	while (n->jobs.n || (map_len(n->leaving) && clock_mono() < deadline))
		(void)loop_turn(n->loop, 20);
	leave_abandon(n);
}

static void native_free(void *ctx)
{
	struct native *n = ctx;

	n->ending = true;
	permits_lift(&n->permits);
	await_answers(n);
	slots_done(n);
	launchers_stop(n);
	await_leaving(n);
	seats_done(n);
	nets_done(n);
	permits_done(&n->permits);
	timer_free(n->refill);
	numbers_free(n->addresses);
	numbers_free(n->ranges);
	map_free(n->tasks);
	map_free(n->leaving);
	map_free(n->left);
	free(n->launcher);
	free(n->init);
	free(n->stage);
	free(n->slots_dir);
	free(n);
}

static const struct runtime_ops ops = {
	.name = "native",
	.net_take = native_net_take,
	.net_adopt = native_net_adopt,
	.net_put = native_net_put,
	.net_reserve = native_net_reserve,
	.has_slot = native_has_slot,
	.reserve = native_reserve,
	.attach = native_attach,
	.watch = native_watch,
	.record = record,
	.launch = native_launch,
	.start = native_start,
	.signal = native_signal,
	.kill = native_kill,
	.freeze = native_freeze,
	.frozen = native_frozen,
	.ask_busy = native_ask_busy,
	.page_out = native_page_out,
	.net_link = native_net_link,
	.release = native_release,
	.forget = native_forget,
	.trouble = trouble,
	.usage = native_usage,
	.resize = native_resize,
	.drop_log = drop_log,
	.hold = native_hold,
	.sweep = native_sweep,
	.seat = native_seat,
	.seats_end = native_seats_end,
	.seats_keep = native_seats_keep,
	.seats_each = native_seats_each,
	.seats_watch = native_seats_watch,
	.seats_remove = native_seats_remove,
	.free = native_free,
};

static struct native *native_new(struct loop *l, const struct native_spec *spec)
{
	struct native *n = xnew(struct native);

	n->face = (struct runtime){ &ops, n };
	n->loop = l;
	jobs_init(&n->jobs, l, NULL, NULL);
	n->spec = *spec;
	n->launcher = xstrdup(spec->launcher);
	n->init = xstrdup(spec->init);
	n->stage = instance_dir(spec->instance, INSTANCE_STAGE);
	n->slots_dir = diskpool_dir(spec->disk, INSTANCE_SLOTS);
	n->target = spec->pool ? spec->pool : POOL;
	n->addresses = numbers_new(POOL_FIRST, POOL_SIZE - POOL_FIRST);
	n->ranges = numbers_new(0, N_RANGES);
	/* Not where the last run began: its addresses may still be on the way out. */
	numbers_start_at(n->addresses, (unsigned)random_u64());
	numbers_start_at(n->ranges, (unsigned)random_u64());
	n->tasks = map_new(NULL);
	n->leaving = map_new(NULL);
	n->left = map_new(left_free);
	n->refill = timer_new(l, fill, n);
	list_init(&n->ends);
	permits_init(&n->permits, l, permits_freed, n);
	slots_init(n);
	nets_init(n);
	seats_init(n);
	return n;
}

struct err *native_open(struct loop *l, const struct native_spec *spec, struct runtime **ret)
{
	struct native *n = native_new(l, spec);
	struct err *e = file_mkdirs(n->stage, 0700);

	if (!e)
		e = file_mkdirs(n->slots_dir, 0700);
	if (e) {
		native_free(n);
		return err_wrap(e, "start the runtime");
	}
	left_note(n);
	launchers_start(n);
	*ret = &n->face;
	return NULL;
}
