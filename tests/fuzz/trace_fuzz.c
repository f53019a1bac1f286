/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Reads the text as a header and as an annotation; what is accepted is written, and read again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *text = xstrndup((const char *)data, len), *again = NULL;
	struct trace_context a, b, c;
	char parent[TRACE_PARENT_MAX];

	if (trace_parent_read(text, &a)) {
		trace_parent_write(&a, parent);
		assert(trace_parent_read(parent, &b) && !memcmp(&a, &b, sizeof(a)));
	}
	if (trace_annotation_read(text, &a)) {
		again = trace_annotation_write(&a);
		assert(trace_annotation_read(again, &c) && !memcmp(&a, &c, sizeof(a)));
	}
	return 0;
}
