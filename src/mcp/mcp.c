/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp.h"

#include "api/agents.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strv.h"
#include "client/client.h"
#include "crypto/crypto.h"
#include "mcp/mcp_priv.h"

/*
 * One mcp: its sessions, the messages under way, and one watch of claims for all that wait for a
 * sandbox.
 */
struct caller *caller_new(const struct access_target *who)
{
	struct caller *c = xnew(struct caller);
	unsigned char hash[SHA256_LEN];

	c->who = (struct access_target){ .user = xstrdup(who->user),
					 .from = xstrdup(who->from),
					 .groups = (const char *const *)strv_copy(who->groups),
					 .account_ns = xstrdup(who->account_ns) };
	sha256(who->user, strlen(who->user), hash);
	hex_encode(hash, (sizeof(c->owner) - 1) / 2, c->owner);
	return c;
}

void caller_free(struct caller *c)
{
	if (!c)
		return;
	strv_free((char **)(uintptr_t)c->who.groups);
	free((char *)(uintptr_t)c->who.user);
	free((char *)(uintptr_t)c->who.from);
	free((char *)(uintptr_t)c->who.account_ns);
	free(c);
}

/* Called from within a write: those that wait look later in this turn. */
static void on_claim(void *arg, struct object *was, struct object *now)
{
	struct mcp *m = arg;
	const struct object *o = now ? now : was;
	autofree char *key = NULL;

	if (!map_len(m->waiting))
		return;
	key = xasprintf("%s/%s", o->ns, o->name);
	if (map_has(m->waiting, key))
		deferred_call(&m->look);
}

static void on_look(void *arg)
{
	create_look(arg);
}

struct mcp *mcp_new(struct loop *l, const struct mcp_spec *spec)
{
	static const struct client_watch_events events = { .changed = on_claim };
	struct kinds *kinds = client_kinds(spec->client);
	struct mcp *m = xnew(struct mcp);

	m->loop = l;
	m->spec = *spec;
	m->claims = kinds_need(kinds, API_EXTENSIONS, "SandboxClaim");
	m->sandboxes = kinds_need(kinds, API_SANDBOX, "Sandbox");
	m->waiting = map_new(NULL);
	list_init(&m->posts);
	list_init(&m->visits);
	deferred_init(&m->look, l, on_look, m);
	mcp_sessions_init(m);
	m->watch = client_watch(spec->client, &(struct client_watch_spec){ .kind = m->claims },
				&events, m);
	return m;
}

void mcp_free(struct mcp *m)
{
	if (!m)
		return;
	visits_done(m);
	mcp_sessions_done(m);
	client_watch_free(m->watch);
	deferred_cancel(&m->look);
	map_free(m->waiting);
	free(m);
}

void mcp_stats(const struct mcp *m, struct mcp_stats *ret)
{
	const struct post *p;

	*ret = (struct mcp_stats){ .calls = m->n_calls,
				   .failed = m->n_failed,
				   .sessions = map_len(m->sessions) };
	list_each(p, &m->posts, on)
		ret->active++;
}
