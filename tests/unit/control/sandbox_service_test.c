/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "control/sandbox/sandbox_priv.h"
#include "fixture.h"
#include "kinds.h"

/* Services and volume claims: cases 90 to 108 of docs/reference/cases.md. */

#define H     "374de8f5"
#define LABEL "'labels':{'agents.x-k8s.io/sandbox-name-hash':'" H "'}"
#define OWNED                                                                                 \
	"'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','name':" \
	"'my-sandbox','uid':'u1','controller':true}]"
#define FOREIGN_OWNER \
	"'ownerReferences':[{'apiVersion':'v1','kind':'X','name':'o','uid':'u9','controller':true}]"
#define SELECTOR "'selector':{'agents.x-k8s.io/sandbox-name-hash':'" H "'}"

#define REVISION "'uid':'u5','resourceVersion':'5'"

/* Of two Sandboxes that adopt the same object at the same time, one gets it. */
static void eq_guarded(const struct json_doc *patch)
{
	const struct json *meta = json_get(json_root(patch), "metadata");

	eq_str(json_get_str(meta, "resourceVersion"), "5");
	eq_str(json_get_str(meta, "uid"), "u5");
	eq_str(json_get_str(json_at(json_get(meta, "ownerReferences"), 0), "uid"), "u1");
}

static void eq_ports(const char *pod_spec, const char *want)
{
	autoptr(json_doc) spec = doc_of(pod_spec);
	autoptr(json_doc) d = json_doc_new();

	eq_json(service_ports(d, json_root(spec)), want);
}

TEST(case_91_a_port_gets_a_name)
{
	eq_ports("{'containers':[{'ports':[{'containerPort':8080}]}]}",
		 "[{'name':'p-8080-tcp','protocol':'TCP','port':8080,'targetPort':8080}]");
}

TEST(case_92_sidecars_count_and_plain_init_containers_do_not)
{
	eq_ports("{'initContainers':[{'restartPolicy':'Always','ports':[{'containerPort':1}]},"
		 "{'ports':[{'containerPort':2}]}]}",
		 "[{'name':'p-1-tcp','protocol':'TCP','port':1,'targetPort':1}]");
}

TEST(case_93_ports_are_sorted_and_unique)
{
	eq_ports("{'containers':[{'ports':[{'containerPort':9090,'protocol':'UDP'},"
		 "{'containerPort':8080},{'name':'http','containerPort':8080},"
		 "{'containerPort':9090},{'containerPort':0}]}]}",
		 "[{'name':'http','protocol':'TCP','port':8080,'targetPort':8080},"
		 "{'name':'p-9090-tcp','protocol':'TCP','port':9090,'targetPort':9090},"
		 "{'name':'p-9090-udp','protocol':'UDP','port':9090,'targetPort':9090}]");
}

TEST(case_94_the_first_to_use_a_name_keeps_it)
{
	eq_ports("{'containers':[{'ports':[{'name':'http','containerPort':9090},"
		 "{'name':'http','containerPort':8080}]}]}",
		 "[{'name':'p-8080-tcp','protocol':'TCP','port':8080,'targetPort':8080},"
		 "{'name':'http','protocol':'TCP','port':9090,'targetPort':9090}]");
}

TEST(case_95_a_made_name_gives_way_to_a_given_one)
{
	eq_ports("{'containers':[{'ports':[{'name':'p-8080-tcp','containerPort':9090},"
		 "{'containerPort':8080}]}]}",
		 "[{'name':'p-8080-tcp-2','protocol':'TCP','port':8080,'targetPort':8080},"
		 "{'name':'p-8080-tcp','protocol':'TCP','port':9090,'targetPort':9090}]");
}

static struct object *sandbox(const char *spec)
{
	return object_of_f(
		kind_named("Sandbox"),
		"{'metadata':{'name':'my-sandbox','namespace':'ns','uid':'u1'},'spec':%s}", spec);
}

#define PORT_8080 "'podTemplate':{'spec':{'containers':[{'ports':[{'containerPort':8080}]}]}}"

TEST(cases_90_to_105_what_becomes_of_the_service)
{
	static const struct {
		const char *name, *spec, *meta, *svc;
		enum step_verb verb;
		enum service_status status;
		bool required, fails;
		const char *patch;
	} rows[] = {
		{ "90", "{'service':true}", NULL, NULL, STEP_CREATE, SERVICE_CLEAR, true, false,
		  NULL },
		{ "102", "{}", NULL, NULL, STEP_NONE, SERVICE_CLEAR, false, false, NULL },
		{ "96", "{'service':true," PORT_8080 "}", "'labels':{'a':'b'}," OWNED,
		  "{'selector':{'x':'y'},'ports':[]}", STEP_PATCH, SERVICE_SET, true, false,
		  "{'metadata':{'labels':{'agents.x-k8s.io/sandbox-name-hash':'" H
		  "'}},'spec':{'selector':{'agents.x-k8s.io/sandbox-name-hash':'" H
		  "','x':null},'ports':[{'name':'p-8080-tcp','protocol':'TCP','port':8080,"
		  "'targetPort':8080}]}}" },
		{ "97", "{'service':true," PORT_8080 "}", LABEL "," OWNED,
		  "{" SELECTOR
		  ",'ports':[{'name':'p-8080-tcp','protocol':'TCP','port':8080,'targetPort':8080,"
		  "'appProtocol':'x'}]}",
		  STEP_NONE, SERVICE_SET, true, false, NULL },
		{ "98", "{'service':true}", FOREIGN_OWNER, "{}", STEP_NONE, SERVICE_KEEP, true,
		  true, NULL },
		{ "99", "{'service':true}", "'labels':{'agents.x-k8s.io/adoptable':'true'}",
		  "{'clusterIP':'None','selector':{'a':'b'},'ports':[{'port':1}]}", STEP_PATCH,
		  SERVICE_SET, true, false, NULL },
		{ "100", "{'service':true}", "'labels':{'agents.x-k8s.io/adoptable':'true'}",
		  "{'clusterIP':'10.0.0.1'}", STEP_NONE, SERVICE_KEEP, true, true, NULL },
		{ "101a", "{'service':true}", LABEL, "{" SELECTOR "}", STEP_PATCH, SERVICE_SET,
		  true, false, NULL },
		{ "101b", "{'service':true}", "'x':'y'", "{}", STEP_NONE, SERVICE_KEEP, true, true,
		  NULL },
		{ "103", "{" PORT_8080 "}", OWNED, "{" SELECTOR ",'ports':[{'port':9090}]}",
		  STEP_PATCH, SERVICE_SET, true, false,
		  "{'metadata':{'labels':{'agents.x-k8s.io/sandbox-name-hash':'" H "'}}}" },
		{ "104", "{}", "'x':'y'", "{}", STEP_NONE, SERVICE_CLEAR, false, false, NULL },
		{ "105a", "{'service':false}", OWNED, "{}", STEP_DELETE, SERVICE_CLEAR, false,
		  false, NULL },
		{ "105b", "{'service':false}", "'x':'y'", "{}", STEP_NONE, SERVICE_CLEAR, false,
		  false, NULL },
		{ "15.4", "{}", FOREIGN_OWNER, "{}", STEP_NONE, SERVICE_KEEP, false, true, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) sb = sandbox(rows[i].spec);
		autoptr(object) svc =
			rows[i].svc ? object_of_f(kind_named("Service"),
						  "{'metadata':{'name':'my-sandbox',%s},'spec':%s}",
						  rows[i].meta, rows[i].svc)
				    : NULL;
		struct service_plan p = service_decide(sb, svc);

		eq_int(p.step.verb, rows[i].verb);
		is_true(p.step.verb != STEP_DELETE || (svc && p.step.uid == svc->uid));
		eq_int(p.status, rows[i].status);
		eq_int(p.required, rows[i].required);
		eq_int(p.e != NULL, rows[i].fails);
		if (rows[i].patch)
			eq_json(json_root(p.step.doc), rows[i].patch);
		json_doc_free(p.step.doc);
		err_free(p.e);
	}
}

TEST(the_adoption_of_a_service_is_guarded)
{
	autoptr(object) sb = sandbox("{'service':true}");
	autoptr(object) svc = object_of(kind_named("Service"),
					"{'metadata':{'name':'my-sandbox'," REVISION "," LABEL
					"},'spec':{'clusterIP':'None'," SELECTOR "}}");
	struct service_plan p = service_decide(sb, svc);

	eq_guarded(p.step.doc);
	json_doc_free(p.step.doc);
}

TEST(case_90_the_service_is_headless)
{
	autoptr(object) sb = sandbox("{'service':true}");
	struct service_plan p = service_decide(sb, NULL);

	eq_json(json_get(json_root(p.step.doc), "spec"), "{'clusterIP':'None'," SELECTOR "}");
	json_doc_free(p.step.doc);
}

TEST(case_107_a_volume_claim_is_named_after_both)
{
	autoptr(object) sb = sandbox("{}");
	autoptr(json_doc) vct =
		doc_of("{'metadata':{'name':'my-pvc','labels':{'a':'b'},'annotations':{"
		       "'c':'d'}},'spec':{'accessModes':['ReadWriteOnce']}}");
	struct err *e = NULL;
	struct step s = pvc_decide(sb, json_root(vct), NULL, &e);
	const struct json *root = json_root(s.doc);

	is_false(e);
	eq_int(s.verb, STEP_CREATE);
	eq_str(json_get_str(json_get(root, "metadata"), "name"), "my-pvc-my-sandbox");
	eq_json(json_at_path(root, "metadata.labels"),
		"{'a':'b','agents.x-k8s.io/sandbox-name-hash':'" H "'}");
	eq_json(json_at_path(root, "metadata.annotations"), "{'c':'d'}");
	eq_json(json_get(root, "spec"), "{'accessModes':['ReadWriteOnce']}");
	json_doc_free(s.doc);
}

TEST(case_108_which_volume_claims_are_taken)
{
	static const struct {
		const char *meta;
		enum step_verb verb;
		bool fails;
	} rows[] = {
		{ OWNED, STEP_NONE, false },
		{ "'labels':{'agents.x-k8s.io/adoptable':'true'}", STEP_PATCH, false },
		{ "'labels':{'agents.x-k8s.io/adoptable':'false'}", STEP_NONE, true },
		{ LABEL, STEP_PATCH, false },
		{ "'x':'y'", STEP_NONE, true },
		{ FOREIGN_OWNER, STEP_NONE, true },
	};
	autoptr(object) sb = sandbox("{}");
	autoptr(json_doc) vct = doc_of("{'metadata':{'name':'v'}}");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) pvc = object_of_f(
			kind_named("PersistentVolumeClaim"),
			"{'metadata':{'name':'v-my-sandbox'," REVISION ",%s}}", rows[i].meta);
		struct err *e = NULL;
		struct step s = pvc_decide(sb, json_root(vct), pvc, &e);

		eq_int(s.verb, rows[i].verb);
		eq_int(e != NULL, rows[i].fails);
		if (s.verb == STEP_PATCH)
			eq_guarded(s.doc);
		json_doc_free(s.doc);
		err_free(e);
	}
}
