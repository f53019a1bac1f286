/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/str.h"
#include "control/agent/wall.h"
#include "control/approval/approval_priv.h"
#include "control/attachment/attachment_priv.h"
#include "control/session/session_priv.h"
#include "test.h"

/* The decisions about sessions, attachments and approvals, as tables. */

#define S   *1000000LL
#define NOW (1000000 S)

static const char *const all[] = { "*", NULL };

/* Everything is as it should be, but for what a row changes. */
struct stage {
	struct session_view session;
	struct agent_view agent;
	struct team_policy_view policy;
	struct capabilities caps;
	struct claim_view claim;
	struct sandbox_view sandbox;
	struct attachment_view attachment;
	struct session_seen seen;
};

static void stage_init(struct stage *t)
{
	*t = (struct stage){
		.session = { .agent = "a", .sandbox = "", .claim = "", .retain = -1 },
		.agent = { .parent = "",
			   .pool = "p",
			   .retain = 3600 S,
			   .verified = true,
			   .class_if_verified = "",
			   .class_if_unverified = "" },
		.policy = { .floor = "" },
		.caps = { .rights = RIGHTS_DEFAULT,
			  .credentials = all,
			  .tools = all,
			  .runtime_classes = all,
			  .max_sandboxes = -1 },
		.claim = { .sandbox = "s" },
		.attachment = { .session = "x",
				.sandbox = "s",
				.rights = RIGHTS_DEFAULT,
				.ready = { .is_true = true } },
	};
	t->seen = (struct session_seen){ .v = &t->session,
					 .reason = "",
					 .agent = &t->agent,
					 .caps = &t->caps,
					 .template = "t",
					 .template_class = "",
					 .own = { .name = "x" },
					 .own_retain = -1,
					 .now = NOW };
}

static void add_claim(struct stage *t, usec retain)
{
	t->seen.own = (struct claim_seen_by){ .v = &t->claim,
					      .name = "x",
					      .sandbox = &t->sandbox,
					      .sandbox_name = "s",
					      .labelled = true };
	t->seen.own_retain = retain;
	t->seen.finalizer = retain >= 0;
	t->seen.class = "";
	t->claim.ready.is_true = true;
}

static void add_attachment(struct stage *t)
{
	t->seen.attachment = &t->attachment;
}

/* The target's claim is the own one unless the row says otherwise. */
static void check(struct stage *t, enum session_step step, enum session_phase phase,
		  const char *reason)
{
	struct session_plan plan;

	if (t->seen.agent && session_target(&t->session, &t->agent) == TARGET_OWN)
		t->seen.claim = t->seen.own;
	plan = session_decide(&t->seen);
	eq_int(plan.step, step);
	eq_int(plan.phase, phase);
	eq_str(plan.reason, reason);
	is_false(str_empty(plan.message));
	session_plan_done(&plan);
}

TEST(a_session_is_for_the_sandbox_that_its_spec_or_else_the_mode_says)
{
	static const struct {
		const char *sandbox;
		enum session_mode mode;
		enum target target;
	} rows[] = {
		{ "", MODE_FRESH_PER_SESSION, TARGET_OWN },
		{ "", MODE_USER_CHOOSES, TARGET_UNDECIDED },
		{ "", MODE_SHARED, TARGET_SHARED },
		{ "", MODE_PER_AGENT, TARGET_AGENT },
		{ "new", MODE_USER_CHOOSES, TARGET_OWN },
		{ "none", MODE_USER_CHOOSES, TARGET_WITHOUT },
		{ "s", MODE_USER_CHOOSES, TARGET_NAMED },
		{ "s", MODE_SHARED, TARGET_NAMED },
		{ "none", MODE_FRESH_PER_SESSION, TARGET_WITHOUT },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct session_view v = { .sandbox = rows[i].sandbox };
		const struct agent_view agent = { .mode = rows[i].mode };

		eq_int(session_target(&v, &agent), rows[i].target);
	}
}

TEST(a_new_session_is_guarded_claims_and_attaches_step_by_step)
{
	struct stage t;

	stage_init(&t);
	check(&t, SESSION_STEP_GUARD, SESSION_PENDING, "Claiming");
	t.seen.finalizer = true;
	check(&t, SESSION_STEP_CLAIM, SESSION_PENDING, "Claiming");
	add_claim(&t, 3600 S);
	t.claim.ready = (struct condition_view){ .reason = "SandboxNotReady", .message = "wait" };
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "SandboxNotReady");
	t.claim.ready.is_true = true;
	t.seen.own.labelled = false;
	check(&t, SESSION_STEP_LABEL, SESSION_PENDING, "Claiming");
	t.seen.own.labelled = true;
	check(&t, SESSION_STEP_ATTACH, SESSION_PENDING, "Attaching");
	add_attachment(&t);
	t.attachment.ready.is_true = false; /* nobody gets in by it */
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "Attaching");
	t.attachment.ready.is_true = true;
	check(&t, SESSION_STEP_REPORT, SESSION_ACTIVE, "Attached");
	t.claim.ready.is_true = false; /* it sleeps, or starts again: that ends no session */
	check(&t, SESSION_STEP_REPORT, SESSION_ACTIVE, "Attached");
}

TEST(a_session_that_cannot_have_a_sandbox_says_why)
{
	static const char *const other[] = { "other-*", NULL }, *const classes[] = { "gvisor",
										     NULL };
	const struct err *refused = err_new(ERR_INVALID, "no");
	struct stage t;

	stage_init(&t);
	t.seen.agent = NULL;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "AgentNotFound");
	stage_init(&t);
	t.seen.fault = CHAIN_NO_PARENT;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "AgentNotReady");
	stage_init(&t);
	t.agent.pool = "";
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "NoPool");
	stage_init(&t);
	t.seen.template = NULL;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "PoolNotFound");
	stage_init(&t);
	t.seen.template_class = NULL;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "TemplateNotFound");
	stage_init(&t);
	t.seen.policy = &t.policy;
	t.policy.templates = other;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "TemplateNotAllowed");
	stage_init(&t);
	t.caps.max_sandboxes = 2;
	t.seen.n_claims = 2;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "MaxSandboxes");
	t.seen.n_claims = 1;
	check(&t, SESSION_STEP_GUARD, SESSION_PENDING, "Claiming");
	stage_init(&t);
	t.caps.runtime_classes = classes;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "RuntimeClassNotAllowed");
	stage_init(&t);
	t.seen.own.name = NULL;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "ClaimNameTaken");
	stage_init(&t);
	t.seen.create_e = refused;
	check(&t, SESSION_STEP_REPORT, SESSION_FAILED, "ClaimRefused");
	stage_init(&t);
	t.agent.mode = MODE_USER_CHOOSES;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "NoSandboxChosen");
	t.session.sandbox = "s";
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "SandboxNotFound");
	err_free((struct err *)refused);
}

TEST(a_session_that_may_no_longer_have_its_sandbox_is_detached)
{
	static const char *const classes[] = { "gvisor", "native", NULL };
	struct stage t;

	stage_init(&t);
	add_claim(&t, 3600 S);
	add_attachment(&t);
	t.seen.policy = &t.policy;
	t.policy.runtime_classes = classes;
	t.policy.floor = "gvisor";
	check(&t, SESSION_STEP_REPORT, SESSION_ACTIVE, "Attached");
	t.agent.verified = false;
	check(&t, SESSION_STEP_DETACH, SESSION_PENDING, "RuntimeClassNotAllowed");
	t.seen.class = "gvisor";
	check(&t, SESSION_STEP_REPORT, SESSION_ACTIVE, "Attached");
}

TEST(the_choice_of_a_user_is_followed_at_any_time)
{
	struct stage t;

	stage_init(&t);
	t.agent.mode = MODE_USER_CHOOSES;
	t.session.sandbox = "s";
	t.seen.named = &t.sandbox;
	t.seen.class = "";
	check(&t, SESSION_STEP_ATTACH, SESSION_PENDING, "Attaching");
	add_attachment(&t);
	check(&t, SESSION_STEP_REPORT, SESSION_ACTIVE, "Attached");
	t.session.sandbox = "other";
	check(&t, SESSION_STEP_DETACH, SESSION_PENDING, "Detaching");
	t.session.sandbox = "none";
	check(&t, SESSION_STEP_DETACH, SESSION_ACTIVE, "WithoutSandbox");
	t.seen.attachment = NULL;
	check(&t, SESSION_STEP_REPORT, SESSION_ACTIVE, "WithoutSandbox");
	t.session.sandbox = "new"; /* the sandbox is the user's: no clock, so nothing to guard */
	check(&t, SESSION_STEP_CLAIM, SESSION_PENDING, "Claiming");
}

TEST(the_end_sets_the_clock_before_anything_else)
{
	struct stage t;

	stage_init(&t);
	add_claim(&t, 3600 S);
	add_attachment(&t);
	t.session.ended = true;
	check(&t, SESSION_STEP_STAMP, SESSION_ENDED, "Ended");
	t.session.ended_at = NOW;
	check(&t, SESSION_STEP_CLOCK, SESSION_ENDED, "Ended");
	t.claim.shutdown_at = NOW + 3600 S;
	check(&t, SESSION_STEP_CLOCK, SESSION_ENDED, "Ended"); /* the claim itself would stay */
	t.claim.on_shutdown = CLAIM_DELETE;
	check(&t, SESSION_STEP_DETACH, SESSION_ENDED, "Ended");
	t.seen.attachment = NULL;
	check(&t, SESSION_STEP_SUSPEND, SESSION_ENDED, "Ended");
	t.seen.own_shared = true;
	check(&t, SESSION_STEP_REPORT, SESSION_ENDED, "Ended");
	t.seen.own_shared = false;
	t.sandbox.suspended = true;
	check(&t, SESSION_STEP_REPORT, SESSION_ENDED, "Ended");
	t.seen.own.asleep = true; /* a packet could wake it */
	check(&t, SESSION_STEP_SUSPEND, SESSION_ENDED, "Ended");
	t.seen.own.asleep = false;
	t.session.deleting = true;
	check(&t, SESSION_STEP_RELEASE, SESSION_ENDED, "Ended");
	t.seen.finalizer = false;
	check(&t, SESSION_STEP_NONE, SESSION_ENDED, "Ended");
}

TEST(the_end_only_detaches_where_the_sandbox_is_not_the_sessions_own)
{
	struct stage t;

	stage_init(&t);
	add_claim(&t, -1);
	add_attachment(&t);
	t.session.ended = true;
	t.session.ended_at = NOW;
	check(&t, SESSION_STEP_DETACH, SESSION_ENDED, "Ended");
	t.seen.attachment = NULL;
	check(&t, SESSION_STEP_REPORT, SESSION_ENDED, "Ended");
}

TEST(an_ended_session_that_goes_on_finds_its_sandbox_again)
{
	struct stage t;

	stage_init(&t);
	add_claim(&t, 3600 S);
	t.session.ended_at = NOW - 60 S;
	t.session.phase = SESSION_ENDED;
	t.seen.reason = "Ended";
	t.claim.shutdown_at = NOW + 3540 S;
	t.claim.on_shutdown = CLAIM_DELETE;
	t.claim.ready.is_true = false;
	t.sandbox.suspended = true;
	check(&t, SESSION_STEP_CLOCK, SESSION_PENDING, "Claiming");
	t.claim.shutdown_at = 0;
	check(&t, SESSION_STEP_RESUME, SESSION_PENDING, "Claiming");
	t.sandbox.suspended = false;
	check(&t, SESSION_STEP_REPORT, SESSION_PENDING, "ClaimNotReady");
	t.claim.ready.is_true = true;
	check(&t, SESSION_STEP_ATTACH, SESSION_PENDING, "Attaching");
	t.seen.own = (struct claim_seen_by){ .name = "x" };
	check(&t, SESSION_STEP_CLAIM, SESSION_PENDING, "Claiming");
}

TEST(the_deletion_of_its_agent_ends_a_session_for_good)
{
	struct stage t;

	stage_init(&t);
	add_claim(&t, 7200 S);
	t.session.phase = SESSION_ACTIVE;
	t.session.ended_at = NOW;
	t.seen.reason = "Attached";
	t.seen.agent = NULL;
	check(&t, SESSION_STEP_CLOCK, SESSION_ENDED, "AgentDeleted");
	t.claim.shutdown_at = NOW + 7200 S; /* as the claim says: the agent cannot be asked */
	t.claim.on_shutdown = CLAIM_DELETE;
	t.sandbox.suspended = true;
	check(&t, SESSION_STEP_REPORT, SESSION_ENDED, "AgentDeleted");
	t.session.phase = SESSION_ENDED;
	t.seen.reason = "AgentDeleted";
	t.seen.agent = &t.agent; /* another of that name */
	t.agent.retain = 7200 S;
	check(&t, SESSION_STEP_REPORT, SESSION_ENDED, "AgentDeleted");
	t.session.ended = true;
	check(&t, SESSION_STEP_REPORT, SESSION_ENDED, "Ended");
	t.session.ended = false;
	t.seen.reason = "Ended";
	check(&t, SESSION_STEP_CLOCK, SESSION_PENDING, "Claiming");
}

TEST(retention_is_the_sessions_else_the_agents_within_the_teams)
{
	static const struct {
		usec session, agent, most, known, want;
	} rows[] = {
		{ -1, 10 S, 0, -1, 10 S },      { 5 S, 10 S, 0, -1, 5 S },
		{ 0, 10 S, 0, -1, 0 },          { -1, 10 S, 3 S, -1, 3 S },
		{ 50 S, 10 S, 20 S, -1, 20 S }, { -1, -1, 0, 7 S, 7 S },
		{ 1500000, 10 S, 0, -1, 1 S },  { INT64_MAX, 10 S, 0, -1, INT32_MAX S },
		{ -1, -1, 0, -1, 24 * 3600 S }, { -1, -1, 60 S, -1, 60 S },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct session_view v = { .retain = rows[i].session };
		const struct agent_view agent = { .retain = rows[i].agent };
		const struct team_policy_view policy = { .retain_max = rows[i].most };

		eq_int(session_retain(&v, rows[i].agent < 0 ? NULL : &agent, &policy,
				      rows[i].known),
		       rows[i].want);
	}
}

TEST(a_wall_is_right_if_agent_capabilities_and_team_accept_it)
{
	static const char *const strongest_first[] = { "vm", "gvisor", "native", NULL };
	static const char *const no_vm[] = { "gvisor", "native", NULL };
	static const struct {
		bool verified;
		const char *if_verified, *if_unverified, *floor, *class;
		bool fits;
	} rows[] = {
		{ true, "", "", "", "", true },
		{ true, "native", "", "", "", true },
		{ true, "gvisor", "", "", "", false },
		{ true, "", "gvisor", "", "", true },
		{ false, "", "gvisor", "", "", false },
		{ false, "", "gvisor", "", "gvisor", true },
		{ false, "", "", "gvisor", "", false },
		{ false, "", "", "gvisor", "gvisor", true },
		{ true, "", "", "gvisor", "", true },
		{ true, "", "", "", "vm", false }, /* not among its capabilities */
		{ false, "", "native", "native", "native", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct agent_view agent = { .verified = rows[i].verified,
						  .class_if_verified = rows[i].if_verified,
						  .class_if_unverified = rows[i].if_unverified };
		const struct capabilities caps = { .runtime_classes = no_vm };
		const struct team_policy_view policy = { .runtime_classes = strongest_first,
							 .floor = rows[i].floor };
		autofree char *why = wall_refuses(&agent, &caps, &policy, rows[i].class);

		eq_int(!why, rows[i].fits);
	}
}

static void check_attachment(const struct attachment_seen *s, enum attachment_step step,
			     const char *reason)
{
	struct attachment_plan plan = attachment_decide(s);

	eq_int(plan.step, step);
	eq_str(plan.reason, reason);
	eq_int(plan.ready, str_eq(reason, "Attached"));
	eq_int(!plan.rights, !plan.ready);
	attachment_plan_done(&plan);
}

TEST(an_attachment_holds_or_says_why_not)
{
	struct stage t;
	struct attachment_seen s;

	stage_init(&t);
	s = (struct attachment_seen){ .v = &t.attachment };
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "SessionNotFound");
	s.session = &t.session;
	check_attachment(&s, ATTACHMENT_STEP_OWN, "SandboxNotFound");
	s.owned = OWNED_YES;
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "SandboxNotFound");
	s.sandbox = &t.sandbox;
	s.class = "";
	s.caps = &t.caps;
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "AgentNotFound");
	s.agent = &t.agent;
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "Attached");
	s.private_to = "b";
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "SandboxPrivate");
	s.private_to = NULL;
	t.caps.rights = 1U << RIGHT_LIFECYCLE;
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "NoRights");
	t.caps.rights = 1U << RIGHT_READ;
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "Attached");
	t.session.ended = true;
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "SessionEnded");
	t.session.ended = false;
	t.attachment.ready.reason = "Attached";
	s.sandbox = NULL;
	check_attachment(&s, ATTACHMENT_STEP_DELETE, "SandboxNotFound");
	t.attachment.ready.reason = "SandboxNotFound"; /* it never had one */
	check_attachment(&s, ATTACHMENT_STEP_REPORT, "SandboxNotFound");
	s.owned = OWNED_BY_ANOTHER;
	check_attachment(&s, ATTACHMENT_STEP_DELETE, "SandboxNotFound");
}

TEST(an_approval_expires_and_is_removed_a_day_after_it_was_closed)
{
	static const struct {
		enum approval_decision decision;
		usec expires, decided_at;
		size_t n_open;
		enum approval_step step;
		usec look_at;
	} rows[] = {
		{ APPROVAL_OPEN, NOW + 5 S, 0, 1, APPROVAL_STEP_NONE, NOW + 5 S },
		{ APPROVAL_OPEN, NOW, 0, 1, APPROVAL_STEP_EXPIRE, 0 },
		{ APPROVAL_OPEN, NOW + 5 S, 0, 1000, APPROVAL_STEP_NONE, NOW + 5 S },
		{ APPROVAL_OPEN, NOW + 5 S, 0, 1001, APPROVAL_STEP_DELETE, 0 },
		{ APPROVAL_EXPIRED, NOW - 5 S, 0, 0, APPROVAL_STEP_NONE, NOW + 86395 S },
		{ APPROVAL_EXPIRED, NOW - 86400 S, 0, 0, APPROVAL_STEP_DELETE, 0 },
		{ APPROVAL_ONCE, NOW + 5 S, NOW - 9 S, 0, APPROVAL_STEP_NONE, NOW + 86391 S },
		{ APPROVAL_DENIED, NOW - 90000 S, NOW - 86400 S, 0, APPROVAL_STEP_DELETE, 0 },
		{ APPROVAL_ALWAYS, NOW - 90000 S, 0, 0, APPROVAL_STEP_DELETE, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct approval_view v = { .decision = rows[i].decision,
						 .expires = rows[i].expires };
		const struct approval_seen s = { &v, rows[i].decided_at, rows[i].n_open, NOW };
		struct approval_plan plan = approval_decide(&s);

		eq_int(plan.step, rows[i].step);
		eq_int(plan.look_at, rows[i].look_at);
	}
}
