/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apply/managed.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"

/*
 * Who owns the fields of an object: metadata.managedFields.
 *
 * Clients are recorded as on a cluster. The controllers and the node of this process are not: what
 * they write belongs to nobody, which costs nothing, until one of their writes changes a field that
 * somebody is recorded for. That takes the field away, and is recorded under OWN_NAME. An object
 * that nobody is recorded for has no managedFields, and gets none before it is applied.
 */
#define OWN_NAME "cay"

struct track {
	struct fields_mem mem;
	const struct fields *ours; /* that the server has set on the way */
	bool known;                /* owners has the result: an apply has decided */
	struct json_doc *owners;
	char now[CLOCK_TEXT_MAX];
};

static struct track *track_of(struct op *op)
{
	if (!op->track) {
		op->track = xnew(struct track);
		fields_mem_init(&op->track->mem);
		clock_format(clock_wall(), op->track->now);
	}
	return op->track;
}

void track_free(struct track *t)
{
	if (!t)
		return;
	fields_mem_done(&t->mem);
	json_doc_free(t->owners);
	free(t);
}

/* What the server sets itself */

struct json_doc *track_before(const struct op *op, const struct json_doc *d)
{
	struct json_doc *copy;

	if (!op->manager)
		return NULL;
	copy = json_doc_new();
	json_set_root(copy, json_copy(copy, json_root(d)));
	return copy;
}

void track_after(struct op *op, struct json_doc *before, const struct json_doc *d)
{
	struct track *t;
	struct json *was, *now;
	struct comparison c;

	if (!before)
		return;
	t = track_of(op);
	was = json_copy(t->mem.doc, json_root(before));
	now = json_copy(t->mem.doc, json_root(d));
	json_doc_free(before);
	c = typed_compare(&t->mem, was, now, type_in_full(kind_storage(op->kind)->type));
	t->ours = fields_union(&t->mem, t->ours, fields_union(&t->mem, c.added, c.modified));
}

/* Results */

static void set_owners(struct json_doc *d, struct json *meta, struct json *list)
{
	if (list)
		(void)json_set(d, meta, "managedFields", list);
	else if (json_get(meta, "managedFields"))
		(void)json_del(meta, "managedFields");
}

void track_known(struct op *op, struct json_doc *owners)
{
	struct track *t = track_of(op);

	json_doc_free(t->owners);
	t->owners = owners;
	t->known = true;
}

static bool set_known(struct op *op, struct json_doc *d, struct json *meta)
{
	if (!op->track || !op->track->known)
		return false;
	set_owners(d, meta, json_copy(d, json_root(op->track->owners)));
	return true;
}

static struct manager manager_of(const struct op *op, const char *now)
{
	const char *sub = op->manager_sub ? op->manager_sub : op->sub;

	return (struct manager){
		.name = op->manager ? str_or(op->manager, "unknown") : OWN_NAME,
		.api_version = kind_api_version(kind_storage(op->kind)),
		.sub = op->manager ? sub : "",
		.time = now,
	};
}

/* The creator owns everything, defaults included, but not what the server has decided. */
void track_create(struct op *op, struct json_doc *d)
{
	const struct kind *k = kind_storage(op->kind);
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	struct managed m = { 0 };
	struct manager by;
	struct comparison c;
	struct track *t;

	if (set_known(op, d, meta) || !op->manager)
		return;
	t = track_of(op);
	by = manager_of(op, t->now);
	c = typed_compare(&t->mem, typed_zero(t->mem.doc, type_in_full(k->type)), json_root(d),
			  type_in_full(k->type));
	c.added = fields_difference(&t->mem, fields_union(&t->mem, c.added, c.modified), t->ours);
	c.modified = NULL;
	if ((k->flags & (KIND_STATUS | KIND_OWN_STATUS)) == KIND_STATUS)
		c.added = fields_without(&t->mem, c.added, "status");
	managed_update(&t->mem, &m, &c, &by);
	set_owners(d, meta, managed_write(d, &m));
}

/* Ownership that cannot be read is none. */
static struct managed read_owners(struct fields_mem *mem, const struct json *list)
{
	struct managed m = { 0 };
	struct err *e = managed_read(mem, list, &m);

	if (e)
		m = (struct managed){ 0 };
	err_free(e);
	return m;
}

/* What the client says, if it says something that can be read; otherwise what was. */
static struct managed owners_before(struct track *t, const struct op *op, const struct json *sent,
				    const struct json *was)
{
	struct managed m;

	if (*op->sub || json_same(sent, was))
		return read_owners(&t->mem, was);
	if (managed_resets(sent))
		return (struct managed){ 0 };
	m = read_owners(&t->mem, sent);
	return m.n ? m : read_owners(&t->mem, was);
}

static bool takes(const struct comparison *c, const struct json *owners)
{
	json_each(it, owners) {
		const struct json *set = json_get(it.val, "fieldsV1");

		if (fields_meet(c->added, set) || fields_meet(c->modified, set) ||
		    fields_meet(c->removed, set))
			return true;
	}
	return false;
}

enum {
	LOOKED_AT_MAX = 64, /* members of a set; beyond that it is compared with care */
};

/*
 * False if a change from was to now certainly leaves what is in the set (as FieldsV1) alone: the
 * same memory is at the end of its paths. For most writes of this process that is all there is to
 * do.
 */
static bool may_touch(const struct json *set, const struct json *was, const struct json *now)
{
	if (json_len(set) > LOOKED_AT_MAX)
		return true;
	json_each(it, set) {
		const char *name = it.key + 2;
		const struct json *a, *b;

		if (str_eq(it.key, "."))
			continue; /* that it is still there is known */
		if (!str_starts(it.key, "f:"))
			return true;
		a = json_get(was, name);
		b = json_get(now, name);
		if (a == b || (a && b && json_same(a, b)))
			continue;
		if (!a || !b || !json_len(it.val) || may_touch(it.val, a, b))
			return true;
	}
	return false;
}

static bool may_take(const struct json *owners, const struct json *was, const struct json *now)
{
	json_each(it, owners)
		if (may_touch(json_get(it.val, "fieldsV1"), was, now))
			return true;
	return false;
}

void track_update(struct op *op, struct json_doc *d, const struct object *old)
{
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	const struct json *was = json_get(json_get(old->root, "metadata"), "managedFields");
	const struct json *sent = json_get(meta, "managedFields");
	struct json *list = NULL;
	struct managed m;
	struct manager by;
	struct comparison c;
	struct track *t;

	if (set_known(op, d, meta) || (!was && (!op->manager || !sent)))
		return;
	if (!op->manager && !may_take(was, old->root, json_root(d)))
		return;
	t = track_of(op);
	c = typed_compare(&t->mem, old->root, json_root(d),
			  type_in_full(kind_storage(op->kind)->type));
	if (!op->manager && !takes(&c, was))
		return;
	m = owners_before(t, op, sent, was);
	by = manager_of(op, t->now);
	if (m.n) { /* otherwise nobody is recorded, and that stays so until somebody applies */
		managed_update(&t->mem, &m, &c, &by);
		list = managed_write(d, &m);
	}
	if (!list || !json_equal(list, was))
		set_owners(d, meta, list);
	else if (!json_same(sent, was))
		set_owners(d, meta, json_lend(d, old->doc, was));
}
