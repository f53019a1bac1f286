/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "base/str.h"
#include "control/claim/claim_priv.h"
#include "fixture.h"
#include "kinds.h"

/* The policy of claims as a table: what is seen, and what is planned. */

#define MADE    "2026-01-01T00:00:00Z"
#define NOW_TXT "2026-01-01T00:00:01Z"

#define OWNED_BY(group, kind, name, uid)                                               \
	"'ownerReferences':[{'apiVersion':'" group "','kind':'" kind "','name':'" name \
	"','uid':'" uid "','controller':true}]"
#define MINE   OWNED_BY("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", "c", "cu")
#define OTHERS OWNED_BY("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", "d", "du")
#define POOLS  OWNED_BY("extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool", "p", "pu")
#define MEMBER                                                                       \
	POOLS ",'labels':{'agents.x-k8s.io/warm-pool-sandbox':'h','agents.x-k8s.io/" \
	      "sandbox-template-ref-hash':'t'}"
/* In line with the claim and the template, so that there is nothing to follow. */
#define IN_LINE                                                                            \
	MINE ",'labels':{'agents.x-k8s.io/launch-type':'warm','agents.x-k8s.io/"           \
	     "sandbox-template-ref-hash':'f10c3da3'}},'spec':{'podTemplate':{'metadata':{" \
	     "'labels':{'agents.x-k8s.io/claim-uid':'cu','agents.x-k8s.io/"                \
	     "sandbox-template-ref-hash':'f10c3da3'}}}"
#define PROMISED     ",'annotations':{'agents.x-k8s.io/sandbox-name':'x'}"
#define ENDS(when)   "'lifecycle':{'shutdownTime':'" when "'}"
#define EXTRA        "'additionalPodMetadata':{'labels':{'sandbox.users.io/a':'b'}}"
#define SAYS_EXPIRED "{'conditions':[{'type':'Ready','status':'False','reason':'ClaimExpired'}]}"
#define RECORDED     "{'sandbox':{'name':'x'}}"

struct sight {
	const char *meta, *spec, *status;                      /* of the claim */
	const char *by_status, *assigned, *by_owner, *by_name; /* metadata of Sandboxes */
	const char *member;                                    /* with PICK_MEMBER */
	const char *template;                                  /* its spec; NULL: {} */
	bool no_pool, no_template, pending, bad_metadata;
	enum err_code adopt_e, create_e, follow_e, unassign_e; /* 0: none */
	unsigned conflicts;
	uint64_t grace_ms;
	const char *policy; /* metadata of the legacy policy */
};

struct intent {
	enum claim_step step;
	enum trouble_kind trouble;
	unsigned conflicts;
	uint64_t wait_ms;
	bool sandbox, doc, expired, drop_policy;
};

static struct object *named(const char *kind, const char *name, const char *meta)
{
	return meta ? object_of_f(kind_named(kind),
				  "{'metadata':{'name':'%s','namespace':'ns','uid':'u-%s',"
				  "'resourceVersion':'7',%s}}",
				  name, name, *meta ? meta : "'x':1")
		    : NULL;
}

static struct err *err_of(enum err_code code)
{
	return code ? err_new(code, "x") : NULL;
}

static void see(const struct sight *s, struct claim_seen *seen)
{
	works(clock_parse(NOW_TXT, &seen->now));
	seen->claim = object_of_f(kind_named("SandboxClaim"),
				  "{'metadata':{'name':'c','namespace':'ns','uid':'cu',"
				  "'creationTimestamp':'" MADE
				  "'%s},'spec':{'warmPoolRef':{'name':'p'}%s%s},'status':%s}",
				  str_or(s->meta, ""), s->spec ? "," : "", str_or(s->spec, ""),
				  str_or(s->status, "{}"));
	seen->by_status = named("Sandbox", "x", s->by_status);
	seen->assigned = named("Sandbox", "x", s->assigned);
	seen->by_owner = named("Sandbox", "x", s->by_owner);
	seen->by_name = named("Sandbox", "c", s->by_name);
	seen->member = named("Sandbox", "p-1", s->member);
	seen->pick = s->member ? PICK_MEMBER : s->pending ? PICK_PENDING : PICK_NONE;
	if (!s->no_pool)
		seen->pool = object_of(kind_named("SandboxWarmPool"),
				       "{'metadata':{'name':'p','uid':'pu'},'spec':{"
				       "'sandboxTemplateRef':{'name':'t'}}}");
	if (!s->no_pool && !s->no_template)
		seen->template = object_of_f(kind_named("SandboxTemplate"),
					     "{'metadata':{'name':'t'},'spec':%s}",
					     str_or(s->template, "{}"));
	seen->legacy_policy = named("NetworkPolicy", "c-network-policy", s->policy);
	seen->bad_metadata = s->bad_metadata ? err_new(ERR_INVALID, "bad") : NULL;
	seen->adopt_e = err_of(s->adopt_e);
	seen->create_e = err_of(s->create_e);
	seen->follow_e = err_of(s->follow_e);
	seen->unassign_e = err_of(s->unassign_e);
	seen->conflicts = s->conflicts;
	seen->grace_ms = s->grace_ms;
}

static void check(const struct sight *s, const struct intent *want)
{
	struct claim_seen seen = { 0 };
	struct claim_plan plan;

	see(s, &seen);
	plan = claim_decide(&seen);
	eq_int(plan.step, want->step);
	eq_int(plan.trouble.kind, want->trouble);
	eq_int(plan.trouble.e != NULL, want->trouble != TROUBLE_NONE);
	eq_int(plan.conflicts, want->conflicts);
	eq_int(plan.wait_ms, want->wait_ms);
	eq_int(plan.sandbox != NULL, want->sandbox);
	eq_int(plan.doc != NULL, want->doc);
	eq_int(plan.expired, want->expired);
	eq_int(plan.drop_policy, want->drop_policy);
	if (plan.step == CLAIM_STEP_ADOPT)
		is_true(plan.member == (seen.assigned ? seen.assigned : seen.member));
	claim_plan_done(&plan);
	err_free((struct err *)seen.follow_e);
	err_free((struct err *)seen.unassign_e);
	claim_seen_done(&seen);
}

struct row {
	struct sight seen;
	struct intent plan;
};

TEST(a_new_claim_is_served_warm_waits_or_is_served_cold)
{
	static const struct row rows[] = {
		{ { .member = MEMBER }, { CLAIM_STEP_ADOPT, .doc = true } },
		{ { .member = MEMBER, .no_template = true }, { CLAIM_STEP_ADOPT, .doc = true } },
		/* its Pod metadata contradicts the template's */
		{ { .member = MEMBER,
		    .spec = EXTRA,
		    .template =
			    "{'podTemplate':{'metadata':{'labels':{'sandbox.users.io/a':'c'}}}}" },
		  { CLAIM_STEP_REPORT, TROUBLE_OTHER } },
		{ { 0 }, { CLAIM_STEP_CREATE, .doc = true } },
		/* members without an address are worth a short wait */
		{ { .pending = true, .grace_ms = 1200 }, { CLAIM_STEP_WAIT, .wait_ms = 200 } },
		{ { .pending = true, .grace_ms = 9000 }, { CLAIM_STEP_WAIT, .wait_ms = 500 } },
		{ { .pending = true, .grace_ms = 1000 }, { CLAIM_STEP_CREATE, .doc = true } },
		{ { .grace_ms = 9000 }, { CLAIM_STEP_CREATE, .doc = true } },
		/* what is missing */
		{ { .no_pool = true }, { CLAIM_STEP_REPORT, TROUBLE_POOL } },
		{ { .no_template = true }, { CLAIM_STEP_REPORT, TROUBLE_TEMPLATE } },
		/* what the template forbids */
		{ { .spec = "'env':[{'name':'A'}]" }, { CLAIM_STEP_REPORT, TROUBLE_ENV } },
		{ { .spec = "'env':[{'name':'A'}]",
		    .template = "{'envVarsInjectionPolicy':'Allowed','podTemplate':{'spec':{"
				"'containers':[{'name':'a'}]}}}" },
		  { CLAIM_STEP_CREATE, .doc = true } },
		{ { .spec = "'volumeClaimTemplates':[{'metadata':{'name':'d'}}]" },
		  { CLAIM_STEP_REPORT, TROUBLE_VCT } },
		/* a Sandbox of its name is somebody else's */
		{ { .by_name = OTHERS }, { CLAIM_STEP_REPORT, TROUBLE_OTHER } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i].seen, &rows[i].plan);
}

TEST(what_the_last_write_came_to_decides_what_follows)
{
	static const struct row rows[] = {
		/* a member went to somebody else: the next one, but not for ever */
		{ { .member = MEMBER, .adopt_e = ERR_CONFLICT },
		  { CLAIM_STEP_ADOPT, .conflicts = 1, .doc = true } },
		{ { .member = MEMBER, .adopt_e = ERR_NOT_FOUND, .conflicts = 3 },
		  { CLAIM_STEP_ADOPT, .conflicts = 4, .doc = true } },
		{ { .member = MEMBER, .adopt_e = ERR_CONFLICT, .conflicts = 4 },
		  { CLAIM_STEP_REPORT, TROUBLE_CONFLICT } },
		{ { .member = MEMBER, .conflicts = 4 },
		  { CLAIM_STEP_ADOPT, .conflicts = 4, .doc = true } },
		{ { .member = MEMBER, .adopt_e = ERR_INVALID },
		  { CLAIM_STEP_REPORT, TROUBLE_OTHER } },
		{ { .adopt_e = ERR_CONFLICT }, { CLAIM_STEP_CREATE, .conflicts = 1, .doc = true } },
		/* a create */
		{ { .create_e = ERR_EXISTS }, { CLAIM_STEP_REPORT, TROUBLE_LAG } },
		{ { .create_e = ERR_FORBIDDEN }, { CLAIM_STEP_REPORT, TROUBLE_OTHER } },
		/* none of it matters to a claim that has its Sandbox */
		{ { .by_owner = IN_LINE, .adopt_e = ERR_CONFLICT, .conflicts = 4 },
		  { CLAIM_STEP_FOLLOW, .sandbox = true } },
		{ { .by_name = IN_LINE, .create_e = ERR_EXISTS },
		  { CLAIM_STEP_FOLLOW, .sandbox = true } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i].seen, &rows[i].plan);
}

TEST(a_promised_sandbox_is_taken_or_forgotten)
{
	static const struct row rows[] = {
		{ { .meta = PROMISED, .assigned = MEMBER }, { CLAIM_STEP_ADOPT, .doc = true } },
		{ { .meta = PROMISED, .assigned = MEMBER, .adopt_e = ERR_INVALID },
		  { CLAIM_STEP_REPORT, TROUBLE_OTHER } },
		{ { .meta = PROMISED, .assigned = OTHERS }, { CLAIM_STEP_UNASSIGN, .doc = true } },
		{ { .meta = PROMISED, .member = MEMBER }, { CLAIM_STEP_UNASSIGN, .doc = true } },
		{ { .meta = PROMISED, .unassign_e = ERR_FORBIDDEN },
		  { CLAIM_STEP_REPORT, TROUBLE_OTHER } },
		{ { .meta = PROMISED, .assigned = IN_LINE },
		  { CLAIM_STEP_FOLLOW, .sandbox = true } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i].seen, &rows[i].plan);
}

TEST(a_sandbox_follows_its_claim)
{
	static const struct row rows[] = {
		{ { .by_status = IN_LINE }, { CLAIM_STEP_FOLLOW, .sandbox = true } },
		{ { .by_status = MINE }, { CLAIM_STEP_FOLLOW, .sandbox = true, .doc = true } },
		{ { .by_status = MINE, .follow_e = ERR_FORBIDDEN },
		  { CLAIM_STEP_REPORT, TROUBLE_OTHER, .sandbox = true } },
		{ { .by_status = IN_LINE, .follow_e = ERR_FORBIDDEN },
		  { CLAIM_STEP_FOLLOW, .sandbox = true } },
		/* without the template only a claim with metadata has a problem */
		{ { .by_status = IN_LINE, .no_template = true },
		  { CLAIM_STEP_FOLLOW, .sandbox = true } },
		{ { .by_status = IN_LINE, .no_template = true, .spec = EXTRA },
		  { CLAIM_STEP_REPORT, TROUBLE_TEMPLATE, .sandbox = true } },
		{ { .by_status = IN_LINE, .no_pool = true, .spec = EXTRA },
		  { CLAIM_STEP_REPORT, TROUBLE_POOL, .sandbox = true } },
		/* refused metadata leaves the Sandbox alone */
		{ { .by_name = MINE, .bad_metadata = true },
		  { CLAIM_STEP_REPORT, TROUBLE_METADATA, .sandbox = true } },
		{ { .by_name = OTHERS, .bad_metadata = true },
		  { CLAIM_STEP_REPORT, TROUBLE_METADATA } },
		{ { .status = RECORDED, .by_name = MINE, .bad_metadata = true },
		  { CLAIM_STEP_REPORT, TROUBLE_METADATA } },
		{ { .member = MEMBER, .bad_metadata = true },
		  { CLAIM_STEP_REPORT, TROUBLE_METADATA } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i].seen, &rows[i].plan);
}

TEST(an_expired_claim_says_so_and_then_goes_or_cleans_up)
{
#define AFTER(policy) "'lifecycle':{'shutdownTime':'" MADE "','shutdownPolicy':'" policy "'}"
	static const struct row rows[] = {
		{ { .spec = ENDS("2026-01-01T00:00:02Z"), .by_status = IN_LINE },
		  { CLAIM_STEP_FOLLOW, .sandbox = true } },
		{ { .spec = ENDS(NOW_TXT), .by_status = IN_LINE }, { CLAIM_STEP_EXPIRE } },
		{ { .spec = ENDS(NOW_TXT), .member = MEMBER, .bad_metadata = true },
		  { CLAIM_STEP_EXPIRE } },
		{ { .spec = AFTER("Retain"), .status = SAYS_EXPIRED, .by_name = MINE },
		  { CLAIM_STEP_CLEAN_UP, .sandbox = true, .expired = true } },
		{ { .spec = AFTER("Retain"),
		    .status = SAYS_EXPIRED,
		    .by_name = MINE ",'deletionTimestamp':'" MADE "'" },
		  { CLAIM_STEP_REPORT, .sandbox = true, .expired = true } },
		{ { .spec = AFTER("Retain"), .status = SAYS_EXPIRED },
		  { CLAIM_STEP_REPORT, .expired = true } },
		{ { .spec = AFTER("Retain"), .status = SAYS_EXPIRED, .by_name = OTHERS },
		  { CLAIM_STEP_REPORT, TROUBLE_NOT_OWNED, .expired = true } },
		{ { .spec = AFTER("Delete"), .status = SAYS_EXPIRED, .by_name = MINE },
		  { CLAIM_STEP_DELETE, .expired = true } },
		{ { .spec = AFTER("DeleteForeground"), .status = SAYS_EXPIRED },
		  { CLAIM_STEP_DELETE, .expired = true } },
		{ { .meta = ",'deletionTimestamp':'" MADE "'", .spec = ENDS(MADE) },
		  { CLAIM_STEP_NONE } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i].seen, &rows[i].plan);
}

TEST(a_policy_that_older_controllers_made_goes)
{
	static const struct row rows[] = {
		{ { .member = MEMBER, .policy = MINE },
		  { CLAIM_STEP_ADOPT, .doc = true, .drop_policy = true } },
		{ { .meta = ",'deletionTimestamp':'" MADE "'", .policy = MINE },
		  { CLAIM_STEP_NONE, .drop_policy = true } },
		{ { .member = MEMBER, .policy = OTHERS }, { CLAIM_STEP_ADOPT, .doc = true } },
		{ { .member = MEMBER, .policy = "" }, { CLAIM_STEP_ADOPT, .doc = true } },
		{ { .member = MEMBER, .policy = OWNED_BY("apps/v1", "SandboxClaim", "c", "cu") },
		  { CLAIM_STEP_ADOPT, .doc = true } },
		{ { .member = MEMBER, .policy = MINE ",'deletionTimestamp':'" MADE "'" },
		  { CLAIM_STEP_ADOPT, .doc = true } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(&rows[i].seen, &rows[i].plan);
}
