/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "api/decode.h"
#include "api/encode.h"
#include "api/kind.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum {
	FEW = 100 * 1000, /* bytes: fewer than the values that may be in a body */
};

static struct json_doc *read_as(const struct type *t, const void *data, size_t len)
{
	const struct decode_input in = { DECODE_PROTOBUF, data, len, NULL };
	struct json_doc *d = NULL;

	err_free(schema_decode(t, &in, NULL, &d));
	return d;
}

/* Whatever can be read is written in a form that is read as the same, and then written as the same.
 */
static void there_and_back(const struct type *t, const uint8_t *data, size_t len)
{
	const struct encode_name name = { "v1", "Any" };
	autoptr(json_doc) first = read_as(t, data, len);
	autoptr(json_doc) second = NULL;
	autobuf a = { 0 };
	autobuf b = { 0 };

	if (!first)
		return;
	encode_object(&name, json_root(first), t, &a);
	second = read_as(t, buf_head(&a), a.len);
	if (!second && a.len > FEW)
		return; /* with the empty members, they are more than the limit */
	assert(second);
	encode_object(&name, json_root(second), t, &b);
	assert(a.len == b.len && !memcmp(buf_head(&a), buf_head(&b), a.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct type *const bodies[] = {
		body_scale,        body_token_request, body_eviction,
		body_token_review, body_access_review, encode_status
	};
	static struct kinds *kinds;
	const struct kind *const *all;
	size_t n;

	if (!kinds)
		kinds = kinds_new();
	all = kinds_all(kinds, &n);
	for (size_t i = 0; i < n; i++)
		if (encode_has_protobuf(all[i]->type))
			there_and_back(all[i]->type, data, len);
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
		there_and_back(bodies[i], data, len);
	return 0;
}
