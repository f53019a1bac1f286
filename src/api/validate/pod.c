/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/meta.h"
#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* What surrounds the containers of a Pod. */

enum {
	SERVERS_MAX = 3,
	SEARCHES_MAX = 32,
	SEARCHES_LEN_MAX = 2048,
	HOST_NAME_MAX_ = 64,
};

static void check_claims(struct pod_rules *r, const struct path *spec)
{
	static const struct go_member members[] = { { "Name", "name" },
						    { "ResourceClaimName", "resourceClaimName" },
						    { "ResourceClaimTemplateName",
						      "resourceClaimTemplateName" },
						    { 0 } };
	const struct json *list = json_get(r->spec, "resourceClaims");
	struct causes *c = r->causes;
	size_t i = 0;

	r->claims = json_len(list) ? map_new_borrowing(NULL) : NULL;
	json_each(it, list) {
		const struct path *at = AT(IN(spec, "resourceClaims"), i++);
		const char *name = need_text(c, at, it.val, "name");
		bool claim = json_get(it.val, "resourceClaimName");
		bool template = json_get(it.val, "resourceClaimTemplateName");

		if (name && map_has(r->claims, name))
			bad_duplicate(c, IN(at, "name"), name);
		else
			check_text(c, at, it.val, "name", meta_bad_dns_label);
		if (name)
			map_put(r->claims, name, it.val);
		if (claim && template)
			bad_struct(c, at, it.val, members,
				   "at most one of `resourceClaimName` or "
				   "`resourceClaimTemplateName` may be specified");
		if (!claim && !template)
			bad_struct(c, at, it.val, members,
				   "must specify one of: `resourceClaimName`, "
				   "`resourceClaimTemplateName`");
		check_text(c, at, it.val, "resourceClaimName", meta_bad_dns_subdomain);
		check_text(c, at, it.val, "resourceClaimTemplateName", meta_bad_dns_subdomain);
	}
}

static void check_host_network(struct pod_rules *r, const struct path *spec)
{
	size_t i = 0;

	if (!json_get_bool(r->spec, "hostNetwork", false))
		return;
	json_each(it, json_get(r->spec, "containers")) {
		const struct path *p = IN(AT(IN(spec, "containers"), i++), "ports");
		size_t k = 0;

		json_each(port, json_get(it.val, "ports")) {
			const struct path *at = AT(p, k++);
			int64_t host = json_get_int(port.val, "hostPort", 0);

			if (host != json_get_int(port.val, "containerPort", 0))
				bad_int(r->causes, IN(at, "hostPort"), host,
					"must match `containerPort` when `hostNetwork` is true");
		}
	}
}

/* A subdomain whose parts may have underscores, and begin with one. */
static const char *bad_search(const char *s)
{
	autofree char *plain = xstrdup(s);
	size_t len = strlen(plain);

	if (str_eq(s, "."))
		return NULL;
	if (len && plain[len - 1] == '.')
		plain[--len] = 0;
	for (size_t i = 0; i < len; i++) {
		bool start = !i || plain[i - 1] == '.';

		if (plain[i] == '_' && plain[i + 1] && plain[i + 1] != '.')
			plain[i] = start ? 'a' : '-';
	}
	if (!meta_bad_dns_subdomain(plain))
		return NULL;
	return "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
	       "'_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
	       "'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
}

static void check_searches(struct causes *c, const struct json *list, const struct path *p)
{
	size_t len = 0, i = 0;

	if (json_len(list) > SEARCHES_MAX)
		bad_invalid(c, p, list, "must not have more than 32 search paths");
	json_each(it, list)
		len += json_str_len(it.val) + 1;
	if (len > SEARCHES_LEN_MAX + 1)
		bad_invalid(c, p, list,
			    "must not have more than 2048 characters (including spaces) in the "
			    "search list");
	json_each(it, list) {
		const char *s = str_or(json_str(it.val), "");
		const char *bad = bad_search(s);

		if (bad)
			bad_text(c, AT(p, i), s, bad);
		i++;
	}
}

static void check_dns(struct pod_rules *r, const struct path *spec)
{
	const struct json *config = json_get(r->spec, "dnsConfig");
	const struct json *servers = json_get(config, "nameservers");
	const struct path *p = IN(spec, "dnsConfig");
	struct causes *c = r->causes;
	bool none = str_eq(json_get_str(r->spec, "dnsPolicy"), "None");
	size_t i = 0;

	if (none && !config) {
		bad_required(c, p, "must provide `dnsConfig` when `dnsPolicy` is None");
		return;
	}
	if (none && !json_len(servers)) {
		bad_required(c, IN(p, "nameservers"),
			     "must provide at least one DNS nameserver when `dnsPolicy` is None");
		return;
	}
	if (json_len(servers) > SERVERS_MAX)
		bad_invalid(c, IN(p, "nameservers"), servers,
			    "must not have more than 3 nameservers");
	json_each(it, servers)
		check_ip(c, str_or(json_str(it.val), ""), AT(IN(p, "nameservers"), i++));
	check_searches(c, json_get(config, "searches"), IN(p, "searches"));
	i = 0;
	json_each(it, json_get(config, "options")) {
		if (str_empty(json_get_str(it.val, "name")))
			bad_required(c, AT(IN(p, "options"), i), "must not be empty");
		i++;
	}
}

static void check_gates(struct pod_rules *r, const struct path *spec)
{
	const struct json *gates = json_get(r->spec, "schedulingGates");
	autoptr(map) seen = json_len(gates) > 1 ? map_new(NULL) : NULL;
	struct causes *c = r->causes;
	size_t i = 0;

	json_each(it, json_get(r->spec, "readinessGates")) {
		const char *type = str_or(json_get_str(it.val, "conditionType"), "");
		const struct path *at = AT(IN(spec, "readinessGates"), i++);

		check_qualified(c, type, IN(at, "conditionType"));
	}
	i = 0;
	json_each(it, gates) {
		const char *name = str_or(json_get_str(it.val, "name"), "");
		const struct path *at = AT(IN(spec, "schedulingGates"), i++);

		check_qualified(c, name, at);
		if (seen && map_has(seen, name))
			bad_duplicate(c, at, name);
		if (seen)
			map_put(seen, name, r);
	}
}

static void check_no_devices(struct pod_rules *r, const struct json *container,
			     const struct path *p)
{
	if (json_len(json_get(container, "volumeDevices")))
		bad_forbidden(r->causes, IN(p, "volumeDevices"), "when `hostUsers` is false");
}

/* As kube-apiserver: two of the paths are in Go's names. */
static void check_host_users(struct pod_rules *r, const struct path *spec)
{
	static const char *const hosts[][2] = { { "hostNetwork", "hostNetwork" },
						{ "hostPID", "HostPID" },
						{ "hostIPC", "HostIPC" } };

	if (json_get_bool(r->spec, "hostUsers", true))
		return;
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
		if (json_get_bool(r->spec, hosts[i][0], false))
			bad_forbidden(r->causes, IN(spec, hosts[i][1]),
				      "when `hostUsers` is false");
	spec_visit(r->spec, spec, check_no_devices, r);
}

static void check_host_name(struct pod_rules *r, const struct path *spec)
{
	const char *name = json_get_str(r->spec, "hostnameOverride"), *bad;
	const struct path *p = IN(spec, "hostnameOverride");

	if (!name)
		return;
	if (json_get_bool(r->spec, "setHostnameAsFQDN", false))
		bad_forbidden(r->causes, p, "may not be specified when setHostnameAsFQDN is true");
	if (json_get_bool(r->spec, "hostNetwork", false))
		bad_forbidden(r->causes, p, "may not be specified when hostNetwork is true");
	if (strlen(name) > HOST_NAME_MAX_)
		bad_too_long(r->causes, p, HOST_NAME_MAX_);
	bad = meta_bad_dns_subdomain(name);
	if (bad)
		bad_text(r->causes, p, name, bad);
}

static void check_aliases(struct pod_rules *r, const struct path *spec)
{
	size_t i = 0;

	json_each(it, json_get(r->spec, "hostAliases")) {
		const struct path *at = AT(IN(spec, "hostAliases"), i++);
		size_t k = 0;

		check_ip(r->causes, str_or(json_get_str(it.val, "ip"), ""), IN(at, "ip"));
		json_each(name, json_get(it.val, "hostnames")) {
			const char *s = str_or(json_str(name.val), "");
			const char *bad = meta_bad_dns_subdomain(s);

			if (bad)
				bad_text(r->causes, AT(IN(at, "hostnames"), k), s, bad);
			k++;
		}
	}
}

static void check_deadline(struct causes *c, const struct json *spec, const struct path *p)
{
	const struct json *v = json_get(spec, "activeDeadlineSeconds");

	if (v && (json_int(v, 1) < 1 || json_int(v, 1) > INT32_MAX))
		bad_invalid(c, IN(p, "activeDeadlineSeconds"), v,
			    "must be between 1 and 2147483647, inclusive");
}

/* What is one text, in the order of the messages. */
static void check_names(struct pod_rules *r, const struct path *p)
{
	static const char *const preemption[] = { "PreemptLowerPriority", "Never", NULL };
	const struct json *spec = r->spec;
	struct causes *c = r->causes;

	check_text(c, p, spec, "serviceAccountName", meta_bad_dns_subdomain);
	check_text(c, p, spec, "nodeName", meta_bad_dns_subdomain);
	check_deadline(c, spec, p);
	check_text(c, p, spec, "hostname", meta_bad_dns_label);
	check_text(c, p, spec, "subdomain", meta_bad_dns_label);
	check_tolerations(c, json_get(spec, "tolerations"), IN(p, "tolerations"));
	check_aliases(r, p);
	check_text(c, p, spec, "priorityClassName", meta_bad_dns_subdomain);
	check_text(c, p, spec, "runtimeClassName", meta_bad_dns_subdomain);
	check_values(c, p, spec, "preemptionPolicy", preemption);
}

static void check_spec(struct pod_rules *r, const struct path *p)
{
	static const char *const restarts[] = { "Always", "OnFailure", "Never", NULL };
	static const char *const dns[] = { "ClusterFirstWithHostNet", "ClusterFirst", "Default",
					   "None", NULL };
	struct causes *c = r->causes;

	spec_volumes(r, p);
	check_claims(r, p);
	spec_containers(r, p);
	spec_level_resources(r, p);
	check_host_network(r, p);
	check_values(c, p, r->spec, "restartPolicy", restarts);
	check_values(c, p, r->spec, "dnsPolicy", dns);
	check_labels(c, json_get(r->spec, "nodeSelector"), IN(p, "nodeSelector"));
	spec_security_context(r, p);
	spec_scheduling(r, p);
	check_dns(r, p);
	check_gates(r, p);
	spec_topology(r, p);
	spec_host_process(r, p);
	check_host_users(r, p);
	check_host_name(r, p);
	check_names(r, p);
	spec_os(r, p);
	spec_visit(r->spec, p, spec_env_files, r);
}

void validate_pod_spec_at(const struct json *obj, const struct path *p, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");
	struct pod_rules r = {
		.causes = c,
		.spec = spec,
		.os = json_get(spec, "os") ? str_or(json_get_str(json_get(spec, "os"), "name"), "")
					   : NULL,
		.name = json_get_str(json_get(obj, "metadata"), "name"),
		.grace_s = json_get_int(spec, "terminationGracePeriodSeconds", 0),
		.never_restarts = str_eq(json_get_str(spec, "restartPolicy"), "Never"),
		.host_users = json_get_bool(spec, "hostUsers", true),
	};

	check_spec(&r, p);
	spec_image_spaces(&r, p);
	map_free(r.volumes);
	map_free(r.claims);
}

void validate_pod_spec(const struct json *obj, struct causes *c)
{
	validate_pod_spec_at(obj, IN(NULL, "spec"), c);
}

void validate_pod(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct path *p = IN(NULL, "spec");
	const struct json *spec = json_get(obj, "spec");

	validate_pod_spec(obj, c);
	if (old) {
		validate_pod_update(spec, json_get(old, "spec"), c);
		return;
	}
	if (json_len(json_get(spec, "ephemeralContainers")))
		bad_forbidden(c, IN(p, "ephemeralContainers"), "cannot be set on create");
	if (json_len(json_get(spec, "schedulingGates")) &&
	    !str_empty(json_get_str(spec, "nodeName")))
		bad_forbidden(c, IN(p, "nodeName"),
			      "cannot be set until all schedulingGates have been cleared");
}
