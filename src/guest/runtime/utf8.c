/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/sse.h"

size_t utf8_unfinished(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;

	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = p[len - back];
		size_t whole = c >= 0xf0 && c < 0xf5   ? 4
			       : c >= 0xe0 && c < 0xf0 ? 3
			       : c >= 0xc2 && c < 0xe0 ? 2
						       : 0;

		if (c >> 6 == 2)
			continue; /* not the first byte of a character */
		return whole > back ? back : 0;
	}
	return 0;
}
