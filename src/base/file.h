/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Files: reading them whole with a limit, writing them atomically, and opening paths below a
 * directory that an attacker may write to. All descriptors are CLOEXEC. These functions block: call
 * them from jobs, at startup, or on small local files.
 */
/*
 * *ret is NUL-terminated and malloc'd. A file longer than max bytes is ERR_TOO_LARGE. dirfd may be
 * AT_FDCWD.
 */
must_use struct err *file_read(int dirfd, const char *path, size_t max, char **ret,
			       size_t *ret_len);
/*
 * The file is written next to path, synced, and renamed over it: readers see either the old content
 * or the new.
 */
must_use struct err *file_write_atomic(int dirfd, const char *path, const void *data, size_t len,
				       mode_t mode);
/* The same without waiting for a disk, and for the owner alone: for what need not outlive the
 * host's run. Nobody else writes there meanwhile. */
must_use struct err *file_replace(int dirfd, const char *path, const void *data, size_t len);
/* For /proc, cgroups. */
must_use struct err *file_write(int dirfd, const char *path, const char *text);
must_use struct err *file_mkdirs(const char *path, mode_t mode);
/*
 * Removes path and everything below it without following links or crossing mounts; it need not
 * exist.
 */
must_use struct err *file_remove_tree(int dirfd, const char *path);
/* openat2 with RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS below root. */
must_use struct err *file_open_in_root(int root, const char *path, int flags, mode_t mode,
				       int *ret);
/*
 * The same with RESOLVE_BENEATH: a path that escapes is an error instead of being resolved inside
 * the root.
 */
must_use struct err *file_open_beneath(int root, const char *path, int flags, mode_t mode,
				       int *ret);
bool file_exists(int dirfd, const char *path);
/* The path from "/" on, without links as far as it exists. One that cannot be followed stays as it
 * is: whoever opens it says why. malloc'd. */
char *file_resolve(const char *path);
must_use struct err *fd_write_all(int fd, const void *data, size_t len);
must_use struct err *fd_set_nonblock(int fd);
