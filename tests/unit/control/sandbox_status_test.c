/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/sandbox/sandbox_priv.h"
#include "fixture.h"
#include "kinds.h"

/* Conditions and status of Sandboxes: cases 30 to 53 and 110 of docs/reference/cases.md, U15 and
 * U22. */

#define META "'metadata':{'name':'box','namespace':'ns','uid':'u1','generation':7}"
#define POD_META                                                        \
	"'metadata':{'name':'box','namespace':'ns','ownerReferences':[" \
	"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','name':'box','uid':'u1','controller':true}]}"
#define SCHEDULED "{'type':'PodScheduled','status':'True'}"

struct scene {
	const char *name;
	const char *spec;  /* of the Sandbox */
	const char *old;   /* its status, NULL: none */
	const char *pod;   /* status of its Pod, NULL: no Pod */
	const char *extra; /* in the Pod's metadata */
	bool foreign;
	size_t n_owned; /* when not 0 or 1 */
	bool required, exists;
	const char *e_pvc, *e_pod;
	enum err_code code;
	const char *suspended, *finished, *scheduled, *ready;
};

static struct object *pod_of(const struct scene *s)
{
	if (!s->pod)
		return NULL;
	if (s->foreign)
		return object_of_f(kind_named("Pod"),
				   "{'metadata':{'name':'box','namespace':'ns'},'status':%s}",
				   s->pod);
	return object_of_f(kind_named("Pod"), "{" POD_META "%s,'status':%s}",
			   s->extra ? s->extra : "", s->pod);
}

static void check(const struct scene *s)
{
	autoptr(object) sb = object_of_f(kind_named("Sandbox"), "{" META ",'spec':%s,'status':%s}",
					 s->spec ? s->spec : "{}", s->old ? s->old : "{}");
	autoptr(object) pod = pod_of(s);
	autoptr(err) e_pvc = s->e_pvc ? err_new(ERR_SYS, "%s", s->e_pvc) : NULL;
	autoptr(err) e_pod = s->e_pod ? err_new(s->code ? s->code : ERR_SYS, "%s", s->e_pod) : NULL;
	const struct sandbox_pod_plan plan = { .pod = pod,
					       .owned = pod && !s->foreign,
					       .n_owned = s->n_owned ? s->n_owned
								     : pod && !s->foreign };
	const struct service_plan service = { .required = s->required, .exists = s->exists };
	const struct sandbox_facts v = { sb,   &plan, &service,        e_pvc,  e_pod,
					 NULL, false, "cluster.local", 1000000 };
	autoptr(json_doc) d = sandbox_status(&v);
	const struct json *status = json_root(d);

	if (s->suspended)
		eq_str(condition_text(status, "Suspended"), s->suspended);
	if (s->finished)
		eq_str(condition_text(status, "Finished"), s->finished);
	if (s->scheduled)
		eq_str(condition_text(status, "PodScheduled"), s->scheduled);
	eq_str(condition_text(status, "Ready"), s->ready);
	json_each(c, json_get(status, "conditions"))
		eq_int(json_get_int(c.val, "observedGeneration", 0), 7);
}

#define NOT_SUSPENDED  "False/NotSuspended/Sandbox is not suspended"
#define SUSPENDED_SPEC "{'operatingMode':'Suspended'}"

TEST(cases_30_to_34_what_ready_says)
{
	static const struct scene rows[] = {
		{ "30", .required = true, .suspended = NOT_SUSPENDED, .scheduled = "-",
		  .ready =
			  "False/DependenciesNotReady/Pod does not exist; Service does not exist" },
		{ "31", .required = true, .exists = true,
		  .ready = "False/DependenciesNotReady/Pod does not exist; Service Exists" },
		{ "32", .pod = "{'phase':'Pending'}", .required = true, .exists = true,
		  .scheduled = "Unknown/PodSchedulingUnknown/Pod has not reported a PodScheduled "
			       "condition yet",
		  .ready =
			  "False/DependenciesNotReady/Pod exists with phase: Pending; Service Exists" },
		{ "33", .pod = "{'phase':'Running','conditions':[" SCHEDULED "]}", .required = true,
		  .exists = true, .scheduled = "True/PodScheduled/",
		  .ready =
			  "False/DependenciesNotReady/Pod is Running but not Ready; Service Exists" },
		{ "34",
		  .pod = "{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}",
		  .required = true, .exists = true,
		  .ready = "False/DependenciesNotReady/Pod is Ready but has no podIPs yet; Service "
			   "Exists" },
		{ "54", .pod = "{}",
		  .ready = "False/DependenciesNotReady/Pod exists with phase: " },
		{ "58",
		  .pod = "{'phase':'Running','podIPs':[{'ip':'10.0.0.1'}],'conditions':[{'type':'Ready',"
			 "'status':'True'}]}",
		  .ready = "True/DependenciesReady/Pod is Ready" },
		{ "56",
		  .pod = "{'phase':'Running','podIPs':[{'ip':'10.0.0.1'}],'conditions':[{'type':'Ready',"
			 "'status':'True'}]}",
		  .required = true, .exists = true,
		  .ready = "True/DependenciesReady/Pod is Ready; Service Exists" },
		{ "42", .pod = "{'phase':'Unknown'}", .required = true, .exists = true,
		  .ready =
			  "False/DependenciesNotReady/Pod exists with phase: Unknown; Service Exists" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i]);
}

TEST(cases_35_to_41_suspension)
{
	static const struct scene rows[] = {
		{ "35", SUSPENDED_SPEC, .pod = "{'phase':'Running'}",
		  .suspended = "False/PodTerminating/Pod is terminating. Sandbox is suspending",
		  .ready = "False/SandboxSuspended/Sandbox is suspending" },
		{ "36", SUSPENDED_SPEC, .pod = "{'phase':'Running'}", .foreign = true,
		  .suspended = "False/PodNotOwned/Refused to delete pod because it is not owned by "
			       "this sandbox",
		  .scheduled = "-", .ready = "False/SandboxSuspended/Sandbox is suspending" },
		{ "37", SUSPENDED_SPEC, .pod = "{'phase':'Running'}",
		  .e_pod = "failed to delete pod: boom",
		  .suspended = "False/PodTerminating/Pod is terminating. Sandbox is suspending",
		  .ready = "False/ReconcilerError/Error seen: failed to delete pod: boom" },
		{ "38", SUSPENDED_SPEC,
		  .suspended = "True/PodTerminated/Pod has been terminated. Sandbox is suspended",
		  .ready = "False/SandboxSuspended/Sandbox is suspended" },
		{ "39", SUSPENDED_SPEC, .e_pod = "x",
		  .suspended = "Unknown/PodStateUnknown/Pod state is unknown. Sandbox suspension "
			       "cannot be confirmed",
		  .ready = "False/ReconcilerError/Error seen: x" },
		{ "40", .e_pod = "x",
		  .scheduled = "Unknown/PodSchedulingUnknown/Pod state is unknown. Pod scheduling "
			       "cannot be determined",
		  .ready = "False/ReconcilerError/Error seen: x" },
		{ "41", .old = "{'conditions':[{'type':'Suspended','status':'True'}]}",
		  .suspended = NOT_SUSPENDED,
		  .ready = "False/DependenciesNotReady/Pod does not exist" },
		{ "51", SUSPENDED_SPEC,
		  .old = "{'conditions':[{'type':'PodScheduled','status':'True'}]}",
		  .scheduled = "-", .ready = "False/SandboxSuspended/Sandbox is suspended" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i]);
}

TEST(cases_43_to_50_ends_and_errors)
{
	static const struct scene rows[] = {
		{ "43", .pod = "{'phase':'Failed'}", .finished = "True/PodFailed/Pod failed",
		  .ready = "False/PodFailed/Pod failed" },
		{ "43", .pod = "{'phase':'Failed','reason':'OutOfpods','message':'too many'}",
		  .finished = "True/PodFailed/Pod failed: OutOfpods: too many",
		  .ready = "False/PodFailed/Pod failed: OutOfpods: too many" },
		{ "44", .pod = "{'phase':'Succeeded'}",
		  .finished = "True/PodSucceeded/Pod completed successfully",
		  .ready = "False/PodSucceeded/Pod completed successfully" },
		{ "45", SUSPENDED_SPEC, .pod = "{'phase':'Succeeded'}", .foreign = true,
		  .finished = "-", .ready = "False/SandboxSuspended/Sandbox is suspending" },
		{ "46", .e_pvc = "something went wrong",
		  .ready = "False/ReconcilerError/Error seen: something went wrong" },
		{ "46b", .e_pvc = "one", .e_pod = "two",
		  .ready = "False/ReconcilerError/Error seen: one\ntwo" },
		{ "47",
		  .pod = "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False',"
			 "'reason':'Unschedulable','message':'0/3 nodes'}]}",
		  .scheduled = "False/Unschedulable/0/3 nodes",
		  .ready = "False/DependenciesNotReady/Pod exists with phase: Pending; "
			   "Unschedulable: 0/3 nodes" },
		{ "48",
		  .pod = "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False',"
			 "'reason':'SchedulingGated','message':'gated'}]}",
		  .scheduled = "False/SchedulingGated/gated",
		  .ready = "False/DependenciesNotReady/Pod exists with phase: Pending; "
			   "SchedulingGated: gated" },
		{ "49",
		  .pod = "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False'}]}",
		  .scheduled = "False/PodSchedulingUnknown/",
		  .ready = "False/DependenciesNotReady/Pod exists with phase: Pending" },
		{ "50", .n_owned = 2, .e_pvc = "unrelated",
		  .ready = "False/MultiplePods/multiple Pods (2) are controlled by this Sandbox; "
			   "refusing to choose or create a Pod" },
		{ "U15", .e_pod = "spec.containers[0].image: Required value", .code = ERR_INVALID,
		  .ready = "False/InvalidConfiguration/Error seen: spec.containers[0].image: "
			   "Required value" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i]);
}

#define STATE(list, rest) "'" list "':[{'name':'main'," rest "}]"
#define WAITING(why)      STATE("containerStatuses", "'state':{'waiting':{" why "}}")
#define ENDED(code, why)  "'state':{'terminated':{'exitCode':" #code ",'reason':'" why "'}}"
#define PENDING           "False/DependenciesNotReady/Pod exists with phase: Pending"
#define RUNNING           "False/DependenciesNotReady/Pod is Running but not Ready"

TEST(ready_goes_on_with_what_keeps_the_pod_from_it)
{
	static const struct scene rows[] = {
		{ "no image",
		  .pod = "{'phase':'Pending'," WAITING(
			  "'reason':'ImagePullBackOff','message':'no image named x'") "}",
		  .required = true, .exists = true,
		  .ready = PENDING "; Service Exists; container main: ImagePullBackOff: no image "
				   "named x" },
		{ "no volume",
		  .pod = "{'phase':'Pending'," WAITING(
			  "'reason':'ContainerCreating','message':'secret s not found'") "}",
		  .ready = PENDING "; container main: ContainerCreating: secret s not found" },
		{ "starting",
		  .pod = "{'phase':'Pending'," WAITING("'reason':'ContainerCreating'") "}",
		  .ready = PENDING },
		{ "initializing",
		  .pod = "{'phase':'Pending'," WAITING("'reason':'PodInitializing'") "}",
		  .ready = PENDING },
		{ "init failed",
		  .pod = "{'phase':'Pending'," STATE("initContainerStatuses",
						     ENDED(3, "Error")) "}",
		  .ready = PENDING "; container main: Error, exit code 3" },
		{ "crash",
		  .pod = "{'phase':'Running'," STATE(
			  "containerStatuses",
			  "'state':{'waiting':{'reason':'CrashLoopBackOff','message':'back-off 10s'}},"
			  "'lastState':{'terminated':{'exitCode':137,'reason':'OOMKilled',"
			  "'message':'a\\nb'}}") "}",
		  .ready =
			  RUNNING "; container main: CrashLoopBackOff: back-off 10s; it last ended "
				  "with OOMKilled, exit code 137: a b" },
		{ "init done, one ended",
		  .pod = "{'phase':'Running'," STATE(
			  "initContainerStatuses",
			  ENDED(0, "Completed")) "," STATE("containerStatuses",
							   ENDED(2, "Error")) "}",
		  .ready = RUNNING "; container main: Error, exit code 2" },
		{ "probe",
		  .pod = "{'phase':'Running','conditions':[{'type':'Ready','status':'False',"
			 "'reason':'ContainersNotReady','message':'containers with unready status: "
			 "[main]'}]," STATE("containerStatuses", "'state':{'running':{}}") "}",
		  .ready = RUNNING "; containers with unready status: [main]" },
		{ "gate",
		  .pod = "{'phase':'Running','conditions':[{'type':'Ready','status':'False',"
			 "'reason':'ReadinessGatesNotReady','message':'m'}]}",
		  .ready = RUNNING "; ReadinessGatesNotReady: m" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i]);
}

TEST(what_a_pod_says_is_cut_at_a_kilobyte)
{
	autofree char *much = xnew_n(char, 5001);
	autofree char *pod = NULL;
	autoptr(object) o = NULL;
	autobuf text = { 0 };

	memset(much, 'x', 5000);
	pod = xasprintf("{" POD_META ",'status':{'phase':'Pending'," WAITING(
				"'reason':'ErrImagePull','message':'%s'") "}}",
			much);
	o = object_of(kind_named("Pod"), pod);
	pod_trouble(o, &text);
	eq_int(text.len, strlen("; ") + 1024);
}

TEST(case_u22_a_terminating_pod_is_not_ready_and_not_finished)
{
	autoptr(object) sb = object_of(kind_named("Sandbox"), "{" META ",'spec':{}}");
	static const char *const phases[] = { "Running", "Succeeded", "Failed" };

	for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
		autoptr(object) pod = object_of_f(
			kind_named("Pod"),
			"{'metadata':{'name':'box','deletionTimestamp':'2026-01-01T00:00:00Z'},"
			"'status':{'phase':'%s','podIPs':[{'ip':'10.0.0.1'}],"
			"'conditions':[{'type':'Ready','status':'True'}]}}",
			phases[i]);
		const struct sandbox_pod_plan plan = { .pod = pod, .owned = true, .n_owned = 1 };
		const struct service_plan service = { 0 };
		const struct sandbox_facts v = {
			.sandbox = sb, .pod = &plan, .service = &service, .cluster_domain = "x"
		};
		autoptr(json_doc) d = sandbox_status(&v);

		eq_str(condition_text(json_root(d), "Ready"),
		       "False/DependenciesNotReady/Pod is terminating");
		eq_str(condition_text(json_root(d), "Finished"), "-");
	}
}

TEST(case_86_a_foreign_pod_does_not_leak_into_status)
{
	autoptr(object) sb = object_of(kind_named("Sandbox"),
				       "{" META ",'spec':{'operatingMode':'Suspended'},"
				       "'status':{'podIPs':['10.0.0.9'],'nodeName':'n'}}");
	autoptr(object) pod = object_of(
		kind_named("Pod"), "{'metadata':{'name':'box'},'spec':{'nodeName':'n1'},"
				   "'status':{'phase':'Running','podIPs':[{'ip':'10.0.0.1'}]}}");
	const struct sandbox_pod_plan plan = { .pod = pod };
	const struct service_plan service = { 0 };
	const struct sandbox_facts v = {
		.sandbox = sb, .pod = &plan, .service = &service, .cluster_domain = "x"
	};
	autoptr(json_doc) d = sandbox_status(&v);

	eq_str(json_get_str(json_root(d), "selector"),
	       "agents.x-k8s.io/sandbox-name-hash=70c67e32");
	is_false(json_get(json_root(d), "podIPs"));
	is_false(json_get(json_root(d), "nodeName"));
}

TEST(case_106_the_cluster_domain_is_in_the_fqdn)
{
	autoptr(object) sb =
		object_of(kind_named("Sandbox"), "{'metadata':{'name':'my-svc','namespace':'my-"
						 "ns','uid':'u1'},'spec':{'service':true}}");
	const struct sandbox_pod_plan plan = { 0 };
	const struct service_plan service = { .status = SERVICE_SET,
					      .required = true,
					      .exists = true };
	const struct sandbox_facts v = {
		.sandbox = sb, .pod = &plan, .service = &service, .cluster_domain = "custom.domain"
	};
	autoptr(json_doc) d = sandbox_status(&v);

	eq_str(json_get_str(json_root(d), "service"), "my-svc");
	eq_str(json_get_str(json_root(d), "serviceFQDN"), "my-svc.my-ns.svc.custom.domain");
}

static struct json_doc *patch_for(const char *was, const char *want)
{
	autoptr(object) sb =
		object_of_f(kind_named("Sandbox"), "{" META ",'spec':{},'status':%s}", was);
	autoptr(json_doc) d = doc_of(want);

	return sandbox_status_patch(sb, json_root(d));
}

TEST(case_53_a_node_name_alone_waits_until_ready)
{
	autoptr(json_doc) none = patch_for("{'selector':'x'}", "{'selector':'x','nodeName':'n'}");
	autoptr(json_doc) now =
		patch_for("{'nodeName':'a','conditions':[{'type':'Ready','status':'True'}]}",
			  "{'nodeName':'b','conditions':[{'type':'Ready','status':'True'}]}");
	autoptr(json_doc) with = patch_for("{}", "{'nodeName':'b','podIPs':['1']}");

	is_false(none);
	eq_json(json_get(json_root(now), "status"), "{'nodeName':'b'}");
	eq_json(json_get(json_root(with), "status"), "{'nodeName':'b','podIPs':['1']}");
}

TEST(case_52_a_status_that_means_the_same_is_not_written)
{
	autoptr(json_doc) none = patch_for("{'podIPs':[],'service':''}", "{}");
	autoptr(json_doc) gone = patch_for("{'podIPs':['1'],'service':'s'}", "{}");

	is_false(none);
	eq_json(json_root(gone),
		"{'metadata':{'uid':'u1'},'status':{'podIPs':null,'service':null}}");
}

TEST(case_110_when_a_sandbox_expires)
{
	static const struct {
		const char *spec, *reason;
		enum expiry expiry;
		uint64_t left_ms;
	} rows[] = {
		{ "{}", "x", EXPIRY_NONE, 0 },
		{ "{'shutdownTime':'2026-01-01T12:00:00Z'}", "x", EXPIRY_NONE, 7200000 },
		{ "{'shutdownTime':'2026-01-01T10:00:00Z'}", "x", EXPIRY_MARK, 0 },
		{ "{'shutdownTime':'2026-01-01T10:00:00.5Z'}", "x", EXPIRY_NONE, 2000 },
		{ "{'shutdownTime':'2026-01-01T09:00:00Z'}", "x", EXPIRY_MARK, 0 },
		{ "{'shutdownTime':'2026-01-01T09:00:00Z'}", "SandboxExpired", EXPIRY_CLEANUP, 0 },
	};
	usec now = 0;

	works(clock_parse("2026-01-01T10:00:00Z", &now));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) sb = object_of_f(
			kind_named("Sandbox"),
			"{" META
			",'spec':%s,'status':{'conditions':[{'type':'Ready','reason':'%s'}]}}",
			rows[i].spec, rows[i].reason);
		uint64_t left_ms = 1;

		eq_int(sandbox_expiry(sb, now, &left_ms), rows[i].expiry);
		eq_int(left_ms, rows[i].left_ms);
	}
}

TEST(case_116_expiry_keeps_finished_and_suspended)
{
	autoptr(object) sb = object_of(
		kind_named("Sandbox"),
		"{" META ",'spec':{},'status':{'service':'s','serviceFQDN':'f','selector':'x',"
		"'podIPs':['1'],'nodeName':'n','conditions':["
		"{'type':'Suspended','status':'False'},{'type':'PodScheduled','status':'True'},"
		"{'type':'Finished','status':'True','reason':'PodFailed','message':'Pod failed'}]}}");
	autoptr(json_doc) marked = sandbox_status_expired(sb, false, 0);
	autoptr(json_doc) torn = sandbox_status_expired(sb, true, 0);

	eq_str(json_get_str(json_root(marked), "service"), "s");
	eq_int(json_len(json_root(torn)), 1);
	eq_str(condition_text(json_root(torn), "Ready"),
	       "False/SandboxExpired/Sandbox has expired");
	eq_str(condition_text(json_root(torn), "Finished"), "True/PodFailed/Pod failed");
	eq_str(condition_text(json_root(torn), "PodScheduled"), "-");
	is_true(conditions_get(json_get(json_root(torn), "conditions"), "Suspended"));
}

TEST(case_u19_each_transition_is_told_once)
{
	static const struct {
		const char *was, *now, *reason;
	} rows[] = {
		{ "{}", "{'conditions':[{'type':'Ready','status':'True'}]}", "SandboxReady" },
		{ "{'conditions':[{'type':'Ready','status':'True'}]}",
		  "{'conditions':[{'type':'Ready','status':'True'}]}", NULL },
		{ "{'conditions':[{'type':'Suspended','status':'False'}]}",
		  "{'conditions':[{'type':'Suspended','status':'True'}]}", "SandboxSuspended" },
		{ "{}", "{'conditions':[{'type':'Finished','status':'True','reason':'PodFailed'}]}",
		  "PodFailed" },
		{ "{}",
		  "{'conditions':[{'type':'Ready','status':'False','reason':'SandboxExpired'}]}",
		  "SandboxExpired" },
		{ "{}",
		  "{'conditions':[{'type':'Ready','status':'False','reason':'MultiplePods'}]}",
		  "MultiplePods" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) was = doc_of(rows[i].was);
		autoptr(json_doc) now = doc_of(rows[i].now);
		struct sandbox_news n = { 0 };

		eq_int(sandbox_news(json_root(was), json_root(now), &n), rows[i].reason != NULL);
		eq_str(n.reason, rows[i].reason);
	}
}
