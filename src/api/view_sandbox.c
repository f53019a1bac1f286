/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view_sandbox.h"

#include "api/agents.h"
#include "api/cay/visibility.h"
#include "api/object.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"

static void decode_labels(const struct object *o, struct sandbox_view *v)
{
	v->pool_hash = object_label(o, KEY_POOL);
	v->template_ref_hash = object_label(o, KEY_TEMPLATE_REF_HASH);
	v->template_hash = object_label(o, KEY_TEMPLATE_HASH);
	v->launch_type = object_label(o, KEY_LAUNCH_TYPE);
	v->created_by = object_label(o, KEY_CREATED_BY);
	v->adoptable = v->pool_hash && v->template_ref_hash;
	v->warm = str_eq(v->launch_type, "warm");
}

static enum sandbox_service service_wish(const struct json *wish)
{
	if (!json_is(wish, JSON_BOOL))
		return SANDBOX_SERVICE_UNSET;
	return json_bool(wish, false) ? SANDBOX_SERVICE_WANTED : SANDBOX_SERVICE_NONE;
}

static void decode_spec(const struct json *spec, struct sandbox_view *v)
{
	v->service = service_wish(v->blueprint.service);
	v->suspended = str_eq(json_get_str(spec, "operatingMode"), "Suspended");
	v->shutdown_at = view_time(json_get_str(spec, "shutdownTime"));
	v->delete_at_shutdown = str_eq(json_get_str(spec, "shutdownPolicy"), "Delete");
}

static void decode_status(const struct json *status, struct sandbox_view *v)
{
	const struct json *conditions = json_get(status, "conditions");

	v->ready = condition_view_of(conditions, "Ready");
	v->finished = condition_view_of(conditions, "Finished");
	v->pod_ips = json_get(status, "podIPs");
	v->networked = json_len(v->pod_ips) > 0;
	v->node_name = str_or(json_get_str(status, "nodeName"), "");
}

static bool has_finalizer(const struct object *o, const char *name)
{
	json_each(it, json_get(json_get(o->root, "metadata"), "finalizers"))
		if (str_eq(json_str(it.val), name))
			return true;
	return false;
}

/* A count that cannot be read says at least that there is one. */
static int64_t count_of(const char *text)
{
	uint64_t n = 0;
	struct err *e = text ? parse_uint(text, INT32_MAX, &n) : NULL;

	if (e)
		n = 1;
	err_free(e);
	return (int64_t)n;
}

static void decode(const struct object *o, void *view)
{
	struct sandbox_view *v = view;
	const char *pod_name = object_annotation(o, KEY_POD_NAME);

	v->owner = owner_view_of(o);
	v->in_pool = v->owner.type == OWNER_POOL;
	v->pod_name = str_or(pod_name, o->name);
	v->pod_name_annotated = !str_empty(pod_name);
	v->blueprint = blueprint_view_of(o);
	v->lent_by = v->owner.type == OWNER_CLAIM ? object_annotation(o, KEY_RESET_POOL) : NULL;
	v->reset_first = has_finalizer(o, FINALIZER_RESET);
	v->resets = count_of(object_annotation(o, KEY_RESETS));
	v->is_private = visibility_of(o) == VISIBILITY_PRIVATE;
	v->created = view_created(o);
	v->generation = object_generation(o);
	v->deleting = object_deleting(o);
	decode_labels(o, v);
	decode_spec(object_spec(o), v);
	decode_status(object_status(o), v);
}

const struct view_type sandbox_view_type = { sizeof(struct sandbox_view), decode, NULL };

const struct sandbox_view *sandbox_view(const struct object *o)
{
	return object_view(o, &sandbox_view_type);
}

bool sandbox_says_expired(const struct sandbox_view *v)
{
	return str_eq(v->ready.reason, "SandboxExpired");
}

bool sandbox_is_down(const struct sandbox_view *v)
{
	static const char *const ended[] = { "PodSucceeded", "PodFailed", NULL };

	return v->suspended || v->deleting || v->finished.is_true || sandbox_says_expired(v) ||
	       str_in(v->ready.reason, ended);
}

bool sandbox_was_rejected(const struct sandbox_view *v)
{
	return str_eq(v->ready.reason, "InvalidConfiguration") &&
	       v->ready.observed_generation == v->generation;
}

bool sandbox_tracks(const struct object *sandbox, const char *uid, const char *pod)
{
	return str_eq(sandbox->uid, uid) && str_eq(sandbox_view(sandbox)->pod_name, pod);
}
