/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/mem.h"

/*
 * The files of a volume that is made from objects, gathered first and then written as a whole, in
 * the layout that Kubernetes documents:
 *
 *   <dir>/..2/d/file           the files of the second version
 *   <dir>/..data -> ..2        the version that counts: one rename changes all files at once
 *   <dir>/d -> ..data/d        what a program opens
 *
 * The version before the present one stays, so that whoever has just opened its directory can read
 * on. A volume is written by us alone, and mounted read-only.
 */
enum {
	PAYLOAD_BYTES_MAX = 8 * 1024 * 1024,
	PAYLOAD_FILES_MAX = 4096,
};

struct payload_file {
	char *path;
	mode_t mode;
	uid_t uid; /* whose it is, as the sandbox sees it */
	gid_t gid;
	void *data;
	size_t len;
};

struct payload {
	struct payload_file *files;
	size_t n, bytes;
};

void payload_done(struct payload *p);
#define autopayload __attribute__((cleanup(payload_done))) struct payload

/* A later file of the same path takes the place of an earlier one. ERR_INVALID: the path is not one
 * below the volume. ERR_UNAVAILABLE: the volume would hold too much. */
must_use struct err *payload_add(struct payload *p, const char *path, mode_t mode, const void *data,
				 size_t len);
/* The file that was added last belongs to uid. */
void payload_own(struct payload *p, uid_t uid);
/* All files belong to the group, which may read them. */
void payload_share(struct payload *p, gid_t gid);
/* Makes the files those of dir, which exists; nothing happens if they are already. sum: the file in
 * which we keep what was written last, outside of dir. ERR_EXHAUSTED: memory for another version is
 * short; the present one stays. */
must_use struct err *payload_write(const struct payload *p, const char *dir, const char *sum);
