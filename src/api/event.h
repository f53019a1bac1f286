/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "json/json.h"

struct object;

/*
 * What Events have in common, whichever group's they are.
 */

/* The name of one about an object: the object's, with a random suffix. */
struct json *event_name(struct json_doc *d, const char *about);
/* The text, cut at 1024 bytes, the API's limit. */
struct json *event_text(struct json_doc *d, const char *text);
/* The reference to the object that it is about. */
struct json *event_about(struct json_doc *d, const struct object *about);

/* An Event of the group "", as the node writes it. */
struct node_event {
	const struct object *about;
	bool warning;
	const char *reason, *message;
	const char *node;
	usec now;
};
struct json_doc *node_event_doc(const struct node_event *e); /* the caller's */
/* Where it is written to: what has no namespace of its own is told of in "default". */
const char *node_event_ns(const struct object *about);
