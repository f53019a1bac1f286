/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "guest/runtime/path.h"
#include "guest/runtime/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * Cleans the input as a path of the REST API. Whatever it is, the result is relative, has no empty
 * name, no "." and no ".."; and cleaning it again changes nothing. The same bytes as output: what
 * is held back of them is shorter than a character.
 */
static void check(const char *clean)
{
	struct span left = SPAN(clean);

	while (left.p && *clean) {
		struct span name = span_cut(left, '/', &left);

		if (!name.len || span_eq(name, ".") || span_eq(name, ".."))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char root[] = "/workspace";
	struct base b = { -1, root, root };
	autofree char *path = xstrndup((const char *)data, len), *once = NULL, *twice = NULL;
	autoptr(err) e = path_clean(&b, path, &once);

	if (utf8_unfinished((const char *)data, len) > 3)
		abort();
	if (e)
		return 0;
	check(once);
	e = path_clean(&b, once, &twice);
	if (e || !str_eq(once, twice))
		abort();
	return 0;
}
