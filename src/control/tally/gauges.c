/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/object.h"
#include "api/sandbox_pod.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/series.h"
#include "base/str.h"
#include "control/index/index.h"
#include "control/tally/tally.h"

/*
 * What there is at the moment: counted anew for everybody who asks.
 */
static const struct series_spec sandboxes_spec = {
	"agent_sandboxes",
	"Sandboxes.",
	SERIES_GAUGE,
	{ "namespace", "ready_condition", "expired", "launch_type", "sandbox_template", "owned_by",
	  "created_by", "operating_mode" },
	.max = 1000,
};
static const struct series_spec states_spec = {
	"cay_sandboxes", "Sandboxes by what they are doing; member: of a pool, and nobody's yet.",
	SERIES_GAUGE,    { "state", "member" },
	.max = 16,
};

enum pool_gauge {
	POOL_DESIRED,
	POOL_MEMBERS,
	POOL_READY,
	POOL_WAITING,
	POOL_DRY,
	POOL_DRY_SECONDS,
	POOL_MAX_,
};
#define POOL_LABELS { "namespace", "pool" }, .max = 1000
static const struct series_spec pool_specs[POOL_MAX_] = {
	[POOL_DESIRED] = { "cay_pool_desired", "Members that a pool should have.", SERIES_GAUGE,
			   POOL_LABELS },
	[POOL_MEMBERS] = { "cay_pool_members", "Members that a pool has.", SERIES_GAUGE,
			   POOL_LABELS },
	[POOL_READY] = { "cay_pool_ready", "Members that a claim would get at once.", SERIES_GAUGE,
			 POOL_LABELS },
	[POOL_WAITING] = { "cay_pool_claims_waiting", "Claims that wait for a member.",
			   SERIES_GAUGE, POOL_LABELS },
	[POOL_DRY] = { "cay_pool_dry", "1 while a pool should have members and none is Ready.",
		       SERIES_GAUGE, POOL_LABELS },
	[POOL_DRY_SECONDS] = { "cay_pool_dry_seconds_total", "How long a pool has been dry.",
			       SERIES_COUNTER, POOL_LABELS, .per = 1000000 },
};

struct gauges {
	struct series *sandboxes, *states;
};

struct gauges *gauges_new(void)
{
	struct gauges *g = xnew(struct gauges);

	g->sandboxes = series_new(&sandboxes_spec);
	g->states = series_new(&states_spec);
	return g;
}

void gauges_free(struct gauges *g)
{
	if (!g)
		return;
	series_free(g->sandboxes);
	series_free(g->states);
	free(g);
}

static const char *truth(bool b)
{
	return b ? "true" : "false";
}

static const char *owner_name(const struct sandbox_view *v)
{
	return v->owner.type == OWNER_CLAIM  ? "SandboxClaim"
	       : v->owner.type == OWNER_POOL ? "SandboxWarmPool"
					     : "None";
}

static const char *state_of(const struct sandbox_view *v)
{
	const struct {
		bool is;
		const char *name;
	} states[] = {
		{ v->deleting, "terminating" },      { sandbox_says_expired(v), "expired" },
		{ v->finished.is_true, "finished" }, { v->suspended, "suspended" },
		{ v->ready.is_true, "ready" },
	};

	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (states[i].is)
			return states[i].name;
	return "starting";
}

void gauges_sandbox(struct gauges *g, const struct object *sandbox)
{
	const struct sandbox_view *v = sandbox_view(sandbox);
	const char *template = object_annotation(sandbox, KEY_TEMPLATE_REF);

	series_add(g->sandboxes,
		   (const char *const[]){ sandbox->ns, truth(v->ready.is_true),
					  truth(str_eq(v->ready.reason, "SandboxExpired")),
					  v->warm ? "warm" : "cold",
					  str_empty(template) ? "unknown" : template, owner_name(v),
					  sandbox_created_by(v->created_by),
					  v->suspended ? "Suspended" : "Running" },
		   1);
	series_add(g->states, (const char *const[]){ state_of(v), truth(v->in_pool) }, 1);
}

static uint64_t pool_number(const struct roster *r, enum pool_gauge what)
{
	switch (what) {
	case POOL_DESIRED:
		return (uint64_t)r->desired;
	case POOL_MEMBERS:
		return r->n_members;
	case POOL_READY:
		return r->n_ready;
	case POOL_WAITING:
		return roster_waiting(r);
	case POOL_DRY:
		return roster_dry(r);
	case POOL_DRY_SECONDS:
		return (uint64_t)roster_dry_time(r, clock_mono());
	case POOL_MAX_:
		break;
	}
	return 0;
}

static void write_pools(const struct index *ix, enum pool_gauge what, struct buf *b)
{
	autoptr(series) s = series_new(&pool_specs[what]);

	map_each(it, index_pools(ix)) {
		const struct roster *r = it.value;
		const char *slash = r->wanted ? strchr(r->key, '/') : NULL;
		autofree char *ns = slash ? xstrndup(r->key, (size_t)(slash - r->key)) : NULL;

		if (ns)
			series_add(s, (const char *const[]){ ns, slash + 1 }, pool_number(r, what));
	}
	series_write(s, b);
}

void gauges_write(const struct gauges *g, const struct index *ix, struct buf *b)
{
	series_write(g->sandboxes, b);
	series_write(g->states, b);
	for (int i = 0; i < POOL_MAX_; i++)
		write_pools(ix, (enum pool_gauge)i, b);
}
