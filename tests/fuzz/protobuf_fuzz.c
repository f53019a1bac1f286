/* SPDX-License-Identifier: Apache-2.0 */
#include "api/registry.h"
#include "server/call/protobuf.h"

/* Bodies in protobuf, as any client may send them, read by the tables of the largest kinds. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct kinds *kinds;
	const struct type *types[5];

	if (!kinds)
		kinds = kinds_new();
	types[0] = kinds_need(kinds, "v1", "Pod")->type;
	types[1] = kinds_need(kinds, "v1", "ConfigMap")->type;
	types[2] = kinds_need(kinds, "v1", "Event")->type;
	types[3] = &type_delete_options;
	types[4] = &type_token_request;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct json_doc *d = NULL;

		err_free(protobuf_read((const char *)data, len, types[i], &d));
		json_doc_free(d);
	}
	return 0;
}
