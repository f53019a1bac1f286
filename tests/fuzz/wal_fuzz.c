/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "store/wal_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A log may hold anything. Damage must come after a bad frame, unless it is in the header. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct wal_scan s;
	size_t frame;

	if (len < WAL_HEADER || !wal_scan_header(&s, data))
		return 0;
	frame = WAL_FRAME + (size_t)s.page;
	for (size_t at = WAL_HEADER; len - at >= frame; at += frame)
		if (!wal_scan_frame(&s, data + at))
			break;
	if (s.damaged && (!s.bad || s.bad >= s.n))
		abort();
	return 0;
}
