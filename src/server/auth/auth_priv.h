/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/auth/auth.h"

/* The user of a bearer token, in the call's arena. */
must_use struct err *token_check(struct tokens *t, struct call *c, const char *token,
				 struct user *ret);
