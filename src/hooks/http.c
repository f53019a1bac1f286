/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/meta.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "hooks/hooks_priv.h"
#include "json/json.h"
#include "net/http_server.h"

/*
 * The requests. Anybody can send them, so little is done before the signature is known to be right:
 * a body of limited length is read, of so many peers at a time, and one HMAC is made.
 *
 * What is not a right request of a trigger that there is gets one answer, whatever is wrong. What
 * is right is answered once it is on disk; its command is not waited for.
 */
enum {
	RETRY_S = 5,
	TITLE_MAX = 200, /* bytes */
};

struct visit {
	struct list on; /* hooks.visits */
	struct hooks *hooks;
	struct http_request *req; /* NULL: it was answered, or the client has left */
	char *ns, *name, *from;
	bool reading, busy; /* busy: write is under way */
	struct client_write write;
	struct hook_headers headers;
	struct delivery *delivery; /* that begins when it is on disk */
	/* The answer that waits for that. */
	char id[HOOK_ID_MAX + 1];
	char session[HOOK_SESSION_LEN + 1];
	const char *outcome;
	struct known *known; /* of one that was filtered */
	char *uid;           /* and its trigger */
	bool repeated;
};

static void visit_free(struct visit *v)
{
	client_cancel(&v->write);
	list_del(&v->on);
	if (v->req)
		http_request_set_owner(v->req, NULL, NULL);
	known_unref(v->known);
	free(v->uid);
	free(v->ns);
	free(v->name);
	free(v->from);
	free(v);
}

static void on_ended(void *owner)
{
	struct visit *v = owner;

	v->req = NULL;
	v->reading = false;
	if (!v->busy)
		visit_free(v);
}

/* Answers */

static void respond(struct visit *v, int status, const struct json *body, int after)
{
	autofree char *text = json_to_text(body);
	struct http_headers h = { 0 };
	char seconds[16];

	v->reading = false;
	if (!v->req)
		return;
	if (after) {
		(void)snprintf(seconds, sizeof(seconds), "%d", after);
		http_headers_add(&h, "Retry-After", seconds);
	}
	if (status == 405)
		http_headers_add(&h, "Allow", "POST");
	http_respond(v->req, status, &h,
		     (struct http_body){ "application/json", text, strlen(text) });
	http_headers_done(&h);
}

static void refuse(struct visit *v, int status, const char *why, int after)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	static const struct {
		int status;
		const char *outcome;
	} outcomes[] = { { 400, "Malformed" },
			 { 401, "Unauthorized" },
			 { 429, "Limited" },
			 { 503, "Unavailable" } };
	const char *outcome = NULL;

	for (size_t i = 0; i < ARRAY_LEN(outcomes); i++)
		if (outcomes[i].status == status)
			outcome = outcomes[i].outcome;
	if (status == 429)
		v->hooks->stats.limited++;
	else
		v->hooks->stats.refused++;
	if (outcome && v->name)
		hooks_tell(v->hooks, &(struct hooks_record){ .ns = v->ns,
							     .name = v->name,
							     .from = v->from,
							     .id = *v->id ? v->id : NULL,
							     .outcome = outcome,
							     .message = why,
							     .status = status });
	json_set_str(d, o, "error", why);
	respond(v, status, o, after);
}

static void answer(struct visit *v)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);

	json_set_str(d, o, "delivery", v->id);
	if (*v->session)
		json_set_str(d, o, "session", v->session);
	json_set_str(d, o, "outcome", v->outcome);
	if (v->repeated)
		json_set_bool(d, o, "duplicate", true);
	respond(v, 202, o, 0);
}

static void on_synced(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct visit *v = container_of(w, struct visit, write);

	err_free(e);
	v->busy = false;
	if (v->delivery)
		delivery_line_up(take(v->delivery));
	if (!v->req) {
		visit_free(v);
		return;
	}
	answer(v);
}

/* Once all that was written until now is on disk. */
static void answer_durably(struct visit *v)
{
	v->busy = true;
	v->write.done = on_synced;
	client_sync(v->hooks->spec.client, &v->write);
}

/* What comes again */

static void repeat(struct visit *v, const struct known *n)
{
	struct shown s = { .id = v->id,
			   .session = n->session,
			   .outcome = "Duplicate",
			   .message = "it came before, and was not taken again",
			   .at = clock_wall(),
			   .code = -1 };

	v->hooks->stats.repeated++;
	v->repeated = true;
	v->outcome = n->filtered ? "filtered" : "accepted";
	(void)snprintf(v->session, sizeof(v->session), "%s", n->session);
	if (!journal_shows(v->hooks, v->ns, v->name, &s))
		journal_show(v->hooks, v->ns, v->name, &s);
	hooks_tell(v->hooks, &(struct hooks_record){ .ns = v->ns,
						     .name = v->name,
						     .from = v->from,
						     .id = v->id,
						     .outcome = s.outcome,
						     .status = 202 });
	answer_durably(v);
}

/* What nobody wants */

static void on_filtered(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct visit *v = container_of(w, struct visit, write);
	autoptr(object) trigger =
		client_get(v->hooks->spec.client, v->hooks->trigger, v->ns, v->name);

	v->busy = false;
	if (e) {
		if (v->req)
			refuse(v, 503, err_text(e), RETRY_S);
		else
			visit_free(v);
		err_free(e);
		return;
	}
	if (trigger && str_eq(trigger->uid, v->uid))
		journal_noted(hook_of(v->hooks, trigger), v->known);
	answer_durably(v);
}

/* Takes known over; message says why. */
static void filter(struct visit *v, const struct object *trigger, struct known *known,
		   const char *message)
{
	struct hook *k = hook_of(v->hooks, trigger);
	const struct shown s = { .id = v->id,
				 .outcome = "Filtered",
				 .message = message,
				 .at = clock_wall(),
				 .finished = clock_wall(),
				 .code = -1 };

	v->hooks->stats.filtered++;
	v->outcome = "filtered";
	v->known = known;
	v->uid = xstrdup(trigger->uid);
	known->filtered = true;
	seen_add(k, known);
	journal_show(v->hooks, v->ns, v->name, &s);
	hooks_tell(v->hooks, &(struct hooks_record){ .ns = v->ns,
						     .name = v->name,
						     .from = v->from,
						     .id = v->id,
						     .outcome = s.outcome,
						     .message = message,
						     .status = 202 });
	v->busy = true;
	v->write.done = on_filtered;
	journal_seen(v->hooks, k, known, &v->write);
}

/* What is taken */

static void on_accepted(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct delivery *d = container_of(w, struct delivery, write);

	d->refusal = e;
	d->made = !e;
}

/* For people; a key comes from whoever caused the event. */
static char *title_of(const char *trigger, const char *key)
{
	char *title = xasprintf("%s: %s", trigger, key);

	title[utf8_prefix(title, MIN(strlen(title), (size_t)TITLE_MAX))] = '\0';
	for (char *p = title; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	return title;
}

/* Takes known over. */
static struct delivery *draft(struct visit *v, const struct object *trigger, struct known *known,
			      const char *key)
{
	const struct trigger_view *t = trigger_view(trigger);
	struct delivery *d = delivery_new(v->hooks, trigger);

	d->known = known;
	d->id = xstrdup(v->id);
	d->from = xstrdup(v->from);
	d->agent = xstrdup(t->agent);
	d->own = !*t->session_key;
	d->title = title_of(trigger->name, key);
	event_session_name(&(struct event_session){ trigger->ns, trigger->name, t->agent, key },
			   known->session);
	d->session = xstrdup(known->session);
	(void)snprintf(v->session, sizeof(v->session), "%s", known->session);
	return d;
}

/* Takes known over. */
static void accept_event(struct visit *v, const struct object *trigger, struct known *known,
			 const char *key, struct hook_secret body)
{
	struct delivery *d = draft(v, trigger, known, key);
	struct hook *k = hook_of(v->hooks, trigger);

	delivery_take(d, body.p, body.len);
	seen_add(k, known);
	d->write.done = on_accepted;
	journal_accept(v->hooks, d, trigger);
	if (!d->made) {
		autoptr(err) e = take(d->refusal);

		seen_forget(k, known);
		delivery_free(d);
		refuse(v, 503, e ? err_text(e) : "it could not be kept", RETRY_S);
		return;
	}
	v->hooks->stats.accepted++;
	v->outcome = "accepted";
	v->delivery = d;
	answer_durably(v);
}

static bool has_room(struct visit *v, const struct object *trigger, size_t len)
{
	const struct hooks *h = v->hooks;
	const struct hook *k = hook_of(v->hooks, trigger);

	return k->n_pending < (size_t)trigger_view(trigger)->max_pending &&
	       h->n_pending < HOOKS_PENDING_MAX &&
	       h->pending_bytes + len <= HOOKS_PENDING_BYTES_MAX;
}

/* A signed event that did not come before. Takes known over. */
static void take_event(struct visit *v, const struct object *trigger, struct known *known,
		       struct hook_secret body)
{
	const struct json_limits limits = { .max_len = HOOK_BODY_MAX, .max_depth = HOOK_DEPTH_MAX };
	const struct trigger_view *t = trigger_view(trigger);
	autoptr(json_doc) event = NULL;
	autoptr(err) e = json_parse(body.p, body.len, &limits, &event);
	autofree char *key = NULL, *why = NULL;
	const char *path = NULL;
	int after = 0;

	if (e) {
		known_unref(known);
		refuse(v, 400, err_text(e), 0);
		return;
	}
	if (!has_room(v, trigger, body.len)) {
		known_unref(known);
		refuse(v, 429, "too many deliveries are under way", RETRY_S);
		return;
	}
	if (!hook_pace(hook_of(v->hooks, trigger), t->per_minute, &after)) {
		known_unref(known);
		refuse(v, 429, "too many deliveries in a minute", after);
		return;
	}
	if (event_passes(t->filters, json_root(event), &path))
		key = *t->session_key ? event_at(json_root(event), t->session_key) : xstrdup(v->id);
	if (key) {
		accept_event(v, trigger, known, key, body);
		return;
	}
	why = path ? xasprintf("%s is none of the values of its filter", path)
		   : xasprintf("there is no text or number at %s", t->session_key);
	filter(v, trigger, known, why);
}

/* Who sent it */

/* The secret of a trigger, the caller's; false: there is none. */
static bool find_secret(struct hooks *h, const struct object *trigger, void **ret, size_t *ret_len)
{
	const struct trigger_view *t = trigger ? trigger_view(trigger) : NULL;
	autoptr(object) o =
		t ? client_get(h->spec.client, h->secret, trigger->ns, t->secret) : NULL;
	const char *text = o ? json_get_str(json_get(o->root, "data"), t->key) : NULL;
	struct err *e = text ? base64_decode(text, false, ret, ret_len) : NULL;

	if (e || !text || !*ret_len) {
		err_free(e);
		return false;
	}
	return true;
}

/* The trigger whose secret has signed it, a reference; NULL: it is not known, or did not. */
static struct object *find_signer(struct visit *v, struct hook_secret body)
{
	struct hooks *h = v->hooks;
	autoptr(object) o = client_get(h->spec.client, h->trigger, v->ns, v->name);
	autofree void *bytes = NULL;
	struct hook_secret secret = { h->nobody, sizeof(h->nobody) };
	size_t len = 0;
	bool there = find_secret(h, o, &bytes, &len), holds;

	if (there)
		secret = (struct hook_secret){ bytes, len };
	holds = proof_holds(o ? trigger_view(o)->form : TRIGGER_PLAIN, &v->headers, &secret, body,
			    clock_wall());
	return there && holds && !trigger_view(o)->deleting ? take(o) : NULL;
}

static void on_body(void *owner, struct http_request *req unused, const char *data, size_t len)
{
	struct visit *v = owner;
	const struct hook_secret body = { data, len };
	autoptr(object) trigger = find_signer(v, body);
	char id_key[HOOK_KEY_LEN + 1], proof[HOOK_KEY_LEN + 1];
	const struct known *before;
	bool plain;

	v->reading = false;
	if (!trigger) {
		refuse(v, 401, "unauthorized", 0);
		return;
	}
	plain = trigger_view(trigger)->form == TRIGGER_PLAIN;
	if (!proof_id(trigger_view(trigger)->form, &v->headers, body, v->id)) {
		refuse(v, 400, "a delivery's id has 1 to 128 visible characters", 0);
		return;
	}
	proof_key("id", v->id, id_key);
	if (plain)
		proof_key("proof", str_or(v->headers.signature, ""), proof);
	before = seen_find(hook_of(v->hooks, trigger), id_key, plain ? proof : NULL);
	if (before)
		repeat(v, before);
	else
		take_event(v, trigger, known_new(id_key, plain ? proof : NULL), body);
}

/* The head */

/* /hooks/NAMESPACE/NAME. False: it is something else. */
static bool read_path(struct visit *v)
{
	struct span rest = SPAN(http_request_path(v->req) + strlen(HOOKS_PATH));
	struct span ns = span_cut(rest, '/', &rest);

	if (!ns.len || !rest.p || !rest.len || memchr(rest.p, '/', rest.len))
		return false;
	v->ns = xstrndup(ns.p, ns.len);
	v->name = xstrndup(rest.p, rest.len);
	return !meta_bad_dns_label(v->ns) && !meta_bad_dns_subdomain(v->name);
}

static size_t host_len(const char *peer)
{
	const char *colon = strrchr(peer, ':');

	return colon ? (size_t)(colon - peer) : strlen(peer);
}

/* Bodies are read for so many at a time, and for one address for some of them. */
static bool may_read(const struct visit *v)
{
	size_t all = 0, mine = 0, len = host_len(v->from);
	const struct visit *other;

	list_each(other, &v->hooks->visits, on) {
		if (!other->reading)
			continue;
		all++;
		mine += host_len(other->from) == len && !strncmp(other->from, v->from, len);
	}
	return all < HOOKS_READING_MAX && mine < HOOKS_READING_PEER_MAX;
}

static void read_headers(struct visit *v)
{
	v->headers = (struct hook_headers){
		.hub_signature = http_request_header(v->req, "X-Hub-Signature-256"),
		.signature = http_request_header(v->req, "X-Cay-Signature"),
		.timestamp = http_request_header(v->req, "X-Cay-Timestamp"),
		.hub_delivery = http_request_header(v->req, "X-GitHub-Delivery"),
		.delivery = http_request_header(v->req, "X-Cay-Delivery"),
	};
}

void hooks_visit(struct hooks *h, struct http_request *req)
{
	struct visit *v = xnew(struct visit);

	v->hooks = h;
	v->req = req;
	v->from = xstrdup(http_request_peer(req));
	list_add_tail(&h->visits, &v->on);
	http_request_set_owner(req, v, on_ended);
	if (!read_path(v)) {
		free(take(v->name)); /* nobody's */
		refuse(v, 404, "there is nothing here: POST to " HOOKS_PATH "NAMESPACE/NAME", 0);
	} else if (!str_eq(http_request_method(req), "POST")) {
		refuse(v, 405, "use POST", 0);
	} else if (!may_read(v)) {
		free(take(v->name));
		refuse(v, 429, "too many requests are under way", 1);
	} else {
		v->reading = true;
		read_headers(v);
		http_request_buffer(req, HOOK_BODY_MAX, on_body);
	}
}

void visits_free(struct hooks *h)
{
	struct visit *v, *next;

	list_each_safe(v, next, &h->visits, on) {
		v->delivery = NULL; /* it is one of hooks.deliveries */
		visit_free(v);
	}
}
