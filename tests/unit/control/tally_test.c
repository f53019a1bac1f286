/* SPDX-License-Identifier: Apache-2.0 */
#include "control/tally/tally.h"

#include <string.h>

#include "api/agents.h"
#include "api/kind.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "claims.h"
#include "control/control.h"
#include "control/control_priv.h"
#include "control/index/index.h"
#include "fixture.h"
#include "kinds.h"

/* What is counted of claims, Sandboxes and pools: cases 272 to 280 of docs/reference/cases.md, U25.
 */

#define STARTUP    "agent_sandbox_claim_startup_latency_ms"
#define CONTROLLER "agent_sandbox_claim_controller_startup_latency_ms"
#define CLIENT     "agent_sandbox_client_claim_startup_latency_ms"
#define CREATION   "agent_sandbox_creation_latency_ms"
#define CLAIMS     "agent_sandbox_claim_creation_total"

#define SECOND 1000000

static bool has_line(struct buf *page, const char *fmt, ...) printf_like(2, 3);
static bool has_line(struct buf *page, const char *fmt, ...)
{
	autobuf line = { 0 };
	va_list ap;

	buf_add_char(&line, '\n');
	va_start(ap, fmt);
	buf_vprintf(&line, fmt, ap);
	va_end(ap);
	buf_add_char(&line, '\n');
	return strstr(buf_str(page), buf_str(&line));
}

/* No series of the metric. */
static bool is_silent(struct buf *page, const char *name)
{
	autofree char *line = xasprintf("\n%s_count{", name);

	return !strstr(buf_str(page), line);
}

static struct object *claim(const char *meta)
{
	return object_of_f(kind_named("SandboxClaim"),
			   "{'metadata':{'name':'c','namespace':'ns','uid':'cu'%s},"
			   "'spec':{'warmPoolRef':{'name':'asked'}}}",
			   meta);
}

static void page_of(const struct tally_mark *m, usec now, struct buf *page)
{
	autoptr(tally) t = tally_new();

	tally_count(t, m, now);
	tally_write(t, page);
}

/* What a claim with these annotations counts when it is Ready at 10 s, seen first at 9 s. */
static void ready_page(const char *annotations, const struct object *sandbox, struct buf *page)
{
	autofree char *meta = xasprintf(",'annotations':{%s}", annotations);
	autoptr(object) c = claim(meta);
	autoptr(tally_mark) m = tally_first_ready(c, sandbox, 9 * (usec)SECOND, clock_mono());

	page_of(m, 10 * (usec)SECOND, page);
}

TEST(cases_272_273_275_each_start_that_makes_sense_is_counted)
{
	static const struct {
		const char *annotation, *name;
		bool counted;
	} rows[] = {
		{ "'agents.x-k8s.io/webhook-first-observed-at':'1970-01-01T00:00:09.8Z'", STARTUP,
		  true },
		{ "", STARTUP, false },
		{ "'agents.x-k8s.io/webhook-first-observed-at':'1970-01-01T00:00:11Z'", STARTUP,
		  false },
		{ "'agents.x-k8s.io/webhook-first-observed-at':'soon'", STARTUP, false },
		{ "'agents.x-k8s.io/client-first-requested-at':'1970-01-01T00:00:09.800000001Z'",
		  CLIENT, true },
		{ "", CLIENT, false },
		{ "'agents.x-k8s.io/client-first-requested-at':'1713689880'", CLIENT, false },
		{ "'agents.x-k8s.io/client-first-requested-at':'1970-01-01T00:00:11Z'", CLIENT,
		  false },
		{ "'agents.x-k8s.io/controller-first-observed-at':'1970-01-01T00:00:09.8Z'",
		  CONTROLLER, true },
		{ "'agents.x-k8s.io/controller-first-observed-at':'never'", CONTROLLER, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf page = { 0 };

		ready_page(rows[i].annotation, NULL, &page);
		eq_int(!is_silent(&page, rows[i].name), rows[i].counted);
		if (!rows[i].counted)
			continue;
		is_true(has_line(
			&page,
			"%s_bucket{launch_type=\"unknown\",sandbox_template=\"__unknown__\",le=\"100\"} 0",
			rows[i].name));
		is_true(has_line(
			&page,
			"%s_bucket{launch_type=\"unknown\",sandbox_template=\"__unknown__\",le=\"250\"} 1",
			rows[i].name));
	}
}

TEST(case_273_without_an_annotation_the_first_sight_counts)
{
	autobuf page = { 0 };

	ready_page("", NULL, &page);
	is_true(has_line(&page, CONTROLLER
			 "_sum{launch_type=\"unknown\",sandbox_template=\"__unknown__\"} 1000"));
}

static struct object *sandbox(const char *meta, const char *rest)
{
	return object_of_f(kind_named("Sandbox"),
			   "{'metadata':{'name':'s','namespace':'ns',"
			   "'creationTimestamp':'1970-01-01T00:00:05Z'%s}%s}",
			   meta, rest);
}

#define READY_AT(t)                                                              \
	",'status':{'conditions':[{'type':'Ready','status':'True','reason':'R'," \
	"'lastTransitionTime':'1970-01-01T00:00:" t "Z'}]}"

TEST(cases_276_277_kinds_of_start_are_told_apart)
{
	static const struct {
		const char *meta, *launch;
	} rows[] = {
		{ ",'labels':{'agents.x-k8s.io/launch-type':'warm'}", "warm" },
		{ ",'labels':{'agents.x-k8s.io/launch-type':'cold'},"
		  "'annotations':{'agents.x-k8s.io/pod-name':'p'}",
		  "cold" },
		{ "", "cold" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) s = sandbox(rows[i].meta, READY_AT("07"));
		autobuf page = { 0 };

		ready_page("", s, &page);
		is_true(has_line(&page,
				 CREATION "_sum{namespace=\"ns\",launch_type=\"%s\","
					  "sandbox_template=\"__unknown__\"} 2000",
				 rows[i].launch));
		is_true(has_line(&page, "cay_claim_ready_seconds_sum{launch_type=\"%s\"} 1",
				 rows[i].launch));
	}
}

TEST(case_274_a_creation_that_ends_before_it_began_is_skipped)
{
	autoptr(object) s = sandbox("", READY_AT("04"));
	autobuf page = { 0 };

	ready_page("", s, &page);
	is_true(is_silent(&page, CREATION));
}

TEST(case_276_who_got_what_is_counted)
{
	autoptr(object) c = claim(",'labels':{'agents.x-k8s.io/created-by':'somebody'}");
	autoptr(object) by_go = claim(",'labels':{'agents.x-k8s.io/created-by':'go-client'}");
	autoptr(object) t = object_of(kind_named("SandboxTemplate"), "{'metadata':{'name':'tt'}}");
	autoptr(object) member = sandbox(
		",'annotations':{'agents.x-k8s.io/sandbox-template-ref':'mt'},'ownerReferences':[{"
		"'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxWarmPool','name':'mp',"
		"'uid':'u','controller':true}]",
		READY_AT("07"));
	autoptr(object) orphan = sandbox("", "");
	autoptr(tally_mark) created = tally_created(c, t);
	autoptr(tally_mark) adopted = tally_adopted(by_go, member);
	autoptr(tally_mark) found = tally_adopted(c, orphan);
	autoptr(tally) all = tally_new();
	autobuf page = { 0 };

	tally_count(all, created, 0);
	tally_count(all, adopted, 0);
	tally_count(all, found, 0);
	tally_write(all, &page);
	is_true(has_line(&page,
			 CLAIMS "{namespace=\"ns\",sandbox_template=\"tt\",launch_type=\"cold\","
				"warmpool_name=\"asked\",pod_condition=\"not_ready\",created_by="
				"\"unknown\"} 1"));
	is_true(has_line(
		&page,
		CLAIMS "{namespace=\"ns\",sandbox_template=\"mt\",launch_type=\"warm\","
		       "warmpool_name=\"mp\",pod_condition=\"ready\",created_by=\"go-client\"} 1"));
	is_true(has_line(
		&page, CLAIMS
		"{namespace=\"ns\",sandbox_template=\"__unknown__\",launch_type=\"warm\","
		"warmpool_name=\"none\",pod_condition=\"not_ready\",created_by=\"unknown\"} 1"));
}

TEST(case_278_U25_sandboxes_by_what_they_are)
{
#define OWNER(version, kind)                                                                       \
	",'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/" version "','kind':'" kind \
	"','name':'o','uid':'u','controller':true}]"
#define LINE(ready, expired, launch, template, owner, by, mode)                             \
	"agent_sandboxes{namespace=\"ns\",ready_condition=\"" ready "\",expired=\"" expired \
	"\",launch_type=\"" launch                                                          \
	"\",sandbox_template=\"" template "\",owned_by=\"" owner "\",created_by=\"" by      \
					  "\",operating_mode=\"" mode "\"} 2"
	static const struct {
		const char *meta, *rest, *line;
	} rows[] = {
		{ "", READY_AT("07"),
		  LINE("true", "false", "cold", "unknown", "None", "unknown", "Running") },
		{ "", "", LINE("false", "false", "cold", "unknown", "None", "unknown", "Running") },
		{ ",'annotations':{'agents.x-k8s.io/sandbox-template-ref':'t'}",
		  ",'status':{'conditions':[{'type':'Ready','status':'False',"
		  "'reason':'SandboxExpired'}]}",
		  LINE("false", "true", "cold", "t", "None", "unknown", "Running") },
		{ OWNER("v1beta1",
			"SandboxClaim") ",'labels':{'agents.x-k8s.io/launch-type':'warm'}",
		  READY_AT("07"),
		  LINE("true", "false", "warm", "unknown", "SandboxClaim", "unknown", "Running") },
		{ OWNER("v1alpha1", "SandboxWarmPool"), READY_AT("07"),
		  LINE("true", "false", "cold", "unknown", "SandboxWarmPool", "unknown",
		       "Running") },
		{ ",'labels':{'agents.x-k8s.io/created-by':'python-client'}", "",
		  LINE("false", "false", "cold", "unknown", "None", "python-client", "Running") },
		{ ",'labels':{'agents.x-k8s.io/created-by':'me'}",
		  ",'spec':{'operatingMode':'Suspended'}",
		  LINE("false", "false", "cold", "unknown", "None", "unknown", "Suspended") },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) s = sandbox(rows[i].meta, rows[i].rest);
		autoptr(gauges) g = gauges_new();
		struct index *ix = index_new();
		autobuf page = { 0 };

		gauges_sandbox(g, s);
		gauges_sandbox(g, s);
		gauges_write(g, ix, &page);
		is_true(has_line(&page, "%s", rows[i].line));
		index_free(ix);
	}
}

TEST(case_279_what_it_was_built_from)
{
	autoptr(tally) t = tally_new();
	autobuf page = { 0 };

	tally_write(t, &page);
	is_true(strstr(buf_str(&page), "\nagent_sandbox_build_info{git_version=\"" CAY_VERSION
				       "\",git_commit=\"unknown\",build_date=\"unknown\","
				       "go_version=\"unknown\",compiler=\""));
}

/* The page of a world. */
static void metrics_of(const struct world *w, struct buf *page)
{
	buf_clear(page);
	control_metrics(w->control, page);
}

TEST(cases_272_274_the_first_ready_is_counted_once_and_not_again)
{
#define FIRST(n) CONTROLLER "_count{launch_type=\"warm\",sandbox_template=\"t\"} " #n
	autobuf page = { 0 };
	autofree char *name = NULL;
	struct world w;

	open_with_pool(&w, "1");
	metrics_of(&w, &page);
	is_true(is_silent(&page, CONTROLLER));
	is_true(has_line(&page, "cay_pool_ready{namespace=\"default\",pool=\"p\"} 1"));
	is_true(has_line(&page, "cay_pool_dry{namespace=\"default\",pool=\"p\"} 0"));
	make_claim(&w, "c", "p", "");
	turn(&w);
	metrics_of(&w, &page);
	is_true(has_line(&page, FIRST(1)));
	is_true(has_line(&page, CLAIMS
			 "{namespace=\"default\",sandbox_template=\"t\",launch_type=\"warm\","
			 "warmpool_name=\"p\",pod_condition=\"ready\",created_by=\"unknown\"} 1"));
	is_true(has_line(&page, "cay_pool_dry{namespace=\"default\",pool=\"p\"} 1"));

	name = bound_to(&w, "c"); /* it is not Ready for a while */
	patch(&w, kind_named("Pod"), name, "status",
	      "{'status':{'conditions':[{'type':'Ready','status':'False'}]}}");
	step(&w, 1000);
	is_true(str_starts(ready_of(&w, "c"), "False"));
	pod_runs(&w, name);
	step(&w, 1000);
	is_true(str_starts(ready_of(&w, "c"), "True"));
	metrics_of(&w, &page);
	is_true(has_line(&page, FIRST(1)));
	world_done(&w);
}

TEST(cases_272_274_a_claim_that_was_ready_before_counts_nothing)
{
	autobuf page = { 0 };
	struct world w;

	open_with_pool(&w, "1");
	make_claim(&w, "c", "p", "");
	turn(&w);
	world_stop(&w);
	patch(&w, kind_named("SandboxClaim"), "c", NULL,
	      "{'metadata':{'annotations':{'agents.x-k8s.io/claim-first-ready-at':null}}}");
	world_start(&w, NULL);
	step(&w, 1000);
	{
		autoptr(object) c = get(&w, kind_named("SandboxClaim"), "c");

		eq_str(object_annotation(c, KEY_FIRST_READY), "unknown");
	}
	metrics_of(&w, &page);
	is_true(is_silent(&page, CONTROLLER));
	world_done(&w);
}

struct told {
	size_t n;
	struct control_claim first, last;
};

static bool on_told(void *arg, const struct control_claim *c)
{
	struct told *t = arg;

	if (!t->n++)
		t->first = *c;
	t->last = *c;
	return true;
}

static struct told told(const struct recent *r)
{
	struct told t = { 0 };

	recent_each(r, on_told, &t);
	return t;
}

/* Claims that became Ready one after the other, every step_ms. */
static void add_claims(struct recent *r, int64_t from, int64_t n, int64_t step_ms)
{
	for (int64_t i = from; i < from + n; i++)
		recent_add(r,
			   &(struct control_claim){
				   .ns = "a", .name = "c", .took = i, .mono = i * step_ms * 1000 });
}

TEST(claims_of_the_last_minute_are_remembered_and_fifty_in_any_case)
{
	struct recent *r = recent_new();
	struct told t;

	add_claims(r, 0, 200, 1000);
	t = told(r);
	eq_int(t.n, 61);
	eq_int(t.first.took, 199);
	eq_int(t.last.took, 139);
	recent_free(r);
	r = recent_new();
	add_claims(r, 0, 200, 100000);
	eq_int(told(r).n, 50);
	recent_free(r);
	r = recent_new();
	add_claims(r, 0, 5000, 1);
	eq_int(told(r).n, 4096);
	eq_int(recent_seen(r), 5000);
	recent_free(r);
}
