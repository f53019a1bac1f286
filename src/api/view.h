/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct json;
struct object;

/*
 * Typed views: what the roles read of an object, as a C struct with the rules about it already
 * applied. The kind says how its view is decoded (kind.h). A view is decoded when an object is
 * first asked for it, and lives as long as the object. Views are for the loop's thread alone.
 *
 * Strings and trees in a view are borrowed from the object. A tree that never passed validation
 * decodes too: what has the wrong type counts as absent.
 */
struct view_type {
	size_t size;
	void (*decode)(const struct object *o, void *view); /* into a zeroed struct of that size */
	void (*done)(void *view); /* NULL: the view owns nothing but itself */
};

/* Who controls an object: the owner reference with controller: true. */
enum owner_type {
	OWNER_NONE,
	OWNER_SANDBOX,
	OWNER_TEMPLATE,
	OWNER_POOL,
	OWNER_CLAIM,
	OWNER_OTHER, /* of another kind, or of another group's kind of the same name */
	OWNER_TYPE_MAX_,
};
struct owner_view {
	enum owner_type type;          /* of any version */
	const char *kind, *name, *uid; /* "" when absent; NULL without a controller */
	bool extension;                /* of the group of templates, pools and claims */
};
struct owner_view owner_view_of(const struct object *o);

/* One condition of a status. */
struct condition_view {
	const struct json *tree;          /* NULL: absent, and so is everything else */
	const char *status, *reason;      /* "" when absent */
	const char *message, *transition; /* NULL when absent */
	int64_t observed_generation;
	bool is_true;
};
struct condition_view condition_view_of(const struct json *conditions, const char *type);

/* What templates and Sandboxes have in common. */
struct blueprint_view {
	const struct json *pod_template, *pod_metadata, *pod_spec;
	const struct json *volume_templates, *service;
};
struct blueprint_view blueprint_view_of(const struct object *o);
const char *volume_template_name(const struct json *t); /* of volume_templates; "": none */

usec view_created(const struct object *o);
usec view_time(const char *text); /* 0: none, or not a time */
