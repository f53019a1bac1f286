/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view_claim.h"

#include "api/agents.h"
#include "api/object.h"
#include "base/macros.h"
#include "base/str.h"
#include "json/json.h"

static void decode_lifecycle(const struct json *lifecycle, struct claim_view *v)
{
	v->shutdown_at = view_time(json_get_str(lifecycle, "shutdownTime"));
	v->ttl_s = json_get_int(lifecycle, "ttlSecondsAfterFinished", -1);
	v->shutdown_policy = str_or(json_get_str(lifecycle, "shutdownPolicy"), "Retain");
	if (str_eq(v->shutdown_policy, "DeleteForeground"))
		v->on_shutdown = CLAIM_DELETE_FOREGROUND;
	else if (!str_eq(v->shutdown_policy, "Retain"))
		v->on_shutdown = CLAIM_DELETE;
}

static void decode_spec(const struct json *spec, struct claim_view *v)
{
	const struct json *extra = json_get(spec, "additionalPodMetadata");

	v->pool = str_or(json_get_str(json_get(spec, "warmPoolRef"), "name"), "");
	v->env = json_get(spec, "env");
	v->volume_templates = json_get(spec, "volumeClaimTemplates");
	v->needs_cold = json_len(v->env) || json_len(v->volume_templates);
	v->pod_labels = json_get(extra, "labels");
	v->pod_annotations = json_get(extra, "annotations");
	v->has_metadata = json_len(v->pod_labels) || json_len(v->pod_annotations);
	decode_lifecycle(json_get(spec, "lifecycle"), v);
}

static void decode_meta(const struct object *o, struct claim_view *v)
{
	const char *by_label = object_label(o, KEY_SANDBOX_NAME);

	v->assigned = str_or(object_annotation(o, KEY_SANDBOX_NAME), str_or(by_label, NULL));
	v->assigned_by_label = by_label;
	v->created_by = object_label(o, KEY_CREATED_BY);
	v->trace = object_annotation(o, KEY_TRACE);
	v->first_observed = object_annotation(o, KEY_FIRST_OBSERVED);
	v->first_ready = object_annotation(o, KEY_FIRST_READY);
	v->created = view_created(o);
	v->generation = object_generation(o);
	v->deleting = object_deleting(o);
}

static void decode(const struct object *o, void *view)
{
	struct claim_view *v = view;
	const struct json *status = object_status(o), *conditions = json_get(status, "conditions");

	decode_meta(o, v);
	decode_spec(object_spec(o), v);
	v->sandbox = json_get_str(json_get(status, "sandbox"), "name");
	v->ready = condition_view_of(conditions, "Ready");
	v->finished = condition_view_of(conditions, "Finished");
}

const struct view_type claim_view_type = { sizeof(struct claim_view), decode, NULL };

const struct claim_view *claim_view(const struct object *o)
{
	return object_view(o, &claim_view_type);
}

usec claim_expires_at(const struct claim_view *v, const struct condition_view *finished)
{
	usec ended = view_time(finished->transition);

	if (v->ttl_s < 0 || !ended || !finished->is_true)
		return v->shutdown_at;
	ended += v->ttl_s * 1000000;
	return v->shutdown_at ? MIN(v->shutdown_at, ended) : ended;
}

bool claim_says_expired(const struct claim_view *v)
{
	return str_eq(v->ready.reason, "ClaimExpired");
}
