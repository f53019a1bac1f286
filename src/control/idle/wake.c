/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/access.h"
#include "client/client.h"
#include "control/idle/idle_priv.h"
#include "control/pass/draft.h"
#include "control/pass/item.h"
#include "control/pass/pass.h"

/*
 * How sleep ends. A frozen Sandbox has been thawed by the node when we hear of it. A suspended one
 * is started by one patch, which also removes the mark of its sleep: whoever comes second finds a
 * Sandbox that is starting.
 */
static bool may_wake(const struct idle *i, const struct object *sandbox)
{
	struct object *levels[IDLE_LEVELS];
	struct idle_policy policy;

	if (object_annotation(sandbox, KEY_SUSPENDED_BY))
		return false; /* nobody pays for it */
	idle_levels(i->c, sandbox, levels);
	policy = idle_policy_of((const struct object *const *)levels);
	idle_levels_done(levels);
	switch (policy.wakes) {
	case IDLE_WAKES_ITS_OWN:
		return object_annotation(sandbox, KEY_ASLEEP_SINCE);
	case IDLE_WAKES_ANY:
		return true;
	case IDLE_WAKES_NONE:
	case IDLE_WAKES_MAX_:
		break;
	}
	return false;
}

static struct json_doc *running(const struct object *sandbox)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta;

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	draft_guard_uid(d, meta, sandbox);
	json_set(d, json_need_obj(d, meta, "annotations"), KEY_ASLEEP_SINCE, json_new_null(d));
	json_set_str(d, json_need_obj(d, root, "spec"), "operatingMode", "Running");
	return d;
}

bool idle_wake(struct idle *i, const char *ns, const char *name, const char *cause)
{
	autoptr(object) sandbox = client_get(i->c->client, i->c->kinds.sandbox, ns, name);
	const struct sandbox_view *v = sandbox ? sandbox_view(sandbox) : NULL;
	struct client_ref to;
	struct nap *nap;

	if (!v || v->deleting || v->in_pool || sandbox_says_expired(v))
		return false;
	if (!v->suspended) {
		nap = idle_find_nap(i, ns, name);
		return nap && nap->waking_since;
	}
	if (!may_wake(i, sandbox))
		return false;
	nap = idle_nap(i, sandbox);
	nap->waking_since = clock_mono();
	nap->waking = cause;
	to = ref_of(sandbox);
	client_patch(i->c->client, &to, PATCH_MERGE, running(sandbox), NULL);
	item_wake(i->c->chores, CONTROL_IDLE, ns, name);
	return true;
}

static void tell(struct idle *i, const struct object *sandbox, const char *cause, usec took)
{
	autofree char *note = xasprintf("Woken by %s in %lld.%03d ms", cause,
					(long long)took / 1000, (int)(took % 1000));

	idle_tell(i, sandbox, "Normal", "SandboxWoken", note);
}

void idle_woke(struct idle *i, const struct object *sandbox, struct nap *nap)
{
	usec took = clock_mono() - nap->waking_since;

	if (!nap->waking_since)
		return;
	nap->waking_since = 0;
	idle_count_wake(&i->counts, IDLE_SUSPENDED, nap->waking, took);
	tell(i, sandbox, nap->waking, took);
}

void idle_thawed(struct idle *i, const struct access_wake *w)
{
	autoptr(object) pod = client_get(i->c->client, i->c->kinds.pod, w->ns, w->pod);
	struct owner_view owner = { 0 };
	autoptr(object) sandbox = NULL;

	if (pod)
		owner = owner_view_of(pod);
	if (owner.type == OWNER_SANDBOX)
		sandbox = client_get(i->c->client, i->c->kinds.sandbox, w->ns, owner.name);
	if (!sandbox)
		return;
	idle_count_wake(&i->counts, IDLE_FROZEN, w->cause, w->took_us);
	tell(i, sandbox, w->cause, w->took_us);
	item_wake(i->c->chores, CONTROL_IDLE, sandbox->ns, sandbox->name);
}
