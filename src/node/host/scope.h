/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * Where an instance has its control groups, below the mount of the hierarchy. Two layouts, named
 * after its id:
 *
 *   cay-<id>                               hosts without systemd, and those with version 1
 *   cay.slice/cay-<id>.scope/sandboxes     hosts whose unified hierarchy systemd manages
 *
 * The scope is delegated: systemd gives it the controllers and leaves alone what is below it. It
 * lives as long as a process is in it, so it outlives the service with the sandboxes, and ends
 * without a trace after the last of them. While a daemon runs, a process that only waits holds it:
 * that ends with the daemon. When the machine stops, systemd stops the unit that the daemon is in
 * first, and the scope ends what the daemon has left.
 */
struct scope;

/* Finds the place, and asks systemd for the scope where there is to be one; about says whose it is,
 * for `systemctl status`. It blocks until systemd has answered: for the start of a node.
 * ERR_CANCELED: give_up_fd was readable before that; -1: it never is. */
must_use struct err *scope_open(const char *id, const char *about, int give_up_fd,
				struct scope **ret);
void scope_free(struct scope *s); /* the scope goes on if there are sandboxes in it */
AUTOPTR(scope)
const char *scope_path(const struct scope *s);
bool scope_is_systemds(const struct scope *s); /* the second layout */
/* Readable once somebody has stopped the scope, borrowed; -1: the first layout. */
int scope_end_fd(const struct scope *s);
/* Why there is none although systemd manages the hierarchy; NULL: there is one, or it does not. */
const char *scope_refusal(const struct scope *s);
/* Whether the place of an instance is outside of what systemd knows, although that manages the
 * hierarchy: it has sandboxes from a start that got no scope. */
bool scope_is_missing(const char *id);
/* The place that an instance uses or used, running or not; malloc'd. Makes nothing. */
char *scope_find(const char *id);
