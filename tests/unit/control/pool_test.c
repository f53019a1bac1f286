/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "control/pool/pool_priv.h"
#include "fixture.h"
#include "kinds.h"

/* Warm pools: cases 133 to 163 of docs/reference/cases.md, U20 and U21. */

TEST(cases_133_158_161_pools_move_towards_the_desired_number)
{
	static const struct {
		struct pool_counts seen;
		struct pool_scale plan;
	} rows[] = {
		{ { .desired = 3, .template_found = true, .max_batch = 300, .burst = 8 },
		  { .create = 3 } },
		{ { .desired = 3,
		    .active = 1,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 8 },
		  { .create = 2 } },
		{ { .desired = 3,
		    .active = 3,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 8 },
		  { 0 } },
		{ { .desired = 3, .active = 4, .template_found = true, .max_batch = 300 },
		  { .remove = 1 } },
		{ { .desired = 0, .active = 4, .template_found = true, .max_batch = 300 },
		  { .remove = 4 } },
		/* refill off: none is made, and what is too many still goes */
		{ { .desired = 3,
		    .active = 1,
		    .template_found = true,
		    .refill_off = true,
		    .max_batch = 300,
		    .burst = 8 },
		  { 0 } },
		{ { .desired = 3,
		    .active = 4,
		    .template_found = true,
		    .refill_off = true,
		    .max_batch = 300 },
		  { .remove = 1 } },
		/* 158: one on its way out still counts */
		{ { .desired = 2,
		    .active = 1,
		    .terminating = 1,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 8 },
		  { 0 } },
		/* batches, and rounds that grow */
		{ { .desired = 900, .template_found = true, .max_batch = 300, .burst = 512 },
		  { .create = 300 } },
		{ { .desired = 900, .template_found = true, .max_batch = 300 }, { .create = 1 } },
		{ { .desired = 900, .template_found = true, .max_batch = 300, .burst = 4 },
		  { .create = 4 } },
		{ { .desired = 0, .active = 900, .template_found = true, .max_batch = 300 },
		  { .remove = 300 } },
		/* whatever number is asked for, only so many are on their way at a time */
		{ { .desired = INT32_MAX,
		    .active = 1900,
		    .ready = 1000,
		    .terminating = 60,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 512 },
		  { .create = 40 } },
		{ { .desired = INT32_MAX,
		    .active = 1000,
		    .template_found = true,
		    .max_batch = 300,
		    .burst = 512 },
		  { 0 } },
		/* U21: without a template nothing is made, and it is said; unless nothing is wanted
		 */
		{ { .desired = 2, .max_batch = 300, .recheck_ms = 60000 },
		  { .stalled = true, .again_ms = 60000 } },
		{ { .desired = 0, .max_batch = 300, .recheck_ms = 60000 }, { 0 } },
		/* 159, 163: comes back by itself for those that are held or young */
		{ { .desired = 1,
		    .active = 1,
		    .unschedulable = 1,
		    .template_found = true,
		    .max_batch = 300,
		    .recheck_ms = 60000 },
		  { .stalled = true, .again_ms = 60000 } },
		{ { .desired = 2,
		    .active = 2,
		    .template_found = true,
		    .max_batch = 300,
		    .grace_left_ms = 62000,
		    .recheck_ms = 60000 },
		  { .again_ms = 62000 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pool_scale p = pool_scale(&rows[i].seen);

		eq_int(p.create, rows[i].plan.create);
		eq_int(p.remove, rows[i].plan.remove);
		eq_int(p.stalled, rows[i].plan.stalled);
		eq_int(p.again_ms, rows[i].plan.again_ms);
	}
}

#define MIN_5    300000
#define AGE(min) ((usec)(min) * 60 * 1000000)

TEST(cases_145_155_159_160_u20_the_fate_of_a_member)
{
	static const struct {
		struct member_seen seen;
		bool recreate;
		enum fate fate;
	} rows[] = {
		{ { .deleting = true, .ready = true }, false, FATE_TERMINATING },
		{ { .deleting = true, .stale = true }, true, FATE_TERMINATING },
		{ { .ready = true, .stale = true }, false, FATE_ACTIVE },
		{ { .ready = true, .stale = true }, true, FATE_STALE },
		{ { .ready = true, .age = AGE(60) }, false, FATE_ACTIVE },
		{ { .age = AGE(2) }, false, FATE_YOUNG },
		{ { .age = AGE(2), .unplaceable = true }, false, FATE_YOUNG },
		{ { .age = AGE(10) }, false, FATE_STUCK },
		{ { .age = AGE(10), .unplaceable = true }, false, FATE_HELD },
		{ { .age = AGE(10), .unplaceable = true, .stale = true }, true, FATE_STALE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(member_fate(&rows[i].seen, MIN_5, rows[i].recreate), rows[i].fate);
}

TEST(cases_159_160_which_pods_no_node_takes)
{
	static const struct {
		const char *meta, *condition;
		bool unplaceable;
	} rows[] = {
		{ "", "'status':'False','reason':'Unschedulable'", true },
		{ "", "'status':'False','reason':'SchedulingGated'", true },
		{ "", "'status':'False','reason':'Other'", false },
		{ "", "'status':'True','reason':'Unschedulable'", false },
		{ "'deletionTimestamp':'2026-01-01T00:00:00Z'",
		  "'status':'False','reason':'Unschedulable'", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) pod = object_of_f(
			kind_named("Pod"),
			"{'metadata':{%s},'status':{'conditions':[{'type':'PodScheduled',%s}]}}",
			rows[i].meta, rows[i].condition);

		eq_int(pod_unplaceable(pod), rows[i].unplaceable);
	}
	is_false(pod_unplaceable(NULL));
}

/* Deciding: a member is a letter, its plan too. */

#define NOW AGE(1000)

static struct member_seen member_of(char c)
{
	switch (c) {
	case 'r': /* Ready, of old make: without the label */
		return (struct member_seen){ .ready = true };
	case 'w':
		return (struct member_seen){ .ready = true, .warm = true };
	case 'y':
		return (struct member_seen){ .warm = true, .age = AGE(2) };
	case 's': /* stuck */
		return (struct member_seen){ .warm = true, .age = AGE(10) };
	case 'S': /* stuck, but a claim is about to have it */
		return (struct member_seen){ .warm = true, .age = AGE(10), .taken = true };
	case 'h':
		return (struct member_seen){ .warm = true, .age = AGE(10), .unplaceable = true };
	case 'o': /* outdated */
		return (struct member_seen){ .ready = true, .warm = true, .stale = true };
	case 'd':
		return (struct member_seen){ .deleting = true };
	}
	return (struct member_seen){ 0 };
}

struct crowd {
	struct member_seen members[8];
	struct orphan_seen orphans[4];
	struct spare_seen spares[8];
};

/* Orphans: 'a' may be adopted, 'o' is outdated, 'd' is being deleted. */
static void crowd_fill(struct crowd *c, struct pool_seen *seen, const char *members,
		       const char *orphans)
{
	static struct object *const sandbox = (void *)"x"; /* only passed on */

	seen->members = c->members;
	seen->orphans = c->orphans;
	for (; members && *members; members++) {
		c->members[seen->n_members] = member_of(*members);
		c->members[seen->n_members++].sandbox = sandbox;
	}
	for (; orphans && *orphans; orphans++)
		c->orphans[seen->n_orphans++] =
			(struct orphan_seen){ sandbox, *orphans == 'd', *orphans == 'o' };
}

TEST(a_pool_mends_its_members_before_it_counts_them)
{
	static const struct {
		const char *members, *orphans;
		bool recreate, remove_rests, patch_rests, no_template;
		int64_t desired;
		/* what is planned */
		size_t remove, relabel, adopt, fine;
		uint64_t create, active, ready;
	} rows[] = {
		{ "ww", "", .desired = 2, .fine = 2, .active = 2, .ready = 2 },
		{ "wy", "", .desired = 3, .fine = 1, .create = 1, .active = 2, .ready = 1 },
		/* one that had its time goes, and nothing is made meanwhile */
		{ "ws", "", .desired = 3, .fine = 1, .remove = 1, .active = 1, .ready = 1 },
		/* but for one that a claim is about to have */
		{ "wS", "", .desired = 3, .fine = 1, .create = 1, .active = 1, .ready = 1 },
		{ "wh", "", .desired = 2, .fine = 1, .active = 2, .ready = 1 },
		{ "wd", "", .desired = 2, .fine = 1, .active = 1, .ready = 1 },
		/* without its label it is Ready, but not done with */
		{ "wr", "", .desired = 3, .fine = 1, .relabel = 1, .active = 2, .ready = 2 },
		{ "wo", "", .desired = 3, .fine = 2, .create = 1, .active = 2, .ready = 2 },
		{ "wo", "", .recreate = true, .desired = 3, .fine = 1, .remove = 1, .active = 1,
		  .ready = 1 },
		{ "w", "aod", .desired = 3, .fine = 1, .adopt = 1, .remove = 1, .active = 1,
		  .ready = 1 },
		/* what failed in the last pass holds nothing up */
		{ "ws", "", .remove_rests = true, .desired = 3, .fine = 1, .remove = 1, .create = 1,
		  .active = 1, .ready = 1 },
		{ "wr", "", .patch_rests = true, .desired = 3, .fine = 1, .relabel = 1, .create = 1,
		  .active = 2, .ready = 2 },
		{ "wr", "", .remove_rests = true, .desired = 3, .fine = 1, .relabel = 1,
		  .active = 2, .ready = 2 },
		{ "w", "", .no_template = true, .desired = 3, .fine = 1, .active = 1, .ready = 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct crowd crowd = { 0 };
		struct pool_seen seen = { .template = rows[i].no_template ? NULL : (void *)"t",
					  .desired = rows[i].desired,
					  .recreate = rows[i].recreate,
					  .remove_rests = rows[i].remove_rests,
					  .patch_rests = rows[i].patch_rests,
					  .grace_ms = MIN_5,
					  .max_batch = 300,
					  .now = NOW };
		struct pool_plan plan;

		crowd_fill(&crowd, &seen, rows[i].members, rows[i].orphans);
		plan = pool_decide(&seen);
		eq_int(plan.remove.n, rows[i].remove);
		eq_int(plan.relabel.n, rows[i].relabel);
		eq_int(plan.adopt.n, rows[i].adopt);
		eq_int(plan.n_fine, rows[i].fine);
		eq_int(plan.create, rows[i].create);
		eq_int(plan.counts.active, rows[i].active);
		eq_int(plan.counts.ready, rows[i].ready);
		pool_plan_done(&plan);
	}
}

TEST(case_161_the_least_worth_members_are_trimmed)
{
	static const struct spare_seen spares[] = {
		{ (void *)"old", true, 1, 1 },    { (void *)"young", true, 3, 3 },
		{ (void *)"middle", true, 2, 2 }, { (void *)"not ready", false, 1, 4 },
		{ (void *)"twin", true, 3, 5 },
	};
	static const char *const order[] = { "not ready", "twin", "young", "middle" };
	struct pool_seen seen = { .template = (void *)"t",
				  .spares = (struct spare_seen *)spares,
				  .n_spares = ARRAY_LEN(spares),
				  .n_fine = 5,
				  .desired = 1,
				  .max_batch = 300 };
	struct pool_plan plan = pool_decide(&seen);

	eq_int(plan.trim.n, ARRAY_LEN(order));
	for (size_t i = 0; i < plan.trim.n; i++)
		eq_str((const char *)plan.trim.v[i], order[i]);
	eq_str((const char *)spares[0].sandbox, "old"); /* what was seen stays as it was */
	pool_plan_done(&plan);
}

TEST(case_156_rounds_of_creates_double_while_they_work)
{
	static const struct {
		unsigned burst, n_created, n_not_created;
		int64_t desired;
		unsigned next;
		uint64_t create;
	} rows[] = {
		{ 0, 0, 0, 9, 0, 1 }, { 0, 1, 0, 9, 2, 2 },         { 2, 2, 0, 9, 4, 4 },
		{ 8, 7, 1, 9, 1, 1 }, { 256, 9, 0, 900, 512, 300 }, { 512, 9, 0, 900, 512, 300 },
		{ 8, 8, 0, 0, 1, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pool_seen seen = { .template = (void *)"t",
					  .desired = rows[i].desired,
					  .memory.burst = rows[i].burst,
					  .n_created = rows[i].n_created,
					  .n_not_created = rows[i].n_not_created,
					  .max_batch = 300 };
		struct pool_plan plan = pool_decide(&seen);

		eq_int(plan.memory.burst, rows[i].next);
		eq_int(plan.create, rows[i].create);
		pool_plan_done(&plan);
	}
}

TEST(a_refill_rests_after_a_claim_but_not_for_long)
{
#define S(x) ((usec)((x) * 1000) * 1000)
	static const struct {
		uint64_t fine, was;
		usec from, until; /* remembered */
		uint64_t create;
		usec next_from, next_until;
		uint64_t again_ms;
	} rows[] = {
		/* a claim was served: rest */
		{ 9, 10, 0, 0, 0, S(100), S(101), 1001 },
		/* and another, half a second later */
		{ 8, 9, S(99.5), S(100.5), 0, S(99.5), S(101), 1001 },
		/* the longest rest */
		{ 8, 9, S(97), S(100.5), 0, S(97), S(101), 1001 },
		{ 8, 9, S(96.5), S(100.5), 0, S(96.5), S(100.5), 501 },
		/* it is over */
		{ 9, 9, S(99), S(100), 1, 0, 0, 0 },
		/* a pool that runs low does not rest */
		{ 2, 3, 0, 0, 1, 0, 0, 0 },
		{ 3, 4, 0, 0, 0, S(100), S(101), 1001 },
		/* nor does one that is filled for the first time */
		{ 5, 4, 0, 0, 1, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pool_seen seen = { .template = (void *)"t",
					  .n_fine = rows[i].fine,
					  .desired = 10,
					  .memory = { .was_active = rows[i].was,
						      .rest_from = rows[i].from,
						      .rest_until = rows[i].until },
					  .max_batch = 300,
					  .rest_ms = 1000,
					  .now = S(100) };
		struct pool_plan plan = pool_decide(&seen);

		eq_int(plan.create, rows[i].create);
		eq_int(plan.memory.was_active, rows[i].fine);
		eq_int(plan.memory.rest_from, rows[i].next_from);
		eq_int(plan.memory.rest_until, rows[i].next_until);
		eq_int(plan.again_ms, rows[i].again_ms);
		pool_plan_done(&plan);
	}
}

static const char pool_text[] =
	"{'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxWarmPool','metadata':{'name':"
	"'test-pool','namespace':'ns','uid':'p1','generation':4},'spec':{'sandboxTemplateRef':{'name':"
	"'test-template'}}}";

TEST(cases_135_136_137_what_a_member_looks_like)
{
	autoptr(object) pool = object_of(kind_named("SandboxWarmPool"), pool_text);
	autoptr(object) t = object_of(
		kind_named("SandboxTemplate"),
		"{'metadata':{'name':'test-template'},'spec':{'podTemplate':{'metadata':{'labels':{'a':'b'}},"
		"'spec':{'runtimeClassName':'r'}},'volumeClaimTemplates':[{'metadata':{'name':'data'}},"
		"{'metadata':{'name':'cache'}}],'service':true}}");
	autoptr(json_doc) d = member_build(pool, t, "bbbb", "pppp");

	eq_json(json_root(d),
		"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','metadata':{'generateName':"
		"'test-pool-','namespace':'ns','labels':{'agents.x-k8s.io/warm-pool-sandbox':'59733166',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':'69155462',"
		"'agents.x-k8s.io/sandbox-pod-template-hash':'pppp','agents.x-k8s.io/"
		"sandbox-template-hash':'bbbb','agents.x-k8s.io/launch-type':'warm',"
		"'agents.x-k8s.io/created-by':'controller'},'annotations':{'agents.x-k8s.io/"
		"sandbox-template-ref':'test-template'},'ownerReferences':[{'apiVersion':"
		"'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxWarmPool','name':'test-pool','uid':'p1',"
		"'controller':true,'blockOwnerDeletion':true}]},'spec':{'podTemplate':{'metadata':{'labels':{"
		"'a':'b','agents.x-k8s.io/warm-pool-sandbox':'59733166',"
		"'agents.x-k8s.io/sandbox-template-ref-hash':'69155462',"
		"'agents.x-k8s.io/sandbox-pod-template-hash':'pppp','agents.x-k8s.io/"
		"sandbox-template-hash':'bbbb'},'annotations':{'cluster-autoscaler.kubernetes.io/"
		"safe-to-evict':'true'}},'spec':{'runtimeClassName':'r','automountServiceAccountToken':false,"
		"'dnsPolicy':'None','dnsConfig':{'nameservers':['8.8.8.8','1.1.1.1']}}},"
		"'volumeClaimTemplates':[{'metadata':{'name':'data'}},{'metadata':{'name':'cache'}}],"
		"'service':true}}");
}

TEST(case_141_the_templates_word_on_eviction_wins)
{
	autoptr(object) pool = object_of(kind_named("SandboxWarmPool"), pool_text);
	autoptr(object) t = object_of(
		kind_named("SandboxTemplate"),
		"{'metadata':{'name':'test-template'},'spec':{'podTemplate':{'metadata':{'annotations':{"
		"'cluster-autoscaler.kubernetes.io/safe-to-evict':'false'}},'spec':{}}}}");
	autoptr(json_doc) d = member_build(pool, t, "b", "p");

	eq_json(json_at_path(json_root(d), "spec.podTemplate.metadata.annotations"),
		"{'cluster-autoscaler.kubernetes.io/safe-to-evict':'false'}");
}

TEST(cases_139_140_what_a_pool_reports)
{
	autoptr(object) pool = object_of(kind_named("SandboxWarmPool"), pool_text);
	autoptr(json_doc) some = pool_status(pool, 3, 2);
	autoptr(json_doc) none = pool_status(pool, 0, 0);

	eq_json(json_root(some),
		"{'replicas':3,'readyReplicas':2,'selector':'agents.x-k8s.io/warm-pool-sandbox=59733166',"
		"'observedGeneration':4}");
	eq_json(json_root(none),
		"{'selector':'agents.x-k8s.io/warm-pool-sandbox=59733166','observedGeneration':4}");
}
