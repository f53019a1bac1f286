/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode.h"
#include "api/kind.h"
#include "api/registry.h"
#include "base/str.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Bodies in protobuf, as any client may send them, read with the tables of the largest kinds. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct kinds *kinds;
	const struct decode_input in = { DECODE_PROTOBUF, (const char *)data, len, NULL };
	const struct type *types[6];

	if (!kinds)
		kinds = kinds_new();
	types[0] = kinds_need(kinds, "v1", "Pod")->type;
	types[1] = kinds_need(kinds, "v1", "ConfigMap")->type;
	types[2] = kinds_need(kinds, "v1", "Event")->type;
	types[3] = body_scale;
	types[4] = body_token_request;
	types[5] = kinds_need(kinds, "apiextensions.k8s.io/v1", "CustomResourceDefinition")->type;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct json_doc *d = NULL;

		err_free(schema_decode(types[i], &in, NULL, &d));
		json_doc_free(d);
	}
	return 0;
}
