/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>

#include "base/buf.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Whatever was parsed can be written, and is parsed again as an equal tree. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autoptr(json_doc) first = NULL;
	autoptr(json_doc) second = NULL;
	autoptr(err) e = NULL;
	autobuf text = { 0 };

	e = json_parse((const char *)data, len, NULL, &first);
	if (e)
		return 0;
	json_write(json_root(first), &text);
	e = json_parse(buf_head(&text), text.len, NULL, &second);
	assert(!e);
	assert(json_equal(json_root(first), json_root(second)));
	return 0;
}
