/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/cay/ledger.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "claims.h"
#include "client/access.h"
#include "kinds.h"
#include "loop/loop.h"
#include "world.h"

/* Ledgers and budgets on a real server, with a node of our own. */

#define S   1000000LL
#define DAY ((uint64_t)24 * 3600 * 1000)

enum {
	SOURCES = 4,
};
struct fake_node {
	struct access_source sources[SOURCES];
	size_t n;
	char settled[512]; /* uids, each with a space behind it */
	struct access *access;
};

static void fake_each(void *ctx, void (*fn)(void *arg, const struct access_source *s), void *arg)
{
	struct fake_node *n = ctx;

	for (size_t i = 0; i < n->n; i++)
		fn(arg, &n->sources[i]);
}

static void fake_settled(void *ctx, const char *uid)
{
	struct fake_node *n = ctx;
	size_t len = strlen(n->settled);

	(void)snprintf(n->settled + len, sizeof(n->settled) - len, "%s ", uid);
}

static void open_world(struct world *w, struct fake_node *n)
{
	static const struct access_ops ops = { .usage_each = fake_each,
					       .usage_settled = fake_settled };
	struct control_options o = { .agents = true, .cluster_services = true };

	*n = (struct fake_node){ 0 };
	o.access = n->access = access_new(&ops, n);
	world_open(w, &o);
}

static void close_world(struct world *w, struct fake_node *n)
{
	world_done(w);
	access_free(n->access);
}

/* A team with a session x of agent a, which has a sandbox of its own. */
static char *open_session(struct world *w, struct fake_node *n, const char *agent)
{
	autofree char *text = xasprintf("{'metadata':{'name':'a'},'spec':{'sandbox':{"
					"'warmPoolRef':{'name':'p'}}%s}}",
					agent);

	open_world(w, n);
	make_template(w, "t", "");
	make_pool(w, "p", "t", ",'replicas':1");
	turn(w);
	all_pods_run(w);
	turn(w);
	create(w, kind_named("Agent"), text);
	create(w, kind_named("Session"),
	       "{'metadata':{'name':'x'},'spec':{'agent':'a','user':'ann'}}");
	turn(w);
	return count(w, kind_named("SandboxClaim")) ? bound_to(w, "x") : NULL;
}

static void measured(struct world *w, struct fake_node *n)
{
	access_tell_measured(n->access);
	turn(w);
	step(w, 50);
}

static void use(struct fake_node *n, size_t i, const char *uid, const char *sandbox, int64_t cpu_us)
{
	n->sources[i] = (struct access_source){
		.uid = uid, .ns = NS, .sandbox = sandbox, .used = { .cpu_us = cpu_us }
	};
	n->n = MAX(n->n, i + 1);
}

static bool is_newer(void *arg, struct object *o)
{
	struct object **best = arg;

	if (*best && strcmp((*best)->name, o->name) > 0)
		return true;
	object_unref(*best);
	*best = object_ref(o);
	return true;
}

static struct object *newest(struct world *w)
{
	struct object *o = NULL;

	client_each(w->client, kind_named("Ledger"), NS, is_newer, &o);
	return o;
}

/* Of the last ledger: the processor time of an agent, and how many marks there are. */
static int64_t cpu_of(struct world *w, const char *agent, size_t *ret_marks)
{
	autoptr(object) o = newest(w);
	autoptr(arena) a = arena_new();
	struct ledger l;
	int64_t sum = 0;

	ledger_read(o ? object_status(o) : NULL, 0, a, &l);
	for (size_t i = 0; i < l.n_rows; i++)
		if (str_eq(l.rows[i].who.agent, agent))
			sum += l.rows[i].used.of[COST_CPU_US];
	*ret_marks = l.n_marks;
	return sum;
}

static const char *uid_of(struct world *w, const char *kind, const char *name)
{
	static char text[64];
	autoptr(object) o = get(w, kind_named(kind), name);

	(void)snprintf(text, sizeof(text), "%s", o ? o->uid : "");
	return text;
}

TEST(a_new_day_has_rows_of_its_own_and_goes_on_with_the_marks)
{
	autofree char *sandbox = NULL;
	struct fake_node n;
	struct world w;
	size_t marks;

	sandbox = open_session(&w, &n, "");
	use(&n, 0, "pod-1", sandbox, 5 * S);
	measured(&w, &n);
	eq_int(count(&w, kind_named("Ledger")), 1);
	eq_int(cpu_of(&w, "a", &marks), 5 * S);
	eq_int(marks, 1);
	measured(&w, &n); /* nothing new: nothing is written */
	step(&w, DAY);
	use(&n, 0, "pod-1", sandbox, 7 * S);
	measured(&w, &n);
	eq_int(count(&w, kind_named("Ledger")), 2);
	eq_int(cpu_of(&w, "a", &marks), 2 * S);
	eq_int(marks, 1);
	step(&w, 91 * DAY);
	use(&n, 0, "pod-1", sandbox, 8 * S);
	measured(&w, &n);
	for (int i = 0; i < 4; i++)
		step(&w, DAY / 4);
	eq_int(count(&w, kind_named("Ledger")), 1); /* what is too old is gone */
	eq_int(cpu_of(&w, "a", &marks), 1 * S);
	close_world(&w, &n);
}

TEST(a_measurement_without_news_writes_nothing)
{
	autofree char *sandbox = NULL;
	struct fake_node n;
	struct world w;
	uint64_t rev;

	sandbox = open_session(&w, &n, "");
	use(&n, 0, "pod-1", sandbox, 5 * S);
	for (int i = 0; i < 8; i++)
		measured(&w, &n);
	rev = world_rev(&w);
	for (int i = 0; i < 8; i++)
		measured(&w, &n);
	eq_int(world_rev(&w), rev);
	close_world(&w, &n);
}

static bool synced;

static void on_synced(unused struct client_write *cw, struct err *e, unused struct object *obj)
{
	err_free(e);
	synced = true;
}

/* Whoever waits for the disk since before this has been told. */
static void all_durable(struct world *w)
{
	struct client_write mine = { .done = on_synced };

	synced = false;
	client_sync(w->client, &mine);
	while (!synced)
		(void)loop_turn(w->loop, 20);
}

TEST(a_source_that_is_over_is_settled_when_the_ledger_has_all_of_it_and_its_mark_goes_last)
{
	autofree char *sandbox = NULL;
	struct fake_node n;
	struct world w;
	size_t marks;

	sandbox = open_session(&w, &n, "");
	use(&n, 0, "pod-1", sandbox, 5 * S);
	measured(&w, &n);
	use(&n, 0, "pod-1", sandbox, 6 * S);
	n.sources[0].over = true;
	access_tell_measured(n.access);
	eq_str(n.settled, "");
	turn(&w);
	all_durable(&w);
	eq_str(n.settled, ""); /* when it was told, the ledger had less of it */
	measured(&w, &n);
	while (!*n.settled) /* until it is on the disk */
		(void)loop_turn(w.loop, 20);
	eq_str(n.settled, "pod-1 ");
	(void)cpu_of(&w, "a", &marks);
	eq_int(marks, 1);
	n.n = 0; /* the node has written that down */
	measured(&w, &n);
	eq_int(cpu_of(&w, "a", &marks), 6 * S);
	eq_int(marks, 0);
	close_world(&w, &n);
}

TEST(controllers_that_start_again_count_nothing_twice_and_drop_no_mark_before_they_are_told)
{
	struct control_options o = { .agents = true, .cluster_services = true };
	autofree char *sandbox = NULL;
	struct fake_node n;
	struct world w;
	size_t marks;

	sandbox = open_session(&w, &n, "");
	use(&n, 0, "pod-1", sandbox, 5 * S);
	measured(&w, &n);
	world_stop(&w);
	o.access = n.access;
	world_start(&w, &o);
	step(&w, 1000);
	eq_int(cpu_of(&w, "a", &marks), 5 * S);
	eq_int(marks, 1);
	measured(&w, &n);
	eq_int(cpu_of(&w, "a", &marks), 5 * S);
	world_stop(&w);
	world_start(&w, &o);
	n.n = 0; /* it was settled before, and nothing else runs */
	measured(&w, &n);
	eq_int(cpu_of(&w, "a", &marks), 5 * S);
	eq_int(marks, 0);
	close_world(&w, &n);
}

TEST(an_attachment_that_is_gone_is_still_its_agents)
{
	autofree char *sandbox = NULL;
	struct fake_node n;
	struct world w;
	char uid[64];
	size_t marks;

	sandbox = open_session(&w, &n, "");
	(void)snprintf(uid, sizeof(uid), "%s", uid_of(&w, "Attachment", "x"));
	delete_now(&w, kind_named("Session"), "x");
	for (int i = 0; i < 20; i++)
		step(&w, 1000);
	use(&n, 0, uid, sandbox, 3 * S); /* it ran in between, and nobody had measured it */
	n.sources[0].attachment = n.sources[0].over = true;
	measured(&w, &n);
	eq_int(cpu_of(&w, "a", &marks), 3 * S);
	close_world(&w, &n);
}

static const char *budget_state(struct world *w)
{
	static char text[256];

	(void)snprintf(text, sizeof(text), "%s",
		       condition_of(w, kind_named("Budget"), "b", "Exceeded"));
	if (strchr(text, '/'))
		*strrchr(text, '/') = '\0';
	return text;
}

static bool suspended(struct world *w, const char *sandbox, const char **ret_by)
{
	static char by[128];
	autoptr(object) o = get(w, kind_named("Sandbox"), sandbox);

	(void)snprintf(by, sizeof(by), "%s",
		       str_or(object_annotation(o, KEY_SUSPENDED_BY),
			      object_annotation(o, KEY_ASLEEP_SINCE) ? "asleep" : ""));
	*ret_by = by;
	return str_eq(json_get_str(object_spec(o), "operatingMode"), "Suspended");
}

TEST(a_budget_suspends_until_the_next_period_and_nobody_wakes_its_sandbox_before)
{
	autofree char *sandbox = NULL;
	struct fake_node n;
	struct world w;
	const char *by;

	sandbox = open_session(&w, &n, ",'budget':'b'");
	is_true(sandbox == NULL); /* there is no such Budget yet */
	create(&w, kind_named("Budget"),
	       "{'metadata':{'name':'b'},'spec':{'limits':{'cpuSeconds':'2'},'period':'1h'}}");
	turn(&w);
	step(&w, 50);
	sandbox = bound_to(&w, "x");
	eq_str(budget_state(&w), "False/WithinLimits");
	use(&n, 0, "pod-1", sandbox, 2 * S);
	measured(&w, &n);
	eq_str(budget_state(&w), "True/UsedUp");
	is_true(suspended(&w, sandbox, &by));
	eq_str(by, "budget/b");
	eq_int(count_events(&w, "BudgetExceeded"), 1);
	eq_int(count_events(&w, "SuspendedByBudget"), 1);
	is_false(control_wake(w.control, NS, sandbox, "packet"));
	patch(&w, kind_named("Sandbox"), sandbox, NULL,
	      "{'metadata':{'annotations':{'cay.dev/wake':'OnRequest'}}}");
	is_false(control_wake(w.control, NS, sandbox, "packet"));
	is_true(suspended(&w, sandbox, &by));
	step(&w, (uint64_t)3601 * 1000);
	step(&w, 50);
	eq_str(budget_state(&w), "False/WithinLimits");
	is_true(suspended(&w, sandbox, &by));
	eq_str(by, "asleep");
	is_true(control_wake(w.control, NS, sandbox, "packet"));
	is_false(suspended(&w, sandbox, &by));
	eq_str(by, "");
	use(&n, 0, "pod-1", sandbox, 2 * S + 5); /* what was used before does not count again */
	measured(&w, &n);
	eq_str(budget_state(&w), "False/WithinLimits");
	close_world(&w, &n);
}

TEST(a_budget_that_is_deleted_gives_its_sandboxes_back)
{
	autofree char *sandbox = NULL;
	struct fake_node n;
	struct world w;
	const char *by;

	sandbox = open_session(&w, &n, "");
	create(&w, kind_named("Budget"),
	       "{'metadata':{'name':'b'},'spec':{'limits':{'cpuSeconds':'0'}}}");
	create(&w, kind_named("TeamPolicy"), "{'metadata':{'name':'team'},'spec':{'budget':'b'}}");
	turn(&w);
	step(&w, 50);
	is_true(suspended(&w, sandbox, &by));
	eq_str(by, "budget/b");
	patch(&w, kind_named("TeamPolicy"), "team", NULL, "{'spec':{'budget':null}}");
	turn(&w);
	step(&w, 50);
	is_true(suspended(&w, sandbox, &by));
	eq_str(by, "asleep"); /* it is not the team's any more */
	patch(&w, kind_named("TeamPolicy"), "team", NULL, "{'spec':{'budget':'b'}}");
	turn(&w);
	step(&w, 50);
	is_true(suspended(&w, sandbox, &by));
	eq_str(by, "budget/b");
	delete_now(&w, kind_named("Budget"), "b");
	turn(&w);
	step(&w, 50);
	is_true(suspended(&w, sandbox, &by));
	eq_str(by, "asleep");
	close_world(&w, &n);
}

TEST(the_cost_of_a_session_goes_on_where_it_was)
{
	autofree char *sandbox = NULL;
	struct fake_node n;
	struct world w;

	sandbox = open_session(&w, &n, "");
	use(&n, 0, "pod-1", sandbox, 5 * S);
	measured(&w, &n);
	n.sources[0].over = true;
	measured(&w, &n);
	n.n = 0;
	measured(&w, &n);
	measured(&w, &n);
	use(&n, 0, "pod-2", sandbox, 2 * S); /* its sandbox was suspended, and runs again */
	n.sources[0].over = true;
	measured(&w, &n);
	measured(&w, &n);
	autoptr(object) o = get(&w, kind_named("Session"), "x");

	eq_str(json_get_str(json_get(object_status(o), "cost"), "cpuSeconds"), "7");
	close_world(&w, &n);
}
