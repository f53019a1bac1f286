/* SPDX-License-Identifier: Apache-2.0 */
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/str.h"

/*
 * Ephemeral containers: added to a Pod that runs, through a subresource of their own, and never
 * changed or removed. Rules and texts are those of kube-apiserver 1.36.
 */
static const char list_name[] = "ephemeralContainers";

void apply_pod_ephemeral(struct json_doc *whole, const struct json *sent)
{
	struct json *spec = json_get(json_root(whole), "spec");
	const struct json *list = json_get(json_get(sent, "spec"), list_name);

	if (list)
		json_set(whole, spec, list_name, json_copy(whole, list));
	else
		json_del(spec, list_name);
}

static const struct json *named(const struct json *list, const char *name)
{
	json_each(it, list)
		if (str_eq(json_get_str(it.val, "name"), name))
			return it.val;
	return NULL;
}

static bool is_set(const struct json *v)
{
	return v && !json_is(v, JSON_NULL) && (!json_is(v, JSON_OBJ) || json_len(v)) &&
	       (!json_is(v, JSON_ARR) || json_len(v));
}

/* It is no part of what the Pod is for. */
void validate_ephemeral(const struct json *container, const struct json *spec, const struct path *p,
			struct causes *c)
{
	static const char *const forbidden[] = {
		"ports",         "resources",     "resizePolicy",
		"restartPolicy", "livenessProbe", "readinessProbe",
		"startupProbe",  "lifecycle",     "restartPolicyRules"
	};
	static const char *const paths[] = { "subPath", "subPathExpr" };
	static const char why[] = "cannot be set for an Ephemeral Container";
	const char *target = json_get_str(container, "targetContainerName");
	size_t n = 0;

	if (!str_empty(target) && !named(json_get(spec, "containers"), target) &&
	    !named(json_get(spec, "initContainers"), target))
		bad_not_found(c, IN(p, "targetContainerName"), target);
	for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
		if (is_set(json_get(container, forbidden[i])))
			bad_forbidden(c, IN(p, forbidden[i]), why);
	json_each(it, json_get(container, "volumeMounts")) {
		const struct path *at = AT(IN(p, "volumeMounts"), n++);

		for (size_t i = 0; i < ARRAY_LEN(paths); i++)
			if (!str_empty(json_get_str(it.val, paths[i])))
				bad_forbidden(c, IN(at, paths[i]), why);
	}
}

void validate_pod_ephemeral(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct path *p = IN(IN(NULL, "spec"), list_name);
	const struct json *spec = json_get(obj, "spec"), *list = json_get(spec, list_name);

	validate_pod_spec(obj, c);
	json_each(it, json_get(json_get(old, "spec"), list_name)) {
		const char *name = str_or(json_get_str(it.val, "name"), "");
		const struct json *now = named(list, name);
		autofree char *text = NULL;

		if (now && json_equal(now, it.val))
			continue;
		text = xasprintf("existing ephemeral containers \"%s\" may not be %s\n", name,
				 now ? "changed" : "removed");
		bad_forbidden(c, p, text);
	}
}
