/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct object;

/*
 * Whom a SandboxTemplate, Sandbox or SandboxClaim is for, by the annotation cay.dev/visibility; an
 * Agent has a field for it. The owner is in cay.dev/owner, which only the server writes.
 */
enum visibility {
	VISIBILITY_PRIVATE, /* its owner alone uses it */
	VISIBILITY_TEAM,    /* whoever has a role for it */
	VISIBILITY_GLOBAL,  /* and every user may read it by its name */
	VISIBILITY_MAX_,
};
#define KEY_VISIBILITY "cay.dev/visibility"

extern const char *const visibility_names[]; /* ends with NULL */
/* Of any of the four kinds. Whatever is no such word means Team. */
enum visibility visibility_of(const struct object *o);
/* It is Private, and this user is not the owner. One without an owner is nobody's. */
bool visibility_shuts_out(const struct object *o, const char *user);
