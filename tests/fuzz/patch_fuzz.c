/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>

#include "api/decode.h"
#include "api/meta.h"
#include "api/patch.h"
#include "api/registry.h"
#include "api/schema.h"
#include "api/table.h"
#include "base/buf.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * The input is a byte that chooses patch type and kind, an object, a newline, and a patch. The
 * result must be writable and readable, and survive what a server does with it: decode, default,
 * complete, validate. A patch of what a frozen object has lent has the same result as one of a
 * copy, and leaves the object as it was.
 */
static struct json_doc *take_in(struct json_doc *doc, const struct kind *k)
{
	const struct decode_input in = { .media = DECODE_TREE, .tree = doc };
	struct causes c = { 0 };
	struct json_doc *d = NULL;
	struct err *e = schema_decode(k->type, &in, &c, &d);

	if (e) {
		err_free(e);
		causes_done(&c);
		return NULL;
	}
	schema_default(d, json_root(d), k->type, NULL);
	if (k->defaults)
		k->defaults(d, NULL);
	meta_validate(json_get(json_root(d), "metadata"), k->flags, NULL, &c);
	schema_validate(json_root(d), k->type, NULL, &c);
	if (k->validate)
		k->validate(json_root(d), NULL, &c);
	causes_done(&c);
	return d;
}

/* What is stored is valid, but a table must not depend on that. */
static void show(struct json_doc *d, const struct kind *k)
{
	autoptr(json_doc) out = json_doc_new();
	struct json *t = table_new(out, k);

	table_add(out, t, &(struct table_rows){ .kind = k }, json_root(d));
	if (k->to_storage)
		err_free(k->to_storage(k, d));
	if (k->from_storage)
		err_free(k->from_storage(k, d));
}

static void check_readable(const struct json *v)
{
	autoptr(json_doc) again = NULL;
	autobuf text = { 0 };
	struct err *e;

	json_write(v, &text);
	e = json_parse(buf_head(&text), text.len, &(struct json_limits){ .max_len = 1u << 28 },
		       &again);
	assert(!e);
	assert(json_equal(v, json_root(again)));
}

static void check_lent(enum patch_type how, struct json_doc *copy, const struct json *patch,
		       const struct kind *k)
{
	autoptr(json_doc) object = json_freeze(copy);
	autoptr(json_doc) lent = json_branch(object);
	autoptr(json_doc) own = json_doc_new();
	autofree char *before = json_to_text(json_root(object)), *after = NULL;
	autofree char *by_lending = NULL, *by_copy = NULL;
	autoptr(err) e_lent = patch_apply(how, lent, patch, k->type);
	autoptr(err) e_own = NULL;

	json_set_root(own, json_copy(own, json_root(object)));
	e_own = patch_apply(how, own, patch, k->type);
	assert(str_eq(e_lent ? err_text(e_lent) : NULL, e_own ? err_text(e_own) : NULL));
	after = json_to_text(json_root(object));
	assert(str_eq(before, after));
	if (e_own)
		return;
	lent = json_freeze(take(lent));
	by_lending = json_to_text(json_root(lent));
	by_copy = json_to_text(json_root(own));
	assert(str_eq(by_lending, by_copy));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data + 1, *cut;
	static struct kinds *kinds;
	const struct kind *const *all, *k;
	size_t n;
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) patch = NULL;
	struct json_doc *copy;
	autoptr(err) e = NULL;

	if (len < 2)
		return 0;
	if (!kinds)
		kinds = kinds_new();
	all = kinds_all(kinds, &n);
	k = all[data[0] / 3 % n];
	cut = memchr(text, '\n', len - 1);
	if (!cut)
		return 0;
	e = json_parse(text, (size_t)(cut - text), NULL, &d);
	if (!e)
		e = json_parse(cut + 1, len - 2 - (size_t)(cut - text), NULL, &patch);
	if (e || !json_is(json_root(d), JSON_OBJ))
		return 0;
	copy = json_doc_new();
	json_set_root(copy, json_copy(copy, json_root(d)));
	check_lent((enum patch_type)(data[0] % 3), copy, json_root(patch), k);
	e = patch_apply((enum patch_type)(data[0] % 3), d, json_root(patch), k->type);
	if (e)
		return 0;
	assert(json_is(json_root(d), JSON_OBJ));
	check_readable(json_root(d));
	d = take_in(take(d), k);
	if (!d)
		return 0;
	check_readable(json_root(d));
	show(d, k);
	return 0;
}
