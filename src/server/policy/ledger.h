/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

struct json;
struct json_doc;
struct kind;
struct object;
struct objects;

/*
 * The ledger: the ResourceQuotas of all namespaces, and how much is in use of what they limit. It
 * follows the store: whoever writes tells it of each change.
 */
struct ledger;

struct ledger *ledger_new(const struct objects *os);
void ledger_free(struct ledger *l);
AUTOPTR(ledger)

/* A write that is about to be stored. old is NULL on create. */
struct ledger_write {
	const struct kind *kind; /* as stored */
	const char *ns, *sub;
	const struct json *obj, *old;
};
/* NULL when no quota stands against it; otherwise why, in the words of Kubernetes, malloc'd. */
char *ledger_refuses(const struct ledger *l, const struct ledger_write *w);

/* An object of any kind was stored (old NULL: it is new) or removed (now NULL). */
void ledger_note(struct ledger *l, const struct object *old, const struct object *now);
/* Reads all quotas and counts everything again, as of now. */
void ledger_recount(struct ledger *l, usec now);
/* When something ceases to count by itself; INT64_MAX: never. A recount after it finds that. */
usec ledger_deadline(const struct ledger *l);

/*
 * The next quota whose status may not say what the ledger does, a new reference; NULL: there is
 * none left. *ret_status is a new doc whose root is the status that it should have.
 */
struct object *ledger_next_stale(struct ledger *l, struct json_doc **ret_status);
bool ledger_is_stale(const struct ledger *l); /* there is one */
void ledger_stale_again(struct ledger *l, const char *ns, const char *name);
