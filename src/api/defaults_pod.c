/* SPDX-License-Identifier: Apache-2.0 */
#include "api/defaults_priv.h"
#include "api/kind_priv.h"
#include "api/meta.h"
#include "api/pod.h"
#include "base/str.h"

/* A Pod's defaults. */
enum {
	MANY_RESOURCES = 64, /* longer lists are left as they were written */
};

static void defaults_http_get(struct json_doc *d, struct json *handler)
{
	struct json *get = json_get(handler, "httpGet");

	defaults_str(d, get, "path", "/");
	defaults_str(d, get, "scheme", "HTTP");
}

static void defaults_probe(struct json_doc *d, struct json *probe)
{
	static const struct {
		const char *name;
		int value;
	} numbers[] = { { "timeoutSeconds", POD_PROBE_TIMEOUT_S },
			{ "periodSeconds", POD_PROBE_PERIOD_S },
			{ "successThreshold", POD_PROBE_NEED_OK },
			{ "failureThreshold", POD_PROBE_NEED_BAD } };

	defaults_http_get(d, probe);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		defaults_int(d, probe, numbers[i].name, numbers[i].value);
}

/* A tag that may move is pulled every time. */
static const char *pull_policy(const char *image)
{
	const char *slash = strrchr(image, '/'), *tag = strchr(slash ? slash : image, ':');

	if (strchr(image, '@'))
		return "IfNotPresent";
	return !tag || str_eq(tag, ":latest") ? "Always" : "IfNotPresent";
}

/* A container with a limit and no request requests as much as the limit. */
static void defaults_resources(struct json_doc *d, struct json *resources)
{
	struct json *limits = json_get(resources, "limits"), *requests;

	defaults_quantities(d, limits);
	if (json_is(limits, JSON_OBJ) && json_len(limits) && json_len(limits) <= MANY_RESOURCES) {
		requests = defaults_need_obj(d, resources, "requests");
		json_each(it, limits)
			if (requests && !json_get(requests, it.key))
				json_set(d, requests, it.key, json_copy(d, it.val));
	}
	defaults_quantities(d, json_get(resources, "requests"));
}

/* References to a field of the Pod or to a resource of a container. */
static void defaults_refs(struct json_doc *d, struct json *source)
{
	struct json *resource = json_get(source, "resourceFieldRef"), *divisor;

	defaults_str(d, json_get(source, "fieldRef"), "apiVersion", "v1");
	if (!resource)
		return;
	defaults_str(d, resource, "divisor", "0");
	divisor = quantity_canonical(d, json_get(resource, "divisor"));
	if (divisor)
		json_set(d, resource, "divisor", divisor);
}

static void defaults_env(struct json_doc *d, struct json *env)
{
	json_each(it, env)
		defaults_refs(d, json_get(it.val, "valueFrom"));
}

static void defaults_container(struct json_doc *d, struct json *c)
{
	defaults_str(d, c, "imagePullPolicy", pull_policy(str_or(json_get_str(c, "image"), "")));
	defaults_str(d, c, "terminationMessagePath", "/dev/termination-log");
	defaults_str(d, c, "terminationMessagePolicy", "File");
	defaults_obj(d, c, "resources");
	defaults_resources(d, json_get(c, "resources"));
	json_each(it, json_get(c, "ports"))
		defaults_str(d, it.val, "protocol", "TCP");
	defaults_env(d, json_get(c, "env"));
	defaults_probe(d, json_get(c, "livenessProbe"));
	defaults_probe(d, json_get(c, "readinessProbe"));
	defaults_probe(d, json_get(c, "startupProbe"));
	defaults_http_get(d, json_at_path(c, "lifecycle.postStart"));
	defaults_http_get(d, json_at_path(c, "lifecycle.preStop"));
}

static void defaults_containers(struct json_doc *d, struct json *list)
{
	json_each(it, list)
		if (json_is(it.val, JSON_OBJ))
			defaults_container(d, it.val);
}

static void defaults_downward(struct json_doc *d, struct json *source)
{
	json_each(it, json_get(source, "items"))
		defaults_refs(d, it.val);
}

static void defaults_projected(struct json_doc *d, struct json *projected)
{
	defaults_int(d, projected, "defaultMode", POD_FILE_MODE);
	if (projected && !json_get(projected, "sources"))
		json_set(d, projected, "sources", json_new_null(d));
	json_each(it, json_get(projected, "sources")) {
		defaults_downward(d, json_get(it.val, "downwardAPI"));
		defaults_int(d, json_get(it.val, "serviceAccountToken"), "expirationSeconds",
			     POD_TOKEN_S);
	}
}

static void defaults_size(struct json_doc *d, struct json *obj, const char *name)
{
	const struct json *size = json_get(obj, name);
	struct json *text = size ? quantity_canonical(d, size) : NULL;

	if (text)
		json_set(d, obj, name, text);
}

static void defaults_claim_template(struct json_doc *d, struct json *template)
{
	if (!template)
		return;
	defaults_obj(d, template, "metadata");
	defaults_str(d, json_get(template, "spec"), "volumeMode", "Filesystem");
	defaults_quantities(d, json_at_path(template, "spec.resources.requests"));
	defaults_quantities(d, json_at_path(template, "spec.resources.limits"));
}

static void defaults_volume(struct json_doc *d, struct json *v)
{
	struct json *host = json_get(v, "hostPath");

	if (!json_is(v, JSON_OBJ))
		return;
	if (json_len(v) == 1 && json_get(v, "name"))
		json_set(d, v, "emptyDir", json_obj(d));
	defaults_int(d, json_get(v, "secret"), "defaultMode", POD_FILE_MODE);
	defaults_int(d, json_get(v, "configMap"), "defaultMode", POD_FILE_MODE);
	defaults_int(d, json_get(v, "downwardAPI"), "defaultMode", POD_FILE_MODE);
	defaults_downward(d, json_get(v, "downwardAPI"));
	defaults_projected(d, json_get(v, "projected"));
	defaults_claim_template(d, json_at_path(v, "ephemeral.volumeClaimTemplate"));
	defaults_size(d, json_get(v, "emptyDir"), "sizeLimit");
	if (json_get(v, "image"))
		defaults_str(
			d, json_get(v, "image"), "pullPolicy",
			pull_policy(str_or(json_get_str(json_get(v, "image"), "reference"), "")));
	if (json_is(host, JSON_OBJ) && !json_get(host, "type"))
		json_set_str(d, host, "type", "");
}

static bool is_of_pods(const char *resource)
{
	return str_eq(resource, "cpu") || str_eq(resource, "memory") ||
	       str_starts(resource, "hugepages-");
}

static bool asks_for(const struct json *spec, const char *name)
{
	json_each(it, json_get(spec, "containers"))
		if (json_get(json_at_path(it.val, "resources.requests"), name) ||
		    json_get(json_at_path(it.val, "resources.limits"), name))
			return true;
	return false;
}

/* A limit of the whole Pod is its request too, unless its containers have requests of their own. */
static void defaults_pod_resources(struct json_doc *d, struct json *spec, struct json *resources)
{
	struct json *limits = json_get(resources, "limits"), *requests;

	defaults_quantities(d, limits);
	if (json_len(limits) && json_len(limits) <= MANY_RESOURCES) {
		requests = defaults_need_obj(d, resources, "requests");
		json_each(it, limits)
			if (!json_get(requests, it.key) && is_of_pods(it.key) &&
			    !asks_for(spec, it.key))
				json_set(d, requests, it.key, json_copy(d, it.val));
		if (!json_len(requests))
			json_del(resources, "requests");
	}
	defaults_quantities(d, json_get(resources, "requests"));
}

/* Ports of a Pod in the network of its host are ports of the host. */
static void defaults_host_ports(struct json_doc *d, struct json *spec)
{
	static const char *const lists[] = { "containers", "initContainers" };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_each(it, json_get(spec, lists[i]))
			json_each(port, json_get(it.val, "ports"))
				defaults_int(d, port.val, "hostPort",
					     json_get_int(port.val, "containerPort", 0));
}

/* serviceAccount is the deprecated name of the field. */
static void defaults_account(struct json_doc *d, struct json *spec)
{
	if (!str_empty(json_get_str(spec, "serviceAccount")))
		defaults_str(d, spec, "serviceAccountName", json_get_str(spec, "serviceAccount"));
	if (!str_empty(json_get_str(spec, "serviceAccountName")))
		json_set_str(d, spec, "serviceAccount", json_get_str(spec, "serviceAccountName"));
}

void defaults_pod_template(struct json_doc *d, struct json *spec)
{
	if (json_get(spec, "resources"))
		defaults_pod_resources(d, spec, json_get(spec, "resources"));
	if (json_get_bool(spec, "hostNetwork", false))
		defaults_host_ports(d, spec);
	defaults_containers(d, json_get(spec, "initContainers"));
	defaults_containers(d, json_get(spec, "containers"));
	defaults_containers(d, json_get(spec, "ephemeralContainers"));
	json_each(it, json_get(spec, "volumes"))
		defaults_volume(d, it.val);
	defaults_str(d, spec, "restartPolicy", "Always");
	defaults_int(d, spec, "terminationGracePeriodSeconds", POD_GRACE_S);
	if (json_get_int(spec, "terminationGracePeriodSeconds", 0) < 0)
		json_set_int(d, spec, "terminationGracePeriodSeconds", 1);
	defaults_str(d, spec, "dnsPolicy", "ClusterFirst");
	defaults_account(d, spec);
	defaults_obj(d, spec, "securityContext");
	defaults_str(d, spec, "schedulerName", "default-scheduler");
}

static void defaults_spec(struct json_doc *d, struct json *spec)
{
	defaults_pod_template(d, spec);
	defaults_str(d, spec, "serviceAccountName", "default");
	defaults_account(d, spec);
	if (!json_get(spec, "enableServiceLinks"))
		json_set_bool(d, spec, "enableServiceLinks", true);
}

void defaults_pod(struct json_doc *d, const struct json *old)
{
	struct json *root = json_root(d), *spec = defaults_need_obj(d, root, "spec"), *status;

	if (!spec)
		return;
	defaults_spec(d, spec);
	if (old)
		return;
	status = json_set(d, root, "status", json_obj(d));
	json_set_str(d, status, "phase", "Pending");
	json_set_str(d, status, "qosClass", pod_qos(spec));
}
