/* SPDX-License-Identifier: Apache-2.0 */
#include "server/policy/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "server/objects/objects.h"
#include "server/policy/ledger_priv.h"
#include "store/store.h"

/*
 * Quotas and what they have counted. Each change of an object takes off what its last state was
 * counted for and puts on what the next one is; a new quota counts what is there.
 */
static void quota_free(struct quota *q)
{
	for (size_t i = 0; i < q->n_lines; i++) {
		measure_done(&q->lines[i].m);
		free(q->lines[i].name);
	}
	free(q->lines);
	list_del(&q->in_ns);
	list_del(&q->stale);
	object_unref(q->o);
	free(q);
}

static void space_free(void *value)
{
	struct space *s = value;
	struct quota *q, *next;

	list_each_safe(q, next, &s->quotas, in_ns)
		quota_free(q);
	free(s);
}

struct ledger *ledger_new(const struct objects *os)
{
	struct ledger *l = xnew(struct ledger);

	l->os = os;
	l->spaces = map_new(space_free);
	l->deadline = INT64_MAX;
	list_init(&l->stale);
	return l;
}

void ledger_free(struct ledger *l)
{
	if (!l)
		return;
	map_free(l->spaces);
	free(l);
}

usec ledger_deadline(const struct ledger *l)
{
	return l->deadline;
}

static void mark_stale(struct ledger *l, struct quota *q)
{
	if (list_empty(&q->stale))
		list_add_tail(&l->stale, &q->stale);
}

/* Reading quotas */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->name, ((const struct line *)b)->name);
}

static struct quota *quota_new(struct object *o)
{
	const struct json *spec = object_spec(o), *hard = json_get(spec, "hard");
	struct quota *q = xnew(struct quota);

	list_init(&q->in_ns);
	list_init(&q->stale);
	q->o = object_ref(o);
	q->scoped = json_len(json_get(spec, "scopes")) ||
		    json_len(json_get(json_get(spec, "scopeSelector"), "matchExpressions"));
	q->lines = xnew_n(struct line, json_len(hard) + 1);
	json_each(it, hard) {
		struct line *line = &q->lines[q->n_lines];

		if (!quantity_read(it.val, &line->hard))
			continue;
		line->name = xstrdup(it.key);
		line->m = measure_of(line->name);
		q->n_lines++;
	}
	qsort(q->lines, q->n_lines, sizeof(*q->lines), by_name);
	return q;
}

static void note_deadline(struct ledger *l, const struct kind *k, const struct json *obj)
{
	usec until = k == l->os->pod ? measure_until(obj) : INT64_MAX;

	if (until >= l->as_of && until < l->deadline)
		l->deadline = until;
}

/* Adds what obj is counted for, or takes it off. False: it is counted for nothing. */
static bool count(struct ledger *l, struct quota *q, const struct object *o, bool gone)
{
	bool any = false;

	for (size_t i = 0; i < q->n_lines; i++) {
		struct line *line = &q->lines[i];
		struct quantity use;

		if (!measure_covers(&line->m, o->kind))
			continue;
		if (q->scoped && !scope_matches(object_spec(q->o), line->m.resource, o->root))
			continue;
		use = measure_use(&line->m, o->root, l->as_of);
		line->unknown = false;
		if (gone)
			quantity_sub(&line->used, &use);
		else
			quantity_add(&line->used, &use);
		any = true;
	}
	return any;
}

static bool is_first_of(const struct quota *q, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (str_eq(q->lines[i].m.resource, q->lines[at].m.resource))
			return false;
	return true;
}

/* Nothing of the objects need be looked at. */
static bool is_only_counted(const struct quota *q, const char *resource)
{
	for (size_t i = 0; i < q->n_lines; i++)
		if (str_eq(q->lines[i].m.resource, resource) &&
		    (q->scoped || q->lines[i].m.what != MEASURE_COUNT))
			return false;
	return true;
}

static void count_all(struct ledger *l, struct quota *q, const char *resource)
{
	const struct kind *k = kinds_stored(l->os->kinds, resource);
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	for (size_t i = 0; i < q->n_lines; i++)
		if (str_eq(q->lines[i].m.resource, resource))
			q->lines[i].unknown = !k && strchr(resource, '.');
	if (!k || !(k->flags & KIND_NAMESPACED))
		return;
	key_prefix(&prefix, k, q->o->ns);
	if (is_only_counted(q, resource)) {
		for (size_t i = 0; i < q->n_lines; i++)
			if (str_eq(q->lines[i].m.resource, resource))
				q->lines[i].used = quantity_of(
					(int64_t)store_count(l->os->store, buf_str(&prefix)));
		return;
	}
	while ((en = store_next(l->os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(l->os, en);

		if (!o)
			continue;
		(void)count(l, q, o, false);
		note_deadline(l, k, o->root);
	}
}

static struct space *space_need(struct ledger *l, const char *ns)
{
	struct space *s = map_get(l->spaces, ns);

	if (s)
		return s;
	s = xnew(struct space);
	list_init(&s->quotas);
	map_put(l->spaces, ns, s);
	return s;
}

static void add_quota(struct ledger *l, struct object *o)
{
	struct space *s = space_need(l, o->ns);
	struct quota *q = quota_new(o), *at;

	list_each(at, &s->quotas, in_ns)
		if (strcmp(at->o->name, o->name) > 0)
			break;
	list_add_tail(&at->in_ns, &q->in_ns);
	for (size_t i = 0; i < q->n_lines; i++)
		if (is_first_of(q, i))
			count_all(l, q, q->lines[i].m.resource);
	mark_stale(l, q);
}

static struct quota *find_quota(const struct ledger *l, const char *ns, const char *name)
{
	struct space *s = map_get(l->spaces, ns);
	struct quota *q;

	if (!s)
		return NULL;
	list_each(q, &s->quotas, in_ns)
		if (str_eq(q->o->name, name))
			return q;
	return NULL;
}

static void drop_quota(struct ledger *l, const char *ns, const char *name)
{
	struct quota *q = find_quota(l, ns, name);
	struct space *s = map_get(l->spaces, ns);

	if (!q)
		return;
	quota_free(q);
	if (list_empty(&s->quotas))
		map_del(l->spaces, ns);
}

/* Following the store */

static void note_quota(struct ledger *l, const struct object *old, const struct object *now)
{
	struct quota *q = old ? find_quota(l, old->ns, old->name) : NULL;

	if (q && now && json_equal(object_spec(old), object_spec(now))) {
		object_unref(q->o);
		q->o = object_ref((struct object *)now);
		mark_stale(l, q); /* its status may have been written by anybody */
		return;
	}
	if (old)
		drop_quota(l, old->ns, old->name);
	if (now)
		add_quota(l, (struct object *)now);
}

void ledger_note(struct ledger *l, const struct object *old, const struct object *now)
{
	const struct object *either = now ? now : old;
	struct space *s;
	struct quota *q;

	if (either->kind == l->os->quota)
		note_quota(l, old, now);
	s = map_len(l->spaces) ? map_get(l->spaces, either->ns) : NULL;
	if (!s)
		return;
	list_each(q, &s->quotas, in_ns) {
		bool any = false;

		if (now && q->o == now && !old)
			continue; /* it has counted itself */
		if (old)
			any |= count(l, q, old, true);
		if (now)
			any |= count(l, q, now, false);
		if (any)
			mark_stale(l, q);
	}
	if (now)
		note_deadline(l, now->kind, now->root);
}

void ledger_recount(struct ledger *l, usec now)
{
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	l->as_of = now;
	l->deadline = INT64_MAX;
	map_free(l->spaces);
	l->spaces = map_new(space_free);
	key_prefix(&prefix, l->os->quota, NULL);
	while ((en = store_next(l->os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(l->os, en);

		if (o)
			add_quota(l, o);
	}
}

/* Telling */

static struct json_doc *status_doc(const struct quota *q)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *used = json_obj(d);

	json_set_root(d, root);
	json_set(d, root, "hard", json_copy(d, json_get(object_spec(q->o), "hard")));
	for (size_t i = 0; i < q->n_lines; i++) {
		char text[QUANTITY_TEXT_MAX];

		if (q->lines[i].m.what == MEASURE_NOTHING || q->lines[i].unknown)
			continue;
		quantity_text(&q->lines[i].used, text);
		json_set_str(d, used, q->lines[i].name, text);
	}
	json_set(d, root, "used", used);
	return d;
}

struct object *ledger_next_stale(struct ledger *l, struct json_doc **ret_status)
{
	struct quota *q;

	if (list_empty(&l->stale))
		return NULL;
	q = list_first(&l->stale, struct quota, stale);
	list_del(&q->stale);
	*ret_status = status_doc(q);
	return object_ref(q->o);
}

bool ledger_is_stale(const struct ledger *l)
{
	return !list_empty(&l->stale);
}

void ledger_stale_again(struct ledger *l, const char *ns, const char *name)
{
	struct quota *q = find_quota(l, ns, name);

	if (q)
		mark_stale(l, q);
}
