/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate.h"

#include "api/agents.h"
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

static void note_egress(struct gate *g)
{
	g->egress_differs = true;
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
	struct gate *g = arg;

	g->n_sessions += (size_t)after - (size_t)before;
	if (before && !after)
		note(g, true);
	if (before != after)
		note_egress(g);
}

static void attachment_unshelve(struct gate *g, const struct object *o)
{
	const struct attachment_view *v = attachment_view(o);
	autofree char *at = xasprintf("%s/%s", o->ns, v->sandbox);
	autofree char *of_agent = xasprintf("%s/%s", at, v->agent);

	(void)map_del(g->by_uid, o->uid);
	shelf_del(g->by_agent, of_agent, o);
	shelf_del(g->attachments, at, o);
}

static void attachment_shelve(struct gate *g, struct object *o)
{
	const struct attachment_view *v = attachment_view(o);
	autofree char *at = xasprintf("%s/%s", o->ns, v->sandbox);
	autofree char *of_agent = xasprintf("%s/%s", at, v->agent);

	shelf_put(g->attachments, at, o);
	shelf_put(g->by_agent, of_agent, o);
	map_put(g->by_uid, o->uid, object_ref(o));
}

/* Its status also has what it costs, which changes all the time. */
static bool grants_alike(const struct object *was, const struct object *now)
{
	const struct attachment_view *a = attachment_view(was), *b = attachment_view(now);

	return a->ready.is_true == b->ready.is_true && a->deleting == b->deleting &&
	       a->rights == b->rights && a->view == b->view && str_eq(a->session, b->session) &&
	       str_eq(a->sandbox, b->sandbox) && str_eq(a->agent, b->agent);
}

static void attachment_changed(void *arg, struct object *was, struct object *now)
{
	struct gate *g = arg;

	if (was)
		attachment_unshelve(g, was);
	if (now)
		attachment_shelve(g, now);
	/* Commands go on seeing what they saw when they began. */
	if (g->access && was && now && attachment_view(was)->view != attachment_view(now)->view)
		map_put(g->reseen, now->uid, g);
	if (was && !(now && grants_alike(was, now)))
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
	lookups_count(g, was, now);
	note(g, false);
}

/* Its status also has what was used, which changes all the time. */
static void budget_changed(void *arg, struct object *was, struct object *now)
{
	if (budget_suspends(was) != budget_suspends(now))
		note(arg, true);
}

static void only_read(void *arg unused, struct object *was unused, struct object *now unused)
{
	/* Pods are read to find the Sandbox of one. */
}

static bool is_labelled(const struct object *o)
{
	return o && object_label(o, KEY_AGENT);
}

/* Of a Sandbox or a claim. */
static void labelled_changed(struct gate *g, const struct object *was, const struct object *now)
{
	bool before = is_labelled(was), after = is_labelled(now);

	g->n_labelled += (size_t)after - (size_t)before;
	if (before != after ||
	    (after && !str_eq(object_label(was, KEY_AGENT), object_label(now, KEY_AGENT))))
		note_egress(g);
}

static void claim_changed(void *arg, struct object *was, struct object *now)
{
	labelled_changed(arg, was, now);
}

static void sandbox_changed(void *arg, struct object *was, struct object *now)
{
	labelled_changed(arg, was, now);
	if (was && !now)
		records_forget(arg, was);
}

/* Whether what it started may go on: it still grants something, and the right to run commands if it
 * was for that, and no budget suspends its agent. What has changed its view is not the same
 * attachment to those who began before. */
static bool is_attached(void *arg, const char *uid)
{
	struct gate *g = arg;
	const struct object *o = map_get(g->by_uid, uid);
	const unsigned exec = 1U << RIGHT_EXEC;
	const struct attachment_view *v = o ? attachment_view(o) : NULL;
	autoptr(object) session = NULL;
	const struct standing *s;

	if (!v || v->deleting || !v->ready.is_true || map_has(g->reseen, uid))
		return false;
	session = client_get(g->client, g->session, o->ns, v->session);
	if (!session || session_view(session)->ended || session_view(session)->deleting)
		return false;
	s = standing_of(g, o->ns, session_view(session)->agent);
	return s && !s->broken && (!(v->rights & exec) || s->capabilities.rights & exec) &&
	       !standing_is_suspended(g, o->ns, s);
}

/* What was started by an attachment ends with it. Not before it is known which there are: what
 * ran before a restart goes on. */
static void end_detached(struct gate *g)
{
	const unsigned needed = 1u << WATCH_SESSIONS | 1u << WATCH_ATTACHMENTS | 1u << WATCH_AGENTS;

	if (!g->access || (g->synced & needed) != needed)
		return;
	access_keep_attached(g->access, is_attached, g);
	map_free(g->reseen);
	g->reseen = map_new(NULL);
}

static void on_changed(void *arg)
{
	struct gate *g = arg;
	bool rights = g->rights_changed, egress = g->egress_differs || rights;

	g->rights_changed = g->egress_differs = false;
	/* What may not go on ends before its sandbox may reach more, for want of an agent. */
	if (rights)
		end_detached(g);
	if (egress && g->egress_changed)
		g->egress_changed(g->arg);
	questions_look(g);
	if (rights && g->access)
		access_review(g->access);
	if (rights && g->changed_fn)
		g->changed_fn(g->arg);
}

/* The policy */

static struct gate_ask gate_ask_of(const struct access_ask *ask)
{
	return (struct gate_ask){
		.user = ask->to->user,
		.ns = str_or(ask->to->ns, ""),
		.pod = ask->to->pod,
		.door = door_of(ask),
		.deed = { .argv = ask->deed.argv,
			  .path = ask->deed.path,
			  .tool = ask->deed.tool,
			  .input = ask->tty || !ask->input_known || ask->input_len },
		.loose = ask->deed.loose,
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

static void allow(const struct access_ask *ask, const struct gate_answer *a,
		  struct access_question *q)
{
	autofree char *digest = a->agent ? digest_of_operation(ask, a) : NULL;

	q->allowed(q, &(struct access_permit){ .attachment = a->attachment,
					       .uid = a->uid,
					       .view = gate_view(a->view),
					       .digest = digest });
}

void gate_ask(struct gate *g, const struct access_ask *ask, struct access_question *q)
{
	const struct gate_ask what = gate_ask_of(ask);
	struct gate_answer a;
	struct err *e = NULL;

	if (g->may_pass && !gate_is_agent(what.user) && !str_empty(what.user))
		e = g->may_pass(g->arg, ask->to);
	if (e) {
		q->refused(q, e);
		return;
	}
	gate_decide(g, &what, &a);
	switch (a.verdict) {
	case VERDICT_ALLOW:
		allow(ask, &a, q);
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

void gate_cancel(struct gate *g, struct access_question *q)
{
	question_cancel(g, q);
}

static void on_ask(void *arg, const struct access_ask *ask, struct access_question *q)
{
	gate_ask(arg, ask, q);
}

static void on_cancel(void *arg, struct access_question *q)
{
	gate_cancel(arg, q);
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

static void agents_synced(void *arg)
{
	struct gate *g = arg;

	g->synced |= 1u << WATCH_AGENTS;
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
			  : which == WATCH_AGENTS      ? agents_synced
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
	g->changed_fn = spec->changed;
	g->may_pass = spec->may_pass;
	g->agent = kinds_need(kinds, API_CAY, "Agent");
	g->session = kinds_need(kinds, API_CAY, "Session");
	g->attachment = kinds_need(kinds, API_CAY, "Attachment");
	g->approval = kinds_need(kinds, API_CAY, "Approval");
	g->policy = kinds_need(kinds, API_CAY, "TeamPolicy");
	g->pod = kinds_need(kinds, "v1", "Pod");
	g->budget = kinds_need(kinds, API_CAY, "Budget");
	g->sandbox = kinds_need(kinds, API_SANDBOX, "Sandbox");
	g->claim = kinds_need(kinds, API_EXTENSIONS, "SandboxClaim");
	g->event = kinds_need(kinds, "v1", "Event");
	g->audit = spec->audit;
	g->egress_changed = spec->egress_changed;
	g->arg = spec->arg;
	g->records = records_new();
	lookups_init(g);
	g->attachments = map_new(shelf_drop);
	g->by_agent = map_new(shelf_drop);
	g->by_uid = map_new(object_drop);
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
	watch(g, WATCH_PODS, g->pod, only_read);
	watch(g, WATCH_BUDGETS, g->budget, budget_changed);
	watch(g, WATCH_SANDBOXES, g->sandbox, sandbox_changed);
	watch(g, WATCH_CLAIMS, g->claim, claim_changed);
	if (spec->access)
		gate_set_access(g, spec->access);
	return g;
}

void gate_set_access(struct gate *g, struct access *a)
{
	static const struct access_policy policy = { .ask = on_ask,
						     .cancel = on_cancel,
						     .stands = on_stands };
	struct access_policy its = policy;

	its.loop = g->loop;
	g->access = a;
	access_set_policy(a, &its, g);
	note(g, true);
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
	lookups_free(g);
	for (size_t i = 0; i < WATCH_MAX_; i++)
		client_watch_free(g->watches[i]);
	deferred_cancel(&g->changed);
	map_free(g->asked);
	map_free(g->records);
	map_free(g->standings);
	map_free(g->reseen);
	map_free(g->attachments);
	map_free(g->by_agent);
	map_free(g->by_uid);
	map_free(g->approvals);
	free(g);
}
