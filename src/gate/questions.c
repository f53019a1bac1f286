/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "base/strv.h"
#include "crypto/crypto.h"
#include "gate/gate_priv.h"
#include "json/json.h"

/*
 * Questions to people. What an agent wants to do is put into an Approval, bound by a digest to the
 * exact operation, and waits until somebody decides or its time is over.
 *
 * The Approval outlives whoever waits for it: a client that comes back, after a restart of the
 * server too, finds the question it has asked, or the answer. An answer that is good once is marked
 * as used, and the mark is on disk, before anything begins; so it is never used twice, and a crash
 * in between costs the answer, not the promise.
 */
enum {
	QUESTIONS_MAX = 1024, /* that somebody waits for, in all */
	OF_AGENT_MAX = 64,    /* of one agent */
	ARGV_SHOWN = 256,     /* arguments */
	ARG_SHOWN = 4096,     /* bytes of each */
};

enum question_state {
	QUESTION_OPEN,    /* somebody is to decide */
	QUESTION_WRITING, /* our own write is under way */
};

struct question {
	struct list on_gate;
	struct gate *gate;
	struct access_question *q;
	enum question_state state;
	char *ns, *agent, *user, *digest;
	char *approval; /* its name; NULL: it is not made yet */
	char *attachment, *attachment_uid;
	char *session, *sandbox;
	enum attachment_viewpoint view;
	enum gate_door door;
	char **argv, *path, *tool; /* of the deed */
	bool input;                /* and this */
	struct json_doc *rule;     /* what "always" would add to the agent; NULL: nothing can */
	struct client_write write;
	struct timer *expiry;
};

static void question_free(struct question *n)
{
	client_cancel(&n->write);
	list_del(&n->on_gate);
	n->gate->n_questions--;
	timer_free(n->expiry);
	json_doc_free(n->rule);
	free(n->ns);
	free(n->agent);
	free(n->user);
	free(n->digest);
	free(n->approval);
	free(n->attachment);
	free(n->attachment_uid);
	free(n->session);
	free(n->sandbox);
	strv_free(n->argv);
	free(n->path);
	free(n->tool);
	free(n);
}

/* Takes e over. */
static void question_refuse(struct question *n, struct err *e)
{
	struct access_question *q = n->q;

	question_free(n);
	q->refused(q, e);
}

/* What allowed the question may have gone while it was open. */
static void question_allow(struct question *n)
{
	struct access_question *q = n->q;
	autofree char *attachment = take(n->attachment), *uid = take(n->attachment_uid);
	autofree char *digest = take(n->digest), *approval = take(n->approval);
	const struct access_permit permit = { attachment, uid, gate_view(n->view), digest,
					      approval };
	const struct gate_permit by = { attachment, uid, n->view };
	const struct gate_ask ask = {
		.user = n->user,
		.ns = n->ns,
		.sandbox = n->sandbox,
		.door = n->door,
		.deed = { (const char *const *)n->argv, n->path, NULL, n->tool, n->input },
	};
	const struct standing *s = standing_of(n->gate, n->ns, n->agent);
	struct err *owes = s ? standing_refuses(n->gate, &ask, n->ns, s) : NULL;

	if (owes) {
		question_refuse(n, owes);
		return;
	}
	if (!gate_grants(n->gate, &ask, &by)) {
		question_refuse(n, err_new(ERR_FORBIDDEN,
					   "what was approved is no longer allowed: the agent, its "
					   "rules or the attachment have changed"));
		return;
	}
	question_free(n);
	q->allowed(q, &permit);
}

/* The Approval */

static bool text_can_be_shown(const char *text)
{
	size_t len = strlen(text);

	return len <= ARG_SHOWN && utf8_prefix(text, len) == len;
}

/* Who decides must see all that would run. */
static bool can_be_shown(const struct access_ask *ask)
{
	const char *const *argv = ask->deed.argv;

	for (size_t n = 0; argv && argv[n]; n++)
		if (n == ARGV_SHOWN || !text_can_be_shown(argv[n]))
			return false;
	return !ask->deed.path || text_can_be_shown(ask->deed.path);
}

/* What there is none of is left out. */
static void put_text(struct json_doc *d, struct json *spec, const char *name, const char *text)
{
	if (!str_empty(text))
		json_set_str(d, spec, name, text);
}

static void put_argv(struct json_doc *d, struct json *spec, const struct access_ask *ask)
{
	struct json *list = json_need_arr(d, spec, "argv");

	for (size_t i = 0; ask->deed.argv[i]; i++)
		json_push_str(d, list, ask->deed.argv[i]);
}

static struct json_doc *approval_draft(const struct question *n, const struct access_ask *ask,
				       const char *input, usec expires)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *spec;
	char when[CLOCK_TEXT_MAX];

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	(void)json_set(d, meta, "generateName", json_new_strf(d, "%s-", n->agent));
	spec = json_need_obj(d, root, "spec");
	json_set_str(d, spec, "agent", n->agent);
	put_text(d, spec, "session", n->session);
	put_text(d, spec, "attachment", n->attachment);
	put_text(d, spec, "sandbox", n->sandbox);
	json_set_str(d, spec, "operation", ask->way);
	put_text(d, spec, "tool", n->tool);
	put_text(d, spec, "path", n->path);
	if (ask->deed.argv)
		put_argv(d, spec, ask);
	if (!ask->tty)
		json_set_str(d, spec, "inputDigest", input);
	json_set_str(d, spec, "digest", n->digest);
	json_set_str(d, spec, "requestedBy", n->user);
	clock_format(expires, when);
	json_set_str(d, spec, "expires", when);
	return d;
}

/* A rule about a command is about one that reads nothing. Who may always write a file may write
 * what they like. NULL: there can be no rule. */
static struct json_doc *rule_draft(const struct access_ask *ask)
{
	const struct deed deed = { ask->deed.argv, ask->deed.path, NULL, ask->deed.tool };
	struct json_doc *d;
	struct json *rule;

	if (ask->tty || (ask->input_len && !deed.path))
		return NULL;
	d = json_doc_new();
	rule = approval_rule_for(&deed, d);
	if (rule)
		json_set_root(d, rule);
	else
		json_doc_free(take(d));
	return d;
}

static void question_look(struct question *n);

static void tell_client(struct question *n)
{
	autofree char *text = xasprintf("cay: waits for approval %s: cay approve -n %s %s\n",
					n->approval, n->ns, n->approval);

	n->q->say(n->q, text);
}

static void on_created(struct client_write *w, struct err *e, struct object *obj)
{
	struct question *n = container_of(w, struct question, write);

	if (e) {
		question_refuse(n, err_wrap(e, "ask for approval"));
		return;
	}
	n->state = QUESTION_OPEN;
	n->approval = xstrdup(obj->name);
	tell_client(n);
	question_look(n);
}

static void on_expiry(void *arg)
{
	struct question *n = arg;

	question_refuse(n, err_new(ERR_FORBIDDEN, "nobody approved it in time%s%s",
				   n->approval ? ": approval " : "", str_or(n->approval, "")));
}

static void on_synced(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct question *n = container_of(w, struct question, write);

	if (e)
		question_refuse(n, err_wrap(e, "record that the approval is used"));
	else
		question_allow(n);
}

/* Somebody else's question has used it: it must be asked anew. */
static void on_marked(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct question *n = container_of(w, struct question, write);

	if (e) {
		question_refuse(n, err_wrap(e, "use approval %s", n->approval));
		return;
	}
	n->write.done = on_synced;
	client_sync(n->gate->client, &n->write);
}

static void mark_used(struct question *n, const struct object *approval)
{
	n->state = QUESTION_WRITING;
	n->write.done = on_marked;
	approval_mark_used(n->gate, approval, &n->write);
}

static void on_ruled(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct question *n = container_of(w, struct question, write);
	autoptr(object) approval = NULL;

	err_free(e); /* it stays a question then, and this answer is good for once */
	approval = client_get(n->gate->client, n->gate->approval, n->ns, n->approval);
	if (approval)
		mark_used(n, approval);
	else
		question_refuse(n,
				err_new(ERR_FORBIDDEN, "approval %s was withdrawn", n->approval));
}

static struct approval_of approval_of(const struct question *n)
{
	return (struct approval_of){ n->ns, n->agent, n->digest };
}

static void add_rule(struct question *n)
{
	const struct approval_of of = approval_of(n);

	n->state = QUESTION_WRITING;
	n->write.done = on_ruled;
	approval_add_rule(n->gate, &of, json_root(n->rule), &n->write);
}

/* No rule can say what "always" would mean: the client is told. */
static void use_once(struct question *n, const struct object *approval)
{
	if (approval_view(approval)->decision == APPROVAL_ALWAYS)
		n->q->say(n->q, "cay: approved for this once: no rule can say exactly this\n");
	mark_used(n, approval);
}

/* Whatever has been decided by now. */
static void question_look(struct question *n)
{
	autoptr(object) o = NULL;

	if (n->state != QUESTION_OPEN || !n->approval)
		return;
	o = client_get(n->gate->client, n->gate->approval, n->ns, n->approval);
	if (!o || approval_view(o)->deleting) {
		question_refuse(n,
				err_new(ERR_FORBIDDEN, "approval %s was withdrawn", n->approval));
		return;
	}
	switch (approval_view(o)->decision) {
	case APPROVAL_OPEN:
		return;
	case APPROVAL_ONCE:
	case APPROVAL_ALWAYS:
		if (approval_view(o)->used)
			question_refuse(n, err_new(ERR_CONFLICT,
						   "approval %s was used by another operation",
						   n->approval));
		else if (approval_view(o)->decision == APPROVAL_ALWAYS && n->rule)
			add_rule(n);
		else
			use_once(n, o);
		return;
	case APPROVAL_DENIED:
		question_refuse(n, err_new(ERR_FORBIDDEN, "%s denied it (approval %s)",
					   str_or(approval_view(o)->by, "somebody"), n->approval));
		return;
	case APPROVAL_EXPIRED:
	case APPROVAL_DECISION_MAX_:
		on_expiry(n);
		return;
	}
}

static struct question *question_new(struct gate *g, const struct access_ask *ask,
				     const struct gate_answer *a, struct access_question *q)
{
	struct question *n = xnew(struct question);

	n->gate = g;
	n->q = q;
	q->state = n;
	n->door = door_of(ask);
	n->ns = xstrdup(a->ns);
	n->user = xstrdup(ask->to->user);
	n->agent = xstrdup(a->agent);
	n->argv = ask->deed.argv ? strv_copy(ask->deed.argv) : NULL;
	n->path = xstrdup(ask->deed.path);
	n->tool = xstrdup(ask->deed.tool);
	n->input = ask->tty || !ask->input_known || ask->input_len;
	n->attachment = xstrdup(a->attachment);
	n->attachment_uid = xstrdup(a->uid);
	n->session = xstrdup(a->session);
	n->sandbox = xstrdup(a->sandbox);
	n->view = a->view;
	n->rule = rule_draft(ask);
	n->expiry = timer_new(g->loop, on_expiry, n);
	list_add_tail(&g->questions, &n->on_gate);
	g->n_questions++;
	return n;
}

static size_t n_of_agent(const struct gate *g, const char *user)
{
	const struct question *n;
	size_t count = 0;

	list_each(n, &g->questions, on_gate)
		count += str_eq(n->user, user);
	return count;
}

void question_ask(struct gate *g, const struct access_ask *ask, const struct gate_answer *a,
		  struct access_question *q)
{
	const struct standing *s = standing_of(g, a->ns, a->agent);
	usec now = clock_wall(), expires = now + agent_view(s->chain[0])->approval.expire;
	char input[DIGEST_TEXT_LEN];
	const struct object *known;
	struct approval_of of;
	struct question *n;

	if (!can_be_shown(ask)) {
		q->refused(q, err_new(ERR_INVALID,
				      "what must be approved has at most %d arguments of %d bytes "
				      "each, and a path of as many, in UTF-8",
				      ARGV_SHOWN, ARG_SHOWN));
		return;
	}
	if (g->n_questions >= QUESTIONS_MAX || n_of_agent(g, ask->to->user) >= OF_AGENT_MAX) {
		q->refused(q,
			   err_new(ERR_EXHAUSTED, "too many operations wait for approval already"));
		return;
	}
	digest_of_input(ask, input);
	n = question_new(g, ask, a, q);
	n->digest = digest_of_operation(ask, a);
	of = approval_of(n);
	known = approval_find(g, &of, now);
	timer_set(n->expiry,
		  (uint64_t)((known ? approval_view(known)->expires : expires) - now) / 1000);
	if (known) {
		n->approval = xstrdup(known->name);
		if (approval_view(known)->decision == APPROVAL_OPEN)
			tell_client(n);
		deferred_call(&g->changed);
		return;
	}
	n->state = QUESTION_WRITING;
	n->write.done = on_created;
	client_create(g->client, &(struct client_ref){ .kind = g->approval, .ns = n->ns },
		      approval_draft(n, ask, input, expires), &n->write);
}

/* One that waits for its input has asked nobody yet. */
void question_cancel(struct gate *g unused, struct access_question *q)
{
	if (q->state)
		question_free(take(q->state));
}

/* From the beginning after each that ended: others may have ended with it. */
void questions_look(struct gate *g)
{
	struct question *n, *next;
	size_t before;

	do {
		before = g->n_questions;
		list_each_safe(n, next, &g->questions, on_gate) {
			question_look(n);
			if (g->n_questions != before)
				break;
		}
	} while (g->n_questions != before);
}

void questions_free(struct gate *g)
{
	struct question *n, *next;

	list_each_safe(n, next, &g->questions, on_gate)
		question_free(n);
}
