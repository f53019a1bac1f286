/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate.h"

#include "api/cay/cay.h"
#include "api/registry.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/str.h"
#include "gate/gate_priv.h"

/*
 * The watches that the decision rests on, and the policy of client/access.h. A change of an object
 * is only noted within the watch; what waits for it, and what is open because of how it was, is
 * looked at later in the same turn.
 */
static void object_drop(void *p)
{
	object_unref(p);
}

static void shelf_drop(void *p)
{
	map_free(p);
}

static void shelf_del(struct map *shelf, const char *at, const struct object *o)
{
	struct map *place = map_get(shelf, at);

	if (!place)
		return;
	(void)map_del(place, o->name);
	if (!map_len(place))
		(void)map_del(shelf, at);
}

static void shelf_put(struct map *shelf, const char *at, struct object *o)
{
	struct map *place = map_get(shelf, at);

	if (!place) {
		place = map_new(object_drop);
		map_put(shelf, at, place);
	}
	map_put(place, o->name, object_ref(o));
}

static void note(struct gate *g, bool rights)
{
	g->rights_changed |= rights;
	deferred_call(&g->changed);
}

static void agent_changed(void *arg, struct object *was, struct object *now)
{
	struct gate *g = arg;

	if (was && now && object_generation(was) == object_generation(now) &&
	    agent_view(was)->deleting == agent_view(now)->deleting)
		return; /* its status */
	standings_forget(g);
	note(g, true);
}

static void policy_changed(void *arg, struct object *was unused, struct object *now unused)
{
	standings_forget(arg);
	note(arg, true);
}

static void session_changed(void *arg, struct object *was, struct object *now)
{
	bool before = was && !session_view(was)->ended && !session_view(was)->deleting;
	bool after = now && !session_view(now)->ended && !session_view(now)->deleting;

	if (before && !after)
		note(arg, true);
}

static char *attachment_key(const struct object *o)
{
	return xasprintf("%s/%s", o->ns, attachment_view(o)->sandbox);
}

static void attachment_changed(void *arg, struct object *was, struct object *now)
{
	struct gate *g = arg;
	autofree char *from = was ? attachment_key(was) : NULL;
	autofree char *to = now ? attachment_key(now) : NULL;

	if (from)
		shelf_del(g->attachments, from, was);
	if (to)
		shelf_put(g->attachments, to, now);
	/* Commands go on seeing what they saw when they began. */
	if (g->access && was && now && attachment_view(was)->view != attachment_view(now)->view)
		map_put(g->reseen, now->uid, g);
	if (was)
		note(g, true);
}

static char *approval_key(const struct object *o)
{
	const struct approval_view *v = approval_view(o);

	return xasprintf("%s/%s/%s", o->ns, v->agent, v->digest);
}

static void approval_changed(void *arg, struct object *was, struct object *now)
{
	struct gate *g = arg;
	autofree char *from = was ? approval_key(was) : NULL;
	autofree char *to = now ? approval_key(now) : NULL;

	if (from)
		shelf_del(g->approvals, from, was);
	if (to)
		shelf_put(g->approvals, to, now);
	note(g, false);
}

static void pod_changed(void *arg unused, struct object *was unused, struct object *now unused)
{
	/* Only read, to find the Sandbox of a Pod. */
}

/* Those that live, and whose session does. */
struct attached {
	struct gate *gate;
	struct map *uids; /* NULL: nobody has asked yet */
};

static void note_attached(struct gate *g, struct map *uids, struct object *o)
{
	autoptr(object) session =
		client_get(g->client, g->session, o->ns, attachment_view(o)->session);

	if (session && !session_view(session)->ended && !session_view(session)->deleting &&
	    !attachment_view(o)->deleting)
		map_put(uids, o->uid, g);
}

/* What has changed its view is not the same attachment to those who began before. */
static bool is_attached(void *arg, const char *uid)
{
	struct attached *a = arg;

	if (!a->uids) {
		a->uids = map_new(NULL);
		map_each(place, a->gate->attachments)
			map_each(it, place.value)
				note_attached(a->gate, a->uids, it.value);
	}
	return map_has(a->uids, uid) && !map_has(a->gate->reseen, uid);
}

/* What was started by an attachment ends with it. Not before it is known which there are: what
 * ran before a restart goes on. */
static void end_detached(struct gate *g)
{
	const unsigned needed = 1u << WATCH_SESSIONS | 1u << WATCH_ATTACHMENTS;
	struct attached a = { .gate = g };

	if (!g->access || (g->synced & needed) != needed)
		return;
	access_keep_attached(g->access, is_attached, &a);
	map_free(a.uids);
	map_free(g->reseen);
	g->reseen = map_new(NULL);
}

static void on_changed(void *arg)
{
	struct gate *g = arg;
	bool rights = g->rights_changed;

	g->rights_changed = false;
	questions_look(g);
	if (rights && g->access)
		access_review(g->access);
	if (rights)
		end_detached(g);
}

/* The policy */

static struct gate_ask gate_ask_of(const struct access_ask *ask)
{
	return (struct gate_ask){
		.user = ask->to->user,
		.ns = str_or(ask->to->ns, ""),
		.pod = ask->to->pod,
		.door = door_of(ask),
		.deed = { .argv = ask->argv },
	};
}

enum access_view gate_view(enum attachment_viewpoint v)
{
	static const enum access_view views[VIEW_MAX_] = {
		[VIEW_SHARED] = ACCESS_VIEW_SHARED,
		[VIEW_READ_ONLY] = ACCESS_VIEW_READ_ONLY,
		[VIEW_SCRATCH] = ACCESS_VIEW_SCRATCH,
	};

	return views[v];
}

static void on_ask(void *arg, const struct access_ask *ask, struct access_question *q)
{
	struct gate *g = arg;
	const struct gate_ask what = gate_ask_of(ask);
	struct gate_answer a;

	gate_decide(g, &what, &a);
	switch (a.verdict) {
	case VERDICT_ALLOW:
		q->allowed(q, &(struct access_permit){ a.attachment, a.uid, gate_view(a.view) });
		break;
	case VERDICT_DENY:
		q->refused(q, take(a.why));
		break;
	case VERDICT_ASK:
		if (ask->input_known || ask->tty)
			question_ask(g, ask, &a, q);
		else
			q->after_input(q);
		break;
	case VERDICT_MAX_:
		break;
	}
}

static void on_cancel(void *arg, struct access_question *q)
{
	question_cancel(arg, q);
}

static bool on_stands(void *arg, const struct access_ask *ask, const struct access_permit *p)
{
	static const enum attachment_viewpoint views[] = {
		[ACCESS_VIEW_SHARED] = VIEW_SHARED,
		[ACCESS_VIEW_READ_ONLY] = VIEW_READ_ONLY,
		[ACCESS_VIEW_SCRATCH] = VIEW_SCRATCH,
	};
	const struct gate_ask what = gate_ask_of(ask);
	const struct gate_permit by = { p->attachment, p->uid, views[p->view] };

	return gate_grants(arg, &what, &by);
}

static void sessions_synced(void *arg)
{
	struct gate *g = arg;

	g->synced |= 1u << WATCH_SESSIONS;
	note(g, true);
}

static void attachments_synced(void *arg)
{
	struct gate *g = arg;

	g->synced |= 1u << WATCH_ATTACHMENTS;
	note(g, true);
}

static void watch(struct gate *g, enum gate_watch which, const struct kind *k,
		  void (*changed)(void *arg, struct object *was, struct object *now))
{
	const struct client_watch_events ev = {
		.changed = changed,
		.synced = which == WATCH_SESSIONS      ? sessions_synced
			  : which == WATCH_ATTACHMENTS ? attachments_synced
						       : NULL,
	};

	g->watches[which] =
		client_watch(g->client, &(struct client_watch_spec){ .kind = k }, &ev, g);
}

struct gate *gate_new(const struct gate_spec *spec)
{
	struct gate *g = xnew(struct gate);
	const struct kinds *kinds = client_kinds(spec->client);

	g->loop = spec->loop;
	g->client = spec->client;
	g->access = spec->access;
	g->agent = kinds_need(kinds, API_CAY, "Agent");
	g->session = kinds_need(kinds, API_CAY, "Session");
	g->attachment = kinds_need(kinds, API_CAY, "Attachment");
	g->approval = kinds_need(kinds, API_CAY, "Approval");
	g->policy = kinds_need(kinds, API_CAY, "TeamPolicy");
	g->pod = kinds_need(kinds, "v1", "Pod");
	g->attachments = map_new(shelf_drop);
	g->approvals = map_new(shelf_drop);
	g->reseen = map_new(NULL);
	list_init(&g->questions);
	deferred_init(&g->changed, g->loop, on_changed, g);
	standings_forget(g);
	watch(g, WATCH_AGENTS, g->agent, agent_changed);
	watch(g, WATCH_SESSIONS, g->session, session_changed);
	watch(g, WATCH_ATTACHMENTS, g->attachment, attachment_changed);
	watch(g, WATCH_APPROVALS, g->approval, approval_changed);
	watch(g, WATCH_POLICIES, g->policy, policy_changed);
	watch(g, WATCH_PODS, g->pod, pod_changed);
	if (g->access)
		access_set_policy(g->access,
				  &(struct access_policy){ .loop = g->loop,
							   .ask = on_ask,
							   .cancel = on_cancel,
							   .stands = on_stands },
				  g);
	return g;
}

void gate_metrics(const struct gate *g, struct buf *b)
{
	metrics_gauge(b, "cay_approvals_waiting", "Operations that wait for an approval.",
		      g->n_questions);
}

void gate_free(struct gate *g)
{
	if (!g)
		return;
	if (g->access)
		access_set_policy(g->access, NULL, NULL);
	questions_free(g);
	for (size_t i = 0; i < WATCH_MAX_; i++)
		client_watch_free(g->watches[i]);
	deferred_cancel(&g->changed);
	map_free(g->standings);
	map_free(g->reseen);
	map_free(g->attachments);
	map_free(g->approvals);
	free(g);
}
