/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema_builtin_priv.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "node/pod/pod_priv.h"
#include "test.h"

static char *unsupported(const char *text)
{
	autoptr(json_doc) d = NULL;
	autofree char *json = xstrdup(text);
	char *bad;

	for (char *c = json; *c; c++)
		if (*c == '\'')
			*c = '"';
	works(json_parse(json, strlen(json), NULL, &d));
	bad = pod_unsupported(json_root(d));
	return bad ? bad : container_unsupported(json_root(d), NULL); /* one without a name */
}

/* Up to the reason, if there is one. */
static void eq_path(const char *text, const char *path)
{
	autofree char *start = path ? xasprintf("%s: ", path) : NULL;

	if (!path || !text || !str_starts(text, start))
		eq_str(text, path);
}

TEST(what_the_node_does_not_do_is_named)
{
	static const struct {
		const char *spec, *field;
	} rows[] = {
		{ "{'containers':[{'name':'a'}]}", NULL },
		{ "{'runtimeClassName':'native','containers':[]}", NULL },
		{ "{'runtimeClassName':'kata'}", NULL }, /* runtime_class.c */
		{ "{'hostNetwork':false,'hostUsers':false,'containers':[]}", NULL },
		{ "{'hostNetwork':true}", "spec.hostNetwork" },
		{ "{'hostUsers':true}", "spec.hostUsers" },
		{ "{'resources':{}}", NULL },
		{ "{'resources':{'limits':{'cpu':'1'}}}", "spec.resources.limits" },
		{ "{'volumes':[{'name':'a','emptyDir':{}},{'name':'b','hostPath':{'type':'Socket'}}]}",
		  "spec.volumes[1].hostPath.type" },
		{ "{'volumes':[{'name':'a','image':{}}]}", "spec.volumes[0].image" },
		{ "{'volumes':[{'emptyDir':{'medium':'HugePages'}}]}",
		  "spec.volumes[0].emptyDir.medium" },
		{ "{'volumes':[{'projected':{'sources':[{'secret':{'name':'a'}},"
		  "{'serviceAccountToken':{'path':'t','audience':'a'}}]}}]}",
		  NULL },
		{ "{'volumes':[{'projected':{'sources':[{'clusterTrustBundle':{'path':'t'}}]}}]}",
		  "spec.volumes[0].projected.sources[0].clusterTrustBundle" },
		{ "{'securityContext':{}}", NULL },
		{ "{'securityContext':{'seccompProfile':{'type':'RuntimeDefault'}}}", NULL },
		{ "{'securityContext':{'seccompProfile':{'type':'Unconfined'}}}",
		  "spec.securityContext.seccompProfile.type" },
		{ "{'securityContext':{'seccompProfile':{'type':'Localhost','localhostProfile':"
		  "'x'}}}",
		  "spec.securityContext.seccompProfile.type" },
		{ "{'securityContext':{'sysctls':[{'name':'a','value':'b'}]}}",
		  "spec.securityContext.sysctls" },
		{ "{'securityContext':{'runAsUser':65536}}", "spec.securityContext.runAsUser" },
		{ "{'securityContext':{'supplementalGroups':[1,70000]}}",
		  "spec.securityContext.supplementalGroups[1]" },
		{ "{'containers':[{'securityContext':{'privileged':true}}]}",
		  "spec.containers[0].securityContext.privileged" },
		{ "{'containers':[{'securityContext':{'allowPrivilegeEscalation':true}}]}",
		  "spec.containers[0].securityContext.allowPrivilegeEscalation" },
		{ "{'containers':[{'securityContext':{'capabilities':{'add':['CHOWN',"
		  "'CAP_SETUID','SYS_ADMIN'],'drop':['ALL']}}}]}",
		  "spec.containers[0].securityContext.capabilities.add[2]" },
		{ "{'initContainers':[{'lifecycle':{'stopSignal':'SIGINT'}}]}",
		  "spec.initContainers[0].lifecycle.stopSignal" },
		{ "{'initContainers':[{},{'restartPolicy':'Always'}]}", NULL },
		{ "{'initContainers':[{},{'restartPolicy':'OnFailure'}]}",
		  "spec.initContainers[1].restartPolicy" },
		{ "{'containers':[{'restartPolicy':'Always'}]}",
		  "spec.containers[0].restartPolicy" },
		{ "{'containers':[{'ports':[{'containerPort':80},{'hostPort':80}]}]}",
		  "spec.containers[0].ports[1].hostPort" },
		{ "{'containers':[{'volumeMounts':[{'mountPropagation':'None'}]}]}", NULL },
		{ "{'containers':[{'volumeMounts':[{},{'mountPropagation':'Bidirectional'}]}]}",
		  "spec.containers[0].volumeMounts[1].mountPropagation" },
		{ "{'containers':[{'volumeMounts':[{'mountPropagation':'Bidirectional'}]}]}",
		  "spec.containers[0].volumeMounts[0].mountPropagation" },
		{ "{'containers':[{'volumeMounts':[{'mountPath':'/a'}]}]}", NULL },
		{ "{'containers':[{'volumeMounts':[{'mountPath':'//./'}]}]}",
		  "spec.containers[0].volumeMounts[0].mountPath" },
		{ "{'containers':[{'readinessProbe':{'httpGet':{'port':80,'scheme':'HTTP'}}}]}",
		  NULL },
		{ "{'containers':[{'readinessProbe':{'httpGet':{'port':80,'host':'db'}}}]}",
		  "spec.containers[0].readinessProbe.httpGet.host" },
		{ "{'containers':[{'startupProbe':{'grpc':{'port':80,'service':'db'}}}]}", NULL },
		{ "{'containers':[{'lifecycle':{'preStop':{'grpc':{'port':80}}}}]}",
		  "spec.containers[0].lifecycle.preStop.grpc" },
		{ "{'containers':[{'readinessProbe':{'httpGet':{'port':80,'scheme':'HTTPS',"
		  "'httpHeaders':[{'name':'a','value':'b'}]}}}]}",
		  NULL },
		{ "{'containers':[{'readinessProbe':{'httpGet':{'port':80,"
		  "'httpHeaders':[{'name':'a','value':'b\\r\\nc: d'}]}}}]}",
		  "spec.containers[0].readinessProbe.httpGet.httpHeaders[0].value" },
		{ "{'containers':[{'resources':{'limits':{'cpu':'1','nvidia.com/gpu':'1'}}}]}",
		  "spec.containers[0].resources.limits.nvidia.com/gpu" },
		{ "{'nodeName':'n','nodeSelector':{'kubernetes.io/os':'linux',"
		  "'kubernetes.io/hostname':'n'}}",
		  NULL },
		{ "{'nodeSelector':{'sandbox.gke.io/runtime':'gvisor'}}",
		  "spec.nodeSelector.sandbox.gke.io/runtime" },
		{ "{'affinity':{'podAntiAffinity':{'preferredDuringSchedulingIgnoredDuring"
		  "Execution':[{}]}}}",
		  NULL },
		{ "{'affinity':{'podAntiAffinity':{'requiredDuringSchedulingIgnoredDuring"
		  "Execution':[{}]}}}",
		  "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution" },
		{ "{'topologySpreadConstraints':[{'maxSkew':1,'minDomains':2}]}",
		  "spec.topologySpreadConstraints[0].minDomains" },
		/* What an API server of Kubernetes fills in. */
		{ "{'dnsPolicy':'ClusterFirst','schedulerName':'default-scheduler','priority':0,"
		  "'preemptionPolicy':'PreemptLowerPriority','enableServiceLinks':true,"
		  "'tolerations':[{'key':'node.kubernetes.io/not-ready','operator':'Exists'}],"
		  "'containers':[{'terminationMessagePath':'/dev/termination-log',"
		  "'terminationMessagePolicy':'File','imagePullPolicy':'Always','resources':{},"
		  "'resizePolicy':[{'resourceName':'cpu','restartPolicy':'NotRequired'}]}]}",
		  NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *bad = unsupported(rows[i].spec);

		eq_path(bad, rows[i].field);
	}
}

TEST(a_pod_has_a_bounded_number_of_containers)
{
	for (int n = POD_CONTAINERS_MAX; n <= POD_CONTAINERS_MAX + 1; n++) {
		autobuf b = { 0 };
		autofree char *bad = NULL;

		buf_add_str(&b, "{'containers':[{}");
		for (int i = 1; i < n; i++)
			buf_add_str(&b, ",{}");
		buf_add_str(&b, "]}");
		bad = unsupported(buf_str(&b));
		eq_path(bad, n > POD_CONTAINERS_MAX ? "spec.containers" : NULL);
	}
}

/*
 * Every field of a Pod's schema, set to something that is surely not a default, one at a time. What
 * is accepted must be in the list below: somebody has decided about it. A field that a later
 * Kubernetes adds is refused by itself; so is one that is dropped from the list by mistake.
 */
static const char *const accepted[] = {
	"spec.activeDeadlineSeconds",
	"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution.",
	"spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution.",
	"spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution.",
	"spec.automountServiceAccountToken",
	"spec.containers.args",
	"spec.containers.command",
	"spec.containers.env.name",
	"spec.containers.env.value",
	"spec.containers.env.valueFrom.configMapKeyRef.key",
	"spec.containers.env.valueFrom.configMapKeyRef.name",
	"spec.containers.env.valueFrom.configMapKeyRef.optional",
	"spec.containers.env.valueFrom.fieldRef.fieldPath",
	"spec.containers.env.valueFrom.resourceFieldRef.containerName",
	"spec.containers.env.valueFrom.resourceFieldRef.divisor",
	"spec.containers.env.valueFrom.resourceFieldRef.resource",
	"spec.containers.env.valueFrom.secretKeyRef.key",
	"spec.containers.env.valueFrom.secretKeyRef.name",
	"spec.containers.env.valueFrom.secretKeyRef.optional",
	"spec.containers.envFrom.configMapRef.name",
	"spec.containers.envFrom.configMapRef.optional",
	"spec.containers.envFrom.prefix",
	"spec.containers.envFrom.secretRef.name",
	"spec.containers.envFrom.secretRef.optional",
	"spec.containers.image",
	"spec.containers.imagePullPolicy",
	"spec.containers.lifecycle.postStart.exec.command",
	"spec.containers.lifecycle.postStart.httpGet.httpHeaders.name",
	"spec.containers.lifecycle.postStart.httpGet.httpHeaders.value",
	"spec.containers.lifecycle.postStart.httpGet.path",
	"spec.containers.lifecycle.postStart.httpGet.port",
	"spec.containers.lifecycle.postStart.sleep.seconds",
	"spec.containers.lifecycle.postStart.tcpSocket.port",
	"spec.containers.lifecycle.preStop.exec.command",
	"spec.containers.lifecycle.preStop.httpGet.httpHeaders.name",
	"spec.containers.lifecycle.preStop.httpGet.httpHeaders.value",
	"spec.containers.lifecycle.preStop.httpGet.path",
	"spec.containers.lifecycle.preStop.httpGet.port",
	"spec.containers.lifecycle.preStop.sleep.seconds",
	"spec.containers.lifecycle.preStop.tcpSocket.port",
	"spec.containers.name",
	"spec.containers.ports.containerPort",
	"spec.containers.ports.name",
	"spec.containers.ports.protocol",
	"spec.containers.readinessProbe.exec.command",
	"spec.containers.readinessProbe.failureThreshold",
	"spec.containers.readinessProbe.grpc.port",
	"spec.containers.readinessProbe.grpc.service",
	"spec.containers.readinessProbe.httpGet.httpHeaders.name",
	"spec.containers.readinessProbe.httpGet.httpHeaders.value",
	"spec.containers.readinessProbe.httpGet.path",
	"spec.containers.readinessProbe.httpGet.port",
	"spec.containers.readinessProbe.initialDelaySeconds",
	"spec.containers.readinessProbe.periodSeconds",
	"spec.containers.readinessProbe.successThreshold",
	"spec.containers.readinessProbe.tcpSocket.port",
	"spec.containers.readinessProbe.terminationGracePeriodSeconds",
	"spec.containers.readinessProbe.timeoutSeconds",
	"spec.containers.resizePolicy.resourceName",
	"spec.containers.securityContext.capabilities.drop",
	"spec.containers.securityContext.readOnlyRootFilesystem",
	"spec.containers.securityContext.runAsGroup",
	"spec.containers.securityContext.runAsNonRoot",
	"spec.containers.securityContext.runAsUser",
	"spec.containers.stdin",
	"spec.containers.stdinOnce",
	"spec.containers.tty",
	"spec.containers.volumeMounts.mountPath",
	"spec.containers.volumeMounts.name",
	"spec.containers.volumeMounts.readOnly",
	"spec.containers.volumeMounts.subPath",
	"spec.containers.volumeMounts.subPathExpr",
	"spec.containers.workingDir",
	"spec.dnsConfig.nameservers",
	"spec.dnsConfig.options.name",
	"spec.dnsConfig.options.value",
	"spec.dnsConfig.searches",
	"spec.enableServiceLinks",
	"spec.ephemeralContainers.targetContainerName",
	"spec.hostAliases.hostnames",
	"spec.hostAliases.ip",
	"spec.hostname",
	"spec.imagePullSecrets.name",
	"spec.nodeName",
	"spec.preemptionPolicy",
	"spec.priority",
	"spec.priorityClassName",
	"spec.restartPolicy",
	"spec.runtimeClassName",
	"spec.schedulerName",
	"spec.securityContext.fsGroup",
	"spec.securityContext.runAsGroup",
	"spec.securityContext.runAsNonRoot",
	"spec.securityContext.runAsUser",
	"spec.securityContext.supplementalGroups",
	"spec.serviceAccount",
	"spec.serviceAccountName",
	"spec.subdomain",
	"spec.terminationGracePeriodSeconds",
	"spec.tolerations.effect",
	"spec.tolerations.key",
	"spec.tolerations.operator",
	"spec.tolerations.tolerationSeconds",
	"spec.tolerations.value",
	"spec.topologySpreadConstraints.labelSelector.",
	"spec.topologySpreadConstraints.matchLabelKeys",
	"spec.topologySpreadConstraints.maxSkew",
	"spec.topologySpreadConstraints.nodeAffinityPolicy",
	"spec.topologySpreadConstraints.nodeTaintsPolicy",
	"spec.topologySpreadConstraints.topologyKey",
	"spec.topologySpreadConstraints.whenUnsatisfiable",
	"spec.volumes.configMap.defaultMode",
	"spec.volumes.configMap.items.key",
	"spec.volumes.configMap.items.mode",
	"spec.volumes.configMap.items.path",
	"spec.volumes.configMap.name",
	"spec.volumes.configMap.optional",
	"spec.volumes.downwardAPI.defaultMode",
	"spec.volumes.downwardAPI.items.fieldRef.fieldPath",
	"spec.volumes.downwardAPI.items.mode",
	"spec.volumes.downwardAPI.items.path",
	"spec.volumes.downwardAPI.items.resourceFieldRef.containerName",
	"spec.volumes.downwardAPI.items.resourceFieldRef.divisor",
	"spec.volumes.downwardAPI.items.resourceFieldRef.resource",
	"spec.volumes.emptyDir.sizeLimit",
	"spec.volumes.ephemeral.volumeClaimTemplate.metadata.annotations.",
	"spec.volumes.ephemeral.volumeClaimTemplate.metadata.labels.",
	"spec.volumes.ephemeral.volumeClaimTemplate.spec.",
	"spec.volumes.hostPath.path", /* volume/host_path.h decides about its value */
	"spec.volumes.name",
	"spec.volumes.persistentVolumeClaim.claimName",
	"spec.volumes.persistentVolumeClaim.readOnly",
	"spec.volumes.projected.defaultMode",
	"spec.volumes.projected.sources.configMap.items.key",
	"spec.volumes.projected.sources.configMap.items.mode",
	"spec.volumes.projected.sources.configMap.items.path",
	"spec.volumes.projected.sources.configMap.name",
	"spec.volumes.projected.sources.configMap.optional",
	"spec.volumes.projected.sources.downwardAPI.items.fieldRef.fieldPath",
	"spec.volumes.projected.sources.downwardAPI.items.mode",
	"spec.volumes.projected.sources.downwardAPI.items.path",
	"spec.volumes.projected.sources.downwardAPI.items.resourceFieldRef.containerName",
	"spec.volumes.projected.sources.downwardAPI.items.resourceFieldRef.divisor",
	"spec.volumes.projected.sources.downwardAPI.items.resourceFieldRef.resource",
	"spec.volumes.projected.sources.secret.items.key",
	"spec.volumes.projected.sources.secret.items.mode",
	"spec.volumes.projected.sources.secret.items.path",
	"spec.volumes.projected.sources.secret.name",
	"spec.volumes.projected.sources.secret.optional",
	"spec.volumes.projected.sources.serviceAccountToken.audience",
	"spec.volumes.projected.sources.serviceAccountToken.expirationSeconds",
	"spec.volumes.projected.sources.serviceAccountToken.path",
	"spec.volumes.secret.defaultMode",
	"spec.volumes.secret.items.key",
	"spec.volumes.secret.items.mode",
	"spec.volumes.secret.items.path",
	"spec.volumes.secret.optional",
	"spec.volumes.secret.secretName",
};

struct walk {
	bool seen[ARRAY_LEN(accepted)];
	size_t n_refused;
};

/* The value of a leaf, as JSON. */
static const char *leaf_of(const struct type *t)
{
	switch (t->kind) {
	case TYPE_BOOL:
		return "true";
	case TYPE_INT32:
	case TYPE_INT64:
	case TYPE_NUMBER:
	case TYPE_INT_OR_STRING:
		return "7";
	case TYPE_QUANTITY:
		return "'3'";
	case TYPE_STRING:
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
	case TYPE_BYTES:
	case TYPE_ANY:
		return "'x'";
	case TYPE_OBJECT:
	case TYPE_MAP:
	case TYPE_LIST:
	case TYPE_KIND_MAX_:
		break;
	}
	return "{}";
}

/* Containers and probes are the same wherever they are. */
static char *canonical(const char *path)
{
	static const struct {
		const char *part, *as;
	} rows[] = {
		{ "spec.initContainers.", "spec.containers." },
		{ "spec.ephemeralContainers.", "spec.containers." },
		{ "spec.containers.livenessProbe.", "spec.containers.readinessProbe." },
		{ "spec.containers.startupProbe.", "spec.containers.readinessProbe." },
	};
	char *text = xstrdup(path);

	if (str_ends(path, ".targetContainerName"))
		return text;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_starts(text, rows[i].part)) {
			autofree char *was = text;

			text = xasprintf("%s%s", rows[i].as, was + strlen(rows[i].part));
		}
	return text;
}

/* A row that ends with a dot stands for everything below. */
static bool is_row(const char *row, const char *path)
{
	return str_ends(row, ".") ? str_starts(path, row) : str_eq(row, path);
}

static void try_leaf(struct walk *w, const char *path, const char *json)
{
	autofree char *bad = unsupported(json), *name = canonical(path);
	size_t i = 0;

	while (i < ARRAY_LEN(accepted) && !is_row(accepted[i], name))
		i++;
	if ((i == ARRAY_LEN(accepted)) == !bad)
		print_message("%s is %s: %s\n", path ? path : "", bad ? "refused" : "accepted",
			      json);
	is_true((i == ARRAY_LEN(accepted)) == (bad != NULL));
	if (bad)
		w->n_refused++;
	else
		w->seen[i] = true;
}

/* before and after are the JSON around the value. */
static void walk(struct walk *w, const struct type *t, const char *path, const char *before,
		 const char *after)
{
	autofree char *in = NULL, *out = NULL, *at = NULL;

	switch (t->kind) {
	case TYPE_LIST:
		in = xasprintf("%s[", before);
		out = xasprintf("]%s", after);
		walk(w, t->elem, path, in, out);
		return;
	case TYPE_MAP:
		in = xasprintf("%s{'x':", before);
		out = xasprintf("}%s", after);
		at = xasprintf("%s.*", path);
		walk(w, t->elem, at, in, out);
		return;
	case TYPE_OBJECT:
		for (const struct field *f = t->fields; f && f->name; f++) {
			autofree char *sub = xasprintf("%s.%s", path, f->name);
			autofree char *head = xasprintf("%s{'%s':", before, f->name);
			autofree char *tail = xasprintf("}%s", after);

			walk(w, f->type, sub, head, tail);
		}
		return;
	case TYPE_STRING:
	case TYPE_BOOL:
	case TYPE_INT32:
	case TYPE_INT64:
	case TYPE_NUMBER:
	case TYPE_INT_OR_STRING:
	case TYPE_QUANTITY:
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
	case TYPE_BYTES:
	case TYPE_ANY:
	case TYPE_KIND_MAX_:
		break;
	}
	in = xasprintf("%s%s%s", before, leaf_of(t), after);
	try_leaf(w, path, in);
}

TEST(every_field_of_a_pod_is_decided_about)
{
	struct walk w = { 0 };

	walk(&w, &type_core_pod_spec, "spec", "", "");
	is_true(w.n_refused > 300);
	for (size_t i = 0; i < ARRAY_LEN(accepted); i++)
		is_true(w.seen[i]);
}
