/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "node/volume/volume.h"

/* What a container may learn about its own Pod: fieldRef and resourceFieldRef. */

static char *map_lines(const struct json *map)
{
	autobuf b = { 0 };

	json_each(m, map) {
		autofree char *quoted = json_to_text(m.val);

		buf_printf(&b, "%s%s=%s", b.len ? "\n" : "", m.key, quoted);
	}
	return buf_steal(&b, NULL);
}

/* metadata.labels is the whole map, metadata.labels['app'] the value of one key. NULL: path means
 * neither. */
static char *map_entry(const struct json *map, const char *path, const char *field)
{
	autofree char *open = xasprintf("%s['", field), *key = NULL;
	const char *end = strrchr(path, '\'');

	if (str_eq(path, field))
		return map_lines(map);
	if (!str_starts(path, open) || end < path + strlen(open))
		return NULL;
	key = xstrndup(path + strlen(open), (size_t)(end - path) - strlen(open));
	return xstrdup(str_or(json_get_str(map, key), ""));
}

static char *field(const struct volume_pod *p, const char *path)
{
	const struct pod_view *v = p->view;
	const struct {
		const char *path, *value;
	} plain[] = {
		{ "metadata.name", v->name },
		{ "metadata.namespace", v->ns },
		{ "metadata.uid", v->uid },
		{ "spec.nodeName", v->node_name },
		{ "spec.serviceAccountName", v->service_account },
		{ "status.podIP", str_or(p->ip, "") },
		{ "status.hostIP", "127.0.0.1" },
		{ "status.hostIPs", "127.0.0.1" },
	};
	char *value;

	if (str_eq(path, "status.podIPs"))
		return xasprintf("%s%s%s", str_or(p->ip, ""), str_empty(p->ip6) ? "" : ",",
				 str_or(p->ip6, ""));
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (str_eq(path, plain[i].path))
			return xstrdup(plain[i].value);
	value = map_entry(v->labels, path, "metadata.labels");
	return value ? value : map_entry(v->annotations, path, "metadata.annotations");
}

/* Rounded up to the divisor, as Kubernetes does: a limit of 500m CPU is 1. */
static char *resource(const struct pod_container_view *c, const struct pod_field_ref *f)
{
	int64_t value = c ? pod_container_quantity(c, f->resource) : 0;

	return xasprintf("%lld", (long long)((value + f->divisor - 1) / f->divisor));
}

char *downward_value(const struct volume_pod *p, const struct pod_container_view *c,
		     const struct pod_field_ref *f)
{
	if (f->path)
		return field(p, f->path);
	return f->resource ? resource(c, f) : NULL;
}
