/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod.h"
#include "base/str.h"
#include "json/json.h"
#include "server/policy/policy_priv.h"

/* Which objects a quota is about: those that all of its scopes match. */

bool pod_has_deadline(const struct json *pod)
{
	return json_get_int(json_get(pod, "spec"), "activeDeadlineSeconds", -1) >= 0;
}

static bool any_crosses(const struct json *terms, bool weighted)
{
	json_each(it, terms) {
		const struct json *t = weighted ? json_get(it.val, "podAffinityTerm") : it.val;

		if (json_len(json_get(t, "namespaces")) || json_get(t, "namespaceSelector"))
			return true;
	}
	return false;
}

static bool crosses_namespaces(const struct json *pod)
{
	static const char *const kinds[] = { "podAffinity", "podAntiAffinity" };
	const struct json *affinity = json_at_path(pod, "spec.affinity");

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct json *a = json_get(affinity, kinds[i]);

		if (any_crosses(json_get(a, "requiredDuringSchedulingIgnoredDuringExecution"),
				false) ||
		    any_crosses(json_get(a, "preferredDuringSchedulingIgnoredDuringExecution"),
				true))
			return true;
	}
	return false;
}

static bool has_value(const struct json *values, const char *v)
{
	json_each(it, values)
		if (str_eq(json_str(it.val), v))
			return true;
	return false;
}

/* name: what the object has; "" for none. */
static bool name_matches(const char *name, const char *how, const struct json *values)
{
	if (str_eq(how, "In"))
		return *name && has_value(values, name);
	if (str_eq(how, "NotIn"))
		return !*name || !has_value(values, name);
	return str_eq(how, "DoesNotExist") ? !*name : *name != 0;
}

static bool pod_matches(const struct json *pod, const char *scope, const char *how,
			const struct json *values)
{
	const struct json *spec = json_get(pod, "spec");

	if (str_eq(scope, "Terminating"))
		return pod_has_deadline(pod);
	if (str_eq(scope, "NotTerminating"))
		return !pod_has_deadline(pod);
	if (str_eq(scope, "BestEffort"))
		return str_eq(pod_qos(spec), "BestEffort");
	if (str_eq(scope, "NotBestEffort"))
		return !str_eq(pod_qos(spec), "BestEffort");
	if (str_eq(scope, "PriorityClass"))
		return name_matches(str_or(json_get_str(spec, "priorityClassName"), ""), how,
				    values);
	return str_eq(scope, "CrossNamespacePodAffinity") && crosses_namespaces(pod);
}

static bool matches(const char *resource, const struct json *obj, const char *scope,
		    const struct json *expression)
{
	const char *how = expression ? json_get_str(expression, "operator") : "Exists";
	const struct json *values = json_get(expression, "values");
	const struct json *spec = json_get(obj, "spec");

	if (str_eq(resource, "pods"))
		return pod_matches(obj, scope, how, values);
	if (str_eq(resource, "persistentvolumeclaims") && str_eq(scope, "VolumeAttributesClass"))
		return name_matches(str_or(json_get_str(spec, "volumeAttributesClassName"), ""),
				    how, values);
	return false;
}

bool scope_matches(const struct json *spec, const char *resource, const struct json *obj)
{
	json_each(it, json_get(spec, "scopes"))
		if (!matches(resource, obj, json_str(it.val), NULL))
			return false;
	json_each(it, json_get(json_get(spec, "scopeSelector"), "matchExpressions"))
		if (!matches(resource, obj, json_get_str(it.val, "scopeName"), it.val))
			return false;
	return true;
}
