/* SPDX-License-Identifier: Apache-2.0 */
#include "server/policy/agents.h"

#include <stdio.h>

#include "api/cay/agent_chain.h"
#include "api/cay/cay.h"
#include "api/cay/team.h"
#include "api/object.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * Delegation only shrinks. This is asked when an Agent is written, to tell its writer; it is not
 * what the wall rests on, for a parent may shrink at any time. At use, the intersection along the
 * chain counts.
 */
struct agent_spec {
	const struct objects *os;
	const char *ns, *name;
	const struct json *spec, *was; /* was NULL: it is created */
	struct causes *causes;
};

static bool changed(const struct agent_spec *w, const char *member)
{
	return !w->was || !json_equal(json_get(w->spec, member), json_get(w->was, member));
}

static struct object *find_agent(void *arg, const char *name)
{
	const struct agent_spec *w = arg;

	return objects_find(w->os, w->os->agent, w->ns, name);
}

static const struct agent_view *find(const struct agent_spec *w, const char *name)
{
	const struct object *o = find_agent((void *)w, name);

	return o ? agent_view(o) : NULL;
}

/* Parents */

/* How many steps lead up from the parent to the end of the chain, or to the agent itself: then
 * *ret_loop. No more are counted than there may be, and one. */
static int parents_above(const struct agent_spec *w, const char *parent, bool *ret_loop)
{
	struct agent_chain c;
	size_t above;

	agent_chain_follow(parent, find_agent, (void *)w, &c);
	*ret_loop = agent_chain_has(&c, w->name, &above);
	if (*ret_loop)
		return (int)above;
	if (c.fault == CHAIN_LOOP || c.fault == CHAIN_TOO_LONG)
		return AGENT_PARENTS_MAX + 1;
	return (int)c.n + (c.fault == CHAIN_NO_PARENT);
}

/* How many steps lead down from the agent to the last of its children. Those who are there although
 * it is new were left behind by another of its name. */
static int children_below(const struct agent_spec *w)
{
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };
	int deepest = 0;

	key_prefix(&prefix, w->os->agent, w->ns);
	while ((en = store_next(w->os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(w->os, en);
		bool below = false;
		int n = o ? parents_above(w, agent_view(o)->parent, &below) : 0;

		if (below)
			deepest = MAX(deepest, n + 1);
	}
	return deepest;
}

static void check_chain(const struct agent_spec *w, const char *parent)
{
	bool loop = false;
	int above;

	if (!changed(w, "parent"))
		return;
	if (!find(w, parent)) {
		causes_add(w->causes, CAUSE_NOT_FOUND, "spec.parent", "Not found: \"%s\"", parent);
		return;
	}
	above = parents_above(w, parent, &loop);
	if (loop) {
		causes_invalid_str(w->causes, "spec.parent", parent,
				   "the agent would be a parent of itself");
		return;
	}
	if (above > AGENT_PARENTS_MAX || above + children_below(w) > AGENT_PARENTS_MAX) {
		char why[96];

		(void)snprintf(why, sizeof(why),
			       "no agent may have more than %d parents, one above the other",
			       AGENT_PARENTS_MAX);
		causes_invalid_str(w->causes, "spec.parent", parent, why);
	}
}

/* Capabilities */

/* "rights[2]" is counted as we write them; the user may have written them in another order. */
static void as_written(const struct agent_spec *w, const char *right, struct buf *path)
{
	const struct json *list = json_get(json_get(w->spec, "capabilities"), "rights");
	int i = 0;

	if (!str_starts(buf_str(path), "rights["))
		return;
	json_each(it, list) {
		if (str_eq(json_str(it.val), right)) {
			buf_clear(path);
			buf_printf(path, "rights[%d]", i);
			return;
		}
		i++;
	}
}

static void check_within(const struct agent_spec *w, const struct capabilities *outer,
			 const char *whose)
{
	autoptr(arena) a = arena_new();
	autofree char *field = NULL;
	struct capabilities inner;
	autobuf path = { 0 }, why = { 0 };

	capabilities_read(json_get(w->spec, "capabilities"), a, &inner);
	if (inner.max_sandboxes < 0)
		inner.max_sandboxes = outer->max_sandboxes; /* as many as others allow */
	if (capabilities_contain(outer, &inner, &path, &why))
		return;
	as_written(w, buf_str(&why), &path);
	field = xasprintf("spec.capabilities.%s", buf_str(&path));
	causes_add(w->causes, CAUSE_FORBIDDEN, field,
		   "Forbidden: \"%s\" exceeds the capabilities of %s", buf_str(&why), whose);
}

static void check_parent(const struct agent_spec *w)
{
	const char *parent = json_get_str(w->spec, "parent");
	const struct agent_view *v;
	autofree char *whose = NULL;

	if (str_empty(parent))
		return;
	check_chain(w, parent);
	v = find(w, parent);
	if (!v || (!changed(w, "parent") && !changed(w, "capabilities")))
		return;
	whose = xasprintf("the parent \"%s\"", parent);
	check_within(w, &v->capabilities, whose);
}

/* The policy of the team */

static const struct team_policy_view *policy_of(const struct objects *os, const char *ns)
{
	const struct object *o = objects_find(os, os->team_policy, ns, TEAM_POLICY);

	return o ? team_policy_view(o) : NULL;
}

static void check_approval(const struct agent_spec *w, const struct team_policy_view *p)
{
	const char *said = json_get_str(json_get(w->spec, "approval"), "default");
	enum verdict v = said ? verdict_named(said) : VERDICT_ALLOW;

	if (v < p->approval_default)
		causes_add(w->causes, CAUSE_FORBIDDEN, "spec.approval.default",
			   "Forbidden: \"%s\" is weaker than the team's policy allows: %s",
			   verdict_name(v), verdict_name(p->approval_default));
}

static void check_retain(struct causes *c, const char *field, const char *text,
			 const struct team_policy_view *p)
{
	uint64_t ms = 0;

	if (!p->retain_max || !text)
		return;
	err_free(parse_duration_ms(text, &ms)); /* the schema accepts only durations */
	if (ms > (uint64_t)p->retain_max / 1000)
		causes_add(c, CAUSE_FORBIDDEN, field,
			   "Forbidden: \"%s\" is longer than the team's policy allows: %llus", text,
			   (unsigned long long)p->retain_max / 1000000);
}

static void check_isolation(const struct agent_spec *w, const struct team_policy_view *p)
{
	const char *class = json_get_str(json_get(w->spec, "isolation"), "unverified");

	if (!str_empty(class) && !team_policy_strong_enough(p, class))
		causes_add(w->causes, CAUSE_FORBIDDEN, "spec.isolation.unverified",
			   "Forbidden: \"%s\" is weaker than the team's policy allows: %s", class,
			   p->floor);
}

static void check_policy(const struct agent_spec *w, const struct team_policy_view *p)
{
	if (p->has_capabilities && changed(w, "capabilities"))
		check_within(w, &p->capabilities, "the team's policy");
	if (changed(w, "approval"))
		check_approval(w, p);
	if (changed(w, "sandbox"))
		check_retain(w->causes, "spec.sandbox.retain",
			     json_get_str(json_get(w->spec, "sandbox"), "retain"), p);
	if (changed(w, "isolation"))
		check_isolation(w, p);
}

void agent_check(const struct objects *os, const char *ns, const struct json *obj,
		 const struct json *old, struct causes *c)
{
	const struct agent_spec w = {
		.os = os,
		.ns = ns,
		.name = str_or(json_get_str(json_get(obj, "metadata"), "name"), ""),
		.spec = json_get(obj, "spec"),
		.was = json_get(old, "spec"),
		.causes = c,
	};
	const struct team_policy_view *p = policy_of(os, ns);

	check_parent(&w);
	if (p)
		check_policy(&w, p);
}

void session_check(const struct objects *os, const char *ns, const struct json *obj,
		   const struct json *old, struct causes *c)
{
	const struct json *now = json_get(json_get(obj, "spec"), "retain");
	const struct team_policy_view *p = policy_of(os, ns);

	if (p && (!old || !json_equal(now, json_get(json_get(old, "spec"), "retain"))))
		check_retain(c, "spec.retain", json_str(now), p);
}

void approval_check(const struct json *obj, const struct json *old, struct causes *c)
{
	const char *made = json_get_str(json_get(obj, "status"), "decision");
	const char *expires = json_get_str(json_get(obj, "spec"), "expires");

	if (!old || !made || json_get(json_get(old, "status"), "decision") ||
	    clock_wall() < view_time(expires))
		return;
	causes_add(c, CAUSE_FORBIDDEN, "status.decision",
		   "Forbidden: the question was closed at %s", expires);
}
