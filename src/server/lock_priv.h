/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* One server for each data directory. ERR_CONFLICT: another one has it. */
must_use struct err *lock_take(const char *data_dir, const char *address, int *ret_fd);
void lock_tell(int fd, const char *address); /* records the address, once it is known */
