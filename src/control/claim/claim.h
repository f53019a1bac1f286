/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "loop/queue.h"

struct object;
struct pass;

/* Gives a SandboxClaim its Sandbox: a member of its pool, or one of its own. */
struct again claim_reconcile(struct pass *p);

/* The change of a Sandbox concerns its claim. */
bool claim_cares(const struct object *was, const struct object *now);
