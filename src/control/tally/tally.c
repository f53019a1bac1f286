/* SPDX-License-Identifier: Apache-2.0 */
#include "control/tally/tally.h"

#include "api/agents.h"
#include "api/object.h"
#include "api/sandbox_pod.h"
#include "api/view_claim.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/platform.h"
#include "base/series.h"
#include "base/str.h"
#include "control/control.h"

/*
 * Claims, from the first sight to Ready (docs/reference/agent-sandbox.md §11).
 */
#define LABEL_TEMPLATE "sandbox_template"

static const uint32_t startup_ms[] = { 100,  250,  500,   750,   1000,  1250,   1500,  2000,
				       2500, 5000, 10000, 30000, 60000, 120000, 240000 };
static const uint32_t creation_ms[] = { 50,    100,   250,   500,    1000,   2500,   5000,
					10000, 30000, 60000, 120000, 240000, 300000, 600000 };
static const uint32_t ready_us[] = { 250,     500,     1000,     2500,    5000,   10000,
				     25000,   50000,   100000,   250000,  500000, 1000000,
				     2500000, 5000000, 10000000, 30000000 };

enum what {
	TALLY_STARTUP, /* the three from here on: a claim's way to Ready, from different starts */
	TALLY_CONTROLLER,
	TALLY_CLIENT,
	TALLY_CREATION,
	TALLY_CLAIMS,
	TALLY_READY,
	TALLY_RESETS,
	TALLY_MAX_,
};

static const struct series_spec specs[TALLY_MAX_] = {
	[TALLY_STARTUP] = { "agent_sandbox_claim_startup_latency_ms",
			    "From the webhook's first sight of a SandboxClaim to Ready.",
			    SERIES_HISTOGRAM,
			    { "launch_type", LABEL_TEMPLATE },
			    startup_ms,
			    ARRAY_LEN(startup_ms),
			    .max = 200 },
	[TALLY_CONTROLLER] = { "agent_sandbox_claim_controller_startup_latency_ms",
			       "From the controller's first sight of a SandboxClaim to Ready.",
			       SERIES_HISTOGRAM,
			       { "launch_type", LABEL_TEMPLATE },
			       startup_ms,
			       ARRAY_LEN(startup_ms),
			       .max = 200 },
	[TALLY_CLIENT] = { "agent_sandbox_client_claim_startup_latency_ms",
			   "From the client's request to Ready, by the clocks of both.",
			   SERIES_HISTOGRAM,
			   { "launch_type", LABEL_TEMPLATE },
			   startup_ms,
			   ARRAY_LEN(startup_ms),
			   .max = 200 },
	[TALLY_CREATION] = { "agent_sandbox_creation_latency_ms",
			     "From the creation of a claim's Sandbox to its Pod being Ready.",
			     SERIES_HISTOGRAM,
			     { "namespace", "launch_type", LABEL_TEMPLATE },
			     creation_ms,
			     ARRAY_LEN(creation_ms),
			     .max = 500 },
	[TALLY_CLAIMS] = { "agent_sandbox_claim_creation_total",
			   "SandboxClaims that got a Sandbox.",
			   SERIES_COUNTER,
			   { "namespace", LABEL_TEMPLATE, "launch_type", "warmpool_name",
			     "pod_condition", "created_by" },
			   .max = 1000 },
	[TALLY_READY] = { "cay_claim_ready_seconds",
			  "From the first sight of a SandboxClaim to the write that says Ready.",
			  SERIES_HISTOGRAM,
			  { "launch_type" },
			  ready_us,
			  ARRAY_LEN(ready_us),
			  1000000,
			  .max = 4 },
	[TALLY_RESETS] = { "cay_sandbox_resets_total",
			   "Sandboxes of claims that ended, whose template resets them.",
			   SERIES_COUNTER,
			   { "outcome" },
			   .max = 2 },
};

struct tally {
	struct series *series[TALLY_MAX_];
	struct recent *recent;
};

struct tally_mark {
	bool ready; /* otherwise: the claim gets its Sandbox */
	char *ns, *template, *pool;
	char *claim;                                 /* its name, if it is ready */
	const char *launch, *condition, *created_by; /* constants */
	usec from[TALLY_CLIENT + 1];                 /* 0: not known */
	usec first_seen;
	usec began;    /* the same by the monotonic clock */
	usec creation; /* how long that took; < 0: not known */
};

struct tally *tally_new(void)
{
	struct tally *t = xnew(struct tally);

	for (size_t i = 0; i < TALLY_MAX_; i++)
		t->series[i] = series_new(&specs[i]);
	t->recent = recent_new();
	return t;
}

void tally_free(struct tally *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < TALLY_MAX_; i++)
		series_free(t->series[i]);
	recent_free(t->recent);
	free(t);
}

void tally_mark_free(struct tally_mark *m)
{
	if (!m)
		return;
	free(m->ns);
	free(m->template);
	free(m->pool);
	free(m->claim);
	free(m);
}

static const char *template_of(const struct object *sandbox)
{
	const char *name = sandbox ? object_annotation(sandbox, KEY_TEMPLATE_REF) : NULL;

	return str_empty(name) ? "__unknown__" : name;
}

static struct tally_mark *got(const struct object *claim, const char *launch, const char *template,
			      const char *pool)
{
	struct tally_mark *m = xnew(struct tally_mark);

	m->ns = xstrdup(claim->ns);
	m->template = xstrdup(template);
	m->pool = xstrdup(pool);
	m->launch = launch;
	m->condition = "not_ready";
	m->created_by = sandbox_created_by(claim_view(claim)->created_by);
	return m;
}

struct tally_mark *tally_adopted(const struct object *claim, const struct object *member)
{
	const struct sandbox_view *v = sandbox_view(member);
	struct tally_mark *m = got(
		claim, "warm", template_of(member),
		v->owner.type == OWNER_POOL && !str_empty(v->owner.name) ? v->owner.name : "none");

	if (v->ready.is_true)
		m->condition = "ready";
	return m;
}

struct tally_mark *tally_created(const struct object *claim, const struct object *template)
{
	return got(claim, "cold", template->name, claim_view(claim)->pool);
}

/* How long a Sandbox took to be Ready; < 0: not known, or it makes no sense. */
static usec creation_of(const struct object *sandbox)
{
	const struct sandbox_view *v = sandbox ? sandbox_view(sandbox) : NULL;
	usec ready = v && v->ready.is_true ? view_time(v->ready.transition) : 0;

	return v && v->created && ready ? ready - v->created : -1;
}

struct tally_mark *tally_first_ready(const struct object *claim, const struct object *sandbox,
				     usec first_seen, usec began)
{
	const char *observed = claim_view(claim)->first_observed;
	struct tally_mark *m = xnew(struct tally_mark);

	m->ready = true;
	m->ns = xstrdup(sandbox ? sandbox->ns : claim->ns);
	m->template = xstrdup(template_of(sandbox));
	m->launch = !sandbox ? "unknown" : sandbox_view(sandbox)->warm ? "warm" : "cold";
	m->from[TALLY_STARTUP] = view_time(object_annotation(claim, KEY_WEBHOOK_OBSERVED));
	m->from[TALLY_CONTROLLER] = str_empty(observed) ? first_seen : view_time(observed);
	m->from[TALLY_CLIENT] = view_time(object_annotation(claim, KEY_CLIENT_REQUESTED));
	m->first_seen = first_seen;
	m->began = began;
	m->claim = xstrdup(claim->name);
	m->creation = creation_of(sandbox);
	return m;
}

static void remember(struct tally *t, const struct tally_mark *m, usec now)
{
	usec mono = clock_mono();

	recent_add(t->recent, &(struct control_claim){ .ns = m->ns,
						       .name = m->claim,
						       .took = mono - m->began,
						       .at = now,
						       .mono = mono,
						       .warm = str_eq(m->launch, "warm") });
}

static void count_ready(struct tally *t, const struct tally_mark *m, usec now)
{
	const char *const labels[] = { m->launch, m->template };

	for (size_t i = 0; i < ARRAY_LEN(m->from); i++)
		if (m->from[i] && m->from[i] <= now)
			series_observe(t->series[i], labels, (uint64_t)(now - m->from[i]) / 1000);
	if (m->creation >= 0)
		series_observe(t->series[TALLY_CREATION],
			       (const char *const[]){ m->ns, m->launch, m->template },
			       (uint64_t)m->creation / 1000);
	if (m->first_seen <= now)
		series_observe(t->series[TALLY_READY], labels, (uint64_t)(now - m->first_seen));
	remember(t, m, now);
}

void tally_count(struct tally *t, const struct tally_mark *m, usec now)
{
	if (m->ready)
		count_ready(t, m, now);
	else
		series_add(t->series[TALLY_CLAIMS],
			   (const char *const[]){ m->ns, m->template, m->launch, m->pool,
						  m->condition, m->created_by },
			   1);
}

void tally_reset(struct tally *t, bool returned)
{
	series_add(t->series[TALLY_RESETS],
		   (const char *const[]){ returned ? "returned" : "deleted" }, 1);
}

const struct recent *tally_recent(const struct tally *t)
{
	return t->recent;
}

static void write_build(struct buf *b)
{
	buf_add_str(b, "# HELP agent_sandbox_build_info What this controller was built from.\n"
		       "# TYPE agent_sandbox_build_info gauge\n"
		       "agent_sandbox_build_info{git_version=\"" CAY_VERSION "\","
		       "git_commit=\"unknown\",build_date=\"unknown\",go_version=\"unknown\","
		       "compiler=\"" __VERSION__ "\",platform=\"linux/" PLATFORM_ARCH "\"} 1\n");
}

void tally_write(const struct tally *t, struct buf *b)
{
	for (size_t i = 0; i < TALLY_MAX_; i++)
		series_write(t->series[i], b);
	write_build(b);
}
