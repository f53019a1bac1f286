/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/decode.h"
#include "api/kind.h"
#include "api/registry.h"
#include "api/schema.h"
#include "base/buf.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What was read once is read again as the same, without anything odd about it. */
static void check_settled(struct json_doc *d, const struct type *t)
{
	struct decode_input in = { .media = DECODE_JSON };
	autoptr(json_doc) again = NULL;
	struct causes odd = { 0 };
	autobuf text = { 0 };
	struct err *e;

	json_write(json_root(d), &text);
	in.text = buf_head(&text);
	in.len = text.len;
	e = schema_decode(t, &in, &odd, &again);
	assert(!e && !odd.n);
	assert(json_equal(json_root(d), json_root(again)));
}

/* A byte that says which kind, or that it is a patch, and a body in JSON. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct kinds *kinds;
	const struct kind *const *all;
	struct decode_request r = { .strictness = STRICTNESS_WARN };
	struct causes odd = { 0 };
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) patch = NULL;
	size_t n;

	if (!len)
		return 0;
	if (!kinds)
		kinds = kinds_new();
	all = kinds_all(kinds, &n);
	r.in = (struct decode_input){ .text = (const char *)data + 1, .len = len - 1 };
	err_free(object_decode(all[data[0] % n], &r, &d));
	if (d)
		check_settled(d, all[data[0] % n]->type);
	err_free(patch_decode(r.in.text, r.in.len, data[0] & 1, &odd, &patch));
	causes_done(&odd);
	return 0;
}
