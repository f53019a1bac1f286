/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/meta.h"
#include "base/buf.h"
#include "base/str.h"
#include "cli/manifests_priv.h"
#include "json/yaml_tree.h"

/*
 * `cay router` in a cluster: where clients look for upstream's router, by the same names and
 * labels. It may read Sandboxes and ask the API server about callers, and nothing else.
 */
/* clang-format off */
static const char objects[] =
"apiVersion: v1\n"
"kind: ServiceAccount\n"
"metadata: {name: sandbox-router}\n"
"---\n"
"apiVersion: rbac.authorization.k8s.io/v1\n"
"kind: ClusterRole\n"
"metadata: {name: sandbox-router}\n"
"rules:\n"
"- {apiGroups: [" GROUP_AGENTS "], resources: [sandboxes], verbs: [get, list, watch]}\n"
"- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}\n"
"- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}\n"
"---\n"
"apiVersion: rbac.authorization.k8s.io/v1\n"
"kind: ClusterRoleBinding\n"
"metadata: {name: sandbox-router}\n"
"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sandbox-router}\n"
"subjects:\n"
"- {kind: ServiceAccount, name: sandbox-router}\n"
"---\n"
"apiVersion: apps/v1\n"
"kind: Deployment\n"
"metadata:\n"
"  name: sandbox-router\n"
"  labels: &labels {app: sandbox-router, app.kubernetes.io/name: sandbox-router}\n"
"spec:\n"
"  replicas: 2\n"
"  selector: {matchLabels: {app.kubernetes.io/name: sandbox-router}}\n"
"  template:\n"
"    metadata: {labels: *labels}\n"
"    spec:\n"
"      serviceAccountName: sandbox-router\n"
"      terminationGracePeriodSeconds: 40\n"
"      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}\n"
"      topologySpreadConstraints:\n"
"      - maxSkew: 1\n"
"        topologyKey: kubernetes.io/hostname\n"
"        whenUnsatisfiable: ScheduleAnyway\n"
"        labelSelector: {matchLabels: {app.kubernetes.io/name: sandbox-router}}\n"
"      containers:\n"
"      - name: router\n"
"        image: cay\n"
"        args: [router]\n"
"        ports:\n"
"        - {name: proxy, containerPort: 8080}\n"
"        - {name: metrics, containerPort: 9090}\n"
"        - {name: probes, containerPort: 8081}\n"
"        livenessProbe: {httpGet: {path: /healthz, port: probes}}\n"
"        readinessProbe: {httpGet: {path: /readyz, port: probes}, periodSeconds: 2}\n"
/* Long enough for everybody to learn that this one is going, before it stops listening. */
"        lifecycle: {preStop: {sleep: {seconds: 5}}}\n"
"        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 512Mi}}\n"
"        securityContext:\n"
"          allowPrivilegeEscalation: false\n"
"          readOnlyRootFilesystem: true\n"
"          capabilities: {drop: [ALL]}\n"
"---\n"
"apiVersion: v1\n"
"kind: Service\n"
"metadata: {name: sandbox-router-svc, labels: {app: sandbox-router, app.kubernetes.io/name: sandbox-router}}\n"
"spec:\n"
"  selector: {app.kubernetes.io/name: sandbox-router}\n"
"  ports:\n"
"  - {name: proxy, port: 8080, targetPort: proxy}\n"
"---\n"
"apiVersion: policy/v1\n"
"kind: PodDisruptionBudget\n"
"metadata: {name: sandbox-router}\n"
"spec:\n"
"  minAvailable: 1\n"
"  selector: {matchLabels: {app.kubernetes.io/name: sandbox-router}}\n";
/* clang-format on */

static bool in_namespace(const struct json *o)
{
	return !str_starts(json_get_str(o, "kind"), "Cluster");
}

static void place(struct json_doc *d, struct json *o, const char *ns, const char *image)
{
	struct json *subject = json_at_path(o, "subjects.0");
	struct json *container = json_at_path(o, "spec.template.spec.containers.0");

	if (in_namespace(o))
		json_set_str(d, json_get(o, "metadata"), "namespace", ns);
	if (subject)
		json_set_str(d, subject, "namespace", ns);
	if (container)
		json_set_str(d, container, "image", image);
}

struct err *manifests_add_router(struct json_doc *d, struct json *list,
				 const struct router_place *at)
{
	autoptr(json_doc) all = NULL;
	struct err *e = yaml_parse_all(objects, sizeof(objects) - 1, &all);

	if (e)
		return err_recode(e, ERR_INTERNAL);
	json_each(it, json_root(all)) {
		struct json *o = json_copy(d, it.val);

		place(d, o, at->ns, at->image);
		json_push(d, list, o);
	}
	return NULL;
}
