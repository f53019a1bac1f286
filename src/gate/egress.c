/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/view_pod.h"
#include "api/view_sandbox.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/wall.h"
#include "gate/gate_priv.h"

/*
 * The way out. What a sandbox reaches is what every agent attached to it may reach, each with its
 * parents and its team's policy: one that has no business outside shuts it for all of them. While
 * nobody is attached to it, a sandbox that was made for an agent stays within what that one may
 * reach: what it left behind there runs on. A sandbox without agents goes by NetworkPolicies alone.
 *
 * All of that is about Sandboxes that are there. Of a Pod that outlives its Sandbox nobody can say
 * here whose it was: who asks has to remember (gate_sandbox_stays()).
 */
static const struct capabilities nothing = {
	.credentials = (const char *const[]){ NULL },
	.tools = (const char *const[]){ NULL },
	.runtime_classes = (const char *const[]){ NULL },
};

/* The agent of an attachment that counts; NULL: it does not. */
static const char *agent_of(struct gate *g, const struct object *attachment)
{
	const struct attachment_view *v = attachment_view(attachment);
	autoptr(object) session = NULL;
	const struct session_view *s;

	if (v->deleting || !v->ready.is_true)
		return NULL;
	session = client_get(g->client, g->session, attachment->ns, v->session);
	s = session ? session_view(session) : NULL;
	/* The object stays in the watch's cache until it changes. */
	return s && !s->ended && !s->deleting ? s->agent : NULL;
}

/* Whom the sandbox was made for, borrowed; NULL: nobody. Labels of the claim count as well as those
 * of the Sandbox: either may be a moment late. */
static const char *made_for(struct gate *g, const char *ns, const char *sandbox)
{
	autoptr(object) o = client_get(g->client, g->sandbox, ns, sandbox);
	autoptr(object) claim = NULL;
	const char *label = o ? object_label(o, KEY_AGENT) : NULL;
	struct owner_view owner;

	if (!o || label)
		return label;
	owner = owner_view_of(o);
	if (owner.type == OWNER_CLAIM)
		claim = client_get(g->client, g->claim, ns, owner.name);
	return claim ? object_label(claim, KEY_AGENT) : NULL;
}

void each_limiter(struct gate *g, const char *ns, const char *sandbox,
		  bool (*fn)(void *arg, const struct limiter *l), void *arg)
{
	autofree char *key = xasprintf("%s/%s", ns, sandbox);
	struct limiter l;
	bool any = false;

	map_each(it, map_get(g->attachments, key)) {
		l = (struct limiter){ agent_of(g, it.value), it.value };
		any |= l.agent != NULL;
		if (l.agent && !fn(arg, &l))
			return;
	}
	l = (struct limiter){ any ? NULL : made_for(g, ns, sandbox), NULL };
	if (l.agent)
		(void)fn(arg, &l);
}

struct meeting {
	struct gate *gate;
	const char *ns;
	struct arena *arena;
	struct gate_egress *ret;
};

/* Nothing can be taken from nothing: the first agent without a place decides for all. */
static bool meet_agent(void *arg, const struct limiter *l)
{
	const struct meeting *m = arg;
	const struct standing *s = standing_of(m->gate, m->ns, l->agent);
	const struct capabilities *with = s && !s->broken ? &s->capabilities : &nothing;
	struct gate_egress *ret = m->ret;
	struct capabilities both;

	if (ret->limited) {
		capabilities_meet(&ret->capabilities, with, m->arena, &both);
		ret->capabilities = both;
	} else {
		ret->capabilities = *with;
	}
	ret->limited = true;
	return ret->capabilities.all_egress || ret->capabilities.n_egress;
}

void gate_egress(struct gate *g, const char *ns, const char *sandbox, struct arena *a,
		 struct gate_egress *ret)
{
	struct meeting m = { g, ns, a, ret };

	*ret = (struct gate_egress){ 0 };
	if (wall_stands("egress"))
		each_limiter(g, ns, sandbox, meet_agent, &m);
}

bool gate_limits_any(const struct gate *g)
{
	return g->n_sessions || g->n_labelled;
}

/* A claim that is gone takes its Sandbox with it. Whoever has got the name of one of them since is
 * somebody else. */
bool gate_sandbox_stays(struct gate *g, const struct object *pod)
{
	struct owner_view owner = owner_view_of(pod);
	autoptr(object) sandbox = NULL;
	autoptr(object) claim = NULL;

	if (owner.type != OWNER_SANDBOX)
		return false;
	sandbox = client_get(g->client, g->sandbox, pod->ns, owner.name);
	if (!sandbox || object_deleting(sandbox) || !str_eq(sandbox->uid, owner.uid))
		return false;
	owner = owner_view_of(sandbox);
	if (owner.type != OWNER_CLAIM)
		return true;
	claim = client_get(g->client, g->claim, pod->ns, owner.name);
	return claim && !object_deleting(claim) && str_eq(claim->uid, owner.uid);
}

char *gate_sandbox_of(const struct object *pod)
{
	struct owner_view owner = owner_view_of(pod);

	return owner.type == OWNER_SANDBOX ? xstrdup(owner.name) : NULL;
}

static struct err *unreachable(const struct gate_way_out *w)
{
	if (w->method)
		return err_new(ERR_FORBIDDEN,
			       "not every agent attached to sandbox %s may %s %s at %s port %d",
			       w->sandbox, w->method, str_or(w->path, "/"), w->host, w->port);
	return err_new(ERR_FORBIDDEN, "not every agent attached to sandbox %s may reach %s port %d",
		       w->sandbox, w->host, w->port);
}

struct judging {
	struct gate *gate;
	const struct gate_way_out *w;
	struct gate_answer *ret;
};

static bool judge(void *arg, const struct limiter *l)
{
	const struct judging *j = arg;
	const struct deed deed = { .host = j->w->host };
	const struct standing *s = standing_of(j->gate, j->w->ns, l->agent);
	struct gate_answer *ret = j->ret;
	enum verdict v;

	if (!s || s->broken)
		return true; /* it has no place in any case */
	v = standing_judges(s, &deed);
	if (verdict_stricter(v, ret->verdict) == ret->verdict)
		return true;
	ret->verdict = v;
	ret->agent = s->chain[0]->name;
	if (v != VERDICT_DENY)
		return true;
	ret->why = err_new(ERR_FORBIDDEN, "a rule of agent %s, or of a parent, denies %s", l->agent,
			   j->w->host);
	return false;
}

void gate_decide_egress(struct gate *g, const struct gate_way_out *w, struct gate_answer *ret)
{
	autoptr(arena) a = arena_new();
	struct judging j = { g, w, ret };
	struct gate_egress reach;

	*ret = (struct gate_answer){ .verdict = VERDICT_ALLOW };
	gate_egress(g, w->ns, w->sandbox, a, &reach);
	if (!reach.limited)
		return;
	if (capabilities_reach(&reach.capabilities, w->host, w->port, w->method, w->path)) {
		each_limiter(g, w->ns, w->sandbox, judge, &j);
		return;
	}
	ret->verdict = VERDICT_DENY;
	ret->why = unreachable(w);
}

const char *const *gate_agents_at(struct gate *g, const char *ns, const char *sandbox,
				  struct arena *a)
{
	autofree char *key = xasprintf("%s/%s", ns, sandbox);
	struct map *found = map_get(g->attachments, key);
	const char **list = arena_alloc(a, ((found ? map_len(found) : 0) + 1) * sizeof(*list));
	const char *agent;
	size_t n = 0;

	map_each(it, found) {
		agent = agent_of(g, it.value);
		if (agent && !str_in(agent, list))
			list[n++] = agent;
	}
	return list;
}

bool gate_tracks(struct gate *g, const struct gate_pod *p)
{
	autoptr(object) o = client_get(g->client, g->sandbox, p->ns, p->sandbox);

	return o && sandbox_tracks(o, p->uid, p->pod);
}
