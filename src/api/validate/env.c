/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/meta.h"
#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* The environment of containers, and references to fields and resources of a Pod. */

static const char *bad_env_name(const char *s)
{
	for (; *s; s++)
		if (!isprint((unsigned char)*s) || *s == '=')
			return "a valid environment variable name must consist only of printable "
			       "ASCII characters other than '='";
	return NULL;
}

/* "metadata.labels['a']": the key, and in *ret_path what is before it. NULL: there is none. */
static char *subscript(const char *s, char **ret_path)
{
	const char *open = strstr(s, "['");

	if (!open || !str_ends(s, "']") || strlen(open) < 4)
		return NULL;
	*ret_path = xstrndup(s, (size_t)(open - s));
	return xstrndup(open + 2, strlen(open) - 4);
}

static void bad_path(struct causes *c, const struct path *p, const char *field, const char *why,
		     const char *what)
{
	autofree char *text = xasprintf("error converting fieldPath: %s: %.256s", why, what);

	bad_text(c, IN(p, "fieldPath"), field, text);
}

static void check_subscript(struct causes *c, const char *field, const char *path, char *key,
			    const struct path *p)
{
	bool notes = str_eq(path, "metadata.annotations");
	const char *bad;

	if (!notes && !str_eq(path, "metadata.labels")) {
		bad_path(c, p, field, "field label does not support subscript", field);
		return;
	}
	for (char *k = key; notes && *k; k++)
		*k = (char)tolower((unsigned char)*k);
	bad = meta_bad_qualified_name(key);
	if (bad)
		bad_text(c, p, key, bad);
}

void spec_field_ref(struct causes *c, const struct json *ref, const char *const *fields,
		    const struct path *p)
{
	static const char *const known[] = { "metadata.annotations",
					     "metadata.labels",
					     "metadata.name",
					     "metadata.namespace",
					     "metadata.uid",
					     "spec.nodeName",
					     "spec.restartPolicy",
					     "spec.serviceAccountName",
					     "spec.schedulerName",
					     "status.phase",
					     "status.hostIP",
					     "status.hostIPs",
					     "status.podIP",
					     "status.podIPs",
					     "spec.host",
					     NULL };
	const char *version = json_get_str(ref, "apiVersion"), *field;
	autofree char *path = NULL, *key = NULL;

	field = need_text(c, p, ref, "fieldPath");
	if (!field)
		return;
	if (!str_eq(version, "v1")) {
		bad_path(c, p, field, "unsupported pod version", str_or(version, ""));
		return;
	}
	key = subscript(field, &path);
	if (key)
		check_subscript(c, field, path, key, p);
	else if (!str_in(field, known))
		bad_path(c, p, field, "field label not supported", field);
	else if (!str_in(str_eq(field, "spec.host") ? "spec.nodeName" : field, fields))
		bad_unsupported(c, IN(p, "fieldPath"), field, fields);
}

static const char *const container_resources[] = { "limits.cpu",
						   "limits.ephemeral-storage",
						   "limits.memory",
						   "requests.cpu",
						   "requests.ephemeral-storage",
						   "requests.memory",
						   NULL };

#define SIZES "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"

static void check_divisor(struct causes *c, const struct json *ref, const char *name,
			  const struct path *p)
{
	static const char *const sizes[] = { "1",   "1k",  "1M",  "1G",  "1T",  "1P",  "1E",
					     "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei", NULL };
	static const char *const cpus[] = { "1m", "1", NULL };
	static const struct {
		const char *part, *why;
		const char *const *values;
	} rules[] = {
		{ ".cpu", "only divisor's values 1m and 1 are supported with the cpu resource",
		  cpus },
		{ ".memory",
		  "only divisor's values " SIZES " are supported with the memory resource", sizes },
		{ ".ephemeral-storage",
		  "only divisor's values " SIZES
		  " are supported with the local ephemeral storage resource",
		  sizes },
		{ ".hugepages-",
		  "only divisor's values " SIZES " are supported with the hugepages resource",
		  sizes },
	};
	const char *divisor = json_get_str(ref, "divisor"), *dot = strchr(name, '.');

	if (str_empty(divisor) || str_eq(divisor, "0"))
		return;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		bool exact = i + 1 < ARRAY_LEN(rules);

		if (dot && (exact ? str_eq(dot, rules[i].part) : str_starts(dot, rules[i].part)) &&
		    !str_in(divisor, rules[i].values))
			bad_text(c, IN(p, "divisor"), name, rules[i].why);
	}
}

void spec_resource_ref(struct causes *c, const struct json *ref, bool volume, const struct path *p)
{
	const char *name = str_or(json_get_str(ref, "resource"), "");

	if (volume && str_empty(json_get_str(ref, "containerName")))
		bad_required(c, IN(p, "containerName"), NULL);
	else if (!*name)
		bad_required(c, IN(p, "resource"), NULL);
	else if (!str_in(name, container_resources) && !str_starts(name, "requests.hugepages-") &&
		 !str_starts(name, "limits.hugepages-"))
		bad_unsupported(c, IN(p, "resource"), name, container_resources);
	check_divisor(c, ref, name, p);
}

static void check_env_field(struct causes *c, const struct json *ref, const struct path *p)
{
	static const char *const fields[] = { "metadata.name",
					      "metadata.namespace",
					      "metadata.uid",
					      "spec.nodeName",
					      "spec.serviceAccountName",
					      "status.hostIP",
					      "status.hostIPs",
					      "status.podIP",
					      "status.podIPs",
					      NULL };

	spec_field_ref(c, ref, fields, p);
}

static void check_env_resource(struct causes *c, const struct json *ref, const struct path *p)
{
	spec_resource_ref(c, ref, false, p);
}

static void check_key_ref(struct causes *c, const struct json *ref, const struct path *p)
{
	const char *name = str_or(json_get_str(ref, "name"), "");
	const char *bad = meta_bad_dns_subdomain(name);

	if (bad)
		bad_text(c, IN(p, "name"), name, bad);
	if (need_text(c, p, ref, "key"))
		check_texts(c, p, ref, "key", config_key_faults);
}

static void check_file_ref(struct causes *c, const struct json *ref, const struct path *p)
{
	const char *path;

	if (need_text(c, p, ref, "key"))
		check_text(c, p, ref, "key", bad_env_name);
	if (need_text(c, p, ref, "volumeName"))
		check_text(c, p, ref, "volumeName", meta_bad_dns_label);
	path = need_text(c, p, ref, "path");
	if (path && has_backstep(path))
		bad_text(c, IN(p, "path"), path, "must not contain '..'");
}

static void check_value_from(struct causes *c, const struct json *var, const struct path *p)
{
	static const struct {
		const char *name;
		void (*check)(struct causes *c, const struct json *ref, const struct path *p);
	} sources[] = {
		{ "fieldRef", check_env_field },      { "resourceFieldRef", check_env_resource },
		{ "configMapKeyRef", check_key_ref }, { "secretKeyRef", check_key_ref },
		{ "fileKeyRef", check_file_ref },
	};
	const struct json *from = json_get(var, "valueFrom");
	size_t n = 0;

	if (!from)
		return;
	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		const struct json *ref = json_get(from, sources[i].name);

		if (ref && ++n)
			sources[i].check(c, ref, IN(p, sources[i].name));
	}
	if (!n)
		bad_text(c, p, "",
			 "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
			 "`secretKeyRef` or `fileKeyRef`");
	else if (!str_empty(json_get_str(var, "value")))
		bad_text(c, p, "", "may not be specified when `value` is not empty");
	else if (n > 1)
		bad_text(c, p, "", "may not have more than one field specified at a time");
}

static void check_env_from(struct causes *c, const struct json *from, const struct path *at,
			   const struct path *list)
{
	static const char *const sources[] = { "configMapRef", "secretRef" };
	size_t n = 0;

	check_text(c, at, from, "prefix", bad_env_name);
	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		const struct json *ref = json_get(from, sources[i]);
		const struct path *p = IN(at, sources[i]);

		if (ref && ++n && need_text(c, p, ref, "name"))
			check_text(c, p, ref, "name", bad_prefix_name);
	}
	if (!n)
		bad_text(c, list, "", "must specify one of: `configMapRef` or `secretRef`");
	else if (n > 1)
		bad_text(c, list, "", "may not have more than one field specified at a time");
}

void spec_env(struct causes *c, const struct json *container, const struct path *p)
{
	size_t i = 0;

	json_each(it, json_get(container, "env")) {
		const struct path *at = AT(IN(p, "env"), i++);

		if (need_text(c, at, it.val, "name"))
			check_text(c, at, it.val, "name", bad_env_name);
		check_value_from(c, it.val, IN(at, "valueFrom"));
	}
	i = 0;
	json_each(it, json_get(container, "envFrom"))
		check_env_from(c, it.val, AT(IN(p, "envFrom"), i++), IN(p, "envFrom"));
}

/* Files of variables are in a directory that the Pod's containers have filled. */
void spec_env_files(struct pod_rules *r, const struct json *container, const struct path *p)
{
	size_t i = 0;

	json_each(it, json_get(container, "env")) {
		const struct path *at = IN(IN(AT(IN(p, "env"), i++), "valueFrom"), "fileKeyRef");
		const struct json *ref = json_at_path(it.val, "valueFrom.fileKeyRef");
		const char *name = str_or(json_get_str(ref, "volumeName"), "");
		const struct json *volume = r->volumes ? map_get(r->volumes, name) : NULL;

		if (!ref)
			continue;
		if (!volume)
			bad_not_found(r->causes, IN(at, "volumeName"), name);
		else if (!json_get(volume, "emptyDir"))
			bad_text(r->causes, IN(at, "volumeName"), name,
				 "referenced volume must be of type emptyDir");
	}
}
