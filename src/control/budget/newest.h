/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct context;
struct object;

/* The last Ledger of a namespace, whose counters count; a new reference, or NULL. */
struct object *ledger_newest(struct context *c, const char *ns);
