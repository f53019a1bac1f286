/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct arena;
struct buf;

/* What is written down of the addresses that are held: <data_dir>/node/holds.json. */
struct hold_record {
	const char *uid, *ns, *name; /* of the Sandbox */
	const char *address;         /* of IPv4: that of IPv6 has the same place */
	int64_t since;               /* wall clock */
};
struct hold_file {
	struct hold_record *holds;
	size_t n_holds;
};

char *hold_file_path(const char *data_dir); /* malloc'd */
void hold_file_text(const struct hold_file *f, struct buf *out);
/* In the arena. A file that is not there has no holds. ERR_MALFORMED, ERR_TOO_LARGE */
must_use struct err *hold_file_read(const char *path, struct arena *a, struct hold_file *ret);
