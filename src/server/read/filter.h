/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct call;
struct list_options;
struct object;
struct selector;

/* What a list, a watch or a deletion of many selects. */
struct filter {
	struct selector *labels, *fields; /* owned; NULL: all */
	struct buf prefix;                /* of keys */
	bool exact;                       /* prefix is one whole key */
};
must_use struct err *filter_init(struct filter *f, struct call *c, const struct list_options *o);
/* The version that a read asks for, which must not be newer than what there is. Leaves *ret alone
 * if it asks for none. */
must_use struct err *version_read(struct call *c, const char *text, uint64_t newest, uint64_t *ret);
bool filter_matches(const struct filter *f, const struct object *o);
void filter_done(struct filter *f);
