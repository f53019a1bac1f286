/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/services.h"

#include <string.h>

#include "api/object.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "node/network/follower.h"
#include "node/network/service.h"

/*
 * Everything is computed anew from the objects. Services without addresses of their own, which
 * Sandboxes have, are not looked at, and without any other there is nothing to compute.
 */
enum followed {
	SERVICES,
	SLICES,
	PODS,
	FOLLOWED_MAX_,
};

struct services {
	struct services_spec spec;
	struct follower follower;
	size_t n_addressed;  /* Services that have addresses */
	struct arena *arena; /* of the plan that was told last */
	struct bytes *rules;
	bool told;
};

static struct service_plan *make_plan(struct services *s, struct arena *a)
{
	struct follower_objects all[FOLLOWED_MAX_] = { 0 };
	struct service_world w = { .instance = s->spec.instance };
	struct service_plan *plan;

	if (s->n_addressed)
		follower_list(&s->follower, all);
	w.services = all[SERVICES].list;
	w.n_services = all[SERVICES].n;
	w.slices = all[SLICES].list;
	w.n_slices = all[SLICES].n;
	w.pods = all[PODS].list;
	w.n_pods = all[PODS].n;
	plan = service_plan_new(a, &w);
	for (int i = 0; i < FOLLOWED_MAX_; i++)
		follower_objects_done(&all[i]);
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

static void look(void *arg)
{
	struct services *s = arg;
	struct arena *arena = arena_new();
	const struct service_plan *plan;
	autoptr(bytes) now = NULL;
	autobuf text = { 0 };

	plan = make_plan(s, arena);
	service_text(plan, s->spec.host, &text);
	tell_left_out(s, plan->left_out);
	now = text.len ? bytes_from_buf(&text) : NULL;
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
		follower_look_soon(&s->follower);
}

static void on_slice(void *arg, unused struct object *was, unused struct object *now)
{
	struct services *s = arg;

	if (s->n_addressed)
		follower_look_soon(&s->follower);
}

struct services *services_new(const struct services_spec *spec)
{
	/* What a Pod's end or address changes, its slices tell. */
	static const struct follower_kind kinds[FOLLOWED_MAX_] = {
		[SERVICES] = { "v1", "Service", on_service },
		[SLICES] = { "discovery.k8s.io/v1", "EndpointSlice", on_slice },
		[PODS] = { "v1", "Pod", NULL },
	};
	struct services *s = xnew(struct services);

	s->spec = *spec;
	follower_init(&s->follower, &(struct follower_spec){ .loop = spec->loop,
							     .client = spec->client,
							     .kinds = kinds,
							     .n_kinds = FOLLOWED_MAX_,
							     .look = look,
							     .arg = s });
	return s;
}

void services_free(struct services *s)
{
	if (!s)
		return;
	follower_done(&s->follower);
	bytes_unref(s->rules);
	arena_free(s->arena);
	free(s);
}
