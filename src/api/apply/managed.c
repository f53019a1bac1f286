/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apply/managed.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"

/* The entries of managedFields: in, out, and what ordinary writes do to them. */

#define FIELDS_TYPE "FieldsV1"
#define ANCIENT     "ancient-changes"

/* Reading */

static struct err *read_entry(struct fields_mem *mem, const struct json *v, struct manager *ret)
{
	const char *operation = str_or(json_get_str(v, "operation"), "");
	const char *type = str_or(json_get_str(v, "fieldsType"), "");
	const struct json *set = json_get(v, "fieldsV1");

	*ret = (struct manager){
		.name = str_or(json_get_str(v, "manager"), ""),
		.applied = str_eq(operation, "Apply"),
		.api_version = str_or(json_get_str(v, "apiVersion"), ""),
		.sub = str_or(json_get_str(v, "subresource"), ""),
		.time = json_get_str(v, "time"),
	};
	if (!ret->applied && !str_eq(operation, "Update"))
		return err_new(ERR_INVALID, "operation must be `Apply` or `Update`");
	if (!*ret->api_version)
		return err_new(ERR_INVALID, "apiVersion must not be empty");
	if (!str_eq(type, FIELDS_TYPE))
		return err_new(ERR_INVALID, "fieldsType must be " FIELDS_TYPE);
	return json_is(set, JSON_OBJ) ? fields_parse(mem, set, &ret->set) : NULL;
}

struct err *managed_read(struct fields_mem *mem, const struct json *list, struct managed *ret)
{
	struct err *e;

	*ret = (struct managed){ 0 };
	if (json_len(list) > MANAGED_ENTRIES_MAX)
		return err_new(ERR_TOO_LARGE, "more than %d entries", MANAGED_ENTRIES_MAX);
	json_each(it, list) {
		struct manager one, *same;

		e = read_entry(mem, it.val, &one);
		if (e)
			return e;
		same = managed_find(ret, &one);
		if (same)
			*same = one;
		else
			managed_add(mem, ret, &one);
	}
	return NULL;
}

bool managed_resets(const struct json *list)
{
	if (!json_is(list, JSON_ARR))
		return false;
	return !json_len(list) || (json_len(list) == 1 && json_is(json_at(list, 0), JSON_OBJ) &&
				   !json_len(json_at(list, 0)));
}

/* Writing */

static int compare_entries(const void *a, const void *b)
{
	const struct manager *x = a, *y = b;
	int c = (int)y->applied - (int)x->applied;

	if (!c)
		c = strcmp(str_or(x->time, ""), str_or(y->time, ""));
	if (!c)
		c = strcmp(x->name, y->name);
	if (!c)
		c = strcmp(x->api_version, y->api_version);
	return c ? c : strcmp(x->sub, y->sub);
}

static struct json *write_entry(struct json_doc *d, const struct manager *m)
{
	struct json *o = json_obj(d);

	if (*m->name)
		json_add(d, o, "manager", json_new_str(d, m->name));
	json_add(d, o, "operation", json_new_str(d, m->applied ? "Apply" : "Update"));
	json_add(d, o, "apiVersion", json_new_str(d, m->api_version));
	if (m->time)
		json_add(d, o, "time", json_new_str(d, m->time));
	json_add(d, o, "fieldsType", json_new_str(d, FIELDS_TYPE));
	json_add(d, o, "fieldsV1", fields_print(d, m->set));
	if (*m->sub)
		json_add(d, o, "subresource", json_new_str(d, m->sub));
	return o;
}

struct json *managed_write(struct json_doc *d, const struct managed *m)
{
	struct json *list;

	if (!m->n)
		return NULL;
	qsort(m->list, m->n, sizeof(*m->list), compare_entries);
	list = json_arr(d);
	for (size_t i = 0; i < m->n; i++)
		json_push(d, list, write_entry(d, &m->list[i]));
	return list;
}

/* Entries */

/* An applier is the same in all versions. */
static bool is_same(const struct manager *a, const struct manager *b)
{
	return a->applied == b->applied && str_eq(a->name, b->name) && str_eq(a->sub, b->sub) &&
	       (a->applied || str_eq(a->api_version, b->api_version));
}

struct manager *managed_find(const struct managed *m, const struct manager *like)
{
	for (size_t i = 0; i < m->n; i++)
		if (is_same(&m->list[i], like))
			return &m->list[i];
	return NULL;
}

void managed_add(struct fields_mem *mem, struct managed *m, const struct manager *entry)
{
	struct manager *more = arena_new_n(mem->arena, struct manager, m->n + 1);

	if (m->n)
		memcpy(more, m->list, m->n * sizeof(*more));
	more[m->n] = *entry;
	m->list = more;
	m->n++;
}

static void drop_empty(struct managed *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		if (!fields_empty(m->list[i].set))
			m->list[n++] = m->list[i];
	m->n = n;
}

/* What writes do */

/* Without these fields themselves; what is below them stays. */
static struct fields *unnamed(struct fields_mem *mem, const struct fields *s,
			      const char *const *names)
{
	struct fields *out = arena_new_of(mem->arena, struct fields);

	for (size_t i = 0; s && i < s->n; i++) {
		struct fields_node n = s->nodes[i];

		n.member &= n.elem.type != ELEM_FIELD || !str_in(n.elem.name, names);
		fields_add(mem, out, &n);
	}
	return out;
}

const struct fields *managed_strip(struct fields_mem *mem, const struct fields *s)
{
	static const char *const top[] = { "apiVersion", "kind", "metadata", NULL };
	static const char *const meta[] = {
		"name",        "namespace",  "creationTimestamp", "selfLink",        "uid",
		"clusterName", "generation", "managedFields",     "resourceVersion", NULL,
	};
	struct fields *out = arena_new_of(mem->arena, struct fields);

	for (size_t i = 0; s && i < s->n; i++) {
		struct fields_node n = s->nodes[i];

		n.member &= n.elem.type != ELEM_FIELD || !str_in(n.elem.name, top);
		if (n.elem.type == ELEM_FIELD && str_eq(n.elem.name, "metadata"))
			n.sub = unnamed(mem, n.sub, meta);
		fields_add(mem, out, &n);
	}
	return out;
}

void managed_lose(struct fields_mem *mem, struct managed *m, const struct comparison *c)
{
	const struct fields *gone =
		fields_union(mem, fields_union(mem, c->modified, c->added), c->removed);

	for (size_t i = 0; i < m->n; i++)
		m->list[i].set = fields_difference(mem, m->list[i].set, gone);
	drop_empty(m);
}

static int compare_ages(const void *a, const void *b)
{
	const struct manager *x = *(const struct manager *const *)a,
			     *y = *(const struct manager *const *)b;
	int c = strcmp(str_or(x->time, ""), str_or(y->time, ""));

	return c ? c : compare_entries(x, y);
}

static void merge_into(struct fields_mem *mem, struct manager *to, struct manager *from)
{
	to->name = ANCIENT;
	to->sub = "";
	to->set = fields_union(mem, to->set, from->set);
	to->time = from->time;
	from->set = NULL;
}

/* The oldest updaters become one for each version, as many as are too many. */
static void cap_updaters(struct fields_mem *mem, struct managed *m)
{
	struct manager **old = arena_new_n(mem->arena, struct manager *, m->n + 1);
	size_t n = 0, left;

	for (size_t i = 0; i < m->n; i++)
		if (!m->list[i].applied)
			old[n++] = &m->list[i];
	if (n <= MANAGED_UPDATERS_MAX)
		return;
	qsort(old, n, sizeof(struct manager *), compare_ages);
	left = n;
	for (size_t i = 1; i < n && left > MANAGED_UPDATERS_MAX; i++)
		for (size_t k = 0; k < i; k++) {
			if (fields_empty(old[k]->set) ||
			    !str_eq(old[k]->api_version, old[i]->api_version))
				continue;
			merge_into(mem, old[k], old[i]);
			left--;
			break;
		}
	drop_empty(m);
}

void managed_update(struct fields_mem *mem, struct managed *m, const struct comparison *c,
		    const struct manager *by)
{
	struct manager entry = *by, *same;

	managed_lose(mem, m, c);
	entry.applied = false;
	entry.set = managed_strip(mem, fields_union(mem, c->modified, c->added));
	if (!fields_empty(entry.set)) {
		same = managed_find(m, &entry);
		if (same) {
			entry.set = fields_union(mem, entry.set, same->set);
			*same = entry;
		} else {
			managed_add(mem, m, &entry);
		}
	}
	cap_updaters(mem, m);
}
