/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "json/json.h"

/*
 * The part of JSONPath that printer columns use: .a.b, ['a'], [0], [?(@.type=='Ready')]. The first
 * value that matches, or NULL, also for a path that is more than this.
 */
struct json *jsonpath_get(const struct json *v, const char *path);
