/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/registry.h"
#include "api/schema.h"
#include "api_test.h"
#include "kinds.h"

/* What a Pod may not ask for, whatever the node would do about it. */
TEST(a_pod_that_reaches_too_far_is_told_by_field)
{
	static const struct {
		const char *container;
		const char *field; /* NULL: fine */
	} rows[] = {
		{ "'volumeMounts':[{'name':'v','mountPath':'/v','subPath':'a/b'}]", NULL },
		{ "'volumeMounts':[{'name':'v','mountPath':'/v','subPath':'a/../../b'}]",
		  "spec.containers[0].volumeMounts.subPath" },
		{ "'volumeMounts':[{'name':'v','mountPath':'/v','subPath':'/a'}]",
		  "spec.containers[0].volumeMounts.subPath" },
		{ "'securityContext':{'runAsUser':2147483647}", NULL },
		{ "'securityContext':{'runAsUser':2147483648}",
		  "spec.containers[0].securityContext.runAsUser" },
		{ "'securityContext':{'runAsGroup':-1}",
		  "spec.containers[0].securityContext.runAsGroup" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf(
			"{'metadata':{'name':'p','namespace':'default'},'spec':{'restartPolicy':'Always',"
			"'dnsPolicy':'ClusterFirst','terminationGracePeriodSeconds':30,"
			"'volumes':[{'name':'v','emptyDir':{}}],'containers':[{'name':'c','image':'i',"
			"'imagePullPolicy':'Always','terminationMessagePolicy':'File',%s}]}}",
			rows[i].container);
		autoptr(json_doc) d = doc(text);
		struct causes c = { 0 };

		kind_named("Pod")->validate(json_root(d), NULL, &c);
		eq_str(c.n ? c.list[0].field : NULL, rows[i].field);
		causes_done(&c);
	}
}

/* The words are those of a kube-apiserver 1.36. */
TEST(a_deployment_that_could_not_work_is_told_by_field)
{
	static const char template[] = "'template':{'metadata':{'labels':{'a':'b'}},'spec':{"
				       "'containers':[{'name':'c','image':'i'}]}}";
	static const struct {
		const char *spec, *field, *message; /* field NULL: fine */
		bool bare;                          /* without the template above */
	} rows[] = {
		{ "'selector':{'matchLabels':{'a':'b'}}", NULL, NULL },
		{ "'selector':{}", "spec.selector",
		  "Invalid value: {}: empty selector is invalid for deployment" },
		{ "'selector':{'matchLabels':{'a':'c'}}", "spec.template.metadata.labels",
		  "Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`" },
		{ "'replicas':-1,'selector':{'matchLabels':{'a':'b'}}", "spec.replicas",
		  "Invalid value: -1: must be greater than or equal to 0" },
		{ "'minReadySeconds':10,'progressDeadlineSeconds':5,'selector':{'matchLabels':{"
		  "'a':'b'}}",
		  "spec.progressDeadlineSeconds",
		  "Invalid value: 5: must be greater than minReadySeconds" },
		{ "'strategy':{'type':'Recreate','rollingUpdate':{'maxSurge':1}},'selector':{"
		  "'matchLabels':{'a':'b'}}",
		  "spec.strategy.rollingUpdate",
		  "Forbidden: may not be specified when strategy `type` is 'Recreate'" },
		{ "'strategy':{'rollingUpdate':{'maxSurge':0,'maxUnavailable':'0%'}},'selector':{"
		  "'matchLabels':{'a':'b'}}",
		  "spec.strategy.rollingUpdate.maxUnavailable",
		  "Invalid value: \"0%\": may not be 0 when `maxSurge` is 0" },
		{ "'strategy':{'rollingUpdate':{'maxUnavailable':'101%'}},'selector':{"
		  "'matchLabels':{'a':'b'}}",
		  "spec.strategy.rollingUpdate.maxUnavailable",
		  "Invalid value: \"101%\": must not be greater than 100%" },
		{ "'selector':{'matchLabels':{'a':'b'}},'template':{'metadata':{'labels':{'a':'b'}},"
		  "'spec':{'restartPolicy':'Never','containers':[{'name':'c','image':'i'}]}}",
		  "spec.template.spec.restartPolicy",
		  "Unsupported value: \"Never\": supported values: \"Always\"", true },
		{ "'selector':{'matchLabels':{'a':'b'}},'template':{'metadata':{'labels':{'a':'b'}},"
		  "'spec':{'activeDeadlineSeconds':5,'containers':[{'name':'c','image':'i'}]}}",
		  "spec.template.spec.activeDeadlineSeconds",
		  "Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf(
			"{'metadata':{'name':'d','namespace':'default'},'spec':{%s%s%s}}",
			rows[i].spec, rows[i].bare ? "" : ",", rows[i].bare ? "" : template);
		autoptr(json_doc) d = doc(text);
		struct causes c = { 0 };

		admit(d, kind_named("Deployment"), NULL, &c);
		eq_str(c.n ? c.list[0].field : NULL, rows[i].field);
		eq_str(c.n ? c.list[0].message : NULL, rows[i].message);
		causes_done(&c);
	}
}

TEST(the_selector_of_a_deployment_stays)
{
	static const char text[] = "{'metadata':{'name':'d','namespace':'default'},'spec':{"
				   "'selector':{'matchLabels':{'a':'b'}},'template':{'metadata':{"
				   "'labels':{'a':'b','c':'d'}},'spec':{'containers':[{'name':'c',"
				   "'image':'i'}]}}}}";
	autoptr(json_doc) old = doc(text);
	autoptr(json_doc) d = doc(text);
	struct causes c = { 0 };

	admit(old, kind_named("Deployment"), NULL, &c);
	eq_int(c.n, 0);
	json_set_str(d, json_at_path(json_root(d), "spec.selector.matchLabels"), "c", "d");
	admit(d, kind_named("Deployment"), json_root(old), &c);
	eq_int(c.n, 1);
	eq_str(c.list[0].field, "spec.selector");
	causes_done(&c);
}

/* As a kube-apiserver 1.36 says it. */
TEST(a_newer_event_may_change_in_its_series_alone)
{
	static const struct {
		const char *now; /* in the place of what the Event has */
		const char *field, *message;
	} rows[] = {
		{ "'message':'m','series':{'count':2,'lastObservedTime':'t'}", NULL, NULL },
		{ "'message':'m','reportingInstance':''", NULL, NULL },
		{ "'message':'m','source':{},'firstTimestamp':null,'count':0", NULL, NULL },
		{ "'message':'n'", "message", "Invalid value: \"n\": field is immutable" },
		{ "'message':''", "message", "Invalid value: \"\": field is immutable" },
		{ "'message':'m','count':3", "count", "Invalid value: 3: field is immutable" },
		{ "'message':'m','lastTimestamp':'t'", "lastTimestamp",
		  "Invalid value: \"t\": field is immutable" },
		{ "'message':'m','source':{'component':'c'}", "source",
		  "Invalid value: {\"Component\":\"c\",\"Host\":\"\"}: field is immutable" },
		{ "'message':'m','reportingComponent':'a/b'", "reportingController",
		  "Invalid value: \"a/b\": field is immutable" },
		{ "'message':'m','related':{'kind':'Pod','name':'z'}", "related",
		  "Invalid value: {\"Kind\":\"Pod\",\"Namespace\":\"\",\"Name\":\"z\",\"UID\":\"\","
		  "\"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is "
		  "immutable" },
		{ "'message':'m','series':{'count':1,'lastObservedTime':'t'}", "series.count",
		  "Invalid value: \"\": should be at least 2" },
		{ "'message':'m','series':{'count':2}", "series.lastObservedTime",
		  "Required value" },
	};
	static const char form[] = "{'involvedObject':{'kind':'Pod','name':'p'},'reason':'R',"
				   "'eventTime':'%s','type':'Normal',%s}";
	const struct kind *k = kinds_need(test_kinds(), "events.k8s.io/v1", "Event");

	for (size_t i = 0; i <= ARRAY_LEN(rows); i++) {
		bool last = i == ARRAY_LEN(rows); /* the time that it happened */
		autofree char *was = xasprintf(form, "t", "'message':'m'");
		autofree char *now =
			xasprintf(form, last ? "u" : "t", last ? "'message':'m'" : rows[i].now);
		autoptr(json_doc) a = doc(now);
		autoptr(json_doc) b = doc(was);
		struct causes c = { 0 };

		k->validate_change(json_root(a), json_root(b), &c);
		eq_str(c.n ? c.list[0].field : NULL, last ? "eventTime" : rows[i].field);
		if (!last && c.n)
			eq_str(c.list[0].message, rows[i].message);
		causes_done(&c);
	}
}
