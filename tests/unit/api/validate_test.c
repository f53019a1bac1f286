/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
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
