/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "json/json.h"

struct buf;

/*
 * YAML in and out as JSON trees, by the rules that Kubernetes manifests follow: core schema
 * scalars, no tags, anchors resolved with a limit, duplicate keys refused.
 */
/* Exactly one document. */
must_use struct err *yaml_parse_one(const char *text, size_t len, struct json_doc **ret);
/* Every document, as a list; empty ones are left out. */
must_use struct err *yaml_parse_all(const char *text, size_t len, struct json_doc **ret);
/* Block style; strings are quoted where they would read as something else. */
void yaml_write(const struct json *v, struct buf *out);
