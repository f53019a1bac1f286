/* SPDX-License-Identifier: Apache-2.0 */
#include "server/auth/rbac.h"

#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "server/auth/rbac_priv.h"
#include "server/call/call.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * Three maps:
 *
 *   roles     NS/NAME → compiled rules; "/NAME" is a ClusterRole. One that is named by a binding
 *             and does not exist is here too, without rules: when it comes, the binding has it.
 *   bindings  NS/NAME → its role and subjects; "/NAME" is a ClusterRoleBinding
 *   holders   uNS/USER, gNS/GROUP → the bindings of this namespace ("": of the cluster) that name
 *             the subject. A service account is a user.
 *
 * A question is a look-up for the user and for each group, in the cluster and in the namespace.
 */
enum {
	KEY_FEW = 256, /* longer keys than this are seldom looked up */
};

struct rbac {
	const struct objects *objects;
	struct map *roles, *bindings, *holders;
};

struct role_entry {
	char *key;
	struct object *object; /* a reference, NULL: there is none */
	struct arena *arena;   /* of the rules */
	struct rules rules;
	size_t n_bindings;
};

struct binding {
	struct object *object; /* a reference */
	struct role_entry *role;
};

struct holder {
	struct binding **list;
	size_t n, room;
};

/* Roles */

static void role_forget(struct role_entry *e)
{
	object_unref(take(e->object));
	arena_free(take(e->arena));
	e->rules = (struct rules){ 0 };
}

static void role_free(void *value)
{
	struct role_entry *e = value;

	role_forget(e);
	free(e->key);
	free(e);
}

/* Takes key over. */
static struct role_entry *role_need(struct rbac *r, char *key)
{
	struct role_entry *e = map_get(r->roles, key);

	if (e) {
		free(key);
		return e;
	}
	e = xnew(struct role_entry);
	e->key = key;
	map_put(r->roles, key, e);
	return e;
}

static void role_drop_unused(struct rbac *r, struct role_entry *e)
{
	if (!e->object && !e->n_bindings)
		(void)map_del(r->roles, e->key);
}

static char *object_key(const struct object *o)
{
	return xasprintf("%s/%s", o->ns, o->name);
}

static void role_changed(struct rbac *r, struct object *o, bool gone)
{
	struct role_entry *e = role_need(r, object_key(o));

	role_forget(e);
	if (!gone) {
		e->object = object_ref(o);
		e->arena = arena_new();
		rules_compile(e->arena, json_get(o->root, "rules"), &e->rules);
	}
	role_drop_unused(r, e);
}

/* The key of the role that a binding in ns names; malloc'd. */
static char *ref_key(const struct json *ref, const char *ns)
{
	bool here = str_eq(json_get_str(ref, "kind"), "Role");

	return xasprintf("%s/%s", here ? ns : "", str_or(json_get_str(ref, "name"), ""));
}

const struct json *rbac_rules_of(const struct rbac *r, const struct json *ref, const char *ns)
{
	autofree char *key = ref_key(ref, ns);
	const struct role_entry *e = map_get(r->roles, key);

	return e && e->object ? json_get(e->object->root, "rules") : NULL;
}

/* Holders */

static void holder_free(void *value)
{
	struct holder *h = value;

	free(h->list);
	free(h);
}

/* Which holder a subject is, malloc'd; NULL: it can be nobody. */
static char *subject_key(const struct json *subject, const char *ns)
{
	const char *kind = str_or(json_get_str(subject, "kind"), "");
	const char *name = str_or(json_get_str(subject, "name"), "");

	if (str_eq(kind, "User"))
		return xasprintf("u%s/%s", ns, name);
	if (str_eq(kind, "Group"))
		return xasprintf("g%s/%s", ns, name);
	if (!str_eq(kind, "ServiceAccount"))
		return NULL;
	return xasprintf("u%s/system:serviceaccount:%s:%s", ns,
			 str_or(json_get_str(subject, "namespace"), ns), name);
}

static void holder_add(struct rbac *r, const char *key, struct binding *b)
{
	struct holder *h = map_get(r->holders, key);

	if (!h) {
		h = xnew(struct holder);
		map_put(r->holders, key, h);
	}
	if (h->n && h->list[h->n - 1] == b)
		return; /* the subject is in the binding twice */
	if (h->n == h->room) {
		h->room = MAX(2 * h->room, (size_t)4);
		h->list = xrealloc(h->list, h->room * sizeof(struct binding *));
	}
	h->list[h->n++] = b;
}

static void holder_del(struct rbac *r, const char *key, const struct binding *b)
{
	struct holder *h = map_get(r->holders, key);
	size_t n = 0;

	if (!h)
		return; /* the subject is in the binding twice */
	for (size_t i = 0; i < h->n; i++)
		if (h->list[i] != b)
			h->list[n++] = h->list[i];
	h->n = n;
	if (!n)
		(void)map_del(r->holders, key);
}

/* Bindings */

static void binding_link(struct rbac *r, struct binding *b, bool link)
{
	const struct object *o = b->object;

	json_each(it, json_get(o->root, "subjects")) {
		autofree char *key = subject_key(it.val, o->ns);

		if (key && link)
			holder_add(r, key, b);
		else if (key)
			holder_del(r, key, b);
	}
}

static void binding_free(void *value)
{
	struct binding *b = value;

	object_unref(b->object);
	free(b);
}

static void binding_forget(struct rbac *r, const char *key)
{
	struct binding *b = map_take(r->bindings, key);

	if (!b)
		return;
	binding_link(r, b, false);
	b->role->n_bindings--;
	role_drop_unused(r, b->role);
	binding_free(b);
}

static void binding_changed(struct rbac *r, struct object *o, bool gone)
{
	autofree char *key = object_key(o);
	struct binding *b;

	binding_forget(r, key);
	if (gone)
		return;
	b = xnew(struct binding);
	b->object = object_ref(o);
	b->role = role_need(r, ref_key(json_get(o->root, "roleRef"), o->ns));
	b->role->n_bindings++;
	binding_link(r, b, true);
	map_put(r->bindings, key, b);
}

bool rbac_changed(struct rbac *r, struct object *o, bool gone)
{
	const struct objects *os = r->objects;

	if (o->kind == os->role || o->kind == os->cluster_role)
		role_changed(r, o, gone);
	else if (o->kind == os->role_binding || o->kind == os->cluster_role_binding)
		binding_changed(r, o, gone);
	else
		return false;
	return true;
}

/* Questions */

struct visit {
	char kind;
	const char *subject;
	const struct binding *binding;
};
/* False ends it. */
typedef bool (*visitor)(void *arg, const struct visit *v);

/* As in subject_key(), by hand because every question does it several times. */
static const struct holder *find_holder(const struct rbac *r, const struct visit *v, const char *ns)
{
	size_t ns_len = strlen(ns), len = strlen(v->subject);
	char few[KEY_FEW], *at = few;
	autofree char *many = NULL;

	if (1 + ns_len + 1 + len + 1 > sizeof(few)) {
		many = xasprintf("%c%s/%s", v->kind, ns, v->subject);
		return map_get(r->holders, many);
	}
	*at++ = v->kind;
	at = mempcpy(at, ns, ns_len);
	*at++ = '/';
	memcpy(at, v->subject, len + 1);
	return map_get(r->holders, few);
}

static bool visit_holder(const struct rbac *r, struct visit *v, const char *ns, visitor fn,
			 void *arg)
{
	const struct holder *h = find_holder(r, v, ns);

	for (size_t i = 0; h && i < h->n; i++) {
		v->binding = h->list[i];
		if (!fn(arg, v))
			return false;
	}
	return true;
}

static bool visit_scope(const struct rbac *r, const struct user *u, const char *ns, visitor fn,
			void *arg)
{
	struct visit v = { .kind = 'u', .subject = u->name };

	if (!visit_holder(r, &v, ns, fn, arg))
		return false;
	v.kind = 'g';
	for (size_t i = 0; u->groups[i]; i++) {
		v.subject = u->groups[i];
		if (!visit_holder(r, &v, ns, fn, arg))
			return false;
	}
	return true;
}

static void visit_all(const struct rbac *r, const struct user *u, const char *ns, visitor fn,
		      void *arg)
{
	/* What is asked about by name may be no namespace at all, and must not look like a key. */
	if (visit_scope(r, u, "", fn, arg) && *ns && !strchr(ns, '/'))
		(void)visit_scope(r, u, ns, fn, arg);
}

struct question {
	const struct act *act;
	unsigned bits;
	bool allowed;
	struct rbac_reason *why;
};

static bool ask_one(void *arg, const struct visit *v)
{
	struct question *q = arg;

	if (!rules_allow(&v->binding->role->rules, q->act, q->bits))
		return true;
	q->allowed = true;
	if (q->why)
		*q->why = (struct rbac_reason){ v->binding->object, v->kind, v->subject };
	return false;
}

bool rbac_allows(const struct rbac *r, const struct user *u, const struct act *a,
		 struct rbac_reason *ret_why)
{
	struct question q = { .act = a, .bits = verb_bits(a->verb), .why = ret_why };

	/* A page is not in a namespace, whatever else was asked. */
	visit_all(r, u, a->resource ? a->ns : "", ask_one, &q);
	return q.allowed;
}

struct listing {
	void (*fn)(void *arg, const struct json *rule);
	void *arg;
};

static bool list_one(void *arg, const struct visit *v)
{
	const struct listing *l = arg;
	const struct rules *rules = &v->binding->role->rules;

	for (size_t i = 0; i < rules->n; i++)
		l->fn(l->arg, rules->list[i].json);
	return true;
}

void rbac_each(const struct rbac *r, const struct user *u, const char *ns,
	       void (*fn)(void *arg, const struct json *rule), void *arg)
{
	struct listing l = { fn, arg };

	visit_all(r, u, ns, list_one, &l);
}

static const struct json *role_ref(const struct object *binding)
{
	return json_get(binding->root, "roleRef");
}

static bool complain_one(void *arg, const struct visit *v)
{
	const struct json *ref = role_ref(v->binding->object);
	struct buf *out = arg;

	if (v->binding->role->object)
		return true;
	buf_printf(out, "%s%s.rbac.authorization.k8s.io \"%s\" not found", out->len ? ", " : "",
		   str_eq(json_get_str(ref, "kind"), "Role") ? "role" : "clusterrole",
		   str_or(json_get_str(ref, "name"), ""));
	return out->len < 1024;
}

void rbac_complain(const struct rbac *r, const struct user *u, const char *ns, struct buf *out)
{
	autobuf missing = { 0 };

	visit_all(r, u, ns, complain_one, &missing);
	if (missing.len)
		buf_printf(out, strstr(buf_str(&missing), ", ") ? "RBAC: [%s]" : "RBAC: %s",
			   buf_str(&missing));
}

/* "ServiceAccount "NAME/NS"", "User "NAME"" */
static void explain_subject(const struct rbac_reason *why, struct buf *out)
{
	static const char account[] = "system:serviceaccount:";
	struct span ns, name;

	if (why->kind == 'g' || !str_starts(why->subject, account)) {
		buf_printf(out, "%s \"%s\"", why->kind == 'g' ? "Group" : "User", why->subject);
		return;
	}
	ns = span_cut(SPAN(why->subject + strlen(account)), ':', &name);
	buf_printf(out, "ServiceAccount \"%.*s/%.*s\"", (int)name.len, name.p ? name.p : "",
		   (int)ns.len, ns.p);
}

void rbac_explain(const struct rbac_reason *why, struct buf *out)
{
	const struct object *b = why->binding;
	const struct json *ref = role_ref(b);

	buf_printf(out, "RBAC: allowed by %s \"%s%s%s\" of %s \"%s\" to ", b->kind->kind, b->name,
		   *b->ns ? "/" : "", b->ns, str_or(json_get_str(ref, "kind"), ""),
		   str_or(json_get_str(ref, "name"), ""));
	explain_subject(why, out);
}

static void load(struct rbac *r, const struct kind *k)
{
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, k, NULL);
	while ((en = store_next(r->objects->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(r->objects, en);

		if (o)
			(void)rbac_changed(r, o, false);
	}
}

struct rbac *rbac_new(const struct objects *os)
{
	struct rbac *r = xnew(struct rbac);

	r->objects = os;
	r->roles = map_new_borrowing(role_free);
	r->bindings = map_new(binding_free);
	r->holders = map_new(holder_free);
	load(r, os->role);
	load(r, os->cluster_role);
	load(r, os->role_binding);
	load(r, os->cluster_role_binding);
	return r;
}

void rbac_free(struct rbac *r)
{
	if (!r)
		return;
	map_free(r->holders);
	map_free(r->bindings);
	map_free(r->roles);
	free(r);
}
