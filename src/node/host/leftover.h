/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * What a process makes on the host for a moment is named after it, "<prefix><pid>". If it is killed
 * before it can remove that, whoever comes next knows by the name that nobody else will.
 */
bool is_leftover(const char *name, const char *prefix); /* of a process that is gone */
/* The directories of that name in dir. Others may be able to write there too: what is not root's,
 * or is open to others, stays. */
void leftovers_remove(const char *dir, const char *prefix);
