/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

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
