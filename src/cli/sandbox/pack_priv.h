/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/tar.h"

/* Files as archives, for `cay cp`: what a sandbox sends is not trusted. */

/*
 * pack.c: a local file or directory as an archive, piece by piece. Entries are called name and
 * name/…; "." makes the contents of a directory the top.
 */
struct pack;
must_use struct err *pack_open(const char *path, const char *name, bool recursive,
			       struct pack **ret);
void pack_free(struct pack *p);
AUTOPTR(pack)
/* Adds up to about 64 KiB. *ret_more false: that was the end. */
must_use struct err *pack_next(struct pack *p, struct buf *out, bool *ret_more);

/*
 * unpack.c: writes what a sandbox sends below a directory, and nowhere else. The archive holds
 * `from` and from/…, which become name and name/…; "." as in pack.c.
 */
struct unpack;
struct unpack_spec {
	const char *dir; /* exists */
	const char *from, *name;
	bool recursive;
};
must_use struct err *unpack_open(const struct unpack_spec *spec, struct unpack **ret);
void unpack_free(struct unpack *u); /* what is not complete is removed */
AUTOPTR(unpack)
extern const struct tar_events unpack_events;    /* arg: the struct unpack */
size_t unpack_n_refused(const struct unpack *u); /* entries left out, each of them reported */
size_t unpack_n_entries(const struct unpack *u);
