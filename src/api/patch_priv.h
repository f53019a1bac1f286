/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/patch.h"

/*
 * A patch may ask for much work with few bytes: a search for each of many members, a copy of a
 * copy. Each kind of patch draws on one allowance and stops with ERR_TOO_LARGE when it is used up.
 */
struct patch_work {
	struct json_doc *d;
	uint64_t left; /* members and elements still to be looked at */
	bool over;     /* something was refused */
};

/* Deducts steps from the allowance. False: not enough is left. */
bool patch_affords(struct patch_work *w, uint64_t steps);

must_use struct err *patch_spend(struct patch_work *w, uint64_t steps);

must_use struct err *patch_json(struct patch_work *w, const struct json *patch);
must_use struct err *patch_merge(struct patch_work *w, const struct json *patch);
must_use struct err *patch_strategic(struct patch_work *w, const struct json *patch,
				     const struct type *t);
