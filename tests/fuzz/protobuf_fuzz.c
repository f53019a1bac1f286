/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "server/protobuf_priv.h"

/* Bodies in protobuf, as any client may send them, read by the tables of the largest kinds. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct type *types[] = { kind_pod.type, kind_config_map.type, kind_event.type,
				       &type_delete_options, &type_token_request };

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct json_doc *d = NULL;

		err_free(protobuf_read((const char *)data, len, types[i], &d));
		json_doc_free(d);
	}
	return 0;
}
