/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view_template.h"

#include "api/agents.h"
#include "api/object.h"
#include "base/str.h"
#include "json/json.h"

static enum template_policy policy_of(const char *text)
{
	if (str_eq(text, "Overrides"))
		return TEMPLATE_OVERRIDES;
	return str_eq(text, "Allowed") ? TEMPLATE_ALLOWED : TEMPLATE_DISALLOWED;
}

static void decode(const struct object *o, void *view)
{
	struct template_view *v = view;
	const struct json *spec = object_spec(o), *rules = json_get(spec, "networkPolicy");

	v->blueprint = blueprint_view_of(o);
	v->network_policy = json_is(rules, JSON_OBJ) ? rules : NULL;
	v->ref_hash = object_label(o, KEY_TEMPLATE_REF_HASH);
	v->env_policy = policy_of(json_get_str(spec, "envVarsInjectionPolicy"));
	v->volume_policy = policy_of(json_get_str(spec, "volumeClaimTemplatesPolicy"));
	v->managed = !str_eq(json_get_str(spec, "networkPolicyManagement"), "Unmanaged");
	v->resets = str_eq(object_annotation(o, KEY_RESET), "true");
	v->deleting = object_deleting(o);
}

const struct view_type template_view_type = { sizeof(struct template_view), decode, NULL };

const struct template_view *template_view(const struct object *o)
{
	return object_view(o, &template_view_type);
}
