/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/str.h"

/* The rules of Ingresses and IngressClasses. Nothing here acts on either. */
#define CLASS_ANNOTATION "kubernetes.io/ingress.class"
#define NO_ADDRESS       "must be a DNS name, not an IP address"

enum {
	CONTROLLER_LEN_MAX = 250,
};

static const char *bad_wildcard(const char *s)
{
	static const char bad[] =
		"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
		"which must consist of lower case alphanumeric characters, '-' or '.' and end with an "
		"alphanumeric character (e.g. '*.example.com', regex used for validation is "
		"'\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

	return str_starts(s, "*.") && !meta_bad_dns_subdomain(s + 2) ? NULL : bad;
}

static const char *bad_host(const char *s)
{
	return strchr(s, '*') ? bad_wildcard(s) : meta_bad_dns_subdomain(s);
}

/* What an Ingress or its class refers to, by group, kind and name. */
static void check_reference(struct causes *c, const struct path *p, const struct json *ref)
{
	check_text(c, p, ref, "apiGroup", meta_bad_dns_subdomain);
	if (need_text(c, p, ref, "kind"))
		check_text(c, p, ref, "kind", meta_bad_path_name);
	if (need_text(c, p, ref, "name"))
		check_text(c, p, ref, "name", meta_bad_path_name);
}

static void check_service(struct causes *c, const struct path *p, const struct json *service)
{
	const struct json *port = json_get(service, "port");
	const char *name = json_get_str(port, "name");
	int64_t number = json_get_int(port, "number", 0);

	if (need_text(c, IN(p, "service"), service, "name"))
		check_text(c, IN(p, "service"), service, "name", meta_bad_dns_label);
	if (!str_empty(name) && number)
		bad_text(c, p, "", "cannot set both port name & port number");
	else if (!str_empty(name))
		check_texts(c, IN(IN(p, "service"), "port"), port, "name", port_name_faults);
	else if (number)
		check_port_number(c, IN(IN(p, "service"), "port"), port, "number");
	else
		bad_required(c, p, "port name or number is required");
}

static void check_backend(struct causes *c, const struct path *p, const struct json *backend)
{
	const struct json *resource = json_get(backend, "resource");
	const struct json *service = json_get(backend, "service");

	if (resource && service)
		bad_text(c, p, "", "cannot set both resource and service backends");
	else if (resource)
		check_reference(c, IN(p, "resource"), resource);
	else if (service)
		check_service(c, p, service);
	else
		bad_text(c, p, "", "resource or service backend is required");
}

static void check_strict_path(struct causes *c, const struct path *p, const char *path)
{
	static const char *const within[] = { "//", "/./", "/../", "%2f", "%2F" };
	static const char *const at_end[] = { "/..", "/." };

	for (size_t i = 0; i < ARRAY_LEN(within); i++)
		if (strstr(path, within[i])) {
			autofree char *why = xasprintf("must not contain '%s'", within[i]);

			bad_text(c, IN(p, "path"), path, why);
		}
	for (size_t i = 0; i < ARRAY_LEN(at_end); i++)
		if (str_ends(path, at_end[i])) {
			autofree char *why = xasprintf("cannot end with '%s'", at_end[i]);

			bad_text(c, IN(p, "path"), path, why);
		}
}

static void check_path(struct causes *c, const struct path *p, const struct json *path)
{
	static const char *const types[] = { "Exact", "ImplementationSpecific", "Prefix", NULL };
	const char *type = json_get_str(path, "pathType");
	const char *text = str_or(json_get_str(path, "path"), "");
	bool loose = str_eq(type, "ImplementationSpecific");

	if (!type) {
		bad_required(c, IN(p, "pathType"), "pathType must be specified");
		return;
	}
	if (str_in(type, types) && text[0] != '/' && (*text || !loose))
		bad_text(c, IN(p, "path"), text, "must be an absolute path");
	if (str_in(type, types) && !loose)
		check_strict_path(c, p, text);
	check_values(c, p, path, "pathType", types);
	check_backend(c, IN(p, "backend"), json_get(path, "backend"));
}

static void check_rule(struct causes *c, const struct path *p, const struct json *rule)
{
	const char *host = json_get_str(rule, "host");
	const struct json *http = json_get(rule, "http"), *paths = json_get(http, "paths");
	size_t i = 0;

	if (!str_empty(host) && is_ip(host))
		bad_text(c, IN(p, "host"), host, NO_ADDRESS);
	check_text(c, p, rule, "host", bad_host);
	if (http && !json_len(paths))
		bad_required(c, IN(IN(p, "http"), "paths"), NULL);
	json_each(it, paths)
		check_path(c, AT(IN(IN(p, "http"), "paths"), i++), it.val);
}

static void check_tls(struct causes *c, const struct path *p, const struct json *tls)
{
	size_t i = 0;

	json_each(it, json_get(tls, "hosts")) {
		const char *host = str_or(json_str(it.val), ""), *why = bad_host(host);

		if (why)
			bad_text(c, AT(IN(p, "hosts"), i), host, why);
		i++;
	}
	check_text(c, p, tls, "secretName", meta_bad_dns_subdomain);
}

void validate_ingress_status(const struct json *obj, unused const struct json *old,
			     struct causes *c)
{
	const struct path *p = IN(IN(IN(NULL, "status"), "loadBalancer"), "ingress");
	size_t i = 0;

	json_each(it, json_at_path(obj, "status.loadBalancer.ingress")) {
		const struct path *at = AT(p, i++);
		const char *ip = json_get_str(it.val, "ip");
		const char *name = json_get_str(it.val, "hostname");

		if (!str_empty(ip))
			check_ip(c, ip, IN(at, "ip"));
		check_text(c, at, it.val, "hostname", meta_bad_dns_subdomain);
		if (!str_empty(name) && is_ip(name))
			bad_text(c, IN(at, "hostname"), name, NO_ADDRESS);
	}
}

void validate_ingress(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");
	const struct json *rules = json_get(spec, "rules");
	const struct json *backend = json_get(spec, "defaultBackend");
	const struct path *p = IN(NULL, "spec");
	const char *class = json_get_str(spec, "ingressClassName");
	const char *noted =
		json_get_str(json_at_path(obj, "metadata.annotations"), CLASS_ANNOTATION);
	size_t i = 0, k = 0;

	if (!json_len(rules) && !backend)
		causes_add(
			c, CAUSE_INVALID, "spec",
			"Invalid value: null: either `defaultBackend` or `rules` must be specified");
	if (backend)
		check_backend(c, IN(p, "defaultBackend"), backend);
	json_each(it, rules)
		check_rule(c, AT(IN(p, "rules"), i++), it.val);
	json_each(it, json_get(spec, "tls"))
		check_tls(c, AT(IN(p, "tls"), k++), it.val);
	if (class && meta_bad_dns_subdomain(class))
		bad_text(c, IN(p, "ingressClassName"), class, meta_bad_dns_subdomain(class));
	if (!old && noted && class && !str_eq(noted, class))
		bad_text(c, IN(IN(NULL, "annotations"), CLASS_ANNOTATION), noted,
			 "must match `ingressClassName` when both are specified");
}

void warn_ingress(const struct json *obj, const struct json *old,
		  void (*say)(void *arg, const char *text), void *arg)
{
	if (!old && !json_at_path(obj, "spec.ingressClassName") &&
	    json_get(json_at_path(obj, "metadata.annotations"), CLASS_ANNOTATION))
		say(arg, "annotation \"" CLASS_ANNOTATION
			 "\" is deprecated, please use 'spec.ingressClassName' instead");
}

/* IngressClass */

static void check_controller(struct causes *c, const struct path *p, const char *s)
{
	const char *slash = strchr(s, '/');
	autofree char *domain = slash ? xstrndup(s, (size_t)(slash - s)) : NULL;

	if (!slash || !slash[1])
		bad_text(c, p, s, "must be a domain-prefixed path (such as \"acme.io/foo\")");
	else if (meta_bad_dns_subdomain(domain))
		bad_text(c, p, domain, meta_bad_dns_subdomain(domain));
}

static void check_scope(struct causes *c, const struct path *p, const struct json *params)
{
	static const char *const scopes[] = { "Cluster", "Namespace", NULL };
	const char *scope = json_get_str(params, "scope");
	const char *ns = json_get_str(params, "namespace");

	check_values(c, p, params, "scope", scopes);
	if (str_eq(scope, "Namespace") && !ns)
		bad_required(c, IN(p, "namespace"), "`parameters.scope` is set to 'Namespace'");
	else if (str_eq(scope, "Namespace"))
		check_text(c, p, params, "namespace", meta_bad_dns_label);
	if (str_eq(scope, "Cluster") && ns)
		bad_forbidden(c, IN(p, "namespace"), "`parameters.scope` is set to 'Cluster'");
}

void validate_ingress_class(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec"), *params = json_get(spec, "parameters");
	const struct path *p = IN(NULL, "spec");
	const char *controller = json_get_str(spec, "controller");

	if (old && !json_equal(json_get(spec, "controller"), json_at_path(old, "spec.controller")))
		bad_invalid(c, IN(p, "controller"), json_get(spec, "controller"),
			    "field is immutable");
	if (controller && strlen(controller) > CONTROLLER_LEN_MAX)
		causes_add(c, CAUSE_INVALID, "spec.controller",
			   "Too long: may not be more than %d bytes", CONTROLLER_LEN_MAX);
	if (need_text(c, p, spec, "controller"))
		check_controller(c, IN(p, "controller"), controller);
	if (!params)
		return;
	check_reference(c, IN(p, "parameters"), params);
	check_scope(c, IN(p, "parameters"), params);
}
