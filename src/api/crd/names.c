/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/crd_priv.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

/*
 * Names: a definition gets those that no other kind of its group has. It is established once it
 * has got all of them, and stays so even if it asks for others later.
 */
struct taken {
	struct map *resources, *kinds; /* name → anything */
};

static bool is_itself(const struct kind *k, const char *plural)
{
	return str_eq(k->plural, plural) && (k->type->custom || crd_is_own(kind_storage(k)));
}

static void taken_init(struct taken *t, const struct kinds *ks, const char *group,
		       const char *plural)
{
	size_t n;
	const struct kind *const *all = kinds_all(ks, &n);

	t->resources = map_new_borrowing(NULL);
	t->kinds = map_new_borrowing(NULL);
	for (size_t i = 0; i < n; i++) {
		const struct kind *k = all[i];

		if (!str_eq(k->group, group) || is_itself(k, plural))
			continue;
		map_put(t->resources, k->plural, t);
		map_put(t->resources, k->singular, t);
		for (size_t s = 0; s < ARRAY_LEN(k->short_names) && k->short_names[s]; s++)
			map_put(t->resources, k->short_names[s], t);
		map_put(t->kinds, k->kind, t);
		map_put(t->kinds, k->list_kind, t);
	}
}

static void taken_done(struct taken *t)
{
	map_free(t->resources);
	map_free(t->kinds);
}

struct naming {
	struct json_doc *d;
	const struct json *asked;
	struct json *have; /* status.acceptedNames */
	const char *reason;
	struct buf message;
};

static void refuse(struct naming *n, const char *reason, const char *name)
{
	if (!str_eq(n->reason, reason))
		buf_clear(&n->message);
	n->reason = reason;
	buf_printf(&n->message, "%s\"%s\" is already in use", n->message.len ? ", " : "", name);
}

static void settle_name(struct naming *n, const struct map *taken, const char *what,
			const char *reason)
{
	const char *asked = str_or(json_get_str(n->asked, what), "");

	if (str_eq(asked, json_get_str(n->have, what)))
		return;
	if (map_has(taken, asked))
		refuse(n, reason, asked);
	else
		json_set_str(n->d, n->have, what, asked);
}

static bool list_has(const struct json *list, const char *text)
{
	json_each(it, list)
		if (str_eq(json_str(it.val), text))
			return true;
	return false;
}

static void settle_short(struct naming *n, const struct map *taken)
{
	const struct json *asked = json_get(n->asked, "shortNames");
	const struct json *have = json_get(n->have, "shortNames");
	bool free_ = true;

	json_each(it, asked) {
		const char *name = str_or(json_str(it.val), "");

		if (list_has(have, name) || !map_has(taken, name))
			continue;
		refuse(n, "ShortNamesConflict", name);
		free_ = false;
	}
	if (free_)
		(void)json_set(n->d, n->have, "shortNames", json_copy(n->d, asked));
}

static void settle_names(struct naming *n, const struct taken *t)
{
	settle_name(n, t->resources, "plural", "PluralConflict");
	settle_name(n, t->resources, "singular", "SingularConflict");
	settle_short(n, t->resources);
	settle_name(n, t->kinds, "kind", "KindConflict");
	settle_name(n, t->kinds, "listKind", "ListKindConflict");
	(void)json_set(n->d, n->have, "categories",
		       json_copy(n->d, json_get(n->asked, "categories")));
}

/* Unchanged conditions are left alone, with the time of their last change. */
static void report(struct json_doc *d, struct json *list, const struct condition *c, usec now)
{
	const struct json *had = conditions_get(list, c->type);

	if (str_eq(json_get_str(had, "status"), c->status) &&
	    str_eq(json_get_str(had, "reason"), c->reason) &&
	    str_eq(json_get_str(had, "message"), c->message))
		return;
	conditions_upsert(d, list, c, now);
}

bool crd_established(const struct json *crd)
{
	return conditions_true(json_get(json_get(crd, "status"), "conditions"), "Established");
}

bool crd_names_accepted(const struct json *crd)
{
	return conditions_true(json_get(json_get(crd, "status"), "conditions"), "NamesAccepted");
}

static void report_names(struct naming *n, struct json *status, usec now)
{
	struct json *list = json_need_arr(n->d, status, "conditions");
	bool fine = !n->reason, was = conditions_true(list, "Established");

	json_own_all(n->d, list);
	report(n->d, list,
	       &(struct condition){ .type = "NamesAccepted",
				    .status = fine ? "True" : "False",
				    .reason = fine ? "NoConflicts" : n->reason,
				    .message = fine ? "no conflicts found" : buf_str(&n->message) },
	       now);
	report(n->d, list,
	       &(struct condition){ .type = "Established",
				    .status = fine || was ? "True" : "False",
				    .reason = fine || was ? "InitialNamesAccepted" : "NotAccepted",
				    .message = fine || was ? "the initial names have been accepted"
							   : "not all names are accepted" },
	       now);
}

static void note_stored(struct json_doc *d, struct json *status, const struct json *spec)
{
	struct json *list = json_need_arr(d, status, "storedVersions");

	json_each(it, json_get(spec, "versions")) {
		const char *name = json_get_str(it.val, "name");

		if (json_get_bool(it.val, "storage", false) && name && !list_has(list, name))
			json_push_str(d, list, name);
	}
}

void crd_settle(struct json_doc *d, const struct kinds *ks, usec now)
{
	struct json *root = json_root(d), *status = json_need_obj(d, root, "status");
	const struct json *spec = json_get(root, "spec"), *names = json_get(spec, "names");
	struct naming n = { .d = d, .asked = names };
	struct taken t;

	taken_init(&t, ks, str_or(json_get_str(spec, "group"), ""),
		   str_or(json_get_str(names, "plural"), ""));
	n.have = json_need_obj(d, status, "acceptedNames");
	settle_names(&n, &t);
	taken_done(&t);
	report_names(&n, status, now);
	note_stored(d, status, spec);
	buf_done(&n.message);
}

bool crd_same_kinds(const struct json *crd, const struct json *was)
{
	return crd_established(crd) == crd_established(was) &&
	       json_equal(json_get(crd, "spec"), json_get(was, "spec")) &&
	       json_equal(json_get(json_get(crd, "status"), "acceptedNames"),
			  json_get(json_get(was, "status"), "acceptedNames"));
}

/* Hooks */

void crd_defaults(struct json_doc *d, const struct json *old unused)
{
	struct json *spec = json_get(json_root(d), "spec");
	struct json *names = json_get(spec, "names"), *conversion;
	const char *kind = json_get_str(names, "kind");

	if (!json_is(names, JSON_OBJ))
		return;
	if (kind && str_empty(json_get_str(names, "singular"))) {
		autofree char *lower = xstrdup(kind);

		for (char *p = lower; *p; p++)
			*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
		json_set_str(d, names, "singular", lower);
	}
	if (!str_empty(kind) && str_empty(json_get_str(names, "listKind")))
		(void)json_set(d, names, "listKind", json_new_strf(d, "%sList", kind));
	if (!json_get(spec, "conversion")) {
		conversion = json_set(d, spec, "conversion", json_obj(d));
		json_set_str(d, conversion, "strategy", "None");
	}
}

/* The first time, the finalizer is put on it, so that all objects of the kind go first. */
void crd_prepare_delete(struct json_doc *d)
{
	struct json *root = json_own_all(d, json_root(d)), *meta = json_get(root, "metadata");
	struct json *list = json_need_arr(d, json_need_obj(d, root, "status"), "conditions");
	struct json *finalizers;

	if (conditions_get(list, "Terminating"))
		return;
	conditions_upsert(
		d, list,
		&(struct condition){ .type = "Terminating",
				     .status = "True",
				     .reason = "InstanceDeletionPending",
				     .message = "CustomResourceDefinition marked for deletion; "
						"CustomResource deletion will begin soon" },
		clock_wall());
	finalizers = json_need_arr(d, meta, "finalizers");
	if (!list_has(finalizers, CRD_FINALIZER))
		json_push_str(d, finalizers, CRD_FINALIZER);
}
