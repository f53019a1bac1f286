/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view.h"

#include "api/object.h"
#include "api/view_claim.h"
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "api/view_template.h"
#include "api_test.h"
#include "kinds.h"

static struct object *of(const char *kind, const char *text)
{
	return object_new(kind_named(kind), doc(text));
}

/* A kind of its own, whose view counts. */
static int n_decoded, n_done;

static void count_decode(const struct object *o unused, void *view)
{
	*(int *)view = ++n_decoded;
}

static void count_done(void *view unused)
{
	n_done++;
}

TEST(a_view_is_decoded_once_and_ends_with_its_object)
{
	static const struct view_type type = { sizeof(int), count_decode, count_done };
	struct kind like = *kind_named("Pod");
	struct object *o, *never;
	struct kind *k;

	like.view = &type;
	k = kind_new(&like);
	o = object_new(k, doc("{}"));
	never = object_new(k, doc("{}"));
	eq_int(*(const int *)object_view(o, &type), 1);
	is_true(object_view(o, &type) == object_view(o, &type));
	eq_int(n_decoded, 1);
	object_unref(never);
	eq_int(n_done, 0);
	object_unref(o);
	eq_int(n_done, 1);
	kind_unref(k);
}

TEST(owners_are_told_apart_by_group_and_kind)
{
	static const struct {
		const char *owners;
		enum owner_type type;
	} rows[] = {
		{ "", OWNER_NONE },
		{ "{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox'}", OWNER_NONE },
		{ "{'apiVersion':'agents.x-k8s.io/v1alpha1','kind':'Sandbox','controller':true}",
		  OWNER_SANDBOX },
		{ "{'apiVersion':'extensions.agents.x-k8s.io/v1','kind':'Sandbox','controller':true}",
		  OWNER_OTHER },
		{ "{'apiVersion':'extensions.agents.x-k8s.io/v1','kind':'SandboxWarmPool',"
		  "'controller':true}",
		  OWNER_POOL },
		{ "{'apiVersion':'apps/v1','kind':'SandboxWarmPool','controller':true}",
		  OWNER_OTHER },
		{ "{'apiVersion':'extensions.agents.x-k8s.io/v1','kind':'SandboxClaim',"
		  "'controller':true}",
		  OWNER_CLAIM },
		{ "{'apiVersion':'extensions.agents.x-k8s.io/v1','kind':'SandboxTemplate',"
		  "'controller':true}",
		  OWNER_TEMPLATE },
		{ "{'kind':'SandboxClaim','controller':true}", OWNER_OTHER },
		{ "{'controller':true}", OWNER_OTHER },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text =
			xasprintf("{'metadata':{'ownerReferences':[%s]}}", rows[i].owners);
		autoptr(object) o = of("Service", text);

		eq_int(owner_view_of(o).type, rows[i].type);
	}
}

/* Each letter is one rule: Suspended, in a Pool, Adoptable, Warm, Networked, Ready, Down,
 * reJected, Kept at shutdown. */
static const char *rules_of(const struct sandbox_view *v)
{
	static char out[16];
	char *c = out;

	if (v->suspended)
		*c++ = 'S';
	if (v->in_pool)
		*c++ = 'P';
	if (v->adoptable)
		*c++ = 'A';
	if (v->warm)
		*c++ = 'W';
	if (v->networked)
		*c++ = 'N';
	if (v->ready.is_true)
		*c++ = 'R';
	if (sandbox_is_down(v))
		*c++ = 'D';
	if (sandbox_was_rejected(v))
		*c++ = 'J';
	if (!v->delete_at_shutdown)
		*c++ = 'K';
	*c = '\0';
	return out;
}

TEST(the_rules_about_a_sandbox)
{
#define LABEL(k, v) "'agents.x-k8s.io/" k "':'" v "'"
#define READY(s, r) "'conditions':[{'type':'Ready','status':'" s "','reason':'" r "'}]"
	static const struct {
		const char *meta, *spec, *status, *rules;
	} rows[] = {
		{ "", "", "", "K" },
		{ "", "'operatingMode':'Suspended'", "", "SDK" },
		{ "", "'operatingMode':'Running','shutdownPolicy':'Retain'", "", "K" },
		{ "", "'shutdownPolicy':'Delete'", "", "" },
		{ "'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1alpha1','kind':"
		  "'SandboxWarmPool','controller':true}]",
		  "", "", "PK" },
		{ "'labels':{" LABEL("warm-pool-sandbox", "") "}", "", "", "K" },
		{ "'labels':{" LABEL("warm-pool-sandbox", "") "," LABEL("sandbox-template-ref-hash",
									"") "}",
		  "", "", "AK" },
		{ "'labels':{" LABEL("launch-type", "warm") "}", "", "", "WK" },
		{ "'labels':{" LABEL("launch-type", "cold") "}", "", "", "K" },
		{ "", "", "'podIPs':[]", "K" },
		{ "", "", "'podIPs':['10.0.0.1']", "NK" },
		{ "", "", READY("True", "DependenciesReady"), "RK" },
		{ "", "", READY("False", "PodFailed"), "DK" },
		{ "", "", READY("False", "PodSucceeded"), "DK" },
		{ "", "", READY("False", "SandboxExpired"), "DK" },
		{ "", "", READY("False", "DependenciesNotReady"), "K" },
		{ "", "", "'conditions':[{'type':'Finished','status':'True'}]", "DK" },
		{ "", "", "'conditions':[{'type':'Finished','status':'False'}]", "K" },
		{ "'deletionTimestamp':'2026-01-01T00:00:00Z'", "", "", "DK" },
		{ "'generation':3", "",
		  "'conditions':[{'type':'Ready','status':'False','reason':'InvalidConfiguration',"
		  "'observedGeneration':3}]",
		  "JK" },
		{ "'generation':4", "",
		  "'conditions':[{'type':'Ready','status':'False','reason':'InvalidConfiguration',"
		  "'observedGeneration':3}]",
		  "K" },
		{ "'labels':7", "'shutdownTime':{}", "'conditions':{},'podIPs':'x'", "K" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf("{'metadata':{%s},'spec':{%s},'status':{%s}}",
						rows[i].meta, rows[i].spec, rows[i].status);
		autoptr(object) o = of("Sandbox", text);

		eq_str(rules_of(sandbox_view(o)), rows[i].rules);
	}
}

TEST(a_sandbox_tracks_the_pod_that_its_annotation_names)
{
	autoptr(object) plain = of("Sandbox", "{'metadata':{'name':'s'}}");
	autoptr(object) named =
		of("Sandbox", "{'metadata':{'name':'s','annotations':{'agents.x-k8s.io/"
			      "pod-name':'p'}},'spec':{'service':true,'shutdownTime':"
			      "'1970-01-01T00:00:01Z'}}");

	eq_str(sandbox_view(plain)->pod_name, "s");
	is_false(sandbox_view(plain)->pod_name_annotated);
	eq_int(sandbox_view(plain)->service, SANDBOX_SERVICE_UNSET);
	eq_int(sandbox_view(plain)->shutdown_at, 0);
	eq_str(sandbox_view(named)->pod_name, "p");
	is_true(sandbox_view(named)->pod_name_annotated);
	eq_int(sandbox_view(named)->service, SANDBOX_SERVICE_WANTED);
	eq_int(sandbox_view(named)->shutdown_at, 1000000);
}

TEST(a_template_and_a_pool_decode)
{
	autoptr(object) bare = of("SandboxTemplate", "{'spec':{'networkPolicy':null}}");
	autoptr(object) open =
		of("SandboxTemplate",
		   "{'spec':{'networkPolicyManagement':'Unmanaged','networkPolicy':{},"
		   "'envVarsInjectionPolicy':'Allowed','volumeClaimTemplatesPolicy':"
		   "'Overrides','podTemplate':{'spec':{'a':1}}}}");
	autoptr(object) small = of("SandboxWarmPool", "{'spec':{}}");
	autoptr(object) strict =
		of("SandboxWarmPool", "{'spec':{'replicas':0,'sandboxTemplateRef':{'name':'t'},"
				      "'updateStrategy':{'type':'Recreate'}}}");

	is_true(template_view(bare)->managed);
	is_true(template_view(bare)->network_policy == NULL);
	eq_int(template_view(bare)->env_policy, TEMPLATE_DISALLOWED);
	is_false(template_view(open)->managed);
	is_true(template_view(open)->network_policy != NULL);
	eq_int(template_view(open)->env_policy, TEMPLATE_ALLOWED);
	eq_int(template_view(open)->volume_policy, TEMPLATE_OVERRIDES);
	eq_json(template_view(open)->blueprint.pod_spec, "{'a':1}");
	eq_int(pool_view(small)->replicas, 1);
	eq_str(pool_view(small)->template, "");
	is_false(pool_view(small)->recreate);
	eq_int(pool_view(strict)->replicas, 0);
	eq_str(pool_view(strict)->template, "t");
	is_true(pool_view(strict)->recreate);
}

TEST(a_claim_decodes)
{
	autoptr(object) bare = of("SandboxClaim", "{'metadata':{}}");
	autoptr(object) old =
		of("SandboxClaim",
		   "{'metadata':{'labels':{'agents.x-k8s.io/sandbox-name':'l'}},'spec':{"
		   "'warmPoolRef':{'name':'p'},'env':[{}],'additionalPodMetadata':{"
		   "'annotations':{'a':'b'}},'lifecycle':{'shutdownPolicy':"
		   "'DeleteForeground'}},'status':{'sandbox':{'name':'s'},'conditions':[{"
		   "'type':'Ready','reason':'ClaimExpired'}]}}");
	autoptr(object) both =
		of("SandboxClaim", "{'metadata':{'labels':{'agents.x-k8s.io/sandbox-name':'l'},"
				   "'annotations':{'agents.x-k8s.io/sandbox-name':'a'}},'spec':{"
				   "'lifecycle':{'shutdownPolicy':'Delete'}}}");
	const struct claim_view *v = claim_view(bare);

	is_true(!v->assigned && !v->sandbox && !v->needs_cold && !v->has_metadata);
	eq_int(v->on_shutdown, CLAIM_RETAIN);
	is_false(claim_says_expired(v));
	v = claim_view(old);
	eq_str(v->assigned, "l");
	eq_str(v->pool, "p");
	eq_str(v->sandbox, "s");
	is_true(v->needs_cold && v->has_metadata && v->assigned_by_label);
	eq_int(v->on_shutdown, CLAIM_DELETE_FOREGROUND);
	is_true(claim_says_expired(v));
	eq_str(claim_view(both)->assigned, "a");
	eq_int(claim_view(both)->on_shutdown, CLAIM_DELETE);
}

TEST(case_221_when_a_claim_expires)
{
#define DONE_AT(s) "'Finished','status':'" s "','lastTransitionTime':'2026-01-01T00:00:30Z'"
	static const struct {
		const char *lifecycle, *finished, *ends;
	} rows[] = {
		{ "", DONE_AT("True"), NULL },
		{ "'ttlSecondsAfterFinished':120", DONE_AT("True"), "2026-01-01T00:02:30Z" },
		{ "'ttlSecondsAfterFinished':0", DONE_AT("True"), "2026-01-01T00:00:30Z" },
		{ "'ttlSecondsAfterFinished':120", DONE_AT("False"), NULL },
		{ "'ttlSecondsAfterFinished':120", "'Other'", NULL },
		{ "'ttlSecondsAfterFinished':120,'shutdownTime':'2026-01-01T00:01:00Z'",
		  DONE_AT("True"), "2026-01-01T00:01:00Z" },
		{ "'ttlSecondsAfterFinished':120,'shutdownTime':'2026-01-01T01:00:00Z'",
		  DONE_AT("True"), "2026-01-01T00:02:30Z" },
		{ "'shutdownTime':'2026-01-01T01:00:00Z'", "'Other'", "2026-01-01T01:00:00Z" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf(
			"{'spec':{'lifecycle':{%s}},'status':{'conditions':[{'type':%s}]}}",
			rows[i].lifecycle, rows[i].finished);
		autoptr(object) o = of("SandboxClaim", text);
		usec want = 0;

		if (rows[i].ends)
			works(clock_parse(rows[i].ends, &want));
		eq_int(claim_expires_at(claim_view(o), &claim_view(o)->finished), want);
	}
}
