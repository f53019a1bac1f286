/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/reach.h"

#include <string.h>

#include "api/cay/capability.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/view.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/str.h"
#include "client/client.h"
#include "loop/loop.h"
#include "node/host/instance.h"
#include "node/host/reserved.h"
#include "node/network/lease_file.h"
#include "node/network/limits.h"
#include "node/network/policy.h"

/*
 * A table by place of the pool. A Pod that comes or goes changes its row, what the judge says
 * changes all rows; either brings new rules, with a pause between one set of them and the next. The
 * pause is for what sandboxes cause themselves, leases and their ends. What somebody takes away
 * from one of them does not wait for it.
 *
 * Of a Pod that outlives its Sandbox the judge knows nothing. Then its row says what it was, and so
 * there are rules as long as there are such Pods that were limited. After a start the file of
 * leases says it; a Pod of a Sandbox that is not in there is not taken for one that was free.
 */
enum {
	SHARE = 10, /* making rules takes at most one part in so many of the loop's time */
};
static const usec lease_us = 3600 * 1000000LL; /* from the last answer on */
static const usec load_pause_us = 50 * 1000;

struct row {
	struct object *pod; /* NULL: nobody is known there */
	struct limits *limits;
};

struct reach {
	struct reach_spec spec;
	struct reach_judge judge;
	const struct kind *pods;
	struct client_watch *watch;
	bool any; /* somebody may be limited */
	/* Uids of Pods, as the file has them. NULL: there was none, or it has been dealt with. */
	struct map *were_free, *were_limited;
	struct row rows[POOL_SIZE];
	bool free[POOL_SIZE];
	struct limits *limits[POOL_SIZE]; /* those of rows, borrowed */
	size_t n_limited;
	bool stale; /* the rules may be others now */
	bool less;  /* a sandbox has lost something: the new rules do not wait */
	struct bytes *rules;
	unsigned number, in_force;
	struct list waits;
	struct deferred review, load;
	struct timer *load_later, *lease_end;
	usec rest_until; /* no new rules before */
	uint64_t leased, refused;
};

/* Rows */

static void row_clear(struct reach *r, unsigned place)
{
	struct row *row = &r->rows[place];

	r->n_limited -= row->limits != NULL;
	object_unref(row->pod);
	limits_free(row->limits);
	*row = (struct row){ 0 };
	r->free[place] = false;
	r->limits[place] = NULL;
}

static void row_limit(struct reach *r, unsigned place, const struct capabilities *c)
{
	struct row *row = &r->rows[place];

	if (row->limits) {
		r->less |= limits_set(row->limits, c);
		return;
	}
	r->less |= r->free[place];
	row->limits = limits_new(c);
	r->limits[place] = row->limits;
	r->free[place] = false;
	r->n_limited++;
}

struct standing_host {
	struct reach *r;
	const struct object *pod;
};

static bool host_stands(void *arg, const char *host)
{
	const struct standing_host *h = arg;

	return h->r->judge.stands(h->r->judge.arg, h->pod, host);
}

static void row_open(struct reach *r, unsigned place)
{
	struct row *row = &r->rows[place];

	r->n_limited -= row->limits != NULL;
	limits_free(take(row->limits));
	r->limits[place] = NULL;
	r->free[place] = true;
}

/* What the judge says of the Pod now. */
static void row_judge(struct reach *r, unsigned place)
{
	static const struct capabilities nothing;
	struct row *row = &r->rows[place];
	autoptr(arena) a = arena_new();
	struct standing_host h = { r, row->pod };
	bool known = row->limits; /* a new row has had nothing yet */
	struct capabilities c;

	switch (r->judge.limits(r->judge.arg, row->pod, a, &c)) {
	case REACH_FREE:
		row_open(r, place);
		break;
	case REACH_LIMITED:
		row_limit(r, place, &c);
		r->less |= limits_judge(row->limits, host_stands, &h) && known;
		break;
	case REACH_UNKNOWN:
		if (!r->free[place])
			row_limit(r, place, &nothing);
		break;
	}
}

/* Of a Pod that has no row yet. If its Sandbox is gone already, nobody has judged it. */
static bool was_free(const struct reach *r, const struct object *pod)
{
	if (owner_view_of(pod).type != OWNER_SANDBOX)
		return !r->were_limited || !map_has(r->were_limited, pod->uid);
	return r->were_free ? map_has(r->were_free, pod->uid) : !r->any;
}

static void row_set(struct reach *r, unsigned place, struct object *pod)
{
	struct row *row = &r->rows[place];

	if (row->pod && !str_eq(row->pod->uid, pod->uid)) {
		row_clear(r, place); /* somebody else's leases */
		r->less = true;
	}
	if (!row->pod)
		r->free[place] = was_free(r, pod);
	object_unref(row->pod);
	row->pod = object_ref(pod);
	row_judge(r, place);
}

static bool place_of(const struct reach *r, const struct object *pod, unsigned *ret)
{
	struct ip ip;

	return pod && policy_pod_ip(pod, &ip) && instance_ip_place(r->spec.instance, &ip, ret) &&
	       *ret < POOL_SIZE;
}

/* The rules */

static void make_rules(struct reach *r)
{
	const struct limits_world w = { r->spec.instance, r->free, r->limits, POOL_SIZE };
	autobuf text = { 0 };
	autoptr(bytes) now = NULL;

	if (r->any) {
		limits_text(&w, &text);
		now = bytes_from_buf(&text);
	}
	if (r->number && !now == !r->rules &&
	    (!now || (now->len == r->rules->len && !memcmp(now->data, r->rules->data, now->len))))
		return;
	if (r->number && !now != !r->rules)
		log_info("limits of the way out of sandboxes begin or cease", KV("rules", !!now));
	bytes_unref(r->rules);
	r->rules = take(now);
	r->number++;
}

/* Before the rules are in force: a lease that is in the filter is in the file, and a Pod that is
 * limited is not in the file as one that is not. */
static void save_leases(struct reach *r)
{
	autobuf text = { 0 };
	struct err *e;

	if (r->spec.run_fd < 0)
		return;
	if (!r->any) {
		lease_file_remove(r->spec.run_fd);
		return;
	}
	for (unsigned i = 0; i < POOL_SIZE; i++) {
		const struct object *pod = r->rows[i].pod;

		if (!pod)
			continue;
		lease_lines_add_pod(pod->uid, r->limits[i], &text);
		if (r->limits[i])
			lease_lines_add(i, pod->uid, r->limits[i], &text);
	}
	e = lease_file_write(r->spec.run_fd, &text);
	if (e)
		log_warn("leases cannot be kept, going on; after a start of the server sandboxes "
			 "look names up again",
			 KV("err", e));
	err_free(e);
}

/* Only what would be given now, to the same Pod, and for no longer. */
static void restore_lease(void *arg, const struct lease_line *line)
{
	struct reach *r = arg;
	struct limits *l = r->limits[line->place];
	uint16_t ports[LIMITS_PORTS_MAX];
	usec now = clock_mono();

	if (!l || line->until <= now || !str_eq(r->rows[line->place].pod->uid, line->uid) ||
	    !limits_ports(l, line->host, ports) ||
	    !r->judge.stands(r->judge.arg, r->rows[line->place].pod, line->host))
		return;
	(void)limits_lease(l, line->host, &line->ip, MIN(line->until, now + lease_us));
}

static void set_lease_timer(struct reach *r)
{
	usec first = 0, end;

	for (unsigned i = 0; r->n_limited && i < POOL_SIZE; i++) {
		end = r->limits[i] ? limits_next_end(r->limits[i]) : 0;
		if (end && (!first || end < first))
			first = end;
	}
	if (first)
		timer_set(r->lease_end, (uint64_t)(MAX(first - clock_mono(), 0) / 1000 + 1));
	else
		timer_clear(r->lease_end);
}

static void waits_end(struct reach *r)
{
	struct reach_wait *w, *next;

	list_each_safe(w, next, &r->waits, on) {
		if (!w->number || w->number > r->in_force)
			continue;
		list_del(&w->on);
		w->done(w);
	}
}

/* Those that wait for the rules that were just made. */
static void number_waits(struct reach *r)
{
	struct reach_wait *w;

	list_each(w, &r->waits, on)
		if (!w->number)
			w->number = r->number;
}

static void on_load(void *arg)
{
	struct reach *r = arg;
	usec start = clock_mono(), rest = r->rest_until - start;
	unsigned before = r->number;

	if (rest > 0 && r->stale && !r->less) {
		if (!timer_armed(r->load_later))
			timer_set(r->load_later, (uint64_t)rest / 1000 + 1);
		waits_end(r);
		return;
	}
	if (r->stale)
		make_rules(r);
	r->stale = r->less = false;
	number_waits(r);
	set_lease_timer(r);
	if (r->number != before) {
		save_leases(r);
		r->rest_until = clock_mono() + MAX(load_pause_us, SHARE * (clock_mono() - start));
		r->spec.load(r->spec.arg, r->rules, r->number);
	}
	waits_end(r);
}

static void load_soon(struct reach *r)
{
	r->stale = true;
	deferred_call(&r->load);
}

static void on_load_later(void *arg)
{
	load_soon(arg);
}

void reach_in_force(struct reach *r, unsigned number)
{
	r->in_force = number;
	waits_end(r);
}

static void on_lease_end(void *arg)
{
	struct reach *r = arg;
	usec now = clock_mono();

	for (unsigned i = 0; i < POOL_SIZE; i++)
		if (r->limits[i])
			limits_expire(r->limits[i], now);
	load_soon(r);
}

/* Changes */

static bool add_pod(void *arg, struct object *pod)
{
	struct reach *r = arg;
	unsigned place;

	if (place_of(r, pod, &place))
		row_set(r, place, pod);
	return true;
}

static void look_at_all(struct reach *r)
{
	bool any = r->judge.any(r->judge.arg);

	if (any || r->n_limited || r->were_free)
		client_each(r->spec.client, r->pods, NULL, add_pod, r);
	r->any = any || r->n_limited;
	for (unsigned i = 0; i < POOL_SIZE && !r->any; i++)
		if (r->rows[i].pod)
			row_clear(r, i);
}

/* What the server before this one left. */
static void look_first(struct reach *r)
{
	autofree char *text = NULL;
	struct err *e = r->spec.run_fd < 0 ? NULL : lease_file_read(r->spec.run_fd, &text);

	if (text || e) {
		r->were_free = lease_lines_pods(str_or(text, ""), false);
		r->were_limited = lease_lines_pods(str_or(text, ""), true);
	}
	look_at_all(r);
	map_free(take(r->were_free));
	map_free(take(r->were_limited));
	if (text)
		lease_lines_read(text, restore_lease, r);
	if (e)
		log_warn("leases from before cannot be read, going on without them", KV("err", e));
	err_free(e);
}

static void on_review(void *arg)
{
	struct reach *r = arg;

	if (!r->judge.any)
		return;
	look_at_all(r);
	load_soon(r);
}

void reach_changed(struct reach *r)
{
	deferred_call(&r->review);
}

static void row_leave(struct reach *r, unsigned place)
{
	bool last = r->limits[place] && r->n_limited == 1;

	row_clear(r, place);
	load_soon(r);
	if (last)
		reach_changed(r); /* perhaps the rules were there for its sake alone */
}

static void on_pod(void *arg, struct object *was, struct object *now)
{
	struct reach *r = arg;
	unsigned before, after;
	bool had = place_of(r, was, &before), has = place_of(r, now, &after);

	if (!r->any || !r->judge.any)
		return;
	if (had && r->rows[before].pod && str_eq(r->rows[before].pod->uid, was->uid) &&
	    (!has || before != after))
		row_leave(r, before);
	if (has && (!had || before != after || !r->rows[after].pod)) {
		row_set(r, after, now);
		load_soon(r);
	}
}

/* Names */

enum reach_state reach_state(const struct reach *r, unsigned place)
{
	if (!r->any || place >= POOL_SIZE)
		return REACH_FREE;
	if (!r->rows[place].pod || !r->judge.any)
		return REACH_UNKNOWN;
	return r->limits[place] ? REACH_LIMITED : REACH_FREE;
}

bool reach_has_place(struct reach *r, unsigned place, const char *host)
{
	uint16_t ports[LIMITS_PORTS_MAX];

	/* What is no ordinary character of a name is written with \, and may look like a dot. */
	if (!strchr(host, '\\') && limits_ports(r->limits[place], host, ports))
		return true;
	r->refused++;
	r->judge.refused(r->judge.arg, r->rows[place].pod, host);
	return false;
}

void reach_ask(struct reach *r, unsigned place, const char *host, struct reach_question *q)
{
	r->judge.ask(r->judge.arg, r->rows[place].pod, host, q);
}

void reach_cancel(struct reach *r, struct reach_question *q)
{
	if (r->judge.any)
		r->judge.cancel(r->judge.arg, q);
}

/* Private addresses are nobody's to open by an answer; of our own names, those of sandboxes are
 * what they are about. */
static bool counts(const struct reach *r, const struct reach_found *f, const struct ip *ip)
{
	unsigned place;

	if (f->ours)
		return instance_ip_place(r->spec.instance, ip, &place) && place >= POOL_FIRST;
	return !reserved_holds_ip(ip, ip_is4(ip) ? 32 : 128);
}

/* Whoever has most makes room for the others. */
static void make_room(struct reach *r)
{
	struct limits *most;
	size_t n;

	do {
		most = NULL;
		n = 0;
		for (unsigned i = 0; i < POOL_SIZE; i++) {
			struct limits *l = r->limits[i];

			n += l ? limits_elements(l) : 0;
			if (l && (!most || limits_elements(l) > limits_elements(most)))
				most = l;
		}
		if (n > LIMITS_ELEMENTS_MAX)
			limits_make_room(most);
	} while (n > LIMITS_ELEMENTS_MAX);
}

bool reach_lease(struct reach *r, unsigned place, const struct reach_found *f, struct reach_wait *w)
{
	struct limits *l = r->limits[place];
	usec until = clock_mono() + lease_us;
	bool more = false;

	if (!l || !r->judge.any || !r->judge.stands(r->judge.arg, r->rows[place].pod, f->host))
		return false; /* things have changed since it was asked */
	for (size_t i = 0; i < f->n; i++)
		if (counts(r, f, &f->addrs[i]) && limits_lease(l, f->host, &f->addrs[i], until)) {
			more = true;
			r->leased++;
		}
	if (more)
		make_room(r);
	r->stale |= more;
	w->number = r->stale ? 0 : r->number;
	list_add_tail(&r->waits, &w->on);
	deferred_call(&r->load);
	return true;
}

void reach_wait_cancel(struct reach_wait *w)
{
	if (w->on.next)
		list_del(&w->on);
	*w = (struct reach_wait){ .done = w->done };
}

/* Its life */

struct bytes *reach_rules(const struct reach *r)
{
	return r->rules;
}

unsigned reach_number(const struct reach *r)
{
	return r->number;
}

struct reach *reach_new(const struct reach_spec *spec)
{
	static const struct client_watch_events events = { .changed = on_pod };
	struct reach *r = xnew(struct reach);

	r->spec = *spec;
	if (spec->judge)
		r->judge = *spec->judge;
	list_init(&r->waits);
	deferred_init(&r->review, spec->loop, on_review, r);
	deferred_init(&r->load, spec->loop, on_load, r);
	r->load_later = timer_new(spec->loop, on_load_later, r);
	r->lease_end = timer_new(spec->loop, on_lease_end, r);
	r->pods = kinds_need(client_kinds(spec->client), "v1", "Pod");
	r->watch = client_watch(spec->client, &(struct client_watch_spec){ .kind = r->pods },
				&events, r);
	if (spec->judge)
		look_first(r);
	make_rules(r);
	save_leases(r);
	set_lease_timer(r);
	r->in_force = r->number;
	return r;
}

void reach_forget_judge(struct reach *r)
{
	r->judge = (struct reach_judge){ 0 };
	deferred_cancel(&r->review);
	deferred_cancel(&r->load);
	timer_clear(r->load_later);
	timer_clear(r->lease_end);
}

void reach_free(struct reach *r)
{
	if (!r)
		return;
	client_watch_free(r->watch);
	deferred_cancel(&r->review);
	deferred_cancel(&r->load);
	timer_free(r->load_later);
	timer_free(r->lease_end);
	for (unsigned i = 0; i < POOL_SIZE; i++)
		row_clear(r, i);
	bytes_unref(r->rules);
	free(r);
}

void reach_metrics(const struct reach *r, struct buf *out)
{
	metrics_gauge(out, "cay_egress_limited_sandboxes",
		      "Sandboxes whose way out is limited by agents.", r->n_limited);
	metrics_counter(out, "cay_egress_leases_total",
			"Addresses that names of limited sandboxes were found to have.", r->leased);
	metrics_counter(
		out, "cay_egress_names_refused_total",
		"Names that limited sandboxes asked for and that are in none of their places.",
		r->refused);
}
