/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "api/rbac.h"
#include "base/log.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/admit/roles_priv.h"
#include "server/objects/objects.h"

/*
 * The roles and bindings of the table, made or completed at the start. Like Kubernetes, this adds
 * what is missing and takes nothing away: an administrator may add to these objects, and keeps them
 * from being touched with the annotation below.
 */
#define AUTO_UPDATE "rbac.authorization.kubernetes.io/autoupdate"
#define BOOTSTRAP   "kubernetes.io/bootstrapping"

static void add_words(struct json_doc *d, struct json *obj, const char *name, const char *words)
{
	struct span rest = SPAN(words ? words : "");
	struct json *list = words ? json_set(d, obj, name, json_arr(d)) : NULL;

	while (list && rest.p) {
		struct span word = span_cut(rest, ' ', &rest);

		if (span_eq(word, "core"))
			json_push_str(d, list, "");
		else if (word.len)
			json_push(d, list, json_new_strn(d, word.p, word.len));
	}
}

static struct json *add_rule(struct json_doc *d, const struct rule_row *row)
{
	struct json *rule = json_obj(d);

	add_words(d, rule, "apiGroups", row->groups);
	add_words(d, rule, "resources", row->resources);
	add_words(d, rule, "nonResourceURLs", row->urls);
	add_words(d, rule, "verbs", row->verbs);
	return rule;
}

static struct json_doc *object_first(const char *name)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta;

	json_set_root(d, root);
	meta = json_set(d, root, "metadata", json_obj(d));
	json_set_str(d, meta, "name", name);
	json_set_str(d, json_need_obj(d, meta, "labels"), BOOTSTRAP, "rbac-defaults");
	json_set_str(d, json_need_obj(d, meta, "annotations"), AUTO_UPDATE, "true");
	return d;
}

static struct json_doc *role_first(const struct role_row *row)
{
	struct json_doc *d = object_first(row->name);
	struct json *root = json_root(d), *selector, *rules;

	if (row->labels)
		json_set_str(d, json_get(json_get(root, "metadata"), "labels"), row->labels,
			     "true");
	rules = json_set(d, root, "rules", json_arr(d));
	for (const struct rule_row *r = rules_first; r->role; r++)
		if (str_eq(r->role, row->name))
			json_push(d, rules, add_rule(d, r));
	if (!row->gathers)
		return d;
	selector = json_obj(d);
	json_set_str(d, json_need_obj(d, selector, "matchLabels"), row->gathers, "true");
	json_push(
		d,
		json_need_arr(d, json_need_obj(d, root, "aggregationRule"), "clusterRoleSelectors"),
		selector);
	return d;
}

static struct json_doc *binding_first(const struct binding_row *row)
{
	struct json_doc *d = object_first(row->name);
	struct json *root = json_root(d), *ref = json_need_obj(d, root, "roleRef"), *subjects;
	struct span rest = SPAN(row->groups);

	json_set_str(d, ref, "apiGroup", GROUP_RBAC);
	json_set_str(d, ref, "kind", "ClusterRole");
	json_set_str(d, ref, "name", row->name);
	subjects = json_need_arr(d, root, "subjects");
	while (rest.p) {
		struct span word = span_cut(rest, ' ', &rest);
		struct json *subject = json_obj(d);

		json_set_str(d, subject, "apiGroup", GROUP_RBAC);
		json_set_str(d, subject, "kind", "Group");
		json_set(d, subject, "name", json_new_strn(d, word.p, word.len));
		json_push(d, subjects, subject);
	}
	return d;
}

/* Completing one that exists */

static void add_members(struct json_doc *d, const struct json *first, const char *name)
{
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	const struct json *wanted = json_get(json_get(first, "metadata"), name);
	struct json *have = json_need_obj(d, meta, name);

	json_each(it, wanted)
		if (!json_get(have, it.key))
			json_set(d, have, it.key, json_copy(d, it.val));
}

static bool list_has(const struct json *list, const struct json *v)
{
	json_each(it, list)
		if (json_equal(it.val, v))
			return true;
	return false;
}

static void add_elements(struct json_doc *d, struct json *obj, const struct json *first,
			 const char *name)
{
	struct json *have;

	if (!json_len(json_get(first, name)))
		return;
	have = json_need_arr(d, obj, name);
	json_each(it, json_get(first, name))
		if (!list_has(have, it.val))
			json_push(d, have, json_copy(d, it.val));
}

/* A right that the role has in another way is not added again. */
static void add_rules(struct json_doc *d, const struct json *first)
{
	struct json *rules = json_need_arr(d, json_root(d), "rules");

	json_each(it, json_get(first, "rules")) {
		autoptr(json_doc) alone = json_doc_new();
		struct json *list = json_arr(alone);
		size_t n = json_len(rules), i = 0;
		autofree const struct json **held = xnew_n(const struct json *, n + 1);

		json_push(alone, list, json_copy(alone, it.val));
		json_each(had, rules)
			held[i++] = had.val;
		if (!rules_cover(held, n, list, NULL))
			json_push(d, rules, json_copy(d, it.val));
	}
}

static void complete(struct json_doc *d, const struct json *first)
{
	const struct json *gathers = json_get(first, "aggregationRule");

	add_members(d, first, "labels");
	add_members(d, first, "annotations");
	if (gathers)
		add_elements(d, json_need_obj(d, json_root(d), "aggregationRule"), gathers,
			     "clusterRoleSelectors");
	else if (json_get(first, "rules"))
		add_rules(d, first);
	add_elements(d, json_root(d), first, "subjects");
}

static struct op op_of(struct admit *a, const struct kind *k, const char *name)
{
	return (struct op){ .admit = a,
			    .user = "system:cay:server",
			    .kind = k,
			    .ns = "",
			    .name = name,
			    .sub = "" };
}

/* The role of a binding cannot change, so one that names another is made anew. */
static bool is_other_binding(const struct object *o, const struct json *first)
{
	const struct json *ref = json_get(first, "roleRef");

	return ref && !json_equal(ref, json_get(o->root, "roleRef"));
}

static struct err *update(struct admit *a, const struct object *o, struct json_doc *doc)
{
	autoop op = op_of(a, o->kind, o->name);
	struct json_doc *decoded;
	struct err *e = op_decode(&op, &(struct decode_input){ .media = DECODE_TREE, .tree = doc },
				  &decoded);

	return e ? e : op_update(&op, decoded);
}

/* Takes first over. */
static struct err *reconcile(struct admit *a, const struct kind *k, const char *name,
			     struct json_doc *first)
{
	autoptr(json_doc) want = first;
	autoptr(object) o = object_ref(objects_find(a->objects, k, "", name));
	const struct json *notes = o ? json_at_path(o->root, "metadata.annotations") : NULL;
	struct json_doc *d;

	if (str_eq(json_get_str(notes, AUTO_UPDATE), "false") || (o && object_deleting(o)))
		return NULL;
	if (o && is_other_binding(o, json_root(want))) {
		autoop op = op_of(a, k, name);
		struct err *e = op_delete(&op, &(struct delete_options){ .grace_s = -1 });

		if (e)
			return e;
		object_unref(take(o));
	}
	if (!o)
		return op_need(a, k, "", name, take(want));
	d = object_edit(o);
	json_own_all(d, json_root(d));
	complete(d, json_root(want));
	return update(a, o, d);
}

struct err *roles_bootstrap(struct admit *a)
{
	const struct objects *os = a->objects;
	struct err *e = NULL;

	for (const struct role_row *r = roles_first; r->name && !e; r++)
		e = err_wrap(reconcile(a, os->cluster_role, r->name, role_first(r)),
			     "make the ClusterRole %s", r->name);
	for (const struct binding_row *b = bindings_first; b->name && !e; b++)
		e = err_wrap(reconcile(a, os->cluster_role_binding, b->name, binding_first(b)),
			     "make the ClusterRoleBinding %s", b->name);
	if (!e)
		roles_aggregate(a);
	return e;
}
