/* SPDX-License-Identifier: Apache-2.0 */
#include "api/service.h"

#include "api/object.h"
#include "api/pod.h"
#include "base/str.h"
#include "base/wall.h"
#include "json/json.h"

static bool is_type(const struct json *spec, const char *type)
{
	return str_eq(json_get_str(spec, "type"), type);
}

bool service_is_external(const struct json *spec)
{
	return is_type(spec, "ExternalName");
}

bool service_is_headless(const struct json *spec)
{
	const struct json *ips = json_get(spec, "clusterIPs");

	return json_len(ips) == 1 && str_eq(json_str(json_at(ips, 0)), "None");
}

bool service_has_node_ports(const struct json *spec)
{
	return is_type(spec, "NodePort") || is_type(spec, "LoadBalancer");
}

bool service_is_reachable_from_outside(const struct json *spec)
{
	return service_has_node_ports(spec) ||
	       (is_type(spec, "ClusterIP") && json_len(json_get(spec, "externalIPs")));
}

bool service_has_health_port(const struct json *spec)
{
	return is_type(spec, "LoadBalancer") &&
	       str_eq(json_get_str(spec, "externalTrafficPolicy"), "Local");
}

bool service_selects(const struct json *selector, const struct json *labels)
{
	if (!json_is(selector, JSON_OBJ) || !json_len(selector))
		return false;
	json_each(it, selector)
		if (!str_eq(json_str(it.val), json_get_str(labels, it.key)))
			return false;
	return true;
}

int64_t service_target_port(const struct json *port, const struct json *pod_spec)
{
	const struct json *target = json_get(port, "targetPort");

	if (!json_str(target))
		return json_int(target, json_get_int(port, "port", 0));
	return pod_named_port(pod_spec, json_str(target),
			      str_or(json_get_str(port, "protocol"), "TCP"));
}

const char *service_endpoint_pod(const struct json *endpoint)
{
	const struct json *ref = json_get(endpoint, "targetRef");

	return str_eq(json_get_str(ref, "kind"), "Pod") ? json_get_str(ref, "name") : NULL;
}

bool service_endpoint_is_real(const struct json *endpoint, const char *ns, const struct object *pod)
{
	const char *ip = json_str(json_at_path(endpoint, "addresses.0"));

	if (!wall_stands("service-endpoint"))
		return true;
	if (!ip || !pod || !str_eq(pod->ns, ns) ||
	    pod_phase_over(json_get_str(object_status(pod), "phase")))
		return false;
	json_each(it, json_get(object_status(pod), "podIPs"))
		if (str_eq(json_get_str(it.val, "ip"), ip))
			return true;
	return false;
}

int64_t service_slice_port(const struct json *slice, const char *name, const char *protocol)
{
	json_each(it, json_get(slice, "ports"))
		if (str_eq(str_or(json_get_str(it.val, "name"), ""), name) &&
		    str_eq(str_or(json_get_str(it.val, "protocol"), "TCP"), protocol))
			return json_get_int(it.val, "port", 0);
	return 0;
}
