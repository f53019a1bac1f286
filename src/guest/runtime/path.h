/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The directory that paths are confined to. A path is relative to it, even if it begins with
 * slashes; links are followed as long as they stay inside.
 */
struct base {
	int fd;
	char *real, *given;
};

must_use struct err *base_open(const char *path, struct base *ret);
void base_done(struct base *b);
/*
 * *ret: the same file without links, "." and ".."; it need not exist. An escape is ERR_FORBIDDEN.
 */
must_use struct err *path_resolve(const struct base *b, const char *path, char **ret);
/* Resolves and opens; if the path changes in the meantime, it still cannot lead outside. */
must_use struct err *path_open(const struct base *b, const char *path, int flags, int *ret);
/*
 * Cleans a path by its text alone, as sandboxd does: relative to the base, even if it begins with
 * the base's own path; "" is the base. ".." beyond the base is ERR_FORBIDDEN, but not in a path
 * that begins with a slash.
 */
must_use struct err *path_clean(const struct base *b, const char *path, char **ret);
/*
 * Where to put a file: the directory, created if it is missing, and the name in it, malloc'd.
 * ERR_INVALID: the path is the base itself.
 */
must_use struct err *path_place(const struct base *b, const char *path, int *ret_dir,
				char **ret_name);
/*
 * The directory that has an entry, and its name in it; if the entry is a link, that of the link.
 * path is clean and not "".
 */
must_use struct err *path_entry(const struct base *b, const char *path, int *ret_dir,
				char **ret_name);
/*
 * Enters every directory of a plain path but the last name, creating those that are missing, and
 * never through a link: that is ENOTDIR or ELOOP. *ret_name is that name, in plain.
 */
must_use struct err *path_descend(int from, const char *plain, int *ret_dir, const char **ret_name);
/* Creates missing directories, then the file; an existing one is truncated. */
must_use struct err *path_create(const struct base *b, const char *path, int *ret);
