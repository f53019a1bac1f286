/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct json_doc;
struct object;
struct pass;

/* Keeps a SandboxWarmPool filled with Ready members. */
struct again pool_reconcile(struct pass *p);

/* The Sandbox that a pool makes of its template (§5.3); the hashes are the blueprint's. */
struct json_doc *member_build(const struct object *pool, const struct object *template,
			      const char *blueprint_hash, const char *pod_hash);
