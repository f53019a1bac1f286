/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "json/json.h"

struct type;

/*
 * Patches. Each changes the tree at d's root in place; after an error the doc is unusable and must
 * be dropped. ERR_MALFORMED: the patch itself is broken; ERR_INVALID: it does not fit the object
 * (a failed JSON Patch test).
 */
enum patch_type {
	PATCH_JSON,      /* RFC 6902 */
	PATCH_MERGE,     /* RFC 7386 */
	PATCH_STRATEGIC, /* Kubernetes: $patch, $deleteFromPrimitiveList, $setElementOrder,
			    $retainKeys, merge keys from the schema */
	PATCH_APPLY,     /* server-side apply, which needs more than the tree: api/apply */
	PATCH_TYPE_MAX_,
};

const char *patch_media_type(enum patch_type t);
/* By media type, parameters ignored. ERR_MEDIA_TYPE. */
must_use struct err *patch_type_of(const char *content_type, enum patch_type *ret);
must_use struct err *patch_apply(enum patch_type how, struct json_doc *d, const struct json *patch,
				 const struct type *t);
