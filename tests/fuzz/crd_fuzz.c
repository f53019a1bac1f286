/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/crd/crd.h"
#include "api/decode.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/schema.h"
#include "base/mem.h"
#include "base/regex.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void hear(void *arg, const char *text)
{
	assert(!arg && text);
}

/* An object of the kind, once pruned, completed and checked, stays as it is. */
static void use(const struct kind *k, const char *text, size_t len)
{
	struct decode_request r = { .in = { .text = text, .len = len } };
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) was = json_doc_new();
	struct causes c = { 0 };

	err_free(object_decode(k, &r, &d));
	if (!d)
		return;
	schema_default(d, json_root(d), k->type, NULL);
	schema_validate(json_root(d), k->type, NULL, &c);
	if (!c.n) {
		json_set_root(was, json_copy(was, json_root(d)));
		err_free(k->from_storage(k, d));
		assert(json_equal(json_root(was), json_root(d)));
	}
	causes_done(&c);
}

static void define(struct kinds *ks, const char *text, size_t len, const char *object,
		   size_t object_len)
{
	const struct kind *crd =
		kinds_need(ks, "apiextensions.k8s.io/v1", "CustomResourceDefinition");
	struct decode_request r = { .in = { .text = text, .len = len } };
	autoptr(json_doc) d = NULL;
	struct causes c = { 0 };
	struct crd_kinds made;
	struct object *o;
	struct err *e;
	bool fine;

	err_free(object_decode(crd, &r, &d));
	if (!d)
		return;
	crd_defaults(d, NULL);
	crd_settle(d, ks, 0);
	crd_warn(json_root(d), hear, NULL);
	crd_validate(json_root(d), NULL, &c);
	fine = !c.n && crd_established(json_root(d));
	causes_done(&c);
	if (!fine)
		return;
	o = object_new(crd, take(d));
	e = crd_kinds_new(o, &made);
	assert(!e); /* what was accepted can be used */
	object_unref(o);
	for (size_t i = 0; i < made.n; i++)
		use(made.list[i], object, object_len);
	crd_kinds_done(&made);
}

/* A definition and, behind the first line, an object of its kind. The whole is a pattern, too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct kinds *kinds;
	autofree char *text = xstrndup((const char *)data, len);
	size_t whole = strlen(text), steps = 100000;
	const char *line = strchr(text, '\n');
	autoptr(regex) r = NULL;

	if (!kinds)
		kinds = kinds_new();
	err_free(regex_new(text, &r));
	if (r)
		(void)regex_match(r, text, whole, &steps);
	if (line)
		define(kinds, text, (size_t)(line - text), line + 1,
		       whole - (size_t)(line - text) - 1);
	return 0;
}
