/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/members_priv.h"
#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/str.h"

/* The rules of containers. */
struct pod_rules {
	struct causes *causes;
	struct map *volumes; /* names of the Pod's volumes */
	struct map *names;   /* of containers seen so far */
	bool never_restarts;
};

static void check_ports(struct pod_rules *r, const struct json *ports, const struct path *p)
{
	autoptr(map) names = map_new(NULL);
	size_t i = 0;

	json_each(it, ports) {
		const struct path *at = AT(p, i++);
		const char *name = json_get_str(it.val, "name");

		check_text(r->causes, at, it.val, "name", bad_port_name);
		if (!str_empty(name) && map_has(names, name))
			bad_duplicate(r->causes, IN(at, "name"), name);
		else if (!str_empty(name))
			map_put(names, name, r);
		if (json_get_int(it.val, "containerPort", 1) == 0)
			bad_required(r->causes, IN(at, "containerPort"), NULL);
		else
			check_port(r->causes, at, it.val, "containerPort");
		if (json_get_int(it.val, "hostPort", 0))
			check_port(r->causes, at, it.val, "hostPort");
		check_values(r->causes, at, it.val, "protocol", protocol_values);
	}
}

static const char *bad_env_name(const char *s)
{
	for (; *s; s++)
		if (!isprint((unsigned char)*s) || *s == '=')
			return "a valid environment variable name must consist only of printable "
			       "ASCII characters other than '='";
	return NULL;
}

static void check_key_ref(struct causes *c, const struct json *ref, const struct path *p)
{
	const char *name = str_or(json_get_str(ref, "name"), "");
	const char *bad = ref ? meta_bad_dns_subdomain(name) : NULL;

	if (bad)
		bad_text(c, IN(p, "name"), name, bad);
	if (ref && need_text(c, p, ref, "key"))
		check_text(c, p, ref, "key", bad_config_key);
}

static void check_value_from(struct causes *c, const struct json *var, const struct path *p)
{
	const struct json *from = json_get(var, "valueFrom");

	if (!json_is(from, JSON_OBJ))
		return;
	if (!json_len(from))
		bad_text(c, p, "",
			 "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
			 "`secretKeyRef` or `fileKeyRef`");
	else if (!str_empty(json_get_str(var, "value")))
		bad_text(c, p, "", "may not be specified when `value` is not empty");
	else if (json_len(from) > 1)
		bad_text(c, p, "", "may not have more than one field specified at a time");
	check_key_ref(c, json_get(from, "configMapKeyRef"), IN(p, "configMapKeyRef"));
	check_key_ref(c, json_get(from, "secretKeyRef"), IN(p, "secretKeyRef"));
	if (json_get(from, "fieldRef"))
		need_text(c, IN(p, "fieldRef"), json_get(from, "fieldRef"), "fieldPath");
}

static void check_env(struct pod_rules *r, const struct json *container, const struct path *p)
{
	size_t i = 0;

	json_each(it, json_get(container, "env")) {
		const struct path *at = AT(IN(p, "env"), i++);

		if (need_text(r->causes, at, it.val, "name"))
			check_text(r->causes, at, it.val, "name", bad_env_name);
		check_value_from(r->causes, it.val, IN(at, "valueFrom"));
	}
	i = 0;
	json_each(it, json_get(container, "envFrom")) {
		const struct path *at = AT(IN(p, "envFrom"), i++);
		const struct json *map = json_get(it.val, "configMapRef");
		const struct json *secret = json_get(it.val, "secretRef");

		if (map)
			need_text(r->causes, IN(at, "configMapRef"), map, "name");
		if (secret)
			need_text(r->causes, IN(at, "secretRef"), secret, "name");
		if (!map && !secret)
			bad_text(r->causes, IN(p, "envFrom"), "",
				 "must specify one of: `configMapRef` or `secretRef`");
		else if (map && secret)
			bad_text(r->causes, IN(p, "envFrom"), "",
				 "may not have more than one field specified at a time");
	}
}

static const char *bad_sub_path(const char *s)
{
	struct span rest = SPAN(s);

	if (*s == '/')
		return "must be a relative path";
	while (rest.p)
		if (span_eq(span_cut(rest, '/', &rest), ".."))
			return "must not contain '..'";
	return NULL;
}

static void check_mounts(struct pod_rules *r, const struct json *mounts, const struct path *p)
{
	autoptr(map) paths = map_new(NULL);
	size_t i = 0;

	json_each(it, mounts) {
		const struct path *at = AT(p, i++);
		const char *name = need_text(r->causes, at, it.val, "name"), *where;

		if (!map_has(r->volumes, str_or(name, "")))
			bad_not_found(r->causes, IN(at, "name"), str_or(name, ""));
		where = need_text(r->causes, at, it.val, "mountPath");
		if (where && map_has(paths, where))
			bad_text(r->causes, IN(at, "mountPath"), where, "must be unique");
		if (where)
			map_put(paths, where, r);
		check_text(r->causes, p, it.val, "subPath", bad_sub_path);
		check_text(r->causes, p, it.val, "subPathExpr", bad_sub_path);
		if (!str_empty(json_get_str(it.val, "subPath")) &&
		    !str_empty(json_get_str(it.val, "subPathExpr")))
			bad_text(r->causes, IN(at, "subPathExpr"),
				 json_get_str(it.val, "subPathExpr"),
				 "subPathExpr and subPath are mutually exclusive");
	}
}

static bool is_container_resource(const char *name)
{
	static const char *const standard[] = { "cpu", "memory", "ephemeral-storage", NULL };

	return str_in(name, standard) || str_starts(name, "hugepages-") || strchr(name, '/');
}

static void bad_resource(struct causes *c, const struct path *p, const char *name)
{
	bad_text(c, p, name, "must be a standard resource type or fully qualified");
	bad_text(c, p, name, "must be a standard resource for containers");
}

static void check_amounts(struct causes *c, const struct json *amounts, const struct path *p)
{
	json_each(it, json_is(amounts, JSON_OBJ) ? amounts : NULL) {
		const char *bad = meta_bad_qualified_name(it.key);
		int64_t milli = 0;

		if (bad)
			bad_text(c, KEY(p, it.key), it.key, bad);
		else if (!is_container_resource(it.key))
			bad_resource(c, KEY(p, it.key), it.key);
		err_free(quantity_parse_milli(it.val, &milli)); /* the schema reports it */
		if (milli < 0)
			bad_invalid(c, KEY(p, it.key), it.val,
				    "must be greater than or equal to 0");
	}
}

static void check_resources(struct causes *c, const struct json *resources, const struct path *p)
{
	const struct json *limits = json_get(resources, "limits");
	const struct json *requests = members(json_get(resources, "requests"));
	struct err *e;

	check_amounts(c, limits, IN(p, "limits"));
	check_amounts(c, requests, IN(p, "requests"));
	if (json_len(requests) > 1000)
		return; /* already reported: none of these is a resource */
	json_each(it, requests) {
		const struct json *limit = json_get(limits, it.key);
		int64_t most = 0, asked = 0;
		autofree char *detail = NULL, *text = NULL;

		e = limit ? quantity_parse_milli(limit, &most) : NULL;
		if (!e && limit)
			e = quantity_parse_milli(it.val, &asked);
		if (!e && limit && asked > most) {
			text = json_to_text(limit);
			detail = xasprintf("must be less than or equal to %s limit of %.*s", it.key,
					   json_str(limit) ? (int)strlen(text) - 2 : 64,
					   json_str(limit) ? text + 1 : text);
			bad_invalid(c, IN(p, "requests"), it.val, detail);
		}
		err_free(e);
	}
}

static void check_http_get(struct causes *c, const struct json *get, const struct path *p)
{
	static const char *const schemes[] = { "HTTP", "HTTPS", NULL };

	need_text(c, p, get, "path");
	check_port_or_name(c, p, get, "port");
	check_values(c, p, get, "scheme", schemes);
}

static void check_handler(struct causes *c, const struct json *handler, const struct path *p)
{
	static const char *const kinds[] = { "exec", "httpGet", "tcpSocket", "grpc", "sleep" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct json *h = json_get(handler, kinds[i]);

		if (!h)
			continue;
		if (n++)
			bad_forbidden(c, IN(p, kinds[i]),
				      "may not specify more than 1 handler type");
		else if (str_eq(kinds[i], "exec") && !json_len(json_get(h, "command")))
			bad_required(c, IN(IN(p, "exec"), "command"), NULL);
		else if (str_eq(kinds[i], "httpGet"))
			check_http_get(c, h, IN(p, "httpGet"));
		else
			check_port_or_name(c, IN(p, kinds[i]), h, "port");
	}
	if (!n)
		bad_required(c, p, "must specify a handler type");
}

static void check_probe(struct causes *c, const struct json *container, const char *name,
			const struct path *up)
{
	static const char *const numbers[] = { "initialDelaySeconds", "timeoutSeconds",
					       "periodSeconds", "successThreshold",
					       "failureThreshold" };
	const struct json *probe = json_get(container, name);
	const struct path *p = IN(up, name);

	if (!json_is(probe, JSON_OBJ))
		return;
	check_handler(c, probe, p);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		check_not_negative(c, p, probe, numbers[i]);
	if (!str_eq(name, "readinessProbe") && json_get_int(probe, "successThreshold", 1) != 1)
		bad_invalid(c, IN(p, "successThreshold"), json_get(probe, "successThreshold"),
			    "must be 1");
}

static void check_lifecycle(struct causes *c, const struct json *container, const struct path *p)
{
	const struct json *lifecycle = json_get(container, "lifecycle");

	if (json_get(lifecycle, "postStart"))
		check_handler(c, json_get(lifecycle, "postStart"),
			      IN(IN(p, "lifecycle"), "postStart"));
	if (json_get(lifecycle, "preStop"))
		check_handler(c, json_get(lifecycle, "preStop"), IN(IN(p, "lifecycle"), "preStop"));
}

static void check_name(struct pod_rules *r, const struct json *container, const struct path *p)
{
	const char *name = need_text(r->causes, p, container, "name");

	if (!name)
		return;
	check_text(r->causes, p, container, "name", meta_bad_dns_label);
	if (map_has(r->names, name))
		bad_duplicate(r->causes, IN(p, "name"), name);
	map_put(r->names, name, r);
}

static void check_ids(struct causes *c, const struct json *context, const struct path *p)
{
	static const char *const ids[] = { "runAsUser", "runAsGroup", "fsGroup" };

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		const struct json *v = json_get(context, ids[i]);

		if (v && (json_int(v, 0) < 0 || json_int(v, 0) > INT32_MAX))
			bad_invalid(c, IN(p, ids[i]), v,
				    "must be between 0 and 2147483647, inclusive");
	}
	if (json_get_bool(context, "privileged", false) &&
	    !json_get_bool(context, "allowPrivilegeEscalation", true))
		bad_invalid(
			c, p, context,
			"cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
}

static void bad_unsupported(struct causes *c, const struct path *p, const char *v,
			    const char *const *values)
{
	autofree char *path = path_text(p);

	causes_unsupported(c, path, v, values);
}

/* As kube-apiserver: the path is that of the list. */
static void check_resize_policy(struct pod_rules *r, const struct json *list, const struct path *p)
{
	static const char *const names[] = { "cpu", "memory", NULL };
	static const char *const policies[] = { "NotRequired", "RestartContainer", NULL };
	autoptr(map) seen = map_new(NULL);
	size_t i = 0;

	json_each(it, list) {
		const char *name = json_get_str(it.val, "resourceName");
		const char *policy = json_get_str(it.val, "restartPolicy");

		if (map_has(seen, str_or(name, "")))
			bad_duplicate(r->causes, AT(p, i), str_or(name, ""));
		map_put(seen, str_or(name, ""), r);
		if (str_empty(name) || str_empty(policy))
			bad_required(r->causes, p, NULL);
		if (!str_empty(name) && !str_in(name, names))
			bad_unsupported(r->causes, p, name, names);
		if (!str_empty(policy) && !str_in(policy, policies))
			bad_unsupported(r->causes, p, policy, policies);
		if (r->never_restarts && !str_eq(policy, "NotRequired"))
			bad_text(r->causes, p, str_or(policy, ""),
				 "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
		i++;
	}
}

static void check_container(struct pod_rules *r, const struct json *container, const struct path *p)
{
	static const char *const pulls[] = { "Always", "IfNotPresent", "Never", NULL };
	static const char *const messages[] = { "File", "FallbackToLogsOnError", NULL };
	const char *image = json_get_str(container, "image");

	check_name(r, container, p);
	if (!json_get(container, "image") || str_eq(image, ""))
		bad_required(r->causes, IN(p, "image"), NULL);
	else if (image && (isspace((unsigned char)image[0]) ||
			   isspace((unsigned char)image[strlen(image) - 1])))
		bad_text(r->causes, IN(p, "image"), image,
			 "must not have leading or trailing whitespace");
	check_values(r->causes, p, container, "imagePullPolicy", pulls);
	check_values(r->causes, p, container, "terminationMessagePolicy", messages);
	check_ports(r, json_get(container, "ports"), IN(p, "ports"));
	check_env(r, container, p);
	check_mounts(r, json_get(container, "volumeMounts"), IN(p, "volumeMounts"));
	check_resources(r->causes, json_get(container, "resources"), IN(p, "resources"));
	check_resize_policy(r, json_get(container, "resizePolicy"), IN(p, "resizePolicy"));
	check_probe(r->causes, container, "livenessProbe", p);
	check_probe(r->causes, container, "readinessProbe", p);
	check_probe(r->causes, container, "startupProbe", p);
	check_lifecycle(r->causes, container, p);
	check_ids(r->causes, json_get(container, "securityContext"), IN(p, "securityContext"));
}

static void check_containers(struct pod_rules *r, const struct json *spec, const struct path *p,
			     const char *name)
{
	size_t i = 0;

	json_each(it, json_get(spec, name))
		check_container(r, it.val, AT(IN(p, name), i++));
}

void validate_containers(const struct json *spec, const struct path *p, struct causes *c)
{
	autoptr(map) volumes = map_new(NULL);
	autoptr(map) names = map_new(NULL);
	struct pod_rules r = { .causes = c,
			       .volumes = volumes,
			       .names = names,
			       .never_restarts =
				       str_eq(json_get_str(spec, "restartPolicy"), "Never") };

	json_each(it, json_get(spec, "volumes"))
		if (json_get_str(it.val, "name"))
			map_put(volumes, json_get_str(it.val, "name"), &r);
	if (!json_len(json_get(spec, "containers")))
		bad_required(c, IN(p, "containers"), NULL);
	check_containers(&r, spec, p, "containers");
	check_containers(&r, spec, p, "initContainers");
	check_ids(c, json_get(spec, "securityContext"), IN(p, "securityContext"));
}
