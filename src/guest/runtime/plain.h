/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/*
 * Opens a path, below dir or absolute, in which no name is a link or "..": one name after the
 * other, for kernels that do not know openat2() (gVisor's). -1 with errno: ELOOP or ENOTDIR for a
 * link.
 */
int plain_open(int dir, const char *path, int flags, mode_t mode);
