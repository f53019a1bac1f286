/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_runtime.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "node/launch/plan.h"
#include "test.h"
#include "wire/wire.h"

static struct fake_task *task_of(struct runtime_task *t)
{
	return (struct fake_task *)(void *)t;
}

static struct runtime_net *fake_net_take(void *ctx, const char *want_ip, struct runtime_wait *wait)
{
	struct fake_runtime *f = ctx;
	struct runtime_net *net;

	is_true(list_empty(&wait->on));
	if (!f->nets) {
		list_add_tail(&f->net_line, &wait->on);
		return NULL;
	}
	f->nets--;
	net = xnew(struct runtime_net);
	if (f->given_ip)
		(void)snprintf(net->ip, sizeof(net->ip), "%s", f->given_ip);
	else if (want_ip && !str_eq(want_ip, f->refused_ip))
		(void)snprintf(net->ip, sizeof(net->ip), "%s", want_ip);
	else
		(void)snprintf(net->ip, sizeof(net->ip), "10.9.0.%u", ++f->n_ips);
	return net;
}

static struct runtime_net *fake_net_adopt(unused void *ctx, struct runtime_task *t, const char *ip)
{
	struct runtime_net *net = xnew(struct runtime_net);

	is_true(task_of(t)->state != FAKE_GONE);
	(void)snprintf(net->ip, sizeof(net->ip), "%s", ip);
	return net;
}

static void fake_net_put(void *ctx, struct runtime_net *net)
{
	((struct fake_runtime *)ctx)->n_nets_put++;
	free(net);
}

static bool fake_net_reserve(void *ctx, const char *ip, bool on)
{
	struct fake_runtime *f = ctx;

	if (on)
		map_put(f->reserved, ip, f);
	else
		(void)map_del(f->reserved, ip);
	return true;
}

static bool fake_has_slot(void *ctx, const struct plan_image *image, struct runtime_wait *wait)
{
	struct fake_runtime *f = ctx;

	is_true(image != NULL);
	is_true(list_empty(&wait->on));
	if (!f->slots)
		list_add_tail(&f->slot_line, &wait->on);
	return f->slots;
}

static struct runtime_task *fake_reserve(void *ctx, struct runtime_wait *wait)
{
	struct fake_runtime *f = ctx;
	struct fake_task *t;

	is_true(list_empty(&wait->on));
	is_true(f->slots);
	f->slots--;
	t = xnew(struct fake_task);
	t->of = f;
	(void)snprintf(t->id, sizeof(t->id), "t%u", f->n_ids++);
	t->record =
		(struct runtime_record){ .id = t->id, .pid = 1000 + f->n_ids, .range = f->n_ids };
	list_add_tail(&f->tasks, &t->on);
	return (struct runtime_task *)(void *)t;
}

static struct runtime_task *fake_attach(void *ctx, const struct runtime_record *r,
					struct runtime_end *ret_end)
{
	struct fake_runtime *f = ctx;
	struct fake_task *t;

	list_each(t, &f->tasks, on) {
		if (!str_eq(t->id, r->id))
			continue;
		eq_int(t->record.pid, r->pid);
		eq_int(t->record.range, r->range);
		ret_end->oom = t->oom;
		ret_end->usage = t->used;
		return t->state == FAKE_GONE ? NULL : (struct runtime_task *)(void *)t;
	}
	return NULL;
}

static void fake_watch(struct runtime_task *t, const struct runtime_events *ev, void *arg)
{
	is_true(!task_of(t)->ev);
	task_of(t)->ev = ev;
	task_of(t)->arg = arg;
}

static const struct runtime_record *fake_record(const struct runtime_task *t)
{
	return &((const struct fake_task *)(const void *)t)->record;
}

static struct err *fake_launch(struct runtime_task *task, const struct runtime_launch *l)
{
	struct fake_task *t = task_of(task);

	eq_int(t->state, FAKE_RESERVED);
	is_true(l->net != NULL);
	t->killed = t->of->launch_fails;
	if (t->of->launch_fails)
		return err_new(ERR_SYS, "the fake runtime was told to fail");
	t->state = FAKE_LAUNCHED;
	t->joins = l->first != NULL;
	t->argv0 = xstrdup(l->start->argv[0]);
	t->keep_caps = l->start->keep_caps;
	t->flags = l->start->flags;
	return NULL;
}

static void fake_signal(struct runtime_task *t, int signum)
{
	task_of(t)->last_signal = signum;
}

static void fake_kill(struct runtime_task *t)
{
	is_true(task_of(t)->state != FAKE_GONE);
	task_of(t)->killed = true;
}

static void fake_release(struct runtime_task *t, bool keep_log)
{
	eq_int(task_of(t)->state, FAKE_GONE);
	task_of(t)->released = true;
	task_of(t)->log_kept = keep_log;
}

static void fake_forget(struct runtime_task *t)
{
	task_of(t)->ev = NULL;
}

static const char *fake_trouble(void *ctx)
{
	return ((struct fake_runtime *)ctx)->trouble;
}

static void fake_usage(void *ctx, struct runtime_usage *list, size_t n)
{
	struct fake_runtime *f = ctx;
	struct fake_task *t;

	for (size_t i = 0; i < n; i++) {
		if (list[i].key) {
			list[i].known = f->part.readable;
			list[i].cpu_usec = f->part.cpu_usec;
			continue;
		}
		list_each(t, &f->tasks, on) {
			if (!str_eq(list[i].id, t->id))
				continue;
			list[i].known = t->state != FAKE_GONE;
			list[i].cpu_usec = t->used.cpu_usec;
			list[i].memory = t->used.memory;
			list[i].disk = t->used.disk;
		}
		if (!list[i].ip)
			continue;
		list[i].net_known = true;
		list[i].received = f->received;
		list[i].sent = f->sent;
	}
}

static void fake_seats_watch(void *ctx, const struct runtime_seats_events *ev, void *arg)
{
	struct fake_runtime *f = ctx;

	f->seats_ev = ev;
	f->seats_arg = arg;
}

static void fake_seats_each(void *ctx, void (*fn)(void *arg, const char *task, const char *key),
			    void *arg)
{
	struct fake_runtime *f = ctx;

	if (f->part.stands)
		fn(arg, f->part.of->id, f->part.key);
}

static void fake_seats_remove(void *ctx, const char *task unused, const char *key unused)
{
	((struct fake_runtime *)ctx)->part.stands = false;
}

/* From a thread of the pool. */
static struct err *fake_resize(void *ctx, const char *id, const struct plan_limits *l)
{
	struct fake_runtime *f = ctx;
	struct fake_task *t;

	list_each(t, &f->tasks, on) {
		if (!str_eq(id, t->id))
			continue;
		if (t->used.memory > l->memory)
			return err_new(ERR_EXHAUSTED, "%lld in use", (long long)t->used.memory);
		t->memory_limit = l->memory;
		t->cpu_limit = l->cpu;
	}
	return NULL;
}

static void fake_drop_log(void *ctx, unused const char *id)
{
	((struct fake_runtime *)ctx)->n_dropped_logs++;
}

static void fake_hold(void *ctx, const struct runtime_record *r, const char *ip)
{
	struct fake_runtime *f = ctx;

	f->n_held += r != NULL;
	f->n_held_ips += ip != NULL;
}

static void fake_sweep(void *ctx, unused bool (*keep)(void *arg, const char *id), unused void *arg)
{
	((struct fake_runtime *)ctx)->n_swept++;
}

static struct err *fake_restart(struct runtime_task *t, unused const struct wire_start *start)
{
	task_of(t)->n_starts++;
	return NULL;
}

static struct err *fake_freeze(struct runtime_task *t, bool frozen)
{
	if (frozen && task_of(t)->of->cannot_freeze)
		return err_new(ERR_UNSUPPORTED, "the fake runtime was told to fail");
	if (!frozen && task_of(t)->of->failing_thaws) {
		task_of(t)->of->failing_thaws--;
		return err_new(ERR_SYS, "the fake runtime was told to fail");
	}
	task_of(t)->frozen = frozen;
	task_of(t)->n_freezes += frozen;
	return NULL;
}

static bool fake_frozen(const struct runtime_task *t)
{
	const struct fake_task *f = (const void *)t;

	return f->frozen && !f->of->never_stops;
}

static bool fake_ask_busy(struct runtime_task *t)
{
	task_of(t)->n_asked++;
	return true;
}

static const struct runtime_ops fake_ops = {
	.name = "fake",
	.net_take = fake_net_take,
	.net_adopt = fake_net_adopt,
	.net_put = fake_net_put,
	.net_reserve = fake_net_reserve,
	.has_slot = fake_has_slot,
	.reserve = fake_reserve,
	.attach = fake_attach,
	.watch = fake_watch,
	.record = fake_record,
	.launch = fake_launch,
	.start = fake_restart,
	.signal = fake_signal,
	.kill = fake_kill,
	.freeze = fake_freeze,
	.frozen = fake_frozen,
	.ask_busy = fake_ask_busy,
	.release = fake_release,
	.forget = fake_forget,
	.trouble = fake_trouble,
	.usage = fake_usage,
	.seats_watch = fake_seats_watch,
	.seats_each = fake_seats_each,
	.seats_remove = fake_seats_remove,
	.resize = fake_resize,
	.drop_log = fake_drop_log,
	.hold = fake_hold,
	.sweep = fake_sweep,
};

void fake_runtime_init(struct fake_runtime *f)
{
	*f = (struct fake_runtime){ .rt = { &fake_ops, f }, .slots = 100, .nets = 100 };
	list_init(&f->slot_line);
	list_init(&f->net_line);
	list_init(&f->tasks);
	f->reserved = map_new(NULL);
}

void fake_runtime_done(struct fake_runtime *f)
{
	struct fake_task *t, *next;

	is_true(list_empty(&f->slot_line));
	is_true(list_empty(&f->net_line));
	map_free(f->reserved);
	list_each_safe(t, next, &f->tasks, on) {
		list_del(&t->on);
		free(t->argv0);
		free(t);
	}
}

unsigned fake_count(const struct fake_runtime *f)
{
	return f->n_ids;
}

struct fake_task *fake_task(struct fake_runtime *f, unsigned n)
{
	struct fake_task *t;

	list_each(t, &f->tasks, on)
		if (!n--)
			return t;
	is_true(!"there are fewer tasks");
	return NULL;
}

struct fake_task *fake_last(struct fake_runtime *f)
{
	is_true(f->n_ids > 0);
	return fake_task(f, f->n_ids - 1);
}

static void wake_first(struct list *line)
{
	struct runtime_wait *w;

	if (list_empty(line))
		return;
	w = list_first(line, struct runtime_wait, on);
	list_del(&w->on);
	w->ready(w);
}

void fake_add_slots(struct fake_runtime *f, unsigned n)
{
	for (f->slots += n; n; n--)
		wake_first(&f->slot_line);
}

void fake_add_nets(struct fake_runtime *f, unsigned n)
{
	for (f->nets += n; n; n--)
		wake_first(&f->net_line);
}

static void wake_all(struct list *line)
{
	struct runtime_wait *w, *next;
	LIST_HEAD(called);

	while (!list_empty(line)) {
		w = list_first(line, struct runtime_wait, on);
		list_del(&w->on);
		list_add_tail(&called, &w->on);
	}
	list_each_safe(w, next, &called, on) {
		list_del(&w->on);
		w->ready(w);
	}
}

void fake_trouble_is(struct fake_runtime *f, const char *text)
{
	f->trouble = text;
	wake_all(&f->slot_line);
	wake_all(&f->net_line);
}

void fake_starting(struct fake_task *t)
{
	works(t->ev->starting(t->arg));
	t->state = FAKE_TOLD;
}

void fake_start(struct fake_task *t)
{
	if (t->state == FAKE_LAUNCHED)
		fake_starting(t);
	t->state = FAKE_STARTED;
	t->ev->started(t->arg);
}

void fake_idle(struct fake_task *t)
{
	t->ev->idle(t->arg);
}

void fake_part_begin(struct fake_task *t, const char *key)
{
	struct fake_runtime *f = t->of;

	f->part = (struct fake_part){ .of = t, .key = key, .stands = true, .readable = true };
	f->seats_ev->began(f->seats_arg, t->id, key);
}

void fake_part_spent(struct fake_task *t)
{
	t->of->seats_ev->spent(t->of->seats_arg, t->id, t->of->part.key);
}

static void end_part(struct fake_task *t, struct runtime_end *end)
{
	struct fake_part *p = &t->of->part;

	if (p->of != t || !p->stands)
		return;
	p->stands = false;
	end->parts = xnew(struct runtime_part);
	end->parts[end->n_parts++] =
		(struct runtime_part){ xstrdup(p->key),
				       { .known = true, .cpu_usec = p->cpu_usec } };
}

void fake_lose(struct fake_task *t)
{
	t->ev->failed(t->arg, err_new(ERR_UNAVAILABLE, "the slot is gone"), 128);
	fake_end(t);
}

void fake_end(struct fake_task *t)
{
	struct runtime_end end = { .oom = t->oom, .usage = t->used };
	const struct runtime_events *ev = t->ev;

	t->state = FAKE_GONE;
	t->ev = NULL;
	end_part(t, &end);
	if (ev)
		ev->ended(t->arg, &end);
	runtime_end_done(&end);
}

void fake_fail(struct fake_task *t, int code)
{
	t->ev->failed(t->arg, err_new(ERR_SYS, "no such program"), code);
	fake_end(t);
}

void fake_exit(struct fake_task *t, int code)
{
	t->ev->exited(t->arg, code, 0, SPAN(""));
	fake_end(t);
}
