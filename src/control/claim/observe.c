/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim/claim_priv.h"
#include "control/claim/note.h"
#include "control/index/index.h"
#include "control/pass/context.h"
#include "control/template/blueprint.h"
#include "control/template/template.h"

/*
 * What a pass over a claim looks at. Everything comes from caches and indexes; the only search is
 * for a member, and only a claim that needs one causes it.
 */

/* The last pass's adoption has ended: the member is no longer reserved for it. If the claim did not
 * get it, it is passed over until it changes. */
static void settle(struct pass *p, struct claim_seen *seen, struct note *note)
{
	struct member *m = note_release(note, p->c->index);

	seen->adopt_e = take(p->out[CLAIM_WRITE_ADOPT].e);
	seen->create_e = take(p->out[CLAIM_WRITE_CREATE].e);
	seen->follow_e = p->out[CLAIM_WRITE_FOLLOW].e;
	seen->unassign_e = p->out[CLAIM_WRITE_UNASSIGN].e;
	seen->conflicts = note->conflicts;
	if (m && seen->adopt_e)
		m->lost_rev = m->sandbox->rev;
}

static struct object *get_sandbox(struct pass *p, const char *name)
{
	return str_empty(name) ? NULL
			       : client_get(p->c->client, p->c->kinds.sandbox, p->key->ns, name);
}

static struct object *get_owned(struct pass *p, const char *claim_uid)
{
	struct object *found = NULL;

	map_each(it, index_sandboxes_of(p->c->index, claim_uid))
		if (!found || object_deleting(found))
			found = it.value;
	return object_ref(found);
}

static void see_sandboxes(struct pass *p, struct claim_seen *seen)
{
	const struct claim_view *v = claim_view(seen->claim);

	seen->by_status = get_sandbox(p, v->sandbox);
	seen->assigned = get_sandbox(p, v->assigned);
	seen->by_owner = get_owned(p, seen->claim->uid);
	seen->by_name = get_sandbox(p, seen->claim->name);
}

static bool member_fits(void *arg, struct member *m)
{
	const struct claim_seen *seen = arg;
	const struct object *template = seen->template;
	char hash[9];

	if (!str_eq(m->v->owner.uid, seen->pool->uid) || m->lost_rev == m->sandbox->rev)
		return false;
	if (!pool_view(seen->pool)->recreate)
		return true;
	if (!template)
		return false;
	if (m->fresh_rev != template->rev) {
		blueprint_hash(template, hash);
		if (blueprint_stale(template, hash, m->sandbox, false))
			return false; /* the pool is about to replace it */
		m->fresh_rev = template->rev;
	}
	return true;
}

/* A claim that v1alpha1 made of a template alone: its pool need not exist, and then it starts cold.
 */
static struct object *shadowed_template(struct pass *p, const struct object *claim)
{
	const char *pool = claim_view(claim)->pool;

	return str_starts(pool, SHADOW_POOL) ? client_get(p->c->client, p->c->kinds.template,
							  claim->ns, pool + strlen(SHADOW_POOL))
					     : NULL;
}

static void see_pool(struct pass *p, struct claim_seen *seen)
{
	struct context *c = p->c;
	const char *ns = seen->claim->ns;
	struct object *found = NULL;
	struct member *m = NULL;
	struct roster *r;

	seen->pool = client_get(c->client, c->kinds.pool, ns, claim_view(seen->claim)->pool);
	if (!seen->pool) {
		seen->template = shadowed_template(p, seen->claim);
		return;
	}
	seen->template =
		client_get(c->client, c->kinds.template, ns, pool_view(seen->pool)->template);
	if (claim_view(seen->claim)->needs_cold || claim_find(seen, &found) != FIND_NEW)
		return;
	r = index_roster(c->index, ns, seen->pool->name);
	seen->pick = roster_ahead(r, &notes_need(p->own, seen->claim, p->now)->waiter)
			     ? PICK_PENDING
			     : roster_pick(r, member_fits, seen, &m);
	seen->member = m ? object_ref(m->sandbox) : NULL;
}

bool claim_observe(struct pass *p, struct claim_seen *seen)
{
	struct context *c = p->c;
	autofree char *policy = policy_name(p->key->name);

	seen->claim = client_get(c->client, c->kinds.claim, p->key->ns, p->key->name);
	if (!seen->claim)
		return false;
	seen->now = p->now;
	seen->grace_ms = c->opt.claim_grace_ms;
	seen->legacy_policy = client_get(c->client, c->kinds.policy, p->key->ns, policy);
	settle(p, seen, notes_need(p->own, seen->claim, p->now));
	if (claim_view(seen->claim)->deleting)
		return true;
	seen->bad_metadata = claim_check_metadata(seen->claim, c->opt.label_domains);
	see_sandboxes(p, seen);
	see_pool(p, seen);
	return true;
}

void claim_seen_done(struct claim_seen *seen)
{
	struct object *const all[] = { seen->claim,     seen->pool,          seen->template,
				       seen->by_status, seen->assigned,      seen->by_owner,
				       seen->by_name,   seen->legacy_policy, seen->member };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		object_unref(all[i]);
	err_free(seen->bad_metadata);
	err_free(seen->adopt_e);
	err_free(seen->create_e);
}
