/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "json/json.h"

/*
 * The part of JSONPath that printer columns use: .a.b, ['a'], [0], [*], [?(@.type=='Ready')].
 * Returns the first value that matches, or NULL; NULL too for a path that uses anything else.
 */
struct json *jsonpath_get(const struct json *v, const char *path);
/* Whether a path is written in that part. */
bool jsonpath_valid(const char *path);
