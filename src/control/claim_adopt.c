/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/blueprint_priv.h"
#include "control/claim_adopt_priv.h"
#include "control/control_priv.h"
#include "control/event_priv.h"
#include "control/keys_priv.h"

/*
 * Finding, adopting, making (reference/api.md §6.7, §6.8, §6.10). A member that a claim is after is
 * marked as taken until the patch has ended, so that claims of the same moment take others.
 */
#define CONFLICTS_MOST    5
#define CANDIDATE_WAIT_MS 500

static struct json_doc *news(struct claim_pass *cp, const char *reason, const char *action,
			     const char *note)
{
	const struct event_spec spec = { cp->claim, WHO_CLAIM, "Normal", reason, action, note };

	return cp->p->c->opt.no_claim_events ? NULL : event_build(&spec, cp->p->now);
}

static void fail(struct claim_pass *cp, enum trouble_kind kind, struct err *e)
{
	trouble_done(&cp->trouble);
	cp->trouble = (struct trouble){ kind, e };
}

/* The past */

static void lost(struct claim_pass *cp)
{
	struct err **e = &cp->p->out[SLOT_CHILD].e;

	if (++cp->note->conflicts < CONFLICTS_MOST) {
		err_free(take(*e)); /* the next member, at once */
		return;
	}
	cp->note->conflicts = 0;
	fail(cp, TROUBLE_CONFLICT,
	     err_new(ERR_CONFLICT,
		     "adoption write conflict: cannot take a member of SandboxWarmPool "
		     "\"%s\" (conflicting concurrent write); the next pass retries "
		     "from a converged view",
		     claim_pool(cp->claim)));
}

void claim_settle(struct claim_pass *cp)
{
	const struct err *e = cp->p->out[SLOT_CHILD].e;
	autofree char *name = take(cp->note->reserved);
	struct member *m = name ? index_member(cp->p->c->index, cp->claim->ns, name) : NULL;

	if (m) {
		m->taken = false;
		if (e)
			m->lost_rev = m->sandbox->rev;
	}
	if (!e)
		return;
	if (name && (err_is(e, ERR_CONFLICT) || err_is(e, ERR_NOT_FOUND)))
		lost(cp);
	else if (!name && err_is(e, ERR_EXISTS))
		fail(cp, TROUBLE_LAG,
		     err_new(ERR_EXISTS, "Sandbox already created; waiting for cache to converge"));
	else
		fail(cp, TROUBLE_OTHER, err_copy(e));
}

/* Finding */

static struct object *get_sandbox(struct claim_pass *cp, const char *name)
{
	return str_empty(name)
		       ? NULL
		       : client_get(cp->p->c->client, cp->p->c->kinds.sandbox, cp->claim->ns, name);
}

static struct object *get_owned(struct claim_pass *cp)
{
	struct object *found = NULL;

	map_each(it, index_sandboxes_of(cp->p->c->index, cp->claim->uid))
		if (!found || object_deleting(found))
			found = it.value;
	return object_ref(found);
}

static enum find find(struct claim_pass *cp, struct object **ret)
{
	const struct json *recorded = json_get(object_status(cp->claim), "sandbox");
	autoptr(object) by_status = get_sandbox(cp, json_get_str(recorded, "name"));
	autoptr(object) assigned = get_sandbox(cp, claim_assigned(cp->claim));
	autoptr(object) by_owner = get_owned(cp);
	autoptr(object) by_name = get_sandbox(cp, cp->claim->name);
	const struct claim_seen seen = { cp->claim, by_status, assigned,
					 by_owner,  by_name,   claim_assigned(cp->claim) };
	struct object *sandbox = NULL;
	enum find how = claim_find(&seen, &sandbox);

	*ret = object_ref(sandbox);
	return how;
}

/* Warm */

static bool member_fits(void *arg, struct member *m)
{
	struct claim_pass *cp = arg;
	const struct json *strategy = json_get(object_spec(cp->pool), "updateStrategy");
	char hash[9];

	if (!str_eq(m->owner_uid, cp->pool->uid) || m->lost_rev == m->sandbox->rev)
		return false;
	if (!str_eq(json_get_str(strategy, "type"), "Recreate"))
		return true;
	if (!cp->template)
		return false;
	if (m->fresh_rev != cp->template->rev) {
		blueprint_hash(cp->template, hash);
		if (blueprint_stale(cp->template, hash, m->sandbox, false))
			return false; /* the pool is about to replace it */
		m->fresh_rev = cp->template->rev;
	}
	return true;
}

static void adopt(struct claim_pass *cp, const struct object *sandbox)
{
	struct write w = { SLOT_CHILD, cp->p->c->kinds.sandbox, sandbox->ns, sandbox->name };
	struct member *m = index_member(cp->p->c->index, sandbox->ns, sandbox->name);
	autofree char *note = xasprintf("Adopted warm pool Sandbox \"%s\"", sandbox->name);
	struct json_doc *patch = NULL;
	struct err *e = claim_build_adoption(cp->claim, sandbox, cp->template, &patch);

	if (e) {
		fail(cp, TROUBLE_OTHER, e);
		return;
	}
	if (m)
		m->taken = true;
	free(cp->note->reserved);
	cp->note->reserved = xstrdup(sandbox->name);
	w.event = news(cp, "SandboxAdopted", "Adoption", note);
	pass_patch(cp->p, &w, patch);
}

/* Cold */

static void make(struct claim_pass *cp)
{
	struct write w = { SLOT_CHILD, cp->p->c->kinds.sandbox, cp->claim->ns, cp->claim->name };
	autofree char *note = xasprintf("Created Sandbox \"%s\"", cp->claim->name);
	struct json_doc *doc = NULL;

	if (!cp->template) {
		fail(cp, TROUBLE_TEMPLATE,
		     err_new(ERR_NOT_FOUND, "SandboxTemplate \"%s\" not found",
			     pool_template(cp->pool)));
		return;
	}
	trouble_done(&cp->trouble);
	cp->trouble = claim_build_cold(cp->claim, cp->template, &doc);
	if (cp->trouble.kind != TROUBLE_NONE)
		return;
	w.event = news(cp, "SandboxProvisioned", "Provisioning", note);
	pass_create(cp->p, &w, doc);
}

static usec created_at(const struct object *o)
{
	const char *text = json_get_str(json_get(o->root, "metadata"), "creationTimestamp");
	usec at = 0;

	if (text)
		err_free(clock_parse(text, &at));
	return at;
}

/* Members are there, but without an address: a short while they are worth waiting for. */
static bool wait_for_members(struct claim_pass *cp, struct roster *r)
{
	usec until = created_at(cp->claim) + (usec)cp->p->c->opt.claim_grace_ms * 1000;
	usec left = until - cp->p->now;

	if (left <= 0)
		return false;
	cp->again_ms = MIN((uint64_t)(left + 999) / 1000, (uint64_t)CANDIDATE_WAIT_MS);
	list_del(&cp->note->waiter.link);
	list_add_tail(&r->waiting, &cp->note->waiter.link);
	return true;
}

static void obtain_new(struct claim_pass *cp)
{
	struct member *m = NULL;
	struct roster *r;
	enum pick pick;

	if (!cp->pool) {
		fail(cp, TROUBLE_POOL,
		     err_new(ERR_NOT_FOUND, "SandboxWarmPool \"%s\" not found",
			     claim_pool(cp->claim)));
		return;
	}
	if (claim_needs_cold(cp->claim)) {
		make(cp);
		return;
	}
	r = index_roster(cp->p->c->index, cp->claim->ns, cp->pool->name);
	pick = roster_pick(r, member_fits, cp, &m);
	if (pick == PICK_MEMBER)
		adopt(cp, m->sandbox);
	else if (pick == PICK_NONE || !wait_for_members(cp, r))
		make(cp);
}

/* After */

static void forget_assignment(struct claim_pass *cp)
{
	const struct write w = { SLOT_SELF,
				 cp->p->c->kinds.claim,
				 cp->claim->ns,
				 cp->claim->name,
				 .what = "reference cleanup failed",
				 .flags = WRITE_GONE_OK };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");

	json_set_root(d, root);
	json_set(d, json_need_obj(d, meta, "annotations"), KEY_SANDBOX_NAME, json_new_null(d));
	json_set(d, json_need_obj(d, meta, "labels"), KEY_SANDBOX_NAME, json_new_null(d));
	pass_patch(cp->p, &w, d);
	if (pass_rests(cp->p, SLOT_SELF))
		fail(cp, TROUBLE_OTHER, err_copy(cp->p->out[SLOT_SELF].e));
}

/* Keeps the Sandbox in line with claim and template. */
static void follow(struct claim_pass *cp)
{
	const struct write w = { SLOT_POD,
				 cp->p->c->kinds.sandbox,
				 cp->sandbox->ns,
				 cp->sandbox->name,
				 .what = "failed to update sandbox metadata",
				 .flags = WRITE_GONE_OK };
	struct json_doc *patch = NULL;
	struct err *e;

	if (!cp->template && claim_has_metadata(cp->claim)) {
		if (!cp->pool)
			fail(cp, TROUBLE_POOL,
			     err_new(ERR_NOT_FOUND, "SandboxWarmPool \"%s\" not found",
				     claim_pool(cp->claim)));
		else
			fail(cp, TROUBLE_TEMPLATE,
			     err_new(ERR_NOT_FOUND,
				     "failed to get template for metadata propagation: "
				     "SandboxTemplate \"%s\" not found",
				     pool_template(cp->pool)));
		return;
	}
	e = claim_build_sync(cp->claim, cp->sandbox, cp->template, &patch);
	if (e) {
		fail(cp, TROUBLE_OTHER, e);
	} else if (patch && pass_rests(cp->p, SLOT_POD)) {
		json_doc_free(patch);
		fail(cp, TROUBLE_OTHER, err_copy(cp->p->out[SLOT_POD].e));
	} else if (patch) {
		pass_patch(cp->p, &w, patch);
	}
}

void claim_obtain(struct claim_pass *cp)
{
	autoptr(object) found = NULL;
	enum find how = find(cp, &found);

	list_del(&cp->note->waiter.link);
	switch (how) {
	case FIND_USE:
		cp->note->conflicts = 0;
		trouble_done(&cp->trouble); /* whatever was wrong: it has its Sandbox */
		cp->sandbox = take(found);
		follow(cp);
		break;
	case FIND_COMPLETE:
		if (cp->trouble.kind == TROUBLE_NONE)
			adopt(cp, found);
		break;
	case FIND_FORGET:
		forget_assignment(cp);
		break;
	case FIND_NAME_USED:
		fail(cp, TROUBLE_OTHER,
		     err_new(ERR_EXISTS,
			     "sandbox \"%s\" is not controlled by claim \"%s\". Please use a "
			     "different claim name or delete the sandbox manually",
			     cp->claim->name, cp->claim->name));
		break;
	case FIND_NEW:
		if (cp->trouble.kind == TROUBLE_NONE)
			obtain_new(cp);
		break;
	}
}
