/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kind.h"
#include "api/pod.h"
#include "api/storage.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "server/policy/policy_priv.h"

/*
 * What the names in a quota mean. A quota is read once into measures, and each of them answers one
 * question about one object, so that a Pod with a thousand resources costs what the quota names.
 */
#define PODS           "pods"
#define CLAIMS         "persistentvolumeclaims"
#define CLASS_INFIX    ".storageclass.storage.k8s.io/"
#define COUNT_PREFIX   "count/"
#define REQUEST_PREFIX "requests."

static const struct {
	const char *name;
	struct measure m;
} known[] = {
	{ "pods", { MEASURE_PODS, PODS } },
	{ "cpu", { MEASURE_REQUESTS, PODS, "cpu", true } },
	{ "memory", { MEASURE_REQUESTS, PODS, "memory", true } },
	{ "ephemeral-storage", { MEASURE_REQUESTS, PODS, "ephemeral-storage" } },
	{ "requests.cpu", { MEASURE_REQUESTS, PODS, "cpu", true } },
	{ "requests.memory", { MEASURE_REQUESTS, PODS, "memory", true } },
	{ "requests.ephemeral-storage", { MEASURE_REQUESTS, PODS, "ephemeral-storage" } },
	{ "limits.cpu", { MEASURE_LIMITS, PODS, "cpu", true } },
	{ "limits.memory", { MEASURE_LIMITS, PODS, "memory", true } },
	{ "limits.ephemeral-storage", { MEASURE_LIMITS, PODS, "ephemeral-storage" } },
	{ "services", { MEASURE_COUNT, "services" } },
	{ "services.nodeports", { MEASURE_NODE_PORTS, "services" } },
	{ "services.loadbalancers", { MEASURE_LOAD_BALANCERS, "services" } },
	{ "secrets", { MEASURE_COUNT, "secrets" } },
	{ "configmaps", { MEASURE_COUNT, "configmaps" } },
	{ "replicationcontrollers", { MEASURE_COUNT, "replicationcontrollers" } },
	{ "resourcequotas", { MEASURE_COUNT, "resourcequotas" } },
	{ "persistentvolumeclaims", { MEASURE_COUNT, CLAIMS } },
	{ "requests.storage", { MEASURE_STORAGE, CLAIMS } },
};

/* "fast.storageclass.storage.k8s.io/requests.storage" */
static struct measure of_class(const char *name, const char *infix)
{
	const char *what = infix + strlen(CLASS_INFIX);
	struct measure m = { MEASURE_NOTHING, CLAIMS };

	if (str_eq(what, "requests.storage"))
		m.what = MEASURE_STORAGE;
	else if (str_eq(what, CLAIMS))
		m.what = MEASURE_CLAIMS;
	m.of = xstrndup(name, (size_t)(infix - name));
	return m;
}

struct measure measure_of(const char *name)
{
	const char *infix = strstr(name, CLASS_INFIX);
	const char *rest = name + strlen(REQUEST_PREFIX);

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(name, known[i].name)) {
			struct measure m = known[i].m;

			m.of = m.of ? xstrdup(m.of) : NULL;
			return m;
		}
	if (str_starts(name, COUNT_PREFIX))
		return (struct measure){ MEASURE_COUNT, name + strlen(COUNT_PREFIX) };
	if (infix)
		return of_class(name, infix);
	if (str_starts(name, "hugepages-"))
		return (struct measure){ MEASURE_REQUESTS, PODS, xstrdup(name) };
	if (str_starts(name, REQUEST_PREFIX) &&
	    (str_starts(rest, "hugepages-") || resource_is_extended(rest)))
		return (struct measure){ MEASURE_REQUESTS, PODS, xstrdup(rest) };
	return (struct measure){ MEASURE_NOTHING, "" };
}

void measure_done(struct measure *m)
{
	free((char *)m->of);
	m->of = NULL;
}

bool measure_covers(const struct measure *m, const struct kind *k)
{
	size_t len = strlen(k->plural);

	if (strncmp(m->resource, k->plural, len) != 0)
		return false;
	if (!m->resource[len])
		return !*k->group;
	return m->resource[len] == '.' && *k->group && str_eq(m->resource + len + 1, k->group);
}

/* As in Kubernetes: deletionTimestamp already includes the grace period, which counts once more. */
usec measure_until(const struct json *pod)
{
	const struct json *meta = json_get(pod, "metadata");
	const char *when = json_get_str(meta, "deletionTimestamp");
	usec at = INT64_MAX;

	if (!when || !json_get(meta, "deletionGracePeriodSeconds"))
		return INT64_MAX;
	err_free(clock_parse(when, &at)); /* the server wrote it */
	if (at == INT64_MAX)
		return at;
	return at + json_get_int(meta, "deletionGracePeriodSeconds", 0) * 1000000;
}

static bool pod_counts(const struct json *pod, usec as_of)
{
	return !pod_phase_over(json_get_str(json_get(pod, "status"), "phase")) &&
	       measure_until(pod) >= as_of;
}

static int64_t node_ports(const struct json *service)
{
	const struct json *spec = json_get(service, "spec");
	const char *type = json_get_str(spec, "type");
	int64_t n = 0;

	if (!str_eq(type, "NodePort") && !str_eq(type, "LoadBalancer"))
		return 0;
	if (str_eq(type, "NodePort") || json_get_bool(spec, "allocateLoadBalancerNodePorts", true))
		return (int64_t)json_len(json_get(spec, "ports"));
	json_each(it, json_get(spec, "ports"))
		n += json_get_int(it.val, "nodePort", 0) != 0;
	return n;
}

static bool is_of_class(const struct measure *m, const struct json *claim)
{
	return !m->of || str_eq(m->of, storage_claim_class(claim));
}

/* What it asks for, or what it was already given of more. */
static struct quantity storage(const struct json *claim)
{
	struct quantity asked = { 0 }, has;

	if (!quantity_read(json_at_path(claim, "spec.resources.requests.storage"), &asked))
		return asked;
	if (quantity_read(json_at_path(claim, "status.allocatedResources.storage"), &has) &&
	    quantity_cmp(&has, &asked) > 0)
		asked = has;
	return quantity_ceil(&asked);
}

struct quantity measure_use(const struct measure *m, const struct json *obj, usec as_of)
{
	const unsigned all = POD_AMOUNT_STATUS | POD_AMOUNT_OVERHEAD;
	struct quantity none = { 0 }, q = { 0 };

	switch (m->what) {
	case MEASURE_COUNT:
		return quantity_of(1);
	case MEASURE_PODS:
		return quantity_of(pod_counts(obj, as_of));
	case MEASURE_REQUESTS:
		if (pod_counts(obj, as_of))
			(void)pod_amount(obj, POD_REQUESTS, m->of, all, &q);
		return q;
	case MEASURE_LIMITS:
		if (pod_counts(obj, as_of))
			(void)pod_amount(obj, POD_LIMITS, m->of, all, &q);
		return q;
	case MEASURE_NODE_PORTS:
		return quantity_of(node_ports(obj));
	case MEASURE_LOAD_BALANCERS:
		return quantity_of(
			str_eq(json_get_str(json_get(obj, "spec"), "type"), "LoadBalancer"));
	case MEASURE_CLAIMS:
		return quantity_of(is_of_class(m, obj));
	case MEASURE_STORAGE:
		return is_of_class(m, obj) ? storage(obj) : none;
	case MEASURE_NOTHING:
		break;
	}
	return none;
}
