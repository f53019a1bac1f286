/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "node/pod/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A state file may hold anything. What is read from it must come back the same when it is written
 * and read again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autoptr(arena) a = arena_new();
	autobuf once = { 0 };
	autobuf twice = { 0 };
	struct pod_record r;
	struct err *e = pod_record_read((const char *)data, len, a, &r);

	if (e) {
		err_free(e);
		return 0;
	}
	pod_record_write(&r, &once);
	if (pod_record_read(buf_head(&once), once.len, a, &r))
		abort();
	pod_record_write(&r, &twice);
	if (once.len != twice.len || memcmp(buf_head(&once), buf_head(&twice), once.len) != 0)
		abort();
	return 0;
}
