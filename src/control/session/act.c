/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/meta.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/index/links.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/session/session.h"
#include "control/session/session_priv.h"

/*
 * The writes of a session's plan. A claim whose creation is under way counts as one of its agent's,
 * so that sessions that come at the same moment do not take more than the agent may have.
 */
struct sessions {
	struct map *creating; /* "ns/agent" → struct creating, owned */
};
struct creating {
	int64_t n;
};
/* One creation under way. */
struct ticket {
	struct sessions *s;
	char *key;
};

struct sessions *sessions_new(void)
{
	struct sessions *s = xnew(struct sessions);

	s->creating = map_new(free);
	return s;
}

void sessions_free(struct sessions *s)
{
	if (!s)
		return;
	map_free(s->creating);
	free(s);
}

int64_t sessions_creating(const struct sessions *s, const char *ns, const char *agent)
{
	autofree char *key = xasprintf("%s/%s", ns, agent);
	const struct creating *c = map_get(s->creating, key);

	return c ? c->n : 0;
}

int64_t sessions_creating_all(const struct sessions *s, const char *ns)
{
	size_t len = strlen(ns);
	int64_t n = 0;

	map_each(it, s->creating)
		if (!strncmp(it.key, ns, len) && it.key[len] == '/')
			n += ((const struct creating *)it.value)->n;
	return n;
}

static struct ticket *ticket_new(struct sessions *s, const char *ns, const char *agent)
{
	struct ticket *t = xnew(struct ticket);
	struct creating *c;

	t->s = s;
	t->key = xasprintf("%s/%s", ns, agent);
	c = map_get(s->creating, t->key);
	if (!c) {
		c = xnew(struct creating);
		map_put(s->creating, t->key, c);
	}
	c->n++;
	return t;
}

static void ticket_drop(void *arg)
{
	struct ticket *t = arg;
	struct creating *c = map_get(t->s->creating, t->key);

	if (!--c->n)
		(void)map_del(t->s->creating, t->key);
	free(t->key);
	free(t);
}

/* Claims */

static void set_label(struct json_doc *d, struct json *labels, const char *key, const char *name)
{
	char label[LINK_LABEL_MAX];

	link_label(name, label);
	json_set_str(d, labels, key, label);
}

static void note_retain(struct json_doc *d, struct json *annotations, usec retain)
{
	autofree char *seconds = xasprintf("%lld", (long long)retain / 1000000);

	if (retain < 0)
		json_set(d, annotations, KEY_RETAIN, json_new_null(d));
	else
		json_set_str(d, annotations, KEY_RETAIN, seconds);
}

static struct json_doc *build_claim(const struct object *session, const struct session_seen *seen,
				    const struct session_plan *plan)
{
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, API_EXTENSIONS, "SandboxClaim");
	struct json *meta = json_need_obj(d, root, "metadata"), *labels, *notes;

	json_set_str(d, meta, "name", seen->claim.name);
	json_set_str(d, meta, "namespace", session->ns);
	labels = json_need_obj(d, meta, "labels");
	if (plan->target == TARGET_SHARED)
		json_set_str(d, labels, KEY_SHARED, "true");
	else
		set_label(d, labels, KEY_AGENT, seen->v->agent);
	if (plan->target == TARGET_OWN) {
		set_label(d, labels, KEY_SESSION, session->name);
		notes = json_need_obj(d, meta, "annotations");
		json_set_str(d, notes, KEY_SESSION_UID, session->uid);
		if (plan->retain >= 0)
			note_retain(d, notes, plan->retain);
	}
	if (plan->target != TARGET_SHARED && seen->agent->visibility == VISIBILITY_PRIVATE &&
	    !str_empty(seen->agent->owner)) {
		notes = json_need_obj(d, meta, "annotations");
		json_set_str(d, notes, KEY_VISIBILITY, visibility_names[VISIBILITY_PRIVATE]);
		json_set_str(d, notes, KEY_OWNER, seen->agent->owner);
	}
	json_set_str(d, json_need_obj(d, json_need_obj(d, root, "spec"), "warmPoolRef"), "name",
		     seen->agent->pool);
	return d;
}

static void make_claim(struct pass *p, const struct object *session,
		       const struct session_seen *seen, const struct session_plan *plan)
{
	struct write w = { .name = SESSION_WRITE_CLAIM,
			   .to = { p->c->kinds.claim, session->ns, seen->claim.name } };

	if (plan->target != TARGET_SHARED) {
		w.arg = ticket_new(p->own, session->ns, seen->v->agent);
		w.drop_arg = ticket_drop;
	}
	pass_create(p, &w, build_claim(session, seen, plan));
}

/* A patch that is for this very object, whatever its revision is by now. */
static struct json_doc *patch_of(const struct object *o)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d);

	json_set_root(d, root);
	draft_guard_uid(d, json_need_obj(d, root, "metadata"), o);
	return d;
}

static void patch_claim(struct pass *p, const struct object *claim, const struct session_plan *plan)
{
	const struct write w = { .name = SESSION_WRITE_CLOCK,
				 .to = ref_of(claim),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d = patch_of(claim);
	struct json *root = json_root(d), *spec, *lifecycle;
	char at[CLOCK_TEXT_MAX];

	if (plan->step == SESSION_STEP_NOTE) {
		note_retain(d, json_need_obj(d, json_get(root, "metadata"), "annotations"),
			    plan->retain);
	} else if (!plan->delete_at) {
		json_set(d, json_need_obj(d, root, "spec"), "lifecycle", json_new_null(d));
	} else {
		clock_format(plan->delete_at, at);
		spec = json_need_obj(d, root, "spec");
		lifecycle = json_need_obj(d, spec, "lifecycle");
		json_set_str(d, lifecycle, "shutdownTime", at);
		json_set_str(d, lifecycle, "shutdownPolicy", "Delete");
	}
	pass_patch(p, &w, d);
}

/* Sandboxes */

static void set_mode(struct pass *p, const struct object *sandbox, bool suspended)
{
	const struct write w = { .name = SESSION_WRITE_SANDBOX,
				 .to = ref_of(sandbox),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d = patch_of(sandbox);
	struct json *root = json_root(d);

	json_set_str(d, json_need_obj(d, root, "spec"), "operatingMode",
		     suspended ? "Suspended" : "Running");
	/* It does not sleep for want of use: no packet may wake it. */
	if (object_annotation(sandbox, KEY_ASLEEP_SINCE))
		json_set(d, json_need_obj(d, json_get(root, "metadata"), "annotations"),
			 KEY_ASLEEP_SINCE, json_new_null(d));
	pass_patch(p, &w, d);
}

static void label_sandbox(struct pass *p, const struct object *sandbox, const struct object *claim)
{
	static const char *const keys[] = { KEY_SESSION, KEY_AGENT, KEY_SHARED };
	const struct write w = { .name = SESSION_WRITE_SANDBOX,
				 .to = ref_of(sandbox),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d = patch_of(sandbox);
	struct json *labels = json_need_obj(d, json_get(json_root(d), "metadata"), "labels");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *value = object_label(claim, keys[i]);

		if (value)
			json_set_str(d, labels, keys[i], value);
		else if (object_label(sandbox, keys[i]))
			json_set(d, labels, keys[i], json_new_null(d));
	}
	pass_patch(p, &w, d);
}

/* Attachments */

static void attach(struct pass *p, const struct object *session, const char *sandbox)
{
	const struct write w = { .name = SESSION_WRITE_ATTACH,
				 .to = { p->c->kinds.attachment, session->ns, session->name } };
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, API_CAY, "Attachment"), *spec;

	(void)draft_meta(d, root, session->name, session);
	spec = json_need_obj(d, root, "spec");
	json_set_str(d, spec, "session", session->name);
	json_set_str(d, spec, "sandbox", sandbox);
	json_set_str(d, spec, "view", attachment_viewpoint_name(VIEW_SHARED));
	pass_create(p, &w, d);
}

static void detach(struct pass *p, const struct object *attachment)
{
	const struct write w = { .name = SESSION_WRITE_DETACH,
				 .to = ref_of(attachment),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };

	pass_delete_uid(p, &w, attachment->uid);
}

/* The session itself */

static void set_finalizer(struct pass *p, const struct object *session, bool wanted)
{
	const struct write w = { .name = SESSION_WRITE_FINALIZER,
				 .to = ref_of(session),
				 .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *list = json_arr(d);

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	draft_guard(d, meta, session);
	json_each(it, json_get(json_get(session->root, "metadata"), "finalizers"))
		if (!str_eq(json_str(it.val), FINALIZER_SESSION))
			json_push(d, list, json_copy(d, it.val));
	if (wanted)
		json_push_str(d, list, FINALIZER_SESSION);
	json_set(d, meta, "finalizers", list);
	pass_patch(p, &w, d);
}

static void stamp(struct pass *p, const struct object *session, usec at)
{
	struct write w = { .name = SESSION_WRITE_STATUS,
			   .to = ref_of(session),
			   .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *d = patch_of(session);
	char text[CLOCK_TEXT_MAX];

	clock_format(at, text);
	json_set_str(d, json_need_obj(d, json_root(d), "status"), "endedAt", text);
	w.to.sub = "status";
	pass_patch(p, &w, d);
}

void session_act(struct pass *p, const struct session_objects *o, const struct session_seen *seen,
		 const struct session_plan *plan)
{
	switch (plan->step) {
	case SESSION_STEP_GUARD:
	case SESSION_STEP_RELEASE:
		set_finalizer(p, o->session, plan->step == SESSION_STEP_GUARD);
		break;
	case SESSION_STEP_CLAIM:
		make_claim(p, o->session, seen, plan);
		break;
	case SESSION_STEP_STAMP:
		stamp(p, o->session, plan->ended_at);
		break;
	case SESSION_STEP_CLOCK:
	case SESSION_STEP_NOTE:
		patch_claim(p, o->own, plan);
		break;
	case SESSION_STEP_SUSPEND:
	case SESSION_STEP_RESUME:
		set_mode(p, o->own_sandbox, plan->step == SESSION_STEP_SUSPEND);
		break;
	case SESSION_STEP_LABEL:
		label_sandbox(p, o->sandbox, o->claim);
		break;
	case SESSION_STEP_ATTACH:
		attach(p, o->session, plan->sandbox);
		break;
	case SESSION_STEP_DETACH:
		detach(p, o->attachment);
		break;
	case SESSION_STEP_REPORT:
	case SESSION_STEP_NONE:
		break;
	}
}
