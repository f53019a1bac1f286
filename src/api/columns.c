/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/kind_priv.h"
#include "api/members_priv.h"
#include "api/meta.h"
#include "api/selector.h"
#include "api/storage.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

/* The columns of `kubectl get` for each kind, as its users know them. */
#define AGE { "Age", "date", ".metadata.creationTimestamp", "Time since the object was created" }

static struct json *or_none(struct json_doc *d, struct buf *text)
{
	return json_new_str(d, text->len ? buf_str(text) : "<none>");
}

static void add_item(struct buf *out, const char *text)
{
	buf_printf(out, "%s%s", out->len ? "," : "", text);
}

/* a=b,c=d */
static struct json *labels_cell(struct json_doc *d, const struct json *labels)
{
	autobuf out = { 0 };

	json_each(it, json_is(labels, JSON_OBJ) ? labels : NULL)
		buf_printf(&out, "%s%s=%s", out.len ? "," : "", it.key,
			   str_or(json_str(it.val), ""));
	return or_none(d, &out);
}

/* Namespace */
const struct column columns_namespace[] = {
	{ "Status", "string", ".status.phase", "Phase of the namespace: Active or Terminating" },
	AGE,
	{ 0 },
};

/* Service */
static struct json *service_ip(struct json_doc *d, const struct json *obj, unused usec now)
{
	const char *ip = json_str(json_at_path(obj, "spec.clusterIPs.0"));

	return json_new_str(
		d, str_or(ip, str_or(json_str(json_at_path(obj, "spec.clusterIP")), "<none>")));
}

static struct json *service_external(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *spec = json_get(obj, "spec");
	const char *type = json_get_str(spec, "type");
	autobuf out = { 0 };

	if (str_eq(type, "ExternalName"))
		return json_new_str(d, str_or(json_get_str(spec, "externalName"), ""));
	json_each(it, json_at_path(obj, "status.loadBalancer.ingress"))
		add_item(&out, str_or(json_get_str(it.val, "ip"),
				      str_or(json_get_str(it.val, "hostname"), "")));
	json_each(it, json_get(spec, "externalIPs"))
		add_item(&out, str_or(json_str(it.val), ""));
	if (!out.len && str_eq(type, "LoadBalancer"))
		return json_new_str(d, "<pending>");
	return or_none(d, &out);
}

static struct json *service_ports(struct json_doc *d, const struct json *obj, unused usec now)
{
	autobuf out = { 0 };

	json_each(it, json_at_path(obj, "spec.ports")) {
		long long node = json_get_int(it.val, "nodePort", 0);

		buf_printf(&out, "%s%lld", out.len ? "," : "",
			   (long long)json_get_int(it.val, "port", 0));
		if (node)
			buf_printf(&out, ":%lld", node);
		buf_printf(&out, "/%s", str_or(json_get_str(it.val, "protocol"), "TCP"));
	}
	return or_none(d, &out);
}

static struct json *service_selector(struct json_doc *d, const struct json *obj, unused usec now)
{
	return labels_cell(d, json_at_path(obj, "spec.selector"));
}

const struct column columns_service[] = {
	{ "Type", "string", ".spec.type", "How the service is exposed" },
	{ "Cluster-IP", "string", NULL, "Address of the service inside the cluster", 0,
	  service_ip },
	{ "External-IP", "string", NULL, "Addresses of the service outside the cluster", 0,
	  service_external },
	{ "Port(s)", "string", NULL, "Ports and protocols that the service exposes", 0,
	  service_ports },
	AGE,
	{ "Selector", "string", NULL, "Labels of the Pods that receive the traffic", 1,
	  service_selector },
	{ 0 },
};

/* PersistentVolumeClaim */
static struct json *pvc_status(struct json_doc *d, const struct json *obj, unused usec now)
{
	if (json_at_path(obj, "metadata.deletionTimestamp"))
		return json_new_str(d, "Terminating");
	return json_new_str(d, str_or(json_str(json_at_path(obj, "status.phase")), ""));
}

static struct json *pvc_capacity(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *size = json_at_path(obj, "status.capacity.storage");

	return size ? quantity_canonical(d, size) : json_new_str(d, "");
}

static struct json *modes_cell(struct json_doc *d, const struct json *modes)
{
	static const struct {
		const char *mode, *text;
	} names[] = { { "ReadWriteOnce", "RWO" },
		      { "ReadOnlyMany", "ROX" },
		      { "ReadWriteMany", "RWX" },
		      { "ReadWriteOncePod", "RWOP" } };
	autobuf out = { 0 };

	json_each(it, modes)
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			if (str_eq(names[i].mode, json_str(it.val)))
				add_item(&out, names[i].text);
	return json_new_str(d, buf_str(&out));
}

static struct json *pvc_modes(struct json_doc *d, const struct json *obj, unused usec now)
{
	return modes_cell(d, json_at_path(obj, "status.accessModes"));
}

static struct json *pvc_class(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_str(d, str_or(json_str(json_at_path(obj, "spec.storageClassName")), ""));
}

static struct json *pvc_volume(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_str(d, str_or(json_str(json_at_path(obj, "spec.volumeName")), ""));
}

static struct json *pvc_attributes(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *v = json_at_path(obj, "spec.volumeAttributesClassName");

	return json_new_str(d, str_or(json_str(v), "<unset>"));
}

const struct column columns_persistent_volume_claim[] = {
	{ "Status", "string", NULL, "Phase of the claim", 0, pvc_status },
	{ "Volume", "string", NULL, "Volume that backs the claim", 0, pvc_volume },
	{ "Capacity", "string", NULL, "Actual size of the volume", 0, pvc_capacity },
	{ "Access Modes", "string", NULL, "Ways in which the volume can be mounted", 0, pvc_modes },
	{ "StorageClass", "string", NULL, "StorageClass that the claim requests", 0, pvc_class },
	{ "VolumeAttributesClass", "string", NULL, "VolumeAttributesClass that the claim requests",
	  0, pvc_attributes },
	AGE,
	{ "VolumeMode", "string", ".spec.volumeMode",
	  "Whether the volume is a filesystem or a block device", 1 },
	{ 0 },
};

/* PersistentVolume */
static struct json *pv_capacity(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *size = json_at_path(obj, "spec.capacity.storage");

	return size ? quantity_canonical(d, size) : json_new_str(d, "");
}

static struct json *pv_modes(struct json_doc *d, const struct json *obj, unused usec now)
{
	return modes_cell(d, json_at_path(obj, "spec.accessModes"));
}

static struct json *pv_claim(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *ref = json_at_path(obj, "spec.claimRef");

	return ref ? json_new_strf(d, "%s/%s", str_or(json_get_str(ref, "namespace"), ""),
				   str_or(json_get_str(ref, "name"), ""))
		   : json_new_str(d, "");
}

static struct json *pv_reason(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_str(d, str_or(json_str(json_at_path(obj, "status.reason")), ""));
}

const struct column columns_persistent_volume[] = {
	{ "Capacity", "string", NULL, "Size of the volume", 0, pv_capacity },
	{ "Access Modes", "string", NULL, "Ways in which the volume can be mounted", 0, pv_modes },
	{ "Reclaim Policy", "string", ".spec.persistentVolumeReclaimPolicy",
	  "What happens to the volume after its claim" },
	{ "Status", "string", NULL, "Phase of the volume", 0, pvc_status },
	{ "Claim", "string", NULL, "Claim that the volume is bound to", 0, pv_claim },
	{ "StorageClass", "string", NULL, "StorageClass of the volume", 0, pvc_class },
	{ "VolumeAttributesClass", "string", NULL, "VolumeAttributesClass of the volume", 0,
	  pvc_attributes },
	{ "Reason", "string", NULL, "Why the volume is in its phase", 0, pv_reason },
	AGE,
	{ "VolumeMode", "string", ".spec.volumeMode",
	  "Whether the volume is a filesystem or a block device", 1 },
	{ 0 },
};

/* StorageClass */
static struct json *class_name(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_strf(d, "%s%s", str_or(json_str(json_at_path(obj, "metadata.name")), ""),
			     storage_class_leads(obj, NULL) ? " (default)" : "");
}

static struct json *class_grows(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_bool(d, json_get_bool(obj, "allowVolumeExpansion", false));
}

const struct column columns_storage_class[] = {
	{ "Name", "string", NULL, "Name of the object, and whether claims get it by default", 0,
	  class_name },
	{ "Provisioner", "string", ".provisioner", "Who makes the volumes" },
	{ "ReclaimPolicy", "string", ".reclaimPolicy", "What happens to a volume after its claim" },
	{ "VolumeBindingMode", "string", ".volumeBindingMode", "When a claim is bound" },
	{ "AllowVolumeExpansion", "string", NULL, "Whether claims may ask for more later", 0,
	  class_grows },
	AGE,
	{ 0 },
};

/* Secret, ConfigMap, ServiceAccount */
static struct json *data_count(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_int(d, (int64_t)(json_len(json_get(obj, "data")) +
					 json_len(json_get(obj, "binaryData"))));
}

const struct column columns_secret[] = {
	{ "Type", "string", ".type", "Type of the secret, which says how its data is used" },
	{ "Data", "string", NULL, "Number of entries in data", 0, data_count },
	AGE,
	{ 0 },
};
const struct column columns_config_map[] = {
	{ "Data", "string", NULL, "Number of entries in data", 0, data_count },
	AGE,
	{ 0 },
};
const struct column columns_service_account[] = {
	AGE,
	{ 0 },
};

/* Event, by the names of either group */
static const struct json *either(const struct json *obj, const char *a, const char *b)
{
	const struct json *v = json_get(obj, a);

	if (!v || json_is(v, JSON_NULL))
		v = json_get(obj, b);
	return json_is(v, JSON_NULL) ? NULL : v;
}

static struct json *event_first(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *v = either(obj, "firstTimestamp", "deprecatedFirstTimestamp");

	return json_copy(d, v ? v : json_get(obj, "eventTime"));
}

static struct json *event_last(struct json_doc *d, const struct json *obj, usec now)
{
	const struct json *v = json_at_path(obj, "series.lastObservedTime");

	if (!v)
		v = either(obj, "lastTimestamp", "deprecatedLastTimestamp");
	return v ? json_copy(d, v) : event_first(d, obj, now);
}

static struct json *event_object(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *ref = either(obj, "involvedObject", "regarding");
	const char *name = json_get_str(ref, "name");
	autofree char *kind = xstrdup(str_or(json_get_str(ref, "kind"), ""));

	for (char *p = kind; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return json_new_strf(d, "%s%s%s", kind, str_empty(name) ? "" : "/", str_or(name, ""));
}

static struct json *event_sub(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *ref = either(obj, "involvedObject", "regarding");

	return json_new_str(d, str_or(json_get_str(ref, "fieldPath"), ""));
}

static struct json *event_source(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *source = either(obj, "source", "deprecatedSource");
	const char *component = json_get_str(source, "component");
	const char *host = json_get_str(source, "host");

	if (str_empty(component)) {
		component = json_str(either(obj, "reportingComponent", "reportingController"));
		host = json_get_str(obj, "reportingInstance");
	}
	return json_new_strf(d, "%s%s%s", str_or(component, ""), str_empty(host) ? "" : ", ",
			     str_or(host, ""));
}

static struct json *event_message(struct json_doc *d, const struct json *obj, unused usec now)
{
	const char *text = json_str(either(obj, "message", "note"));
	struct span s = span_trim(SPAN(str_or(text, "")));

	while (s.len && (s.p[s.len - 1] == '\n' || s.p[s.len - 1] == ' '))
		s.len--;
	return json_new_strn(d, s.p, s.len);
}

static struct json *event_count(struct json_doc *d, const struct json *obj, unused usec now)
{
	int64_t n = json_int(either(obj, "count", "deprecatedCount"), 0);

	n = json_int(json_at_path(obj, "series.count"), n);
	return json_new_int(d, n ? n : 1);
}

const struct column columns_event[] = {
	{ "Last Seen", "date", NULL, "Time since the event last occurred", 0, event_last },
	{ "Type", "string", ".type", "Normal or Warning" },
	{ "Reason", "string", ".reason", "Short, machine-readable reason for the event" },
	{ "Object", "string", NULL, "Object that the event is about", 0, event_object },
	{ "Subobject", "string", NULL, "Part of the object that the event is about", 1, event_sub },
	{ "Source", "string", NULL, "Component that reported the event", 1, event_source },
	{ "Message", "string", NULL, "Human-readable description of what happened", 0,
	  event_message },
	{ "First Seen", "date", NULL, "Time since the event first occurred", 1, event_first },
	{ "Count", "string", NULL, "Number of times that the event occurred", 1, event_count },
	{ "Name", "string", ".metadata.name", "Name of the object", 1 },
	{ 0 },
};

/* Node */
static struct json *node_status(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *ready = conditions_get(json_at_path(obj, "status.conditions"), "Ready");
	const char *text = !ready                                          ? "Unknown"
			   : str_eq(json_get_str(ready, "status"), "True") ? "Ready"
									   : "NotReady";

	return json_new_strf(d, "%s%s", text,
			     json_bool(json_at_path(obj, "spec.unschedulable"), false)
				     ? ",SchedulingDisabled"
				     : "");
}

static struct json *node_roles(struct json_doc *d, const struct json *obj, unused usec now)
{
	static const char prefix[] = "node-role.kubernetes.io/";
	autobuf out = { 0 };

	json_each(it, members(json_at_path(obj, "metadata.labels"))) {
		if (str_starts(it.key, prefix) && it.key[strlen(prefix)])
			add_item(&out, it.key + strlen(prefix));
		else if (str_eq(it.key, "kubernetes.io/role"))
			add_item(&out, str_or(json_str(it.val), ""));
	}
	return or_none(d, &out);
}

static struct json *node_address(struct json_doc *d, const struct json *obj, const char *type)
{
	json_each(it, json_at_path(obj, "status.addresses"))
		if (str_eq(json_get_str(it.val, "type"), type))
			return json_copy(d, json_get(it.val, "address"));
	return json_new_str(d, "<none>");
}

static struct json *node_internal(struct json_doc *d, const struct json *obj, unused usec now)
{
	return node_address(d, obj, "InternalIP");
}

static struct json *node_external(struct json_doc *d, const struct json *obj, unused usec now)
{
	return node_address(d, obj, "ExternalIP");
}

const struct column columns_node[] = {
	{ "Status", "string", NULL, "Whether the node can run Pods", 0, node_status },
	{ "Roles", "string", NULL, "Roles of the node, from its labels", 0, node_roles },
	AGE,
	{ "Version", "string", ".status.nodeInfo.kubeletVersion",
	  "Version of the program that runs Pods on the node" },
	{ "Internal-IP", "string", NULL, "Address of the node inside the cluster", 1,
	  node_internal },
	{ "External-IP", "string", NULL, "Address of the node outside the cluster", 1,
	  node_external },
	{ "OS-Image", "string", ".status.nodeInfo.osImage", "Operating system of the node", 1 },
	{ "Kernel-Version", "string", ".status.nodeInfo.kernelVersion",
	  "Kernel version of the node", 1 },
	{ "Container-Runtime", "string", ".status.nodeInfo.containerRuntimeVersion",
	  "Container runtime of the node", 1 },
	{ 0 },
};

/* EndpointSlice */
enum {
	SHOWN = 3
}; /* ports or addresses that are listed; the rest is only counted */

static struct json *shown(struct json_doc *d, struct buf *out, size_t n)
{
	if (n > SHOWN)
		buf_printf(out, " + %zu more...", n - SHOWN);
	return json_new_str(d, out->len ? buf_str(out) : "<unset>");
}

static struct json *slice_ports(struct json_doc *d, const struct json *obj, unused usec now)
{
	autobuf out = { 0 };
	size_t n = 0;

	json_each(it, json_get(obj, "ports")) {
		const struct json *port = json_get(it.val, "port");

		if (n++ >= SHOWN)
			continue;
		if (port)
			buf_printf(&out, "%s%lld", out.len ? "," : "",
				   (long long)json_int(port, 0));
		else
			add_item(&out, str_or(json_get_str(it.val, "name"), "*"));
	}
	return shown(d, &out, n);
}

static struct json *slice_endpoints(struct json_doc *d, const struct json *obj, unused usec now)
{
	autobuf out = { 0 };
	size_t n = 0;

	json_each(it, json_get(obj, "endpoints"))
		json_each(at, json_get(it.val, "addresses"))
			if (n++ < SHOWN)
				add_item(&out, str_or(json_str(at.val), ""));
	return shown(d, &out, n);
}

const struct column columns_endpoint_slice[] = {
	{ "AddressType", "string", ".addressType", "Type of the addresses: IPv4, IPv6 or FQDN" },
	{ "Ports", "string", NULL, "Ports of the endpoints", 0, slice_ports },
	{ "Endpoints", "string", NULL, "Addresses of the endpoints", 0, slice_endpoints },
	AGE,
	{ 0 },
};

/* Endpoints */
static struct json *endpoints_all(struct json_doc *d, const struct json *obj, unused usec now)
{
	autobuf out = { 0 };
	size_t n = 0;

	json_each(subset, json_get(obj, "subsets")) {
		const struct json *ports = json_get(subset.val, "ports");

		json_each(at, json_len(ports) ? NULL : json_get(subset.val, "addresses"))
			if (n++ < SHOWN)
				add_item(&out, str_or(json_get_str(at.val, "ip"), ""));
		json_each(port, ports)
			json_each(at, json_get(subset.val, "addresses"))
				if (n++ < SHOWN)
					buf_printf(&out, "%s%s:%lld", out.len ? "," : "",
						   str_or(json_get_str(at.val, "ip"), ""),
						   (long long)json_get_int(port.val, "port", 0));
	}
	if (n > SHOWN)
		buf_printf(&out, " + %zu more...", n - SHOWN);
	return or_none(d, &out);
}

const struct column columns_endpoints[] = {
	{ "Endpoints", "string", NULL, "Addresses and ports that are ready", 0, endpoints_all },
	AGE,
	{ 0 },
};

/* NetworkPolicy, Lease, RuntimeClass, Gateway */
static struct json *policy_selector(struct json_doc *d, const struct json *obj, unused usec now)
{
	autobuf out = { 0 };

	label_selector_text(json_at_path(obj, "spec.podSelector"), &out);
	return or_none(d, &out);
}

const struct column columns_network_policy[] = {
	{ "Pod-Selector", "string", NULL, "Pods that the policy applies to", 0, policy_selector },
	AGE,
	{ 0 },
};
const struct column columns_lease[] = {
	{ "Holder", "string", ".spec.holderIdentity", "Identity of the current holder" },
	AGE,
	{ 0 },
};
const struct column columns_runtime_class[] = {
	{ "Handler", "string", ".handler", "What a node calls the runtime" },
	AGE,
	{ 0 },
};
const struct column columns_gateway[] = {
	{ "Class", "string", ".spec.gatewayClassName", "Who takes care of it" },
	{ "Address", "string", ".status.addresses[0].value", "Where the router is reached" },
	{ "Programmed", "string", ".status.conditions[?(@.type=='Programmed')].status",
	  "Whether requests are accepted there" },
	AGE,
	{ 0 },
};

/* The agent kinds. These columns go into their CRDs unchanged. */
#define READY(field) ".status.conditions[?(@.type=='Ready')]." field
#define MESSAGE      { "Message", "string", READY("message"), "What the Ready condition says", 1 }

const struct column columns_sandbox[] = {
	{ "Ready", "string", READY("status"), "Whether the sandbox is ready to use" },
	{ "Reason", "string", READY("reason"), "Reason for the Ready condition" },
	AGE,
	MESSAGE,
	{ 0 },
};
const struct column columns_sandbox_claim[] = {
	{ "Ready", "string", READY("status"), "Whether the claimed sandbox is ready to use" },
	{ "Sandbox", "string", ".status.sandbox.name", "Sandbox that serves the claim" },
	{ "Reason", "string", READY("reason"), "Reason for the Ready condition" },
	AGE,
	MESSAGE,
	{ 0 },
};
const struct column columns_sandbox_warm_pool[] = {
	{ "Ready", "integer", ".status.readyReplicas", "Number of sandboxes that are ready" },
	{ "Desired", "integer", ".spec.replicas", "Number of sandboxes that the pool should hold" },
	AGE,
	{ 0 },
};
/* For kinds without columns of their own: name and age, as for a CRD without columns. */
const struct column columns_crd[] = {
	{ "Created At", "string", ".metadata.creationTimestamp",
	  "When the definition was created" },
	{ 0 },
};

const struct column columns_plain[] = {
	AGE,
	{ 0 },
};
