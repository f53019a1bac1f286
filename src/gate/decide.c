/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/cay/cay.h"
#include "api/proxy_name.h"
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

bool attachment_older(const struct object *o, const struct object *than)
{
	const struct attachment_view *a = attachment_view(o);
	const struct attachment_view *b = than ? attachment_view(than) : NULL;

	return !b || a->created < b->created ||
	       (a->created == b->created && strcmp(o->name, than->name) < 0);
}

/* The oldest that grants it, so that the answer does not depend on the order of a map. */
static const struct object *find_grant(struct gate *g, const struct gate_ask *ask,
				       const char *sandbox, const char *agent,
				       const struct standing *s)
{
	autofree char *key = xasprintf("%s/%s/%s", ask->ns, sandbox, agent);
	const struct object *best = NULL, *o;

	map_each(it, map_get(g->by_agent, key)) {
		o = it.value;
		if (ask->attachment && !str_eq(ask->attachment, o->uid))
			continue;
		if (attachment_older(o, best) && grants(g, o, agent, s, &doors[ask->door]))
			best = o;
	}
	return best;
}

/* The Sandbox that a Pod belongs to, malloc'd; NULL: none. One that is suspended has no Pod, and is
 * asked for by the name that its Pod would have. */
static char *sandbox_of(struct gate *g, const struct gate_ask *ask)
{
	autofree char *key = xasprintf("%s/%s", ask->ns, str_or(ask->pod, ""));
	autoptr(object) pod = NULL;
	struct owner_view owner;

	if (ask->sandbox)
		return xstrdup(ask->sandbox);
	pod = g->pod && ask->pod ? client_get(g->client, g->pod, ask->ns, ask->pod) : NULL;
	if (!pod)
		return map_has(g->attachments, key) ? xstrdup(ask->pod) : NULL;
	owner = owner_view_of(pod);
	return owner.type == OWNER_SANDBOX ? xstrdup(owner.name) : NULL;
}

struct err *agent_missing(const char *agent, const char *ns, const struct standing *s)
{
	if (!s)
		return err_new(ERR_FORBIDDEN, "there is no agent %s in namespace %s", agent, ns);
	if (s->broken)
		return err_new(ERR_FORBIDDEN,
			       "agent %s has a parent that is missing or being deleted", agent);
	return NULL;
}

struct err *tool_missing(const char *agent, const char *tool)
{
	return err_new(ERR_FORBIDDEN,
		       "agent %s may not use the tool %s: capabilities.tools of the agent, of a "
		       "parent or of the TeamPolicy do not name it",
		       agent, tool);
}

/* What no attachment can make up for. Behind a port of the runtime APIs nobody sees commands, paths
 * or tools, so whoever has rules about them does not get there. */
static struct err *barrier(const struct gate_ask *ask, const struct standing *s)
{
	const char *agent = s->chain[0]->name;

	if (ask->deed.tool && !standing_has_tool(s, ask->deed.tool) && wall_stands("agent-tools"))
		return tool_missing(agent, ask->deed.tool);
	if (ask->door == GATE_RUNTIME && standing_looks(s))
		return err_new(ERR_FORBIDDEN,
			       "agent %s, or a parent, has approval rules that ask or deny, and "
			       "nobody sees what is done behind a port of the runtime APIs or in "
			       "a container of its own",
			       agent);
	if (ask->loose && standing_minds_path(s, &ask->deed))
		return err_new(ERR_FORBIDDEN,
			       "approval rules of agent %s, or of a parent, decide by the path, "
			       "which must be absolute",
			       agent);
	return NULL;
}

static struct err *refusal(const struct gate_ask *ask, const char *agent, const struct standing *s,
			   const char *sandbox)
{
	const struct door *door = &doors[ask->door];
	autobuf rights = { 0 };

	struct err *e = agent_missing(agent, ask->ns, s);

	if (e)
		return e;
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

/* Who has the standing may go in, as far as attachments are concerned. */
static void judge(const struct gate_ask *ask, const struct standing *s, struct gate_answer *ret)
{
	struct err *e = barrier(ask, s);

	ret->agent = s->chain[0]->name;
	ret->ns = s->chain[0]->ns;
	if (e) {
		deny(ret, e);
		return;
	}
	ret->verdict = standing_judges(s, &ask->deed);
	if (ret->verdict == VERDICT_DENY)
		ret->why = err_new(ERR_FORBIDDEN, "a rule of agent %s, or of a parent, denies it",
				   ret->agent);
}

static void decide_on_tool(struct gate *g, const struct gate_ask *ask, const struct agent_name *who,
			   const struct standing *s, struct gate_answer *ret)
{
	struct err *e = agent_missing(who->name, who->ns, s);

	if (!e)
		e = standing_refuses(g, ask, who->ns, s);
	if (e)
		deny(ret, e);
	else
		judge(ask, s, ret);
}

static void decide_on_agent(struct gate *g, const struct gate_ask *ask, const char *agent,
			    struct gate_answer *ret)
{
	const struct standing *s = standing_of(g, ask->ns, agent);
	autofree char *sandbox = s && !s->broken ? sandbox_of(g, ask) : NULL;
	const struct object *by = sandbox ? find_grant(g, ask, sandbox, agent, s) : NULL;
	struct err *owes = by ? standing_refuses(g, ask, ask->ns, s) : NULL;

	if (!by || owes) {
		deny(ret, by ? owes : refusal(ask, agent, s, sandbox));
		return;
	}
	ret->attachment = by->name;
	ret->uid = by->uid;
	ret->session = attachment_view(by)->session;
	ret->sandbox = attachment_view(by)->sandbox;
	ret->view = attachment_view(by)->view;
	judge(ask, s, ret);
}

void gate_decide(struct gate *g, const struct gate_ask *ask, struct gate_answer *ret)
{
	struct agent_name who;

	*ret = (struct gate_answer){ .verdict = VERDICT_ALLOW };
	if (!agent_name_read(ask->user, &who) || !wall_stands("gate"))
		return;
	if (ask->door == GATE_TOOL)
		decide_on_tool(g, ask, &who, standing_of(g, who.ns, who.name), ret);
	else if (str_eq(who.ns, ask->ns))
		decide_on_agent(g, ask, who.name, ret);
	else
		deny(ret, err_new(ERR_FORBIDDEN,
				  "agent %s of namespace %s enters sandboxes of its own namespace "
				  "alone",
				  who.name, who.ns));
	agent_name_done(&who);
}

static bool permit_stands(struct gate *g, const struct gate_ask *ask, const struct gate_permit *p,
			  const char *agent, const struct standing *s)
{
	autoptr(object) o = NULL;

	if (ask->door == GATE_TOOL)
		return true;
	o = p->attachment ? client_get(g->client, g->attachment, ask->ns, p->attachment) : NULL;
	return o && str_eq(o->uid, p->uid) && attachment_view(o)->view == p->view &&
	       grants(g, o, agent, s, &doors[ask->door]);
}

bool gate_grants(struct gate *g, const struct gate_ask *ask, const struct gate_permit *p)
{
	struct gate_answer a = { 0 };
	const struct standing *s;
	struct agent_name who;
	bool ok;

	if (!agent_name_read(ask->user, &who))
		return true;
	s = standing_of(g, ask->ns, who.name);
	ok = s && !s->broken && str_eq(who.ns, ask->ns) && permit_stands(g, ask, p, who.name, s) &&
	     !standing_is_suspended(g, ask->ns, s);
	if (ok)
		judge(ask, s, &a);
	err_free(a.why);
	agent_name_done(&who);
	return ok && a.verdict != VERDICT_DENY;
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
	if (str_eq(act->sub, GATE_FILES)) {
		*ret = str_eq(act->verb, "get") ? GATE_READ : GATE_WRITE;
		return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(act->sub, rows[i].sub)) {
			*ret = rows[i].door;
			return true;
		}
	return false;
}

bool agent_attached(struct gate *g, const char *ns, const char *sandbox, const char *agent)
{
	const struct standing *s = standing_of(g, ns, agent);
	autofree char *key = xasprintf("%s/%s/%s", ns, str_or(sandbox, ""), agent);
	static const struct door any = { .name = "look" };

	map_each(it, map_get(g->by_agent, key))
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
	return agent_attached(g, act->ns, of, who->name) ? GATE_YES : GATE_SILENT;
}

/* What the rules say about a command is asked when that is known; but of a container that an agent
 * adds to a Pod nobody hears again, and nobody can be asked about it. */
static bool is_refused(enum gate_door door, struct gate_answer *a)
{
	if (door != GATE_RUNTIME)
		return a->verdict == VERDICT_DENY && !a->attachment;
	if (a->verdict == VERDICT_ASK)
		a->why = err_new(ERR_FORBIDDEN,
				 "what agent %s does must be approved, and nobody can be asked "
				 "about a container of its own",
				 a->agent);
	return a->verdict != VERDICT_ALLOW;
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
	pod = str_eq(act->sub, "proxy") ? proxy_name_of(act->name) : xstrdup(act->name);
	if (!door_of_act(act, &door)) {
		word = may_look(g, &who, act);
	} else {
		gate_decide(
			g,
			&(struct gate_ask){ .user = user, .ns = act->ns, .pod = pod, .door = door },
			&answer);
		word = is_refused(door, &answer) ? GATE_NO : GATE_YES;
		if (word == GATE_NO)
			*ret_why = take(answer.why);
		err_free(answer.why);
	}
	agent_name_done(&who);
	return word;
}
