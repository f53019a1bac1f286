/* SPDX-License-Identifier: Apache-2.0 */
#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* Where a container sees the volumes of its Pod. */

bool has_backstep(const char *s)
{
	struct span rest = SPAN(s);

	while (rest.p)
		if (span_eq(span_cut(rest, '/', &rest), ".."))
			return true;
	return false;
}

void check_descending(struct causes *c, const char *s, const struct path *p)
{
	if (*s == '/')
		bad_text(c, p, s, "must be a relative path");
	if (has_backstep(s))
		bad_text(c, p, s, "must not contain '..'");
}

void check_local(struct causes *c, const char *s, const struct path *p)
{
	check_descending(c, s, p);
	if (str_starts(s, "..") && !str_starts(s, "../"))
		bad_text(c, p, s, "must not start with '..'");
}

/* The names and paths of a list, for the other list to avoid. */
struct places {
	struct map *names, *paths;
};

static void gather(struct places *places, const struct json *list, const char *member)
{
	if (!json_len(list))
		return;
	places->names = map_new(NULL);
	places->paths = map_new(NULL);
	json_each(it, list) {
		map_put(places->names, str_or(json_get_str(it.val, "name"), ""), places);
		map_put(places->paths, str_or(json_get_str(it.val, member), ""), places);
	}
}

static void forget(struct places *places)
{
	map_free(places->names);
	map_free(places->paths);
}

static bool holds(const struct map *m, const char *s)
{
	return m && map_has(m, s);
}

static void check_propagation(struct pod_rules *r, const struct json *mount,
			      const struct json *container, const struct path *list)
{
	static const char *const modes[] = { "Bidirectional", "HostToContainer", "None", NULL };

	if (!json_get(mount, "mountPropagation"))
		return;
	check_supported(r->causes, list, mount, "mountPropagation", modes);
	if (str_eq(json_get_str(mount, "mountPropagation"), "Bidirectional") &&
	    !json_get_bool(json_get(container, "securityContext"), "privileged", false))
		bad_forbidden(r->causes, IN(list, "mountPropagation"),
			      "Bidirectional mount propagation is available only to privileged "
			      "containers");
}

static void check_read_only(struct causes *c, const struct json *mount, const struct path *list)
{
	static const char *const values[] = { "Disabled", "Enabled", "IfPossible", NULL };
	const char *v = json_get_str(mount, "recursiveReadOnly");
	const char *propagation = json_get_str(mount, "mountPropagation");
	const struct path *p = IN(list, "recursiveReadOnly");

	if (!v || str_eq(v, "Disabled"))
		return;
	if (!str_in(v, values)) {
		bad_unsupported(c, p, v, values);
		return;
	}
	if (!json_get_bool(mount, "readOnly", false))
		bad_forbidden(c, p, "may only be specified when readOnly is true");
	if (propagation && !str_eq(propagation, "None"))
		bad_forbidden(
			c, p,
			"may only be specified when mountPropagation is None or not specified");
}

/* As kube-apiserver: the paths of some members lack the index. */
static void check_sub_paths(struct causes *c, const struct json *mount, const struct path *at,
			    const struct path *list)
{
	const char *sub = str_or(json_get_str(mount, "subPath"), "");
	const char *expr = str_or(json_get_str(mount, "subPathExpr"), "");

	check_descending(c, sub, IN(list, "subPath"));
	if (*sub && *expr)
		bad_text(c, IN(at, "subPathExpr"), expr,
			 "subPathExpr and subPath are mutually exclusive");
	check_descending(c, expr, IN(list, "subPathExpr"));
}

static void check_mounts(struct pod_rules *r, const struct json *container,
			 const struct places *devices, const struct path *list)
{
	const struct json *mounts = json_get(container, "volumeMounts");
	autoptr(map) paths = json_len(mounts) > 1 ? map_new(NULL) : NULL;
	struct causes *c = r->causes;
	size_t i = 0;

	json_each(it, mounts) {
		const struct path *at = AT(list, i++);
		const char *name = str_or(need_text(c, at, it.val, "name"), ""), *where;

		if (!holds(r->volumes, name))
			bad_not_found(c, IN(at, "name"), name);
		where = str_or(need_text(c, at, it.val, "mountPath"), "");
		if (holds(paths, where))
			bad_text(c, IN(at, "mountPath"), where, "must be unique");
		if (paths)
			map_put(paths, where, r);
		if (holds(devices->names, name))
			bad_text(c, IN(at, "name"), name,
				 "must not already exist in volumeDevices");
		if (holds(devices->paths, where))
			bad_text(c, IN(at, "mountPath"), where,
				 "must not already exist as a path in volumeDevices");
		check_sub_paths(c, it.val, at, list);
		check_propagation(r, it.val, container, list);
		check_read_only(c, it.val, list);
	}
}

static void check_device_path(struct causes *c, const char *path, struct map *paths,
			      const struct path *p)
{
	if (!*path)
		bad_required(c, p, NULL);
	if (map_has(paths, path))
		bad_text(c, p, path, "must be unique");
	if (has_backstep(path))
		bad_text(c, p, path, "can not contain backsteps ('..')");
	else
		map_put(paths, path, paths);
}

static void check_devices(struct pod_rules *r, const struct json *devices,
			  const struct places *mounts, const struct path *list)
{
	autoptr(map) names = json_len(devices) ? map_new(NULL) : NULL;
	autoptr(map) paths = json_len(devices) ? map_new(NULL) : NULL;
	struct causes *c = r->causes;
	size_t i = 0;

	json_each(it, devices) {
		const struct path *at = AT(list, i++);
		const char *name = str_or(need_text(c, at, it.val, "name"), "");
		const char *path = str_or(json_get_str(it.val, "devicePath"), "");
		const struct json *volume = r->volumes ? map_get(r->volumes, name) : NULL;

		if (map_has(names, name))
			bad_text(c, IN(at, "name"), name, "must be unique");
		if (volume && !json_get(volume, "persistentVolumeClaim") &&
		    !json_get(volume, "ephemeral"))
			bad_text(c, IN(at, "name"), name,
				 "can only use volume source type of PersistentVolumeClaim or "
				 "Ephemeral for block mode");
		if (!volume)
			bad_not_found(c, IN(at, "name"), name);
		check_device_path(c, path, paths, IN(at, "devicePath"));
		if (holds(mounts->names, name))
			bad_text(c, IN(at, "name"), name, "must not already exist in volumeMounts");
		if (holds(mounts->paths, path))
			bad_text(c, IN(at, "devicePath"), path,
				 "must not already exist as a path in volumeMounts");
		if (*name)
			map_put(names, name, r);
	}
}

void spec_mounts(struct pod_rules *r, const struct json *container, const struct path *p)
{
	const struct json *list = json_get(container, "volumeDevices");
	struct places devices = { 0 }, mounts = { 0 };

	gather(&devices, list, "devicePath");
	if (json_len(list))
		gather(&mounts, json_get(container, "volumeMounts"), "mountPath");
	check_mounts(r, container, &devices, IN(p, "volumeMounts"));
	check_devices(r, list, &mounts, IN(p, "volumeDevices"));
	forget(&devices);
	forget(&mounts);
}
