/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/object.h"
#include "json/json.h"
#include "test.h"

struct kind;

/* JSON with ' for ", which C strings cannot hold as nicely. */
struct json_doc *doc_of(const char *text);
struct object *object_of(const struct kind *kind, const char *text);
struct object *object_of_f(const struct kind *kind, const char *fmt, ...) printf_like(2, 3);

/* The tree is equal to the text. */
void eq_json_at(const struct json *v, const char *text, const char *file, int line);
#define eq_json(v, text) eq_json_at((v), (text), __FILE__, __LINE__)
/* "status/reason/message" of a condition, or "-" when it is absent. */
const char *condition_text(const struct json *status, const char *type);
