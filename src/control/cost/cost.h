/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct buf;
struct context;
struct object;
struct pass;

/*
 * What is used, at whose cost: from the node's counters into the Ledger of each namespace, and from
 * there into the statuses of attachments and sessions. Where nothing is measured, as on a cluster,
 * nothing happens.
 */
struct books;
struct books *books_new(struct context *c); /* listens to c->opt.access, if there is one */
void books_free(struct books *c);

struct again ledger_reconcile(struct pass *p); /* own is struct books; the key is a namespace */

/* For watches: whom their use is for is remembered for a moment after they are gone. */
void books_attachment_changed(struct books *c, const struct object *was, const struct object *now);
void books_sandbox_changed(struct books *c, const struct object *was, const struct object *now);

void books_metrics(const struct books *c, struct buf *b);
