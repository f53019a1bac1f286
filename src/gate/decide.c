/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/cay/cay.h"
#include "api/view_pod.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "base/wall.h"
#include "gate/gate_priv.h"

/*
 * The decision. An agent without an attachment that grants what a door takes stays outside,
 * whatever roles it has.
 */
bool gate_is_agent(const char *user)
{
	return user && !strncmp(user, AGENT_USER, strlen(AGENT_USER));
}

bool agent_name_read(const char *user, struct agent_name *ret)
{
	const char *ns, *name;

	if (!gate_is_agent(user))
		return false;
	ns = user + strlen(AGENT_USER);
	name = strchr(ns, ':');
	*ret = (struct agent_name){
		.ns = xstrndup(ns, name ? (size_t)(name - ns) : strlen(ns)),
		.name = xstrdup(name ? name + 1 : ""),
	};
	return true;
}

void agent_name_done(struct agent_name *n)
{
	free(n->ns);
	free(n->name);
}

static bool shows_itself(const struct attachment_view *v)
{
	return v->view == VIEW_SHARED;
}

/* Of this agent, in a session that goes on, and with all that the door takes. Its controller has
 * said that it is Ready: nobody else's private sandbox, and behind the right wall. */
static bool grants(struct gate *g, const struct object *attachment, const char *agent,
		   const struct standing *s, const struct door *door)
{
	const struct attachment_view *v = attachment_view(attachment);
	autoptr(object) session = NULL;
	unsigned rights = v->rights & s->capabilities.rights;

	if (v->deleting || !v->ready.is_true || (rights & door->rights) != door->rights)
		return false;
	if (door->shared_only && !shows_itself(v))
		return false;
	session = client_get(g->client, g->session, attachment->ns, v->session);
	return session && !session_view(session)->ended && !session_view(session)->deleting &&
	       str_eq(session_view(session)->agent, agent);
}

/* The oldest that grants it, so that the answer does not depend on the order of a map. */
static const struct object *find_grant(struct gate *g, const struct gate_ask *ask,
				       const char *sandbox, const char *agent,
				       const struct standing *s)
{
	autofree char *key = xasprintf("%s/%s", ask->ns, sandbox);
	const struct object *best = NULL, *o;

	map_each(it, map_get(g->attachments, key)) {
		o = it.value;
		if (!grants(g, o, agent, s, &doors[ask->door]))
			continue;
		if (!best || attachment_view(o)->created < attachment_view(best)->created ||
		    (attachment_view(o)->created == attachment_view(best)->created &&
		     strcmp(o->name, best->name) < 0))
			best = o;
	}
	return best;
}

/* The Sandbox that a Pod belongs to, malloc'd; NULL: none. */
static char *sandbox_of(struct gate *g, const struct gate_ask *ask)
{
	autoptr(object) pod = NULL;
	struct owner_view owner;

	if (ask->sandbox)
		return xstrdup(ask->sandbox);
	pod = g->pod && ask->pod ? client_get(g->client, g->pod, ask->ns, ask->pod) : NULL;
	if (!pod)
		return NULL;
	owner = owner_view_of(pod);
	return owner.type == OWNER_SANDBOX ? xstrdup(owner.name) : NULL;
}

static struct err *refusal(const struct gate_ask *ask, const char *agent, const struct standing *s,
			   const char *sandbox)
{
	const struct door *door = &doors[ask->door];
	autobuf rights = { 0 };

	if (!s)
		return err_new(ERR_FORBIDDEN, "there is no agent %s in namespace %s", agent,
			       ask->ns);
	if (s->broken)
		return err_new(ERR_FORBIDDEN,
			       "agent %s has a parent that is missing or being deleted", agent);
	if (!sandbox)
		return err_new(ERR_FORBIDDEN,
			       "agents enter sandboxes alone, and Pod %s belongs to none",
			       str_or(ask->pod, ""));
	rights_write(door->rights, &rights);
	return err_new(ERR_FORBIDDEN, "agent %s has no attachment to sandbox %s that grants %s%s",
		       agent, sandbox, buf_str(&rights),
		       door->shared_only ? " with the view Shared" : "");
}

static void deny(struct gate_answer *ret, struct err *why)
{
	ret->verdict = VERDICT_DENY;
	ret->why = why;
}

static void decide_on_agent(struct gate *g, const struct gate_ask *ask, const char *agent,
			    struct gate_answer *ret)
{
	const struct standing *s = standing_of(g, ask->ns, agent);
	autofree char *sandbox = s && !s->broken ? sandbox_of(g, ask) : NULL;
	const struct object *by = sandbox ? find_grant(g, ask, sandbox, agent, s) : NULL;

	if (!by) {
		deny(ret, refusal(ask, agent, s, sandbox));
		return;
	}
	ret->agent = s->chain[0]->name;
	ret->attachment = by->name;
	ret->uid = by->uid;
	ret->session = attachment_view(by)->session;
	ret->sandbox = attachment_view(by)->sandbox;
	ret->view = attachment_view(by)->view;
	ret->verdict = standing_judges(s, &ask->deed);
	if (ret->verdict == VERDICT_DENY)
		ret->why = err_new(ERR_FORBIDDEN, "a rule of agent %s, or of a parent, denies it",
				   agent);
}

void gate_decide(struct gate *g, const struct gate_ask *ask, struct gate_answer *ret)
{
	struct agent_name who;

	*ret = (struct gate_answer){ .verdict = VERDICT_ALLOW };
	if (!agent_name_read(ask->user, &who) || !wall_stands("gate"))
		return;
	if (str_eq(who.ns, ask->ns))
		decide_on_agent(g, ask, who.name, ret);
	else
		deny(ret, err_new(ERR_FORBIDDEN,
				  "agent %s of namespace %s enters sandboxes of its own namespace "
				  "alone",
				  who.name, who.ns));
	agent_name_done(&who);
}

bool gate_grants(struct gate *g, const struct gate_ask *ask, const struct gate_permit *p)
{
	autoptr(object) o = NULL;
	const struct standing *s;
	struct agent_name who;
	bool ok;

	if (!agent_name_read(ask->user, &who))
		return true;
	s = standing_of(g, ask->ns, who.name);
	o = p->attachment ? client_get(g->client, g->attachment, ask->ns, p->attachment) : NULL;
	ok = s && o && str_eq(who.ns, ask->ns) && str_eq(o->uid, p->uid) &&
	     attachment_view(o)->view == p->view && grants(g, o, who.name, s, &doors[ask->door]) &&
	     standing_judges(s, &ask->deed) != VERDICT_DENY;
	agent_name_done(&who);
	return ok;
}

/* Subresources of a Pod that lead into it, and looking at what one is attached to. */
static bool door_of_act(const struct gate_act *act, enum gate_door *ret)
{
	static const struct {
		const char *sub;
		enum gate_door door;
	} rows[] = {
		{ "exec", GATE_EXEC },
		{ "attach", GATE_ATTACH },
		{ "log", GATE_LOGS },
		{ "portforward", GATE_PORT },
		{ "proxy", GATE_PORT },
		{ "ephemeralcontainers", GATE_RUNTIME }, /* as good as a shell */
	};

	if (*act->group || !str_eq(act->plural, "pods"))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(act->sub, rows[i].sub)) {
			*ret = rows[i].door;
			return true;
		}
	return false;
}

/* The Pod in the name of a proxy: NAME, NAME:PORT or SCHEME:NAME:PORT; malloc'd. */
static char *pod_of_proxy(const char *name)
{
	struct span rest = SPAN(name), first = span_cut(rest, ':', &rest), second;

	if (!rest.p)
		return xstrdup(name);
	second = span_cut(rest, ':', &rest);
	if (!rest.p)
		return xstrndup(first.p, first.len);
	return xstrndup(second.p, second.len);
}

static bool is_attached(struct gate *g, const char *ns, const char *sandbox, const char *agent)
{
	const struct standing *s = standing_of(g, ns, agent);
	autofree char *key = xasprintf("%s/%s", ns, str_or(sandbox, ""));
	static const struct door any = { .name = "look" };

	map_each(it, map_get(g->attachments, key))
		if (s && !s->broken && grants(g, it.value, agent, s, &any))
			return true;
	return false;
}

static enum gate_word may_look(struct gate *g, const struct agent_name *who,
			       const struct gate_act *act)
{
	bool pod = !*act->group && str_eq(act->plural, "pods");
	bool sandbox = str_eq(act->plural, "sandboxes");
	autofree char *of = NULL;

	if (!str_eq(act->verb, "get") || *act->sub || !*act->name || (!pod && !sandbox) ||
	    !str_eq(who->ns, act->ns))
		return GATE_SILENT;
	of = sandbox ? xstrdup(act->name)
		     : sandbox_of(g, &(struct gate_ask){ .ns = act->ns, .pod = act->name });
	return is_attached(g, act->ns, of, who->name) ? GATE_YES : GATE_SILENT;
}

enum gate_word gate_may(struct gate *g, const char *user, const struct gate_act *act,
			struct err **ret_why)
{
	struct gate_answer answer;
	struct agent_name who;
	autofree char *pod = NULL;
	enum gate_word word;
	enum gate_door door;

	if (!agent_name_read(user, &who))
		return GATE_SILENT;
	pod = str_eq(act->sub, "proxy") ? pod_of_proxy(act->name) : xstrdup(act->name);
	if (!door_of_act(act, &door)) {
		word = may_look(g, &who, act);
	} else {
		gate_decide(
			g,
			&(struct gate_ask){ .user = user, .ns = act->ns, .pod = pod, .door = door },
			&answer);
		/* What the rules say about this very command is asked when it is known. */
		word = answer.verdict == VERDICT_DENY && !answer.attachment ? GATE_NO : GATE_YES;
		if (word == GATE_NO)
			*ret_why = take(answer.why);
		err_free(answer.why);
	}
	agent_name_done(&who);
	return word;
}
