/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wall.h"

#ifdef CAY_TEST_WALLS
#include <stdlib.h>

#include "base/str.h"

bool wall_stands(const char *name)
{
	const char *down = getenv("CAY_WALLS_DOWN");
	struct span rest = SPAN(str_or(down, "")), one;

	while (rest.p) {
		one = span_cut(rest, ',', &rest);
		if (span_eq(one, name))
			return false;
	}
	return true;
}
#endif
