/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/workload.h"

#include <string.h>

#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/view_sandbox.h"
#include "audit/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "net/http_server.h"
#include "workload/workload_priv.h"

/*
 * Requests from inside a sandbox:
 *
 *   GET /identity               who this is
 *   GET /token?audience=NAME    a token that says so to whoever is called NAME
 *
 * Who asks is known from the socket and not from the request, in which nothing but the audience is
 * read. A token is handed out when it is on record.
 */
struct visit {
	struct list on; /* workload.visits */
	struct workload *workload;
	struct http_request *req; /* NULL: it was answered, or the client has left */
	struct subject subject;
	char *pod;
	char **audiences; /* NULL: it asked who it is */
	char id[37];      /* of the token */
	char *answer;
	struct audit_wait recorded;
};

static void visit_free(struct visit *v)
{
	audit_after_cancel(&v->recorded);
	list_del(&v->on);
	if (v->req)
		http_request_set_owner(v->req, NULL, NULL);
	gate_actor_done(&v->subject.actor);
	free(v->subject.id);
	free(v->subject.ns);
	free(v->subject.name);
	free(v->pod);
	audiences_free(v->audiences);
	if (v->answer)
		explicit_bzero(v->answer, strlen(v->answer));
	free(v->answer);
	free(v);
}

static void on_ended(void *owner)
{
	struct visit *v = owner;

	v->req = NULL;
	visit_free(v);
}

/* The record */

static void record(struct visit *v, int status, const char *why)
{
	const struct subject *s = &v->subject;
	autofree char *agent =
		s->acted ? xasprintf(AGENT_USER "%s:%s", s->ns, s->actor.agent) : NULL;
	autobuf audiences = { 0 };
	struct audit_note notes[4] = { 0 };
	size_t n = 0;

	for (char **a = v->audiences; a && *a; a++)
		buf_printf(&audiences, "%s%s", a == v->audiences ? "" : " ", *a);
	if (audiences.len)
		notes[n++] = (struct audit_note){ "audience", buf_str(&audiences) };
	if (*v->id)
		notes[n++] = (struct audit_note){ "token", v->id };
	if (s->acted)
		notes[n++] = (struct audit_note){ "session", s->actor.session };
	audit_write(v->workload->spec.audit,
		    &(struct audit_record){ .user = agent ? agent : s->id,
					    .verb = v->audiences ? "create" : "get",
					    .group = GROUP_AGENTS,
					    .resource = "sandboxes",
					    .sub = v->audiences ? "token" : "identity",
					    .ns = s->ns,
					    .name = s->name,
					    .pod = v->pod,
					    .status = status,
					    .note = why,
					    .notes = n ? notes : NULL });
}

/* Answers */

static void respond(struct http_request *req, int status, const char *text)
{
	struct http_headers h = { 0 };

	http_headers_add(&h, "Cache-Control", "no-store");
	if (status == 405)
		http_headers_add(&h, "Allow", "GET");
	http_respond(req, status, &h, (struct http_body){ "application/json", text, strlen(text) });
	http_headers_done(&h);
}

static void refuse(struct http_request *req, int status, const char *why)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	autofree char *text = NULL;

	json_set_str(d, o, "error", why);
	text = json_to_text(o);
	respond(req, status, text);
}

static void deny(struct visit *v, const char *why)
{
	v->workload->stats.refused++;
	record(v, 403, why);
	refuse(v->req, 403, why);
}

static void on_recorded(struct audit_wait *w, struct err *e)
{
	struct visit *v = container_of(w, struct visit, recorded);

	if (!e) {
		v->workload->stats.issued += v->audiences != NULL;
		respond(v->req, 200, v->answer);
		return;
	}
	refuse(v->req, 503, "the audit log cannot be written now");
	err_free(e);
}

/* Takes answer over. */
static void allow(struct visit *v, char *answer)
{
	v->answer = answer;
	record(v, 200, NULL);
	v->recorded.done = on_recorded;
	if (v->workload->spec.audit)
		audit_after(v->workload->spec.audit, &v->recorded);
	else
		on_recorded(&v->recorded, NULL);
}

/* Who it is */

/* A new reference; NULL: none. */
static struct object *sandbox_of(struct workload *w, const struct workload_caller *who)
{
	autoptr(object) pod = client_get(w->spec.client, w->pod, who->ns, who->pod);
	autoptr(object) sandbox = NULL;
	struct owner_view owner;

	if (!pod || !str_eq(pod->uid, who->pod_uid))
		return NULL;
	owner = owner_view_of(pod);
	if (owner.type != OWNER_SANDBOX)
		return NULL;
	sandbox = client_get(w->spec.client, w->sandbox, who->ns, owner.name);
	return sandbox && sandbox_tracks(sandbox, owner.uid, pod->name) ? take(sandbox) : NULL;
}

static void find_actor(struct visit *v, const struct object *sandbox, const char *attachment)
{
	const struct gate_where where = { .ns = sandbox->ns,
					  .sandbox = sandbox->name,
					  .attachment = attachment,
					  .session = object_label(sandbox, KEY_SESSION),
					  .agent = object_label(sandbox, KEY_AGENT) };

	v->subject.acted = gate_acts(v->workload->spec.gate, &where, &v->subject.actor);
}

/* NULL: it may. Otherwise why not, malloc'd. */
static char *gate_refusal(struct visit *v)
{
	const struct subject *s = &v->subject;
	autofree char *user =
		s->acted ? xasprintf(AGENT_USER "%s:%s", s->ns, s->actor.agent) : NULL;
	const struct gate_ask ask = { .user = user,
				      .ns = s->ns,
				      .sandbox = s->name,
				      .door = GATE_IDENTITY,
				      .attachment = s->actor.attachment };
	struct gate_answer answer;
	char *why = NULL;

	gate_decide(v->workload->spec.gate, &ask, &answer);
	if (answer.verdict == VERDICT_ASK)
		why = xasprintf("agent %s must ask a person first, who cannot be asked here: allow "
				"what its rules leave to approval.default",
				s->actor.agent);
	else if (answer.verdict == VERDICT_DENY)
		why = xstrdup(err_text(answer.why));
	err_free(answer.why);
	return why;
}

/* The token */

static struct err *token_answer(struct visit *v, char **ret)
{
	const struct workload_spec *spec = &v->workload->spec;
	const int64_t now = clock_wall() / 1000000;
	autofree char *claims = NULL, *token = NULL;
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	char expires[CLOCK_TEXT_MAX];
	struct err *e;

	random_uuid(v->id);
	claims = claims_write(&v->subject, &(struct claims_spec){ .issuer = spec->issuer(spec->arg),
								  .id = v->id,
								  .audiences = v->audiences,
								  .now_s = now });
	e = spec->sign(spec->arg, claims, &token);
	if (e)
		return e;
	clock_format((now + WORKLOAD_TTL_S) * 1000000, expires);
	json_set_str(d, o, "token", token);
	json_set_str(d, o, "expires", expires);
	*ret = json_to_text(o);
	explicit_bzero(token, strlen(token));
	return NULL;
}

static void answer(struct visit *v)
{
	autofree char *why = gate_refusal(v);
	char *text = NULL;
	struct err *e;

	if (why) {
		deny(v, why);
		return;
	}
	e = v->audiences ? token_answer(v, &text) : NULL;
	if (e) {
		refuse(v->req, 500, "the token could not be signed");
		err_free(e);
		return;
	}
	allow(v, text ? text : subject_write(&v->subject));
}

static void begin(struct visit *v, const struct workload_caller *who)
{
	struct workload *w = v->workload;
	autoptr(object) sandbox = sandbox_of(w, who);

	v->pod = xstrdup(who->pod);
	v->subject.ns = xstrdup(who->ns);
	v->subject.name = xstrdup(sandbox ? sandbox->name : who->pod);
	v->subject.id = subject_id(w->domain, who->ns, v->subject.name);
	if (!sandbox) {
		deny(v, "this Pod is not the one that a Sandbox has");
		return;
	}
	find_actor(v, sandbox, who->attachment);
	if (who->attachment && !v->subject.acted)
		deny(v, "the attachment that this command belongs to is gone, or its session has "
			"ended");
	else
		answer(v);
}

static struct err *read_audiences(struct workload *w, const char *query, char ***ret)
{
	struct err *e = audiences_read(query, ret);

	for (char **a = e ? NULL : *ret; a && *a && !e; a++)
		if (w->spec.is_own(w->spec.arg, *a) || str_eq(*a, w->spec.issuer(w->spec.arg)))
			e = err_new(ERR_INVALID,
				    "audience: %s is this instance itself, and no sandbox's token "
				    "is a way to its API",
				    *a);
	if (e && *ret)
		audiences_free(take(*ret));
	return e;
}

void workload_visit(struct workload *w, struct http_request *req, const struct workload_caller *who)
{
	const char *path = http_request_path(req);
	bool token = str_eq(path, "/token");
	char **audiences = NULL;
	struct visit *v;
	struct err *e = NULL;

	if (!token && !str_eq(path, "/identity")) {
		refuse(req, 404, "there is /identity, and /token?audience=NAME");
		return;
	}
	if (!str_eq(http_request_method(req), "GET")) {
		refuse(req, 405, "use GET");
		return;
	}
	if (token)
		e = read_audiences(w, http_request_query(req), &audiences);
	if (e) {
		refuse(req, 400, err_text(e));
		err_free(e);
		return;
	}
	v = xnew(struct visit);
	*v = (struct visit){ .workload = w, .req = req, .audiences = audiences };
	list_add_tail(&w->visits, &v->on);
	http_request_set_owner(req, v, on_ended);
	begin(v, who);
}

struct err *workload_new(const struct workload_spec *spec, struct workload **ret)
{
	const struct kinds *kinds = client_kinds(spec->client);
	struct workload *w;
	struct err *e = trust_domain_check(spec->domain);

	if (e)
		return e;
	w = xnew(struct workload);
	w->spec = *spec;
	w->domain = xstrdup(spec->domain);
	w->pod = kinds_need(kinds, "v1", "Pod");
	w->sandbox = kinds_need(kinds, API_SANDBOX, "Sandbox");
	list_init(&w->visits);
	*ret = w;
	return NULL;
}

void workload_free(struct workload *w)
{
	struct visit *v, *next;

	if (!w)
		return;
	list_each_safe(v, next, &w->visits, on)
		visit_free(v);
	free(w->domain);
	free(w);
}

void workload_stats(const struct workload *w, struct workload_stats *ret)
{
	*ret = w->stats;
}
