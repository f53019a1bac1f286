/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view.h"

#include "api/agents.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/str.h"
#include "json/json.h"

/* The parts that the views of several kinds share. */

static const char *text_of(const struct json *v, const char *key)
{
	return str_or(json_get_str(v, key), "");
}

static enum owner_type owner_type_of(const char *group, const char *kind)
{
	static const struct {
		const char *group, *kind;
	} known[OWNER_TYPE_MAX_] = {
		[OWNER_SANDBOX] = { GROUP_AGENTS, "Sandbox" },
		[OWNER_TEMPLATE] = { GROUP_EXTENSIONS, "SandboxTemplate" },
		[OWNER_POOL] = { GROUP_EXTENSIONS, "SandboxWarmPool" },
		[OWNER_CLAIM] = { GROUP_EXTENSIONS, "SandboxClaim" },
	};

	for (int i = 0; i < OWNER_TYPE_MAX_; i++)
		if (known[i].kind && str_eq(kind, known[i].kind) && str_eq(group, known[i].group))
			return i;
	return OWNER_OTHER;
}

struct owner_view owner_view_of(const struct object *o)
{
	const struct json *ref = object_controller(o);
	struct owner_view v = { 0 };
	char group[256];

	if (!ref)
		return v;
	v.kind = text_of(ref, "kind");
	v.name = text_of(ref, "name");
	v.uid = text_of(ref, "uid");
	api_version_group(text_of(ref, "apiVersion"), group, sizeof(group));
	v.extension = str_eq(group, GROUP_EXTENSIONS);
	v.type = owner_type_of(group, v.kind);
	return v;
}

struct condition_view condition_view_of(const struct json *conditions, const char *type)
{
	const struct json *c = conditions_get(conditions, type);
	struct condition_view v = { .tree = c, .status = "", .reason = "" };

	if (!c)
		return v;
	v.status = text_of(c, "status");
	v.reason = text_of(c, "reason");
	v.message = json_get_str(c, "message");
	v.transition = json_get_str(c, "lastTransitionTime");
	v.observed_generation = json_get_int(c, "observedGeneration", 0);
	v.is_true = str_eq(v.status, "True");
	return v;
}

struct blueprint_view blueprint_view_of(const struct object *o)
{
	const struct json *spec = object_spec(o), *pod = json_get(spec, "podTemplate");

	return (struct blueprint_view){ .pod_template = pod,
					.pod_metadata = json_get(pod, "metadata"),
					.pod_spec = json_get(pod, "spec"),
					.volume_templates = json_get(spec, "volumeClaimTemplates"),
					.service = json_get(spec, "service") };
}

const char *volume_template_name(const struct json *t)
{
	return text_of(json_get(t, "metadata"), "name");
}

usec view_time(const char *text)
{
	usec at = 0;

	if (!str_empty(text))
		err_free(clock_parse(text, &at)); /* the schema accepts only times */
	return at;
}

usec view_created(const struct object *o)
{
	return view_time(json_get_str(json_get(o->root, "metadata"), "creationTimestamp"));
}
