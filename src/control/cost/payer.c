/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/cay/session.h"
#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cost/cost_priv.h"
#include "control/index/links.h"
#include "control/pass/context.h"

/*
 * Who pays. Commands of an attachment are its session's, and so its agent's and its user's. What
 * else a sandbox uses is that of the session or agent that it was made for, or the team's.
 *
 * A short command may be over, and all objects about it gone, before it is first measured. So what
 * is known of an object is noted when it changes, and kept for two measurements after its end.
 */
enum {
	GONE_MAX = 8192, /* notes of what is gone */
	GONE_LOOKS = 2,
	USER_MAX = 128, /* bytes of a user's name in a ledger */
};

static struct object *object_of(struct context *c, const struct kind *k, const char *ns,
				const char *name)
{
	return str_empty(name) ? NULL : client_get(c->client, k, ns, name);
}

static const char *template_of(const struct object *sandbox, struct arena *a)
{
	return sandbox ? arena_strdup(a, str_or(object_annotation(sandbox, KEY_TEMPLATE_REF), ""))
		       : "";
}

static void session_pays(const struct object *session, struct arena *a, struct payer_of *ret)
{
	const struct session_view *v = session_view(session);

	ret->who.agent = arena_strdup(a, v->agent);
	ret->who.user = arena_strndup(a, v->user,
				      utf8_prefix(v->user, MIN(strlen(v->user), (size_t)USER_MAX)));
	ret->session = arena_strdup(a, session->name);
	ret->session_uid = arena_strdup(a, session->uid);
}

static struct payer_of nobody(void)
{
	return (struct payer_of){ { "", "", "" }, "", "" };
}

static bool attachment_payer(struct context *c, const struct object *o, struct arena *a,
			     struct payer_of *ret)
{
	const struct attachment_view *v = attachment_view(o);
	autoptr(object) session = object_of(c, c->kinds.session, o->ns, v->session);
	autoptr(object) sandbox = object_of(c, c->kinds.sandbox, o->ns, v->sandbox);

	*ret = nobody();
	if (!session)
		return false;
	session_pays(session, a, ret);
	ret->who.template = template_of(sandbox, a);
	return true;
}

/* The session that the Sandbox was made for, if it is still that one; borrowed. */
static const struct object *session_of(struct context *c, const struct object *sandbox)
{
	const char *label = object_label(sandbox, KEY_SESSION);
	autoptr(object) claim = NULL;

	if (str_empty(label))
		return NULL;
	if (sandbox_view(sandbox)->owner.type == OWNER_CLAIM)
		claim = client_get(c->client, c->kinds.claim, sandbox->ns,
				   sandbox_view(sandbox)->owner.name);
	map_each(it, links_of(c->links, LINK_LABEL_SESSIONS, sandbox->ns, label)) {
		const struct object *o = it.value;

		if (claim && str_eq(object_annotation(claim, KEY_SESSION_UID), o->uid))
			return o;
	}
	return NULL;
}

static void sandbox_payer(struct context *c, const struct object *sandbox, struct arena *a,
			  struct payer_of *ret)
{
	const struct object *session = session_of(c, sandbox);
	const char *agent = object_label(sandbox, KEY_AGENT);

	*ret = nobody();
	if (session)
		session_pays(session, a, ret);
	else if (!str_empty(agent))
		map_each(it, links_of(c->links, LINK_LABEL_AGENTS, sandbox->ns, agent))
			ret->who.agent = arena_strdup(a, ((const struct object *)it.value)->name);
	ret->who.template = template_of(sandbox, a);
}

/* Notes */

static void note_drop(void *p)
{
	struct note *n = p;

	free(n->agent);
	free(n->user);
	free(n->template);
	free(n->session);
	free(n->session_uid);
	free(n);
}

void notes_drop(void *map)
{
	map_free(map);
}

static struct map *notes_of(struct books *c, const char *ns, bool make)
{
	struct map *m = map_get(c->notes, ns);

	if (!m && make) {
		m = map_new(note_drop);
		map_put(c->notes, ns, m);
	}
	return m;
}

static void note_del(struct books *c, struct map *m, const char *key)
{
	const struct note *n = map_get(m, key);

	c->n_gone -= n && n->gone;
	(void)map_del(m, key);
}

static void note_put(struct books *c, const char *ns, const char *key, const struct payer_of *by)
{
	struct map *m = notes_of(c, ns, true);
	struct note *n = xnew(struct note);

	*n = (struct note){ .agent = xstrdup(by->who.agent),
			    .user = xstrdup(by->who.user),
			    .template = xstrdup(by->who.template),
			    .session = xstrdup(by->session),
			    .session_uid = xstrdup(by->session_uid) };
	note_del(c, m, key);
	map_put(m, key, n);
}

static void note_gone(struct books *c, const char *ns, const char *key)
{
	struct map *m = notes_of(c, ns, false);
	struct note *n = m ? map_get(m, key) : NULL;

	if (!n || n->gone)
		return;
	if (c->n_gone >= GONE_MAX) {
		note_del(c, m, key);
		return;
	}
	n->gone = true;
	n->gone_look = c->n_looks;
	c->n_gone++;
}

void books_attachment_changed(struct books *c, const struct object *was, const struct object *now)
{
	autoptr(arena) a = arena_new();
	struct payer_of by;

	if (!now)
		note_gone(c, was->ns, was->uid);
	else if (attachment_payer(c->c, now, a, &by))
		note_put(c, now->ns, now->uid, &by);
}

static char *sandbox_key(const char *name)
{
	return xasprintf("/%s", name);
}

static bool is_for_somebody(const struct object *o)
{
	return o && (object_label(o, KEY_SESSION) || object_label(o, KEY_AGENT));
}

void books_sandbox_changed(struct books *c, const struct object *was, const struct object *now)
{
	autofree char *key = NULL;
	autoptr(arena) a = NULL;
	struct payer_of by;

	if (!is_for_somebody(now ? now : was))
		return;
	key = sandbox_key((now ? now : was)->name);
	if (!now) {
		note_gone(c, was->ns, key);
		return;
	}
	if (is_for_somebody(was) &&
	    str_eq(object_label(was, KEY_SESSION), object_label(now, KEY_SESSION)) &&
	    str_eq(object_label(was, KEY_AGENT), object_label(now, KEY_AGENT)))
		return;
	a = arena_new();
	sandbox_payer(c->c, now, a, &by);
	note_put(c, now->ns, key, &by);
}

static bool is_told(const struct sources *s, const char *key)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (*key == '/' ? str_eq(s->list[i].sandbox, key + 1) : str_eq(s->list[i].uid, key))
			return true;
	return false;
}

void notes_sweep(struct books *c, const char *ns, const struct sources *s)
{
	struct map *m = notes_of(c, ns, false);

	map_each(it, m) {
		const struct note *n = it.value;

		if (n->gone && c->n_looks - n->gone_look > GONE_LOOKS && !is_told(s, it.key))
			note_del(c, m, it.key);
	}
	if (m && !map_len(m))
		(void)map_del(c->notes, ns);
}

static bool noted(struct books *c, const char *ns, const char *key, struct arena *a,
		  struct payer_of *ret)
{
	struct map *m = notes_of(c, ns, false);
	const struct note *n = m ? map_get(m, key) : NULL;

	if (!n)
		return false;
	*ret = (struct payer_of){ { arena_strdup(a, n->agent), arena_strdup(a, n->user),
				    arena_strdup(a, n->template) },
				  arena_strdup(a, n->session),
				  arena_strdup(a, n->session_uid) };
	return true;
}

/* Looking up */

static void object_drop(void *p)
{
	object_unref(p);
}

static bool add_attachment(void *arg, struct object *o)
{
	map_put(((struct attachments *)arg)->by_uid, o->uid, object_ref(o));
	return true;
}

void attachments_load(struct context *c, const char *ns, struct attachments *ret)
{
	ret->ns = ns;
	ret->by_uid = map_new(object_drop);
	client_each(c->client, c->kinds.attachment, ns, add_attachment, ret);
}

void attachments_done(struct attachments *a)
{
	map_free(a->by_uid);
}

bool payer_find(struct books *c, const struct source *s, const struct attachments *all,
		struct arena *a, struct payer_of *ret)
{
	const char *ns = all->ns;
	const struct object *attachment = s->attachment ? map_get(all->by_uid, s->uid) : NULL;
	autofree char *key = s->attachment ? xstrdup(s->uid) : sandbox_key(s->sandbox);
	autoptr(object) sandbox =
		s->attachment ? NULL : object_of(c->c, c->c->kinds.sandbox, ns, s->sandbox);

	if (attachment && attachment_payer(c->c, attachment, a, ret))
		return true;
	if (sandbox) {
		sandbox_payer(c->c, sandbox, a, ret);
		return true;
	}
	*ret = nobody();
	return noted(c, ns, key, a, ret);
}
