/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "loop/queue.h"

struct object;
struct pass;
struct sessions;

/* Keeps a sandbox in a Session for as long as it is open, and puts it away afterwards. */
struct again session_reconcile(struct pass *p);

/* What the controller keeps between passes: the claims whose creation is under way. */
struct sessions *sessions_new(void);
void sessions_free(struct sessions *s);

/* The change of a claim, or of a Sandbox, concerns the sessions that use it. */
bool session_cares_claim(const struct object *was, const struct object *now);
bool session_cares_sandbox(const struct object *was, const struct object *now);
