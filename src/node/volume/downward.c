/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/str.h"
#include "node/pod/pod_priv.h"

/* What a container may learn of its own Pod: fieldRef and resourceFieldRef. */

static char *map_lines(const struct json *map)
{
	autobuf b = { 0 };

	json_each(m, map) {
		autofree char *quoted = json_to_text(m.val);

		buf_printf(&b, "%s%s=%s", b.len ? "\n" : "", m.key, quoted);
	}
	return buf_steal(&b, NULL);
}

/* metadata.labels['app'] → the key's value. */
static char *map_entry(const struct pod *p, const char *path, const char *field, const char *member)
{
	autofree char *open = xasprintf("%s['", field), *key = NULL;
	const char *end = strrchr(path, '\'');

	if (str_eq(path, field))
		return map_lines(json_get(json_get(p->obj->root, "metadata"), member));
	if (!str_starts(path, open) || end < path + strlen(open))
		return NULL;
	key = xstrndup(path + strlen(open), (size_t)(end - path) - strlen(open));
	return xstrdup(str_or(
		json_str(json_get(json_get(json_get(p->obj->root, "metadata"), member), key)), ""));
}

static char *field(const struct pod *p, const char *path)
{
	static const char *const plain[] = {
		"metadata.name", "metadata.namespace",      "metadata.uid",
		"spec.nodeName", "spec.serviceAccountName", NULL
	};
	char *value;

	if (str_in(path, plain))
		return xstrdup(str_or(json_str(json_at_path(p->obj->root, path)), ""));
	if (str_eq(path, "status.podIP") || str_eq(path, "status.podIPs"))
		return xstrdup(p->net ? p->net->ip : "");
	if (str_eq(path, "status.hostIP") || str_eq(path, "status.hostIPs"))
		return xstrdup("127.0.0.1");
	value = map_entry(p, path, "metadata.labels", "labels");
	return value ? value : map_entry(p, path, "metadata.annotations", "annotations");
}

/* Rounded up to the divisor, as Kubernetes does: a limit of 500m CPU is 1. */
static char *resource(const struct container *c, const struct json *ref)
{
	const char *what = str_or(json_get_str(ref, "resource"), "");
	const struct json *divisor = json_get(ref, "divisor");
	autofree char *path = xasprintf("resources.%s", what);
	const struct json *q = c ? json_at_path(c->spec, path) : NULL;
	int64_t value = 0, by = 1000;

	if (q)
		err_free(quantity_parse_milli(q, &value));
	if (divisor)
		err_free(quantity_parse_milli(divisor, &by));
	if (by <= 0)
		by = 1000;
	return xasprintf("%lld", (long long)((value + by - 1) / by));
}

char *field_value(const struct pod *p, const struct container *c, const struct json *source)
{
	const struct json *ref = json_get(source, "fieldRef");

	if (ref)
		return field(p, str_or(json_get_str(ref, "fieldPath"), ""));
	ref = json_get(source, "resourceFieldRef");
	return ref ? resource(c, ref) : NULL;
}
