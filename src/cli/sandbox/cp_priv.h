/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* One side of a copy. */
struct place {
	char *name; /* of a claim or sandbox; NULL: a path of ours */
	char *path;
};
/*
 * "NAME:PATH" or "PATH". A path of ours that contains a colon needs a slash before it: ./a:b.
 * ERR_INVALID: there is no path.
 */
must_use struct err *place_parse(const char *text, struct place *ret);
void place_done(struct place *p);
/* "/a/b/" → "/a" and "b"; "b" → "." and "b"; "/" and "a/." → itself and ".". Both malloc'd. */
void place_split(const char *path, char **ret_dir, char **ret_base);
