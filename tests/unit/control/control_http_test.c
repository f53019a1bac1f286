/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "client/http.h"
#include "control/pass/keys.h"
#include "kinds.h"
#include "loop/loop.h"
#include "server/server.h"
#include "world.h"

/* The same controllers over HTTPS, with informers for caches. */

static char *value_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	is_true(at);
	at += strlen(key);
	return xstrndup(at, strcspn(at, "\n"));
}

static char *pem_after(const char *text, const char *key)
{
	autofree char *coded = value_after(text, key);
	void *pem = NULL;
	size_t len = 0;

	works(base64_decode(coded, false, &pem, &len));
	return pem;
}

static void open_https(struct world *w)
{
	autofree char *path = NULL, *text = NULL;
	struct kubeconfig k = { 0 };
	size_t len = 0;

	world_open(w, NULL);
	world_stop(w);
	works(server_listen(w->server));
	works(server_write_kubeconfig(w->server));
	path = xasprintf("%s/admin.kubeconfig", w->dir);
	works(file_read(AT_FDCWD, path, 1 << 20, &text, &len));
	k.server = value_after(text, "server: ");
	k.ca_pem = pem_after(text, "certificate-authority-data: ");
	k.cert_pem = pem_after(text, "client-certificate-data: ");
	k.key_pem = pem_after(text, "client-key-data: ");
	works(client_http_new(w->loop, &k, "cay-test", test_kinds(), &w->theirs));
	kubeconfig_done(&k);
	works(control_start(w->loop, w->theirs, NULL, &w->control));
}

#define UNTIL(w, what)                                       \
	do {                                                 \
		usec until_ = clock_mono() + 20 * 1000000LL; \
		while (!(what) && clock_mono() < until_)     \
			(void)loop_turn((w)->loop, 10);      \
		is_true(what);                               \
	} while (0)

static int64_t ready_replicas(struct world *w)
{
	autoptr(object) pool = get(w, kind_named("SandboxWarmPool"), "p");

	return json_get_int(object_status(pool), "readyReplicas", 0);
}

static unsigned n_ready(struct world *w, int n)
{
	unsigned ready = 0;

	for (int i = 0; i < n; i++) {
		autofree char *name = xasprintf("c%d", i);

		ready += str_starts(condition_of(w, kind_named("SandboxClaim"), name, "Ready"),
				    "True/");
	}
	return ready;
}

static void eq_distinct(struct world *w, int n)
{
	autoptr(map) seen = map_new(NULL);

	for (int i = 0; i < n; i++) {
		autofree char *name = xasprintf("c%d", i);
		autoptr(object) claim = get(w, kind_named("SandboxClaim"), name);
		const char *to = json_get_str(json_get(object_status(claim), "sandbox"), "name");

		is_true(to && !map_has(seen, to));
		map_put(seen, to, w);
	}
}

/* Requests with this label; NULL: all that write. */
static int64_t sent(struct world *w, const char *label)
{
	autoptr(json_doc) counts = client_http_counts(w->theirs);
	int64_t n = 0;

	json_each(it, json_root(counts))
		if (label ? str_eq(it.key, label) : !str_starts(it.key, "GET"))
			n += json_int(it.val, 0);
	return n;
}

static void claim_all(struct world *w, int n)
{
	for (int i = 0; i < n; i++) {
		autofree char *text = xasprintf(
			"{'metadata':{'name':'c%d'},'spec':{'warmPoolRef':{'name':'p'}}}", i);

		create(w, kind_named("SandboxClaim"), text);
	}
	UNTIL(w, n_ready(w, n) == (unsigned)n);
}

static void open_pool(struct world *w)
{
	open_https(w);
	create(w, kind_named("SandboxTemplate"),
	       "{'metadata':{'name':'t'},'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':"
	       "'pause'}]}}}}");
	create(w, kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p'},'spec':{'replicas':6,'sandboxTemplateRef':{'name':'t'}}}");
	UNTIL(w, count(w, kind_named("Pod")) == 6);
	all_pods_run(w);
	UNTIL(w, ready_replicas(w) == 6);
}

TEST(warm_claims_over_https_get_one_member_each)
{
	struct world w;

	open_pool(&w);
	claim_all(&w, 6);
	eq_distinct(&w, 6);
	UNTIL(&w, count(&w, kind_named("Sandbox")) == 12); /* refilled, and no more than that */
	world_done(&w);
}

static unsigned n_stamped(struct world *w, int n)
{
	unsigned stamped = 0;

	for (int i = 0; i < n; i++) {
		autofree char *name = xasprintf("c%d", i);
		autoptr(object) claim = get(w, kind_named("SandboxClaim"), name);

		stamped += object_annotation(claim, KEY_FIRST_READY) != NULL;
	}
	return stamped;
}

static const struct {
	const char *label;
	unsigned per_claim;
	bool later; /* has a second's time */
} costs[] = {
	{ "PATCH sandboxes", 1, false },
	{ "PATCH sandboxclaims/status", 1, false }, /* now it is Ready */
	{ "PATCH sandboxclaims", 1, false },
	{ "POST events", 1, false },
	{ "PATCH pods", 1, true },
	{ "PATCH sandboxes/status", 1, true },
};

static int64_t n_sent(struct world *w, bool later)
{
	int64_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(costs); i++)
		if (costs[i].later == later)
			n += sent(w, costs[i].label);
	return n;
}

/* What the adoption changes for readers of the Pod and of the Sandbox's generation comes within a
 * second, unless the claim is over by then. Nothing is tried twice. */
TEST(a_warm_claim_over_https_costs_four_writes_and_two_that_have_time)
{
	int64_t before[ARRAY_LEN(costs)], others;
	struct world w;

	open_pool(&w);
	delete_now(&w, kind_named("SandboxTemplate"), "t"); /* what is taken is not replaced */
	for (int i = 0; i < 30; i++)
		(void)loop_turn(w.loop, 10);
	for (size_t i = 0; i < ARRAY_LEN(costs); i++)
		before[i] = sent(&w, costs[i].label);
	others = sent(&w, NULL) - n_sent(&w, false) - n_sent(&w, true);
	claim_all(&w, 6);
	UNTIL(&w, n_stamped(&w, 6) == 6);
	control_step(w.control, 1000);
	UNTIL(&w, sent(&w, "PATCH sandboxes/status") == before[5] + 6);
	for (int i = 0; i < 30; i++)
		(void)loop_turn(w.loop, 10);
	for (size_t i = 0; i < ARRAY_LEN(costs); i++)
		eq_int(sent(&w, costs[i].label) - before[i], 6 * costs[i].per_claim);
	/* The pool's status, now and then. */
	is_true(sent(&w, NULL) - n_sent(&w, false) - n_sent(&w, true) - others <= 3);
	world_done(&w);
}
