/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/*
 * The name in a request to a proxy, of a Pod or of a Service: NAME, NAME:PORT or SCHEME:NAME:PORT.
 * Whoever decides about such a request and whoever sends it on must mean the same Pod.
 */
struct proxy_name {
	struct span scheme, name, port; /* of the text; empty: not given */
};
/* False: it is none of these, and leads nowhere. */
bool proxy_name_read(const char *text, struct proxy_name *ret);
/* The name, malloc'd; of what is none, the text itself, which names nothing. */
char *proxy_name_of(const char *text);
