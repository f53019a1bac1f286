/* SPDX-License-Identifier: Apache-2.0 */
#include "control/reset/reset.h"

#include "api/agents.h"
#include "api/meta.h"
#include "api/view_pool.h"
#include "api/view_sandbox.h"
#include "api/view_template.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/index/index.h"
#include "control/index/links.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/event.h"
#include "control/pass/keys.h"
#include "control/pass/pass.h"
#include "control/pool/pool.h"
#include "control/reset/reset_priv.h"
#include "control/sandbox/sandbox.h"
#include "control/tally/tally.h"
#include "control/template/blueprint.h"

/*
 * A pass over a Sandbox that is being deleted and has our finalizer (docs/decisions/0101).
 *
 * The mark that it is being wiped is the time of its deletion, which nobody can take back, and what
 * goes into the pool is a new object of the same name. So no crash and no mistake here can hand out
 * a Sandbox that somebody has used: it would have to be un-deleted first. All that a crash between
 * the last two writes costs is the name; in one process they are one commit.
 */
_Static_assert(RESET_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

struct reset_objects {
	struct object *sandbox, *pool, *template;
	struct object **own; /* Pods, the Service and PVCs that it controls */
	size_t n_own;
};

/* A member on its way back. */
struct giving {
	struct list link; /* of resets->all */
	struct client_write write;
	struct resets *resets;
	struct json_doc *doc;
	char *ns, *name, *claim, *pool; /* name NULL: the pool does not count on it */
};

struct resets {
	struct context *c;
	struct list all;
};

/* Observing */

bool reset_cares(const struct object *sandbox)
{
	const struct sandbox_view *v = sandbox ? sandbox_view(sandbox) : NULL;

	return v && v->deleting && v->reset_first;
}

static void see_finalizers(const struct object *sb, struct reset_seen *ret)
{
	json_each(it, json_get(json_get(sb->root, "metadata"), "finalizers")) {
		const char *name = json_str(it.val);

		if (str_eq(name, FINALIZER_FOREGROUND))
			ret->foreground = true;
		else if (!str_eq(name, FINALIZER_RESET))
			ret->held++;
	}
}

/* A claim that is kept after its end goes on naming the Sandbox. */
static void see_claim(const struct pass *p, const struct object *sb, struct reset_seen *ret)
{
	const struct owner_view *owner = &sandbox_view(sb)->owner;
	autoptr(object) claim = NULL;

	ret->claimed = owner->type == OWNER_CLAIM;
	if (ret->claimed)
		claim = client_get(p->c->client, p->c->kinds.claim, sb->ns, owner->name);
	ret->claim_lives = claim && str_eq(claim->uid, owner->uid) && !object_deleting(claim);
}

static void see_pool(const struct pass *p, struct reset_objects *o, struct reset_seen *ret)
{
	const struct context *c = p->c;
	const char *ns = p->key->ns, *lender = sandbox_view(o->sandbox)->lent_by;
	const struct pool_view *v;
	const struct roster *r;

	if (str_empty(lender))
		return;
	o->pool = client_get(c->client, c->kinds.pool, ns, lender);
	if (!o->pool)
		return;
	v = pool_view(o->pool);
	ret->pool = !v->deleting;
	ret->desired = v->replicas;
	o->template = client_get(c->client, c->kinds.template, ns, v->template);
	ret->template = o->template && !template_view(o->template)->deleting;
	ret->resets = ret->template && template_view(o->template)->resets;
	r = index_roster(c->index, ns, o->pool->name);
	ret->members = (int64_t)(r->n_members + map_len(r->returning));
	if (v->refill == POOL_REFILL_RETURNED) /* it waits for the others that are still out */
		ret->members += index_lent_by(c->index, ns, o->pool->name) - 1;
}

/* Takes the reference. Not its own: nothing that a new Sandbox of the name should come across. */
static void see_own(struct reset_objects *o, struct reset_seen *ret, struct object *found)
{
	if (!found)
		return;
	if (object_controlled_by(found, o->sandbox->uid)) {
		o->own[o->n_own++] = found;
		return;
	}
	ret->strange = true;
	object_unref(found);
}

static void see_what_is_left(const struct pass *p, struct reset_objects *o, struct reset_seen *ret)
{
	const struct context *c = p->c;
	const struct object *sb = o->sandbox;
	const struct json *volumes = sandbox_view(sb)->blueprint.volume_templates;
	const struct map *pods = index_pods_of(c->index, sb->uid);
	struct object *by_name = client_get(c->client, c->kinds.pod, sb->ns, sb->name);

	o->own = xnew_n(struct object *, (pods ? map_len(pods) : 0) + json_len(volumes) + 2);
	map_each(it, pods)
		if (!by_name || !str_eq(((struct object *)it.value)->uid, by_name->uid))
			see_own(o, ret, object_ref(it.value));
	see_own(o, ret, by_name);
	see_own(o, ret, client_get(c->client, c->kinds.service, sb->ns, sb->name));
	json_each(it, volumes) {
		autofree char *name = pvc_name(it.val, sb->name);

		see_own(o, ret, client_get(c->client, c->kinds.pvc, sb->ns, name));
	}
	ret->left = (unsigned)o->n_own;
}

static void observe(const struct pass *p, struct reset_objects *o, struct reset_seen *ret)
{
	const struct links *links = p->c->links;
	const char *ns = p->key->ns, *name = p->key->name;

	see_finalizers(o->sandbox, ret);
	see_claim(p, o->sandbox, ret);
	see_pool(p, o, ret);
	see_what_is_left(p, o, ret);
	ret->named = links_count(links, LINK_SANDBOX_ATTACHMENTS, ns, name) ||
		     links_count(links, LINK_SANDBOX_SESSIONS, ns, name);
}

static void objects_done(struct reset_objects *o)
{
	for (size_t i = 0; i < o->n_own; i++)
		object_unref(o->own[i]);
	free(o->own);
	object_unref(o->sandbox);
	object_unref(o->pool);
	object_unref(o->template);
}

/* Giving back */

/* Whatever came of it, the pool may count again. */
static void return_ends(const struct giving *g)
{
	struct context *c = g->resets->c;
	struct roster *r = index_find_roster(c->index, g->ns, g->pool);

	if (r)
		roster_return_ends(r, g->name);
	item_wake(c->queue, CONTROL_POOL, g->ns, g->pool);
}

static void giving_free(void *arg)
{
	struct giving *g = arg;

	client_cancel(&g->write);
	list_del(&g->link);
	if (g->name)
		return_ends(g);
	free(g->name);
	json_doc_free(g->doc);
	free(g->ns);
	free(g->claim);
	free(g->pool);
	free(g);
}

struct resets *resets_new(struct context *c)
{
	struct resets *r = xnew(struct resets);

	r->c = c;
	list_init(&r->all);
	return r;
}

void resets_free(struct resets *r)
{
	if (!r)
		return;
	while (!list_empty(&r->all))
		giving_free(list_first(&r->all, struct giving, link));
	free(r);
}

static void tell_returned(const struct giving *g, const struct object *sb)
{
	struct context *c = g->resets->c;
	autofree char *note = xasprintf("Made anew after the end of SandboxClaim \"%s\" and "
					"returned to SandboxWarmPool \"%s\"",
					g->claim, g->pool);
	const struct event_spec spec = { sb, WHO_POOL, "Normal", "SandboxReturned", "Reset", note };

	if (!c->opt.no_sandbox_events)
		event_send(c, event_build(&spec, context_now(c)));
}

static void given(struct client_write *w, struct err *e, struct object *obj)
{
	struct giving *g = container_of(w, struct giving, write);

	tally_reset(g->resets->c->tally, !e);
	if (e)
		log_debug("a Sandbox was not put back, its pool makes another",
			  KV("namespace", g->ns), KV("pool", g->pool), KV("err", e));
	else
		tell_returned(g, obj);
	err_free(e);
	giving_free(g);
}

/* The old one is gone: its name is free. */
static void give(struct context *c, void *arg)
{
	struct giving *from = arg, *g = xnew(struct giving);
	const struct client_ref to = { .kind = c->kinds.sandbox, .ns = from->ns };

	*g = (struct giving){ .write.done = given,
			      .resets = from->resets,
			      .ns = xstrdup(from->ns),
			      .name = take(from->name),
			      .claim = take(from->claim),
			      .pool = take(from->pool) };
	list_add_tail(&g->resets->all, &g->link);
	client_create(c->client, &to, take(from->doc), &g->write); /* g may be gone now */
}

/* As the pool makes them now, with the name of the one before. */
static struct json_doc *member_again(const struct reset_objects *o)
{
	char blueprint[9], pod[9], count[24];
	struct json_doc *d;
	struct json *meta;

	blueprint_hash(o->template, blueprint);
	blueprint_pod_hash(o->template, pod);
	d = member_build(o->pool, o->template, blueprint, pod);
	meta = json_get(json_root(d), "metadata");
	(void)json_del(meta, "generateName");
	json_set_str(d, meta, "name", o->sandbox->name);
	(void)snprintf(count, sizeof(count), "%lld",
		       (long long)sandbox_view(o->sandbox)->resets + 1);
	json_set_str(d, json_need_obj(d, meta, "annotations"), KEY_RESETS, count);
	return d;
}

/* Acting */

static struct json_doc *release_patch(const struct object *sb)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *list = json_arr(d);

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	draft_guard(d, meta, sb);
	json_each(it, json_get(json_get(sb->root, "metadata"), "finalizers"))
		if (!str_eq(json_str(it.val), FINALIZER_RESET))
			json_push(d, list, json_copy(d, it.val));
	(void)json_set(d, meta, "finalizers", json_len(list) ? list : json_new_null(d));
	return d;
}

static struct json_doc *refusal(struct pass *p, const struct object *sb, const char *why)
{
	autofree char *note = xasprintf("Deleted instead of being returned: %s", why);
	const struct event_spec spec = {
		sb, WHO_POOL, "Normal", "SandboxNotReturned", "Reset", note
	};

	return p->c->opt.no_sandbox_events ? NULL : event_build(&spec, p->now);
}

static void count_deleted(struct context *c, void *arg unused)
{
	tally_reset(c->tally, false);
}

static void act_release(struct pass *p, const struct reset_objects *o, const char *why)
{
	const struct write w = { .name = RESET_WRITE_RELEASE,
				 .to = ref_of(o->sandbox),
				 .event = refusal(p, o->sandbox, why),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK,
				 .worked = count_deleted };

	pass_patch(p, &w, release_patch(o->sandbox));
}

static void act_return(struct pass *p, const struct reset_objects *o)
{
	struct giving *g = xnew(struct giving);
	const struct write w = { .name = RESET_WRITE_RELEASE,
				 .to = ref_of(o->sandbox),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK,
				 .worked = give,
				 .arg = g,
				 .drop_arg = giving_free };

	list_init(&g->link);
	g->resets = p->own;
	g->doc = member_again(o);
	g->ns = xstrdup(o->sandbox->ns);
	g->name = xstrdup(o->sandbox->name);
	g->claim = xstrdup(sandbox_view(o->sandbox)->owner.name);
	g->pool = xstrdup(o->pool->name);
	roster_return_begins(index_roster(p->c->index, g->ns, g->pool), g->name);
	pass_patch(p, &w, release_patch(o->sandbox));
}

static void act_wipe(struct pass *p, const struct reset_objects *o)
{
	for (size_t i = 0; i < o->n_own; i++) {
		const struct object *it = o->own[i];
		const struct write w = { .name = it->kind == p->c->kinds.pod ? RESET_WRITE_POD
						 : it->kind == p->c->kinds.pvc
							 ? RESET_WRITE_PVC
							 : RESET_WRITE_SERVICE,
					 .to = ref_of(it),
					 .what = "wipe",
					 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };

		if (!object_deleting(it))
			pass_delete_uid(p, &w, it->uid);
	}
}

static void act(struct pass *p, const struct reset_objects *o, const struct reset_plan *plan)
{
	switch (plan->step) {
	case RESET_STEP_WIPE:
		act_wipe(p, o);
		break;
	case RESET_STEP_RETURN:
		act_return(p, o);
		break;
	case RESET_STEP_RELEASE:
		act_release(p, o, plan->why);
		break;
	}
}

struct again reset_reconcile(struct pass *p)
{
	struct reset_objects o = { 0 };
	struct reset_seen seen = { 0 };
	struct reset_plan plan;
	struct err *e = pass_take_error(p);

	if (e)
		return again_retry(e);
	o.sandbox = client_get(p->c->client, p->c->kinds.sandbox, p->key->ns, p->key->name);
	if (reset_cares(o.sandbox)) {
		observe(p, &o, &seen);
		plan = reset_decide(&seen);
		act(p, &o, &plan);
	}
	objects_done(&o);
	return p->started ? again_wait() : again_never();
}
