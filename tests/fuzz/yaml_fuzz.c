/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>

#include "base/buf.h"
#include "json/json.h"
#include "json/yaml_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is read from YAML can be written as YAML and as JSON, and is the same when it is read again.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) again = NULL;
	autoptr(err) e = yaml_parse_one((const char *)data, len, &d);
	autobuf json = { 0 };

	if (e)
		return 0;
	json_write(json_root(d), &json);
	e = json_parse(buf_head(&json), json.len, &(struct json_limits){ .max_len = 1u << 28 },
		       &again);
	assert(!e);
	assert(json_equal(json_root(d), json_root(again)));
	return 0;
}
