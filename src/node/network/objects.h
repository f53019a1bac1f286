/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct object;

/* Objects as the client has them now, good until the loop turns. All zeroes is empty. */
struct objects {
	struct object **list; /* borrowed; the list itself is malloc'd */
	size_t n, cap;
};

/* For client_each(); arg is struct objects. */
bool objects_add(void *arg, struct object *o);
