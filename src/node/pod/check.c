/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod.h"
#include "base/str.h"
#include "node/host/numbers.h"
#include "node/launch/plan.h"
#include "node/pod/pod_priv.h"

/*
 * What this node does not do. A field that promises the Pod something that we cannot keep is
 * refused by its path rather than ignored.
 */
static const char *const refused_true[] = { "hostNetwork", "hostPID", "hostIPC",
					    "shareProcessNamespace", NULL };
static const char *const refused_any[] = { "ephemeralContainers", "overhead", "resourceClaims",
					   NULL };
static const char *const volume_kinds[] = {
	"emptyDir", "persistentVolumeClaim", "configMap", "secret", "projected", "downwardAPI", NULL
};
static const char *const container_refused[] = { "lifecycle", "volumeDevices", "resizePolicy",
						 NULL };

static bool wanted(const struct json *obj, const char *member)
{
	const struct json *v = json_get(obj, member);

	switch (json_type(v)) {
	case JSON_ARR:
	case JSON_OBJ:
		return json_len(v) > 0;
	case JSON_BOOL:
		return json_bool(v, false);
	case JSON_NONE:
	case JSON_NULL:
	case JSON_INT:
	case JSON_REAL:
	case JSON_STR:
	case JSON_TYPE_MAX_:
		break;
	}
	return v && !json_is(v, JSON_NULL);
}

static char *check_volume(const struct json *v, size_t i)
{
	json_each(m, v) {
		if (str_eq(m.key, "name") || str_in(m.key, volume_kinds))
			continue;
		return xasprintf("spec.volumes[%zu].%s", i, m.key);
	}
	json_each(s, json_at_path(v, "projected.sources"))
		json_each(m, s.val)
			if (!str_eq(m.key, "configMap") && !str_eq(m.key, "secret") &&
			    !str_eq(m.key, "downwardAPI") && !str_eq(m.key, "serviceAccountToken"))
				return xasprintf("spec.volumes[%zu].projected.sources[].%s", i,
						 m.key);
	return NULL;
}

static char *check_security(const struct json *s, const char *path)
{
	if (json_get_bool(s, "privileged", false))
		return xasprintf("%s.securityContext.privileged", path);
	if (json_at_path(s, "seccompProfile.type") &&
	    !str_eq(json_str(json_at_path(s, "seccompProfile.type")), "RuntimeDefault"))
		return xasprintf(
			"%s.securityContext.seccompProfile.type: only RuntimeDefault is there",
			path);
	if (str_eq(json_get_str(s, "procMount"), "Unmasked"))
		return xasprintf("%s.securityContext.procMount", path);
	json_each(c, json_at_path(s, "capabilities.add")) {
		const char *name = str_or(json_str(c.val), "");

		if (plan_capability(name) < 0)
			return xasprintf("%s.securityContext.capabilities.add: %s", path, name);
	}
	return NULL;
}

static char *check_ids(const struct json *s, const char *path)
{
	static const char *const ids[] = { "runAsUser", "runAsGroup", "fsGroup" };

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		int64_t v = json_get_int(s, ids[i], 0);

		if (v < 0 || v >= ID_RANGE)
			return xasprintf("%s.securityContext.%s: %lld is beyond a sandbox's %d ids",
					 path, ids[i], (long long)v, ID_RANGE);
	}
	return NULL;
}

static char *check_mounts(const struct json *mounts, const char *path)
{
	size_t i = 0;

	json_each(m, mounts) {
		if (wanted(m.val, "subPathExpr"))
			return xasprintf("%s.volumeMounts[%zu].subPathExpr", path, i);
		if (wanted(m.val, "mountPropagation") &&
		    !str_eq(json_get_str(m.val, "mountPropagation"), "None"))
			return xasprintf("%s.volumeMounts[%zu].mountPropagation", path, i);
		i++;
	}
	return NULL;
}

static char *check_container(const struct json *c, const char *path)
{
	const struct json *s = json_get(c, "securityContext");
	char *bad = check_security(s, path);

	if (!bad)
		bad = check_ids(s, path);
	if (bad)
		return bad;
	for (size_t i = 0; container_refused[i]; i++)
		if (wanted(c, container_refused[i]))
			return xasprintf("%s.%s", path, container_refused[i]);
	json_each(p, json_get(c, "ports"))
		if (json_get_int(p.val, "hostPort", 0))
			return xasprintf("%s.ports[].hostPort", path);
	return check_mounts(json_get(c, "volumeMounts"), path);
}

static char *check_containers(const struct json *spec, const char *member)
{
	size_t i = 0;

	json_each(c, json_get(spec, member)) {
		autofree char *path = xasprintf("spec.%s[%zu]", member, i++);
		char *bad = check_container(c.val, path);

		if (!bad && str_eq(member, "initContainers") && pod_is_sidecar(c.val))
			bad = xasprintf("%s.restartPolicy", path);
		if (bad)
			return bad;
	}
	return NULL;
}

char *pod_unsupported(const struct json *spec)
{
	const char *runtime = json_get_str(spec, "runtimeClassName");
	char *bad = NULL;
	size_t i = 0;

	if (!str_empty(runtime) && !str_eq(runtime, "native"))
		return xasprintf("spec.runtimeClassName: \"%s\" is not installed; this node has "
				 "\"native\"",
				 runtime);
	for (size_t k = 0; refused_true[k]; k++)
		if (json_get_bool(spec, refused_true[k], false))
			return xasprintf("spec.%s", refused_true[k]);
	for (size_t k = 0; refused_any[k]; k++)
		if (wanted(spec, refused_any[k]))
			return xasprintf("spec.%s", refused_any[k]);
	json_each(v, json_get(spec, "volumes")) {
		bad = check_volume(v.val, i++);
		if (bad)
			return bad;
	}
	bad = check_ids(json_get(spec, "securityContext"), "spec");
	if (!bad)
		bad = check_containers(spec, "initContainers");
	return bad ? bad : check_containers(spec, "containers");
}
