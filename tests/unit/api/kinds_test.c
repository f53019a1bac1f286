/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"

#include "api/meta.h"
#include "api_test.h"
#include "base/parse.h"

/* Defaults and rules of the kinds. The expected answers are a kube-apiserver's. */

static void admits(const struct kind *k, const char *object, const char *after)
{
	autoptr(json_doc) d = doc(object);
	struct causes c = { 0 };
	autofree char *text = NULL;

	admit(d, k, NULL, &c);
	text = causes_text(&c);
	if (c.n)
		print_error("%s\n", text);
	eq_int(c.n, 0);
	eq_json(json_root(d), after);
	causes_done(&c);
}

TEST(pod_gets_its_defaults)
{
	admits(kind_named("Pod"), "{'spec':{'containers':[{'name':'a','image':'x'}]}}",
	       "{'spec':{'containers':[{'name':'a','image':'x','imagePullPolicy':'Always',"
	       "'terminationMessagePath':'/dev/termination-log','terminationMessagePolicy':'File',"
	       "'resources':{}}],'restartPolicy':'Always','terminationGracePeriodSeconds':30,"
	       "'dnsPolicy':'ClusterFirst','serviceAccountName':'default',"
	       "'serviceAccount':'default','securityContext':{},"
	       "'schedulerName':'default-scheduler','enableServiceLinks':true},"
	       "'status':{'phase':'Pending','qosClass':'BestEffort'}}");
}

TEST(pull_policy_follows_the_tag)
{
	static const struct {
		const char *image, *policy;
	} rows[] = {
		{ "x", "Always" },
		{ "x:latest", "Always" },
		{ "x:1", "IfNotPresent" },
		{ "host:5000/x", "Always" },
		{ "host:5000/x:1", "IfNotPresent" },
		{ "x@sha256:0", "IfNotPresent" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc("{'spec':{'containers':[{'name':'a'}]}}");
		struct json *c = json_at_path(json_root(d), "spec.containers.0");

		json_set_str(d, c, "image", rows[i].image);
		kind_named("Pod")->defaults(d, NULL);
		eq_str(json_get_str(c, "imagePullPolicy"), rows[i].policy);
	}
}

TEST(limits_become_requests_and_quality_of_service)
{
	static const struct {
		const char *resources, *after, *qos;
	} rows[] = {
		{ "{'limits':{'cpu':0.5,'memory':'1024Mi'}}",
		  "{'limits':{'cpu':'500m','memory':'1Gi'},'requests':{'cpu':'500m','memory':'1Gi'}}",
		  "Guaranteed" },
		{ "{'requests':{'cpu':'1'}}", "{'requests':{'cpu':'1'}}", "Burstable" },
		{ "{'limits':{'cpu':'1'}}", "{'limits':{'cpu':'1'},'requests':{'cpu':'1'}}",
		  "Burstable" },
		{ "{'limits':{'nvidia.com/gpu':1}}",
		  "{'limits':{'nvidia.com/gpu':'1'},'requests':{'nvidia.com/gpu':'1'}}",
		  "BestEffort" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc("{'spec':{'containers':[{'name':'a','image':'x'}]}}");
		autoptr(json_doc) r = doc(rows[i].resources);
		struct json *c = json_at_path(json_root(d), "spec.containers.0");

		json_set(d, c, "resources", json_copy(d, json_root(r)));
		kind_named("Pod")->defaults(d, NULL);
		eq_json(json_get(c, "resources"), rows[i].after);
		eq_str(json_str(json_at_path(json_root(d), "status.qosClass")), rows[i].qos);
	}
}

TEST(pod_update_keeps_status)
{
	autoptr(json_doc) d = doc("{'spec':{},'status':{'phase':'Running'}}");

	kind_named("Pod")->defaults(d, json_root(d));
	eq_json(json_get(json_root(d), "status"), "{'phase':'Running'}");
}

TEST(other_kinds_get_their_defaults)
{
	admits(kind_named("Service"),
	       "{'metadata':{'name':'s'},'spec':{'ports':[{'port':80}],'selector':{'a':'b'}}}",
	       "{'metadata':{'name':'s'},'spec':{'ports':[{'port':80,'protocol':'TCP',"
	       "'targetPort':80}],'selector':{'a':'b'},'type':'ClusterIP','sessionAffinity':'None',"
	       "'internalTrafficPolicy':'Cluster'},'status':{'loadBalancer':{}}}");
	admits(kind_named("Service"),
	       "{'metadata':{'name':'s'},'spec':{'type':'LoadBalancer','sessionAffinity':'ClientIP',"
	       "'ports':[{'port':80,'targetPort':'web'}]}}",
	       "{'metadata':{'name':'s'},'spec':{'type':'LoadBalancer','sessionAffinity':'ClientIP',"
	       "'ports':[{'port':80,'targetPort':'web','protocol':'TCP'}],"
	       "'sessionAffinityConfig':{'clientIP':{'timeoutSeconds':10800}},"
	       "'externalTrafficPolicy':'Cluster','internalTrafficPolicy':'Cluster',"
	       "'allocateLoadBalancerNodePorts':true},'status':{'loadBalancer':{}}}");
	admits(kind_named("Service"),
	       "{'metadata':{'name':'s'},'spec':{'type':'ExternalName','externalName':'a.b',"
	       "'internalTrafficPolicy':'Local'}}",
	       "{'metadata':{'name':'s'},'spec':{'type':'ExternalName','externalName':'a.b',"
	       "'sessionAffinity':'None'},'status':{'loadBalancer':{}}}");
	admits(kind_named("PersistentVolumeClaim"),
	       "{'spec':{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':"
	       "'1024Mi'}}}}",
	       "{'spec':{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':'1Gi'}},"
	       "'volumeMode':'Filesystem'},'status':{'phase':'Pending'}}");
	admits(kind_named("Secret"), "{'stringData':{'a':'b'},'data':{'c':'ZA=='}}",
	       "{'data':{'c':'ZA==','a':'Yg=='},'type':'Opaque'}");
	admits(kind_named("Namespace"), "{'metadata':{'name':'n'}}",
	       "{'metadata':{'name':'n','labels':{'kubernetes.io/metadata.name':'n'}},"
	       "'spec':{'finalizers':['kubernetes']},'status':{'phase':'Active'}}");
	admits(kind_named("NetworkPolicy"), "{'spec':{'egress':[{'ports':[{'port':53}]}]}}",
	       "{'spec':{'egress':[{'ports':[{'port':53,'protocol':'TCP'}]}],'podSelector':{},"
	       "'policyTypes':['Ingress','Egress']}}");
}

TEST(rules_of_kinds_are_worded_like_kubernetes)
{
#define POD(spec) "{'metadata':{'name':'p'},'spec':{" spec "}}"
#define ONE(more) POD("'containers':[{'name':'a','image':'x'" more "}]")
	const struct {
		const struct kind *kind;
		const char *object, *text;
	} rows[] = {
		{ kind_named("Pod"), POD(""), "spec.containers: Required value" },
		{ kind_named("Pod"), POD("'containers':[]"), "spec.containers: Required value" },
		{ kind_named("Pod"), POD("'containers':[{'image':'x'}]"),
		  "spec.containers[0].name: Required value" },
		{ kind_named("Pod"), POD("'containers':[{'name':'a'}]"),
		  "spec.containers[0].image: Required value" },
		{ kind_named("Pod"),
		  POD("'containers':[{'name':'a','image':'x'},{'name':'a','image':'x'}]"),
		  "spec.containers[1].name: Duplicate value: \"a\"" },
		{ kind_named("Pod"),
		  POD("'containers':[{'name':'a','image':'x'}],'restartPolicy':'X'"),
		  "spec.restartPolicy: Unsupported value: \"X\": supported values: \"Always\", "
		  "\"OnFailure\", \"Never\"" },
		{ kind_named("Pod"), ONE(",'volumeMounts':[{'name':'v','mountPath':'/v'}]"),
		  "spec.containers[0].volumeMounts[0].name: Not found: \"v\"" },
		{ kind_named("Pod"), ONE(",'ports':[{'containerPort':70000}]"),
		  "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 "
		  "and 65535, inclusive" },
		{ kind_named("Pod"), ONE(",'env':[{'name':'A=B'}]"),
		  "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment "
		  "variable name must consist only of printable ASCII characters other than '='" },
		{ kind_named("Pod"),
		  ONE(",'resources':{'limits':{'cpu':'1'},'requests':{'cpu':'2'}}"),
		  "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or "
		  "equal to cpu limit of 1" },
		{ kind_named("Pod"), ONE(",'livenessProbe':{}"),
		  "spec.containers[0].livenessProbe: Required value: must specify a handler type" },
		{ kind_named("Service"), "{'metadata':{'name':'s'},'spec':{}}",
		  "spec.ports: Required value" },
		{ kind_named("Service"),
		  "{'metadata':{'name':'s'},'spec':{'type':'X','ports':[{'port':1}]}}",
		  "spec.type: Unsupported value: \"X\": supported values: \"ClusterIP\", "
		  "\"ExternalName\", \"LoadBalancer\", \"NodePort\"" },
		{ kind_named("PersistentVolumeClaim"), "{'spec':{'accessModes':['ReadWriteOnce']}}",
		  "spec.resources[storage]: Required value" },
		{ kind_named("Secret"), "{'type':'kubernetes.io/ssh-auth'}",
		  "data[ssh-privatekey]: Required value" },
		{ kind_named("Namespace"), "{'spec':{'finalizers':['x']}}",
		  "spec.finalizers[0]: Invalid value: \"x\": name is neither a standard finalizer "
		  "name nor is it fully qualified" },
		{ kind_named("Lease"), "{'spec':{'leaseDurationSeconds':0}}",
		  "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0" },
		{ kind_named("RuntimeClass"), "{'handler':''}", "handler: Required value" },
		{ kind_named("RuntimeClass"), "{'handler':'crun','overhead':{}}",
		  "overhead: Forbidden: not supported by this server" },
		{ kind_named("NetworkPolicy"), "{'spec':{'ingress':[{'from':[{}]}]}}",
		  "spec.ingress[0].from[0]: Required value: must specify a peer" },
		{ kind_named("Event"),
		  "{'metadata':{'namespace':'a'},'involvedObject':{'namespace':'b'}}",
		  "involvedObject.namespace: Invalid value: \"b\": does not match event.namespace" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc(rows[i].object);
		struct causes c = { 0 };
		autofree char *text = NULL;

		admit(d, rows[i].kind, NULL, &c);
		text = causes_text(&c);
		eq_str(text, rows[i].text);
		causes_done(&c);
	}
}

TEST(names_that_become_hosts_have_no_dots)
{
	static const char *const kinds[] = { "Namespace", "Service" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		autoptr(json_doc) d = doc("{'name':'a.b','namespace':'n'}");
		struct causes c = { 0 };
		autofree char *text = NULL;

		meta_validate(json_root(d), kind_named(kinds[i])->flags | KIND_NAMESPACED, NULL,
			      &c);
		text = causes_text(&c);
		eq_str(text, "metadata.name: Invalid value: \"a.b\": must not contain dots");
		causes_done(&c);
	}
}

/* The texts of causes after changing old into now, or "[]". */
static void changes(const struct kind *k, const char *old, const char *now, const char *text)
{
	autoptr(json_doc) was = doc(old);
	autoptr(json_doc) d = doc(now);
	struct causes c = { 0 };
	autofree char *have = NULL;

	k->validate(json_root(d), json_root(was), &c);
	have = causes_text(&c);
	if (!str_starts(have, text)) {
		print_error("have %s\nwant %s\n", have, text);
		fail();
	}
	causes_done(&c);
}

TEST(pod_may_change_its_image_and_little_else)
{
#define OF(name, image)                                                             \
	"{'name':'" name "','image':'" image "','terminationMessagePolicy':'File'," \
	"'imagePullPolicy':'Always'}"
#define WITH(more) "{'spec':{'containers':[" OF("a", "x") "]" more "}}"
	changes(kind_named("Pod"), WITH(""), "{'spec':{'containers':[" OF("a", "y") "]}}", "[]");
	changes(kind_named("Pod"), WITH(""), WITH(",'activeDeadlineSeconds':5"), "[]");
	changes(kind_named("Pod"), WITH(",'activeDeadlineSeconds':5"),
		WITH(",'activeDeadlineSeconds':6"), "spec.activeDeadlineSeconds: Invalid value: 6");
	changes(kind_named("Pod"), WITH(""),
		WITH(",'tolerations':[{'key':'a','operator':'Exists'}]"), "[]");
	changes(kind_named("Pod"), WITH(",'tolerations':[{'key':'a','operator':'Exists'}]"),
		WITH(""), "spec.tolerations: Forbidden: ");
	changes(kind_named("Pod"), WITH(",'schedulingGates':[{'name':'a/b'}]"), WITH(""), "[]");
	changes(kind_named("Pod"), WITH(",'schedulingGates':[{'name':'a/b'}]"),
		WITH(",'schedulingGates':[{'name':'a/c'}]"),
		"spec.schedulingGates[0].name: Forbidden: only deletion is allowed");
	changes(kind_named("Pod"), WITH(",'schedulingGates':[{'name':'a/b'}]"),
		WITH(",'nodeSelector':{'a':'b'}"), "[]");
	changes(kind_named("Pod"),
		WITH(",'schedulingGates':[{'name':'a/b'}],'nodeSelector':{'a':'b'}"),
		WITH(",'nodeSelector':{'a':'c'}"), "spec.nodeSelector: Invalid value: ");
	changes(kind_named("Pod"), WITH(""), WITH(",'nodeName':'n'"),
		"spec: Forbidden: pod updates may not change fields other than ");
	changes(kind_named("Pod"), WITH(""),
		"{'spec':{'containers':[" OF("a", "x") "," OF("b", "x") "]}}",
		"spec.containers: Forbidden: pod updates may not add or remove containers");
}

TEST(other_kinds_keep_what_is_immutable)
{
#define PORT "{'port':1,'targetPort':1,'protocol':'TCP'}"
#define CLAIM(size, more)                                                                    \
	"{'spec':{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':'" size \
	"'}}" more "},'status':{'phase':'Bound'}}"
	changes(kind_named("PersistentVolumeClaim"), CLAIM("1Gi", ""), CLAIM("2Gi", ""), "[]");
	changes(kind_named("PersistentVolumeClaim"), CLAIM("2Gi", ""), CLAIM("1Gi", ""),
		"spec.resources.requests.storage: Forbidden");
	changes(kind_named("PersistentVolumeClaim"), CLAIM("1Gi", ""),
		CLAIM("1Gi", ",'volumeName':'v'"), "[]");
	changes(kind_named("PersistentVolumeClaim"), CLAIM("1Gi", ",'volumeName':'v'"),
		CLAIM("1Gi", ",'volumeName':'w'"), "spec: Forbidden: spec is immutable");
	changes(kind_named("Secret"), "{'type':'a'}", "{'type':'b'}",
		"type: Invalid value: \"b\": field is immutable");
	changes(kind_named("Secret"), "{'immutable':true,'data':{'a':'Yg=='}}",
		"{'immutable':true}",
		"data: Forbidden: field is immutable when `immutable` is set");
	changes(kind_named("ConfigMap"), "{'immutable':true}", "{}", "immutable: Forbidden");
	changes(kind_named("Service"),
		"{'spec':{'clusterIP':'10.0.0.1','clusterIPs':['10.0.0.1'],'ports':[" PORT "]}}",
		"{'spec':{'clusterIP':'10.0.0.2','clusterIPs':['10.0.0.2'],'ports':[" PORT "]}}",
		"spec.clusterIPs[0]: Invalid value: ");
	changes(kind_named("EndpointSlice"), "{'addressType':'IPv4'}", "{'addressType':'IPv6'}",
		"addressType: Invalid value: \"IPv6\": field is immutable");
}

TEST(sandbox_volume_claim_templates_are_immutable_in_v1beta1_only)
{
#define VCT "'volumeClaimTemplates':[{'metadata':{'name':'d'},'spec':{}}]"
	changes(kind_named("Sandbox"), "{'spec':{}}", "{'spec':{" VCT "}}",
		"spec: Invalid value: volumeClaimTemplates is immutable");
	changes(kind_named("Sandbox"), "{'spec':{" VCT "}}", "{'spec':{}}",
		"spec: Invalid value: volumeClaimTemplates is immutable");
	changes(kind_named("Sandbox"), "{'spec':{" VCT "}}",
		"{'spec':{" VCT ",'operatingMode':'Suspended'}}", "[]");
	changes(kind_named("agents.x-k8s.io/v1alpha1 Sandbox"), "{'spec':{}}", "{'spec':{" VCT "}}",
		"[]");
}

TEST(sandbox_with_a_service_needs_a_short_name)
{
#define LONG        "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg"
#define NAMED(spec) "{'metadata':{'name':'" LONG "'},'spec':{" spec "}}"
	const struct kind *const both[] = { kind_named("Sandbox"),
					    kind_named("agents.x-k8s.io/v1alpha1 Sandbox") };

	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		autoptr(json_doc) d = doc(NAMED("'service':true"));
		struct causes c = { 0 };

		both[i]->validate(json_root(d), NULL, &c);
		eq_int(c.n, 1);
		eq_str(c.list[0].field, "metadata.name");
		causes_done(&c);
		changes(both[i], NAMED(""), NAMED("'service':true"),
			"metadata.name: Invalid value");
		changes(both[i], NAMED("'service':false"), NAMED("'service':true"),
			"metadata.name: Invalid value");
		changes(both[i], NAMED("'service':true"), NAMED("'service':true"), "[]");
		changes(both[i], NAMED(""), NAMED("'service':false"), "[]");
	}
}

/* §1.5: a Pod that a Pod's own rules would refuse is found out by the controller, not here. */
TEST(sandbox_template_is_not_judged_by_the_rules_of_pods)
{
	admits(kind_named("Sandbox"),
	       "{'metadata':{'name':'s'},'spec':{'podTemplate':{'spec':{'containers':[{'name':'A B'}],"
	       "'restartPolicy':'Sometimes'}}}}",
	       "{'metadata':{'name':'s'},'spec':{'podTemplate':{'spec':{'containers':[{'name':'A B'}],"
	       "'restartPolicy':'Sometimes'}},'shutdownPolicy':'Retain','operatingMode':'Running'}}");
}

TEST(a_secret_has_a_mebibyte_of_data_however_it_is_padded)
{
	static const struct {
		size_t len;
		bool ok;
	} rows[] = { { 1048574, true }, { 1048575, true }, { 1048576, true }, { 1048577, false } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *bytes = xcalloc(1, rows[i].len);
		autofree char *text = base64_encode(bytes, rows[i].len, false);
		autoptr(json_doc) d = doc("{'data':{}}");
		struct causes c = { 0 };

		json_set_str(d, json_get(json_root(d), "data"), "a", text);
		admit(d, kind_named("Secret"), NULL, &c);
		eq_int(!c.n, rows[i].ok);
		causes_done(&c);
	}
}
