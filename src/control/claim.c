/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim_adopt_priv.h"
#include "control/claim_priv.h"
#include "control/control_priv.h"
#include "control/event_priv.h"
#include "control/keys_priv.h"

/*
 * The SandboxClaim controller (reference/api.md §6.3).
 *
 * A warm claim takes three passes: the first patches a member so that it is the claim's, the second
 * writes the claim's status, the third its annotations, which nobody waits for. In one process all
 * three run in one turn of the loop and end in one commit.
 */
#define MISSING_RECHECK_MS 60000
#define LAG_RECHECK_MS     200

static struct json_doc *news(struct pass *p, const struct object *claim, const char *action,
			     const char *note)
{
	const struct event_spec spec = { claim, WHO_CLAIM, "Normal", "ClaimExpired", action, note };

	return p->c->opt.no_claim_events ? NULL : event_build(&spec, p->now);
}

/* Older controllers made a policy for each claim; the template's is enough. */
static void drop_legacy_policy(struct pass *p, const struct object *claim)
{
	autofree char *name = xasprintf("%s-network-policy", claim->name);
	autoptr(object) policy = client_get(p->c->client, p->c->kinds.policy, claim->ns, name);
	const struct write w = { SLOT_REMOVE, p->c->kinds.policy, claim->ns, name,
				 .flags = WRITE_QUIET | WRITE_GONE_OK };

	if (!policy || object_deleting(policy) || !object_controlled_by(policy, claim->uid) ||
	    !controlled_by_kind(policy, "SandboxClaim"))
		return;
	if (pass_rests(p, SLOT_REMOVE))
		log_warn("old network policy of a claim stays", KV("claim", claim->name),
			 KV("namespace", claim->ns), KV("err", p->out[SLOT_REMOVE].e));
	else
		pass_delete(p, &w, NULL);
}

/* Writes the status if it differs; true when it did. A conflict is dropped: its cause wakes us. */
static bool write_status(struct pass *p, const struct object *claim, struct json_doc *want,
			 struct json_doc *event)
{
	const struct write w = { SLOT_STATUS,
				 p->c->kinds.claim,
				 claim->ns,
				 claim->name,
				 "status",
				 .event = event,
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *patch = claim_status_patch(claim, json_root(want));

	if (!patch) {
		json_doc_free(event);
		return false;
	}
	pass_patch(p, &w, patch);
	return true;
}

/* Expiry: said first, done in the next pass. */

static struct again mark_expired(struct pass *p, const struct object *claim,
				 struct json_doc *status)
{
	claim_mark_expired(status, claim, p->now);
	(void)write_status(p, claim, status, news(p, claim, "Claim Expired", "Claim expired"));
	return again_after(1);
}

static void delete_claim(struct pass *p, const struct object *claim, const char *policy)
{
	autofree char *note = xasprintf("Deleting Claim (ShutdownPolicy=%s)", str_or(policy, ""));
	bool foreground = str_eq(policy, "DeleteForeground");
	const struct client_delete_spec spec = { .uid = claim->uid,
						 .propagation = foreground ? "Foreground" : NULL,
						 .grace_s = -1 };
	const struct write w = { SLOT_SELF,
				 p->c->kinds.claim,
				 claim->ns,
				 claim->name,
				 .event = news(p, claim, "Deleting", note),
				 .flags = WRITE_GONE_OK };

	pass_delete(p, &w, &spec);
}

static struct object *recorded_sandbox(struct pass *p, const struct object *claim)
{
	const struct json *recorded = json_get(object_status(claim), "sandbox");

	return client_get(p->c->client, p->c->kinds.sandbox, claim->ns,
			  str_or(json_get_str(recorded, "name"), claim->name));
}

/* Retained: the Sandbox goes, the claim stays and says so. */
static struct again clean_up(struct pass *p, const struct object *claim)
{
	autoptr(object) sandbox = recorded_sandbox(p, claim);
	const struct write w = { SLOT_CHILD, p->c->kinds.sandbox, claim->ns,
				 sandbox ? sandbox->name : NULL, .flags = WRITE_GONE_OK };
	struct trouble trouble = { 0 };
	struct claim_view view = { claim, sandbox, &trouble, true, p->now };
	autoptr(json_doc) want = NULL;
	struct err *e;

	if (sandbox && !object_controlled_by(sandbox, claim->uid)) {
		trouble = (struct trouble){
			TROUBLE_NOT_OWNED,
			err_new(ERR_CONFLICT,
				"sandbox not owned by this claim: sandbox \"%s\" is not owned by "
				"claim \"%s\"",
				sandbox->name, claim->name)
		};
		view.sandbox = NULL;
	} else if (sandbox && !object_deleting(sandbox)) {
		const struct client_delete_spec spec = { .uid = sandbox->uid, .grace_s = -1 };

		pass_delete(p, &w, &spec);
	}
	if (!p->started) {
		want = claim_status(&view);
		(void)write_status(p, claim, want, NULL);
	}
	trouble_done(&trouble);
	e = p->started ? NULL : pass_take_error(p);
	return e ? again_retry(e) : again_never();
}

static struct again reconcile_expired(struct pass *p, const struct object *claim)
{
	const char *policy = claim_shutdown_policy(claim);
	const struct json *ready =
		conditions_get(json_get(object_status(claim), "conditions"), "Ready");

	if (!str_eq(json_get_str(ready, "reason"), "ClaimExpired")) {
		autoptr(json_doc) status = json_doc_new();
		struct json *copy = json_copy(status, object_status(claim));

		json_set_root(status, copy ? copy : json_obj(status));
		return mark_expired(p, claim, status);
	}
	if (str_eq(policy, "Retain"))
		return clean_up(p, claim);
	delete_claim(p, claim, policy);
	if (p->started)
		return again_wait();
	return again_retry(pass_take_error(p));
}

/* Alive */

static struct again again_for(struct claim_pass *cp, uint64_t left_ms)
{
	struct err *e;

	switch (cp->trouble.kind) {
	case TROUBLE_TEMPLATE:
	case TROUBLE_POOL:
		return again_after(left_ms ? MIN(left_ms, (uint64_t)MISSING_RECHECK_MS)
					   : MISSING_RECHECK_MS);
	case TROUBLE_LAG:
		return again_after(LAG_RECHECK_MS);
	case TROUBLE_CONFLICT:
	case TROUBLE_OTHER:
		return again_retry(take(cp->trouble.e));
	case TROUBLE_NONE:
	case TROUBLE_METADATA:
	case TROUBLE_ENV:
	case TROUBLE_NOT_OWNED:
	case TROUBLE_VCT:
		break;
	}
	e = cp->p->out[SLOT_STATUS].e ? take(cp->p->out[SLOT_STATUS].e)
				      : take(cp->p->out[SLOT_SELF].e);
	if (e)
		return again_retry(e);
	return left_ms ? again_after(left_ms) : again_never();
}

static void stamp(struct claim_pass *cp)
{
	const struct claim_stamps s = { cp->claim, cp->sandbox, cp->note->first_seen,
					cp->note->ready_at,
					!cp->p->c->opt.no_observability_annotations };
	const struct write w = { SLOT_SELF, cp->p->c->kinds.claim, cp->claim->ns, cp->claim->name,
				 .flags = WRITE_QUIET | WRITE_GONE_OK };
	struct json_doc *patch = claim_stamp(&s);

	if (patch)
		pass_patch(cp->p, &w, patch);
}

static struct again report(struct claim_pass *cp)
{
	const struct object *claim = cp->claim;
	const struct claim_view view = { claim, cp->sandbox, &cp->trouble, false, cp->p->now };
	autoptr(json_doc) want = claim_status(&view);
	const struct json *conditions = json_get(json_root(want), "conditions");
	usec ends = claim_expires_at(claim, json_root(want));
	uint64_t left_ms = ends > cp->p->now ? (uint64_t)(ends - cp->p->now + 999) / 1000 : 0;

	if (ends && !left_ms)
		return mark_expired(cp->p, claim, want);
	if (cp->trouble.kind == TROUBLE_LAG && json_get(object_status(claim), "sandbox"))
		return again_for(cp, left_ms);
	if (conditions_true(conditions, "Ready") && !cp->note->ready_at &&
	    !conditions_true(json_get(object_status(claim), "conditions"), "Ready"))
		cp->note->ready_at = cp->p->now;
	if (!write_status(cp->p, claim, want, NULL))
		stamp(cp);
	return again_for(cp, left_ms);
}

static struct again reconcile_living(struct claim_pass *cp)
{
	struct control *c = cp->p->c;
	const struct object *claim = cp->claim;
	struct err *e = claim_check_metadata(claim, c->opt.label_domains);

	claim_settle(cp);
	if (e) {
		trouble_done(&cp->trouble);
		cp->trouble = (struct trouble){ TROUBLE_METADATA, e };
		cp->sandbox = recorded_sandbox(cp->p, claim);
		if (cp->sandbox && !object_controlled_by(cp->sandbox, claim->uid))
			object_unref(take(cp->sandbox));
		return report(cp);
	}
	cp->pool = client_get(c->client, cp->p->c->kinds.pool, claim->ns, claim_pool(claim));
	if (cp->pool)
		cp->template = client_get(c->client, cp->p->c->kinds.template, claim->ns,
					  pool_template(cp->pool));
	claim_obtain(cp);
	if (cp->p->started)
		return again_wait();
	return cp->again_ms ? again_after(cp->again_ms) : report(cp);
}

struct again claim_reconcile(struct pass *p)
{
	autoptr(object) claim =
		client_get(p->c->client, p->c->kinds.claim, p->key->ns, p->key->name);
	struct claim_pass cp = { .p = p, .claim = claim };
	struct again again;
	usec ends;

	if (!claim)
		return again_never();
	drop_legacy_policy(p, claim);
	if (object_deleting(claim))
		return again_never();
	cp.note = notes_need(p->c->notes, claim, p->now);
	ends = claim_expires_at(claim, object_status(claim));
	if (ends && ends <= p->now)
		return reconcile_expired(p, claim);
	again = reconcile_living(&cp);
	object_unref(cp.pool);
	object_unref(cp.template);
	object_unref(cp.sandbox);
	trouble_done(&cp.trouble);
	return again;
}
