/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/kind.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"

struct span;

/*
 * The registry: the kinds that are served at this moment. It begins with the built-in kinds, which
 * are never removed; others may come and go while the process runs. For one thread.
 *
 * Whoever puts the roles together owns it, and it outlives them. Roles reach it through their
 * client (client_kinds()), look up the kinds they work with once, and keep what they found:
 * built-in kinds need no reference for that.
 */
struct kinds;

struct kinds *kinds_new(void); /* with the built-in kinds */
void kinds_free(struct kinds *ks);
AUTOPTR(kinds)

/* Takes a reference. ERR_EXISTS: its group has another kind of that name or plural; ERR_INVALID: it
 * is stored as a kind that is not registered. */
must_use struct err *kinds_add(struct kinds *ks, const struct kind *k);
/* ERR_NOT_FOUND: k is not registered; ERR_FORBIDDEN: it is protected; ERR_CONFLICT: others are
 * stored as it. */
must_use struct err *kinds_remove(struct kinds *ks, const struct kind *k);
uint64_t kinds_version(const struct kinds *ks); /* differs after each change */

/* All of these return NULL for a kind that is not registered. What they return is borrowed. */
/* The first is for requests: it finds no kind that is KIND_UNSERVED. */
const struct kind *kinds_find(const struct kinds *ks, const char *group, const char *version,
			      const char *plural);
const struct kind *kinds_by_name(const struct kinds *ks, const char *group, const char *version,
				 const char *kind);
/* The kind whose objects are stored under "PLURAL" or "PLURAL.GROUP". */
const struct kind *kinds_stored(const struct kinds *ks, const char *resource);
/* A built-in kind, by "v1" or "GROUP/VERSION"; it must be there (assert). */
const struct kind *kinds_need(const struct kinds *ks, const char *api_version, const char *kind);
/* In the order of discovery: a short name that two kinds share means the first. Valid until the
 * next change. */
const struct kind *const *kinds_all(const struct kinds *ks, size_t *ret_n);

/* The same without those that no request can name (KIND_UNSERVED). */
const struct kind *const *kinds_served(const struct kinds *ks, size_t *ret_n);

/* Called after each change. The struct is the caller's. */
struct kinds_watch {
	struct list link;
	void (*changed)(void *arg, const struct kind *k, bool added);
	void *arg;
};
void kinds_watch(struct kinds *ks, struct kinds_watch *w);
void kinds_unwatch(struct kinds_watch *w); /* fine for one that never watched */
