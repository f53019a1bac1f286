/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent_chain.h"
#include "api/cay/cay.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/str.h"
#include "base/wall.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * Two verbs beyond those of the API. Whoever says of a key that it is an agent's has the verb
 * "verify" on agents; whoever decides an Approval has "approve" on approvals. An agent never does
 * the first, and the second never for itself, for whom it stays within, or for those who stay
 * within it, whatever its roles say: they are its own hands.
 */
static struct err *refused(const struct agent_write *w, const char *why)
{
	return err_forbidden(w->kind, json_get_str(json_get(w->obj, "metadata"), "name"), why);
}

static struct err *need(const struct authoriser *by, const struct agent_write *w, const char *verb)
{
	const char *name = json_get_str(json_get(w->obj, "metadata"), "name");
	const struct act a = { .resource = true,
			       .verb = verb,
			       .group = w->kind->group,
			       .plural = w->kind->plural,
			       .sub = "",
			       .ns = w->ns,
			       .name = str_or(name, ""),
			       .path = "" };

	return user_may(by, w->user, &a);
}

/* Who asks in another's name is still who asks. */
static bool is_agent(const struct user *u)
{
	return str_in(GROUP_OF_AGENTS, u->groups) || str_starts(u->name, AGENT_USER) ||
	       (u->by && str_starts(u->by, AGENT_USER));
}

/* Keys */

static const struct json *key_named(const struct json *keys, const char *name)
{
	json_each(it, keys)
		if (str_eq(json_get_str(it.val, "name"), name))
			return it.val;
	return NULL;
}

static bool confirms(const struct json *key, const struct json *before)
{
	const struct json *was = key_named(before, json_get_str(key, "name"));

	return json_get_bool(key, "verified", false) &&
	       !(json_get_bool(was, "verified", false) &&
		 str_eq(json_get_str(key, "publicKey"), json_get_str(was, "publicKey")));
}

static struct err *check_keys(const struct authoriser *by, const struct agent_write *w)
{
	const struct json *keys = json_get(json_get(w->obj, "spec"), "keys");
	const struct json *before = json_get(json_get(w->old, "spec"), "keys");

	json_each(it, keys) {
		if (!confirms(it.val, before))
			continue;
		return is_agent(w->user) ? refused(w, "an agent may not verify keys")
					 : need(by, w, "verify");
	}
	return NULL;
}

/* Approvals */

struct finder {
	const struct objects *objects;
	const char *ns;
};

static struct object *find_agent(void *arg, const char *name)
{
	const struct finder *f = arg;

	return objects_find(f->objects, f->objects->agent, f->ns, name);
}

/* Whether one is the other, or stays within it. */
static bool is_within(const struct objects *os, const char *ns, const char *name, const char *other)
{
	struct agent_chain c;
	size_t above;

	agent_chain_follow(name, find_agent, &(struct finder){ os, ns }, &c);
	return agent_chain_has(&c, other, &above);
}

/* The agent's name, if a user is one of this namespace; else NULL. */
static const char *agent_in(const char *ns, const char *user)
{
	size_t len = strlen(ns);

	if (!user || !str_starts(user, AGENT_USER))
		return NULL;
	user += strlen(AGENT_USER);
	return str_starts(user, ns) && user[len] == ':' ? user + len + 1 : NULL;
}

static bool is_own_hand(const struct objects *os, const struct agent_write *w, const char *user)
{
	const char *asks = json_get_str(json_get(w->obj, "spec"), "agent");
	const char *decides = agent_in(w->ns, user);

	return decides && asks &&
	       (is_within(os, w->ns, asks, decides) || is_within(os, w->ns, decides, asks));
}

static struct err *check_decision(const struct authoriser *by, const struct objects *os,
				  const struct agent_write *w)
{
	const struct json *now = json_get(json_get(w->obj, "status"), "decision");

	if (!now || json_equal(now, json_get(json_get(w->old, "status"), "decision")))
		return NULL;
	if (is_own_hand(os, w, w->user->name) || is_own_hand(os, w, w->user->by))
		return refused(w, "an agent may not decide what it asks itself, nor what agents "
				  "above or below it ask");
	return need(by, w, "approve");
}

struct err *agent_write_check(const struct authoriser *by, const struct objects *os,
			      const struct agent_write *w)
{
	if (!wall_stands("agent-verbs"))
		return NULL;
	if (w->kind == os->agent)
		return check_keys(by, w);
	return w->kind == os->approval ? check_decision(by, os, w) : NULL;
}
