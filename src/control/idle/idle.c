/* SPDX-License-Identifier: Apache-2.0 */
#include "control/idle/idle.h"

#include "api/agents.h"
#include "api/meta.h"
#include "api/view_claim.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/access.h"
#include "control/idle/idle_priv.h"
#include "control/pass/draft.h"
#include "control/pass/event.h"
#include "control/pass/keys.h"
#include "control/pass/pass.h"

/*
 * One pass over a Sandbox that may sleep. The node says how its Pod is used; the step that follows
 * is taken in the same turn of the loop, so that no request comes in between.
 */

/* What the passes write. */
enum idle_write {
	IDLE_WRITE_MODE,
	IDLE_WRITE_DELETE,
	IDLE_WRITE_STATUS,
	IDLE_WRITE_MAX_,
};
_Static_assert(IDLE_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

static void nap_free(void *arg)
{
	struct nap *n = arg;

	free(n->uid);
	free(n->told);
	free(n);
}

struct idle *idle_new(struct context *c)
{
	struct idle *i = xnew(struct idle);

	i->c = c;
	i->naps = map_new(nap_free);
	return i;
}

void idle_free(struct idle *i)
{
	if (!i)
		return;
	map_free(i->naps);
	free(i);
}

struct nap *idle_find_nap(const struct idle *i, const char *ns, const char *name)
{
	autofree char *key = xasprintf("%s/%s", ns, name);

	return map_get(i->naps, key);
}

void idle_drop_nap(struct idle *i, const char *ns, const char *name)
{
	autofree char *key = xasprintf("%s/%s", ns, name);

	(void)map_del(i->naps, key);
}

struct nap *idle_nap(struct idle *i, const struct object *sandbox)
{
	autofree char *key = xasprintf("%s/%s", sandbox->ns, sandbox->name);
	struct nap *n = map_get(i->naps, key);

	if (n && str_eq(n->uid, sandbox->uid))
		return n;
	n = xnew(struct nap);
	n->uid = xstrdup(sandbox->uid);
	map_put(i->naps, key, n);
	return n;
}

void idle_forget(struct idle *i, const struct object *sandbox)
{
	idle_drop_nap(i, sandbox->ns, sandbox->name);
}

bool idle_cares(const struct idle *i, const struct object *was, const struct object *now)
{
	struct object *levels[IDLE_LEVELS];
	bool cares = false;

	if (!now || sandbox_view(now)->in_pool)
		return false;
	if (idle_find_nap(i, now->ns, now->name) || object_annotation(now, KEY_ASLEEP_SINCE))
		return true;
	if (was && sandbox_view(was)->ready.is_true == sandbox_view(now)->ready.is_true &&
	    sandbox_view(was)->owner.type == sandbox_view(now)->owner.type &&
	    !idle_policy_differs(was, now))
		return false;
	idle_levels(i->c, now, levels);
	for (int k = 0; k < IDLE_LEVELS; k++)
		cares |= idle_has_policy(levels[k]);
	idle_levels_done(levels);
	return cares;
}

void idle_tell(struct idle *i, const struct object *sandbox, const char *type, const char *reason,
	       const char *note)
{
	const struct event_spec spec = { sandbox, WHO_SANDBOX, type, reason, "Sleep", note };

	if (!i->c->opt.no_sandbox_events)
		event_send(i->c, event_build(&spec, context_now(i->c)));
}

/* Each warning once, for as long as it is the same. Takes text over. */
static void warn(struct idle *i, const struct object *sandbox, const char *reason, char *text)
{
	struct nap *n = idle_nap(i, sandbox);

	if (str_eq(n->told, text)) {
		free(text);
		return;
	}
	idle_tell(i, sandbox, "Warning", reason, text);
	free(n->told);
	n->told = text;
}

/* Observe */

static enum idle_sleep said(const struct object *sandbox)
{
	struct condition_view c =
		condition_view_of(json_get(object_status(sandbox), "conditions"), "Asleep");

	if (!c.is_true)
		return IDLE_AWAKE;
	return str_eq(c.reason, "Frozen") ? IDLE_FROZEN : IDLE_SUSPENDED;
}

static struct access_target target_of(const struct object *sandbox)
{
	return (struct access_target){ .ns = sandbox->ns, .pod = sandbox_view(sandbox)->pod_name };
}

/* Only of a Sandbox that has a policy, or may be frozen without one, is the Pod looked at. */
static void see_use(const struct idle *i, const struct object *sandbox, struct idle_seen *seen)
{
	const struct control_options *o = &i->c->opt;
	const struct access_target of = target_of(sandbox);
	struct access_activity activity;

	seen->ready = o->access && sandbox_view(sandbox)->ready.is_true;
	if (!seen->ready || !access_activity(o->access, &of, &activity))
		return;
	seen->known = true;
	seen->frozen = activity.frozen;
	seen->idle_us = clock_mono() - activity.last_us;
	seen->awaited = o->awaited && o->awaited(o->awaited_arg, sandbox->ns, sandbox->name);
}

static struct idle_seen observe(const struct idle *i, const struct object *sandbox,
				const struct idle_policy *policy)
{
	const struct sandbox_view *v = sandbox_view(sandbox);
	const struct nap *nap = idle_find_nap(i, sandbox->ns, sandbox->name);
	struct idle_seen seen = {
		.lives = !v->deleting && !v->in_pool,
		.suspended = v->suspended,
		.marked = object_annotation(sandbox, KEY_ASLEEP_SINCE),
		.refused = nap && nap->refused,
		.was = said(sandbox),
		.policy = policy,
	};

	if (seen.lives && !v->suspended)
		see_use(i, sandbox, &seen);
	return seen;
}

/* Act */

static void set_mode(struct pass *p, const struct object *sandbox, bool suspended)
{
	const struct write w = { .name = IDLE_WRITE_MODE,
				 .to = ref_of(sandbox),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *notes;
	char now[CLOCK_TEXT_MAX];

	clock_format(p->now, now);
	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	draft_guard(d, meta, sandbox);
	notes = json_need_obj(d, meta, "annotations");
	if (suspended) {
		json_set_str(d, notes, KEY_ASLEEP_SINCE, now);
		json_set_str(d, json_need_obj(d, root, "spec"), "operatingMode", "Suspended");
	} else {
		json_set(d, notes, KEY_ASLEEP_SINCE, json_new_null(d));
	}
	pass_patch(p, &w, d);
}

static void remove_it(struct pass *p, const struct object *sandbox)
{
	const struct owner_view *owner = &sandbox_view(sandbox)->owner;
	autoptr(object) claim =
		owner->type == OWNER_CLAIM
			? client_get(p->c->client, p->c->kinds.claim, sandbox->ns, owner->name)
			: NULL;
	const struct object *what = claim ? claim : sandbox;
	const struct write w = { .name = IDLE_WRITE_DELETE,
				 .to = ref_of(what),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };

	pass_delete_uid(p, &w, what->uid);
}

static void tell_asleep(struct idle *i, const struct object *sandbox,
			const struct idle_policy *policy)
{
	static const struct {
		const char *reason, *what;
	} rows[IDLE_ACTION_MAX_] = {
		[IDLE_ACTION_FREEZE] = { "SandboxFrozen", "Frozen" },
		[IDLE_ACTION_SUSPEND] = { "SandboxIdleSuspended", "Suspended" },
		[IDLE_ACTION_DELETE] = { "SandboxIdleDeleted", "Deleted" },
	};
	autofree char *note =
		xasprintf("%s: nobody has used it for %llu s", rows[policy->action].what,
			  (unsigned long long)policy->after_ms / 1000);

	idle_tell(i, sandbox, "Normal", rows[policy->action].reason, note);
}

/* True: it sleeps now. */
static bool freeze(struct idle *i, const struct object *sandbox, const struct idle_policy *policy)
{
	const struct access_target of = target_of(sandbox);
	autoptr(err) e = access_freeze(i->c->opt.access, &of);

	if (err_is(e, ERR_UNAVAILABLE))
		return false; /* somebody came just now, or it is starting or ending */
	if (e) {
		idle_nap(i, sandbox)->refused = err_is(e, ERR_UNSUPPORTED);
		warn(i, sandbox, "FreezeFailed", xstrdup(err_text(e)));
		return false;
	}
	i->counts.sleeps[IDLE_FROZEN]++;
	tell_asleep(i, sandbox, policy);
	return true;
}

/* Returns what it is now, as far as that is known at once. */
static enum idle_sleep act(struct pass *p, const struct object *sandbox,
			   const struct idle_plan *plan, const struct idle_policy *policy)
{
	struct idle *i = p->own;
	const struct access_target of = target_of(sandbox);

	switch (plan->step) {
	case IDLE_STEP_NONE:
		break;
	case IDLE_STEP_FREEZE:
		return freeze(i, sandbox, policy) ? IDLE_FROZEN : plan->now;
	case IDLE_STEP_THAW:
		access_thaw(i->c->opt.access, &of);
		return IDLE_AWAKE;
	case IDLE_STEP_SUSPEND:
		i->counts.sleeps[IDLE_SUSPENDED]++;
		tell_asleep(i, sandbox, policy);
		set_mode(p, sandbox, true);
		break;
	case IDLE_STEP_DELETE:
		i->counts.deleted++;
		tell_asleep(i, sandbox, policy);
		remove_it(p, sandbox);
		break;
	case IDLE_STEP_UNMARK:
		set_mode(p, sandbox, false);
		break;
	}
	return plan->now;
}

/* Report */

struct asleep {
	const char *status, *reason, *message;
};

/* What the condition says. One that its user has suspended does not sleep, but is not awake. */
static struct asleep asleep_of(const struct object *sandbox, enum idle_sleep now,
			       enum idle_wakes wakes)
{
	static const struct asleep rows[IDLE_SLEEP_MAX_] = {
		[IDLE_AWAKE] = { "False", "Woken", "Sandbox is awake" },
		[IDLE_FROZEN] = { "True", "Frozen",
				  "Its processes are frozen until somebody needs them" },
		[IDLE_SUSPENDED] = { "True", "Suspended",
				     "It was suspended because nobody used it; a request or a packet wakes it" },
	};
	static const struct asleep by_user = { "False", "SuspendedByUser",
					       "It is suspended until its mode is Running again" };
	struct asleep a = rows[now];

	if (now == IDLE_AWAKE && sandbox_view(sandbox)->suspended)
		return by_user;
	if (now == IDLE_SUSPENDED && wakes == IDLE_WAKES_NONE)
		a.message = "It was suspended because nobody used it";
	return a;
}

static void report(struct pass *p, const struct object *sandbox, enum idle_sleep was,
		   enum idle_sleep now, enum idle_wakes wakes)
{
	const struct asleep says = asleep_of(sandbox, now, wakes);
	struct write w = { .name = IDLE_WRITE_STATUS,
			   .to = ref_of(sandbox),
			   .flags = WRITE_QUIET | WRITE_GONE_OK };
	const struct condition c = {
		"Asleep", says.status, says.reason, says.message, sandbox_view(sandbox)->generation,
		NULL
	};
	autoptr(json_doc) want = NULL;
	struct json_doc *patch;

	if (was == now)
		return;
	w.to.sub = "status";
	want = draft_status(sandbox);
	conditions_upsert(want, json_need_arr(want, json_root(want), "conditions"), &c, p->now);
	patch = draft_status_patch(sandbox, json_root(want));
	if (patch)
		pass_patch(p, &w, patch);
}

static void complain(struct idle *i, const struct object *sandbox, const struct idle_policy *policy)
{
	const struct idle_bad *b = &policy->bad;

	if (b->key)
		warn(i, sandbox, "InvalidIdlePolicy",
		     xasprintf("%s: %s of %s %s must be %s", b->key, b->value, b->kind, b->name,
			       b->allowed));
	else if (policy->after_ms && !i->c->opt.access)
		warn(i, sandbox, "IdleUnsupported",
		     xasprintf("%s has no effect here: it needs cay serve, which knows how "
			       "sandboxes are used",
			       KEY_IDLE_AFTER));
}

static struct again pass_over(struct pass *p, const struct object *sandbox,
			      const struct idle_policy *policy)
{
	struct idle *i = p->own;
	struct idle_seen seen = observe(i, sandbox, policy);
	struct idle_plan plan = idle_decide(&seen);
	enum idle_sleep now;
	struct nap *nap;

	complain(i, sandbox, policy);
	now = act(p, sandbox, &plan, policy);
	if (!p->started)
		report(p, sandbox, seen.was, now, policy->wakes);
	if (!policy->after_ms && !policy->bad.key && now == IDLE_AWAKE && !seen.suspended &&
	    !seen.marked) {
		idle_drop_nap(i, sandbox->ns, sandbox->name);
		return again_never();
	}
	nap = idle_nap(i, sandbox);
	nap->is = now;
	if (seen.known)
		idle_woke(i, sandbox, nap);
	if (!plan.look_ms ||
	    (now == IDLE_FROZEN && seen.known && policy->action == IDLE_ACTION_FREEZE))
		return again_never();
	return again_after(plan.look_ms);
}

struct again idle_reconcile(struct pass *p)
{
	struct idle *i = p->own;
	autoptr(object) sandbox =
		client_get(p->c->client, p->c->kinds.sandbox, p->key->ns, p->key->name);
	struct object *levels[IDLE_LEVELS];
	struct idle_policy policy;
	struct again again;
	struct err *e;

	if (!sandbox || sandbox_view(sandbox)->deleting) {
		idle_drop_nap(i, p->key->ns, p->key->name);
		return again_never();
	}
	e = pass_take_error(p);
	if (e)
		return again_retry(e);
	idle_levels(p->c, sandbox, levels);
	policy = idle_policy_of((const struct object *const *)levels);
	again = pass_over(p, sandbox, &policy);
	idle_levels_done(levels);
	return p->started ? again_wait() : again;
}
