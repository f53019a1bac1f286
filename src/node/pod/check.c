/* SPDX-License-Identifier: Apache-2.0 */

#include "base/buf.h"
#include "base/platform.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/host/numbers.h"
#include "node/launch/plan.h"
#include "node/pod/pod_priv.h"

/*
 * What this node does with each field of a Pod, in one list. A field that is set and is not in the
 * list promises the Pod something that nobody here would keep: it is refused by its path. A row
 * without anything after its name is honoured as Kubernetes documents it, wherever the field is
 * read (api/view_pod.c); every other row says what is special about it.
 *
 * A field counts as set unless it is null, false, 0, an empty string or an empty list: Kubernetes
 * documents none of these as a wish. The defaults that an API server fills in are rows too.
 */
struct rule {
	const char *name;
	const struct rule *of;     /* the members of it, or of each of its elements */
	const char *const *values; /* only these texts, NULL-terminated */
	char *(*wrong)(struct json *v, const struct json *spec); /* NULL, or why not; malloc'd */
	const char *no;   /* refused, and this says why or what to do instead */
	const char *idle; /* accepted without any effect, because it promises nothing here */
};

#define ONLY(...) ((const char *const[]){ __VA_ARGS__, NULL })

static char *wrong_id(struct json *v, unused const struct json *spec)
{
	int64_t id = json_int(v, 0);

	if (id >= 0 && id < ID_RANGE)
		return NULL;
	return xasprintf("%lld is beyond a sandbox's %d ids", (long long)id, ID_RANGE);
}

static char *wrong_capability(struct json *v, unused const struct json *spec)
{
	const char *name = str_or(json_str(v), "");

	return plan_capability(name) >= 0 ? NULL : xasprintf("%s is not given to sandboxes", name);
}

/*
 * Profile "general" of kubectl debug, which newer versions use unless told otherwise, asks for
 * SYS_PTRACE. A debugger sees its own processes alone, and needs no capability to trace these.
 */
static char *wrong_debug_capability(struct json *v, const struct json *spec)
{
	return str_eq(json_str(v), "SYS_PTRACE") ? NULL : wrong_capability(v, spec);
}

static char *wrong_mount_path(struct json *v, unused const struct json *spec)
{
	const char *text = str_or(json_str(v), "");
	struct span rest = SPAN(text), name, first = { 0 }, second = { 0 };

	while (rest.p) {
		name = span_cut(rest, '/', &rest);
		if (span_eq(name, ".."))
			return xstrdup("write the path without ..");
		if (!name.len || span_eq(name, "."))
			continue;
		if (!first.p)
			first = name;
		else if (!second.p)
			second = name;
	}
	if (!first.p)
		return xstrdup("a volume cannot be the root file system");
	/* The runtimes rely on what is there. /dev/shm is a usual place. */
	if (span_eq(first, "proc") ||
	    (span_eq(first, "dev") && (!second.p || span_eq(second, "cay"))))
		return xasprintf("a volume cannot take the place of /%.*s", (int)first.len,
				 first.p);
	return NULL;
}

static char *wrong_message_path(struct json *v, unused const struct json *spec)
{
	return str_starts(str_or(json_str(v), ""), "/") ? NULL : xstrdup("write an absolute path");
}

/* What would end the line could begin another request. */
static char *wrong_header(struct json *v, unused const struct json *spec)
{
	const char *text = str_or(json_str(v), "");

	return text[strcspn(text, "\r\n")] ? xstrdup("write it in one line") : NULL;
}

static char *wrong_node_name(struct json *v, const struct json *spec)
{
	const char *node = json_get_str(spec, "nodeName");

	if (str_empty(node) || str_eq(json_str(v), node))
		return NULL;
	return xasprintf("this node is %s", node);
}

static char *wrong_arch(struct json *v, unused const struct json *spec)
{
	return str_eq(json_str(v), PLATFORM_ARCH) ? NULL : xstrdup("this node is " PLATFORM_ARCH);
}

static char *wrong_min_domains(struct json *v, unused const struct json *spec)
{
	return json_int(v, 1) > 1 ? xstrdup("there is one node") : NULL;
}

static const struct rule object_key[] = { { "name" }, { "key" }, { "optional" }, { 0 } };
static const struct rule object_name[] = { { "name" }, { "optional" }, { 0 } };
static const struct rule field_ref[] = {
	{ "fieldPath" },
	{ "apiVersion", .values = ONLY("v1") },
	{ 0 },
};
static const struct rule resource_ref[] = {
	{ "containerName" }, { "resource" }, { "divisor" }, { 0 }
};

static const struct rule value_from[] = {
	{ "configMapKeyRef", object_key },
	{ "secretKeyRef", object_key },
	{ "fieldRef", field_ref },
	{ "resourceFieldRef", resource_ref },
	{ 0 },
};
static const struct rule env[] = { { "name" }, { "value" }, { "valueFrom", value_from }, { 0 } };
static const struct rule env_from[] = {
	{ "prefix" }, { "configMapRef", object_name }, { "secretRef", object_name }, { 0 }
};

static const struct rule exec[] = { { "command" }, { 0 } };
static const struct rule tcp_socket[] = {
	{ "port" },
	{ "host", .no = "a probe always goes to the Pod's own address" },
	{ 0 },
};
static const struct rule http_header[] = {
	{ "name", .wrong = wrong_header },
	{ "value", .wrong = wrong_header },
	{ 0 },
};
static const struct rule grpc[] = { { "port" }, { "service" }, { 0 } };
static const struct rule http_get[] = {
	{ "path", .wrong = wrong_header },
	{ "port" },
	{ "scheme", .values = ONLY("HTTP", "HTTPS") },
	{ "httpHeaders", http_header },
	{ "host", .no = "a probe always goes to the Pod's own address" },
	{ 0 },
};
static const struct rule probe[] = {
	{ "exec", exec },
	{ "httpGet", http_get },
	{ "tcpSocket", tcp_socket },
	{ "grpc", grpc },
	{ "initialDelaySeconds" },
	{ "periodSeconds" },
	{ "timeoutSeconds" },
	{ "successThreshold" },
	{ "failureThreshold" },
	{ "terminationGracePeriodSeconds" },
	{ 0 },
};
static const struct rule hook_sleep[] = { { "seconds" }, { 0 } };
static const struct rule hook[] = {
	{ "exec", exec },
	{ "httpGet", http_get },
	{ "tcpSocket", tcp_socket },
	{ "sleep", hook_sleep },
	{ 0 },
};
static const struct rule lifecycle[] = {
	{ "postStart", hook },
	{ "preStop", hook },
	{ 0 },
};

static const struct rule ports[] = { { "name" }, { "containerPort" }, { "protocol" }, { 0 } };
static const struct rule mounts[] = {
	{ "name" },
	{ "mountPath", .wrong = wrong_mount_path },
	{ "readOnly" },
	{ "subPath" },
	{ "subPathExpr" },
	{ "mountPropagation", .values = ONLY("None") },
	/* A volume has no mounts in it: what is read-only is so as a whole. */
	{ "recursiveReadOnly", .values = ONLY("Disabled", "IfPossible", "Enabled") },
	{ 0 },
};

/* Limits of disk space are refused where nothing enforces them: check_disk.c. */
static const struct rule limits[] = { { "cpu" }, { "memory" }, { "ephemeral-storage" }, { 0 } };
static const struct rule requests[] = {
	{ "cpu" },
	{ "memory" },
	{ "ephemeral-storage", .idle = "space is not set aside; the limit is kept" },
	{ 0 },
};
static const struct rule resources[] = { { "limits", limits }, { "requests", requests }, { 0 } };
static const struct rule no_resources[] = { { 0 } }; /* a Pod's own; {} is fine */
static const struct rule resize_policy[] = {
	{ "resourceName" },
	{ "restartPolicy", .values = ONLY("NotRequired", "RestartContainer") },
	{ 0 },
};

static const struct rule seccomp_profile[] = { { "type", .values = ONLY("RuntimeDefault") },
					       { 0 } };
static const struct rule apparmor_profile[] = { { "type", .values = ONLY("Unconfined") }, { 0 } };
static const struct rule capabilities[] = {
	{ "add", .wrong = wrong_capability },
	{ "drop" },
	{ 0 },
};
/* clang-format off */
#define SECURITY_ROWS \
	{ "runAsUser", .wrong = wrong_id }, \
	{ "runAsGroup", .wrong = wrong_id }, \
	{ "runAsNonRoot" }, \
	{ "readOnlyRootFilesystem" }, \
	{ "seccompProfile", seccomp_profile }, \
	{ "appArmorProfile", apparmor_profile }, \
	{ "procMount", .values = ONLY("Default") }, \
	{ "allowPrivilegeEscalation", \
	  .no = "nothing in a sandbox gains privileges; leave it out or set it to false" }
/* clang-format on */

static const struct rule security[] = { SECURITY_ROWS, { "capabilities", capabilities }, { 0 } };
static const struct rule debug_capabilities[] = {
	{ "add", .wrong = wrong_debug_capability },
	{ "drop" },
	{ 0 },
};
static const struct rule debug_security[] = { SECURITY_ROWS,
					      { "capabilities", debug_capabilities },
					      { 0 } };
static const struct rule pod_security[] = {
	{ "runAsUser", .wrong = wrong_id },
	{ "runAsGroup", .wrong = wrong_id },
	{ "runAsNonRoot" },
	{ "fsGroup", .wrong = wrong_id },
	{ "fsGroupChangePolicy", .values = ONLY("OnRootMismatch", "Always") },
	{ "supplementalGroups", .wrong = wrong_id },
	{ "supplementalGroupsPolicy", .values = ONLY("Strict") }, /* images' groups are not read */
	{ "seccompProfile", seccomp_profile },
	{ "appArmorProfile", apparmor_profile },
	{ 0 },
};

/* clang-format off */
#define CONTAINER_ROWS \
	{ "name" }, \
	{ "image" }, \
	{ "imagePullPolicy" }, \
	{ "command" }, \
	{ "args" }, \
	{ "workingDir" }, \
	{ "env", env }, \
	{ "envFrom", env_from }, \
	{ "ports", ports }, \
	{ "resources", resources }, \
	{ "resizePolicy", resize_policy }, \
	{ "volumeMounts", mounts }, \
	{ "livenessProbe", probe }, \
	{ "readinessProbe", probe }, \
	{ "startupProbe", probe }, \
	{ "lifecycle", lifecycle }, \
	{ "stdin" }, \
	{ "stdinOnce" }, \
	{ "tty" }, \
	{ "terminationMessagePath", .wrong = wrong_message_path }, \
	{ "terminationMessagePolicy", .values = ONLY("File", "FallbackToLogsOnError") }
/* clang-format on */

static const struct rule container[] = {
	CONTAINER_ROWS,
	{ "securityContext", security },
	{ "restartPolicy", .no = "set that of the Pod; sidecars go into spec.initContainers" },
	{ 0 },
};
static const struct rule init_container[] = {
	CONTAINER_ROWS,
	{ "securityContext", security },
	{ "restartPolicy", .values = ONLY("Always") },
	{ 0 },
};

static const struct rule ephemeral_container[] = {
	CONTAINER_ROWS,
	{ "securityContext", debug_security },
	{ "targetContainerName", .idle = "every container has processes of its own" },
	{ 0 },
};

static const struct rule key_items[] = { { "key" }, { "path" }, { "mode" }, { 0 } };
static const struct rule field_items[] = { { "path" },
					   { "mode" },
					   { "fieldRef", field_ref },
					   { "resourceFieldRef", resource_ref },
					   { 0 } };
static const struct rule empty_dir[] = {
	{ "medium", .values = ONLY("Memory") },
	{ "sizeLimit" },
	{ 0 },
};
static const struct rule pvc[] = { { "claimName" }, { "readOnly" }, { 0 } };
/* It becomes a claim, about which the API server decides. */
static const struct rule claim_meta[] = { { "labels" }, { "annotations" }, { 0 } };
static const struct rule claim_template[] = { { "metadata", claim_meta }, { "spec" }, { 0 } };
static const struct rule ephemeral[] = { { "volumeClaimTemplate", claim_template }, { 0 } };
static const struct rule host_path[] = {
	{ "path" },
	{ "type", .values = ONLY("", "Directory", "File", "DirectoryOrCreate", "FileOrCreate") },
	{ 0 },
};
static const struct rule config_map[] = {
	{ "name" }, { "optional" }, { "items", key_items }, { "defaultMode" }, { 0 }
};
static const struct rule secret[] = {
	{ "secretName" }, { "optional" }, { "items", key_items }, { "defaultMode" }, { 0 }
};
static const struct rule downward[] = { { "items", field_items }, { "defaultMode" }, { 0 } };
static const struct rule object_items[] = {
	{ "name" }, { "optional" }, { "items", key_items }, { 0 }
};
static const struct rule downward_items[] = { { "items", field_items }, { 0 } };
static const struct rule token[] = { { "audience" }, { "expirationSeconds" }, { "path" }, { 0 } };
static const struct rule projected_sources[] = {
	{ "configMap", object_items },
	{ "secret", object_items },
	{ "downwardAPI", downward_items },
	{ "serviceAccountToken", token },
	{ 0 },
};
static const struct rule projected[] = { { "sources", projected_sources },
					 { "defaultMode" },
					 { 0 } };
static const struct rule volume[] = {
	{ "name" },
	{ "emptyDir", empty_dir },
	{ "persistentVolumeClaim", pvc },
	{ "configMap", config_map },
	{ "secret", secret },
	{ "projected", projected },
	{ "downwardAPI", downward },
	{ "ephemeral", ephemeral },
	{ "hostPath", host_path }, /* what is allowed is a setting: volume/host_path.h */
	{ 0 },
};

static const struct rule host_alias[] = { { "ip" }, { "hostnames" }, { 0 } };
static const struct rule dns_option[] = { { "name" }, { "value" }, { 0 } };
static const struct rule dns_config[] = {
	{ "nameservers" }, { "searches" }, { "options", dns_option }, { 0 }
};

/* Constraints on the choice of a node: wishes are vain, conditions are kept or refused. */
static const char one_node[] = "a wish about the choice among nodes, and there is one";
static const struct rule node_labels[] = {
	{ "kubernetes.io/os", .values = ONLY("linux") },
	{ "kubernetes.io/arch", .wrong = wrong_arch },
	{ "kubernetes.io/hostname", .wrong = wrong_node_name },
	{ 0 },
};
static const struct rule preferred[] = {
	{ "preferredDuringSchedulingIgnoredDuringExecution", .idle = one_node }, { 0 }
};
static const struct rule affinity[] = { { "nodeAffinity", preferred },
					{ "podAffinity", preferred },
					{ "podAntiAffinity", preferred },
					{ 0 } };
static const char one_domain[] = "one node is one domain, so that its skew is always 0";
static const struct rule spread[] = {
	{ "maxSkew", .idle = one_domain },
	{ "topologyKey", .idle = one_domain },
	{ "whenUnsatisfiable", .idle = one_domain },
	{ "labelSelector", .idle = one_domain },
	{ "matchLabelKeys", .idle = one_domain },
	{ "nodeAffinityPolicy", .idle = one_domain },
	{ "nodeTaintsPolicy", .idle = one_domain },
	{ "minDomains", .wrong = wrong_min_domains },
	{ 0 },
};
static const struct rule os[] = { { "name", .values = ONLY("linux") }, { 0 } };

static const struct rule pod[] = {
	{ "containers", container },
	{ "initContainers", init_container },
	{ "ephemeralContainers", .idle = "each is looked at when it starts" },
	{ "volumes", volume },
	{ "restartPolicy" },
	{ "terminationGracePeriodSeconds" },
	{ "activeDeadlineSeconds" },
	{ "dnsConfig", dns_config },
	{ "dnsPolicy",
	  .values = ONLY("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None") },
	{ "hostname" },
	{ "subdomain" },
	{ "hostAliases", host_alias },
	{ "nodeName" },
	{ "securityContext", pod_security },
	{ "runtimeClassName" }, /* runtime_class.c */
	{ "os", os },
	{ "resources", no_resources },
	{ "nodeSelector", node_labels },
	{ "affinity", affinity },
	{ "topologySpreadConstraints", spread },
	{ "tolerations" }, /* a cordon is the only taint there is */
	{ "schedulerName", .idle = "the Pod has its node already" },
	{ "priority", .idle = "no Pod makes way for another" },
	{ "priorityClassName", .idle = "no Pod makes way for another" },
	{ "preemptionPolicy", .idle = "no Pod makes way for another" },
	{ "imagePullSecrets", object_name },
	{ "serviceAccountName" },
	{ "serviceAccount", .idle = "the old name of serviceAccountName" },
	{ "enableServiceLinks", .idle = "what Kubernetes fills in" },
	{ "automountServiceAccountToken", .idle = "the API server has made a volume of it" },
	{ "hostUsers", .no = "a sandbox always has user ids of its own; set it to false" },
	{ "shareProcessNamespace", .no = "every container has processes of its own" },
	{ 0 },
};

/* Where we are, from the root down; printed when something is wrong. */
struct at {
	const struct at *up;
	const char *name;
	size_t i; /* of an element; its name is NULL */
};

static void put_path(struct buf *b, const struct at *at)
{
	if (at->up)
		put_path(b, at->up);
	if (at->name)
		buf_printf(b, "%s%s", b->len ? "." : "", at->name);
	else
		buf_printf(b, "[%zu]", at->i);
}

static char *refuse(const struct at *at, const char *why)
{
	autobuf b = { 0 };

	put_path(&b, at);
	if (why)
		buf_printf(&b, ": %s", why);
	return buf_steal(&b, NULL);
}

/* An object that is there is a wish even when it is empty: a volume of that kind, a handler. */
static bool is_set(const struct json *v)
{
	switch (json_type(v)) {
	case JSON_NONE:
	case JSON_NULL:
	case JSON_TYPE_MAX_:
		return false;
	case JSON_ARR:
		return json_len(v) > 0;
	case JSON_BOOL:
		return json_bool(v, false);
	case JSON_STR:
		return !str_empty(json_str(v));
	case JSON_INT:
	case JSON_REAL:
		return json_real(v, 0) != 0;
	case JSON_OBJ:
		return true;
	}
	return true;
}

static char *check_members(const struct json *spec, const struct at *at, const struct rule *rules,
			   const struct json *obj);

static char *refuse_value(const struct at *at, const struct rule *r, const char *value)
{
	autobuf b = { 0 };

	buf_printf(&b, "\"%s\" is not supported, only", value);
	for (const char *const *v = r->values; *v; v++)
		buf_printf(&b, "%s \"%s\"", v == r->values ? "" : " or", *v);
	return refuse(at, buf_str(&b));
}

/* One value that has a row: a member, or each element of a list. */
static char *check_value(const struct json *spec, const struct at *at, const struct rule *r,
			 struct json *v)
{
	autofree char *why = NULL;

	if (json_is(v, JSON_ARR)) {
		size_t i = 0;

		json_each(it, v) {
			const struct at below = { at, NULL, i++ };
			char *bad = check_value(spec, &below, r, it.val);

			if (bad)
				return bad;
		}
		return NULL;
	}
	if (!is_set(v))
		return NULL;
	if (r->of)
		return check_members(spec, at, r->of, v);
	if (r->values && !str_in(str_or(json_str(v), ""), r->values))
		return refuse_value(at, r, str_or(json_str(v), ""));
	why = r->wrong ? r->wrong(v, spec) : NULL;
	return why ? refuse(at, why) : NULL;
}

static char *check_members(const struct json *spec, const struct at *at, const struct rule *rules,
			   const struct json *obj)
{
	json_each(m, obj) {
		const struct at below = { at, m.key, 0 };
		const struct rule *r = rules;
		char *bad;

		while (r->name && !str_eq(r->name, m.key))
			r++;
		if (r->name && !r->no)
			bad = check_value(spec, &below, r, m.val);
		else
			bad = is_set(m.val) ? refuse(&below, r->no) : NULL;
		if (bad)
			return bad;
	}
	return NULL;
}

static char *check_counts(const struct json *spec)
{
	static const char *const lists[] = { "containers", "initContainers" };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		size_t n = json_len(json_get(spec, lists[i]));

		if (n > POD_CONTAINERS_MAX)
			return xasprintf("spec.%s: %zu are more than the %d of a Pod", lists[i], n,
					 POD_CONTAINERS_MAX);
	}
	return NULL;
}

char *pod_unsupported(const struct json *spec)
{
	const struct at root = { NULL, "spec", 0 };
	char *bad = check_counts(spec);

	if (bad || !wall_stands("pod-allow-list"))
		return bad;
	return check_members(spec, &root, pod, spec);
}

char *container_unsupported(const struct json *spec, const char *name)
{
	static const char list[] = "ephemeralContainers";
	const struct at root = { NULL, "spec", 0 }, up = { &root, list, 0 };
	size_t i = 0;

	if (!wall_stands("pod-allow-list"))
		return NULL;
	json_each(it, json_get(spec, list)) {
		const struct at at = { &up, NULL, i++ };

		if (!str_eq(json_get_str(it.val, "name"), name))
			continue;
		return i > POD_CONTAINERS_MAX
			       ? xasprintf("more than %d ephemeral containers", POD_CONTAINERS_MAX)
			       : check_members(spec, &at, ephemeral_container, it.val);
	}
	return NULL;
}
