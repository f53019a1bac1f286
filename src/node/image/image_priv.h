/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crypto/crypto.h"
#include "node/image/image.h"

/* host.c: create the roots of the built-in images where they are missing. *ret_dir is the root. */
must_use struct err *image_make_host(const char *data_dir, char **ret_dir);
must_use struct err *image_make_pause(const char *data_dir, char **ret_dir);

/* How a root file system is read in: its limits, and where progress is reported. */
struct layer_job {
	uint64_t max_bytes, max_entries; /* 0: the defaults */
	bool public_only;                /* copy.c: leave out what not everybody may read */
	void (*progress)(void *arg, const char *what, unsigned long long done); /* or NULL */
	void *arg;
};
struct layer_done {
	uint64_t bytes, entries;
	char digest[DIGEST_TEXT_LEN];
};

/* layer.c: reads foreign bytes. Unpacks a tar (plain, gz, xz, zst, bz2) below root, which is an
 * empty directory, and never writes outside it. The digest is that of the file as it is. */
must_use struct err *layer_unpack(int fd, int root, const struct layer_job *job,
				  struct layer_done *ret);
/* The same from memory, for tests. */
must_use struct err *layer_unpack_bytes(const void *p, size_t len, int root,
					const struct layer_job *job, struct layer_done *ret);
/* copy.c: copies a directory tree; the digest is of names, modes and contents in order. */
must_use struct err *layer_copy_dir(int from, int root, const struct layer_job *job,
				    struct layer_done *ret);

/* layer.c: the owner that a file of an image gets: ids beyond a slot's range become nobody's. */
uint32_t layer_owner(int64_t id);

/* layer.c: the job with its defaults filled in; NULL is fine. */
struct layer_job layer_job_of(const struct layer_job *job);
must_use struct err *layer_too_many_bytes(const struct layer_job *job);
must_use struct err *layer_too_many_entries(const struct layer_job *job);
