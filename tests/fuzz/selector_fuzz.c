/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "api/selector.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Parses the text as each kind of selector and matches it against an object. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char object[] =
		"{\"metadata\":{\"name\":\"x\",\"labels\":{\"a\":\"b\",\"n\":\"4\"}}}";
	autofree char *text = xstrndup((const char *)data, len);
	autoptr(selector) labels = NULL;
	autoptr(selector) fields = NULL;
	autoptr(json_doc) o = NULL;

	err_free(json_parse(object, sizeof(object) - 1, NULL, &o));
	err_free(selector_parse_labels(text, &labels));
	err_free(selector_parse_fields(text, &fields));
	(void)selector_matches_labels(labels, json_at_path(json_root(o), "metadata.labels"));
	(void)selector_matches_fields(fields, json_root(o));
	(void)selector_wants(fields, "metadata.name");
	return 0;
}
