/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/apply/managed.h"
#include "api/kind.h"
#include "api/registry.h"
#include "api/schema.h"
#include "base/str.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * The input is a byte that chooses the kind, then three lines: an object, its managedFields, and
 * what is applied to it. Ownership that can be read survives being written and read again; the
 * algebra of sets holds for what it names; and an apply that insists has the fields that it asked
 * for, owns them, and changes nothing when it is repeated.
 */
static struct json *next_line(struct json_doc *d, const char **text, size_t *len)
{
	const char *cut = memchr(*text, '\n', *len);
	size_t n = cut ? (size_t)(cut - *text) : *len;
	autoptr(json_doc) parsed = NULL;
	autoptr(err) e = json_parse(*text, n, &(struct json_limits){ .max_depth = 64 }, &parsed);

	*text += cut ? n + 1 : n;
	*len -= cut ? n + 1 : n;
	return e ? NULL : json_copy(d, json_root(parsed));
}

static void check_algebra(struct fields_mem *mem, const struct managed *m)
{
	for (size_t i = 0; i + 1 < m->n; i++) {
		const struct fields *s = m->list[i].set, *t = m->list[i + 1].set;
		const struct fields *both = fields_union(mem, s, t),
				    *common = fields_intersection(mem, s, t),
				    *rest = fields_difference(mem, s, t);

		assert(fields_equal(both, fields_union(mem, t, s)));
		assert(fields_equal(s, fields_union(mem, rest, common)));
		assert(fields_empty(fields_intersection(mem, rest, t)));
		assert(fields_empty(fields_difference(mem, common, t)));
	}
}

static void check_text(struct fields_mem *mem, const struct managed *m)
{
	struct json *list = managed_write(mem->doc, m);
	struct managed again;
	autoptr(err) e = managed_read(mem, list, &again);

	assert(!e && again.n == m->n);
	for (size_t i = 0; i < m->n; i++)
		assert(fields_equal(m->list[i].set, again.list[i].set));
}

static void check_apply(struct fields_mem *mem, struct apply *r)
{
	struct json *next = NULL, *again = NULL;
	struct comparison c;
	autoptr(err) e = apply_merge(r, mem->doc, &next);

	if (e)
		return;
	check_text(mem, r->m);
	r->live = next;
	e = apply_merge(r, mem->doc, &again);
	assert(!e);
	c = typed_compare(mem, next, again, r->type);
	assert(fields_empty(c.added) && fields_empty(c.removed) && fields_empty(c.modified));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data + 1;
	static struct kinds *kinds;
	const struct kind *const *all, *k;
	struct managed m = { 0 };
	struct causes causes = { 0 };
	autofields mem = { 0 };
	struct apply r;
	struct err *e;
	size_t n;
	const struct json *owners;

	if (len < 2)
		return 0;
	if (!kinds)
		kinds = kinds_new();
	all = kinds_all(kinds, &n);
	k = all[data[0] % n];
	len--;
	fields_mem_init(&mem);
	r = (struct apply){
		.mem = &mem, .type = k->type, .force = true, .m = &m, .causes = &causes
	};
	r.by = (struct manager){ "fuzz", true, "v1", "", "2026-01-01T00:00:00Z", NULL };
	r.live = next_line(mem.doc, &text, &len);
	owners = next_line(mem.doc, &text, &len);
	r.patch = next_line(mem.doc, &text, &len);
	e = managed_read(&mem, owners, &m);
	if (e)
		m = (struct managed){ 0 };
	err_free(e);
	check_algebra(&mem, &m);
	check_text(&mem, &m);
	if (!json_is(r.live, JSON_OBJ) || !json_is(r.patch, JSON_OBJ))
		return 0;
	e = typed_check(&mem, r.live, k->type);
	if (!e)
		e = typed_check(&mem, r.patch, k->type);
	if (!e)
		check_apply(&mem, &r);
	err_free(e);
	causes_done(&causes);
	return 0;
}
