/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent.h"

#include "api/cay/cay.h"
#include "api/cay/read_priv.h"
#include "api/object.h"
#include "base/parse.h"
#include "base/str.h"

#define RETAIN_DEFAULT ((usec)24 * 3600 * 1000000)

static const char *const modes[] = { "FreshPerSession", "UserChooses", "Shared", "PerAgent", NULL };
static const char *const visibilities[] = { "Private", "Team", "Global", NULL };

const char *session_mode_name(enum session_mode m)
{
	return modes[m];
}

bool agent_key_read(const struct json *key, struct agent_key *ret)
{
	autofree void *raw = NULL;
	size_t len = 0;
	struct err *e =
		base64_decode(str_or(json_get_str(key, "publicKey"), ""), false, &raw, &len);

	err_free(e);
	if (e || len != AGENT_KEY_LEN)
		return false;
	ret->name = read_text(key, "name");
	ret->verified = json_get_bool(key, "verified", false);
	memcpy(ret->key, raw, len);
	return true;
}

static void decode_keys(const struct json *list, struct agent_view *v)
{
	struct agent_key *keys = arena_new_n(v->arena, struct agent_key, AGENT_KEYS_MAX);

	v->keys = keys;
	json_each(it, json_is(list, JSON_ARR) ? list : NULL)
		if (v->n_keys < AGENT_KEYS_MAX && agent_key_read(it.val, &keys[v->n_keys]))
			v->verified |= keys[v->n_keys++].verified;
}

static void decode(const struct object *o, void *view)
{
	const struct json *spec = object_spec(o), *sandbox = json_get(spec, "sandbox");
	const struct json *isolation = json_get(spec, "isolation");
	struct agent_view *v = view;

	v->arena = arena_new();
	v->parent = read_text(spec, "parent");
	decode_keys(json_get(spec, "keys"), v);
	v->mode = read_word(sandbox, "mode", modes, MODE_FRESH_PER_SESSION);
	v->pool = read_text(json_get(sandbox, "warmPoolRef"), "name");
	v->retain = read_duration(sandbox, "retain", RETAIN_DEFAULT);
	capabilities_read(json_get(spec, "capabilities"), v->arena, &v->capabilities);
	approval_rules_read(json_get(spec, "approval"), v->arena, &v->approval);
	v->budget = read_text(spec, "budget");
	v->class_if_verified = read_text(isolation, "verified");
	v->class_if_unverified = read_text(isolation, "unverified");
	v->visibility = read_word(spec, "visibility", visibilities, VISIBILITY_TEAM);
	v->owner = str_or(object_annotation(o, KEY_OWNER), "");
	v->generation = object_generation(o);
	v->deleting = object_deleting(o);
}

static void done(void *view)
{
	struct agent_view *v = view;

	arena_free(v->arena);
}

const struct view_type agent_view_type = { sizeof(struct agent_view), decode, done };

const struct agent_view *agent_view(const struct object *o)
{
	return object_view(o, &agent_view_type);
}
