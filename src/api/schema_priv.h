/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/schema.h"

/*
 * Where a walk is, as a chain of structs on the stack: its text is made only when there is
 * something to report. A link without a name is a list element.
 */
struct path {
	const struct path *up; /* NULL: the root, whose name is a whole path or "" */
	const char *name;
	size_t index;
	bool key; /* name is a key: written as limits[cpu] */
};
char *path_text(const struct path *p); /* malloc'd: spec.ports[2].port */

/* The value that a default's text stands for, in d. */
struct json *schema_fallback(struct json_doc *d, const struct field *f);
