/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/auth/auth.h"

/* The role that a service account has in its own namespace. */
enum role grants_role(const struct grants *g, const struct user *u);

/* The user of a bearer token, in the call's arena. */
must_use struct err *token_check(struct tokens *t, struct call *c, const char *token,
				 struct user *ret);
