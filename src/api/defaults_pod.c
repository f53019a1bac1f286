/* SPDX-License-Identifier: Apache-2.0 */
#include "api/defaults_priv.h"
#include "api/kind_priv.h"
#include "api/pod.h"
#include "base/str.h"

/* A Pod's defaults. */
enum {
	TOKEN_SECONDS = 3600,
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
	if (json_is(limits, JSON_OBJ) && json_len(limits) && json_len(limits) <= 64) {
		requests = defaults_need_obj(d, resources, "requests");
		json_each(it, limits)
			if (requests && !json_get(requests, it.key))
				json_set(d, requests, it.key, json_copy(d, it.val));
	}
	defaults_quantities(d, json_get(resources, "requests"));
}

static void defaults_env(struct json_doc *d, struct json *env)
{
	json_each(it, env)
		defaults_str(d, json_at_path(it.val, "valueFrom.fieldRef"), "apiVersion", "v1");
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
		defaults_str(d, json_get(it.val, "fieldRef"), "apiVersion", "v1");
}

static void defaults_projected(struct json_doc *d, struct json *projected)
{
	defaults_int(d, projected, "defaultMode", POD_FILE_MODE);
	json_each(it, json_get(projected, "sources")) {
		defaults_downward(d, json_get(it.val, "downwardAPI"));
		defaults_int(d, json_get(it.val, "serviceAccountToken"), "expirationSeconds",
			     TOKEN_SECONDS);
	}
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
	defaults_str(d, json_at_path(v, "ephemeral.volumeClaimTemplate.spec"), "volumeMode",
		     "Filesystem");
	if (json_is(host, JSON_OBJ) && !json_get(host, "type"))
		json_set_str(d, host, "type", "");
}

static void defaults_spec(struct json_doc *d, struct json *spec)
{
	const char *account =
		json_get_str(spec, "serviceAccount"); /* the deprecated name of the field */

	defaults_containers(d, json_get(spec, "initContainers"));
	defaults_containers(d, json_get(spec, "containers"));
	defaults_containers(d, json_get(spec, "ephemeralContainers"));
	json_each(it, json_get(spec, "volumes"))
		defaults_volume(d, it.val);
	defaults_str(d, spec, "restartPolicy", "Always");
	defaults_int(d, spec, "terminationGracePeriodSeconds", POD_GRACE_S);
	defaults_str(d, spec, "dnsPolicy", "ClusterFirst");
	defaults_str(d, spec, "serviceAccountName", str_or(account, "default"));
	if (json_get_str(spec, "serviceAccountName"))
		json_set_str(d, spec, "serviceAccount", json_get_str(spec, "serviceAccountName"));
	defaults_obj(d, spec, "securityContext");
	defaults_str(d, spec, "schedulerName", "default-scheduler");
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
