/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/links.h"

#include <assert.h>
#include <stdio.h>

#include "api/cay/agent.h"
#include "api/cay/approval.h"
#include "api/cay/cay.h"
#include "api/cay/session.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/view_claim.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

struct links {
	struct map *shelves[LINK_MAX_]; /* "ns/text" → map of name → object */
};

static void object_drop(void *p)
{
	object_unref(p);
}

static void shelf_drop(void *p)
{
	map_free(p);
}

void link_label(const char *name, char ret[LINK_LABEL_MAX])
{
	char hash[9];

	name_hash(name, hash);
	if (strlen(name) < LINK_LABEL_MAX)
		(void)snprintf(ret, LINK_LABEL_MAX, "%s", name);
	else
		(void)snprintf(ret, LINK_LABEL_MAX, "%.54s-%s", name, hash);
}

bool link_label_is(const char *label, const char *name)
{
	char want[LINK_LABEL_MAX];

	link_label(name, want);
	return str_eq(label, want);
}

/* Where an object was, and where it is now. */
struct step {
	struct object *was, *now; /* as in a watch event */
	const char *from, *to;    /* NULL or "": in no place */
};

static char *place_of(const struct object *o, const char *text)
{
	return o && !str_empty(text) ? xasprintf("%s/%s", o->ns, text) : NULL;
}

static void move(struct links *l, enum link which, const struct step *s)
{
	autofree char *old = place_of(s->was, s->from), *new = place_of(s->now, s->to);
	struct map *shelf = l->shelves[which], *place = old ? map_get(shelf, old) : NULL;

	if (place && !str_eq(old, new)) {
		(void)map_del(place, s->was->name);
		if (!map_len(place))
			(void)map_del(shelf, old);
	}
	if (!new)
		return;
	place = map_get(shelf, new);
	if (!place) {
		place = map_new(object_drop);
		map_put(shelf, new, place);
	}
	map_put(place, s->now->name, object_ref(s->now));
}

static void move_label(struct links *l, enum link which, struct object *was, struct object *now)
{
	const struct object *any = now ? now : was;
	char label[LINK_LABEL_MAX];

	assert(any);
	link_label(any->name, label);
	move(l, which, &(struct step){ was, now, label, label });
}

void links_agent(struct links *l, struct object *was, struct object *now)
{
	const struct agent_view *a = was ? agent_view(was) : NULL;
	const struct agent_view *b = now ? agent_view(now) : NULL;

	move_label(l, LINK_LABEL_AGENTS, was, now);
	move(l, LINK_CHILDREN,
	     &(struct step){ was, now, a ? a->parent : NULL, b ? b->parent : NULL });
	move(l, LINK_POOL_AGENTS,
	     &(struct step){ was, now, a ? a->pool : NULL, b ? b->pool : NULL });
}

void links_session(struct links *l, struct object *was, struct object *now)
{
	const struct session_view *a = was ? session_view(was) : NULL;
	const struct session_view *b = now ? session_view(now) : NULL;

	move_label(l, LINK_LABEL_SESSIONS, was, now);
	move(l, LINK_AGENT_SESSIONS,
	     &(struct step){ was, now, a ? a->agent : NULL, b ? b->agent : NULL });
	move(l, LINK_SANDBOX_SESSIONS,
	     &(struct step){ was, now, a ? a->sandbox : NULL, b ? b->sandbox : NULL });
}

void links_attachment(struct links *l, struct object *was, struct object *now)
{
	const struct attachment_view *a = was ? attachment_view(was) : NULL;
	const struct attachment_view *b = now ? attachment_view(now) : NULL;

	move(l, LINK_SESSION_ATTACHMENTS,
	     &(struct step){ was, now, a ? a->session : NULL, b ? b->session : NULL });
	move(l, LINK_SANDBOX_ATTACHMENTS,
	     &(struct step){ was, now, a ? a->sandbox : NULL, b ? b->sandbox : NULL });
}

static const char *agent_of(const struct object *claim)
{
	return claim ? object_label(claim, KEY_AGENT) : NULL;
}

static const char *shared_pool_of(const struct object *claim)
{
	return claim && str_eq(object_label(claim, KEY_SHARED), "true") ? claim_view(claim)->pool
									: NULL;
}

void links_claim(struct links *l, struct object *was, struct object *now)
{
	move(l, LINK_AGENT_CLAIMS, &(struct step){ was, now, agent_of(was), agent_of(now) });
	move(l, LINK_SHARED_CLAIMS,
	     &(struct step){ was, now, shared_pool_of(was), shared_pool_of(now) });
}

static const char *open_place(const struct object *approval)
{
	return approval && approval_view(approval)->decision == APPROVAL_OPEN ? "open" : NULL;
}

void links_approval(struct links *l, struct object *was, struct object *now)
{
	move(l, LINK_OPEN_APPROVALS, &(struct step){ was, now, open_place(was), open_place(now) });
}

const struct map *links_of(const struct links *l, enum link which, const char *ns, const char *name)
{
	autofree char *at = xasprintf("%s/%s", ns, which == LINK_OPEN_APPROVALS ? "open" : name);

	return map_get(l->shelves[which], at);
}

size_t links_count(const struct links *l, enum link which, const char *ns, const char *name)
{
	const struct map *place = links_of(l, which, ns, name);

	return place ? map_len(place) : 0;
}

bool links_idle(const struct links *l)
{
	return !map_len(l->shelves[LINK_LABEL_SESSIONS]) &&
	       !map_len(l->shelves[LINK_SESSION_ATTACHMENTS]);
}

struct links *links_new(void)
{
	struct links *l = xnew(struct links);

	for (unsigned i = 0; i < LINK_MAX_; i++)
		l->shelves[i] = map_new(shelf_drop);
	return l;
}

void links_free(struct links *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < LINK_MAX_; i++)
		map_free(l->shelves[i]);
	free(l);
}
