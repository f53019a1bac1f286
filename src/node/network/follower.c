/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/follower.h"

#include <assert.h>

#include "api/registry.h"
#include "base/mem.h"
#include "client/client.h"
#include "loop/loop.h"

enum {
	PAUSE_MS = 10,
	SHARE = 10, /* the computing takes at most one part in so many of the loop's time */
};

static void on_pause_over(void *arg)
{
	struct follower *f = arg;
	usec start = clock_mono();

	if (!follower_synced(f))
		return;
	f->spec.look(f->spec.arg);
	f->rest_until = clock_mono() + SHARE * (clock_mono() - start);
}

void follower_look_soon(struct follower *f)
{
	usec rest_ms = (f->rest_until - clock_mono()) / 1000;

	if (!timer_armed(f->timer))
		timer_set(f->timer, rest_ms > PAUSE_MS ? (uint64_t)rest_ms : PAUSE_MS);
}

static void on_changed(void *arg, struct object *was, struct object *now)
{
	struct follower_watch *k = arg;

	if (k->kind->changed)
		k->kind->changed(k->follower->spec.arg, was, now);
}

static void on_synced(void *arg)
{
	struct follower_watch *k = arg;

	k->follower->n_synced++;
	follower_look_soon(k->follower);
}

static const struct kind *kind_of(const struct follower *f, size_t i)
{
	return kinds_need(client_kinds(f->spec.client), f->spec.kinds[i].version,
			  f->spec.kinds[i].kind);
}

void follower_init(struct follower *f, const struct follower_spec *spec)
{
	static const struct client_watch_events events = { .changed = on_changed,
							   .synced = on_synced };

	assert(spec->n_kinds <= FOLLOWER_KINDS_MAX);
	*f = (struct follower){ .spec = *spec };
	f->timer = timer_new(spec->loop, on_pause_over, f);
	for (size_t i = 0; i < spec->n_kinds; i++) {
		const struct client_watch_spec watch = { .kind = kind_of(f, i) };
		struct follower_watch *k = &f->watches[i];

		*k = (struct follower_watch){ .follower = f, .kind = &spec->kinds[i] };
		k->watch = client_watch(spec->client, &watch, &events, k);
	}
}

void follower_done(struct follower *f)
{
	for (size_t i = 0; i < f->spec.n_kinds; i++)
		client_watch_free(f->watches[i].watch);
	timer_free(f->timer);
}

bool follower_synced(const struct follower *f)
{
	return f->n_synced == f->spec.n_kinds;
}

static bool add(void *arg, struct object *o)
{
	struct follower_objects *l = arg;

	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->list = xrealloc(l->list, l->cap * sizeof(struct object *));
	}
	l->list[l->n++] = o;
	return true;
}

void follower_list(const struct follower *f, struct follower_objects ret[])
{
	for (size_t i = 0; i < f->spec.n_kinds; i++) {
		ret[i] = (struct follower_objects){ 0 };
		client_each(f->spec.client, kind_of(f, i), NULL, add, &ret[i]);
	}
}

void follower_objects_done(struct follower_objects *o)
{
	free(o->list);
}
