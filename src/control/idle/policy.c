/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/kind.h"
#include "api/view_claim.h"
#include "api/view_pool.h"
#include "base/parse.h"
#include "base/str.h"
#include "client/client.h"
#include "control/idle/idle_priv.h"

/*
 * The annotations about sleep. Each is taken from the most particular object that has it: the
 * Sandbox, its claim, the claim's pool, the pool's template.
 */
enum {
	AFTER_MIN_MS = 1000,
};
#define AFTER_MAX_MS (366ull * 24 * 3600 * 1000)

static const char *const actions[IDLE_ACTION_MAX_ + 1] = {
	[IDLE_ACTION_FREEZE] = "Freeze",
	[IDLE_ACTION_SUSPEND] = "Suspend",
	[IDLE_ACTION_DELETE] = "Delete",
};
static const char *const wakes[IDLE_WAKES_MAX_ + 1] = {
	[IDLE_WAKES_ITS_OWN] = "IfIdle",
	[IDLE_WAKES_ANY] = "OnRequest",
	[IDLE_WAKES_NONE] = "Never",
};
static const char *const keys[] = { KEY_IDLE_AFTER, KEY_IDLE_ACTION, KEY_WAKE };

const char *idle_action_name(enum idle_action a)
{
	return actions[a];
}

static const char *find(const struct object *const levels[IDLE_LEVELS], const char *key,
			const struct object **ret)
{
	for (int i = 0; i < IDLE_LEVELS; i++) {
		const char *value = levels[i] ? object_annotation(levels[i], key) : NULL;

		if (value) {
			*ret = levels[i];
			return value;
		}
	}
	return NULL;
}

static void is_bad(struct idle_policy *p, const char *key, const char *allowed, const char *value,
		   const struct object *at)
{
	if (!p->bad.key)
		p->bad = (struct idle_bad){ key, value, allowed, at->kind->kind, at->name };
}

/* The place of a value in a list; otherwise: there is none, or it is bad. */
static unsigned choose(struct idle_policy *p, const struct object *const levels[IDLE_LEVELS],
		       const char *key, const char *const *list, const char *allowed)
{
	const struct object *at = NULL;
	const char *value = find(levels, key, &at);

	for (unsigned i = 0; value && list[i]; i++)
		if (str_eq(list[i], value))
			return i;
	if (value)
		is_bad(p, key, allowed, value, at);
	return 0;
}

struct idle_policy idle_policy_of(const struct object *const levels[IDLE_LEVELS])
{
	struct idle_policy p = { 0 };
	const struct object *at = NULL;
	const char *after = find(levels, KEY_IDLE_AFTER, &at);
	uint64_t ms = 0;

	if (after && !str_eq(after, "never")) {
		struct err *e = parse_duration_ms(after, &ms);

		if (e || ms < AFTER_MIN_MS || ms > AFTER_MAX_MS)
			is_bad(&p, KEY_IDLE_AFTER,
			       "a duration from 1s to 8784h, such as 10m, or never", after, at);
		err_free(e);
	}
	p.action = choose(&p, levels, KEY_IDLE_ACTION, actions, "Freeze, Suspend or Delete");
	p.wakes = choose(&p, levels, KEY_WAKE, wakes, "IfIdle, OnRequest or Never");
	p.after_ms = p.bad.key ? 0 : ms;
	return p;
}

bool idle_has_policy(const struct object *o)
{
	for (size_t i = 0; o && i < ARRAY_LEN(keys); i++)
		if (object_annotation(o, keys[i]))
			return true;
	return false;
}

bool idle_policy_differs(const struct object *was, const struct object *now)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!str_eq(was ? object_annotation(was, keys[i]) : NULL,
			    now ? object_annotation(now, keys[i]) : NULL))
			return true;
	return false;
}

void idle_levels(struct context *c, const struct object *sandbox, struct object *ret[IDLE_LEVELS])
{
	const struct owner_view *owner = &sandbox_view(sandbox)->owner;

	memset(ret, 0, IDLE_LEVELS * sizeof(*ret));
	ret[0] = object_ref((struct object *)(uintptr_t)sandbox);
	if (owner->type != OWNER_CLAIM)
		return;
	ret[1] = client_get(c->client, c->kinds.claim, sandbox->ns, owner->name);
	if (ret[1])
		ret[2] =
			client_get(c->client, c->kinds.pool, sandbox->ns, claim_view(ret[1])->pool);
	if (ret[2])
		ret[3] = client_get(c->client, c->kinds.template, sandbox->ns,
				    pool_view(ret[2])->template);
}

void idle_levels_done(struct object *levels[IDLE_LEVELS])
{
	for (int i = 0; i < IDLE_LEVELS; i++)
		object_unref(levels[i]);
}
