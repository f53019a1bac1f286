/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
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
	struct json_doc *rule; /* what "always" would add to the agent */
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
	const struct access_permit permit = { attachment, uid, gate_view(n->view) };
	const struct gate_permit by = { attachment, uid, n->view };
	const struct gate_ask ask = {
		.user = n->user, .ns = n->ns, .sandbox = n->sandbox, .door = n->door
	};

	if (!gate_grants(n->gate, &ask, &by)) {
		question_refuse(n, err_new(ERR_FORBIDDEN,
					   "attachment %s no longer grants what was approved",
					   attachment));
		return;
	}
	question_free(n);
	q->allowed(q, &permit);
}

/* The digest */

static void add_text(struct sha256 *h, const char *name, const char *text, size_t len)
{
	autofree char *head = xasprintf("%s:%zu:", name, len);

	sha256_add(h, head, strlen(head));
	sha256_add(h, text, len);
}

static void digest_of_input(const struct access_ask *ask, char ret[DIGEST_TEXT_LEN])
{
	struct sha256 *h = sha256_new();

	sha256_add(h, ask->input, ask->input_len);
	sha256_end_text(h, ret);
	sha256_free(h);
}

/* Of all that makes the operation what it is; each part with its length, so that none can pass for
 * two. */
static char *digest_of(const struct access_ask *ask, const struct gate_answer *a, const char *input)
{
	struct sha256 *h = sha256_new();
	char text[DIGEST_TEXT_LEN];

	add_text(h, "agent", a->agent, strlen(a->agent));
	add_text(h, "sandbox", a->sandbox, strlen(a->sandbox));
	add_text(h, "attachment", a->uid, strlen(a->uid));
	add_text(h, "view", attachment_viewpoint_name(a->view),
		 strlen(attachment_viewpoint_name(a->view)));
	add_text(h, "operation", ask->way, strlen(ask->way));
	add_text(h, "container", str_or(ask->to->container, ""),
		 strlen(str_or(ask->to->container, "")));
	add_text(h, "terminal", ask->tty ? "yes" : "no", ask->tty ? 3 : 2);
	add_text(h, "input", input, strlen(input));
	for (size_t i = 0; ask->argv && ask->argv[i]; i++)
		add_text(h, "arg", ask->argv[i], strlen(ask->argv[i]));
	if (ask->port) {
		autofree char *port = xasprintf("%u", ask->port);

		add_text(h, "port", port, strlen(port));
	}
	sha256_end_text(h, text);
	sha256_free(h);
	return xstrdup(text);
}

/* The Approval */

/* Who decides must see all that would run. */
static bool can_be_shown(const struct access_ask *ask)
{
	size_t n = 0;

	for (; ask->argv && ask->argv[n]; n++) {
		size_t len = strlen(ask->argv[n]);

		if (n == ARGV_SHOWN || len > ARG_SHOWN || utf8_prefix(ask->argv[n], len) != len)
			return false;
	}
	return true;
}

static void put_argv(struct json_doc *d, struct json *spec, const struct access_ask *ask)
{
	struct json *list = json_need_arr(d, spec, "argv");

	for (size_t i = 0; ask->argv[i]; i++)
		json_push_str(d, list, ask->argv[i]);
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
	json_set_str(d, spec, "session", n->session);
	json_set_str(d, spec, "attachment", n->attachment);
	json_set_str(d, spec, "sandbox", n->sandbox);
	json_set_str(d, spec, "operation", ask->way);
	if (ask->argv)
		put_argv(d, spec, ask);
	if (!ask->tty)
		json_set_str(d, spec, "inputDigest", input);
	json_set_str(d, spec, "digest", n->digest);
	json_set_str(d, spec, "requestedBy", n->user);
	clock_format(expires, when);
	json_set_str(d, spec, "expires", when);
	return d;
}

/* Exactly these arguments, where that says it all: a rule knows neither input nor terminals, and
 * some characters have a meaning in patterns. NULL: there can be no rule. */
static struct json_doc *rule_draft(const struct access_ask *ask)
{
	struct json_doc *d;
	struct json *rule, *argv;

	if (!ask->argv || ask->tty || ask->input_len)
		return NULL;
	for (size_t i = 0; ask->argv[i]; i++)
		if (strpbrk(ask->argv[i], "*\\"))
			return NULL;
	d = json_doc_new();
	rule = json_obj(d);
	json_set_root(d, rule);
	json_set_str(d, rule, "action", "Allow");
	argv = json_need_arr(d, rule, "argv");
	for (size_t i = 0; ask->argv[i]; i++)
		json_push_str(d, argv, ask->argv[i]);
	return d;
}

static void question_look(struct question *n);

static void on_created(struct client_write *w, struct err *e, struct object *obj)
{
	struct question *n = container_of(w, struct question, write);
	autofree char *text = NULL;

	if (e) {
		question_refuse(n, err_wrap(e, "ask for approval"));
		return;
	}
	n->state = QUESTION_OPEN;
	n->approval = xstrdup(obj->name);
	text = xasprintf("cay: waits for approval %s: cay approve -n %s %s\n", n->approval, n->ns,
			 n->approval);
	n->q->say(n->q, text);
	question_look(n);
}

static void on_expiry(void *arg)
{
	struct question *n = arg;

	question_refuse(n, err_new(ERR_FORBIDDEN, "nobody approved it in time%s%s",
				   n->approval ? ": approval " : "", str_or(n->approval, "")));
}

/* One that is decided and not used, or one that is open; NULL: it has to be asked. */
static const struct object *find_approval(const struct question *n, usec now)
{
	autofree char *key = xasprintf("%s/%s/%s", n->ns, n->agent, n->digest);
	const struct object *best = NULL;

	map_each(it, map_get(n->gate->approvals, key)) {
		const struct approval_view *v = approval_view(it.value);

		if (v->deleting || v->used || v->expires <= now || v->decision == APPROVAL_EXPIRED)
			continue;
		if (!best || v->decision > approval_view(best)->decision)
			best = it.value;
	}
	return best;
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
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *status;
	char when[CLOCK_TEXT_MAX];

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "uid", approval->uid);
	(void)json_set(d, meta, "resourceVersion",
		       json_copy(d, json_at_path(approval->root, "metadata.resourceVersion")));
	status = json_need_obj(d, root, "status");
	json_set_bool(d, status, "used", true);
	clock_format(clock_wall(), when);
	json_set_str(d, status, "usedAt", when);
	n->state = QUESTION_WRITING;
	n->write.done = on_marked;
	client_patch(n->gate->client,
		     &(struct client_ref){ .kind = n->gate->approval,
					   .ns = n->ns,
					   .name = n->approval,
					   .sub = "status" },
		     PATCH_MERGE, d, &n->write);
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

/* "Always": one more rule of the agent, before all others, where anybody can see and remove it. */
static void add_rule(struct question *n)
{
	struct json_doc *d = json_doc_new();
	autoptr(object) agent = client_get(n->gate->client, n->gate->agent, n->ns, n->agent);
	const struct json *had = agent ? json_at_path(agent->root, "spec.approval.rules") : NULL;
	struct json *root = json_obj(d), *rules;

	json_set_root(d, root);
	if (agent)
		(void)json_set(d, json_need_obj(d, root, "metadata"), "resourceVersion",
			       json_copy(d, json_at_path(agent->root, "metadata.resourceVersion")));
	rules = json_need_arr(d, json_need_obj(d, json_need_obj(d, root, "spec"), "approval"),
			      "rules");
	json_push(d, rules, json_copy(d, json_root(n->rule)));
	json_each(it, had)
		if (!json_equal(it.val, json_root(n->rule)))
			json_push(d, rules, json_copy(d, it.val));
	n->state = QUESTION_WRITING;
	n->write.done = on_ruled;
	client_patch(n->gate->client,
		     &(struct client_ref){ .kind = n->gate->agent, .ns = n->ns, .name = n->agent },
		     PATCH_MERGE, d, &n->write);
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
	n->ns = xstrdup(ask->to->ns);
	n->user = xstrdup(ask->to->user);
	n->agent = xstrdup(a->agent);
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
	const struct standing *s = standing_of(g, ask->to->ns, a->agent);
	usec now = clock_wall(), expires = now + agent_view(s->chain[0])->approval.expire;
	char input[DIGEST_TEXT_LEN] = "terminal";
	const struct object *known;
	struct question *n;

	if (!can_be_shown(ask)) {
		q->refused(q, err_new(ERR_INVALID,
				      "what must be approved has at most %d arguments of %d bytes "
				      "each, in UTF-8",
				      ARGV_SHOWN, ARG_SHOWN));
		return;
	}
	if (g->n_questions >= QUESTIONS_MAX || n_of_agent(g, ask->to->user) >= OF_AGENT_MAX) {
		q->refused(q,
			   err_new(ERR_EXHAUSTED, "too many operations wait for approval already"));
		return;
	}
	if (!ask->tty)
		digest_of_input(ask, input);
	n = question_new(g, ask, a, q);
	n->digest = digest_of(ask, a, input);
	known = find_approval(n, now);
	timer_set(n->expiry,
		  (uint64_t)((known ? approval_view(known)->expires : expires) - now) / 1000);
	if (known) {
		n->approval = xstrdup(known->name);
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
