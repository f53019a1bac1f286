/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "json/json.h"

/*
 * Compares trees by what they mean to the API: an absent member, null, and an empty list, object or
 * string are the same, and quantities compare by value.
 */
bool semantic_equal(const struct json *a, const struct json *b);
bool semantic_empty(const struct json *v);

/* The merge patch that turns have into want, in d; NULL when they mean the same. */
struct json *diff_merge(struct json_doc *d, const struct json *have, const struct json *want);
/* The same for a map of strings such as labels, where an empty string is a value like any other. */
struct json *diff_strings(struct json_doc *d, const struct json *have, const struct json *want);
