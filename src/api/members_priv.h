/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "json/json.h"

/* v for iterating by name: NULL, which has no members, when a peer sent anything but an object. */
static inline struct json *members(struct json *v)
{
	return json_is(v, JSON_OBJ) ? v : NULL;
}
