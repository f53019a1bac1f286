/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/hooks.h"

#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/cay/session.h"
#include "api/registry.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "hooks/hooks_priv.h"

/*
 * The watches that wake deliveries, and what is kept of a trigger beside its object.
 */
enum {
	TOLD_MAX = 60, /* refusals that are recorded in a minute: whoever sends them chooses how
			  many */
};
#define MINUTE ((usec)60 * 1000000)

void hooks_tell(struct hooks *h, const struct hooks_record *r)
{
	usec now = clock_mono();

	if (!h->spec.record)
		return;
	if (r->status == 401) {
		if (now - h->told_since > MINUTE) {
			h->told_since = now;
			h->n_told = 0;
		}
		if (++h->n_told > TOLD_MAX)
			return;
	}
	h->spec.record(h->spec.arg, r);
}

/* Triggers */

static void hook_free(void *p)
{
	struct hook *k = p;

	seen_free(k);
	free(k->taken);
	free(k->ns);
	free(k->name);
	free(k->uid);
	free(k);
}

struct hook *hook_of(struct hooks *h, const struct object *trigger)
{
	autofree char *key = xasprintf("%s/%s", trigger->ns, trigger->name);
	struct hook *k = map_get(h->hooks, key);

	if (k && str_eq(k->uid, trigger->uid))
		return k;
	k = xnew(struct hook);
	k->ns = xstrdup(trigger->ns);
	k->name = xstrdup(trigger->name);
	k->uid = xstrdup(trigger->uid);
	list_init(&k->chunks);
	map_put(h->hooks, key, k);
	return k;
}

/* A ring of the moments of the last minute, as large as there are deliveries in one. */
static void resize(struct hook *k, size_t cap)
{
	usec *taken = xnew_n(usec, cap);
	size_t n = MIN(k->n_taken, cap);

	for (size_t i = 0; i < n; i++) /* the youngest */
		taken[i] = k->taken[(k->taken_at + k->n_taken - n + i) % k->taken_cap];
	free(k->taken);
	k->taken = taken;
	k->taken_cap = cap;
	k->n_taken = n;
	k->taken_at = 0;
}

bool hook_pace(struct hook *k, int64_t per_minute, int *ret_after)
{
	usec now = clock_mono();

	if (k->taken_cap != (size_t)per_minute)
		resize(k, (size_t)per_minute);
	while (k->n_taken && now - k->taken[k->taken_at] >= MINUTE) {
		k->taken_at = (k->taken_at + 1) % k->taken_cap;
		k->n_taken--;
	}
	if (k->n_taken == k->taken_cap) {
		*ret_after = 1 + (int)((MINUTE - (now - k->taken[k->taken_at])) / 1000000);
		return false;
	}
	k->taken[(k->taken_at + k->n_taken++) % k->taken_cap] = now;
	return true;
}

/* Watches: changes are noted here, and looked at later in the turn. */

static void trigger_changed(void *arg, struct object *was, struct object *now)
{
	struct hooks *h = arg;
	autofree char *key = NULL;

	if (now || !was)
		return;
	key = xasprintf("%s/%s", was->ns, was->name);
	(void)map_del(h->hooks, key);
	deferred_call(&h->look);
}

static void session_changed(void *arg, struct object *was, struct object *now)
{
	struct hooks *h = arg;
	const struct object *o = now ? now : was;
	autofree char *key = NULL;

	if (!map_len(h->lanes))
		return;
	key = xasprintf("%s/%s", o->ns, o->name);
	if (map_has(h->lanes, key))
		deferred_call(&h->look);
}

static void sandbox_changed(void *arg, struct object *was, struct object *now)
{
	struct hooks *h = arg;
	const struct object *o = now ? now : was;
	const struct delivery *d;

	list_each(d, &h->deliveries, on)
		if (str_eq(d->sandbox, o->name) && str_eq(d->ns, o->ns)) {
			deferred_call(&h->look);
			return;
		}
}

static void approval_changed(void *arg, struct object *was unused, struct object *now)
{
	struct hooks *h = arg;

	if (now && map_len(h->lanes))
		deferred_call(&h->look);
}

static void nothing_changed(void *arg unused, struct object *was unused, struct object *now unused)
{
	/* Only read. */
}

static void on_look(void *arg)
{
	deliveries_look(arg);
}

static void watch(struct hooks *h, size_t i, const struct kind *k,
		  void (*changed)(void *arg, struct object *was, struct object *now))
{
	const struct client_watch_events ev = { .changed = changed };

	h->watches[i] =
		client_watch(h->spec.client, &(struct client_watch_spec){ .kind = k }, &ev, h);
}

static void lane_free(void *p)
{
	struct lane *lane = p;

	free(lane->key);
	free(lane);
}

struct hooks *hooks_new(struct loop *l, const struct hooks_spec *spec)
{
	const struct kinds *kinds = client_kinds(spec->client);
	struct hooks *h = xnew(struct hooks);

	h->loop = l;
	h->spec = *spec;
	h->trigger = kinds_need(kinds, API_CAY, "Trigger");
	h->session = kinds_need(kinds, API_CAY, "Session");
	h->agent = kinds_need(kinds, API_CAY, "Agent");
	h->approval = kinds_need(kinds, API_CAY, "Approval");
	h->sandbox = kinds_need(kinds, API_SANDBOX, "Sandbox");
	h->secret = kinds_need(kinds, "v1", "Secret");
	h->hooks = map_new(hook_free);
	h->lanes = map_new(lane_free);
	list_init(&h->deliveries);
	list_init(&h->visits);
	deferred_init(&h->look, l, on_look, h);
	random_bytes(h->nobody, sizeof(h->nobody));
	watch(h, 0, h->trigger, trigger_changed);
	watch(h, 1, h->session, session_changed);
	watch(h, 2, h->agent, nothing_changed);
	watch(h, 3, h->sandbox, sandbox_changed);
	watch(h, 4, h->approval, approval_changed);
	watch(h, 5, h->secret, nothing_changed);
	journal_open(h);
	return h;
}

void hooks_free(struct hooks *h)
{
	struct delivery *d, *next;

	if (!h)
		return;
	visits_free(h);
	list_each_safe(d, next, &h->deliveries, on)
		delivery_free(d);
	for (size_t i = 0; i < ARRAY_LEN(h->watches); i++)
		client_watch_free(h->watches[i]);
	deferred_cancel(&h->look);
	map_free(h->lanes);
	map_free(h->hooks);
	free(h);
}

void hooks_stats(const struct hooks *h, struct hooks_stats *ret)
{
	*ret = h->stats;
	ret->pending = h->n_pending;
}
