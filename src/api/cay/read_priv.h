/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/arena.h"
#include "base/clock.h"
#include "json/json.h"

/* How the views of this room read trees that may never have been validated. */

const char *read_text(const struct json *obj, const char *key); /* "": absent */
/* The texts of a list, borrowed; ends with NULL. Absent: otherwise, which may be NULL. */
const char *const *read_texts(const struct json *list, struct arena *a,
			      const char *const *otherwise);
usec read_duration(const struct json *obj, const char *key, usec otherwise);
/* The place of a text among names (ends with NULL); otherwise, if it is none of them. */
int read_word(const struct json *obj, const char *key, const char *const *names, int otherwise);
