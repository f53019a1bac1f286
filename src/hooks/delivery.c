/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent.h"
#include "api/cay/session.h"
#include "api/view_sandbox.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "hooks/hooks_priv.h"
#include "json/json.h"

/*
 * From a delivery that is on disk to its outcome. It waits for those before it in its session, then
 * for the session, which is made or opened again, and for its sandbox; then the command runs.
 *
 * Objects wake it: a change of the session, its sandbox or an approval has the first delivery of
 * each lane looked at again. Nothing is waited for without end.
 */
enum {
	ENDING_AGAIN_MS = 5000, /* after an outcome could not be written down */
};

static const char trigger_gone[] = "the trigger was deleted";

static void on_timer(void *arg);
static void on_over(void *arg);

struct delivery *delivery_new(struct hooks *h, const struct object *trigger)
{
	struct delivery *d = xnew(struct delivery);

	h->n_pending++;
	hook_of(h, trigger)->n_pending++;
	d->hooks = h;
	d->ns = xstrdup(trigger->ns);
	d->trigger = xstrdup(trigger->name);
	d->uid = xstrdup(trigger->uid);
	d->at = clock_wall();
	d->code = -1;
	d->timer = timer_new(h->loop, on_timer, d);
	deferred_init(&d->over, h->loop, on_over, d);
	list_init(&d->on_lane);
	list_add_tail(&h->deliveries, &d->on);
	return d;
}

void delivery_take(struct delivery *d, const char *event, size_t len)
{
	struct hooks *h = d->hooks;
	struct sha256 *sum = sha256_new();

	d->event = xmemdup(event, len);
	d->len = len;
	sha256_add(sum, event, len);
	sha256_end_text(sum, d->digest);
	sha256_free(sum);
	h->pending_bytes += len;
}

static struct hook *hook_of_delivery(const struct delivery *d)
{
	autofree char *key = xasprintf("%s/%s", d->ns, d->trigger);
	struct hook *k = map_get(d->hooks->hooks, key);

	return k && str_eq(k->uid, d->uid) ? k : NULL;
}

static void leave_lane(struct delivery *d)
{
	struct lane *lane = take(d->lane);

	if (!lane)
		return;
	list_del(&d->on_lane);
	if (list_empty(&lane->deliveries))
		(void)map_del(d->hooks->lanes, lane->key);
	else
		deferred_call(&d->hooks->look);
}

void delivery_free(struct delivery *d)
{
	struct hook *k = hook_of_delivery(d);

	d->hooks->n_pending--;
	if (k)
		k->n_pending--;
	delivery_kill(d);
	client_cancel(&d->write);
	leave_lane(d);
	list_del(&d->on);
	d->hooks->pending_bytes -= d->len;
	deferred_cancel(&d->over);
	timer_free(d->timer);
	known_unref(d->known);
	buf_done(&d->output);
	free(d->ns);
	free(d->trigger);
	free(d->uid);
	free(d->agent);
	free(d->session);
	free(d->title);
	free(d->sandbox);
	free(d->pod);
	free(d->id);
	free(d->from);
	free(d->record);
	free(d->event);
	free(d->approval);
	free(d->message);
	free(d);
}

static struct shown shown_of(const struct delivery *d)
{
	return (struct shown){
		.id = d->id, .session = d->session, .approval = d->approval, .at = d->at, .code = -1
	};
}

static void show(struct delivery *d, const char *outcome, const char *message)
{
	struct shown s = shown_of(d);

	s.outcome = outcome;
	s.message = message;
	journal_show(d->hooks, d->ns, d->trigger, &s);
}

static void enter_lane(struct delivery *d)
{
	struct hooks *h = d->hooks;
	autofree char *key = xasprintf("%s/%s", d->ns, d->session);
	struct lane *lane = map_get(h->lanes, key);

	if (!lane) {
		lane = xnew(struct lane);
		lane->key = xstrdup(key);
		list_init(&lane->deliveries);
		map_put(h->lanes, key, lane);
	}
	d->lane = lane;
	list_add_tail(&lane->deliveries, &d->on_lane);
}

void delivery_line_up(struct delivery *d)
{
	d->state = DELIVERY_ACCEPTED;
	enter_lane(d);
	show(d, "Accepted", NULL);
	deferred_call(&d->hooks->look);
}

void delivery_interrupted(struct delivery *d)
{
	enter_lane(d);
	d->state = DELIVERY_STARTED;
	delivery_end(d, "Interrupted",
		     xstrdup("the server stopped while the command may have been running; it is "
			     "not run again"));
}

/* The end */

/* It was made for this delivery, which is over. */
static void end_session(struct delivery *d)
{
	struct json_doc *doc = json_doc_new();
	struct json *root = json_obj(doc);

	json_set_root(doc, root);
	json_set_bool(doc, json_need_obj(doc, root, "spec"), "ended", true);
	client_patch(
		d->hooks->spec.client,
		&(struct client_ref){ .kind = d->hooks->session, .ns = d->ns, .name = d->session },
		PATCH_MERGE, doc, NULL);
}

/* The sessions that deliveries of a trigger had for themselves, and that are over. */
struct leftovers {
	const struct delivery *d;
	struct object **list;
	size_t n;
};

static bool is_leftover(const struct leftovers *l, const struct object *o)
{
	const struct session_view *v = session_view(o);

	return v->ended && !v->deleting && object_annotation(o, KEY_DELIVERY_OWN) &&
	       str_eq(object_annotation(o, KEY_TRIGGER), l->d->trigger);
}

static bool gather(void *arg, struct object *o)
{
	struct leftovers *l = arg;

	if (!is_leftover(l, o))
		return true;
	l->list = xrealloc(l->list, (l->n + 1) * sizeof(struct object *));
	l->list[l->n++] = object_ref(o);
	return true;
}

static int by_age(const void *a, const void *b)
{
	const struct object *x = *(struct object *const *)a, *y = *(struct object *const *)b;

	return x->rev < y->rev ? -1 : x->rev > y->rev;
}

/* As many as are shown are kept. The sandboxes of the others are kept for as long as without this.
 */
static void clear_sessions(struct delivery *d)
{
	struct leftovers l = { .d = d };
	struct hooks *h = d->hooks;

	client_each(h->spec.client, h->session, d->ns, gather, &l);
	if (l.n)
		qsort(l.list, l.n, sizeof(struct object *), by_age);
	for (size_t i = 0; i < l.n; i++) {
		const struct object *o = l.list[i];

		if (i + HOOKS_SHOWN < l.n)
			client_delete(h->spec.client,
				      &(struct client_ref){
					      .kind = h->session, .ns = o->ns, .name = o->name },
				      &(struct client_delete_spec){ .uid = o->uid, .grace_s = -1 },
				      NULL);
		object_unref(l.list[i]);
	}
	free(l.list);
}

static void on_noted(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct delivery *d = container_of(w, struct delivery, write);
	struct hook *k = hook_of_delivery(d);
	struct shown s = shown_of(d);

	if (e && k) {
		err_free(e);
		timer_set(d->timer, ENDING_AGAIN_MS);
		return;
	}
	err_free(e);
	if (k)
		journal_noted(k, d->known);
	journal_drop(d->hooks, d->ns, d->record);
	s.outcome = d->outcome;
	s.message = d->message;
	s.finished = clock_wall();
	s.code = d->code;
	s.output = &d->output;
	journal_show(d->hooks, d->ns, d->trigger, &s);
	hooks_tell(d->hooks, &(struct hooks_record){ .ns = d->ns,
						     .name = d->trigger,
						     .from = d->from,
						     .id = d->id,
						     .outcome = d->outcome,
						     .message = d->message });
	if (d->own) {
		end_session(d);
		clear_sessions(d);
	}
	delivery_free(d);
}

static void note_end(struct delivery *d)
{
	struct hook *k = hook_of_delivery(d);

	client_cancel(&d->write);
	d->write.done = on_noted;
	if (k)
		journal_seen(d->hooks, k, d->known, &d->write);
	else
		on_noted(&d->write, NULL, NULL); /* the trigger is gone: nothing comes again */
}

static void on_over(void *arg)
{
	note_end(arg);
}

void delivery_end(struct delivery *d, const char *outcome, char *message)
{
	d->state = DELIVERY_ENDING;
	d->outcome = outcome;
	free(d->message);
	d->message = message;
	timer_clear(d->timer);
	deferred_call(&d->over);
}

/* The session */

static const char *said_of(const struct object *o)
{
	json_each(it, json_get(object_status(o), "conditions"))
		if (str_eq(json_get_str(it.val, "type"), "Ready"))
			return str_or(json_get_str(it.val, "message"), "");
	return "";
}

static char *late_message(struct delivery *d)
{
	autoptr(object) session =
		client_get(d->hooks->spec.client, d->hooks->session, d->ns, d->session);
	const char *said = session ? said_of(session) : "";

	if (d->sandbox)
		return xasprintf("sandbox %s was not ready in %d minutes", d->sandbox,
				 HOOKS_WAKE_MS / 60000);
	return xasprintf("the session was not active in %d minutes%s%s", HOOKS_WAKE_MS / 60000,
			 *said ? ": " : "", said);
}

static void on_timer(void *arg)
{
	struct delivery *d = arg;

	switch (d->state) {
	case DELIVERY_ACCEPTED:
		delivery_end(d, "Failed", late_message(d));
		break;
	case DELIVERY_STARTED:
		delivery_kill(d);
		delivery_end(d, "Failed",
			     xasprintf("the command was killed after %d minutes",
				       HOOKS_COMMAND_MS / 60000));
		break;
	case DELIVERY_ENDING:
		note_end(d);
		break;
	case DELIVERY_STARTING:
	case DELIVERY_WAITING:
	case DELIVERY_STATE_MAX_:
		break;
	}
}

static void on_session_written(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct delivery *d = container_of(w, struct delivery, write);

	if (!e)
		return; /* the change wakes us; if it was none, looking again would find the same */
	if (err_is(e, ERR_EXISTS) || err_is(e, ERR_CONFLICT)) {
		err_free(e);
		deferred_call(&d->hooks->look);
		return;
	}
	delivery_end(d, "Failed", xasprintf("the session could not be opened: %s", err_text(e)));
	err_free(e);
}

static void make_session(struct delivery *d, const struct trigger_view *t)
{
	struct json_doc *doc = json_doc_new();
	struct json *root = json_obj(doc), *meta, *notes, *spec;

	json_set_root(doc, root);
	meta = json_need_obj(doc, root, "metadata");
	json_set_str(doc, meta, "name", d->session);
	notes = json_need_obj(doc, meta, "annotations");
	json_set_str(doc, notes, KEY_TRIGGER, d->trigger);
	if (d->own && t->command[0])
		json_set_str(doc, notes, KEY_DELIVERY_OWN, "true");
	spec = json_need_obj(doc, root, "spec");
	json_set_str(doc, spec, "agent", d->agent);
	if (*t->user)
		json_set_str(doc, spec, "user", t->user);
	json_set_str(doc, spec, "title", d->title);
	d->write.done = on_session_written;
	client_create(d->hooks->spec.client,
		      &(struct client_ref){ .kind = d->hooks->session, .ns = d->ns }, doc,
		      &d->write);
}

/* The end is taken back; whoever made sessions real wakes the sandbox. */
static void reopen_session(struct delivery *d, const struct object *session)
{
	struct json_doc *doc = json_doc_new();
	struct json *root = json_obj(doc);

	json_set_root(doc, root);
	json_set_str(doc, json_need_obj(doc, root, "metadata"), "uid", session->uid);
	json_set_bool(doc, json_need_obj(doc, root, "spec"), "ended", false);
	d->write.done = on_session_written;
	client_patch(
		d->hooks->spec.client,
		&(struct client_ref){ .kind = d->hooks->session, .ns = d->ns, .name = d->session },
		PATCH_MERGE, doc, &d->write);
}

/* The command */

static void on_synced(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct delivery *d = container_of(w, struct delivery, write);

	autoptr(object) trigger =
		client_get(d->hooks->spec.client, d->hooks->trigger, d->ns, d->trigger);

	err_free(e);
	d->state = DELIVERY_STARTED;
	if (trigger && str_eq(trigger->uid, d->uid))
		delivery_run(d, trigger_view(trigger)->command);
	else
		delivery_end(d, "Failed", xstrdup(trigger_gone));
}

static void on_marked(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct delivery *d = container_of(w, struct delivery, write);

	if (e) {
		delivery_end(d, "Failed",
			     xasprintf("its record could not be kept: %s", err_text(e)));
		err_free(e);
		return;
	}
	d->write.done = on_synced;
	client_sync(d->hooks->spec.client, &d->write);
}

/* That it starts is on disk before it does, so that no start can follow another. */
static void mark_started(struct delivery *d)
{
	d->state = DELIVERY_STARTING;
	timer_clear(d->timer);
	d->write.done = on_marked;
	journal_state(d);
}

/* The Pod of a sandbox that is awake, malloc'd; NULL: it has to be waited for. */
static char *pod_of(struct delivery *d)
{
	struct hooks *h = d->hooks;
	autoptr(object) sandbox = client_get(h->spec.client, h->sandbox, d->ns, d->sandbox);
	const struct sandbox_view *v = sandbox ? sandbox_view(sandbox) : NULL;

	if (!v || v->deleting)
		return NULL;
	if (v->suspended || !v->ready.is_true) {
		if (h->spec.wake)
			(void)h->spec.wake(h->spec.arg, d->ns, d->sandbox);
		return NULL;
	}
	return xstrdup(v->pod_name);
}

static void use_session(struct delivery *d, const struct trigger_view *t,
			const struct object *session)
{
	const char *sandbox = json_get_str(object_status(session), "sandbox");

	free(d->sandbox);
	d->sandbox = str_empty(sandbox) ? NULL : xstrdup(sandbox);
	if (!t->command[0]) {
		d->own = false; /* it is what was wanted */
		delivery_end(d, "Ran", xstrdup("there is no command; the session is active"));
		return;
	}
	if (!d->sandbox) {
		delivery_end(d, "Failed", xstrdup("the session goes without a sandbox"));
		return;
	}
	free(d->pod);
	d->pod = pod_of(d);
	if (d->pod)
		mark_started(d);
}

static bool is_current(const struct object *session)
{
	return json_get_int(object_status(session), "observedGeneration",
			    object_generation(session)) == object_generation(session);
}

/* Why the session may begin nothing new; NULL: it may. */
static const char *budget_says(const struct object *session)
{
	struct condition_view c =
		condition_view_of(json_get(object_status(session), "conditions"), "WithinBudget");

	return c.tree && !c.is_true ? str_or(c.message, "a budget is used up") : NULL;
}

static void find_session(struct delivery *d, const struct trigger_view *t)
{
	autoptr(object) o = client_get(d->hooks->spec.client, d->hooks->session, d->ns, d->session);
	const struct session_view *v = o ? session_view(o) : NULL;

	if (!o)
		make_session(d, t);
	else if (!str_eq(v->agent, d->agent))
		delivery_end(d, "Failed",
			     xasprintf("session %s is not of agent %s", d->session, d->agent));
	else if (v->deleting)
		return;
	else if (v->ended)
		reopen_session(d, o);
	else if (!is_current(o))
		return;
	else if (budget_says(o))
		delivery_end(d, "Refused", xstrdup(budget_says(o)));
	else if (v->phase == SESSION_FAILED)
		delivery_end(d, "Failed", xasprintf("the session failed: %s", said_of(o)));
	else if (v->phase == SESSION_ENDED)
		delivery_end(d, "Failed", xasprintf("the session is over: %s", said_of(o)));
	else if (v->phase == SESSION_ACTIVE)
		use_session(d, t, o);
}

/* Of the first in its lane. */
static void advance(struct delivery *d)
{
	struct hooks *h = d->hooks;
	autoptr(object) trigger = client_get(h->spec.client, h->trigger, d->ns, d->trigger);
	autoptr(object) agent = client_get(h->spec.client, h->agent, d->ns, d->agent);

	if (!trigger || !str_eq(trigger->uid, d->uid) || trigger_view(trigger)->deleting) {
		delivery_end(d, "Failed", xstrdup(trigger_gone));
		return;
	}
	if (!agent || agent_view(agent)->deleting) {
		delivery_end(d, "Failed", xasprintf("there is no agent %s", d->agent));
		return;
	}
	if (!timer_armed(d->timer))
		timer_set(d->timer, HOOKS_WAKE_MS);
	find_session(d, trigger_view(trigger));
}

static bool is_writing(const struct delivery *d)
{
	return d->write.on.next && !list_empty(&d->write.on);
}

static void look(struct delivery *d)
{
	switch (d->state) {
	case DELIVERY_ACCEPTED:
		if (!is_writing(d))
			advance(d);
		break;
	case DELIVERY_STARTED:
	case DELIVERY_WAITING:
		if (d->exec)
			delivery_ask(d);
		break;
	case DELIVERY_STARTING:
	case DELIVERY_ENDING:
	case DELIVERY_STATE_MAX_:
		break;
	}
}

/* Those that are first now; what follows from it may change lanes. */
void deliveries_look(struct hooks *h)
{
	struct delivery *d, *next;

	list_each_safe(d, next, &h->deliveries, on)
		if (d->lane && d->lane->deliveries.next == &d->on_lane)
			look(d);
}
