/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/meta.h"
#include "api/view_pool.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "control/agent/wall.h"
#include "control/budget/under.h"
#include "control/index/links.h"
#include "control/pass/context.h"
#include "control/session/session_priv.h"

/*
 * What a pass over a session looks at: caches and links, and nothing that grows with the number of
 * sessions.
 */

/* A name for a claim, which also becomes that of a Sandbox: a DNS label. */
static char *claim_name(const char *prefix, const char *name)
{
	autofree char *whole = xasprintf("%s%s", prefix, name);
	char *ret = xnew_n(char, LINK_LABEL_MAX);

	link_label(whole, ret);
	for (char *c = ret; *c; c++)
		if (*c == '.')
			*c = '-';
	return ret;
}

/* The name for a session whose own is taken. */
static char *second_name(const struct object *session)
{
	autofree char *first = claim_name("", session->name);
	char hash[9];

	name_hash(session->uid, hash);
	return xasprintf("%.54s-%s", first, hash);
}

static struct object *get_claim(const struct pass *p, const char *name)
{
	return client_get(p->c->client, p->c->kinds.claim, p->key->ns, name);
}

static bool is_own(const struct object *claim, const struct object *session)
{
	return str_eq(object_annotation(claim, KEY_SESSION_UID), session->uid);
}

/* *ret_name: what it is called, or would be; NULL: no name is free. */
static struct object *find_own(const struct pass *p, const struct object *session, char **ret_name)
{
	char *names[] = { second_name(session), claim_name("", session->name),
			  xstrdup(session_view(session)->claim) };
	struct object *found = NULL;
	bool used[ARRAY_LEN(names)] = { false };

	*ret_name = NULL;
	for (size_t i = 0; i < ARRAY_LEN(names) && !found; i++) {
		autoptr(object) o = str_empty(names[i]) ? NULL : get_claim(p, names[i]);

		used[i] = o;
		if (o && is_own(o, session)) {
			*ret_name = take(names[i]);
			found = take(o);
		}
	}
	if (!found && !used[1])
		*ret_name = take(names[1]);
	else if (!found && !used[0])
		*ret_name = take(names[0]);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		free(names[i]);
	return found;
}

/* The oldest that is not being deleted, if there is one; else any. Of an agent's claims, those that
 * were made for one session are not meant. */
static struct object *pick(const struct map *claims)
{
	struct object *best = NULL;

	map_each(it, claims) {
		struct object *o = it.value;
		const struct claim_view *v = claim_view(o), *b = best ? claim_view(best) : NULL;

		if (object_label(o, KEY_SESSION))
			continue;
		if (!b || (b->deleting && !v->deleting) ||
		    (b->deleting == v->deleting &&
		     (v->created < b->created ||
		      (v->created == b->created && strcmp(o->name, best->name) < 0))))
			best = o;
	}
	return object_ref(best);
}

static struct object *find_common(const struct pass *p, const struct agent_view *agent,
				  const char *agent_name, enum target target, char **ret_name)
{
	bool shared = target == TARGET_SHARED;
	char label[LINK_LABEL_MAX];
	struct object *found;

	link_label(agent_name, label);
	found = pick(links_of(p->c->links, shared ? LINK_SHARED_CLAIMS : LINK_AGENT_CLAIMS,
			      p->key->ns, shared ? agent->pool : label));
	if (found) {
		*ret_name = xstrdup(found->name);
		return found;
	}
	*ret_name = shared ? claim_name("shared-", agent->pool) : claim_name("agent-", agent_name);
	autoptr(object) other = get_claim(p, *ret_name);

	if (other) {
		free(*ret_name);
		*ret_name = NULL;
	}
	return NULL;
}

static bool is_labelled(const struct object *sandbox, const struct object *claim)
{
	static const char *const keys[] = { KEY_SESSION, KEY_AGENT, KEY_SHARED };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!str_eq(object_label(sandbox, keys[i]), object_label(claim, keys[i])))
			return false;
	return true;
}

/* The claim, and its Sandbox, which is returned. */
static struct object *see_claim(const struct pass *p, const struct object *claim, const char *name,
				struct claim_seen_by *ret)
{
	struct object *sandbox = NULL;

	ret->name = name;
	if (!claim)
		return NULL;
	ret->v = claim_view(claim);
	if (!str_empty(ret->v->sandbox))
		sandbox = client_get(p->c->client, p->c->kinds.sandbox, claim->ns, ret->v->sandbox);
	if (!sandbox || !object_controlled_by(sandbox, claim->uid)) {
		object_unref(sandbox);
		return NULL;
	}
	ret->sandbox = sandbox_view(sandbox);
	ret->sandbox_name = sandbox->name;
	ret->labelled = is_labelled(sandbox, claim);
	ret->asleep = object_annotation(sandbox, KEY_ASLEEP_SINCE);
	return sandbox;
}

/* A session that is open has the Sandbox through an attachment of its own or of another. */
static bool used_by_others(const struct pass *p, const struct object *session, const char *sandbox)
{
	map_each(it, links_of(p->c->links, LINK_SANDBOX_ATTACHMENTS, p->key->ns, sandbox)) {
		const struct attachment_view *a = attachment_view(it.value);
		autoptr(object) other = NULL;

		if (a->deleting || str_eq(a->session, session->name))
			continue;
		other = client_get(p->c->client, p->c->kinds.session, p->key->ns, a->session);
		if (other && !session_view(other)->ended && !session_view(other)->deleting &&
		    session_view(other)->phase != SESSION_ENDED)
			return true;
	}
	return false;
}

static bool has_finalizer(const struct object *o)
{
	json_each(it, json_get(json_get(o->root, "metadata"), "finalizers"))
		if (str_eq(json_str(it.val), FINALIZER_SESSION))
			return true;
	return false;
}

static void see_agent(struct pass *p, struct session_objects *o, struct session_seen *ret)
{
	const struct agent_view *agent;
	char label[LINK_LABEL_MAX];

	(void)chain_load(p->c, p->key->ns, ret->v->agent, &o->chain);
	agent = chain_agent(&o->chain);
	ret->agent = agent && !agent->deleting ? agent : NULL;
	ret->policy = chain_policy(&o->chain);
	ret->caps = &o->chain.caps;
	ret->fault = o->chain.fault;
	link_label(ret->v->agent, label);
	ret->n_claims = (int64_t)links_count(p->c->links, LINK_AGENT_CLAIMS, p->key->ns, label) +
			sessions_creating(p->own, p->key->ns, ret->v->agent);
}

static void see_budgets(struct pass *p, struct session_objects *o, struct session_seen *ret)
{
	struct budgets b;

	budgets_of(p->c, p->key->ns, ret->v->agent, &b);
	ret->budgeted = b.n || b.missing;
	ret->used_up = o->used_up = budgets_refuse(&b);
	if (!ret->claim.v)
		ret->no_space = o->no_space = budgets_full(
			p->c, p->key->ns, &b, sessions_creating_all(p->own, p->key->ns));
	budgets_done(&b);
}

static void see_pool(struct pass *p, struct session_objects *o, struct session_seen *ret)
{
	struct context *c = p->c;

	if (!ret->agent || str_empty(ret->agent->pool))
		return;
	o->pool = client_get(c->client, c->kinds.pool, p->key->ns, ret->agent->pool);
	if (!o->pool)
		return;
	ret->template = pool_view(o->pool)->template;
	o->template = client_get(c->client, c->kinds.template, p->key->ns, ret->template);
	if (!o->template)
		return;
	ret->template_class = wall_class(o->template);
	ret->template_shut = visibility_shuts_out(o->template, ret->agent->owner);
}

static void see_own(struct pass *p, struct session_objects *o, struct session_seen *ret)
{
	const char *retain;
	uint64_t seconds = 0;

	ret->own_retain = -1;
	o->own = find_own(p, o->session, &o->names[0]);
	o->own_sandbox = see_claim(p, o->own, o->names[0], &ret->own);
	if (!o->own)
		return;
	retain = object_annotation(o->own, KEY_RETAIN);
	if (retain) {
		struct err *e = parse_uint(retain, INT32_MAX, &seconds);

		/* Something was meant to end it: whatever cannot be read counts as the default. */
		ret->own_retain =
			e ? session_retain(ret->v, NULL, NULL, -1) : (usec)seconds * 1000000;
		err_free(e);
	}
	ret->own_shared = o->own_sandbox && used_by_others(p, o->session, o->own_sandbox->name);
}

static void see_target(struct pass *p, struct session_objects *o, struct session_seen *ret)
{
	enum target target = session_target(ret->v, ret->agent);

	if (target == TARGET_OWN) {
		ret->claim = ret->own;
		o->claim = object_ref(o->own);
		o->sandbox = object_ref(o->own_sandbox);
	} else if (target == TARGET_AGENT || target == TARGET_SHARED) {
		o->claim = find_common(p, ret->agent, ret->v->agent, target, &o->names[1]);
		o->sandbox = see_claim(p, o->claim, o->names[1], &ret->claim);
	} else if (target == TARGET_NAMED) {
		o->sandbox =
			client_get(p->c->client, p->c->kinds.sandbox, p->key->ns, ret->v->sandbox);
		ret->named = o->sandbox ? sandbox_view(o->sandbox) : NULL;
	}
	if (o->sandbox)
		ret->class = wall_class(o->sandbox);
}

static void see_attachment(struct pass *p, struct session_objects *o, struct session_seen *ret)
{
	o->attachment = client_get(p->c->client, p->c->kinds.attachment, p->key->ns, p->key->name);
	if (!o->attachment)
		return;
	if (object_controlled_by(o->attachment, o->session->uid))
		ret->attachment = attachment_view(o->attachment);
	else
		ret->attachment_taken = true;
}

bool session_observe(struct pass *p, struct session_objects *o, struct session_seen *ret)
{
	o->session = client_get(p->c->client, p->c->kinds.session, p->key->ns, p->key->name);
	if (!o->session)
		return false;
	ret->v = session_view(o->session);
	ret->reason =
		str_or(condition_view_of(json_get(object_status(o->session), "conditions"), "Ready")
			       .reason,
		       "");
	ret->finalizer = has_finalizer(o->session);
	if (!err_is(p->out[SESSION_WRITE_CLAIM].e, ERR_EXISTS)) /* another was faster */
		ret->create_e = p->out[SESSION_WRITE_CLAIM].e;
	ret->now = p->now;
	see_agent(p, o, ret);
	see_pool(p, o, ret);
	see_own(p, o, ret);
	see_attachment(p, o, ret);
	if (ret->agent) {
		see_target(p, o, ret);
		see_budgets(p, o, ret);
	}
	return true;
}

void session_objects_done(struct session_objects *o)
{
	struct object *const all[] = { o->session,     o->claim,      o->own,  o->sandbox,
				       o->own_sandbox, o->attachment, o->pool, o->template };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		object_unref(all[i]);
	chain_done(&o->chain);
	free(o->names[0]);
	free(o->names[1]);
	free(o->used_up);
	free(o->no_space);
}
