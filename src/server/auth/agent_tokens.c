/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/cay/agent.h"
#include "api/cay/cay.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/wall.h"
#include "identity/token.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "server/objects/objects.h"

/*
 * Tokens of agents. Their keys are those of the stored Agent as it is now: a key that was removed,
 * or an Agent that is being deleted, is worth nothing from that write on. So is what was opened
 * with it, because the key is one more group of the user, "cay:agent-key:NS:NAME:UID:KEY", which is
 * asked about again like the record of a credential. Signatures that hold are remembered with the
 * key under which they do.
 */
enum {
	REMEMBER_MAX = 1024,
	REMEMBER_BYTES = 1024 * 1024, /* of tokens; what was read of them takes a few times more */
};

struct known_token {
	struct identity_token *token;
	bool verified; /* under this key: */
	unsigned char key[AGENT_KEY_LEN];
};

static void known_free(void *value)
{
	struct known_token *k = value;

	identity_token_free(k->token);
	free(k);
}

void agent_tokens_init(struct agent_tokens *t)
{
	t->known = map_new(known_free);
	t->known_bytes = 0;
}

void agent_tokens_done(struct agent_tokens *t)
{
	map_free(take(t->known));
}

static void remember(struct agent_tokens *t, const char *hash, size_t len, struct known_token *k)
{
	if (map_len(t->known) >= REMEMBER_MAX || t->known_bytes + len > REMEMBER_BYTES) {
		map_free(t->known);
		agent_tokens_init(t);
	}
	t->known_bytes += len;
	map_put(t->known, hash, k);
}

static struct err *refused(const char *why)
{
	return err_new(ERR_UNAUTHENTICATED, "check token: %s", why);
}

static const struct object *find_agent(const struct objects *os, const char *ns, const char *name)
{
	const struct object *o = objects_find(os, os->agent, ns, name);

	return o && !agent_view(o)->deleting ? o : NULL;
}

/* The agent's key under which the token holds. */
static const struct agent_key *key_for(const struct agent_view *v, const struct known_token *t)
{
	const char *name = t->token->key_name;

	for (size_t i = 0; i < v->n_keys; i++) {
		const struct agent_key *k = &v->keys[i];

		if (*name && !str_eq(k->name, name))
			continue;
		if (t->verified ? !memcmp(k->key, t->key, sizeof(k->key))
				: identity_token_verifies(t->token, k->key))
			return k;
	}
	return NULL;
}

static struct user user_of(struct arena *a, const struct object *agent,
			   const struct identity_token *t, const struct agent_key *k)
{
	const char **groups = arena_new_n(a, const char *, 7);
	struct user_extra *extra = arena_new_n(a, struct user_extra, 2);
	struct user u = { .name = arena_printf(a, AGENT_USER "%s:%s", t->ns, t->agent),
			  .uid = arena_strdup(a, agent->uid),
			  .groups = groups,
			  .expires = t->grant.expires,
			  .renewed = t->n_blocks == 1,
			  .extra = extra };
	char hex[2 * AGENT_KEY_LEN + 1];

	hex_encode(k->key, sizeof(k->key), hex);
	*groups++ = GROUP_OF_AGENTS;
	*groups++ = arena_printf(a, GROUP_OF_AGENTS ":%s", t->ns);
	*groups++ = "system:authenticated";
	if (k->verified)
		*groups++ = GROUP_VERIFIED;
	*groups++ = arena_printf(a, AGENT_KEY_GROUP "%s:%s:%s:%s%s", t->ns, t->agent, agent->uid,
				 hex, k->verified ? ":verified" : "");
	extra[u.n_extra++] = (struct user_extra){ "authentication.kubernetes.io/credential-id",
						  arena_printf(a, "JTI=%s", t->id) };
	if (identity_grant_narrows(&t->grant)) {
		const char *grant = identity_grant_group(&t->grant, a);

		*groups++ = grant;
		extra[u.n_extra++] =
			(struct user_extra){ GRANT_EXTRA, grant + strlen(IDENTITY_GRANT_GROUP) };
	}
	return u;
}

static bool is_wanted(const struct json *audiences, const char *audience)
{
	json_each(it, audiences)
		if (str_eq(json_str(it.val), audience))
			return true;
	return !audiences;
}

static struct err *check(const struct tokens *t, struct call *c, struct known_token *k,
			 struct token_owner *ret)
{
	const struct identity_token *tok = k->token;
	const struct agent_key *key;
	const struct object *agent;
	struct err *e = identity_token_check(tok, t->agents.audience, clock_wall() / 1000000);

	if (e)
		return e;
	agent = find_agent(t->objects, tok->ns, tok->agent);
	key = agent ? key_for(agent_view(agent), k) : NULL;
	if (!key)
		return refused("there is no agent with such a key");
	ret->user = user_of(c->arena, agent, tok, key);
	memcpy(k->key, key->key, sizeof(k->key));
	k->verified = true;
	return NULL;
}

static struct err *check_new(struct tokens *t, struct call *c, const char *text, const char *hash,
			     struct token_owner *ret)
{
	struct known_token *k = xnew(struct known_token);
	struct err *e = identity_token_read(text, &k->token);

	if (!e)
		e = check(t, c, k, ret);
	if (e)
		known_free(k);
	else
		remember(&t->agents, hash, strlen(text), k);
	return e;
}

struct err *agent_token_check(struct tokens *t, struct call *c, const char *text,
			      const struct json *audiences, struct token_owner *ret)
{
	const char **list = arena_new_n(c->arena, const char *, 2);
	struct known_token *k;
	unsigned char hash[SHA256_LEN];
	char hex[2 * SHA256_LEN + 1];

	if (!is_wanted(audiences, t->agents.audience))
		return refused("it is for another audience");
	list[0] = t->agents.audience;
	ret->audiences = list;
	sha256(text, strlen(text), hash);
	hex_encode(hash, sizeof(hash), hex);
	k = map_get(t->agents.known, hex);
	return k ? check(t, c, k, ret) : check_new(t, c, text, hex, ret);
}

/* The key of a group: NS:NAME:UID:KEY, and perhaps ":verified". */
static bool key_stands(const struct objects *os, const char *text)
{
	autoptr(arena) a = arena_new();
	struct span parts[5] = { 0 }, rest = SPAN(text);
	const struct object *o;
	char hex[2 * AGENT_KEY_LEN + 1];

	for (size_t i = 0; i < ARRAY_LEN(parts) && rest.p; i++)
		parts[i] = span_cut(rest, ':', &rest);
	if (!parts[3].p || rest.p)
		return false;
	o = find_agent(os, arena_strndup(a, parts[0].p, parts[0].len),
		       arena_strndup(a, parts[1].p, parts[1].len));
	if (!o || !span_eq(parts[2], o->uid))
		return false;
	for (size_t i = 0; i < agent_view(o)->n_keys; i++) {
		const struct agent_key *k = &agent_view(o)->keys[i];

		hex_encode(k->key, sizeof(k->key), hex);
		if (span_eq(parts[3], hex))
			return k->verified || !parts[4].p;
	}
	return false;
}

struct err *agent_key_check(const struct objects *os, const char *group)
{
	if (!str_starts(group, AGENT_KEY_GROUP) ||
	    key_stands(os, group + strlen(AGENT_KEY_GROUP)) || !wall_stands("agent-key"))
		return NULL;
	return err_new(ERR_UNAUTHENTICATED, "the key of this agent was taken away");
}
