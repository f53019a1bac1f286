/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "json/json.h"

/* v to go through by name: nothing at all when a peer sent something else than an object. */
static inline struct json *members(struct json *v)
{
	return json_is(v, JSON_OBJ) ? v : NULL;
}
