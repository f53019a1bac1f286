/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* POSIX quoting without a shell, like Python's shlex. *ret is NULL-terminated and malloc'd. */
must_use struct err *words_split(const char *text, char ***ret);
void words_free(char **words);
/*
 * True for a command that dash, bash and busybox would only split at its spaces and execute: its
 * first word names a program, and no character has a meaning to any of them.
 */
bool words_plain(const char *text);
