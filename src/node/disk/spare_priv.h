/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#define DISK_SPARES "spare" /* of the pool */

/* See struct diskpool_ops. */
bool spare_keep(const char *path);
bool spare_reuse(const char *path);
