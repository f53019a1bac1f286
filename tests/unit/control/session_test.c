/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/view.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "claims.h"
#include "kinds.h"
#include "late.h"
#include "loop/loop.h"
#include "server/server.h"
#include "world.h"

/* Agents, sessions and attachments on a real server. */

static const struct control_options on = { .agents = true, .cluster_services = true };

static void open_team(struct world *w, const char *replicas)
{
	autofree char *more = xasprintf(",'replicas':%s", replicas);

	world_open(w, &on);
	make_template(w, "t", "");
	make_pool(w, "p", "t", more);
	turn(w);
	all_pods_run(w);
	turn(w);
}

static void make_agent(struct world *w, const char *name, const char *sandbox, const char *more)
{
	autofree char *text = xasprintf("{'metadata':{'name':'%s'},'spec':{'sandbox':{"
					"'warmPoolRef':{'name':'p'}%s}%s}}",
					name, sandbox, more);

	create(w, kind_named("Agent"), text);
}

static void make_session(struct world *w, const char *name, const char *agent, const char *more)
{
	autofree char *text =
		xasprintf("{'metadata':{'name':'%s'},'spec':{'agent':'%s'%s}}", name, agent, more);

	create(w, kind_named("Session"), text);
	turn(w);
}

/* "Active/Attached" */
static const char *state_of(struct world *w, const char *session)
{
	static char text[128];
	autoptr(object) o = get(w, kind_named("Session"), session);
	struct condition_view c;

	if (!o)
		return "none";
	c = condition_view_of(json_get(object_status(o), "conditions"), "Ready");
	(void)snprintf(text, sizeof(text), "%s/%s",
		       str_or(json_get_str(object_status(o), "phase"), ""), str_or(c.reason, ""));
	return text;
}

static char *status_text(struct world *w, const char *kind, const char *name, const char *field)
{
	autoptr(object) o = get(w, kind_named(kind), name);

	return o ? xstrdup(json_get_str(object_status(o), field)) : NULL;
}

static bool is_suspended(struct world *w, const char *sandbox)
{
	autoptr(object) o = get(w, kind_named("Sandbox"), sandbox);

	return o && str_eq(json_get_str(object_spec(o), "operatingMode"), "Suspended");
}

static void end(struct world *w, const char *session, bool ended)
{
	patch(w, kind_named("Session"), session, NULL,
	      ended ? "{'spec':{'ended':true}}" : "{'spec':{'ended':false}}");
	turn(w);
}

TEST(a_fresh_session_is_active_in_one_turn_with_a_claim_that_nobody_owns)
{
	autoptr(object) claim = NULL;
	autoptr(object) attachment = NULL;
	autoptr(object) sandbox = NULL;
	autofree char *name = NULL;
	struct world w;

	open_team(&w, "2");
	make_agent(&w, "a", "", "");
	make_session(&w, "x", "a", "");
	eq_str(state_of(&w, "x"), "Active/Attached");
	claim = get(&w, kind_named("SandboxClaim"), "x");
	eq_str(object_label(claim, KEY_SESSION), "x");
	eq_str(object_label(claim, KEY_AGENT), "a");
	is_false(json_get(json_get(claim->root, "metadata"), "ownerReferences"));
	name = bound_to(&w, "x");
	sandbox = get(&w, kind_named("Sandbox"), name);
	eq_str(object_label(sandbox, KEY_SESSION), "x");
	attachment = get(&w, kind_named("Attachment"), "x");
	eq_str(json_get_str(object_spec(attachment), "sandbox"), name);
	eq_json(json_get(object_status(attachment), "effectiveRights"),
		"['exec','read','write','ports']");
	step(&w, 50);
	eq_str(condition_of(&w, kind_named("Agent"), "a", "Ready"),
	       "True/Ready/The agent may have sessions");
	world_done(&w);
}

TEST(an_ended_session_leaves_a_sleeping_sandbox_with_a_clock_and_finds_it_again)
{
	autofree char *name = NULL, *delete_at = NULL, *again = NULL, *none = NULL;
	autoptr(object) claim = NULL;
	autoptr(object) later = NULL;
	struct world w;

	open_team(&w, "1");
	make_agent(&w, "a", ",'retain':'1h'", "");
	make_session(&w, "x", "a", "");
	name = bound_to(&w, "x");
	end(&w, "x", true);
	eq_str(state_of(&w, "x"), "Ended/Ended");
	is_true(is_suspended(&w, name));
	eq_int(count(&w, kind_named("Attachment")), 0);
	claim = get(&w, kind_named("SandboxClaim"), "x");
	delete_at = status_text(&w, "Session", "x", "deleteAt");
	eq_str(json_get_str(json_get(object_spec(claim), "lifecycle"), "shutdownTime"), delete_at);
	eq_str(json_get_str(json_get(object_spec(claim), "lifecycle"), "shutdownPolicy"), "Delete");
	end(&w, "x", false);
	is_false(is_suspended(&w, name));
	turn(&w);
	all_pods_run(&w);
	turn(&w);
	eq_str(state_of(&w, "x"), "Active/Attached");
	again = bound_to(&w, "x");
	eq_str(again, name);
	later = get(&w, kind_named("SandboxClaim"), "x");
	is_false(json_get(object_spec(later), "lifecycle"));
	none = status_text(&w, "Session", "x", "deleteAt");
	is_false(none);
	world_done(&w);
}

TEST(what_a_session_leaves_is_deleted_in_time_and_a_session_that_goes_on_then_gets_another)
{
	autofree char *none = NULL;
	struct world w;

	open_team(&w, "1");
	make_agent(&w, "a", ",'retain':'1h'", "");
	make_session(&w, "x", "a", "");
	end(&w, "x", true);
	step(&w, 3599 * 1000);
	eq_int(count(&w, kind_named("SandboxClaim")), 1);
	step(&w, 2000);
	turn(&w);
	eq_int(count(&w, kind_named("SandboxClaim")), 0);
	none = status_text(&w, "Session", "x", "deleteAt");
	is_false(none);
	end(&w, "x", false);
	all_pods_run(&w);
	turn(&w);
	eq_str(state_of(&w, "x"), "Active/Attached");
	world_done(&w);
}

TEST(a_deleted_session_is_ended_first)
{
	autofree char *name = NULL;
	autoptr(object) claim = NULL;
	struct world w;

	open_team(&w, "1");
	make_agent(&w, "a", "", "");
	make_session(&w, "x", "a", "");
	name = bound_to(&w, "x");
	delete_now(&w, kind_named("Session"), "x");
	turn(&w);
	eq_str(state_of(&w, "x"), "none");
	is_true(is_suspended(&w, name));
	claim = get(&w, kind_named("SandboxClaim"), "x");
	is_true(json_get_str(json_get(object_spec(claim), "lifecycle"), "shutdownTime"));
	/* Another session of that name does not get what this one left. */
	make_session(&w, "x", "a", "");
	turn(&w);
	all_pods_run(&w);
	turn(&w);
	eq_str(state_of(&w, "x"), "Active/Attached");
	eq_int(count(&w, kind_named("SandboxClaim")), 2);
	is_true(is_suspended(&w, name));
	world_done(&w);
}

TEST(deleting_an_agent_ends_its_sessions)
{
	autofree char *name = NULL;
	struct world w;

	open_team(&w, "1");
	make_agent(&w, "a", "", "");
	make_session(&w, "x", "a", "");
	name = bound_to(&w, "x");
	delete_now(&w, kind_named("Agent"), "a");
	turn(&w);
	eq_str(state_of(&w, "x"), "Ended/AgentDeleted");
	is_true(is_suspended(&w, name));
	make_agent(&w, "a", "", "");
	turn(&w);
	eq_str(state_of(&w, "x"), "Ended/AgentDeleted");
	world_done(&w);
}

TEST(a_user_chooses_changes_and_goes_without)
{
	autofree char *name = NULL;
	autoptr(object) attachment = NULL;
	struct world w;

	open_team(&w, "2");
	make_agent(&w, "a", ",'mode':'UserChooses'", "");
	make_session(&w, "x", "a", "");
	eq_str(state_of(&w, "x"), "Pending/NoSandboxChosen");
	make_claim(&w, "mine", "p", "");
	turn(&w);
	name = bound_to(&w, "mine");
	autofree char *choice = xasprintf("{'spec':{'sandbox':'%s'}}", name);

	patch(&w, kind_named("Session"), "x", NULL, choice);
	turn(&w);
	eq_str(state_of(&w, "x"), "Active/Attached");
	patch(&w, kind_named("Session"), "x", NULL, "{'spec':{'sandbox':'none'}}");
	turn(&w);
	eq_str(state_of(&w, "x"), "Active/WithoutSandbox");
	eq_int(count(&w, kind_named("Attachment")), 0);
	patch(&w, kind_named("Session"), "x", NULL, "{'spec':{'sandbox':'new'}}");
	turn(&w);
	eq_str(state_of(&w, "x"), "Active/Attached");
	attachment = get(&w, kind_named("Attachment"), "x");
	is_false(str_eq(json_get_str(object_spec(attachment), "sandbox"), name));
	end(&w, "x", true);
	autofree char *own = bound_to(&w, "x");

	is_false(is_suspended(&w, own)); /* it is the user's */
	is_false(is_suspended(&w, name));
	world_done(&w);
}

TEST(sessions_share_what_the_team_or_the_agent_has)
{
	autofree char *first = NULL, *second = NULL, *third = NULL;
	struct world w;

	open_team(&w, "3");
	make_agent(&w, "a", ",'mode':'Shared'", "");
	make_agent(&w, "b", ",'mode':'Shared'", "");
	make_agent(&w, "c", ",'mode':'PerAgent'", "");
	make_session(&w, "a1", "a", "");
	make_session(&w, "b1", "b", "");
	first = status_text(&w, "Session", "a1", "sandbox");
	second = status_text(&w, "Session", "b1", "sandbox");
	is_true(first);
	eq_str(first, second);
	make_session(&w, "c1", "c", "");
	make_session(&w, "c2", "c", "");
	third = status_text(&w, "Session", "c2", "sandbox");
	eq_str(state_of(&w, "c2"), "Active/Attached");
	is_false(str_eq(third, first));
	eq_int(count(&w, kind_named("SandboxClaim")), 2);
	end(&w, "a1", true);
	end(&w, "c1", true);
	eq_int(count(&w, kind_named("SandboxClaim")), 2);
	is_false(is_suspended(&w, first));
	is_false(is_suspended(&w, third));
	eq_str(state_of(&w, "b1"), "Active/Attached");
	world_done(&w);
}

TEST(an_agent_has_no_more_sandboxes_than_its_whole_chain_allows)
{
	struct world w;

	open_team(&w, "3");
	make_agent(&w, "parent", "", ",'capabilities':{'maxSandboxes':1}");
	make_agent(&w, "a", "", ",'parent':'parent','capabilities':{'maxSandboxes':1}");
	make_session(&w, "x", "a", "");
	make_session(&w, "y", "a", "");
	eq_str(state_of(&w, "x"), "Active/Attached");
	eq_str(state_of(&w, "y"), "Pending/MaxSandboxes");
	delete_now(&w, kind_named("SandboxClaim"), "x");
	patch(&w, kind_named("Session"), "x", NULL, "{'spec':{'sandbox':'none'}}");
	turn(&w);
	turn(&w);
	eq_int(count(&w, kind_named("SandboxClaim")), 1);
	world_done(&w);
}

TEST(a_policy_reaches_every_agent_and_its_attachments_at_once)
{
	autoptr(object) attachment = NULL;
	struct world w;

	open_team(&w, "1");
	make_agent(&w, "a", "", "");
	make_session(&w, "x", "a", "");
	create(&w, kind_named("TeamPolicy"),
	       "{'metadata':{'name':'team'},'spec':{'capabilities':{'rights':['read']}}}");
	turn(&w);
	attachment = get(&w, kind_named("Attachment"), "x");
	eq_json(json_get(object_status(attachment), "effectiveRights"), "['read']");
	create(&w, kind_named("Agent"),
	       "{'metadata':{'name':'b'},'spec':{'parent':'a','capabilities':{'rights':['read']}}}");
	step(&w, 50);
	autoptr(object) agent = get(&w, kind_named("Agent"), "b");

	eq_json(json_get(json_get(object_status(agent), "effective"), "rights"), "['read']");
	world_done(&w);
}

TEST(an_attachment_goes_with_its_sandbox_and_a_private_one_is_refused)
{
	autofree char *name = NULL, *text = NULL;
	struct world w;

	open_team(&w, "2");
	make_agent(&w, "a", "", ",'visibility':'Private'");
	make_agent(&w, "b", ",'mode':'UserChooses'", "");
	make_session(&w, "x", "a", "");
	make_session(&w, "y", "b", ",'sandbox':'none'");
	name = bound_to(&w, "x");
	text = xasprintf("{'metadata':{'name':'r'},'spec':{'session':'y','sandbox':'%s',"
			 "'view':'ReadOnly'}}",
			 name);
	create(&w, kind_named("Attachment"), text);
	turn(&w);
	is_true(str_starts(condition_of(&w, kind_named("Attachment"), "r", "Ready"),
			   "False/SandboxPrivate/"));
	patch(&w, kind_named("Agent"), "a", NULL, "{'spec':{'visibility':'Team'}}");
	turn(&w);
	is_true(str_starts(condition_of(&w, kind_named("Attachment"), "r", "Ready"),
			   "True/Attached/"));
	end(&w, "x", true);
	is_false(is_suspended(&w, name)); /* it is in use */
	end(&w, "y", true);
	is_true(is_suspended(&w, name));
	is_true(str_starts(condition_of(&w, kind_named("Attachment"), "r", "Ready"),
			   "False/SessionEnded/"));
	delete_now(&w, kind_named("SandboxClaim"), "x");
	turn(&w);
	step(&w, 50);
	turn(&w);
	eq_int(count(&w, kind_named("Attachment")), 0);
	world_done(&w);
}

TEST(a_pass_that_finds_nothing_to_change_writes_nothing)
{
	uint64_t rev;
	struct world w;

	open_team(&w, "2");
	make_agent(&w, "a", ",'retain':'1500ms'", "");
	make_session(&w, "x", "a", "");
	make_session(&w, "y", "a", ",'retain':'200000h'");
	end(&w, "y", true);
	step(&w, 5000);
	step(&w, 5000);
	rev = world_rev(&w);
	world_stop(&w);
	world_start(&w, &on);
	turn(&w);
	step(&w, 50);
	eq_int(world_rev(&w), rev);
	world_done(&w);
}

TEST(late_writes_make_nothing_twice_and_no_more_than_an_agent_may_have)
{
	struct world w;

	open_team(&w, "0");
	world_stop(&w);
	w.theirs = late_client(w.loop, server_client(w.server, "system:cay:controller"));
	works(control_start(w.loop, w.theirs, &on, &w.control));
	make_agent(&w, "a", "", ",'capabilities':{'maxSandboxes':3}");
	make_agent(&w, "s", ",'mode':'Shared'", "");
	for (int i = 0; i < 6; i++) {
		create(&w, kind_named("Session"),
		       "{'metadata':{'generateName':'f'},'spec':{'agent':'a'}}");
		create(&w, kind_named("Session"),
		       "{'metadata':{'generateName':'s'},'spec':{'agent':'s'}}");
	}
	for (int i = 0; i < 80; i++) {
		turn(&w);
		is_true(count(&w, kind_named("SandboxClaim")) <= 4);
		all_pods_run(&w);
		step(&w, 100);
	}
	eq_int(count(&w, kind_named("SandboxClaim")), 4);
	eq_int(count(&w, kind_named("Attachment")), 9);
	world_done(&w);
}

TEST(a_question_expires_and_goes_after_a_day)
{
	autofree char *text = NULL;
	struct world w;
	char at[CLOCK_TEXT_MAX];

	world_open(&w, &on);
	clock_format(clock_wall() + 60 * 1000000LL, at);
	text = xasprintf("{'metadata':{'name':'q'},'spec':{'agent':'a','operation':'exec','digest':"
			 "'sha256:%064d','expires':'%s'}}",
			 0, at);
	create(&w, kind_named("Approval"), text);
	turn(&w);
	eq_str(condition_of(&w, kind_named("Approval"), "q", "Expired"), "-");
	step(&w, 61 * 1000);
	is_true(str_starts(condition_of(&w, kind_named("Approval"), "q", "Expired"), "True/"));
	step(&w, 23 * 3600 * 1000);
	eq_int(count(&w, kind_named("Approval")), 1);
	step(&w, 2 * 3600 * 1000);
	eq_int(count(&w, kind_named("Approval")), 0);
	world_done(&w);
}

TEST(a_missing_parent_has_allowed_nothing)
{
	autoptr(object) agent = NULL;
	struct world w;

	open_team(&w, "1");
	make_agent(&w, "parent", "", "");
	make_agent(&w, "a", "", ",'parent':'parent'");
	make_session(&w, "x", "a", "");
	eq_str(state_of(&w, "x"), "Active/Attached");
	delete_now(&w, kind_named("Agent"), "parent");
	turn(&w);
	step(&w, 50);
	eq_str(state_of(&w, "x"), "Pending/AgentNotReady");
	eq_int(count(&w, kind_named("Attachment")), 0);
	agent = get(&w, kind_named("Agent"), "a");
	eq_json(json_get(json_get(object_status(agent), "effective"), "rights"), "[]");
	is_true(str_starts(condition_of(&w, kind_named("Agent"), "a", "Ready"),
			   "False/ParentNotFound/"));
	world_done(&w);
}
