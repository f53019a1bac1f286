/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/apply/managed.h"
#include "api/meta.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

/*
 * Server-side apply: the patch is merged into the object; what the manager applied the last time,
 * does not apply any more and nobody else owns is removed; and whatever that changes must not
 * belong to others, unless the manager insists.
 */
#define KUBECTL      "kubectl"
#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

/* What of s a write like this one can change. */
static const struct fields *in_reach(const struct apply *r, const struct fields *s)
{
	if (r->only)
		return fields_only(r->mem, s, r->only);
	return r->never ? fields_without(r->mem, s, r->never) : s;
}

const struct fields *apply_fields(const struct apply *r)
{
	return in_reach(r, typed_fields(r->mem, r->patch, r->type));
}

/* Pruning */

static const struct fields *named(const struct apply *r, const struct fields *s)
{
	return typed_named(r->mem, s, r->type);
}

static const struct fields *fields_in(const struct apply *r, const struct json *v)
{
	return named(r, typed_fields(r->mem, v, r->type));
}

static const struct fields *owned_by_all(const struct apply *r)
{
	const struct fields *all = NULL;

	for (size_t i = 0; i < r->m->n; i++)
		all = fields_union(r->mem, all, r->m->list[i].set);
	return named(r, all);
}

/*
 * Removes what was applied last, unless somebody owns it now: first everything that was applied
 * goes, then what others own (and with it what holds it) comes back, and in the end only what the
 * manager itself had applied stays away.
 */
static struct json *prune(const struct apply *r, struct json_doc *d, struct json *merged,
			  const struct fields *last)
{
	struct fields_mem *mem = r->mem;
	const struct fields *all = fields_in(r, merged), *kept, *gone;
	const struct json *left;

	if (fields_empty(last))
		return merged;
	last = named(r, last);
	left = typed_remove(mem, d, merged, last, r->type);
	kept = fields_union(mem, fields_in(r, left), owned_by_all(r));
	left = typed_remove(mem, d, merged, fields_difference(mem, all, kept), r->type);
	gone = fields_intersection(mem, fields_difference(mem, all, fields_in(r, left)), last);
	return typed_remove(mem, d, merged, gone, r->type);
}

/* Conflicts */

struct conflict {
	const struct manager *with;
	const struct fields *on;
};

static int compare_conflicts(const void *a, const void *b)
{
	const struct manager *x = ((const struct conflict *)a)->with,
			     *y = ((const struct conflict *)b)->with;
	int c = strcmp(x->name, y->name);

	if (!c)
		c = (int)y->applied - (int)x->applied;
	if (!c)
		c = strcmp(x->api_version, y->api_version);
	return c ? c : strcmp(x->sub, y->sub);
}

static void write_manager(const struct manager *m, struct buf *out)
{
	buf_printf(out, "\"%s\"", m->name);
	if (*m->sub)
		buf_printf(out, " with subresource \"%s\"", m->sub);
	if (!m->applied)
		buf_printf(out, " using %s", m->api_version);
}

struct report {
	struct causes *causes;
	struct buf text, who;
	size_t n;
};

static void report_path(void *arg, const char *path)
{
	struct report *r = arg;

	r->n++;
	buf_printf(&r->text, "\n- %s", path);
	causes_add(r->causes, CAUSE_MANAGER, path, "conflict with %s", buf_str(&r->who));
}

static struct err *conflict_error(const struct apply *r, struct conflict *list, size_t n)
{
	struct report rep = { .causes = r->causes };
	struct err *e;

	qsort(list, n, sizeof(*list), compare_conflicts);
	for (size_t i = 0; i < n; i++) {
		buf_clear(&rep.who);
		write_manager(list[i].with, &rep.who);
		buf_printf(&rep.text, "%sconflicts with %s:", i ? "\n" : "", buf_str(&rep.who));
		fields_each(list[i].on, report_path, &rep);
	}
	if (rep.n == 1)
		e = err_new(ERR_CONFLICT, "Apply failed with 1 conflict: conflict with %s: %s",
			    buf_str(&rep.who), strstr(buf_str(&rep.text), "\n- ") + 3);
	else
		e = err_new(ERR_CONFLICT, "Apply failed with %zu conflicts: %s", rep.n,
			    buf_str(&rep.text));
	buf_done(&rep.text);
	buf_done(&rep.who);
	return e;
}

/* What client-side apply put there and nobody has changed since: kubectl may take it over. */
static const struct fields *client_side(const struct apply *r)
{
	const char *text =
		json_get_str(json_get(json_get(r->live, "metadata"), "annotations"), LAST_APPLIED);
	const struct json_limits limits = { .max_len = strlen(str_or(text, "")) + 1,
					    .max_depth = 128 };
	autoptr(json_doc) parsed = NULL;
	struct json *last;
	struct comparison c;
	struct err *e;

	if (!str_eq(r->by.name, KUBECTL) || str_empty(text))
		return NULL;
	e = json_parse(text, strlen(text), &limits, &parsed);
	if (!e && str_eq(json_get_str(json_root(parsed), "apiVersion"), r->by.api_version))
		e = typed_check(r->mem, json_root(parsed), r->type);
	else if (!e)
		return NULL;
	if (e) {
		err_free(e);
		return NULL;
	}
	last = json_copy(r->mem->doc, json_root(parsed));
	c = typed_compare(r->mem, last, r->live, r->type);
	return fields_difference(
		r->mem, typed_fields(r->mem, last, r->type),
		fields_union(r->mem, c.modified, fields_union(r->mem, c.added, c.removed)));
}

static struct err *check_conflicts(const struct apply *r, const struct fields *taken)
{
	struct conflict *list;
	const struct fields *ours = NULL;
	bool asked = false;
	size_t n = 0;

	if (r->force)
		return NULL;
	list = arena_new_n(r->mem->arena, struct conflict, r->m->n + 1);
	for (size_t i = 0; i < r->m->n; i++) {
		const struct manager *m = &r->m->list[i];
		const struct fields *on;

		if (m == managed_find(r->m, &r->by))
			continue;
		on = fields_intersection(r->mem, m->set, taken);
		if (!fields_empty(on) && !asked) {
			ours = client_side(r);
			asked = true;
		}
		on = fields_difference(r->mem, on, ours);
		if (!fields_empty(on))
			list[n++] = (struct conflict){ m, on };
	}
	return n ? conflict_error(r, list, n) : NULL;
}

/* The annotation of client-side apply follows, while there is one. */
static void follow_client_side(const struct apply *r, struct json_doc *d, struct json *next)
{
	struct json *annotations = json_get(json_get(next, "metadata"), "annotations");
	autoptr(json_doc) copy = NULL;
	autofree char *text = NULL, *line = NULL;
	struct json *root;

	if (!str_eq(r->by.name, KUBECTL) || str_empty(json_get_str(annotations, LAST_APPLIED)))
		return;
	copy = json_doc_new();
	root = json_copy(copy, r->patch);
	json_set_root(copy, root);
	annotations = json_get(json_get(root, "metadata"), "annotations");
	if (annotations)
		(void)json_del(annotations, LAST_APPLIED);
	text = json_to_text(root);
	line = xasprintf("%s\n", text);
	annotations = json_get(json_get(next, "metadata"), "annotations");
	json_set_str(d, annotations, LAST_APPLIED, line);
}

/* Taking over */

static void take_over(const struct apply *r, const struct comparison *c)
{
	struct managed others = { 0 };
	struct manager mine = *managed_find(r->m, &r->by);

	for (size_t i = 0; i < r->m->n; i++)
		if (&r->m->list[i] != managed_find(r->m, &r->by))
			managed_add(r->mem, &others, &r->m->list[i]);
	managed_lose(r->mem, &others, c);
	mine.set = managed_strip(r->mem, mine.set);
	if (!fields_empty(mine.set))
		managed_add(r->mem, &others, &mine);
	*r->m = others;
}

/* The manager's entry gets its new set at once: what it owns now is not pruned. */
static const struct fields *enter(const struct apply *r)
{
	struct manager entry = r->by, *same = managed_find(r->m, &r->by);
	const struct fields *last = same ? same->set : NULL;

	entry.set = apply_fields(r);
	entry.time = same ? same->time : NULL;
	if (same)
		*same = entry;
	else
		managed_add(r->mem, r->m, &entry);
	return last;
}

static bool is_change(const struct comparison *c)
{
	return !fields_empty(c->added) || !fields_empty(c->modified) || !fields_empty(c->removed);
}

struct err *apply_merge(const struct apply *r, struct json_doc *d, struct json **ret)
{
	const struct fields *last = enter(r);
	struct json *next = typed_merge(r->mem, d, r->live, r->patch, r->type);
	struct comparison c;
	struct err *e;

	next = prune(r, d, next, last);
	if (!next)
		return err_new(ERR_INVALID, "apply: nothing is left of the object");
	c = typed_compare(r->mem, r->live, next, r->type);
	if (is_change(&c))
		managed_find(r->m, &r->by)->time = r->by.time;
	c = (struct comparison){ in_reach(r, c.added), in_reach(r, c.modified),
				 in_reach(r, c.removed) };
	e = check_conflicts(r, fields_union(r->mem, c.modified, c.added));
	if (e)
		return e;
	take_over(r, &c);
	next = typed_settle(d, next, r->patch);
	follow_client_side(r, d, next);
	*ret = next;
	return NULL;
}
