/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "loop/queue.h"

struct access_wake;
struct buf;
struct context;
struct object;
struct pass;

/* The sleep of Sandboxes that nobody uses. */
struct idle;
struct idle *idle_new(struct context *c);
void idle_free(struct idle *i);

struct again idle_reconcile(struct pass *p); /* own is struct idle */
/* For a watch: whether the change of a Sandbox may matter, or that of something above it. */
bool idle_cares(const struct idle *i, const struct object *was, const struct object *now);
bool idle_policy_differs(const struct object *was, const struct object *now);
void idle_forget(struct idle *i, const struct object *sandbox); /* it is gone */

/* Starts a Sandbox that is suspended, if it may be woken. True also while it is being woken. cause
 * is static. */
bool idle_wake(struct idle *i, const char *ns, const char *name, const char *cause);
/* A frozen Pod was needed. */
void idle_thawed(struct idle *i, const struct access_wake *w);
void idle_metrics(const struct idle *i, struct buf *b);
