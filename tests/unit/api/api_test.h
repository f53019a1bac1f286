/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/decode.h"
#include "api/kind.h"
#include "api/schema.h"
#include "base/str.h"
#include "json/json.h"
#include "test.h"

/* A tree from text in which ' stands for ", so that tests can be read. */
static inline struct json_doc *doc(const char *text)
{
	autofree char *copy = xstrdup(text);
	struct json_doc *d = NULL;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	works(json_parse(copy, strlen(copy), NULL, &d));
	return d;
}

static inline void eq_json(const struct json *v, const char *want)
{
	autoptr(json_doc) d = doc(want);
	autofree char *have = json_to_text(v);

	if (json_equal(v, json_root(d)))
		return;
	print_error("have %s\nwant %s\n", have, want);
	fail();
}

/* Reads d as its type; what is odd goes to c, which may be NULL. Values that cannot be read stay.
 */
static inline void decode(struct json_doc *d, const struct type *t, struct causes *c)
{
	struct decode_input in = { .media = DECODE_TREE, .tree = json_doc_new() };
	autoptr(json_doc) read = NULL;
	struct err *e;

	json_set_root(in.tree, json_copy(in.tree, json_root(d)));
	e = schema_decode(t, &in, c, &read);
	if (!e)
		json_set_root(d, json_copy(d, json_root(read)));
	err_free(e);
}

/* What the server does with an object before it is stored. old is NULL on create. */
static inline void admit(struct json_doc *d, const struct kind *k, const struct json *old,
			 struct causes *c)
{
	struct json *root;

	decode(d, k->type, NULL);
	root = json_root(d);
	schema_default(d, root, k->type, NULL);
	if (k->defaults)
		k->defaults(d, old);
	schema_validate(root, k->type, NULL, c);
	if (k->validate)
		k->validate(root, old, c);
}
