/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "claims.h"
#include "control/control_priv.h"
#include "kinds.h"

/* How many writes a claim takes, of which objects, and when. */

/* A pool whose template is gone: what is taken from it is not replaced, so that only the claims'
 * own writes count. */
static void open_without_refill(struct world *w, const char *replicas)
{
	open_with_pool(w, replicas);
	step(w, 200);
	(void)count_events(w, "");
	delete_now(w, kind_named("SandboxTemplate"), "t");
	turn(w);
	step(w, 200);
	(void)count_events(w, "");
}

/* What a write was about, in the order of the writes: "Sandbox SandboxClaim ". */
struct ledger {
	struct client_watch *watches[4];
	char text[8192];
};

static void write_down(void *arg, struct object *was unused, struct object *now)
{
	struct ledger *l = arg;
	size_t len = strlen(l->text);

	if (now)
		(void)snprintf(l->text + len, sizeof(l->text) - len, "%s ", now->kind->kind);
}

static void ledger_open(struct ledger *l, struct world *w)
{
	const struct kind *const kinds[] = { kind_named("Sandbox"), kind_named("SandboxClaim"),
					     kind_named("Pod"), kind_named("SandboxWarmPool") };
	static const struct client_watch_events ev = { .changed = write_down };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		l->watches[i] = client_watch(
			w->client, &(struct client_watch_spec){ .kind = kinds[i] }, &ev, l);
	*l->text = '\0';
}

static void ledger_done(struct ledger *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->watches); i++)
		client_watch_free(l->watches[i]);
}

static unsigned n_times(const char *text, const char *word)
{
	unsigned n = 0;

	while ((text = strstr(text, word))) {
		text += strlen(word);
		n++;
	}
	return n;
}

TEST(a_warm_claim_is_two_writes_in_its_turn_and_four_in_all)
{
	struct ledger l = { 0 };
	struct world w;
	uint64_t rev, passes[CONTROL_KIND_MAX_];

	open_without_refill(&w, "2");
	ledger_open(&l, &w);
	make_claim(&w, "c", "p", "");
	rev = world_rev(&w);
	memcpy(passes, w.control->n_passes, sizeof(passes));
	turn(&w);
	for (size_t i = 0; i < ARRAY_LEN(passes); i++) /* adopt, report; and garbage collection */
		if (i != CONTROL_GC)
			eq_int(w.control->n_passes[i] - passes[i], i == CONTROL_CLAIM ? 2 : 0);
	eq_str(ready_of(&w, "c"), "True/DependenciesReady/Pod is Ready");
	eq_str(l.text, "SandboxClaim Sandbox SandboxClaim "); /* the first is the test's own */
	eq_int(world_rev(&w) - rev, 3); /* and an Event, which waits for no one */
	step(&w, 10);
	eq_str(l.text, "SandboxClaim Sandbox SandboxClaim ");
	step(&w, 100);
	eq_str(l.text, "SandboxClaim Sandbox SandboxClaim SandboxWarmPool ");
	step(&w, 1000);
	eq_str(l.text, "SandboxClaim Sandbox SandboxClaim SandboxWarmPool Pod ");
	eq_int(world_rev(&w) - rev, 5); /* the pool's status, for however many claims */
	eq_int(count_events(&w, "SandboxAdopted"), 1);
	ledger_done(&l);
	world_done(&w);
}

/* A Pod that runs on a node has one more: it is marked as ending before it is removed. */
TEST(a_claim_its_end_and_its_refill_are_eleven_writes)
{
	autofree char *name = NULL;
	struct ledger l = { 0 };
	struct world w;
	uint64_t rev;

	open_with_pool(&w, "2");
	step(&w, 200);
	eq_int(count_events(&w, "SandboxPodCreated") + count_events(&w, "SandboxReady"), 0);
	ledger_open(&l, &w);
	rev = world_rev(&w);
	make_claim(&w, "c", "p", "");
	turn(&w);
	name = bound_to(&w, "c");
	delete_now(&w, kind_named("SandboxClaim"), "c");
	turn(&w);
	turn(&w);
	is_false(get(&w, kind_named("Sandbox"), name));
	eq_int(count(&w, kind_named("Pod")), 1);
	step(&w, 10);
	eq_int(count(&w, kind_named("Sandbox")), 2);
	all_pods_run(&w);
	step(&w, 200);
	eq_str(l.text, "SandboxClaim Sandbox SandboxClaim Sandbox Pod Pod Sandbox ");
	eq_int(count_events(&w, "SandboxAdopted"), 1);
	eq_int(world_rev(&w) - rev, 11); /* these, that Event, and three that remove */
	ledger_done(&l);
	world_done(&w);
}

TEST(the_status_of_a_pool_follows_what_lasts)
{
	autoptr(object) pool = NULL;
	struct world w;

	open_without_refill(&w, "2");
	make_claim(&w, "c", "p", "");
	turn(&w);
	step(&w, 10);
	step(&w, 50);
	pool = get(&w, kind_named("SandboxWarmPool"), "p");
	eq_int(json_get_int(object_status(pool), "readyReplicas", 0), 2);
	step(&w, 50);
	object_unref(take(pool));
	pool = get(&w, kind_named("SandboxWarmPool"), "p");
	eq_int(json_get_int(object_status(pool), "readyReplicas", 0), 1);
	patch(&w, kind_named("SandboxWarmPool"), "p", NULL, "{'spec':{'replicas':3}}");
	turn(&w);
	object_unref(take(pool));
	pool = get(&w, kind_named("SandboxWarmPool"), "p"); /* a new generation at once */
	eq_int(json_get_int(object_status(pool), "observedGeneration", 0), 2);
	world_done(&w);
}

TEST(a_claim_that_ends_at_once_costs_its_pod_no_write)
{
	struct ledger l = { 0 };
	autofree char *name = NULL;
	struct world w;

	open_without_refill(&w, "2");
	make_claim(&w, "c", "p", "");
	turn(&w);
	name = bound_to(&w, "c");
	delete_now(&w, kind_named("SandboxClaim"), "c");
	turn(&w);
	turn(&w);
	is_false(get(&w, kind_named("Sandbox"), name));
	ledger_open(&l, &w);
	step(&w, 1000);
	eq_int(n_times(l.text, "Pod "), 0);
	ledger_done(&l);
	world_done(&w);
}

/* Selectors may go by it: it does not wait. */
static bool note_event(void *arg, struct object *o)
{
	struct map *events = arg; /* claim → the revision of its Event */
	uint64_t *rev;

	if (!str_eq(json_get_str(o->root, "reason"), "SandboxAdopted"))
		return true;
	rev = xnew(uint64_t);
	*rev = o->rev;
	map_put(events, json_get_str(json_get(o->root, "involvedObject"), "name"), rev);
	return true;
}

TEST(a_burst_writes_the_pools_status_a_few_times_and_every_event_in_order)
{
	autoptr(map) events = map_new(free);
	struct ledger l = { 0 };
	struct world w;
	uint64_t rev = 0;

	open_without_refill(&w, "100");
	ledger_open(&l, &w);
	for (int i = 0; i < 100; i++) {
		autofree char *name = xasprintf("c%d", i);

		make_claim(&w, name, "p", "");
		turn(&w);
		eq_str(ready_of(&w, name), "True/DependenciesReady/Pod is Ready");
	}
	for (int i = 0; i < 30; i++)
		step(&w, 10);
	is_true(n_times(l.text, "SandboxWarmPool ") <= 5);
	is_true(n_times(l.text, "SandboxWarmPool ") >= 1);
	client_each(w.client, kind_storage(kind_named("events.k8s.io/v1 Event")), NULL, note_event,
		    events);
	eq_int(map_len(events), 100);
	for (int i = 0; i < 100; i++) {
		autofree char *name = xasprintf("c%d", i);
		const uint64_t *at = map_get(events, name);

		is_true(at && *at > rev);
		rev = *at;
	}
	ledger_done(&l);
	world_done(&w);
}

TEST(events_that_wait_are_written_when_the_controllers_stop)
{
	struct world w;

	open_with_pool(&w, "2");
	make_claim(&w, "c", "p", "");
	turn(&w);
	world_stop(&w);
	world_start(&w, NULL);
	eq_int(count_events(&w, "SandboxAdopted"), 1);
	world_done(&w);
}
