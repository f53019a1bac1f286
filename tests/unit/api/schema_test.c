/* SPDX-License-Identifier: Apache-2.0 */
#include "api_test.h"
#include "base/buf.h"
#include "kinds.h"

#define POD_TEMPLATE "'podTemplate':{'spec':{'containers':[{'name':'a','image':'x'}]}}"

static void eq_cause(const struct causes *c, size_t i, const char *field, const char *message)
{
	is_true(i < c->n);
	eq_str(c->list[i].field, field);
	eq_str(c->list[i].message, message);
}

TEST(prune_drops_what_the_table_does_not_know)
{
	autoptr(json_doc) d = doc("{'metadata':{'name':'s','foo':1},'bar':2,'spec':{" POD_TEMPLATE
				  ",'service':null,'baz':[{'x':1}]}}");
	struct causes c = { 0 };

	decode(d, kind_named("Sandbox")->type, &c);
	eq_json(json_root(d), "{'metadata':{'name':'s'},'spec':{" POD_TEMPLATE "}}");
	eq_int(c.n, 3);
	eq_cause(&c, 0, "metadata.foo", "unknown field \"metadata.foo\"");
	eq_cause(&c, 1, "bar", "unknown field \"bar\"");
	eq_cause(&c, 2, "spec.baz", "unknown field \"spec.baz\"");
	causes_done(&c);
}

TEST(prune_names_list_elements)
{
	autoptr(json_doc) d = doc("{'spec':{'podTemplate':{'metadata':{'name':'x'},'spec':{"
				  "'containers':[{'name':'a'},{'name':'b','imagee':'y'}]}}}}");
	struct causes c = { 0 };

	decode(d, kind_named("Sandbox")->type, &c);
	eq_cause(&c, 0, "spec.podTemplate.metadata.name",
		 "unknown field \"spec.podTemplate.metadata.name\"");
	eq_cause(&c, 1, "spec.podTemplate.spec.containers[1].imagee",
		 "unknown field \"spec.podTemplate.spec.containers[1].imagee\"");
	causes_done(&c);
}

TEST(prune_of_very_many_unknown_members_is_quick)
{
	autobuf text = { 0 };
	autoptr(json_doc) d = NULL;
	struct causes c = { 0 };

	buf_add_str(&text, "{'metadata':{'name':'s'}");
	for (int i = 0; i < 100000; i++)
		buf_printf(&text, ",'k%d':1", i);
	buf_add_char(&text, '}');
	d = doc(buf_str(&text));
	decode(d, kind_named("Sandbox")->type, &c);
	eq_json(json_root(d), "{'metadata':{'name':'s'}}");
	eq_int(c.n, 64);
	causes_done(&c);
}

TEST(prune_keeps_managed_fields)
{
	static const char text[] = "{'metadata':{'managedFields':[{'manager':'x','fieldsV1':"
				   "{'f:spec':{'.':{},'f:x':null}}}]}}";
	autoptr(json_doc) d = doc(text);

	decode(d, kind_named("Pod")->type, NULL);
	eq_json(json_root(d), text);
}

TEST(default_fills_in_what_the_table_says)
{
	autoptr(json_doc) d = doc(
		"{'spec':{'podTemplate':{'spec':{'containers':[{'name':'a','ports':["
		"{'containerPort':1}],'env':[{'name':'x','valueFrom':{'secretKeyRef':"
		"{'key':'k'}}}]}],'imagePullSecrets':[{}],'volumes':[{'name':'v','configMap':{}},"
		"{'name':'r','iscsi':{}}]}}}}");

	schema_default(d, json_root(d), kind_named("Sandbox")->type, NULL);
	eq_json(json_root(d),
		"{'spec':{'shutdownPolicy':'Retain','operatingMode':'Running','podTemplate':{'spec':{"
		"'containers':[{'name':'a','ports':[{'containerPort':1,'protocol':'TCP'}],'env':[{"
		"'name':'x','valueFrom':{'secretKeyRef':{'key':'k','name':''}}}]}],"
		"'imagePullSecrets':[{'name':''}],'volumes':[{'name':'v','configMap':{'name':''}},"
		"{'name':'r','iscsi':{'iscsiInterface':'default'}}]}}}}");
}

TEST(default_does_not_make_optional_objects)
{
	autoptr(json_doc) claim = doc("{'spec':{'warmPoolRef':{'name':'p'}}}");
	autoptr(json_doc) full = doc("{'spec':{'warmPoolRef':{'name':'p'},'lifecycle':{}}}");
	autoptr(json_doc) pool = doc("{'spec':{'updateStrategy':{}}}");

	schema_default(claim, json_root(claim), kind_named("SandboxClaim")->type, NULL);
	eq_json(json_root(claim), "{'spec':{'warmPoolRef':{'name':'p'}}}");
	schema_default(full, json_root(full), kind_named("SandboxClaim")->type, NULL);
	eq_json(json_root(full), "{'spec':{'warmPoolRef':{'name':'p'},'lifecycle':{"
				 "'shutdownPolicy':'Retain'}}}");
	schema_default(pool, json_root(pool), kind_named("SandboxWarmPool")->type, NULL);
	eq_json(json_root(pool), "{'spec':{'replicas':1,'updateStrategy':{'type':'OnReplenish'}}}");
}

/* Each text was compared with a kube-apiserver that serves our CRDs. */
TEST(validate_words_like_a_kube_apiserver)
{
	const struct {
		const struct kind *kind;
		const char *object, *field, *message;
	} rows[] = {
		{ kind_named("Sandbox"), "{}", "spec", "Required value" },
		{ kind_named("Sandbox"), "{'spec':{}}", "spec.podTemplate", "Required value" },
		{ kind_named("Sandbox"), "{'spec':{'podTemplate':{'spec':{}}}}",
		  "spec.podTemplate.spec.containers", "Required value" },
		{ kind_named("Sandbox"), "{'spec':{" POD_TEMPLATE ",'operatingMode':'X'}}",
		  "spec.operatingMode",
		  "Unsupported value: \"X\": supported values: \"Running\", \"Suspended\"" },
		{ kind_named("Sandbox"), "{'spec':{" POD_TEMPLATE ",'service':'yes'}}",
		  "spec.service",
		  "Invalid value: \"string\": spec.service in body must be of type boolean: "
		  "\"string\"" },
		{ kind_named("Sandbox"), "{'spec':{" POD_TEMPLATE ",'shutdownTime':'soon'}}",
		  "spec.shutdownTime",
		  "Invalid value: \"soon\": spec.shutdownTime in body must be of type date-time: "
		  "\"soon\"" },
		{ kind_named("Sandbox"),
		  "{'spec':{'podTemplate':{'spec':{'containers':[{'name':'a'},{'name':'a'}]}}}}",
		  "spec.podTemplate.spec.containers[1]", "Duplicate value: {\"name\":\"a\"}" },
		{ kind_named("SandboxWarmPool"),
		  "{'spec':{'replicas':-1,'sandboxTemplateRef':{'name':'t'}}}", "spec.replicas",
		  "Invalid value: -1: spec.replicas in body should be greater than or equal to 0" },
		{ kind_named("agents.x-k8s.io/v1alpha1 Sandbox"),
		  "{'spec':{" POD_TEMPLATE ",'replicas':2}}", "spec.replicas",
		  "Invalid value: 2: spec.replicas in body should be less than or equal to 1" },
		{ kind_named("SandboxClaim"), "{'spec':{'warmPoolRef':{}}}",
		  "spec.warmPoolRef.name", "Required value" },
		{ kind_named("SandboxClaim"),
		  "{'spec':{'warmPoolRef':{'name':'p'},'env':[{'name':'a'}]}}", "spec.env[0].value",
		  "Required value" },
		{ kind_named("SandboxTemplate"),
		  "{'spec':{" POD_TEMPLATE ",'networkPolicyManagement':'X'}}",
		  "spec.networkPolicyManagement",
		  "Unsupported value: \"X\": supported values: \"Managed\", \"Unmanaged\"" },
		{ kind_named("Sandbox"),
		  "{'spec':{" POD_TEMPLATE "},'status':{'conditions':[{'type':'R',"
		  "'status':'Maybe','reason':'x','message':'','lastTransitionTime':"
		  "'2026-01-01T00:00:00Z'}]}}",
		  "status.conditions[0].status",
		  "Unsupported value: \"Maybe\": supported values: \"True\", \"False\", \"Unknown\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc(rows[i].object);
		struct causes c = { 0 };

		schema_validate(json_root(d), rows[i].kind->type, NULL, &c);
		eq_int(c.n, 1);
		eq_cause(&c, 0, rows[i].field, rows[i].message);
		causes_done(&c);
	}
}

TEST(validate_accepts_both_forms_of_a_quantity)
{
	autoptr(json_doc) d = doc(
		"{'spec':{'podTemplate':{'spec':{'containers':[{'name':'a','resources':{'limits':{"
		"'cpu':1,'memory':'1Gi'}},'livenessProbe':{'httpGet':{'port':'http'}}}]}}}}");
	struct causes c = { 0 };

	schema_validate(json_root(d), kind_named("Sandbox")->type, NULL, &c);
	eq_int(c.n, 0);
	json_set_str(
		d,
		json_at_path(json_root(d), "spec.podTemplate.spec.containers.0.resources.limits"),
		"cpu", "abc");
	schema_validate(json_root(d), kind_named("Sandbox")->type, NULL, &c);
	eq_int(c.n, 1);
	causes_done(&c);
}

TEST(validate_asks_nothing_of_the_status_of_built_in_kinds)
{
	autoptr(json_doc) d = doc("{'spec':{'containers':[{'name':'a'}]},'status':{"
				  "'containerStatuses':[{'name':'a'}]}}");
	struct causes c = { 0 };

	schema_validate(json_root(d), kind_named("Pod")->type, NULL, &c);
	eq_int(c.n, 0);
	causes_done(&c);
}

TEST(causes_are_bounded_and_told_once)
{
	struct causes c = { 0 };
	autofree char *text = NULL;

	causes_required(&c, "a", NULL);
	causes_required(&c, "a", NULL);
	eq_int(c.n, 2); /* as in details.causes; the message says it once */
	text = causes_text(&c);
	eq_str(text, "a: Required value");
	causes_add(&c, CAUSE_UNKNOWN, "u", "unknown");
	causes_add(&c, CAUSE_UNKNOWN, "u", "unknown");
	eq_int(c.n, 3);
	for (int i = 0; i < 100; i++)
		causes_add(&c, CAUSE_INVALID, "b", "%d", i);
	eq_int(c.n, 64);
	eq_str(cause_reason_name(c.list[0].reason), "FieldValueRequired");
	causes_done(&c);
	causes_required(NULL, "a", NULL);
}
