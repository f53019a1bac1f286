/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Which store the sandboxes and volumes of a data directory belong to, kept in data_dir/node/store.
 * A node removes what has no object, so it must not even start with another store: to an empty one,
 * everything that runs is a leftover.
 */
/* ERR_CONFLICT: they belong to another store. is_new: the store was created by this start. */
must_use struct err *owner_check(const char *data_dir, uint64_t store_id, bool is_new);
