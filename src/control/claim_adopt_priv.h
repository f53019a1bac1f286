/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/claim_priv.h"
#include "control/note_priv.h"
#include "control/pass_priv.h"

/*
 * How a claim gets its Sandbox.
 *
 * The controller reference of the Sandbox is the whole truth of an adoption: one guarded patch sets
 * it, so two claims can never have one Sandbox, and after a crash the index by owner finds it
 * again. Status and annotations of the claim only repeat it.
 */
struct claim_pass {
	struct pass *p;
	const struct object *claim;
	struct note *note;
	struct object *pool, *template; /* NULL: missing */
	struct object *sandbox;         /* the claim's own, once found */
	struct trouble trouble;
	uint64_t again_ms; /* while members have no address yet */
};

/* Looks at what the last pass's write came to; sets trouble. */
void claim_settle(struct claim_pass *cp);
/* Finds the Sandbox, or starts the write that will give the claim one. */
void claim_obtain(struct claim_pass *cp);
