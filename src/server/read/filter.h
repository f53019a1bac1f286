/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct call;
struct object;
struct selector;

/* What a list, a watch or a deletion of many selects. */
struct filter {
	struct selector *labels, *fields; /* owned; NULL: all */
	struct buf prefix;                /* of keys */
	bool exact;                       /* prefix is one whole key */
};
must_use struct err *filter_init(struct filter *f, struct call *c);
bool filter_matches(const struct filter *f, const struct object *o);
void filter_done(struct filter *f);
