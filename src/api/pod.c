/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod.h"

#include "api/meta.h"
#include "base/str.h"
#include "json/json.h"

struct qos {
	bool any;       /* a request or limit of cpu or memory was seen */
	bool all_equal; /* every container has both limits, and no request that differs */
};

/* Kubernetes ignores an amount of zero. */
static const struct json *amount(const struct json *list, const char *name)
{
	const struct json *q = json_get(list, name);
	int64_t milli = 0;

	if (q)
		err_free(quantity_parse_milli(q, &milli)); /* unreadable: none */
	return milli ? q : NULL;
}

static void weigh(struct qos *q, const struct json *resources)
{
	static const char *const names[] = { "cpu", "memory" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct json *limit = amount(json_get(resources, "limits"), names[i]);
		const struct json *request = amount(json_get(resources, "requests"), names[i]);

		q->any |= limit || request;
		q->all_equal &= limit && (!request || quantity_equal(limit, request));
	}
}

const char *pod_qos(const struct json *spec)
{
	struct qos q = { .all_equal = true };

	if (json_len(json_get(spec, "resources")))
		weigh(&q, json_get(spec, "resources"));
	else {
		json_each(it, json_get(spec, "initContainers"))
			weigh(&q, json_get(it.val, "resources"));
		json_each(it, json_get(spec, "containers"))
			weigh(&q, json_get(it.val, "resources"));
	}
	return !q.any ? "BestEffort" : q.all_equal ? "Guaranteed" : "Burstable";
}

bool pod_phase_over(const char *phase)
{
	return str_eq(phase, "Succeeded") || str_eq(phase, "Failed");
}

bool pod_is_sidecar(const struct json *init_container)
{
	return str_eq(json_get_str(init_container, "restartPolicy"), "Always");
}

static bool has_container(const struct json *list, const char *name)
{
	json_each(it, list)
		if (str_eq(json_get_str(it.val, "name"), name))
			return true;
	return false;
}

const char *pod_default_container(const struct json *pod)
{
	const struct json *spec = json_get(pod, "spec");
	const struct json *annotations = json_at_path(pod, "metadata.annotations");
	const char *name = json_get_str(annotations, "kubectl.kubernetes.io/default-container");

	if (!str_empty(name) && (has_container(json_get(spec, "containers"), name) ||
				 has_container(json_get(spec, "initContainers"), name)))
		return name;
	return json_get_str(json_at(json_get(spec, "containers"), 0), "name");
}

static int64_t named_port(const struct json *containers, bool init, const char *name,
			  const char *protocol)
{
	json_each(c, containers) {
		if (init && !pod_is_sidecar(c.val))
			continue;
		json_each(p, json_get(c.val, "ports"))
			if (str_eq(json_get_str(p.val, "name"), name) &&
			    str_eq(str_or(json_get_str(p.val, "protocol"), "TCP"), protocol))
				return json_get_int(p.val, "containerPort", 0);
	}
	return 0;
}

int64_t pod_named_port(const struct json *spec, const char *name, const char *protocol)
{
	int64_t port = named_port(json_get(spec, "containers"), false, name, protocol);

	return port ? port : named_port(json_get(spec, "initContainers"), true, name, protocol);
}
