/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/object.h"
#include "json/json.h"

/*
 * The parts that the documents of all controllers share.
 */

/* The root of a new object, with apiVersion and kind. */
struct json *draft_root(struct json_doc *d, const char *api_version, const char *kind);
/* metadata of an object that controller owns, in its namespace; put under root. name NULL: the
 * caller sets generateName. */
struct json *draft_meta(struct json_doc *d, struct json *root, const char *name,
			const struct object *controller);
/* Lets a patch apply only to o, and to nobody else's object that took its name. */
void draft_guard_uid(struct json_doc *d, struct json *meta, const struct object *o);
/* Lets a patch apply only if o is still the object that we saw, at the same revision. */
void draft_guard(struct json_doc *d, struct json *meta, const struct object *o);
/* Makes controller, which must not be there yet, one more of the owners of o. The patch is guarded:
 * of several that would control o, one gets it. */
void draft_adopt(struct json_doc *d, struct json *meta, const struct object *o,
		 const struct object *controller);

/* A new doc with a copy of the object's status, or with an empty one. */
struct json_doc *draft_status(const struct object *o);
/* A count of a status, which is left out when it is 0. */
void draft_count(struct json_doc *d, struct json *status, const char *name, int64_t n);
/* The merge patch that turns the object's status into want, good for this object (its uid) only;
 * NULL when they mean the same. */
struct json_doc *draft_status_patch(const struct object *o, const struct json *want);
