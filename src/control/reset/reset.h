/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/mem.h"
#include "loop/queue.h"

struct context;
struct object;
struct pass;

/* Puts the Sandbox of a claim that has ended back into its pool, or lets it be deleted. */
struct again reset_reconcile(struct pass *p);

/* The change concerns the reset of this Sandbox. */
bool reset_cares(const struct object *sandbox);

/* The members that are being put back at the moment. */
struct resets;
struct resets *resets_new(struct context *c);
void resets_free(struct resets *r); /* does not wait for them */
AUTOPTR(resets)
