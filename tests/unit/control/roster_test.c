/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "base/map.h"
#include "base/str.h"
#include "control/index/index.h"
#include "fixture.h"
#include "kinds.h"

/* Who gets which member: cases 227 to 246 of docs/reference/cases.md. */

struct bench {
	struct index *ix;
	unsigned rev;
};

static struct object *member_object(struct bench *b, const char *name, const char *status,
				    const char *owner)
{
	return object_of_f(
		kind_named("Sandbox"),
		"{'metadata':{'name':'%s','namespace':'ns','uid':'u-%s','resourceVersion':'%u',"
		"'creationTimestamp':'2026-01-01T00:00:00Z','labels':{"
		"'agents.x-k8s.io/warm-pool-sandbox':'h','agents.x-k8s.io/"
		"sandbox-template-ref-hash':'t'},'ownerReferences':[%s]},'status':%s}",
		name, name, ++b->rev, owner, status);
}

#define POOL                                                                                       \
	"{'apiVersion':'extensions.agents.x-k8s.io/v1alpha1','kind':'SandboxWarmPool','name':'p'," \
	"'uid':'pu','controller':true}"
#define CLAIM                                                                                  \
	"{'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':'SandboxClaim','name':'c'," \
	"'uid':'cu','controller':true}"
#define READY(node) \
	"{'podIPs':['1'],'nodeName':'" node "','conditions':[{'type':'Ready','status':'True'}]}"
#define NETWORKED "{'podIPs':['1'],'nodeName':'a'}"

static bool put(struct bench *b, const char *name, const char *status, const char *owner)
{
	struct member *old = index_member(b->ix, "ns", name);
	autoptr(object) was = old ? object_ref(old->sandbox) : NULL;
	autoptr(object) now = status ? member_object(b, name, status, owner) : NULL;
	struct roster *r = NULL;

	return index_sandbox(b->ix, was, now, &r);
}

static bool any(void *arg unused, struct member *m unused)
{
	return true;
}

/* Picks and takes; the name, or "none", or "pending". */
static const char *pick(struct bench *b)
{
	struct member *m = NULL;

	switch (roster_pick(index_roster(b->ix, "ns", "p"), any, NULL, &m)) {
	case PICK_NONE:
		return "none";
	case PICK_PENDING:
		return "pending";
	case PICK_MEMBER:
		m->taken = true;
		return m->sandbox->name;
	}
	return NULL;
}

TEST(case_227_the_oldest_ready_member_goes_first)
{
	struct bench b = { index_new() };

	put(&b, "a", READY("n"), POOL);
	put(&b, "b", READY("n"), POOL);
	put(&b, "a", READY("n"), POOL); /* a change keeps its place */
	eq_str(pick(&b), "a");
	eq_str(pick(&b), "b");
	eq_str(pick(&b), "none");
	index_free(b.ix);
}

TEST(case_230_ready_comes_before_networked)
{
	struct bench b = { index_new() };

	put(&b, "a", NETWORKED, POOL);
	put(&b, "b", READY("a"), POOL);
	put(&b, "c", NETWORKED, POOL);
	eq_str(pick(&b), "b");
	eq_str(pick(&b), "a");
	eq_str(pick(&b), "c");
	index_free(b.ix);
}

TEST(case_238_members_without_an_address_are_pending)
{
	struct bench b = { index_new() };

	eq_str(pick(&b), "none");
	put(&b, "a", "{}", POOL);
	eq_str(pick(&b), "pending");
	is_true(put(&b, "a", NETWORKED, POOL)); /* who waits is told */
	eq_str(pick(&b), "a");
	index_free(b.ix);
}

static void pool_of(struct bench *b, int replicas)
{
	autoptr(object) pool = object_of_f(
		kind_named("SandboxWarmPool"),
		"{'metadata':{'name':'p','namespace':'ns','uid':'pu'},'spec':{'replicas':%d,"
		"'sandboxTemplateRef':{'name':'t'}}}",
		replicas);

	index_pool(b->ix, NULL, pool);
}

TEST(a_pool_runs_low_below_a_half_and_until_three_quarters)
{
	static const char *const names[] = { "a", "b", "c" };
	struct bench b = { index_new() };
	struct roster *r;

	is_true(!index_find_roster(b.ix, "ns", "p"));
	pool_of(&b, 4);
	r = index_find_roster(b.ix, "ns", "p");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		put(&b, names[i], READY("n"), POOL);
	put(&b, "d", NETWORKED, POOL);
	is_false(roster_low(r));
	put(&b, "a", READY("n"), CLAIM);
	is_false(roster_low(r)); /* two of four */
	put(&b, "b", NETWORKED, POOL);
	is_true(roster_low(r));
	put(&b, "b", READY("n"), POOL);
	is_true(roster_low(r)); /* two again, but it has not recovered yet */
	put(&b, "d", READY("n"), POOL);
	is_false(roster_low(r));
	pool_of(&b, 0);
	put(&b, "b", NULL, NULL);
	put(&b, "c", NULL, NULL);
	put(&b, "d", NULL, NULL);
	is_false(roster_low(r)); /* nothing is wanted of it */
	index_free(b.ix);
}

TEST(case_242_the_node_with_most_members_gives_one)
{
	struct bench b = { index_new() };

	put(&b, "a", READY("n1"), POOL);
	put(&b, "b", READY("n2"), POOL);
	put(&b, "c", READY("n2"), POOL);
	eq_str(pick(&b), "b");
	put(&b, "b", READY("n2"), CLAIM);
	eq_str(pick(&b), "a"); /* now equal: first come */
	eq_str(pick(&b), "c");
	index_free(b.ix);
}

TEST(cases_244_245_only_members_of_pools_are_listed_and_leave_with_them)
{
	struct bench b = { index_new() };

	put(&b, "x", READY("n"),
	    "{'apiVersion':'apps/v1','kind':'SandboxWarmPool','name':'p','uid':'pu','controller':true}");
	put(&b, "y", READY("n"), CLAIM);
	eq_str(pick(&b), "none");
	put(&b, "a", READY("n"), POOL);
	put(&b, "a", NULL, NULL);
	eq_str(pick(&b), "none");
	put(&b, "b", READY("n"), POOL);
	put(&b, "b", READY("n"), CLAIM);
	eq_str(pick(&b), "none");
	is_true(map_has(index_sandboxes_of(b.ix, "cu"), "b"));
	index_free(b.ix);
}

TEST(index_finds_claims_pools_and_orphans)
{
	struct bench b = { index_new() };
	autoptr(object) claim = object_of(
		kind_named("SandboxClaim"),
		"{'metadata':{'name':'c','namespace':'ns'},'spec':{'warmPoolRef':{'name':'p'}}}");
	autoptr(object) other = object_of(
		kind_named("SandboxClaim"),
		"{'metadata':{'name':'c','namespace':'ns'},'spec':{'warmPoolRef':{'name':'q'}}}");
	autoptr(object) pool = object_of(
		kind_named("SandboxWarmPool"),
		"{'metadata':{'name':'p','namespace':'ns'},'spec':{'sandboxTemplateRef':{'name':'t'}}}");

	index_claim(b.ix, NULL, claim);
	is_true(map_has(index_claims_of(b.ix, "ns", "p"), "c"));
	index_claim(b.ix, claim, other);
	is_false(index_claims_of(b.ix, "ns", "p"));
	is_true(map_has(index_claims_of(b.ix, "ns", "q"), "c"));
	index_claim(b.ix, other, NULL);
	is_false(index_claims_of(b.ix, "ns", "q"));
	index_pool(b.ix, NULL, pool);
	is_true(map_has(index_pools_of(b.ix, "ns", "t"), "p"));
	put(&b, "o", "{}", "");
	is_true(map_has(index_orphans_of(b.ix, "ns", "h"), "o"));
	index_free(b.ix);
}
