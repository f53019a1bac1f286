/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/capability.h"
#include "base/err.h"

struct arena;
struct json;
struct json_doc;

/*
 * What is left of an agent's rights in the hands of somebody who holds one of its tokens: a
 * ceiling, never a source of rights. Whatever it does not name it does not limit.
 */
struct identity_grant {
	struct capabilities capabilities; /* a ceiling: runtimeClasses and maxSandboxes are open */
	const char *ns;      /* of the agent, where its sandbox is; "" while it is not known */
	const char *sandbox; /* NULL: any; "": none, because blocks name different ones */
	int64_t expires;     /* seconds since 1970; 0: no limit of its own */
};

void identity_grant_all(struct identity_grant *ret); /* nothing is taken away */
/*
 * From the members rights, egress, tools, credentials, sandbox and exp; others are refused, as is
 * any value that is not understood (ERR_INVALID): a limit must not be lost by not being read. With
 * `more`, that member is allowed too, and left alone. Texts are borrowed from the tree.
 */
must_use struct err *identity_grant_read(const struct json *tree, const char *more, struct arena *a,
					 struct identity_grant *ret);
/* The same members, those that limit anything. */
struct json *identity_grant_write(const struct identity_grant *g, struct json_doc *d);
/* What both leave. */
void identity_grant_meet(const struct identity_grant *x, const struct identity_grant *y,
			 struct arena *a, struct identity_grant *ret);
bool identity_grant_contains(const struct identity_grant *outer,
			     const struct identity_grant *inner);
/* It takes something away; the time aside. */
bool identity_grant_narrows(const struct identity_grant *g);
/* It limits where a sandbox may connect to, or which credentials it is lent. */
bool identity_grant_limits_network(const struct identity_grant *g);

/*
 * A grant travels with the groups of its user, because whoever asks about a user later, for a
 * stream, a tunnel or a tool, has these: "cay:grant:{...}". Nobody who is given such a group gets
 * anything from it.
 */
#define IDENTITY_GRANT_GROUP "cay:grant:"
const char *identity_grant_group(const struct identity_grant *g, struct arena *a);
/*
 * The grant that comes with groups, which end with NULL, or all if none does. It borrows from a and
 * d. ERR_INVALID: it cannot be read, so nothing is allowed.
 */
must_use struct err *identity_grant_of(const char *const *groups, struct arena *a,
				       struct json_doc *d, struct identity_grant *ret);
