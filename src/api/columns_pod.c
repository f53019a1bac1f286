/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "api/meta.h"
#include "api/pod.h"
#include "api/table.h"
#include "base/str.h"
#include "json/json.h"

/*
 * A Pod's row: the state of its containers takes precedence over its phase, and what holds it up
 * over what goes well.
 */
struct summary {
	char reason[256];
	int64_t restarts;
	size_t n_ready, n_total;
	usec last_restart; /* 0: unknown */
};

static bool is_sidecar(const struct json *pod, const char *name)
{
	json_each(it, json_at_path(pod, "spec.initContainers"))
		if (str_eq(json_get_str(it.val, "name"), name))
			return pod_is_sidecar(it.val);
	return false;
}

static void count_restarts(struct summary *s, const struct json *status)
{
	const char *when = json_str(json_at_path(status, "lastState.terminated.finishedAt"));
	usec then = 0;

	s->restarts += json_get_int(status, "restartCount", 0);
	if (when)
		err_free(clock_parse(when, &then)); /* unreadable: unknown */
	s->last_restart = MAX(s->last_restart, then);
}

/* How a container ended, when it gives no reason itself. */
static void tell_exit(struct summary *s, const struct json *terminated, const char *prefix)
{
	const char *reason = json_get_str(terminated, "reason");
	int64_t signal = json_get_int(terminated, "signal", 0);

	if (!str_empty(reason))
		(void)snprintf(s->reason, sizeof(s->reason), "%s%s", prefix, reason);
	else if (signal)
		(void)snprintf(s->reason, sizeof(s->reason), "%sSignal:%lld", prefix,
			       (long long)signal);
	else
		(void)snprintf(s->reason, sizeof(s->reason), "%sExitCode:%lld", prefix,
			       (long long)json_get_int(terminated, "exitCode", 0));
}

/* False: this init container does not hold the Pod up. */
static bool tell_init(struct summary *s, const struct json *pod, const struct json *status,
		      size_t i)
{
	const struct json *ended = json_at_path(status, "state.terminated");
	const char *waits = json_str(json_at_path(status, "state.waiting.reason"));

	count_restarts(s, status);
	if (ended && json_get_int(ended, "exitCode", 0) == 0)
		return false;
	if (is_sidecar(pod, json_get_str(status, "name")) &&
	    json_get_bool(status, "started", false)) {
		s->n_ready += json_get_bool(status, "ready", false);
		return false;
	}
	if (ended)
		tell_exit(s, ended, "Init:");
	else if (!str_empty(waits) && !str_eq(waits, "PodInitializing"))
		(void)snprintf(s->reason, sizeof(s->reason), "Init:%s", waits);
	else
		(void)snprintf(s->reason, sizeof(s->reason), "Init:%zu/%zu", i,
			       json_len(json_at_path(pod, "spec.initContainers")));
	return true;
}

static bool initializing(struct summary *s, const struct json *pod)
{
	size_t i = 0;

	json_each(it, json_at_path(pod, "status.initContainerStatuses"))
		if (tell_init(s, pod, it.val, i++))
			return true;
	return false;
}

static void tell_containers(struct summary *s, const struct json *pod)
{
	const struct json *list = json_at_path(pod, "status.containerStatuses");
	char error[256] = "";
	bool running = false, decided = false;

	json_each(it, list) {
		const struct json *state = json_get(it.val, "state");
		const struct json *ended = json_get(state, "terminated");
		const char *waits = json_str(json_at_path(state, "waiting.reason"));

		count_restarts(s, it.val);
		if (json_get_bool(it.val, "ready", false) && json_get(state, "running")) {
			running = true;
			s->n_ready++;
		} else if (!decided && !str_empty(waits)) {
			(void)snprintf(s->reason, sizeof(s->reason), "%s", waits);
			decided = true; /* the first container with a reason decides */
		} else if (!decided && ended) {
			tell_exit(s, ended, "");
			decided = true;
		}
		if (ended && json_get_int(ended, "exitCode", 0) != 0 && !*error)
			(void)snprintf(error, sizeof(error), "%s",
				       str_or(json_get_str(ended, "reason"), "Error"));
	}
	if (!str_eq(s->reason, "Completed"))
		return;
	if (running && conditions_true(json_at_path(pod, "status.conditions"), "Ready"))
		(void)snprintf(s->reason, sizeof(s->reason), "Running");
	else if (*error)
		(void)snprintf(s->reason, sizeof(s->reason), "%s", error);
	else if (running)
		(void)snprintf(s->reason, sizeof(s->reason), "NotReady");
}

static void summarize(const struct json *pod, struct summary *s)
{
	const struct json *status = json_get(pod, "status");
	const char *phase = json_get_str(status, "phase"), *reason = json_get_str(status, "reason");
	const struct json *conditions = json_get(status, "conditions");

	*s = (struct summary){ .n_total = json_len(json_at_path(pod, "spec.containers")) };
	(void)snprintf(s->reason, sizeof(s->reason), "%s", str_or(reason, str_or(phase, "")));
	if (str_eq(json_get_str(conditions_get(conditions, "PodScheduled"), "reason"),
		   "SchedulingGated"))
		(void)snprintf(s->reason, sizeof(s->reason), "SchedulingGated");
	json_each(it, json_at_path(pod, "spec.initContainers"))
		s->n_total += pod_is_sidecar(it.val);
	if (!initializing(s, pod) || conditions_true(conditions, "Initialized"))
		tell_containers(s, pod);
	if (json_at_path(pod, "metadata.deletionTimestamp") && !pod_phase_over(phase))
		(void)snprintf(s->reason, sizeof(s->reason), "Terminating");
}

static struct json *pod_ready(struct json_doc *d, const struct json *obj, unused usec now)
{
	struct summary s;

	summarize(obj, &s);
	return json_new_strf(d, "%zu/%zu", s.n_ready, s.n_total);
}

static struct json *pod_status(struct json_doc *d, const struct json *obj, unused usec now)
{
	struct summary s;

	summarize(obj, &s);
	return json_new_str(d, s.reason);
}

static struct json *pod_restarts(struct json_doc *d, const struct json *obj, usec now)
{
	struct summary s;
	char age[32];

	summarize(obj, &s);
	if (!s.restarts || !s.last_restart)
		return json_new_strf(d, "%lld", (long long)s.restarts);
	table_age(s.last_restart, now, age, sizeof(age));
	return json_new_strf(d, "%lld (%s ago)", (long long)s.restarts, age);
}

static struct json *text_or_none(struct json_doc *d, const struct json *v)
{
	return json_new_str(d, str_or(json_str(v), "<none>"));
}

static struct json *pod_ip(struct json_doc *d, const struct json *obj, unused usec now)
{
	return text_or_none(d, json_at_path(obj, "status.podIPs.0.ip"));
}

static struct json *pod_node(struct json_doc *d, const struct json *obj, unused usec now)
{
	return text_or_none(d, json_at_path(obj, "spec.nodeName"));
}

static struct json *pod_nominated(struct json_doc *d, const struct json *obj, unused usec now)
{
	return text_or_none(d, json_at_path(obj, "status.nominatedNodeName"));
}

static struct json *pod_gates(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *gates = json_at_path(obj, "spec.readinessGates");
	const struct json *conditions = json_at_path(obj, "status.conditions");
	size_t n_true = 0;

	json_each(it, gates)
		n_true += conditions_true(conditions,
					  str_or(json_get_str(it.val, "conditionType"), ""));
	return json_len(gates) ? json_new_strf(d, "%zu/%zu", n_true, json_len(gates))
			       : json_new_str(d, "<none>");
}

const struct column columns_pod[] = {
	{ "Ready", "string", NULL, "Number of containers that are ready, out of all", 0,
	  pod_ready },
	{ "Status", "string", NULL, "Overall state of the Pod and its containers", 0, pod_status },
	{ "Restarts", "string", NULL, "Number of times that containers were restarted", 0,
	  pod_restarts },
	{ "Age", "date", ".metadata.creationTimestamp", "Time since the object was created" },
	{ "IP", "string", NULL, "IP address of the Pod", 1, pod_ip },
	{ "Node", "string", NULL, "Node that runs the Pod", 1, pod_node },
	{ "Nominated Node", "string", NULL, "Node that is expected to run the Pod", 1,
	  pod_nominated },
	{ "Readiness Gates", "string", NULL, "Conditions that must be true before the Pod is ready",
	  1, pod_gates },
	{ 0 },
};
