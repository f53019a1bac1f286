/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/services.h"

#include <string.h>

#include "api/object.h"
#include "api/registry.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "client/client.h"
#include "loop/loop.h"
#include "node/network/objects.h"
#include "node/network/service.h"

/*
 * A change only sets a short timer, as changes come in crowds; then everything is computed anew
 * from the objects. Services without addresses of their own, which Sandboxes have, are not looked
 * at, and without any other there is nothing to compute.
 */
enum {
	PAUSE_MS = 10,
	SHARE = 10, /* the computing takes at most one part in so many of the loop's time */
};

enum followed {
	SERVICES,
	SLICES,
	PODS,
	FOLLOWED_MAX_,
};

static const struct {
	const char *version, *kind;
} kinds[FOLLOWED_MAX_] = {
	[SERVICES] = { "v1", "Service" },
	[SLICES] = { "discovery.k8s.io/v1", "EndpointSlice" },
	[PODS] = { "v1", "Pod" },
};

struct services {
	struct services_spec spec;
	struct client_watch *watch[FOLLOWED_MAX_];
	unsigned synced;     /* how many of them */
	size_t n_addressed;  /* Services that have addresses */
	struct arena *arena; /* of the plan that was told last */
	struct bytes *rules;
	struct timer *timer;
	uint64_t pause_ms;
	bool told;
};

static const struct kind *kind_of(const struct services *s, enum followed which)
{
	return kinds_need(client_kinds(s->spec.client), kinds[which].version, kinds[which].kind);
}

static struct service_plan *make_plan(struct services *s, struct arena *a)
{
	struct objects all[FOLLOWED_MAX_] = { 0 };
	struct service_world w = { .instance = s->spec.instance };
	struct service_plan *plan;

	for (int i = 0; i < FOLLOWED_MAX_ && s->n_addressed; i++)
		client_each(s->spec.client, kind_of(s, i), NULL, objects_add, &all[i]);
	w.services = all[SERVICES].list;
	w.n_services = all[SERVICES].n;
	w.slices = all[SLICES].list;
	w.n_slices = all[SLICES].n;
	w.pods = all[PODS].list;
	w.n_pods = all[PODS].n;
	plan = service_plan_new(a, &w);
	for (int i = 0; i < FOLLOWED_MAX_; i++)
		free(all[i].list);
	return plan;
}

static void tell_left_out(struct services *s, size_t n)
{
	if (n && !s->told)
		log_warn("Services have more ports or Pods than there are rules for, going on "
			 "without the rest",
			 KV("left_out", n));
	s->told = n;
}

static bool same(const struct bytes *a, const struct bytes *b)
{
	return a == b || (a && b && a->len == b->len && !memcmp(a->data, b->data, a->len));
}

static void on_pause_over(void *arg)
{
	struct services *s = arg;
	struct arena *arena;
	const struct service_plan *plan;
	autoptr(bytes) now = NULL;
	autobuf text = { 0 };
	usec start = clock_mono();

	if (s->synced < FOLLOWED_MAX_)
		return;
	arena = arena_new();
	plan = make_plan(s, arena);
	service_text(plan, s->spec.host, &text);
	tell_left_out(s, plan->left_out);
	now = text.len ? bytes_from_buf(&text) : NULL;
	s->pause_ms = PAUSE_MS + SHARE * (uint64_t)(clock_mono() - start) / 1000;
	if (same(now, s->rules)) {
		arena_free(arena);
		return;
	}
	bytes_unref(s->rules);
	s->rules = take(now);
	s->spec.load(s->spec.arg, s->rules, plan);
	arena_free(s->arena);
	s->arena = arena;
}

static void look_soon(struct services *s)
{
	if (!timer_armed(s->timer))
		timer_set(s->timer, s->pause_ms);
}

static bool has_address(const struct object *service)
{
	const struct json *spec = service ? object_spec(service) : NULL;

	return spec && !service_is_external(spec) && !service_is_headless(spec);
}

static void on_service(void *arg, struct object *was, struct object *now)
{
	struct services *s = arg;

	s->n_addressed += has_address(now);
	s->n_addressed -= has_address(was);
	if (has_address(now) || has_address(was))
		look_soon(s);
}

static void on_slice(void *arg, unused struct object *was, unused struct object *now)
{
	struct services *s = arg;

	if (s->n_addressed)
		look_soon(s);
}

/* What a Pod's end or address changes, its slices tell. */
static void on_pod(unused void *arg, unused struct object *was, unused struct object *now)
{
}

static void on_synced(void *arg)
{
	struct services *s = arg;

	s->synced++;
	look_soon(s);
}

struct services *services_new(const struct services_spec *spec)
{
	static const struct client_watch_events events[FOLLOWED_MAX_] = {
		[SERVICES] = { .changed = on_service, .synced = on_synced },
		[SLICES] = { .changed = on_slice, .synced = on_synced },
		[PODS] = { .changed = on_pod, .synced = on_synced },
	};
	struct services *s = xnew(struct services);

	s->spec = *spec;
	s->pause_ms = PAUSE_MS;
	s->timer = timer_new(spec->loop, on_pause_over, s);
	for (int i = 0; i < FOLLOWED_MAX_; i++) {
		const struct client_watch_spec watch = { .kind = kind_of(s, i) };

		s->watch[i] = client_watch(spec->client, &watch, &events[i], s);
	}
	return s;
}

void services_free(struct services *s)
{
	if (!s)
		return;
	for (int i = 0; i < FOLLOWED_MAX_; i++)
		client_watch_free(s->watch[i]);
	timer_free(s->timer);
	bytes_unref(s->rules);
	arena_free(s->arena);
	free(s);
}
