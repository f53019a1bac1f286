/* SPDX-License-Identifier: Apache-2.0 */
#include "api/patch_priv.h"
#include "api/schema.h"
#include "base/str.h"

/*
 * Strategic merge, Kubernetes' own patch. Objects are merged as in RFC 7386; a list whose type has
 * a patch key is merged element by element, any other is replaced. Members of the patch whose names
 * begin with $ direct the merge:
 *
 *   $patch                     replace or delete: of the object (or list element) it is in
 *   $retainKeys                of the object, only these members stay
 *   $setElementOrder/x         the order of list x after the merge
 *   $deleteFromPrimitiveList/x scalars to remove from list x
 *
 * The order of a merged list follows Kubernetes: elements that the patch names keep the patch's
 * order, the others theirs, and where both orders apply the old one decides.
 */
#define ORDER  "$setElementOrder/"
#define DELETE "$deleteFromPrimitiveList/"

static bool is_directive(const char *key)
{
	return key[0] == '$' && (!strcmp(key, "$patch") || !strcmp(key, "$retainKeys") ||
				 str_starts(key, ORDER) || str_starts(key, DELETE));
}

static struct err *malformed(const char *what)
{
	return err_new(ERR_MALFORMED, "apply strategic merge patch: %s", what);
}

static struct err *no_key(const char *key)
{
	return err_new(ERR_MALFORMED, "list element does not contain declared merge key: %s", key);
}

static const struct type *member_type(const struct type *t, const char *key)
{
	const struct field *f;

	if (!t)
		return NULL;
	if (t->kind == TYPE_MAP)
		return t->elem;
	f = schema_field(t, key);
	return f ? f->type : NULL;
}

static bool is_clean(const struct json *v)
{
	if (json_is(v, JSON_NULL))
		return false;
	if (!json_is(v, JSON_OBJ) && !json_is(v, JSON_ARR))
		return true;
	json_each(it, v)
		if ((it.key && is_directive(it.key)) || !is_clean(it.val))
			return false;
	return true;
}

static struct json *clean_copy(struct patch_work *w, const struct json *v);

static struct json *clean_list(struct patch_work *w, const struct json *v)
{
	struct json *out = json_arr(w->d), *part;

	json_each(it, v) {
		part = json_get(it.val, "$patch") ? NULL : clean_copy(w, it.val);
		if (part)
			json_push(w->d, out, part);
	}
	return out;
}

/* A copy of what the patch adds, without nulls and directives. NULL: nothing is left of it, or the
 * allowance is used up, which patch_strategic() reports at the end. */
static struct json *clean_copy(struct patch_work *w, const struct json *v)
{
	struct json *out, *part;

	if (is_clean(v))
		return json_copy(w->d, v);
	if (json_is(v, JSON_ARR))
		return clean_list(w, v);
	if (!json_is(v, JSON_OBJ) || json_get(v, "$patch")) /* there is nothing it could direct */
		return NULL;
	if (!patch_affords(w, json_len(v) * json_len(v)))
		return NULL;
	out = json_obj(w->d);
	json_each(it, v) {
		part = is_directive(it.key) ? NULL : clean_copy(w, it.val);
		if (part)
			json_set(w->d, out, it.key, part);
	}
	return out;
}

/* Lists */
struct item {
	struct json *v;
	ptrdiff_t was;  /* place in the old list, -1: new */
	ptrdiff_t want; /* place that the patch asks for, -1: none */
};

struct items {
	struct item *v;
	size_t n;
};

static void items_done(struct items *l)
{
	free(l->v);
}
#define autoitems __attribute__((cleanup(items_done))) struct items

static void items_add(struct items *l, struct json *v, ptrdiff_t was, ptrdiff_t want)
{
	if ((l->n & (l->n - 1)) == 0) /* grows at every power of two */
		l->v = xrealloc(l->v, (l->n ? l->n * 2 : 1) * sizeof(*l->v));
	l->v[l->n++] = (struct item){ v, was, want };
}

/* What tells an element from the others: the member by_key, or itself. */
static const struct json *key_of(const struct json *v, const char *by_key)
{
	return *by_key ? json_get(v, by_key) : v;
}

static struct err *find_item(struct patch_work *w, const struct items *l, const char *by_key,
			     const struct json *key, ptrdiff_t *ret)
{
	struct err *e = patch_spend(w, l->n + 1);

	*ret = -1;
	for (size_t i = 0; !e && i < l->n && *ret < 0; i++)
		if (l->v[i].v && json_equal(key_of(l->v[i].v, by_key), key))
			*ret = (ptrdiff_t)i;
	return e;
}

static int by_want(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return (x->want > y->want) - (x->want < y->want);
}

/* Puts the items back into the list in their final order. */
static void write_items(struct json_doc *d, struct json *list, const struct items *l)
{
	autoitems named = { 0 }, others = { 0 };
	size_t i = 0, k = 0;

	for (size_t n = 0; n < l->n; n++)
		if (l->v[n].v)
			items_add(l->v[n].want < 0 ? &others : &named, l->v[n].v, l->v[n].was,
				  l->v[n].want);
	if (named.n)
		qsort(named.v, named.n, sizeof(*named.v), by_want);
	json_clear(list);
	while (i < others.n || k < named.n) {
		bool old_first = k == named.n;

		if (i < others.n && k < named.n)
			old_first = others.v[i].was >= 0 && named.v[k].was >= 0 &&
				    others.v[i].was < named.v[k].was;
		json_push(d, list, old_first ? others.v[i++].v : named.v[k++].v);
	}
}

static struct err *merge_object(struct patch_work *w, struct json *obj, const struct json *patch,
				const struct type *t);

/* One element of the patch that is not a directive. */
static struct err *merge_item(struct patch_work *w, struct items *l, const struct json *patch,
			      const struct type *t, ptrdiff_t want)
{
	const struct json *key = key_of(patch, t->patch_key);
	ptrdiff_t at;
	struct err *e;

	if (!key)
		return no_key(t->patch_key);
	e = find_item(w, l, t->patch_key, key, &at);
	if (e)
		return e;
	if (at < 0) {
		items_add(l, clean_copy(w, patch), -1, want);
		return NULL;
	}
	l->v[at].want = want;
	return *t->patch_key ? merge_object(w, json_own(w->d, l->v[at].v), patch, t->elem) : NULL;
}

/* *ret_taken: the element was a directive and has been carried out. */
static struct err *special_item(struct patch_work *w, struct items *l, const struct json *patch,
				const struct type *t, bool *ret_taken)
{
	const char *how = json_get_str(patch, "$patch");
	const struct json *key = how ? key_of(patch, t->patch_key) : NULL;
	ptrdiff_t at = -1;
	struct err *e;

	*ret_taken = how;
	if (!how || str_eq(how, "replace"))
		return NULL;
	if (!str_eq(how, "delete"))
		return malformed("$patch of a list element must be replace or delete");
	if (!key)
		return no_key(t->patch_key);
	do {
		e = find_item(w, l, t->patch_key, key, &at);
		if (!e && at >= 0)
			l->v[at].v = NULL;
	} while (!e && at >= 0);
	return e;
}

/* An element { $patch: replace } means that the patch's other elements become the list. */
static bool asks_replace(const struct json *patch)
{
	json_each(it, patch)
		if (str_eq(json_get_str(it.val, "$patch"), "replace"))
			return true;
	return false;
}

static struct err *check_items(const struct json *list, const struct type *t)
{
	enum json_type first = json_type(json_at(list, 0));

	json_each(it, list) {
		if (*t->patch_key && !json_is(it.val, JSON_OBJ))
			return malformed("an element of a merged list is not an object");
		if (!*t->patch_key && json_type(it.val) != first)
			return malformed("elements of a merged list differ in type");
	}
	return NULL;
}

static struct err *read_items(const struct json *list, struct items *ret)
{
	ptrdiff_t i = 0;

	json_each(it, list)
		items_add(ret, it.val, i++, -1);
	return NULL;
}

static struct err *merge_items(struct patch_work *w, struct items *l, const struct json *patch,
			       const struct type *t)
{
	ptrdiff_t i = 0;
	bool taken;
	struct err *e = check_items(patch, t);

	if (!e && asks_replace(patch))
		l->n = 0;
	json_each(it, patch) {
		if (!e)
			e = special_item(w, l, it.val, t, &taken);
	}
	json_each(it, patch) {
		if (!e && !json_get(it.val, "$patch"))
			e = merge_item(w, l, it.val, t, i++);
	}
	return e;
}

/* The directive's list names elements by their merge key, or holds the scalars themselves. */
static struct err *set_order(struct patch_work *w, struct items *l, const struct json *order,
			     const char *by_key)
{
	ptrdiff_t place = 0, at;
	struct err *e = NULL;

	for (size_t i = 0; i < l->n; i++)
		l->v[i].want = -1;
	json_each(it, order) {
		const struct json *key = key_of(it.val, by_key);

		if (!e && !key)
			e = no_key(by_key);
		if (!e && key)
			e = find_item(w, l, by_key, key, &at);
		if (!e && key && at >= 0)
			l->v[at].want = place++;
	}
	return e;
}

/* list is the object's; patch and order may be absent. */
static struct err *merge_list(struct patch_work *w, struct json *list, const struct json *patch,
			      const struct type *t, const struct json *order)
{
	autoitems l = { 0 };
	struct err *e = check_items(list, t);

	if (!e)
		e = read_items(json_own(w->d, list), &l);
	if (!e && patch)
		e = merge_items(w, &l, patch, t);
	if (!e && order)
		e = set_order(w, &l, order, t->patch_key);
	if (!e)
		write_items(w->d, list, &l);
	return e;
}

static struct err *delete_scalars(struct patch_work *w, struct json *list,
				  const struct json *values)
{
	autoitems l = { 0 };
	ptrdiff_t at;
	struct err *e = read_items(json_own(w->d, list), &l);

	json_each(it, values) {
		do {
			e = e ? e : find_item(w, &l, "", it.val, &at);
			if (!e && at >= 0 && l.v)
				l.v[at].v = NULL;
		} while (!e && at >= 0);
	}
	if (!e)
		write_items(w->d, list, &l);
	return e;
}

/* Objects */
static bool is_merged_list(const struct type *t)
{
	return t && t->kind == TYPE_LIST && t->patch_key;
}

static struct err *merge_member(struct patch_work *w, struct json *obj, const char *key,
				const struct json *v, const struct type *t)
{
	struct json *have = json_get(obj, key);
	struct err *e = patch_spend(w, json_len(obj) + 1);

	if (e)
		return e;
	if (json_is(v, JSON_NULL))
		json_del(obj, key);
	else if (have && json_is(v, JSON_OBJ) && json_is(have, JSON_OBJ))
		return merge_object(w, json_own(w->d, have), v, t);
	else if (have && is_merged_list(t) && json_is(v, JSON_ARR) && json_is(have, JSON_ARR))
		return merge_list(w, have, v, t, NULL);
	else if (json_is(v, JSON_ARR) && json_is(have, JSON_ARR))
		json_set(w->d, obj, key, json_copy(w->d, v));
	else
		json_set(w->d, obj, key, clean_copy(w, v));
	return NULL;
}

static bool list_has(const struct json *list, const char *s)
{
	json_each(it, list)
		if (str_eq(json_str(it.val), s))
			return true;
	return false;
}

static struct err *retain_keys(struct patch_work *w, struct json *obj, const struct json *patch,
			       const struct json *keys)
{
	autoitems kept = { 0 };
	autofree const char **names = NULL;
	struct err *e = patch_spend(w, (json_len(obj) + json_len(patch)) * (json_len(keys) + 1));

	if (e)
		return e;
	json_each(it, patch)
		if (!json_is(keys, JSON_ARR) || (!is_directive(it.key) && !list_has(keys, it.key)))
			return err_new(ERR_MALFORMED, "invalid patch format of retainKeys");
	names = xnew_n(const char *, json_len(obj) + 1);
	json_each(it, obj)
		if (list_has(keys, it.key)) {
			names[kept.n] = it.key;
			items_add(&kept, it.val, 0, 0);
		}
	json_clear(obj);
	for (size_t i = 0; i < kept.n; i++)
		json_set(w->d, obj, names[i], kept.v[i].v);
	return NULL;
}

/* directive is $setElementOrder/x, which is carried out together with x. */
static struct err *merge_ordered(struct patch_work *w, struct json *obj, const struct json *patch,
				 const char *directive, const struct type *t)
{
	const char *key = directive + strlen(ORDER);
	const struct type *list = member_type(t, key);
	const struct json *order = json_get(patch, directive), *v = json_get(patch, key);
	struct json *have = json_get(obj, key);

	if (!json_is(order, JSON_ARR) || (v && !json_is(v, JSON_ARR) && !json_is(v, JSON_NULL)))
		return malformed("$setElementOrder names a member that is not a list");
	if (json_is(v, JSON_NULL) || (have && !json_is(have, JSON_ARR)) || !is_merged_list(list))
		return v ? merge_member(w, obj, key, v, list) : NULL;
	if (!v && !have)
		return NULL;
	if (!have)
		have = json_set(w->d, obj, key, json_arr(w->d));
	return merge_list(w, have, v, list, order);
}

static struct err *merge_by_directives(struct patch_work *w, struct json *obj,
				       const struct json *patch, const struct type *t)
{
	const struct json *keys = json_get(patch, "$retainKeys");
	struct err *e = keys ? retain_keys(w, obj, patch, keys) : NULL;

	json_each(it, patch) {
		if (!e && str_starts(it.key, ORDER))
			e = merge_ordered(w, obj, patch, it.key, t);
	}
	return e;
}

static bool has_directive(const struct json *patch, const char *prefix)
{
	json_each(it, patch)
		if (str_starts(it.key, prefix))
			return true;
	return false;
}

static bool has_order(const struct json *patch, const char *key)
{
	char name[256];

	if ((size_t)snprintf(name, sizeof(name), ORDER "%s", key) >= sizeof(name))
		return false;
	return json_get(patch, name);
}

static struct err *merge_rest(struct patch_work *w, struct json *obj, const struct json *patch,
			      const struct type *t)
{
	bool ordered = has_directive(patch, ORDER);
	struct err *e = ordered ? patch_spend(w, json_len(patch) * json_len(patch)) : NULL;

	json_each(it, patch) {
		if (e)
			return e;
		if (str_starts(it.key, DELETE)) {
			struct json *list = json_get(obj, it.key + strlen(DELETE));

			if (json_is(it.val, JSON_ARR) && json_is(list, JSON_ARR))
				e = delete_scalars(w, list, it.val);
		} else if (!is_directive(it.key) && !(ordered && has_order(patch, it.key))) {
			e = merge_member(w, obj, it.key, it.val, member_type(t, it.key));
		}
	}
	return e;
}

static struct err *replace_object(struct patch_work *w, struct json *obj, const struct json *patch)
{
	struct err *e = patch_spend(w, json_len(patch) * json_len(patch));

	if (e)
		return e;
	json_clear(obj);
	json_each(it, patch)
		if (!is_directive(it.key))
			json_set(w->d, obj, it.key, clean_copy(w, it.val));
	return NULL;
}

static struct err *merge_object(struct patch_work *w, struct json *obj, const struct json *patch,
				const struct type *t)
{
	const struct json *how = json_get(patch, "$patch");
	struct err *e;

	if (how && str_eq(json_str(how), "delete")) {
		json_clear(obj);
		return NULL;
	}
	if (how && str_eq(json_str(how), "replace"))
		return replace_object(w, obj, patch);
	if (how)
		return malformed("$patch must be replace or delete");
	e = merge_by_directives(w, obj, patch, t);
	return e ? e : merge_rest(w, obj, patch, t);
}

struct err *patch_strategic(struct patch_work *w, const struct json *patch, const struct type *t)
{
	struct err *e;

	if (json_is(patch, JSON_NULL))
		return NULL;
	if (!json_is(patch, JSON_OBJ))
		return malformed("patch must be an object");
	e = merge_object(w, json_root(w->d), patch, t);
	return e || !w->over ? e : patch_spend(w, UINT64_MAX);
}
