/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "loop/queue.h"

struct context;
struct notes;
struct object;
struct pass;
struct roster;

/* Gives a SandboxClaim its Sandbox: a member of its pool, or one of its own. */
struct again claim_reconcile(struct pass *p);

/* The claim is gone, and with it what we know of it. */
void claim_forget(struct notes *notes, struct context *c, const struct object *claim);
/* One member calls one claim that waits for it: all others would look for it in vain. */
void claim_call(struct context *c, struct roster *r);

/* The change of a Sandbox concerns its claim. */
bool claim_cares(const struct object *was, const struct object *now);
