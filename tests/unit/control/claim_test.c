/* SPDX-License-Identifier: Apache-2.0 */
#include "control/claim/claim.h"

#include "api/kind.h"
#include "api/meta.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim/claim_priv.h"
#include "fixture.h"
#include "kinds.h"

/* Claims: the pure half of cases 175 to 280 of docs/reference/cases.md, U23. */

static struct object *claim(const char *meta, const char *spec)
{
	return object_of_f(
		kind_named("SandboxClaim"),
		"{'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxClaim',"
		"'metadata':{'name':'c','namespace':'ns','uid':'cu','resourceVersion':'9',"
		"'generation':3%s},'spec':%s}",
		meta, spec);
}

static struct object *template(const char *spec)
{
	return object_of_f(kind_named("SandboxTemplate"),
			   "{'metadata':{'name':'test-template','namespace':'ns'},'spec':%s}",
			   spec);
}

TEST(cases_197_to_201_which_metadata_a_claim_may_set)
{
	static const char *const ours[] = { "sandbox.users.io", NULL };
	static const char *const more[] = { "sandbox.users.io", "custom.company.com", NULL };
#define WRAP "invalid additionalPodMetadata: failed to validate "
	static const struct {
		const char *metadata;
		bool more;
		const char *e; /* NULL: fine; ends early: a prefix */
	} rows[] = {
		{ "{'labels':{'sandbox.users.io/user-label':'v'},'annotations':{'user-annotation':'x y'}}",
		  false, NULL },
		{ "{'labels':{'team.sandbox.users.io/x':'v'}}", false, NULL },
		{ "{'labels':{'plain':'v'}}", false,
		  WRAP "label \"plain\": label \"plain\" must have a domain prefix" },
		{ "{'labels':{'sandbox.users.io/a':'invalid@value'}}", false,
		  WRAP
		  "label \"sandbox.users.io/a\": invalid label value: \"invalid@value\" does not "
		  "match allowed pattern: " },
		{ "{'labels':{'sandbox.users.io/"
		  "a':'0123456789012345678901234567890123456789012345678901234567890123'}}",
		  false, WRAP "label \"sandbox.users.io/a\": invalid label value" },
		{ "{'labels':{'sandbox.users.io/invalid@key':'v'}}", false,
		  WRAP "label \"sandbox.users.io/invalid@key\": invalid label key: " },
		{ "{'labels':{'kubernetes.io/x':'v'}}", false,
		  WRAP "label \"kubernetes.io/x\": label domain \"kubernetes.io\" is not in the "
		       "allowlist" },
		{ "{'labels':{'evilsandbox.users.io/x':'v'}}", false,
		  WRAP
		  "label \"evilsandbox.users.io/x\": label domain \"evilsandbox.users.io\" is not" },
		{ "{'labels':{'app':'sandbox-router'}}", false,
		  WRAP
		  "label \"app\": restricted system label value: \"app\"=\"sandbox-router\" is not "
		  "allowed in AdditionalPodMetadata" },
		{ "{'labels':{'custom.company.com/x':'v'}}", true, NULL },
		{ "{'annotations':{'cluster-autoscaler.kubernetes.io/safe-to-evict':'false'}}",
		  false, NULL },
		{ "{'annotations':{'x.k8s.io/y':'z'}}", false,
		  WRAP
		  "annotation \"x.k8s.io/y\": restricted system domain: \"x.k8s.io/y\" is not" },
		{ "{'annotations':{'agents.x-k8s.io/pod-name':'z'}}", false, WRAP "annotation" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *spec = xasprintf("{'additionalPodMetadata':%s}", rows[i].metadata);
		autoptr(object) c = claim("", spec);
		autoptr(err) e = claim_check_metadata(c, rows[i].more ? more : ours);

		eq_int(e != NULL, rows[i].e != NULL);
		if (e && !str_starts(err_text(e), rows[i].e))
			eq_str(err_text(e), rows[i].e);
	}
}

TEST(cases_211_to_213_which_volumes_a_claim_may_bring)
{
	static const struct {
		const char *policy, *theirs, *ours, *all, *e;
	} rows[] = {
		{ "Disallowed", "[{'metadata':{'name':'data'}}]", "[]",
		  "[{'metadata':{'name':'data'}}]", NULL },
		{ "Overrides", "[{'metadata':{'name':'data'}}]",
		  "[{'metadata':{'name':'new'}},{'metadata':{'name':'data'},'spec':{'x':1}}]",
		  "[{'metadata':{'name':'data'},'spec':{'x':1}},{'metadata':{'name':'new'}}]",
		  NULL },
		{ "Allowed", "[{'metadata':{'name':'data'}}]", "[{'metadata':{'name':'custom'}}]",
		  "[{'metadata':{'name':'data'}},{'metadata':{'name':'custom'}}]", NULL },
		{ "Disallowed", "[]", "[{'metadata':{'name':'a'}}]", NULL,
		  "failed to merge volume claim templates: volume claim templates are disallowed by the "
		  "template" },
		{ "", "[]", "[{'metadata':{'name':'a'}}]", NULL,
		  "failed to merge volume claim templates: volume claim templates are disallowed by the "
		  "template" },
		{ "Allowed", "[{'metadata':{'name':'data'}}]", "[{'metadata':{'name':'data'}}]",
		  NULL,
		  "failed to merge volume claim templates: overriding volume claim templates is "
		  "forbidden by the template: cannot override template volume \"data\"" },
		{ "Allowed", "[]", "[{}]", NULL,
		  "failed to merge volume claim templates: claim: invalid volume claim templates: name "
		  "at index 0 is empty" },
		{ "Allowed", "[]", "[{'metadata':{'name':'a'}},{'metadata':{'name':'a'}}]", NULL,
		  "failed to merge volume claim templates: claim: invalid volume claim templates: "
		  "duplicate name \"a\"" },
		{ "Allowed", "[{'metadata':{'name':'a'}},{'metadata':{'name':'a'}}]",
		  "[{'metadata':{'name':'b'}}]", NULL,
		  "failed to merge volume claim templates: template: invalid volume claim templates: "
		  "duplicate name \"a\"" },
		{ "Allowed", "[{}]", "[]", NULL,
		  "invalid volume claim templates in template: invalid volume claim templates: name at "
		  "index 0 is empty" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *ours = xasprintf("{'volumeClaimTemplates':%s}", rows[i].ours);
		autofree char *theirs =
			xasprintf("{'volumeClaimTemplatesPolicy':'%s','volumeClaimTemplates':%s}",
				  rows[i].policy, rows[i].theirs);
		autoptr(object) c = claim("", ours);
		autoptr(object) t = template(theirs);
		autoptr(json_doc) d = json_doc_new();
		struct json *all = NULL;
		autoptr(err) e = claim_merge_vcts(d, t, c, &all);

		eq_str(e ? err_text(e) : NULL, rows[i].e);
		if (!e)
			eq_json(all, rows[i].all);
	}
}

TEST(cases_202_to_210_which_variables_a_claim_may_set)
{
	static const struct {
		const char *policy, *pod, *env, *want, *e;
		enum err_code code;
	} rows[] = {
		{ "Overrides", "{'containers':[{'name':'a','env':[{'name':'T','value':'1'}]}]}",
		  "[{'name':'N','value':'2'}]",
		  "{'containers':[{'name':'a','env':[{'name':'T','value':'1'},{'name':'N','value':'2'}]}]}",
		  NULL, 0 },
		{ "Allowed", "{'containers':[{'name':'a'}]}", "[{'name':'N','value':'2'}]",
		  "{'containers':[{'name':'a','env':[{'name':'N','value':'2'}]}]}", NULL, 0 },
		{ "Allowed", "{'containers':[{'name':'a','env':[{'name':'EXISTING_VAR'}]}]}",
		  "[{'name':'EXISTING_VAR','value':'2'}]", NULL,
		  "environment variable override is not allowed by the template policy for variable "
		  "\"EXISTING_VAR\"",
		  ERR_INVALID },
		{ "Disallowed", "{'containers':[{'name':'a'}]}", "[{'name':'N','value':'2'}]", NULL,
		  "environment variable injection rejected: environment variable injection is not "
		  "allowed by the template policy",
		  ERR_FORBIDDEN },
		{ "Allowed", "{'containers':[{'name':'a','envFrom':[{}]}]}",
		  "[{'name':'N','value':'2'}]", NULL,
		  "environment variable injection rejected: container \"a\" uses EnvFrom sources; "
		  "Allowed policy cannot safely prevent overriding EnvFrom-provided variables",
		  ERR_FORBIDDEN },
		{ "Allowed", "{'containers':[{'name':'a'},{'name':'b','envFrom':[{}]}]}",
		  "[{'name':'N','value':'2'}]",
		  "{'containers':[{'name':'a','env':[{'name':'N','value':'2'}]},{'name':'b','envFrom':[{}]"
		  "}]}",
		  NULL, 0 },
		{ "Overrides",
		  "{'containers':[{'name':'a','env':[{'name':'N','valueFrom':{}},{'name':'M'}]}]}",
		  "[{'name':'N','value':'2'}]",
		  "{'containers':[{'name':'a','env':[{'name':'N','value':'2'},{'name':'M'}]}]}",
		  NULL, 0 },
		{ "Allowed",
		  "{'initContainers':[{'name':'i'}],'containers':[{'name':'a'},{'name':'b'}]}",
		  "[{'name':'1','value':'x'},{'name':'2','value':'y','containerName':'i'},{'name':'3',"
		  "'value':'z','containerName':'a'}]",
		  "{'initContainers':[{'name':'i','env':[{'name':'2','value':'y'}]}],'containers':[{'name':"
		  "'a','env':[{'name':'3','value':'z'},{'name':'1','value':'x'}]},{'name':'b'}]}",
		  NULL, 0 },
		{ "Allowed", "{'containers':[{'name':'a'}]}",
		  "[{'name':'N','value':'2','containerName':'zz'}]", NULL,
		  "target container \"zz\" not found in template for environment variable \"N\"",
		  ERR_INVALID },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *spec = xasprintf("{'env':%s}", rows[i].env);
		autofree char *policy =
			xasprintf("{'envVarsInjectionPolicy':'%s'}", rows[i].policy);
		autoptr(object) c = claim("", spec);
		autoptr(object) t = template(policy);
		autoptr(json_doc) d = doc_of(rows[i].pod);
		autoptr(err) e = claim_inject_env(d, json_root(d), t, c);

		eq_str(e ? err_text(e) : NULL, rows[i].e);
		if (e)
			eq_int(err_code(e), rows[i].code);
		else
			eq_json(json_root(d), rows[i].want);
	}
}

TEST(cases_175_185_188_a_cold_sandbox)
{
	autoptr(object) c =
		claim(",'labels':{'agents.x-k8s.io/created-by':'me'},'annotations':{"
		      "'opentelemetry.io/trace-context':'tc'}",
		      "{'additionalPodMetadata':{'labels':{'sandbox.users.io/a':'b'}}}");
	autoptr(object) t = template("{'podTemplate':{'metadata':{'annotations':{'n':'m'}},'spec':{"
				     "'containers':[]}},'networkPolicyManagement':'Unmanaged'}");
	struct json_doc *d = NULL;
	struct trouble trouble = claim_build_cold(c, t, &d);

	eq_int(trouble.kind, TROUBLE_NONE);
	eq_json(json_root(d),
		"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','metadata':{'name':'c','namespace':"
		"'ns','labels':{'agents.x-k8s.io/claim-uid':'cu','agents.x-k8s.io/created-by':'me',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':'69155462','agents.x-k8s.io/"
		"launch-type':'cold'},'annotations':{'agents.x-k8s.io/sandbox-template-ref':'test-template',"
		"'opentelemetry.io/trace-context':'tc'},'ownerReferences':[{'apiVersion':"
		"'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxClaim','name':'c','uid':'cu',"
		"'controller':true,'blockOwnerDeletion':true}]},'spec':{'podTemplate':{'metadata':{"
		"'annotations':{'n':'m'},'labels':{'agents.x-k8s.io/claim-uid':'cu',"
		"'agents.x-k8s.io/created-by':'me','agents.x-k8s.io/sandbox-template-ref-hash':'69155462',"
		"'sandbox.users.io/a':'b'}},'spec':{'containers':[],'automountServiceAccountToken':false}}}}");
	json_doc_free(d);
}

static const char member_text[] =
	"{'metadata':{'name':'pool-x','namespace':'ns','uid':'su','resourceVersion':'77','labels':{"
	"'agents.x-k8s.io/warm-pool-sandbox':'h','agents.x-k8s.io/sandbox-template-ref-hash':'69155462',"
	"'agents.x-k8s.io/launch-type':'warm','agents.x-k8s.io/sandbox-pod-template-hash':'p',"
	"'agents.x-k8s.io/sandbox-template-hash':'b','agents.x-k8s.io/created-by':'controller'},"
	"'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxWarmPool',"
	"'name':'p','uid':'pu','controller':true}]},'spec':{'podTemplate':{'metadata':{'labels':{"
	"'agents.x-k8s.io/warm-pool-sandbox':'h','agents.x-k8s.io/sandbox-template-ref-hash':'69155462',"
	"'agents.x-k8s.io/sandbox-pod-template-hash':'p','agents.x-k8s.io/sandbox-template-hash':'b'},"
	"'annotations':{'cluster-autoscaler.kubernetes.io/safe-to-evict':'true'}},'spec':{}}}}";

TEST(cases_227_234_adoption_is_one_guarded_patch)
{
	autoptr(object) c = claim("", "{'warmPoolRef':{'name':'p'}}");
	autoptr(object) t = template("{}");
	autoptr(object) sb = object_of(kind_named("Sandbox"), member_text);
	autoptr(json_doc) d = NULL;

	is_true(member_fits_claim(sb, c));
	works(claim_build_adoption(c, sb, t, &d));
	eq_json(json_root(d),
		"{'metadata':{'labels':{'agents.x-k8s.io/claim-uid':'cu','agents.x-k8s.io/"
		"warm-pool-sandbox':null,'agents.x-k8s.io/sandbox-pod-template-hash':null,"
		"'agents.x-k8s.io/sandbox-template-hash':null,'agents.x-k8s.io/created-by':null},"
		"'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxClaim',"
		"'name':'c','uid':'cu','controller':true,'blockOwnerDeletion':true}],'resourceVersion':'77',"
		"'uid':'su'},'spec':{'podTemplate':{'metadata':{'labels':{'agents.x-k8s.io/claim-uid':'cu',"
		"'agents.x-k8s.io/warm-pool-sandbox':null,'agents.x-k8s.io/"
		"sandbox-pod-template-hash':null,'agents.x-k8s.io/sandbox-template-hash':null},"
		"'annotations':{'cluster-autoscaler.kubernetes.io/safe-to-evict':null}}}}}");
}

TEST(case_233_eviction_marks_after_adoption)
{
	static const struct {
		const char *mark; /* on the member */
		const char *want; /* in the patch: NULL for removed, "" for untouched */
	} rows[] = { { "true", NULL }, { "false", "" } };
	autoptr(object) c = claim("", "{'warmPoolRef':{'name':'p'}}");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) sb = object_of_f(
			kind_named("Sandbox"),
			"{'metadata':{'name':'x'},'spec':{'podTemplate':{'metadata':{'annotations':{"
			"'cluster-autoscaler.kubernetes.io/safe-to-evict':'%s'}}}}}",
			rows[i].mark);
		autoptr(json_doc) d = NULL;
		const struct json *a;

		works(claim_build_adoption(c, sb, NULL, &d)); /* the template cannot be read */
		a = json_at_path(json_root(d), "spec.podTemplate.metadata.annotations");
		if (rows[i].want)
			is_false(a);
		else
			eq_json(a, "{'cluster-autoscaler.kubernetes.io/safe-to-evict':null}");
	}
}

TEST(a_metadata_conflict_is_found_before_adoption)
{
	autoptr(object) c = claim("", "{'additionalPodMetadata':{'annotations':{'n':'mine'}}}");
	autoptr(object) t = template("{'podTemplate':{'metadata':{'annotations':{'n':'theirs'}}}}");
	autoptr(object) sb = object_of(kind_named("Sandbox"), member_text);
	autoptr(json_doc) d = NULL;
	autoptr(err) e = claim_build_adoption(c, sb, t, &d);

	eq_str(err_text(e),
	       "metadata override conflict: annotation \"n\" is defined in template with "
	       "value \"theirs\", but claim requests \"mine\"");
}

TEST(cases_180_195_a_bound_sandbox_is_kept_in_line)
{
	autoptr(object) c = claim(",'labels':{'agents.x-k8s.io/created-by':'me'}", "{}");
	autoptr(object) t = template("{}");
	autoptr(object) behind = object_of(kind_named("Sandbox"),
					   "{'metadata':{'name':'c'},'spec':{'podTemplate':{}}}");
	autoptr(object) fine = object_of(
		kind_named("Sandbox"),
		"{'metadata':{'name':'c','labels':{'agents.x-k8s.io/launch-type':'warm',"
		"'agents.x-k8s.io/created-by':'me','agents.x-k8s.io/sandbox-template-ref-hash':'69155462'}},"
		"'spec':{'podTemplate':{'metadata':{'labels':{'agents.x-k8s.io/claim-uid':'cu',"
		"'agents.x-k8s.io/created-by':'me','agents.x-k8s.io/"
		"sandbox-template-ref-hash':'69155462'}}}}}");
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) none = NULL;

	works(claim_build_sync(c, behind, t, &d));
	eq_json(json_root(d),
		"{'spec':{'podTemplate':{'metadata':{'labels':{'agents.x-k8s.io/claim-uid':'cu',"
		"'agents.x-k8s.io/created-by':'me','agents.x-k8s.io/"
		"sandbox-template-ref-hash':'69155462'}}}},'metadata':{'labels':{'agents.x-k8s.io/"
		"launch-type':'cold','agents.x-k8s.io/sandbox-template-ref-hash':'69155462',"
		"'agents.x-k8s.io/created-by':'me'}}}");
	works(claim_build_sync(c, fine, t, &none));
	is_false(none);
}

/* Finding */

TEST(cases_237_to_258_which_sandbox_a_claim_has)
{
#define MINE                                                                                \
	"{'metadata':{'name':'x','namespace':'ns','ownerReferences':[{'apiVersion':"        \
	"'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxClaim','name':'c','uid':'cu'," \
	"'controller':true}]}}"
#define OTHERS                                                                               \
	"{'metadata':{'name':'x','namespace':'ns','ownerReferences':[{'apiVersion':"         \
	"'extensions.agents.x-k8s.io/v1alpha1','kind':'SandboxClaim','name':'d','uid':'du'," \
	"'controller':true}]}}"
	static const struct {
		const char *name, *pool, *by_status, *assigned, *by_owner, *by_name;
		bool named;
		enum find find;
	} rows[] = {
		{ "249", "p", MINE, NULL, NULL, NULL, false, FIND_USE },
		{ "250", "p", NULL, MINE, NULL, NULL, true, FIND_USE },
		{ "crash", "p", NULL, NULL, MINE, NULL, false, FIND_USE },
		{ "crash, and another assigned", "p", NULL, member_text, MINE, NULL, true,
		  FIND_USE },
		{ "237", "p", NULL, member_text, NULL, NULL, true, FIND_COMPLETE },
		{ "251", "q", NULL, member_text, NULL, NULL, true, FIND_FORGET },
		{ "252", "p", NULL, OTHERS, NULL, NULL, true, FIND_FORGET },
		{ "258", "p", NULL, NULL, NULL, NULL, true, FIND_FORGET },
		{ "216", "p", OTHERS, NULL, NULL, NULL, false, FIND_NEW },
		{ "180", "p", NULL, NULL, NULL, MINE, false, FIND_USE },
		{ "179", "p", NULL, NULL, NULL, OTHERS, false, FIND_NAME_USED },
		{ "228", "p", NULL, NULL, NULL, NULL, false, FIND_NEW },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *texts[] = { rows[i].by_status, rows[i].assigned, rows[i].by_owner,
					rows[i].by_name };
		struct object *o[4] = { 0 }, *found = NULL;
		autofree char *spec = xasprintf("{'warmPoolRef':{'name':'%s'}}", rows[i].pool);
		autoptr(object) c = claim(
			rows[i].named ? ",'annotations':{'agents.x-k8s.io/sandbox-name':'x'}" : "",
			spec);

		for (int k = 0; k < 4; k++)
			o[k] = texts[k] ? object_of(kind_named("Sandbox"), texts[k]) : NULL;
		eq_int(claim_find(&(struct claim_seen){ .claim = c,
							.by_status = o[0],
							.assigned = o[1],
							.by_owner = o[2],
							.by_name = o[3] },
				  &found),
		       rows[i].find);
		for (int k = 0; k < 4; k++)
			object_unref(o[k]);
	}
}

TEST(cases_229_243_244_who_is_a_member)
{
	autoptr(object) c = claim("", "{'warmPoolRef':{'name':'p'}}");
	autoptr(object) old = object_of(
		kind_named("Sandbox"),
		"{'metadata':{'namespace':'ns','labels':{'agents.x-k8s.io/warm-pool-sandbox':'',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':''},'ownerReferences':[{'apiVersion':"
		"'extensions.agents.x-k8s.io/v1alpha1','kind':'SandboxWarmPool','name':'p',"
		"'controller':true}]}}");
	autoptr(object) elsewhere = object_of(
		kind_named("Sandbox"),
		"{'metadata':{'namespace':'other','labels':{'agents.x-k8s.io/warm-pool-sandbox':'',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':''},'ownerReferences':[{'apiVersion':"
		"'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxWarmPool','name':'p',"
		"'controller':true}]}}");
	autoptr(object) apps = object_of(
		kind_named("Sandbox"),
		"{'metadata':{'namespace':'ns','labels':{'agents.x-k8s.io/warm-pool-sandbox':'',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':''},'ownerReferences':[{'apiVersion':'apps/v1',"
		"'kind':'SandboxWarmPool','name':'p','controller':true}]}}");
	autoptr(object) orphan = object_of(
		kind_named("Sandbox"),
		"{'metadata':{'namespace':'ns','labels':{'agents.x-k8s.io/warm-pool-sandbox':'',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':''}}}");

	is_true(member_fits_claim(old, c));
	is_false(member_fits_claim(elsewhere, c));
	is_false(member_fits_claim(apps, c));
	is_false(member_fits_claim(orphan, c));
}

/* Status */

TEST(the_rows_of_6_2_what_a_claim_says)
{
#define READY_SB                                                                                        \
	"{'metadata':{'name':'s'},'status':{'podIPs':['10.244.0.6'],'conditions':[{'type':'Ready',"     \
	"'status':'True','reason':'DependenciesReady','message':'Pod is Ready','observedGeneration':9," \
	"'lastTransitionTime':'2026-01-01T00:00:00Z'}]}}"
	static const struct {
		enum trouble_kind kind;
		const char *text, *sandbox;
		bool expired;
		const char *ready;
	} rows[] = {
		{ TROUBLE_TEMPLATE, "SandboxTemplate \"t\" not found", NULL, false,
		  "False/TemplateNotFound/SandboxTemplate \"t\" not found" },
		{ TROUBLE_POOL, "SandboxWarmPool \"p\" not found", NULL, false,
		  "False/WarmPoolNotFound/SandboxWarmPool \"p\" not found" },
		{ TROUBLE_CONFLICT, "adoption write conflict: x", NULL, false,
		  "False/AdoptionConflict/adoption write conflict: x" },
		{ TROUBLE_LAG, "Sandbox already created; waiting for cache to converge", NULL,
		  false,
		  "False/SandboxCreatePending/Sandbox already created; waiting for cache to converge" },
		{ TROUBLE_METADATA, "invalid additionalPodMetadata: x", READY_SB, false,
		  "False/InvalidMetadata/invalid additionalPodMetadata: x" },
		{ TROUBLE_ENV, "environment variable injection rejected: x", NULL, false,
		  "False/EnvVarsInjectionRejected/environment variable injection rejected: x" },
		{ TROUBLE_NOT_OWNED, "sandbox not owned by this claim: x", NULL, true,
		  "False/ClaimExpired/Claim expired. sandbox not owned by this claim: x; deletion "
		  "skipped." },
		{ TROUBLE_VCT, "x", NULL, false, "False/VolumeClaimTemplatesError/x" },
		{ TROUBLE_OTHER, "x", NULL, false, "False/ReconcilerError/Error seen: x" },
		{ TROUBLE_NONE, NULL, READY_SB, true,
		  "False/ClaimExpired/Claim expired. Sandbox cleanup initiated." },
		{ TROUBLE_NONE, NULL, NULL, false, "False/SandboxMissing/Sandbox does not exist" },
		{ TROUBLE_NONE, NULL,
		  "{'metadata':{'name':'s'},'status':{'conditions':[{'type':'Ready','status':'False',"
		  "'reason':'SandboxExpired'}]}}",
		  false,
		  "False/SandboxExpired/Underlying Sandbox resource has expired independently of the "
		  "Claim." },
		{ TROUBLE_NONE, NULL, READY_SB, false, "True/DependenciesReady/Pod is Ready" },
		{ TROUBLE_NONE, NULL, "{'metadata':{'name':'s'}}", false,
		  "False/SandboxNotReady/Sandbox is not ready" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) c = claim("", "{}");
		autoptr(object) sb =
			rows[i].sandbox ? object_of(kind_named("Sandbox"), rows[i].sandbox) : NULL;
		struct trouble t = { rows[i].kind,
				     rows[i].text ? err_new(ERR_SYS, "%s", rows[i].text) : NULL };
		autoptr(json_doc) d =
			claim_status(&(struct claim_facts){ c, sb, &t, rows[i].expired, 0 });

		eq_str(condition_text(json_root(d), "Ready"), rows[i].ready);
		eq_int(json_get_int(conditions_get(json_get(json_root(d), "conditions"), "Ready"),
				    "observedGeneration", 0),
		       3); /* 183, U23: the claim's generation */
		trouble_done(&t);
	}
}

TEST(cases_182_192_218_what_else_a_claim_mirrors)
{
	autoptr(object) c = object_of(
		kind_named("SandboxClaim"),
		"{'metadata':{'name':'c','resourceVersion':'9'},'spec':{},'status':{'sandbox':{'name':'old',"
		"'podIPs':['1']},'conditions':[{'type':'Finished','status':'True'}]}}");
	autoptr(object) sb = object_of(
		kind_named("Sandbox"),
		"{'metadata':{'name':'s'},'status':{'conditions':[{'type':'Finished','status':'True','reason':"
		"'PodFailed','observedGeneration':9}]}}");
	struct trouble none = { 0 }, other = { TROUBLE_OTHER, err_new(ERR_SYS, "x") };
	autoptr(json_doc) bound = claim_status(&(struct claim_facts){ c, sb, &none, false, 0 });
	autoptr(json_doc) unsure = claim_status(&(struct claim_facts){ c, NULL, &other, false, 0 });
	autoptr(json_doc) gone = claim_status(&(struct claim_facts){ c, NULL, &none, true, 0 });
	autoptr(json_doc) patch = claim_status_patch(c, json_root(gone));

	eq_json(json_get(json_root(bound), "sandbox"), "{'name':'s'}");
	eq_json(json_at(json_get(json_root(bound), "conditions"), 0),
		"{'type':'Finished','status':'True','reason':'PodFailed','observedGeneration':9}");
	eq_json(json_get(json_root(unsure), "sandbox"), "{'name':'old','podIPs':['1']}");
	is_false(json_get(json_root(gone), "sandbox"));
	is_true(conditions_true(json_get(json_root(gone), "conditions"), "Finished"));
	eq_json(json_get(json_root(patch), "metadata"), "{'resourceVersion':'9'}"); /* 262 */
	is_true(json_is(json_at_path(json_root(patch), "status.sandbox"), JSON_NULL));
	trouble_done(&other);
}

TEST(case_271_what_a_claim_hears_of_its_sandbox)
{
	static const struct {
		const char *was, *now;
		bool cares;
	} rows[] = {
		{ "{'metadata':{}}", "{'metadata':{'deletionTimestamp':'x'}}", true },
		{ "{'metadata':{},'status':{}}", "{'metadata':{},'status':{'podIPs':['1']}}",
		  true },
		{ "{'metadata':{},'status':{'conditions':[{'type':'Ready','reason':'a'}]}}",
		  "{'metadata':{},'status':{'conditions':[{'type':'Ready','reason':'SandboxExpired'}]}}",
		  true },
		{ "{'metadata':{},'status':{}}",
		  "{'metadata':{},'status':{'conditions':[{'type':'Finished'}]}}", true },
		{ "{'metadata':{},'status':{}}",
		  "{'metadata':{},'status':{'conditions':[{'type':'Suspended'}]}}", false },
		{ "{'metadata':{},'spec':{'a':1}}",
		  "{'metadata':{'labels':{'b':'c'}},'spec':{'a':2}}", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) was = object_of(kind_named("Sandbox"), rows[i].was);
		autoptr(object) now = object_of(kind_named("Sandbox"), rows[i].now);

		eq_int(claim_cares(was, now), rows[i].cares);
		is_true(claim_cares(NULL, now) && claim_cares(was, NULL));
	}
}

TEST(cases_193_253_272_status_and_stamps_in_one_patch)
{
	autoptr(object) fresh = claim("", "{}");
	autoptr(object) ready = object_of(
		kind_named("SandboxClaim"),
		"{'metadata':{'name':'c','uid':'u','resourceVersion':'9','labels':{'agents.x-k8s.io/"
		"sandbox-name':'s'}},'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
	autoptr(object) warm = object_of(
		kind_named("Sandbox"),
		"{'metadata':{'name':'s','labels':{'agents.x-k8s.io/launch-type':'warm'}}}");
	autoptr(object) cold = object_of(
		kind_named("Sandbox"),
		"{'metadata':{'name':'c','labels':{'agents.x-k8s.io/launch-type':'cold'}}}");
	const struct json *was = object_status(ready);
	autoptr(json_doc) new = doc_of("{'x':'y'}");
	autoptr(json_doc) a = claim_report(
		object_status(fresh), &(struct claim_stamps){ fresh, cold, 1, 0, false, true });
	autoptr(json_doc) b =
		claim_report(was, &(struct claim_stamps){ ready, warm, 1, 1000001, true, false });
	autoptr(json_doc) c = claim_report(
		json_root(new), &(struct claim_stamps){ ready, cold, 1, 0, true, false });
	autoptr(json_doc) none = claim_report(
		object_status(fresh), &(struct claim_stamps){ fresh, cold, 1, 0, false, false });

	eq_json(json_at_path(json_root(a), "metadata.annotations"),
		"{'agents.x-k8s.io/"
		"controller-first-observed-at':'1970-01-01T00:00:00.000001000Z'}");
	eq_json(json_root(b),
		"{'metadata':{'uid':'u','annotations':{'agents.x-k8s.io/sandbox-name':'s',"
		"'agents.x-k8s.io/claim-first-ready-at':'1970-01-01T00:00:01.000001000Z'},'labels':{"
		"'agents.x-k8s.io/sandbox-name':null}}}");
	eq_json(json_root(c),
		"{'metadata':{'uid':'u','resourceVersion':'9','annotations':{'agents.x-k8s.io/"
		"claim-first-ready-at':'unknown'},'labels':{'agents.x-k8s.io/sandbox-name':null}},"
		"'status':{'conditions':null,'x':'y'}}");
	is_false(none);
}
