/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "json/json.h"

struct bytes;
struct kind;
struct view_type;

/*
 * An API object: an immutable, counted JSON tree of a known kind, at one resourceVersion. Any
 * thread may read it; object_text() and object_view() keep what they make, so they are for one
 * thread at a time.
 */
struct object {
	_Atomic unsigned refs;
	const struct kind *kind; /* a reference */
	struct json_doc *doc;
	struct json *root;
	struct bytes *text;          /* encoded form, made once by object_text() */
	void *view;                  /* made once by object_view() */
	uint64_t rev;                /* resourceVersion, 0 when none */
	uint32_t item_len;           /* of its item in a list in protobuf; 0: not known yet */
	bool settled;                /* it was decoded, completed and checked as its kind is now */
	const char *ns, *name, *uid; /* in the tree; "" when absent */
};

/* Takes a reference to kind and takes doc over; its root must be an object (assert). Nothing may
 * change the tree afterwards. */
struct object *object_new(const struct kind *kind, struct json_doc *doc);
struct object *object_ref(struct object *o);
void object_unref(struct object *o);
AUTOREF(object)
size_t object_mem(const struct object *o); /* roughly the bytes of tree and view, not of the text */
struct bytes *object_text(struct object *o); /* borrowed */
/* The view of its kind, which must be of this type (assert). It ends with the object. */
const void *object_view(const struct object *o, const struct view_type *type);
/* A new doc that holds a copy of the tree, for changing. */
struct json_doc *object_edit(const struct object *o);
/*
 * A new doc that holds the tree, for changing into the next state of the object: see json_own().
 * What is still shared with a settled object (json_same()) need not be looked at again.
 */
struct json_doc *object_next(const struct object *o);

const char *object_label(const struct object *o, const char *key);      /* NULL when absent */
const char *object_annotation(const struct object *o, const char *key); /* NULL when absent */
bool object_deleting(const struct object *o); /* has a deletionTimestamp */
int64_t object_generation(const struct object *o);
struct json *object_spec(const struct object *o);
struct json *object_status(const struct object *o);
/* The ownerReference with controller: true, or NULL. */
struct json *object_controller(const struct object *o);
bool object_controlled_by(const struct object *o, const char *uid);
/* Group of an apiVersion ("" for core), copied into ret. */
void api_version_group(const char *api_version, char *ret, size_t size);
