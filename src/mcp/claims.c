/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/view_claim.h"
#include "api/view_sandbox.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/client.h"
#include "mcp/mcp_priv.h"

/*
 * Which claims a call may reach. Two labels that the server sets say who owns a claim: the owner, a
 * hash of the user's name, and the session. Nobody reaches the claim of another user; within one
 * user a session reaches what it made itself, unless it was opened for all of the user's.
 *
 * That comes on top of what the user may do in the namespace, which is asked as for API requests.
 */
static struct err *may(const struct post *p, const struct mcp_act *act)
{
	const struct mcp_spec *spec = &p->mcp->spec;

	if (!spec->may || !wall_stands("mcp-rights"))
		return NULL;
	return spec->may(spec->arg, &p->caller->who, act);
}

static struct mcp_act claim_act(const char *verb, const char *ns, const char *name)
{
	return (struct mcp_act){ .verb = verb,
				 .group = GROUP_EXTENSIONS,
				 .plural = "sandboxclaims",
				 .ns = ns,
				 .name = name };
}

struct err *claims_may(const struct rpc *r, const char *verb, const char *ns, const char *name)
{
	const struct mcp_act act = claim_act(verb, ns, name);

	return may(r->post, &act);
}

struct err *claims_may_create(const struct rpc *r, const char *ns, const char *pool)
{
	struct mcp_act act = claim_act("create", ns, NULL);

	act.pool = pool;
	return may(r->post, &act);
}

bool claims_ours(const struct post *p, const struct object *claim)
{
	const struct mcp_session *s = p->session;

	if (!str_eq(object_label(claim, MCP_OWNER_LABEL), p->caller->owner) &&
	    wall_stands("mcp-owner"))
		return false;
	return s->choice.whole_user || str_eq(object_label(claim, MCP_SESSION_LABEL), s->id);
}

struct err *claims_find(struct rpc *r, const char *verb, struct object **ret)
{
	const char *ns = arg_ns(r), *name = arg_text(r, "sandbox_claim_name");
	autoptr(object) claim = NULL;
	struct err *e = claims_may(r, verb, ns, name);

	if (e)
		return e;
	claim = client_get(r->mcp->spec.client, r->mcp->claims, ns, name);
	r->plain = !claim || object_deleting(claim) || !claims_ours(r->post, claim);
	if (r->plain)
		return err_new(ERR_NOT_FOUND, "Sandbox claim '%s' is not found in namespace '%s'.",
			       name, ns);
	*ret = take(claim);
	return NULL;
}

static struct err *not_ready(const struct object *claim)
{
	const struct claim_view *v = claim_view(claim);

	return err_new(ERR_UNAVAILABLE, "the sandbox is not ready: %s: %s",
		       str_or(v->ready.reason, "Pending"), str_or(v->ready.message, "it starts"));
}

/* The Sandbox that a claim has; NULL: none yet. */
static struct object *sandbox_of(const struct mcp *m, const struct object *claim)
{
	const char *name = claim_view(claim)->sandbox;
	autoptr(object) o = name ? client_get(m->spec.client, m->sandboxes, claim->ns, name) : NULL;

	return o && object_controlled_by(o, claim->uid) ? take(o) : NULL;
}

static bool is_attached(const struct post *p, const struct object *sandbox)
{
	const struct mcp_spec *spec = &p->mcp->spec;

	return sandbox && spec->agents && !object_deleting(sandbox) &&
	       spec->agents->attached(spec->arg, &p->caller->who, sandbox->ns, sandbox->name);
}

struct err *claims_may_look(const struct post *p, const struct object *sandbox)
{
	return may(p, &(struct mcp_act){ .verb = "get",
					 .group = GROUP_AGENTS,
					 .plural = "sandboxes",
					 .ns = sandbox->ns,
					 .name = sandbox->name });
}

/* A claim of the session's comes before a Sandbox that happens to have its name. */
struct object *claims_attached(struct rpc *r)
{
	const char *ns = arg_ns(r), *name = arg_text(r, "sandbox_claim_name");
	const struct mcp *m = r->mcp;
	autoptr(object) claim = NULL;
	autoptr(object) sandbox = NULL;

	if (!m->spec.agents)
		return NULL;
	claim = client_get(m->spec.client, m->claims, ns, name);
	sandbox = claim ? sandbox_of(m, claim) : NULL;
	if (!is_attached(r->post, sandbox) && (!claim || !claims_ours(r->post, claim))) {
		object_unref(sandbox);
		sandbox = client_get(m->spec.client, m->sandboxes, ns, name);
	}
	return is_attached(r->post, sandbox) ? take(sandbox) : NULL;
}

/* An agent that is attached needs the right that the tool takes; everybody else that to exec. */
static struct err *may_enter(struct rpc *r, const struct object *sandbox, bool attached)
{
	const struct tool *t = r->tool;
	bool file = attached && t->path;

	return may(r->post, &(struct mcp_act){ .verb = file && t->reads ? "get" : "create",
					       .group = "",
					       .plural = "pods",
					       .ns = sandbox->ns,
					       .name = sandbox_view(sandbox)->pod_name,
					       .sub = file ? "files" : "exec" });
}

struct err *claims_pod(struct rpc *r, char **ret)
{
	autoptr(object) claim = NULL;
	autoptr(object) sandbox = claims_attached(r);
	bool attached = sandbox;
	struct err *e = attached ? NULL : claims_find(r, "get", &claim);

	if (e)
		return e;
	if (!attached)
		sandbox = sandbox_of(r->mcp, claim);
	if (!sandbox)
		return not_ready(claim);
	e = may_enter(r, sandbox, attached);
	if (!e)
		*ret = xstrdup(sandbox_view(sandbox)->pod_name);
	return e;
}

struct walk {
	struct post *post;
	void (*fn)(void *arg, struct object *o);
	void *arg;
};

static bool on_each(void *arg, struct object *o)
{
	struct walk *w = arg;

	if (!object_deleting(o) && claims_ours(w->post, o))
		w->fn(w->arg, o);
	return true;
}

void claims_each(struct post *p, const char *ns, void (*fn)(void *arg, struct object *o), void *arg)
{
	struct walk w = { p, fn, arg };

	client_each(p->mcp->spec.client, p->mcp->claims, ns, on_each, &w);
}

struct attached_walk {
	struct post *post;
	const char *ns;
	void (*fn)(void *arg, const char *name);
	void *arg;
	bool but_ours;
	size_t n;
};

static void on_attached(void *arg, const char *name)
{
	struct attached_walk *w = arg;
	const struct mcp *m = w->post->mcp;
	autoptr(object) sandbox = client_get(m->spec.client, m->sandboxes, w->ns, name);
	autoptr(object) claim = NULL;
	autoptr(err) e = sandbox ? claims_may_look(w->post, sandbox) : NULL;
	const struct owner_view *owner;

	if (!sandbox || object_deleting(sandbox) || e)
		return;
	owner = &sandbox_view(sandbox)->owner;
	if (owner->type == OWNER_CLAIM)
		claim = client_get(m->spec.client, m->claims, w->ns, owner->name);
	w->n++;
	if (!w->but_ours || !claim || !claims_ours(w->post, claim))
		w->fn(w->arg, claim ? claim->name : name);
}

size_t claims_each_attached(struct post *p, const char *ns, bool but_ours,
			    void (*fn)(void *arg, const char *name), void *arg)
{
	const struct mcp_spec *spec = &p->mcp->spec;
	struct attached_walk w = {
		.post = p, .ns = ns, .fn = fn, .arg = arg, .but_ours = but_ours
	};

	if (spec->agents)
		spec->agents->each_attached(spec->arg, &p->caller->who, ns, on_attached, &w);
	return w.n;
}

/* Claims are gathered first: nothing is written during a walk. */
struct gathered {
	struct object **list;
	size_t n;
};

static void gather(void *arg, struct object *o)
{
	struct gathered *g = arg;

	g->list = xrealloc(g->list, (g->n + 1) * sizeof(struct object *));
	g->list[g->n++] = object_ref(o);
}

void claims_delete_all(struct mcp_session *s)
{
	const bool whole_user = s->choice.whole_user;
	struct gathered g = { 0 };
	struct post p = { .mcp = s->mcp, .caller = s->caller, .session = s };

	s->choice.whole_user = false; /* what other sessions made is theirs */
	claims_each(&p, NULL, gather, &g);
	s->choice.whole_user = whole_user;
	for (size_t i = 0; i < g.n; i++) {
		struct object *o = g.list[i];
		const struct mcp_act act = claim_act("delete", o->ns, o->name);
		struct client_ref ref = { .kind = o->kind, .ns = o->ns, .name = o->name };
		struct client_delete_spec spec = { .uid = o->uid, .grace_s = -1 };
		struct err *e = may(&p, &act);

		if (!e)
			client_delete(s->mcp->spec.client, &ref, &spec, NULL);
		err_free(e); /* a right that was lost is no reason to tell anybody */
		object_unref(o);
	}
	free(g.list);
}
