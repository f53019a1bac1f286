/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/meta.h"
#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* Containers of all three lists. */

enum {
	RESTART_RULES_MAX = 20,
	EXIT_CODES_MAX = 255,
};

static void check_port(struct causes *c, const struct json *port, struct map *names,
		       const struct path *at)
{
	const char *name = str_or(json_get_str(port, "name"), "");
	size_t faults = c->n;

	check_texts(c, at, port, "name", port_name_faults);
	if (names && *name && c->n == faults) {
		if (map_has(names, name))
			bad_duplicate(c, IN(at, "name"), name);
		map_put(names, name, names);
	}
	if (!json_get_int(port, "containerPort", 0))
		bad_required(c, IN(at, "containerPort"), NULL);
	else
		check_port_number(c, at, port, "containerPort");
	if (json_get_int(port, "hostPort", 0))
		check_port_number(c, at, port, "hostPort");
	check_supported(c, at, port, "protocol", protocol_values);
}

static void check_ports(struct causes *c, const struct json *ports, const struct path *p)
{
	autoptr(map) names = json_len(ports) > 1 ? map_new(NULL) : NULL;
	size_t i = 0;

	json_each(it, ports)
		check_port(c, it.val, names, AT(p, i++));
}

void check_pull_policy(struct causes *c, const struct json *obj, const char *name,
		       const struct path *p)
{
	static const char *const policies[] = { "Always", "IfNotPresent", "Never", NULL };

	if (need_text(c, p, obj, name))
		check_values(c, p, obj, name, policies);
}

/* As kube-apiserver: the path is that of the list. */
static void check_resize_policy(struct pod_rules *r, const struct json *list, const struct path *p)
{
	static const char *const names[] = { "cpu", "memory", NULL };
	static const char *const policies[] = { "NotRequired", "RestartContainer", NULL };
	autoptr(map) seen = json_len(list) ? map_new(NULL) : NULL;
	size_t i = 0;

	json_each(it, list) {
		const char *name = str_or(json_get_str(it.val, "resourceName"), "");
		const char *policy = str_or(json_get_str(it.val, "restartPolicy"), "");

		if (map_has(seen, name))
			bad_duplicate(r->causes, AT(p, i), name);
		map_put(seen, name, r);
		if (!*name)
			bad_required(r->causes, p, NULL);
		else if (!str_in(name, names))
			bad_unsupported(r->causes, p, name, names);
		if (!*policy)
			bad_required(r->causes, p, NULL);
		else if (!str_in(policy, policies))
			bad_unsupported(r->causes, p, policy, policies);
		if (r->never_restarts && !str_eq(policy, "NotRequired"))
			bad_text(r->causes, p, policy,
				 "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
		i++;
	}
}

/* What holds for a container of any list. */
static void check_common(struct pod_rules *r, const struct json *container, const struct path *p)
{
	static const char *const messages[] = { "File", "FallbackToLogsOnError", NULL };
	struct causes *c = r->causes;

	if (need_text(c, p, container, "name"))
		check_text(c, p, container, "name", meta_bad_dns_label);
	(void)need_text(c, p, container, "image");
	if (need_text(c, p, container, "terminationMessagePolicy"))
		check_values(c, p, container, "terminationMessagePolicy", messages);
	check_ports(c, json_get(container, "ports"), IN(p, "ports"));
	spec_env(c, container, p);
	spec_mounts(r, container, p);
	check_pull_policy(c, container, "imagePullPolicy", p);
	spec_resources(r, json_get(container, "resources"), IN(p, "resources"));
	check_resize_policy(r, json_get(container, "resizePolicy"), IN(p, "resizePolicy"));
	spec_security(r, container, p);
}

/* Only for Pods: a template may have spaces. */
static void check_image_spaces(struct pod_rules *r, const struct json *container,
			       const struct path *p)
{
	const char *image = str_or(json_get_str(container, "image"), "");

	if (*image &&
	    (isspace((unsigned char)image[0]) || isspace((unsigned char)image[strlen(image) - 1])))
		bad_text(r->causes, IN(p, "image"), image,
			 "must not have leading or trailing whitespace");
}

static void check_rule(struct causes *c, const struct json *rule, const struct path *p)
{
	static const char *const actions[] = { "Restart", "RestartAllContainers", NULL };
	static const char *const ops[] = { "In", "NotIn", NULL };
	const struct json *codes = json_get(rule, "exitCodes");

	check_supported(c, p, rule, "action", actions);
	if (!codes) {
		bad_required(c, IN(p, "exitCodes"), "must be specified");
		return;
	}
	check_supported(c, IN(p, "exitCodes"), codes, "operator", ops);
	if (json_len(json_get(codes, "values")) > EXIT_CODES_MAX)
		bad_too_many(c, IN(IN(p, "exitCodes"), "values"),
			     json_len(json_get(codes, "values")), EXIT_CODES_MAX);
}

static void check_restart(struct causes *c, const struct json *container, const struct path *p)
{
	static const char *const policies[] = { "Always", "Never", "OnFailure", NULL };
	const struct json *rules = json_get(container, "restartPolicyRules");
	size_t i = 0;

	if (json_get(container, "restartPolicy"))
		check_supported(c, p, container, "restartPolicy", policies);
	else if (json_len(rules))
		bad_required(c, IN(p, "restartPolicy"),
			     "must specify restartPolicy when restart rules are used");
	if (json_len(rules) > RESTART_RULES_MAX)
		bad_too_many(c, IN(p, "restartPolicyRules"), json_len(rules), RESTART_RULES_MAX);
	json_each(it, rules)
		check_rule(c, it.val, AT(IN(p, "restartPolicyRules"), i++));
}

/* Adds what the container takes of its host. A Pod that takes a port twice never starts. */
static void check_host_ports(struct causes *c, const struct json *container, struct map **taken,
			     const struct path *p)
{
	size_t i = 0;

	json_each(it, json_get(container, "ports")) {
		const struct path *at = AT(IN(p, "ports"), i++);
		long long number = json_get_int(it.val, "hostPort", 0);
		autofree char *key = NULL;

		if (!number)
			continue;
		key = xasprintf("%s/%s/%lld", str_or(json_get_str(it.val, "protocol"), ""),
				str_or(json_get_str(it.val, "hostIP"), ""), number);
		if (!*taken)
			*taken = map_new(NULL);
		if (map_has(*taken, key))
			bad_duplicate(c, IN(at, "hostPort"), key);
		map_put(*taken, key, c);
	}
}

static void check_name_once(struct pod_rules *r, const struct json *container, struct map *names,
			    const struct path *p)
{
	const char *name = str_or(json_get_str(container, "name"), "");

	if (map_has(names, name))
		bad_duplicate(r->causes, IN(p, "name"), name);
	else
		map_put(names, name, r);
}

static void check_regular(struct pod_rules *r, struct map *names, const struct path *list)
{
	const struct json *containers = json_get(r->spec, "containers");
	autoptr(map) taken = NULL;
	size_t i = 0;

	if (!json_len(containers))
		bad_required(r->causes, list, NULL);
	json_each(it, containers) {
		const struct path *p = AT(list, i++);

		check_common(r, it.val, p);
		check_name_once(r, it.val, names, p);
		spec_probes(r, it.val, p);
		check_restart(r->causes, it.val, p);
	}
	i = 0;
	json_each(it, containers)
		check_host_ports(r->causes, it.val, &taken, AT(list, i++));
}

static void check_plain_init(struct causes *c, const struct json *container, const struct path *p)
{
	static const char *const refused[] = { "lifecycle", "livenessProbe", "readinessProbe",
					       "startupProbe" };
	size_t i = 0;

	for (size_t k = 0; k < ARRAY_LEN(refused); k++)
		if (json_get(container, refused[k]))
			bad_forbidden(c, IN(p, refused[k]),
				      "may not be set for init containers without "
				      "restartPolicy=Always");
	json_each(it, json_get(container, "resizePolicy")) {
		const struct path *at = AT(IN(p, "resizePolicy"), i++);

		if (str_eq(json_get_str(it.val, "restartPolicy"), "RestartContainer"))
			bad_text(c, IN(at, "restartPolicy"), "RestartContainer",
				 "must not be set to 'RestartContainer' for non-sidecar "
				 "initContainers");
	}
}

static void check_init(struct pod_rules *r, struct map *names, const struct path *list)
{
	size_t i = 0;

	json_each(it, json_get(r->spec, "initContainers")) {
		const struct path *p = AT(list, i++);
		autoptr(map) taken = NULL; /* they run one after the other */

		check_common(r, it.val, p);
		check_restart(r->causes, it.val, p);
		check_name_once(r, it.val, names, p);
		check_host_ports(r->causes, it.val, &taken, AT(list, 0));
		if (str_eq(json_get_str(it.val, "restartPolicy"), "Always"))
			spec_probes(r, it.val, p);
		else
			check_plain_init(r->causes, it.val, p);
	}
}

static void check_ephemeral(struct pod_rules *r, struct map *names, const struct path *list)
{
	size_t i = 0;

	json_each(it, json_get(r->spec, "ephemeralContainers")) {
		const struct path *p = AT(list, i++);

		check_common(r, it.val, p);
		check_image_spaces(r, it.val, p);
		check_name_once(r, it.val, names, p);
		validate_ephemeral(it.val, r->spec, p, r->causes);
	}
}

void spec_containers(struct pod_rules *r, const struct path *spec)
{
	autoptr(map) names = map_new(NULL);

	check_regular(r, names, IN(spec, "containers"));
	check_init(r, names, IN(spec, "initContainers"));
	check_ephemeral(r, names, IN(spec, "ephemeralContainers"));
}

void spec_visit(const struct json *spec, const struct path *p,
		void (*visit)(struct pod_rules *r, const struct json *container,
			      const struct path *p),
		struct pod_rules *r)
{
	static const char *const lists[] = { "initContainers", "containers",
					     "ephemeralContainers" };

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		size_t i = 0;

		json_each(it, json_get(spec, lists[k]))
			visit(r, it.val, AT(IN(p, lists[k]), i++));
	}
}

void spec_image_spaces(struct pod_rules *r, const struct path *spec)
{
	static const char *const lists[] = { "containers", "initContainers" };

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		size_t i = 0;

		json_each(it, json_get(r->spec, lists[k]))
			check_image_spaces(r, it.val, AT(IN(spec, lists[k]), i++));
	}
}
