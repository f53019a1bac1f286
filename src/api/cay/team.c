/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/team.h"

#include "api/cay/read_priv.h"
#include "api/object.h"
#include "base/str.h"

static const char *const nothing[] = { NULL };
static const char *const everything[] = { "*", NULL };
static const char *const forms[] = { "Plain", "GitHub", NULL };

enum {
	PER_MINUTE_DEFAULT = 60,
	MAX_PENDING_DEFAULT = 16,
};

/* Credential */

static void decode_credential(const struct object *o, void *view)
{
	const struct json *spec = object_spec(o), *ref = json_get(spec, "secretRef");
	struct credential_view *v = view;

	v->arena = arena_new();
	v->secret = read_text(ref, "name");
	v->key = read_text(ref, "key");
	v->hosts = read_texts(json_get(spec, "hosts"), v->arena, nothing);
	v->header = read_text(spec, "header");
	v->query = read_text(spec, "query");
	v->prefix = read_text(spec, "prefix");
	v->agents = read_texts(json_get(spec, "agents"), v->arena, everything);
}

static void done_credential(void *view)
{
	struct credential_view *v = view;

	arena_free(v->arena);
}

const struct view_type credential_view_type = { sizeof(struct credential_view), decode_credential,
						done_credential };

const struct credential_view *credential_view(const struct object *o)
{
	return object_view(o, &credential_view_type);
}

/* Trigger */

static void decode_trigger(const struct object *o, void *view)
{
	const struct json *spec = object_spec(o), *ref = json_get(spec, "secretRef");
	const struct json *limits = json_get(spec, "limits"), *filters = json_get(spec, "filters");
	struct trigger_view *v = view;

	v->arena = arena_new();
	v->agent = read_text(spec, "agent");
	v->user = read_text(spec, "user");
	v->secret = read_text(ref, "name");
	v->key = read_text(ref, "key");
	v->form = read_word(spec, "form", forms, TRIGGER_PLAIN);
	v->session_key = read_text(spec, "sessionKey");
	v->command = read_texts(json_get(spec, "command"), v->arena, nothing);
	v->filters = json_is(filters, JSON_ARR) ? filters : NULL;
	v->per_minute = json_get_int(limits, "perMinute", PER_MINUTE_DEFAULT);
	v->max_pending = json_get_int(limits, "maxPending", MAX_PENDING_DEFAULT);
	v->deleting = object_deleting(o);
}

static void done_trigger(void *view)
{
	struct trigger_view *v = view;

	arena_free(v->arena);
}

const struct view_type trigger_view_type = { sizeof(struct trigger_view), decode_trigger,
					     done_trigger };

const struct trigger_view *trigger_view(const struct object *o)
{
	return object_view(o, &trigger_view_type);
}

/* TeamPolicy */

static void decode_policy(const struct object *o, void *view)
{
	const struct json *spec = object_spec(o), *isolation = json_get(spec, "isolation");
	const char *least = json_get_str(spec, "approvalDefault");
	struct team_policy_view *v = view;

	v->arena = arena_new();
	v->has_capabilities = json_is(json_get(spec, "capabilities"), JSON_OBJ);
	capabilities_read_ceiling(json_get(spec, "capabilities"), v->arena, &v->capabilities);
	v->approval_default = least ? verdict_named(least) : VERDICT_ALLOW;
	if (v->approval_default == VERDICT_MAX_)
		v->approval_default = VERDICT_DENY; /* the schema accepts only those there are */
	v->runtime_classes = read_texts(json_get(isolation, "classes"), v->arena, nothing);
	v->floor = read_text(isolation, "floor");
	v->templates = read_texts(json_get(spec, "templates"), v->arena, NULL);
	v->retain_max = read_duration(spec, "retainMax", 0);
	v->budget = read_text(spec, "budget");
}

static void done_policy(void *view)
{
	struct team_policy_view *v = view;

	arena_free(v->arena);
}

const struct view_type team_policy_view_type = { sizeof(struct team_policy_view), decode_policy,
						 done_policy };

const struct team_policy_view *team_policy_view(const struct object *o)
{
	return object_view(o, &team_policy_view_type);
}

bool team_policy_strong_enough(const struct team_policy_view *v, const char *class)
{
	if (!*v->floor)
		return true;
	for (size_t i = 0; v->runtime_classes[i]; i++) {
		if (str_eq(v->runtime_classes[i], class))
			return true;
		if (str_eq(v->runtime_classes[i], v->floor))
			return false;
	}
	return str_eq(class, v->floor);
}
