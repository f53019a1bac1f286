/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent.h"
#include "api/cay/budget.h"
#include "api/cay/cay.h"
#include "api/cay/schema_priv.h"
#include "api/cay/session.h"
#include "api/cay/team.h"
#include "api/jsonpath.h"
#include "api/object.h"
#include "api_test.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/regex.h"
#include "kinds.h"

#define S          ((usec)1000000)
#define KEY_1      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define KEY_2      "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define DIGEST     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SHA_DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MD5_DIGEST "md5:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAMED(n)   "'metadata':{'name':'" n "'}"

static const struct kind *cay_kind(const char *name)
{
	autofree char *full = xasprintf(API_CAY " %s", name);

	return kind_named(full);
}

static struct object *made(const char *kind, const char *text)
{
	struct json_doc *d = doc(text);
	struct causes c = { 0 };
	autofree char *wrong = NULL;

	admit(d, cay_kind(kind), NULL, &c);
	wrong = causes_text(&c);
	if (c.n)
		print_error("%s\n", wrong);
	eq_int(c.n, 0);
	causes_done(&c);
	return object_new(cay_kind(kind), d);
}

TEST(kinds_of_cay_get_their_defaults)
{
	static const struct {
		const char *kind, *object, *spec;
	} rows[] = {
		{ "Agent", "{" NAMED("a") "}",
		  "{'sandbox':{'mode':'FreshPerSession','retain':'24h'},'capabilities':{"
		  "'rights':['exec','read','write','ports'],'egress':[],'credentials':[],"
		  "'tools':['*'],'runtimeClasses':['*']},"
		  "'approval':{'default':'Allow','timeout':'10m'},'visibility':'Team'}" },
		{ "Agent",
		  "{" NAMED("a") ",'spec':{'keys':[{'name':'k','publicKey':'" KEY_1 "'}],"
				 "'capabilities':{'rights':[]},'approval':{'default':'Deny'}}}",
		  "{'keys':[{'name':'k','publicKey':'" KEY_1 "','verified':false}],"
		  "'sandbox':{'mode':'FreshPerSession','retain':'24h'},'capabilities':{"
		  "'rights':[],'egress':[],'credentials':[],'tools':['*'],'runtimeClasses':['*']},"
		  "'approval':{'default':'Deny','timeout':'10m'},'visibility':'Team'}" },
		{ "Session", "{" NAMED("s") ",'spec':{'agent':'a'}}", "{'agent':'a'}" },
		{ "Attachment", "{" NAMED("x") ",'spec':{'session':'s','sandbox':'b'}}",
		  "{'session':'s','sandbox':'b','view':'Shared',"
		  "'rights':['exec','read','write','ports']}" },
		{ "Attachment",
		  "{" NAMED("x") ",'spec':{'session':'s','sandbox':'b','view':'ReadOnly'}}",
		  "{'session':'s','sandbox':'b','view':'ReadOnly','rights':['exec','read','ports']}" },
		{ "Budget", "{" NAMED("b") "}", "{'onExceeded':'Suspend'}" },
		{ "Credential",
		  "{" NAMED("c") ",'spec':{'secretRef':{'name':'s','key':'k'},'hosts':['a.b'],"
				 "'header':'Authorization'}}",
		  "{'secretRef':{'name':'s','key':'k'},'hosts':['a.b'],'header':'Authorization',"
		  "'agents':['*']}" },
		{ "Trigger",
		  "{" NAMED("t") ",'spec':{'agent':'a','secretRef':{'name':'s','key':'k'}}}",
		  "{'agent':'a','secretRef':{'name':'s','key':'k'},'form':'Plain',"
		  "'limits':{'perMinute':60,'maxPending':16}}" },
		{ "TeamPolicy", "{" NAMED("team") ",'spec':{'capabilities':{'rights':['read']}}}",
		  "{'capabilities':{'rights':['read']}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) o = made(rows[i].kind, rows[i].object);

		eq_json(object_spec(o), rows[i].spec);
	}
}

/* What is wrong with an object, as one text. */
static char *wrong_with(const char *kind, const char *object, const char *old)
{
	autoptr(json_doc) d = doc(object);
	autoptr(json_doc) was = old ? doc(old) : NULL;
	const struct kind *k = cay_kind(kind);
	struct causes c = { 0 };
	char *text;

	admit(d, k, json_root(was ? was : NULL), &c);
	if (k->validate_status && was)
		k->validate_status(json_root(d), json_root(was), &c);
	text = c.n ? causes_text(&c) : xstrdup("");
	causes_done(&c);
	return text;
}

TEST(what_is_wrong_is_named_by_its_field)
{
#define AGENT(spec)      "{" NAMED("a") ",'spec':{" spec "}}"
#define CREDENTIAL(more) "{'spec':{'secretRef':{'name':'s','key':'k'},'hosts':['h']" more "}}"
#define TRIGGER(more)    "{'spec':{'agent':'a','secretRef':{'name':'s','key':'k'}" more "}}"
#define APPROVAL         "'agent':'a','operation':'exec','expires':'2026-01-01T00:00:00Z'"
	static const struct {
		const char *kind, *object, *field;
	} rows[] = {
		{ "Agent", AGENT("'keys':[{'name':'k','publicKey':'AAAA'}]"),
		  "spec.keys[0].publicKey" },
		{ "Agent",
		  AGENT("'keys':[{'name':'k','publicKey':'" KEY_1
			"'},{'name':'l','publicKey':'" KEY_1 "'}]"),
		  "spec.keys[1].publicKey: Duplicate value" },
		{ "Agent",
		  AGENT("'keys':[{'name':'k','publicKey':'" KEY_1
			"'},{'name':'k','publicKey':'" KEY_2 "'}]"),
		  "spec.keys[1]: Duplicate value" },
		{ "Agent", AGENT("'parent':'a'"), "spec.parent: " },
		{ "Agent", AGENT("'parent':'A B'"), "spec.parent: " },
		{ "Agent", AGENT("'sandbox':{'mode':'Own'}"), "spec.sandbox.mode: Unsupported" },
		{ "Agent", AGENT("'sandbox':{'retain':'1 day'}"), "spec.sandbox.retain: " },
		{ "Agent", AGENT("'sandbox':{'retain':'-1h'}"), "spec.sandbox.retain: " },
		{ "Agent", AGENT("'capabilities':{'rights':['fly']}"),
		  "spec.capabilities.rights[0]: Unsupported" },
		{ "Agent", AGENT("'capabilities':{'egress':[{'host':'a..b'}]}"),
		  "spec.capabilities.egress[0].host: " },
		{ "Agent", AGENT("'capabilities':{'egress':[{'host':'*.1'}]}"),
		  "spec.capabilities.egress[0].host: " },
		{ "Agent", AGENT("'capabilities':{'egress':[{'host':'a','ports':[0]}]}"),
		  "spec.capabilities.egress[0].ports[0]: " },
		{ "Agent", AGENT("'capabilities':{'egress':[{'host':'a','ports':[65536]}]}"),
		  "spec.capabilities.egress[0].ports[0]: " },
		{ "Agent", AGENT("'capabilities':{'egress':[{'host':'a','methods':['get']}]}"),
		  "spec.capabilities.egress[0].methods[0]: " },
		{ "Agent", AGENT("'capabilities':{'tools':['a*b*']}"),
		  "spec.capabilities.tools[0]: " },
		{ "Agent", AGENT("'capabilities':{'maxSandboxes':-1}"),
		  "spec.capabilities.maxSandboxes: " },
		{ "Agent", AGENT("'approval':{'default':'Maybe'}"),
		  "spec.approval.default: Unsupported" },
		{ "Agent", AGENT("'approval':{'timeout':'10ms'}"), "spec.approval.timeout: " },
		{ "Agent", AGENT("'approval':{'rules':[{'action':'Ask'}]}"),
		  "spec.approval.rules[0]: Required" },
		{ "Agent", AGENT("'approval':{'rules':[{'path':'/x'}]}"),
		  "spec.approval.rules[0].action: Required" },
		{ "Agent", AGENT("'visibility':'All'"), "spec.visibility: Unsupported" },
		{ "Session", "{'spec':{}}", "spec.agent: Required" },
		{ "Session", "{'spec':{'agent':'a','retain':'x'}}", "spec.retain: " },
		{ "Session", "{'spec':{'agent':'a','sandbox':'A'}}", "spec.sandbox: " },
		{ "Attachment", "{'spec':{'sandbox':'b'}}", "spec.session: Required" },
		{ "Attachment",
		  "{'spec':{'session':'s','sandbox':'b','view':'ReadOnly','rights':['read',"
		  "'write']}}",
		  "spec.rights[1]: " },
		{ "Attachment", "{'spec':{'session':'s','sandbox':'b','view':'Own'}}",
		  "spec.view: Unsupported" },
		{ "Approval", "{'spec':{" APPROVAL "}}", "spec.digest: Required" },
		{ "Approval", "{'spec':{" APPROVAL ",'digest':'md5:0'}}", "spec.digest: " },
		{ "Budget", "{'spec':{'limits':{'cpuSeconds':-1}}}", "spec.limits.cpuSeconds: " },
		{ "Budget", "{'spec':{'limits':{'networkBytes':'many'}}}",
		  "spec.limits.networkBytes: " },
		{ "Budget", "{'spec':{'limits':{'maxSandboxes':'1.5'}}}",
		  "spec.limits.maxSandboxes: " },
		{ "Budget", "{'spec':{'period':'0s'}}", "spec.period: " },
		{ "Credential", CREDENTIAL(""), "spec.header: Required" },
		{ "Credential", CREDENTIAL(",'header':'A','query':'b'"), "spec.query: Forbidden" },
		{ "Credential", CREDENTIAL(",'header':'a b'"), "spec.header: " },
		{ "Credential", CREDENTIAL(",'header':'Content-Length'"), "spec.header: " },
		{ "Credential", CREDENTIAL(",'header':'A','prefix':'a\\r\\nb'"), "spec.prefix: " },
		{ "Credential",
		  "{'spec':{'secretRef':{'name':'s','key':'k'},'hosts':[],"
		  "'header':'A'}}",
		  "spec.hosts: " },
		{ "Credential", "{'spec':{'hosts':['h'],'header':'A'}}",
		  "spec.secretRef: Required" },
		{ "Trigger", TRIGGER(",'sessionKey':'pull_request'"), "spec.sessionKey: " },
		{ "Trigger", TRIGGER(",'filters':[{'path':'.a[','values':['x']}]"),
		  "spec.filters[0].path: " },
		{ "Trigger", TRIGGER(",'filters':[{'path':'.a','values':[]}]"),
		  "spec.filters[0].values: " },
		{ "Trigger", TRIGGER(",'limits':{'perMinute':0}"), "spec.limits.perMinute: " },
		{ "Trigger", TRIGGER(",'form':'GitLab'"), "spec.form: Unsupported" },
		{ "Trigger", "{'spec':{'agent':'a'}}", "spec.secretRef: Required" },
		{ "TeamPolicy", "{" NAMED("other") "}", "metadata.name: Invalid" },
		{ "TeamPolicy",
		  "{" NAMED("team") ",'spec':{'isolation':{'classes':['a'],'floor':'b'}}}",
		  "spec.isolation.floor: " },
		{ "TeamPolicy", "{" NAMED("team") ",'spec':{'retainMax':'0s'}}",
		  "spec.retainMax: " },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = wrong_with(rows[i].kind, rows[i].object, NULL);

		if (!strstr(text, rows[i].field))
			print_error("%s: \"%s\" instead of %s\n", rows[i].object, text,
				    rows[i].field);
		is_true(strstr(text, rows[i].field) != NULL);
	}
}

TEST(what_is_done_cannot_be_undone)
{
#define SPEC_OF(more)   "'spec':{" APPROVAL ",'digest':'" DIGEST "'" more "}"
#define STATUS(status_) "{" SPEC_OF("") ",'status':{" status_ "}}"
	static const struct {
		const char *kind, *old, *now, *field; /* "": fine */
	} rows[] = {
		{ "Session", "{'spec':{'agent':'a'}}", "{'spec':{'agent':'b'}}", "spec.agent: " },
		{ "Session", "{'spec':{'agent':'a'}}", "{'spec':{'agent':'a','ended':true}}", "" },
		{ "Session", "{'spec':{'agent':'a','ended':true}}", "{'spec':{'agent':'a'}}", "" },
		{ "Attachment", "{'spec':{'session':'s','sandbox':'b'}}",
		  "{'spec':{'session':'t','sandbox':'b'}}", "spec.session: " },
		{ "Attachment", "{'spec':{'session':'s','sandbox':'b'}}",
		  "{'spec':{'session':'s','sandbox':'c'}}", "spec.sandbox: " },
		{ "Attachment", "{'spec':{'session':'s','sandbox':'b'}}",
		  "{'spec':{'session':'s','sandbox':'b','rights':['read']}}", "" },
		{ "Approval", STATUS(""), "{" SPEC_OF(",'argv':['rm']") "}", "spec.argv: " },
		{ "Approval", "{" SPEC_OF(",'argv':['rm']") "}", "{" SPEC_OF("") "}",
		  "spec.argv: " },
		{ "Approval", STATUS(""), STATUS("'decision':'Once'"), "" },
		{ "Approval", STATUS("'decision':'Once'"), STATUS("'decision':'Always'"),
		  "status.decision: " },
		{ "Approval", STATUS("'decision':'Deny'"), STATUS(""), "status.decision: " },
		{ "Approval", STATUS("'decision':'Once'"), STATUS("'decision':'Once','used':true"),
		  "" },
		{ "Approval", STATUS("'decision':'Once','used':true"), STATUS("'decision':'Once'"),
		  "status.used: " },
		{ "Approval", STATUS(""), STATUS("'used':true"), "status.used: " },
		{ "Approval", STATUS(""), STATUS("'decision':'Deny','used':true"),
		  "status.used: " },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = wrong_with(rows[i].kind, rows[i].now, rows[i].old);

		if (!strstr(text, rows[i].field) || !*text != !*rows[i].field)
			print_error("row %zu: \"%s\"\n", i, text);
		is_true(strstr(text, rows[i].field) && !*text == !*rows[i].field);
	}
}

TEST(an_agent_is_read)
{
	autoptr(object) o = made(
		"Agent", "{'metadata':{'name':'a','generation':3,'annotations':{"
			 "'cay.dev/owner':'ann'}},'spec':{'parent':'p','keys':[{'name':'k',"
			 "'publicKey':'" KEY_2 "','verified':true}],"
			 "'sandbox':{'mode':'PerAgent','warmPoolRef':{'name':'w'},"
			 "'retain':'1h30m'},'budget':'b','isolation':{'unverified':'gvisor'},"
			 "'visibility':'Private','approval':{'timeout':'30s','default':'Ask'}}}");
	const struct agent_view *v = agent_view(o);

	eq_str(v->parent, "p");
	eq_int(v->n_keys, 1);
	eq_int(v->keys[0].key[0], 1);
	is_true(v->keys[0].verified && v->verified);
	eq_int(v->mode, MODE_PER_AGENT);
	eq_str(v->pool, "w");
	eq_int(v->retain, 5400 * S);
	eq_int(v->approval.otherwise, VERDICT_ASK);
	eq_int(v->approval.expire, 30 * S);
	eq_str(v->budget, "b");
	eq_str(v->class_if_unverified, "gvisor");
	eq_str(v->class_if_verified, "");
	eq_int(v->visibility, VISIBILITY_PRIVATE);
	eq_str(v->owner, "ann");
	eq_int(v->generation, 3);
}

TEST(sessions_and_attachments_are_read)
{
	autoptr(object) s = object_new(
		cay_kind("Session"),
		doc("{'spec':{'agent':'a','ended':true},'status':{'phase':'Ended','claim':'c',"
		    "'endedAt':'1970-01-01T00:00:05Z'}}"));
	autoptr(object) odd = object_new(
		cay_kind("Attachment"),
		doc("{'spec':{'session':'s','sandbox':'b','view':'New','rights':['read','write']}}"));
	const struct session_view *v = session_view(s);
	const struct attachment_view *a = attachment_view(odd);

	eq_int(v->phase, SESSION_ENDED);
	eq_int(v->retain, -1);
	eq_int(v->ended_at, 5 * S);
	is_true(v->ended);
	eq_str(v->claim, "c");
	/* What is not known is read as less. */
	eq_int(a->view, VIEW_READ_ONLY);
	eq_int(a->rights, 1U << RIGHT_READ);
}

TEST(budgets_are_read_in_whole_units)
{
	autoptr(object) o =
		made("Budget", "{'spec':{'limits':{'cpuSeconds':'1500m',"
			       "'memoryGiBHours':2,'networkBytes':'1Ki',"
			       "'maxSandboxes':0},'period':'24h','onExceeded':'Deny'}}");
	autoptr(object) huge =
		made("Budget", "{'spec':{'limits':{'diskGiBHours':'9E','cpuSeconds':'0'}}}");
	autoptr(json_doc) d = json_doc_new();
	const struct budget_view *v = budget_view(o);
	struct costs c = { { 1500000, ((int64_t)3600 << 30) * 5 / 2, 1, 7 } }, back;
	struct json *text = costs_write(&c, d);

	eq_int(v->limits.of[COST_CPU_US], 1500000);
	eq_int(v->limits.of[COST_MEMORY_BYTE_S], (int64_t)7200 << 30);
	eq_int(v->limits.of[COST_DISK_BYTE_S], -1);
	eq_int(v->limits.of[COST_NETWORK_BYTES], 1024);
	eq_int(v->max_sandboxes, 0);
	eq_int(v->period, 86400 * S);
	eq_int(v->on_exceeded, EXCEEDED_DENY);
	eq_int(budget_view(huge)->limits.of[COST_DISK_BYTE_S], INT64_MAX);
	eq_int(budget_view(huge)->limits.of[COST_CPU_US], 0);
	eq_json(text, "{'cpuSeconds':'1.5','memoryGiBHours':'2.5','diskGiBHours':'0',"
		      "'networkBytes':'7'}");
	costs_read(text, 0, &back);
	eq_int(back.of[COST_MEMORY_BYTE_S], c.of[COST_MEMORY_BYTE_S]);
	c.of[COST_NETWORK_BYTES] = -1;
	is_true(json_get(costs_write(&c, d), "networkBytes") == NULL);
}

TEST(a_team_policy_limits_only_what_it_names)
{
	autoptr(object) o = made(
		"TeamPolicy", "{" NAMED("team") ",'spec':{'capabilities':{'tools':['a']},"
						"'isolation':{'classes':['vm','gvisor','native'],"
						"'floor':'gvisor'},'approvalDefault':'Ask',"
						"'retainMax':'2h'}}");
	autoptr(object) none = made("TeamPolicy", "{" NAMED("team") "}");
	const struct team_policy_view *v = team_policy_view(o);

	is_true(v->has_capabilities && v->capabilities.all_egress);
	eq_int(v->capabilities.rights, RIGHTS_ALL);
	eq_int(v->approval_default, VERDICT_ASK);
	eq_int(v->retain_max, 7200 * S);
	is_true(v->templates == NULL);
	is_true(team_policy_strong_enough(v, "vm") && team_policy_strong_enough(v, "gvisor"));
	is_false(team_policy_strong_enough(v, "native") || team_policy_strong_enough(v, "other"));
	v = team_policy_view(none);
	is_true(!v->has_capabilities && !v->retain_max && team_policy_strong_enough(v, "native"));
}

TEST(a_question_expires)
{
	autoptr(object) o = made("Approval", "{'spec':{" APPROVAL ",'digest':'" DIGEST "'}}");
	autoptr(object) said =
		object_new(cay_kind("Approval"),
			   doc("{'spec':{},'status':{'decision':'Always','used':true}}"));
	const struct approval_view *v = approval_view(o);

	eq_int(v->decision, APPROVAL_OPEN);
	eq_str(approval_decision_name(v->decision), "");
	eq_int(approval_decision_at(v, v->expires - 1), APPROVAL_OPEN);
	eq_int(approval_decision_at(v, v->expires), APPROVAL_EXPIRED);
	v = approval_view(said);
	eq_int(approval_decision_at(v, clock_wall()), APPROVAL_ALWAYS);
	is_true(v->used);
}

TEST(rules_are_asked_in_order)
{
#define RULE(action, more) "{'action':'" action "'," more "}"
	const struct {
		const char *rules;
		struct deed deed;
		enum verdict verdict;
		int rule;
	} rows[] = {
#define ARGV(...)                     \
	.argv = (const char *const[]) \
	{                             \
		__VA_ARGS__, NULL     \
	}
		{ "", { ARGV("ls") }, VERDICT_ASK, -1 },
		{ RULE("Allow", "'argv':['git','**']") "," RULE("Deny",
								"'argv':['git','push','**']"),
		  { ARGV("git", "push") },
		  VERDICT_ALLOW,
		  0 },
		{ RULE("Deny", "'argv':['git','push','**']") "," RULE("Allow",
								      "'argv':['git','**']"),
		  { ARGV("git", "push", "-f") },
		  VERDICT_DENY,
		  0 },
		{ RULE("Deny", "'argv':['git','push','**']") "," RULE("Allow",
								      "'argv':['git','**']"),
		  { ARGV("git") },
		  VERDICT_ALLOW,
		  1 },
		{ RULE("Allow", "'argv':['ls']"), { ARGV("ls", "-l") }, VERDICT_ASK, -1 },
		{ RULE("Allow", "'argv':['ls','*']"), { ARGV("ls", "-l") }, VERDICT_ALLOW, 0 },
		{ RULE("Allow", "'argv':['ls','*']"), { ARGV("ls") }, VERDICT_ASK, -1 },
		{ RULE("Allow", "'argv':['**','x']"), { ARGV("a", "b", "x") }, VERDICT_ASK, -1 },
		{ RULE("Allow", "'argv':['**']"), { ARGV("a", "b") }, VERDICT_ALLOW, 0 },
		{ RULE("Allow", "'path':'/tmp/*'"), { .path = "/tmp/a/b" }, VERDICT_ALLOW, 0 },
		{ RULE("Allow", "'path':'/tmp/*'"), { .path = "/etc" }, VERDICT_ASK, -1 },
		{ RULE("Allow", "'path':'/tmp/*'"), { ARGV("/tmp/x") }, VERDICT_ASK, -1 },
		{ RULE("Allow", "'host':'*.example.org'"),
		  { .host = "A.example.org" },
		  VERDICT_ALLOW,
		  0 },
		{ RULE("Allow", "'host':'*.example.org'"),
		  { .host = "example.org" },
		  VERDICT_ASK,
		  -1 },
		{ RULE("Deny", "'tool':'delete_*'"), { .tool = "delete_all" }, VERDICT_DENY, 0 },
		{ RULE("Allow", "'argv':['curl','**'],'host':'a'"),
		  { ARGV("curl") },
		  VERDICT_ASK,
		  -1 },
		{ RULE("Allow", "'argv':['curl','**'],'host':'a'"),
		  { ARGV("curl"), .host = "a" },
		  VERDICT_ALLOW,
		  0 },
		{ RULE("Perhaps", "'tool':'*'"), { .tool = "x" }, VERDICT_DENY, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf("{'default':'Ask','rules':[%s]}", rows[i].rules);
		autoptr(json_doc) d = doc(text);
		autoptr(arena) a = arena_new();
		struct approval_rules r;
		int rule = -2;

		approval_rules_read(json_root(d), a, &r);
		eq_int(approval_rules_decide(&r, &rows[i].deed, &rule), rows[i].verdict);
		eq_int(rule, rows[i].rule);
	}
}

TEST(without_rules_everything_is_allowed)
{
	autoptr(arena) a = arena_new();
	struct approval_rules r;

	approval_rules_read(NULL, a, &r);
	eq_int(approval_rules_decide(&r, &(const struct deed){ .tool = "x" }, NULL), VERDICT_ALLOW);
	eq_int(r.expire, 600 * S);
	eq_int(verdict_stricter(VERDICT_ASK, VERDICT_DENY), VERDICT_DENY);
	eq_int(verdict_stricter(VERDICT_ASK, VERDICT_ALLOW), VERDICT_ASK);
	eq_int(verdict_named("Ask"), VERDICT_ASK);
	eq_int(verdict_named("ask"), VERDICT_MAX_);
}

/* All deeds that can be made of a few words: the rule of one allows that one, and none that differs
 * in anything that it names. */
TEST(always_is_a_rule_about_exactly_this)
{
	static const char *const words[] = { "a", "b", "a b", "", "a*", "a\\", "**" };
	static const char *const lists[][3] = { { "a" }, { "a", "b" }, { "a", "**" }, { "b", "" } };
	const char *const *const argvs[] = { NULL, lists[0], lists[1], lists[2], lists[3] };
	enum {
		W = ARRAY_LEN(words),
		A = ARRAY_LEN(argvs),
		N = (W + 1) * (W + 1) * A
	};
	struct deed deeds[N];
	size_t n_rules = 0;

	for (size_t i = 0; i < N; i++)
		deeds[i] =
			(struct deed){ .argv = argvs[i % A],
				       .path = i / A % (W + 1) ? words[i / A % (W + 1) - 1] : NULL,
				       .tool = i / A / (W + 1) ? words[i / A / (W + 1) - 1]
							       : NULL };
	for (size_t i = 0; i < N; i++) {
		autoptr(json_doc) d = doc("{'default':'Deny','rules':[]}");
		autoptr(arena) a = arena_new();
		struct json *rule = approval_rule_for(&deeds[i], d);
		struct approval_rules r;

		if (!rule)
			continue;
		n_rules++;
		json_push(d, json_get(json_root(d), "rules"), rule);
		approval_rules_read(json_root(d), a, &r);
		for (size_t k = 0; k < N; k++) {
			const struct deed *x = &deeds[i], *y = &deeds[k];
			bool same = (!x->tool || str_eq(x->tool, y->tool)) &&
				    (!x->path || str_eq(x->path, y->path)) &&
				    (x->path || !x->argv || x->argv == y->argv);

			eq_int(approval_rules_decide(&r, y, NULL) == VERDICT_ALLOW, same);
		}
	}
	is_true(n_rules > 100 && n_rules < N / 2);
}

/* A cluster goes by the patterns, this server by the checks. */
TEST(checks_say_what_their_patterns_say)
{
	static const struct {
		const char *pattern;
		const char *(*check)(const struct json *v);
	} formats[] = {
		{ NAME_PATTERN, check_name },         { PATTERN_PATTERN, check_pattern },
		{ DURATION_PATTERN, check_duration }, { KEY_PATTERN, check_key },
		{ DIGEST_PATTERN, check_digest },     { METHOD_PATTERN, check_method },
		{ HEADER_PATTERN, check_header },     { QUERY_PATTERN, check_query },
		{ PRINT_PATTERN, check_printable },   { SECRET_PATTERN, check_secret_key },
		{ HOST_PATTERN, check_host },
	};
	static const char *const texts[] = {
		"a",
		"a.b",
		"a-b",
		"-a",
		"a-",
		"a..b",
		".a",
		"a.",
		"A",
		"*",
		"*.a",
		"*.a.b",
		"*a",
		"a*",
		"a*b*",
		"*.",
		"24h",
		"1h30m",
		"1.5h",
		"1.h",
		"-1h",
		"10",
		"0",
		"0s",
		"5ms",
		"7us",
		"7\xc2\xb5s",
		"1d",
		"1 h",
		"h",
		"GET",
		"get",
		"X-Token",
		"_x",
		"a_b",
		"a~b",
		"a b",
		"a\tb",
		"a\r\nb",
		"::1",
		"fe80::1",
		"1.2.3.4",
		"::ffff:1.2.3.4",
		"g::1",
		":",
		"a:b",
		"a.b:1",
		"x:1",
		KEY_1,
		KEY_2,
		"AAAA",
		DIGEST,
		SHA_DIGEST,
		"sha256:",
		MD5_DIGEST,
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=",
		"a/b",
		"[::1]",
		"a.b.",
		"\x7f",
	};

	for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
		autoptr(regex) r = NULL;

		works(regex_new(formats[i].pattern, &r));
		for (size_t j = 0; j < ARRAY_LEN(texts); j++) {
			autoptr(json_doc) d = json_doc_new();
			size_t steps = 1000000;
			enum regex_result is = regex_match(r, texts[j], strlen(texts[j]), &steps);
			bool fine = !formats[i].check(json_new_str(d, texts[j]));

			if ((is == REGEX_YES) != fine)
				print_error("%s: %s\n", formats[i].pattern, texts[j]);
			eq_int(is == REGEX_YES, fine);
		}
	}
}

TEST(paths_into_events_are_checked)
{
	static const struct {
		const char *path;
		bool is;
	} rows[] = {
		{ ".a", true },          { ".a.b[0]", true }, { ".a['x.y']", true },
		{ "[0].a", true },       { ".a[*]", true },   { ".a[?(@.b=='c')].d", true },
		{ "", false },           { "a", false },      { "$.a", false },
		{ ".", false },          { ".a..b", false },  { ".a[", false },
		{ ".a[x]", false },      { ".a[0", false },   { ".a['x]", false },
		{ ".a[?(@.b)]", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(jsonpath_valid(rows[i].path), rows[i].is);
}

TEST(what_is_private_is_its_owners_and_without_one_nobodys)
{
	static const struct {
		const char *notes, *user;
		enum visibility visibility;
		bool shut;
	} rows[] = {
		{ "{}", "a", VISIBILITY_TEAM, false },
		{ "{'cay.dev/visibility':'Private','cay.dev/owner':'a'}", "a", VISIBILITY_PRIVATE,
		  false },
		{ "{'cay.dev/visibility':'Private','cay.dev/owner':'a'}", "b", VISIBILITY_PRIVATE,
		  true },
		{ "{'cay.dev/visibility':'Private'}", "a", VISIBILITY_PRIVATE, true },
		{ "{'cay.dev/visibility':'Private','cay.dev/owner':''}", "", VISIBILITY_PRIVATE,
		  true },
		{ "{'cay.dev/visibility':'Private','cay.dev/owner':'a'}", NULL, VISIBILITY_PRIVATE,
		  true },
		{ "{'cay.dev/visibility':'Global','cay.dev/owner':'a'}", "b", VISIBILITY_GLOBAL,
		  false },
		{ "{'cay.dev/visibility':'private','cay.dev/owner':'a'}", "b", VISIBILITY_TEAM,
		  false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf("{'metadata':{'name':'s','namespace':'n',"
						"'annotations':%s}}",
						rows[i].notes);
		autoptr(object) o = object_new(kind_named("Sandbox"), doc(text));

		eq_int(visibility_of(o), rows[i].visibility);
		eq_int(visibility_shuts_out(o, rows[i].user), rows[i].shut);
	}
}
